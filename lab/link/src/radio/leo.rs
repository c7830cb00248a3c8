// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Satellites in low orbit: at fixed times a terminal changes to another satellite. Nothing passes
//! for a moment, and then the path has another delay.
//!
//! | option | default | source |
//! |---|---|---|
//! | `every` | 15 s | Huston, "A transport protocol's view of Starlink", APNIC 2024 |
//! | `gap` | 40 ms | same: latency spikes of 30 to 50 ms at a change |
//! | `spread` | 20 ms, evenly | this project; the same page saw 30 ms become 80 ms at worst |
//! | `jitter` | 7 ms, evenly | same: 6.7 ms between successive round trips |
use super::{Pause, Radio, RadioKind, draws, slot};
use alcc_units::{OptionDoc, Options, Rng, Span, SpecError, Time};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "leo",
    summary: "low-orbit satellites: at each change an interruption and another path delay",
    options: &[
        OptionDoc {
            name: "every",
            default: "15s",
            help: "between changes, 1ms to 1h",
        },
        OptionDoc {
            name: "gap",
            default: "40ms",
            help: "length of the interruption at a change, up to half of every",
        },
        OptionDoc {
            name: "spread",
            default: "20ms",
            help: "largest additional delay of a path, up to 10s",
        },
        OptionDoc {
            name: "jitter",
            default: "7ms",
            help: "largest random delay, drawn for each millisecond, up to 10s",
        },
    ],
    build,
};

/// Time for which one value of the jitter applies.
const JITTER_SLOT: Span = Span::from_millis(1);

#[derive(Clone, Debug)]
struct Leo {
    seed: u64,
    every: Span,
    gap: Span,
    spread: Span,
    jitter: Span,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Radio>, SpecError> {
    let (ms, hour) = (Span::from_millis, Span::from_secs(3600));
    let longest = Span::from_secs(10);
    let every = options.span("every", Span::from_secs(15), ms(1)..=hour)?;
    Ok(Box::new(Leo {
        seed: 0,
        every,
        gap: options.span("gap", ms(40).min(every / 2), Span::ZERO..=every / 2)?,
        spread: options.span("spread", ms(20), Span::ZERO..=longest)?,
        jitter: options.span("jitter", ms(7), Span::ZERO..=longest)?,
    }))
}

impl Leo {
    fn draws(&self, at: Time, length: Span) -> Rng {
        draws(self.seed ^ length.as_nanos(), slot(at, length))
    }
}

impl Radio for Leo {
    fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    fn through(&mut self, at: Time) -> Time {
        let way = self.spread.mul_f64(self.draws(at, self.every).unit());
        at + way + self.jitter.mul_f64(self.draws(at, JITTER_SLOT).unit())
    }

    /// There is a pause at each change except the first, which is the start.
    fn pause(&self, time: Time) -> Option<Pause> {
        if self.gap.is_zero() {
            return None;
        }
        let of = |n: u64| {
            let begin = Time::ZERO + self.every * n;
            let end = begin + self.gap;
            Pause { begin, end }
        };
        let first = slot(time, self.every).max(1);
        (first..first + 2).map(of).find(|pause| pause.end > time)
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
