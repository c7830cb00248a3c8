// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `--plugin` of a command line: algorithms written in C.
use crate::failure::Failure;
use crate::trusted::warn_of_writers;
use alcc_cc::Registry;
use std::ffi::OsString;
use std::path::PathBuf;

/// Flattened into every command that takes algorithms.
#[derive(clap::Args)]
pub struct Plugins {
    /// Load an algorithm from this shared object; may be repeated
    ///
    /// See docs/writing-an-algorithm-in-c.md.
    #[arg(
        hide_short_help = true,
        long = "plugin",
        value_name = "FILE.so",
        env = alcc_plugin::ENV,
        hide_env_values = true,
        value_delimiter = ':'
    )]
    files: Vec<PathBuf>,
}

impl Plugins {
    /// The algorithms of a program and these.
    pub fn registry(&self, own: Registry) -> Result<Registry, Failure> {
        let files = self.files();
        files.iter().for_each(|file| warn_of_writers(file));
        alcc_plugin::with_files(own, files).map_err(Failure::usage)
    }

    /// True if no plug-in was given.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Value of the variable `ALCC_PLUGIN` for the processes that `alcc run` starts.
    pub fn env_value(&self) -> Option<OsString> {
        alcc_plugin::env_value(self.files())
    }

    /// The files. A name without a folder that is not here may be that of an installed plug-in:
    /// beside the program, or in its ../lib/alcc.
    pub fn files(&self) -> Vec<PathBuf> {
        let found = |file: &PathBuf| {
            let is_name = file.file_name() == Some(file.as_os_str()) && !file.exists();
            let installed = is_name.then(|| alcc_sys::installed(file)).flatten();
            installed.unwrap_or_else(|| file.clone())
        };
        self.files.iter().map(found).collect()
    }
}
