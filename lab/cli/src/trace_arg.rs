// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TRACE of a command line: a file, or the name of a synthetic scenario.
use crate::failure::Failure;
pub(crate) use alcc_results::scenario::LinkTrace;
use alcc_results::scenario::{open_trace, synthetic};
use alcc_trace::Scenario;
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

/// The help text about a TRACE.
pub(crate) const TRACE_HELP: &str = "TRACE is a Mahimahi file, or a synthetic scenario such as city-driving or synth:city-driving (alcc-lab trace synth lists them)";

/// [`open_trace`] of the file `arg`.
pub(crate) fn load_link_trace(
    arg: &(impl AsRef<OsStr> + ?Sized),
    seed: u64,
) -> Result<LinkTrace, Failure> {
    let arg = arg.as_ref();
    open_trace(&arg.to_string_lossy(), seed, || File::open(arg)).map_err(Failure::usage)
}

/// Sees that the folder of the recorded traces, as an option names it, is one.
pub(crate) fn is_folder(traces: &Path) -> Result<(), Failure> {
    if traces.is_dir() {
        return Ok(());
    }
    let found = if traces.exists() {
        "it is a file: name a folder of traces"
    } else {
        "no such folder: see docs/traces.md for the traces"
    };
    Err(Failure::usage(format!(
        "--traces {}: {found}",
        traces.display()
    )))
}

/// The scenario of this name, or an error that lists them.
pub(crate) fn find_scenario(name: &str) -> Result<&'static Scenario, Failure> {
    synthetic(name).map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_by_either_name() {
        let bare = load_link_trace("city-driving", 1).unwrap();
        let prefixed = load_link_trace("synth:city-driving", 1).unwrap();
        assert_eq!(bare.name, "synth:city-driving");
        assert_eq!(bare.trace, prefixed.trace);
    }

    #[test]
    fn a_missing_file_names_the_scenarios() {
        let error = load_link_trace("no/such/file", 1).unwrap_err().to_string();
        assert!(
            error.starts_with("open trace no/such/file: no such file"),
            "{error}"
        );
        assert!(error.contains("city-driving"), "{error}");
        assert!(load_link_trace("synth:nowhere", 1).is_err());
        assert!(load_link_trace("/", 1).is_err());
    }
}
