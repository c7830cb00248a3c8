// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Standard output or a file of the trace commands.
use crate::failure::Failure;
use crate::output::Product;
use std::io::{self, Write};
use std::path::PathBuf;

/// Destination of a command's output.
#[derive(clap::Args)]
pub(super) struct Output {
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    /// Opens the file, or standard output, and lets `write` fill it. A reader that goes away early
    /// is no failure.
    pub(super) fn write(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        Product::open(self.output.as_deref())?.fill(write)?;
        Ok(())
    }
}
