// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RLC: the layer above requests and repeats the blocks that HARQ has given up, much later.
//!
//! | option | default | source |
//! |---|---|---|
//! | `errors` | 0.1 % of the blocks | what HARQ leaves: usual target of the residual BLER |
//! | `delay` | 80 ms | t-Reordering 35 ms and t-PollRetransmit 45 ms, 3GPP TS 36.331, 9.2.1 |
//! | `slot` | 1 ms | a subframe of LTE, 3GPP TS 36.211 |
use super::{Radio, RadioKind, SLOT, draws, slot, slot_length};
use alcc_units::{OptionDoc, Options, Span, SpecError, Time};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "rlc",
    summary: "RLC: blocks that HARQ has given up are retransmitted; later packets wait for them",
    options: &[
        OptionDoc {
            name: "errors",
            default: "0.001",
            help: "share of blocks that are given up, 0 to 0.5",
        },
        OptionDoc {
            name: "delay",
            default: "80ms",
            help: "time until such a block has arrived, up to 10s",
        },
        SLOT,
    ],
    build,
};

#[derive(Clone, Debug)]
struct Rlc {
    seed: u64,
    errors: f64,
    delay: Span,
    slot: Span,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Radio>, SpecError> {
    let second = Span::from_secs(1);
    Ok(Box::new(Rlc {
        seed: 0,
        errors: options.share("errors", 0.001, 0.0..=0.5)?,
        delay: options.span("delay", Span::from_millis(80), Span::ZERO..=second * 10)?,
        slot: slot_length(options)?,
    }))
}

impl Radio for Rlc {
    fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    fn through(&mut self, at: Time) -> Time {
        let fails = draws(self.seed, slot(at, self.slot)).chance(self.errors);
        if fails { at + self.delay } else { at }
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
