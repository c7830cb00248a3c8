// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands and transfer sizes for tests of the kernel's controls.
#![allow(dead_code, reason = "each test file uses its part")]
use crate::controls::{self, Alone, controls_alone};
use std::process::{Command, Output};

pub(crate) fn command(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
    command.args(args.split(' '));
    command
}

pub(crate) fn alcc(args: &str) -> Output {
    command(args).output().unwrap()
}

/// Its output; the command must succeed.
pub(crate) fn done(args: &str) -> String {
    let out = alcc(args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "alcc {args}: {said}");
    String::from_utf8(out.stdout).unwrap()
}

/// The controls, loaded. `None`: they cannot be.
pub(crate) fn loaded() -> Option<Alone> {
    let alone = controls_alone();
    let load = alcc("bpf load");
    if load.status.code() == Some(2) {
        let said = String::from_utf8_lossy(&load.stderr);
        println!("skipped: needs the right to load BPF programs: {said}");
        return None;
    }
    assert!(load.status.success());
    Some(alone)
}

/// Less where it takes long anyway.
pub(crate) fn bytes() -> usize {
    if controls::slow_machine() {
        2_000_000
    } else {
        4_000_000
    }
}
