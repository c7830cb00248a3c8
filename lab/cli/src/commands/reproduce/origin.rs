// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program and the machine of stored results and pages.
use crate::about::whole_command;
use crate::failure::Failure;
use crate::plugin_arg::Plugins;
use alcc_experiment::page::Provenance;
use alcc_experiment::stored;
use alcc_live::parallel::processors;
use std::fs;
use std::path::{Path, PathBuf};

fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|e| {
        Failure::usage(format!(
            "find alcc's executable, which identifies its results: {e}"
        ))
    })
}

/// The build that rows are of.
pub(super) fn build() -> Result<String, Failure> {
    let own = own_program()?;
    let hash = alcc_live::hash_of_files([own.as_path()]);
    Ok(stored::build(&provenance().by, &hash))
}

/// Identifies what results depend on besides the scenarios and their files. Stored runs of another
/// build do not count.
pub(in crate::commands) fn program(plugins: &Plugins) -> Result<String, Failure> {
    let own = own_program()?;
    let files = std::iter::once(own.as_path());
    let plugins = plugins.files();
    let files = files.chain(plugins.iter().map(PathBuf::as_path));
    let hash = alcc_live::hash_of_files(files);
    Ok(format!("alcc {} {hash}", env!("CARGO_PKG_VERSION")))
}

/// The origin of stored results: the same on every machine of a kind.
pub(super) fn provenance() -> Provenance {
    Provenance {
        by: format!("alcc {}", env!("CARGO_PKG_VERSION")),
        on: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        command: whole_command(),
        folder: None,
    }
}

/// The origin of pages, for their foot: this build and this machine.
pub(in crate::commands) fn origin(traces: Option<&Path>) -> Result<Provenance, Failure> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = processors();
    let folder = traces.and_then(|path| fs::canonicalize(path).ok());
    Ok(Provenance {
        by: format!("{}, build {}", build()?, alcc_live::build()),
        on: format!(
            "{} {}, {}, {cores} cores",
            std::env::consts::OS,
            kernel.trim(),
            std::env::consts::ARCH
        ),
        folder: folder.map(|path| path.to_string_lossy().into_owned()),
        ..provenance()
    })
}
