// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The properties of a program of this project: its algorithms and transports, and hints for its
//! command line.
use crate::failure::{Failure, exit_code};
use crate::output;
use crate::usage::{Hint, Idle};
use alcc_cc::Registry;
use alcc_pipe::Table;
use std::fmt::Display;
use std::process::ExitCode;

/// A program.
pub struct Program {
    /// Its name: `alcc`.
    pub name: &'static str,
    /// Its algorithms, without those of plug-ins.
    pub algorithms: fn() -> Registry,
    /// Its transports; the first is the default.
    pub transports: &'static Table,
    /// True if this process is on an emulated link, where encryption is not needed.
    pub is_emulated: fn() -> bool,
    /// Known mistakes with options.
    pub hints: &'static [Hint],
    /// Options that have no effect in some combinations.
    pub idle: &'static [Idle],
    /// Commands of the other program.
    pub elsewhere: &'static [&'static str],
    /// The name of the other program.
    pub other: &'static str,
    /// Additional transports of the other program.
    pub other_transports: &'static [&'static str],
}

impl Program {
    /// Prints a note on standard error.
    pub fn note(&self, what: impl Display) {
        output::note(format_args!("{}: {what}", self.name));
    }

    /// Runs `work`, which parses and executes the command line.
    pub fn main(&self, work: impl FnOnce() -> Result<ExitCode, Failure>) -> ExitCode {
        output::panics_are_one_line();
        work().unwrap_or_else(|failure| {
            output::note(output::one_line(&format!("{}: {failure}", self.name)));
            exit_code(&failure)
        })
    }
}
