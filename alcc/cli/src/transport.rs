// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transports on the command line.
use crate::program::Program;
use alcc_pipe::{About, Table, Target, Tls};
use clap::builder::{PossibleValue, PossibleValuesParser};

/// Names and descriptions of the transports.
pub fn names(table: &Table) -> PossibleValuesParser {
    PossibleValuesParser::new(
        table
            .rows()
            .map(|row| PossibleValue::new(row.name).help(row.summary)),
    )
}

/// The default transport.
pub fn default_name(table: &Table) -> &'static str {
    table.rows().next().map_or("", |row| row.name)
}

/// The destination of a sender.
pub(crate) fn receiver(text: &str) -> Result<Target, String> {
    Target::read(text).ok_or_else(|| {
        format!(
            "'{text}' is not the address of a receiver: write host, host:port, 192.0.2.1:9700 or [2001:db8::1]:9700"
        )
    })
}

/// Notes that a transport is not encrypted, where users may not expect that.
pub(crate) fn note_cleartext(program: &Program, about: &About) {
    if about.takes.tls == Tls::Never && !about.is_above_tcp() {
        program.note(format_args!(
            "--transport {} is for measuring: it is not encrypted",
            about.name
        ));
    }
}
