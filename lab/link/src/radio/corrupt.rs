// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Corruption: a packet arrives with wrong bits, so the receiver's checksum discards it.
//!
//! | option | default | source |
//! |---|---|---|
//! | `p` | 1 % of the packets | this project |
use super::{Landing, RadioKind, landings};
use alcc_units::OptionDoc;

pub(super) const RADIO: RadioKind = RadioKind {
    name: "corrupt",
    summary: "packets arrive with wrong bits, and the receiver's checksum discards them",
    options: &[OptionDoc {
        name: "p",
        default: "0.01",
        help: "share of packets that is corrupted, 0 to 0.9",
    }],
    build: |options| landings::build(options, Landing::Corrupt),
};
