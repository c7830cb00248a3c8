// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `alcc` program, see `lib.rs`.
use std::process::ExitCode;

fn main() -> ExitCode {
    alcc_cli::main()
}
