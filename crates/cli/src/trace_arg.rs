// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TRACE of a command line: a file, or the name of a synthetic scenario.
use crate::failure::{Failure, reason};
pub(crate) use alcc_lab::scenario::LinkTrace;
use alcc_trace::{SCENARIOS, Scenario, Trace, TraceError, scenario};
use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// What help texts say about a TRACE.
pub(crate) const TRACE_HELP: &str = "TRACE is a Mahimahi file, or a synthetic scenario such as city-driving or synth:city-driving (alcc trace synth lists them)";

/// Reads the file `arg`, or generates the scenario of that name (`synth:NAME`, or `NAME` if no such file exists) with
/// `seed` in its usual length. The error is one line that says what was found, and for a missing file which scenarios
/// there are.
pub(crate) fn load_link_trace(
    arg: &(impl AsRef<OsStr> + ?Sized),
    seed: u64,
) -> Result<LinkTrace, Failure> {
    let arg = arg.as_ref();
    let shown = arg.to_string_lossy();
    if let Some(name) = shown.strip_prefix("synth:") {
        return Ok(synthetic(find_scenario(name)?, seed));
    }
    let file = match File::open(arg) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return scenario(&shown).map(|s| synthetic(s, seed)).ok_or_else(|| {
                Failure::usage(format!(
                    "open trace {shown}: no such file, and no scenario of that name: scenarios are {}",
                    scenario_names()
                ))
            });
        }
        Err(e) => {
            return Err(Failure::usage(format!(
                "open trace {shown}: {}",
                reason(&e)
            )));
        }
    };
    let trace = Trace::read(BufReader::new(file)).map_err(|e| {
        let why = match &e {
            TraceError::Read { source, .. } => reason(source),
            _ => e.to_string(),
        };
        Failure::usage(format!("read trace {shown}: {why}"))
    })?;
    let name = Path::new(arg).file_name().unwrap_or(arg);
    let name = name.to_string_lossy().into_owned();
    Ok(LinkTrace {
        name,
        trace,
        recorded: true,
    })
}

/// The scenario of this name, or an error that lists them.
pub(crate) fn find_scenario(name: &str) -> Result<&'static Scenario, Failure> {
    scenario(name).ok_or_else(|| {
        Failure::usage(format!(
            "synthetic trace '{name}': no scenario of that name: scenarios are {}",
            scenario_names()
        ))
    })
}

fn synthetic(scenario: &Scenario, seed: u64) -> LinkTrace {
    LinkTrace {
        name: format!("synth:{}", scenario.name),
        trace: scenario.generate(seed, Scenario::LENGTH),
        recorded: false,
    }
}

fn scenario_names() -> String {
    let names: Vec<_> = SCENARIOS.iter().map(|s| s.name).collect();
    names.join(", ")
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
