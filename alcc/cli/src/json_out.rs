// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::path::{Path, PathBuf};

/// The file for the report of a command whose standard output belongs to the program that it runs, or
/// that runs for weeks. Other commands print JSON with `--json`.
#[derive(clap::Args)]
pub struct JsonOut {
    /// Write a JSON report to FILE at the end
    #[arg(long, value_name = "FILE")]
    json_out: Option<PathBuf>,
    /// Older name of --json-out
    // The equal sign is needed, or `--json ./server` would overwrite the server.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "FILE",
        require_equals = true,
        conflicts_with = "json_out"
    )]
    json: Option<PathBuf>,
}

impl JsonOut {
    pub fn path(&self) -> Option<&Path> {
        self.json_out.as_deref().or(self.json.as_deref())
    }
}
