// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module per command: its arguments (which are also its help, man page and completions) and
//! its `run`.
pub(crate) mod bundle;
pub(crate) mod compare;
pub(crate) mod demo;
pub(crate) mod emulate;
pub(crate) mod generate;
pub(crate) mod list;
pub(crate) mod mdi;
pub(crate) mod reproduce;
pub(crate) mod sim;
pub(crate) mod study;
pub(crate) mod sweep;
pub(crate) mod trace;
pub(crate) mod worst;

/// A file that is read as a whole. Results of some thousand runs have a MiB.
pub(crate) fn read_text(path: &std::path::Path) -> std::io::Result<String> {
    std::fs::File::open(path).and_then(|file| alcc_units::read_bounded(file, 32))
}
