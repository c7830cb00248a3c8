// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What people do wrong, and what goes wrong around the program: a line that helps, the right exit
//! status, never a panic.
mod disk;
#[path = "../support/port.rs"]
mod port;
mod streams;
#[path = "../support/wait.rs"]
mod wait;
mod words;
mod wrong;

const ALCC: &str = env!("CARGO_BIN_EXE_alcc");
