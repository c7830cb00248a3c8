// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Corruption: bits of a packet are wrong when it arrives, so the receiver's checksum discards it.
//!
//! | option | default | source |
//! |---|---|---|
//! | `p` | 1 % of the packets | this project |
use super::{Landing, Radio, RadioKind};
use alcc_units::{OptionDoc, Rng};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "corrupt",
    summary: "packets arrive with wrong bits, and the receiver's checksum discards them",
    options: &[OptionDoc {
        name: "p",
        default: "0.01",
        help: "share of packets that is corrupted, 0 to 0.9",
    }],
    build: |options| {
        Ok(Box::new(Corrupt {
            rng: Rng::new(0),
            p: options.real("p", 0.01, 0.0..=0.9)?,
        }))
    },
};

#[derive(Clone, Debug)]
struct Corrupt {
    rng: Rng,
    p: f64,
}

impl Radio for Corrupt {
    fn seed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    fn is_last(&self) -> bool {
        true
    }

    fn lands(&mut self) -> Landing {
        match self.rng.chance(self.p) {
            true => Landing::Corrupt,
            false => Landing::Whole,
        }
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
