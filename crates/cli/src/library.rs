// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library that is put under a program: where it is, and whether the loader takes it.
use crate::failure::Failure;
use crate::loader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The library to preload: named by ALCC_PRELOAD, beside the program, or where `make install` puts
/// it.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    const NAME: &str = "libalcc_preload.so";
    if let Some(named) = std::env::var_os("ALCC_PRELOAD").map(PathBuf::from) {
        return if named.is_file() {
            Ok(named)
        } else {
            Err(Failure::usage(format!(
                "ALCC_PRELOAD names {}, which is not there",
                named.display()
            )))
        };
    }
    let program = std::env::current_exe()
        .map_err(|e| Failure::usage(format!("find our own program: {e}")))?;
    let beside = program.parent().unwrap_or_else(|| Path::new("/"));
    let places = [
        beside.join(NAME),
        beside.join("../lib/alcc").join(NAME),
        beside.join("../lib").join(NAME),
    ];
    places.iter().find(|p| p.is_file()).cloned().ok_or_else(|| {
        Failure::usage(format!("{NAME} is not beside {} nor in ../lib/alcc: build it with 'make build', or name it in ALCC_PRELOAD", program.display()))
    })
}

/// Lets the loader judge, before a server is started: it ignores a library that it cannot read, and
/// a program that is told to load one which needs a newer C library does not start at all. The
/// trial is this program with the library under it, which does nothing without its variables.
pub(crate) fn check(library: &Path) -> Result<(), Failure> {
    let trial = Command::new("/proc/self/exe")
        .arg("--version")
        .env_clear()
        .envs(loader::environment(library))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output();
    // If no trial is possible, the library is used.
    let Ok(trial) = trial else { return Ok(()) };
    if trial.status.success() && trial.stderr.is_empty() {
        return Ok(());
    }
    // ERROR: ld.so: object '...' from LD_PRELOAD cannot be preloaded (file too short): ignored.
    let said = String::from_utf8_lossy(&trial.stderr);
    let line = said.lines().next().unwrap_or("it ends");
    let why = line
        .rsplit_once('(')
        .and_then(|(_, rest)| rest.split(')').next())
        .unwrap_or(line);
    Err(Failure::usage(format!(
        "load {}: the loader refuses it ({why}): build or install it again, or name another in ALCC_PRELOAD",
        library.display(),
    )))
}
