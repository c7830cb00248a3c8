// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A static server in Go, which nothing can be preloaded into.
use std::path::Path;
use std::process::Command;

/// Builds it. False, and said: there is no Go.
pub(crate) fn server(program: &Path) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = Command::new("go")
        .args(["build", "-o"])
        .arg(program)
        .arg(root.join("alcc/cli/tests/go/server.go"))
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "local")
        .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"))
        .output();
    let Ok(made) = made else {
        crate::lacks("go (run scripts/setup test)");
        return false;
    };
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    true
}
