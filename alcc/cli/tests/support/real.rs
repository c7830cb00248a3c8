// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of alcc that start real programs on emulated links.
#[path = "built.rs"]
mod built;
#[path = "lacks.rs"]
mod lacks;
#[path = "root.rs"]
mod root;

use root::root;
use std::process::{Command, Output};

/// Error messages on a machine without the programs, the namespaces or the library.
#[allow(dead_code, reason = "not every test needs a web server")]
pub(crate) const PROGRAMS: &[&str] = &[
    "find nginx",
    "find curl",
    "namespace",
    "device",
    "libalcc_preload",
];

/// `alcc` with these words, in the project's folder: nginx may have been unpacked for us beside the
/// build's output, and tests run in their crate's folder.
pub(crate) fn alcc(words: &[&str]) -> Command {
    let mut command = Command::new(built::program(words[0]));
    command.args(words).current_dir(root());
    command
}

/// Its output; the command must succeed. `None`, with a message, if its error names one of `missing`.
pub(crate) fn done(command: &mut Command, missing: &[&str]) -> Option<Output> {
    let output = command.output().expect("alcc starts");
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = says
        .lines()
        .find(|line| missing.iter().any(|m| line.contains(m)));
    if let (Some(2), Some(line)) = (output.status.code(), found) {
        lacks::lacks(line);
        return None;
    }
    assert!(output.status.success(), "{says}");
    Some(output)
}
