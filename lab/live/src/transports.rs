// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transports between two programs of this project.
use alcc_pipe::Table;

/// All transports of `alcc-lab send`, `alcc-lab recv` and of real flows; the first is the
/// default.
pub static TRANSPORTS: Table = Table(&[
    &alcc_udp::Udp,
    &alcc_quic::Quic,
    &alcc_carrier::Tcp,
    &alcc_carrier::InBand,
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
            assert!(!row.summary.is_empty());
            let by = alcc_sim::TRANSPORTS.iter().find(|by| by.name == row.name);
            let flow = by.map(|by| (by.suffix, by.is_above_tcp));
            assert_eq!(flow, Some((row.suffix, row.is_above_tcp())), "in a FLOW");
        }
        let why = TRANSPORTS.find("pigeon").err().unwrap().to_string();
        assert!(why.contains("there are udp, quic, tcp, in-band"), "{why}");
    }
}
