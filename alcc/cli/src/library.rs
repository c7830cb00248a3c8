// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library that is preloaded into a program: its path, and a check that the loader accepts it.
use crate::failure::Failure;
use crate::loader;
use std::os::unix::ffi::OsStrExt;
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
                "ALCC_PRELOAD names {}, which does not exist",
                named.display()
            )))
        };
    }
    alcc_sys::installed(Path::new(NAME)).ok_or_else(|| {
        let program = std::env::current_exe().unwrap_or_default();
        Failure::usage(format!(
            "{NAME} is not beside {} nor in ../lib/alcc: {}, or name it in ALCC_PRELOAD",
            program.display(),
            remedy()
        ))
    })
}

/// The command that builds the library. `None` for an installed program, which may have no sources.
pub(crate) fn made_by() -> Option<&'static str> {
    let program = std::env::current_exe().unwrap_or_default();
    let is_installed = program.parent().is_some_and(|dir| dir.ends_with("bin"));
    (!is_installed).then_some("make build")
}

fn remedy() -> String {
    made_by().map_or_else(
        || "install alcc again".to_owned(),
        |command| format!("run '{command}'"),
    )
}

/// Tests the library with the loader before a server is started. The loader ignores a library that it
/// cannot read, but if the library needs a newer C library, the program does not start at all. The
/// test starts this program with the library, which does nothing without its variables.
pub(crate) fn check(library: &Path) -> Result<(), Failure> {
    // Of LD_PRELOAD (ld.so(8)): there is no way to write them otherwise.
    let path = std::path::absolute(library).unwrap_or_else(|_| library.to_owned());
    if path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b" :".contains(byte))
    {
        return Err(Failure::usage(format!(
            "load {}: the loader accepts no path with a space or a colon: install alcc at another path, or name the library at one in ALCC_PRELOAD",
            path.display()
        )));
    }
    let trial = Command::new("/proc/self/exe")
        .arg("--version")
        .env_clear()
        .envs(loader::environment(library))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output();
    // If no trial is possible, the library is used.
    let Ok(trial) = trial else { return Ok(()) };
    // ERROR: ld.so: object '...' from LD_PRELOAD cannot be preloaded (file too short): ignored. The
    // caller's LD_PRELOAD may name others of which that is said: they are not ours to judge.
    let said = String::from_utf8_lossy(&trial.stderr);
    let ours = library.display().to_string();
    let refused = said.lines().find(|line| line.contains(&ours));
    if trial.status.success() && refused.is_none() {
        return Ok(());
    }
    let line = refused.or_else(|| said.lines().next()).unwrap_or("it ends");
    let why = line
        .rsplit_once('(')
        .and_then(|(_, rest)| rest.split(')').next())
        .unwrap_or(line);
    Err(Failure::usage(format!(
        "load {}: the loader refuses it ({why}): {}, or name another in ALCC_PRELOAD",
        library.display(),
        remedy()
    )))
}
