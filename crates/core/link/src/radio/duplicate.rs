// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Duplicates: a packet arrives twice, one copy right behind the other. The second takes no capacity.
//!
//! | option | default | source |
//! |---|---|---|
//! | `p` | 1 % of the packets | this project |
use super::{Landing, Radio, RadioKind};
use alcc_units::{OptionDoc, Rng};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "duplicate",
    summary: "packets arrive twice, the copy right behind the packet",
    options: &[OptionDoc {
        name: "p",
        default: "0.01",
        help: "share of packets that arrives twice, 0 to 0.9",
    }],
    build: |options| {
        Ok(Box::new(Duplicate {
            rng: Rng::new(0),
            p: options.real("p", 0.01, 0.0..=0.9)?,
        }))
    },
};

#[derive(Clone, Debug)]
struct Duplicate {
    rng: Rng,
    p: f64,
}

impl Radio for Duplicate {
    fn seed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    fn is_last(&self) -> bool {
        true
    }

    fn lands(&mut self) -> Landing {
        match self.rng.chance(self.p) {
            true => Landing::Twice,
            false => Landing::Whole,
        }
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
