// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handovers between cells: for a moment nothing passes, and arriving packets wait.
//!
//! | option | default | source |
//! |---|---|---|
//! | `every` | 60 s on the mean, a quarter sooner or later | this project: a city at walking pace |
//! | `length` | 49.5 ms | interruption of an LTE handover, 3GPP TR 36.881 |
use super::{Pause, Radio, RadioKind, draws, slot};
use alcc_units::{OptionDoc, Options, Span, SpecError, Time};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "handover",
    summary: "handovers: interruptions at random times",
    options: &[
        OptionDoc {
            name: "every",
            default: "60s",
            help: "mean time between them, 1ms to 1h and more than twice their length",
        },
        OptionDoc {
            name: "length",
            default: "49.5ms",
            help: "length of an interruption, up to 30s",
        },
    ],
    build,
};

#[derive(Clone, Debug)]
struct Handover {
    seed: u64,
    every: Span,
    length: Span,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Radio>, SpecError> {
    let every = Span::from_secs(60);
    let hour = Span::from_secs(3600);
    let every = options.span("every", every, Span::from_millis(1)..=hour)?;
    let most = Span::from_secs(30).min(every / 2);
    let length = Span::from_micros(49_500).min(most);
    Ok(Box::new(Handover {
        seed: 0,
        every,
        length: options.span("length", length, Span::ZERO..=most)?,
    }))
}

impl Radio for Handover {
    fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// The pause of a slot begins in its second or third quarter, so that it ends before the next.
    fn pause(&self, time: Time) -> Option<Pause> {
        if self.length.is_zero() {
            return None;
        }
        let of = |n: u64| {
            let part = 0.25 + 0.5 * draws(self.seed, n).unit();
            let begin = Time::ZERO + self.every * n + self.every.mul_f64(part);
            let end = begin + self.length;
            Pause { begin, end }
        };
        let first = slot(time, self.every).saturating_sub(1);
        (first..first + 3).map(of).find(|pause| pause.end > time)
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
