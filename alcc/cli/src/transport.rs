// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transports on the command line.
use crate::output::note;
use alcc_pipe::{About, Target, Tls};
use alcc_transports::TRANSPORTS;
use clap::builder::{PossibleValue, PossibleValuesParser};

/// Names and descriptions of the transports.
pub(crate) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(
        TRANSPORTS
            .rows()
            .map(|row| PossibleValue::new(row.name).help(row.summary)),
    )
}

/// The default transport.
pub(crate) fn default_name() -> &'static str {
    TRANSPORTS.rows().next().map_or("", |row| row.name)
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
pub(crate) fn note_cleartext(about: &About) {
    if about.takes.tls == Tls::Never && !about.is_above_tcp() {
        note(format_args!(
            "alcc: --transport {} is for measuring: it is not encrypted",
            about.name
        ));
    }
}
