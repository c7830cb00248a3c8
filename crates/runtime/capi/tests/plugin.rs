// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm written in C, for the connections of a program that uses the library.
mod support;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{command, no_compiler, program, root, run};

/// The example of docs/writing-an-algorithm-in-c.md.
fn example(folder: &Path) -> PathBuf {
    let file = folder.join("aimd.so");
    let built = Command::new("cc")
        .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-I"])
        .arg(root().join("crates/runtime/capi/include"))
        .arg("-o")
        .arg(&file)
        .arg(root().join("crates/runtime/plugin/examples/aimd.c"))
        .status()
        .unwrap();
    assert!(built.success());
    file
}

#[test]
fn loaded_by_the_program_or_by_the_environment() {
    if no_compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = example(folder.path());
    let test = program("plugin");
    run(command(&test).arg(&file).arg("aimd:beta=0.7"));
    run(command(&test).args(["-", "aimd"]).env("ALCC_PLUGIN", &file));
}
