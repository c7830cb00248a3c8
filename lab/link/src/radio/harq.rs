// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HARQ: a transport block that the receiver cannot decode is sent again a fixed time later, a few
//! times. Later data waits for it, because the layer above delivers in order.
//!
//! | option | default | source |
//! |---|---|---|
//! | `errors` | 10 % of the blocks, each time | the usual target of link adaptation, initial BLER |
//! | `rtt` | 8 ms | LTE FDD: HARQ RTT timer of 8 subframes, 3GPP TS 36.321 |
//! | `attempts` | 4 | usual maxHARQ-Tx, 3GPP TS 36.331 |
//! | `slot` | 1 ms | a subframe of LTE, 3GPP TS 36.211 |
use super::{Radio, RadioKind, SLOT, draws, slot, slot_length};
use alcc_units::{OptionDoc, Options, Span, SpecError, Time};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "harq",
    summary: "HARQ: failed transport blocks are retransmitted; later packets wait for them",
    options: &[
        OptionDoc {
            name: "errors",
            default: "0.1",
            help: "probability that a block fails, at each transmission; 0 to 0.9",
        },
        OptionDoc {
            name: "rtt",
            default: "8ms",
            help: "time until a block is retransmitted; up to 1s",
        },
        OptionDoc {
            name: "attempts",
            default: "4",
            help: "maximum number of transmissions, 1 to 32; the last one succeeds",
        },
        SLOT,
    ],
    build,
};

#[derive(Clone, Debug)]
struct Harq {
    seed: u64,
    errors: f64,
    rtt: Span,
    attempts: u64,
    slot: Span,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Radio>, SpecError> {
    let second = Span::from_secs(1);
    Ok(Box::new(Harq {
        seed: 0,
        errors: options.share("errors", 0.1, 0.0..=0.9)?,
        rtt: options.span("rtt", Span::from_millis(8), Span::ZERO..=second)?,
        attempts: options.whole("attempts", 4, 1..=32)?,
        slot: slot_length(options)?,
    }))
}

impl Radio for Harq {
    fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    fn through(&mut self, at: Time) -> Time {
        let mut draws = draws(self.seed, slot(at, self.slot));
        let failed = (1..self.attempts).take_while(|_| draws.chance(self.errors));
        at + self.rtt * failed.count() as u64
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
