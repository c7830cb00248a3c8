// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment, as far as it can be trusted.
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// True if this program has rights that its caller lacks (set-user-ID, set-group-ID, file
/// capabilities; `AT_SECURE` of getauxval(3)). The caller controls its environment, and could have
/// files run or written with the program's rights.
pub fn is_privileged() -> bool {
    // SAFETY: returns a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// A variable of the environment. `None` in a program with more rights than its caller.
pub fn variable(name: &str) -> Option<OsString> {
    (!is_privileged()).then(|| std::env::var_os(name))?
}

/// The path of a library of this project: beside the running program, or where a package installs
/// it.
pub fn installed(name: &Path) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    let places = ["", "../lib/alcc", "../lib"].map(|place| folder.join(place).join(name));
    places.into_iter().find(|file| file.is_file())
}
