// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wi-Fi: a station waits until the others have finished, then sends all its packets as one frame.
//!
//! | option | default | source |
//! |---|---|---|
//! | `stations` | 3 others | this project |
//! | `airtime` | 5.484 ms | longest frame, aPPDUMaxTime of IEEE 802.11n |
use super::{Radio, RadioKind};
use alcc_units::{OptionDoc, Options, Rng, Span, SpecError, Time};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "aggregation",
    summary: "Wi-Fi: packets wait for the channel and are sent as aggregates",
    options: &[
        OptionDoc {
            name: "stations",
            default: "3",
            help: "number of other stations that send, 0 to 100",
        },
        OptionDoc {
            name: "airtime",
            default: "5484us",
            help: "longest channel time of each of them, up to 1s",
        },
    ],
    build,
};

#[derive(Clone, Debug)]
struct Aggregation {
    rng: Rng,
    /// The longest wait: all other stations send first.
    most: Span,
    /// Time at which the frame that is being filled is sent.
    goes: Time,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Radio>, SpecError> {
    let stations = options.whole("stations", 3, 0..=100)?;
    let airtime = Span::from_micros(5484);
    let airtime = options.span("airtime", airtime, Span::ZERO..=Span::from_secs(1))?;
    Ok(Box::new(Aggregation {
        rng: Rng::new(0),
        most: airtime * stations,
        goes: Time::ZERO,
    }))
}

impl Radio for Aggregation {
    fn seed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    fn through(&mut self, at: Time) -> Time {
        if at > self.goes {
            self.goes = at + self.most.mul_f64(self.rng.unit());
        }
        self.goes.max(at)
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
