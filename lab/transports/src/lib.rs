// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of transports: a row is all that a new transport's crate needs here.
#![forbid(unsafe_code)]

mod tcp;

use alcc_pipe::Table;

/// All transports of `alcc send`, `alcc recv` and of the names of schemes; the first is the
/// default.
pub static TRANSPORTS: Table = Table(&[
    &tcp::Tcp,
    &alcc_carrier::InBand,
    &alcc_udp::Udp,
    &alcc_quic::Quic,
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_an_unknown_one_is_answered_with_those_there_are() {
        let rows: Vec<_> = TRANSPORTS.rows().collect();
        for (i, row) in rows.iter().enumerate() {
            let others = || rows[..i].iter();
            assert!(others().all(|other| other.name != row.name));
            assert!(others().all(|other| other.suffix != row.suffix));
            assert!(!row.summary.is_empty());
        }
        let why = TRANSPORTS.find("pigeon").err().unwrap().to_string();
        assert!(why.contains("there are tcp, in-band, udp, quic"), "{why}");
    }
}
