// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of this project, as they were built with the tests.
#![allow(dead_code, reason = "each test file uses its part")]
use std::path::PathBuf;

/// `alcc` or `alcc-lab`. Of two crates one cannot name the other's program.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
    let program = folder.join(name);
    assert!(
        program.is_file(),
        "{} is not there: cargo build -p alcc-cli -p alcc-lab",
        program.display()
    );
    program
}

/// The program with this command. If both have it, this is the product.
pub(crate) fn program(command: &str) -> PathBuf {
    let is_lab = command == "generate" || alcc_cli::ALCC.elsewhere.contains(&command);
    built(if is_lab { "alcc-lab" } else { "alcc" })
}

/// The program of these words: of the commands that both have, some transports are the
/// laboratory's.
pub(crate) fn program_of(words: &[impl AsRef<std::ffi::OsStr>]) -> PathBuf {
    let is_lab = |word: &_| {
        ["udp", "quic"]
            .iter()
            .any(|name| AsRef::as_ref(word) == *name)
    };
    if words.iter().any(is_lab) {
        return built("alcc-lab");
    }
    let first = words.first().and_then(|word| word.as_ref().to_str());
    program(first.unwrap_or_default())
}
