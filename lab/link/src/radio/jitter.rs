// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jitter: each packet is held for an independent random time. Packets keep their order, so one
//! that is held for less waits for those before it.
//!
//! | option | default | source |
//! |---|---|---|
//! | `most` | 5 ms, evenly distributed from 0 | this project |
use super::{Radio, RadioKind};
use alcc_units::{OptionDoc, Options, Rng, Span, SpecError, Time};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "jitter",
    summary: "each packet is delayed by a random time; the order is kept",
    options: &[OptionDoc {
        name: "most",
        default: "5ms",
        help: "longest delay; the distribution is uniform from 0; up to 10s",
    }],
    build,
};

#[derive(Clone, Debug)]
struct Jitter {
    rng: Rng,
    most: Span,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Radio>, SpecError> {
    let range = Span::ZERO..=Span::from_secs(10);
    Ok(Box::new(Jitter {
        rng: Rng::new(0),
        most: options.span("most", Span::from_millis(5), range)?,
    }))
}

impl Radio for Jitter {
    fn seed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    fn through(&mut self, at: Time) -> Time {
        at + self.most.mul_f64(self.rng.unit())
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
