// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Duplicates: a packet arrives twice, one copy directly after the other. The second uses no capacity.
//!
//! | option | default | source |
//! |---|---|---|
//! | `p` | 1 % of the packets | this project |
use super::{Landing, RadioKind, landings};
use alcc_units::OptionDoc;

pub(super) const RADIO: RadioKind = RadioKind {
    name: "duplicate",
    summary: "packets arrive twice, the copy directly after the packet",
    options: &[OptionDoc {
        name: "p",
        default: "0.01",
        help: "share of packets that arrives twice, 0 to 0.9",
    }],
    build: |options| landings::build(options, Landing::Twice),
};
