// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Uplink grants: a device that has been silent waits for its next scheduling request opportunity,
//! then for the grant. While it continues to send, it gets grants without requests.
//!
//! | option | default | source |
//! |---|---|---|
//! | `period` | 10 ms | a usual period of scheduling requests, 3GPP TS 36.213, table 10.1.5-1 |
//! | `delay` | 8 ms | request to grant 4 subframes, grant to data 4, 3GPP TS 36.213 |
//! | `keep` | 10 ms | one period: leave lasts while the buffer reports go on |
use super::{Radio, RadioKind, draws};
use alcc_units::{OptionDoc, Options, Span, SpecError, Time};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "grant",
    summary: "uplink grants: after idle times, a sender waits for a scheduling request and its grant",
    options: &[
        OptionDoc {
            name: "period",
            default: "10ms",
            help: "interval of scheduling requests, 1us to 1s",
        },
        OptionDoc {
            name: "delay",
            default: "8ms",
            help: "time from request to transmission, up to 1s",
        },
        OptionDoc {
            name: "keep",
            default: "10ms",
            help: "time after a packet in which the next one needs no request, up to 10s",
        },
    ],
    build,
};

#[derive(Clone, Debug)]
struct Grant {
    period: Span,
    delay: Span,
    keep: Span,
    /// The first opportunity for a request.
    phase: Span,
    /// Time at which the last grant was given or used.
    last: Option<Time>,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Radio>, SpecError> {
    let second = Span::from_secs(1);
    let ms = Span::from_millis;
    Ok(Box::new(Grant {
        period: options.span("period", ms(10), Span::from_micros(1)..=second)?,
        delay: options.span("delay", ms(8), Span::ZERO..=second)?,
        keep: options.span("keep", ms(10), Span::ZERO..=second * 10)?,
        phase: Span::ZERO,
        last: None,
    }))
}

impl Grant {
    /// The first opportunity for a request from `at` on.
    fn chance(&self, at: Time) -> Time {
        let first = Time::ZERO + self.phase;
        let periods = at.since(first).as_nanos().div_ceil(self.period.as_nanos());
        (first + self.period * periods).max(at)
    }
}

impl Radio for Grant {
    fn seed(&mut self, seed: u64) {
        self.phase = self.period.mul_f64(draws(seed, 0).unit());
    }

    fn through(&mut self, at: Time) -> Time {
        let may = match self.last {
            Some(last) if at <= last + self.keep => at.max(last),
            _ => self.chance(at) + self.delay,
        };
        self.last = Some(may);
        may
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
