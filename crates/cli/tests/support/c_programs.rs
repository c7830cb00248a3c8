// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs of this folder's `c`, with the C library.
use crate::support::lacks;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `c/NAME.c` into `dir`. `None`, and said, without a C compiler.
pub(crate) fn program(name: &str, dir: &Path) -> Option<PathBuf> {
    let cc = Command::new("cc").arg("--version").output();
    if !cc.is_ok_and(|out| out.status.success()) {
        lacks("a C compiler (cc)");
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_BIN_EXE_alcc")).parent().unwrap();
    // Not a dependency: it may be there from an earlier build, or not at all.
    if std::env::var_os("ALCC_BUILT").is_none() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "-p", "alcc-capi"]);
        assert!(cargo.current_dir(&root).status().unwrap().success());
    }
    let program = dir.join(name);
    let out = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("crates/runtime/capi/include"))
        .arg(root.join(format!("crates/cli/tests/c/{name}.c")))
        .arg(target.join("libalcc.a"))
        .args([
            "-lgcc_s",
            "-lutil",
            "-lrt",
            "-lpthread",
            "-lm",
            "-ldl",
            "-o",
        ])
        .arg(&program)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    Some(program)
}
