// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment, where it may be trusted.
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Whether this program has rights that its caller has not (set-user-ID, set-group-ID, file
/// capabilities; `AT_SECURE` of getauxval(3)). Then the environment is the caller's, and what it
/// names would run or be written with the program's rights.
pub fn is_privileged() -> bool {
    // SAFETY: a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// A variable of the environment. In a program with more rights than its caller there are none.
pub fn variable(name: &str) -> Option<OsString> {
    (!is_privileged()).then(|| std::env::var_os(name))?
}

/// A library of this project: beside the running program, or where a package puts it.
pub fn installed(name: &Path) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    let places = ["", "../lib/alcc", "../lib"].map(|place| folder.join(place).join(name));
    places.into_iter().find(|file| file.is_file())
}
