// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs of this folder's `c`. Where there is no compiler (scripts/test-kernel) they are in the
//! folder that `ALCC_C_PROGRAMS` names.
#![allow(dead_code, reason = "each test file uses its part")]
#[path = "root.rs"]
mod root;

use crate::support::lacks;
use root::root;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `c/NAME.c`, compiled into `dir`. `None`, and said, without a C compiler.
pub(crate) fn plain(name: &str, dir: &Path) -> Option<PathBuf> {
    compiled(name, dir, Vec::new)
}

/// The same, which needs nothing of the machine that it runs on.
pub(crate) fn fixed(name: &str, dir: &Path) -> Option<PathBuf> {
    compiled(name, dir, || vec!["-static".into()])
}

/// The same as an algorithm for `--plugin`.
pub(crate) fn plugin(name: &str, dir: &Path) -> Option<PathBuf> {
    compiled(name, dir, || {
        let include = root().join("alcc/capi/include");
        vec![
            "-shared".into(),
            "-fPIC".into(),
            "-I".into(),
            include.into(),
        ]
    })
}

/// The same with the C library.
pub(crate) fn with_the_library(name: &str, dir: &Path) -> Option<PathBuf> {
    compiled(name, dir, || {
        let target = Path::new(env!("CARGO_BIN_EXE_alcc")).parent().unwrap();
        // Not a dependency: it may be there from an earlier build, or not at all.
        if std::env::var_os("ALCC_BUILT").is_none() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--locked", "-p", "alcc-capi"]);
            assert!(cargo.current_dir(root()).status().unwrap().success());
        }
        let mut more: Vec<OsString> = vec!["-I".into()];
        more.push(root().join("alcc/capi/include").into());
        more.push(target.join("libalcc.a").into());
        let libraries = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
        more.extend(libraries.map(OsString::from));
        more
    })
}

fn compiled(name: &str, dir: &Path, more: impl FnOnce() -> Vec<OsString>) -> Option<PathBuf> {
    if let Some(before) = std::env::var_os("ALCC_C_PROGRAMS") {
        return Some(Path::new(&before).join(name));
    }
    let source = root().join(format!("alcc/cli/tests/c/{name}.c"));
    cc(&source, dir, more)
}

/// This text, compiled into `dir`. `None`, and said, without a C compiler.
pub(crate) fn of(text: &str, dir: &Path) -> Option<PathBuf> {
    let source = dir.join("program.c");
    std::fs::write(&source, text).unwrap();
    cc(&source, dir, Vec::new)
}

fn cc(source: &Path, dir: &Path, more: impl FnOnce() -> Vec<OsString>) -> Option<PathBuf> {
    let cc = Command::new("cc").arg("--version").output();
    if !cc.is_ok_and(|out| out.status.success()) {
        lacks("a C compiler (cc)");
        return None;
    }
    let program = dir.join(source.file_stem().unwrap());
    let out = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"])
        .arg(source)
        .args(more())
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    Some(program)
}
