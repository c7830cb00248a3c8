// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has arrived and when, for the next acknowledgement.
use crate::frame::{Ack, MOST_24, STEPS, Step, WINDOW_UNIT};
use alcc_units::{Span, Time};

/// A shorter pause is not told: what follows it is taken to have come evenly.
const GAP: Span = Span::from_millis(2);

/// Positions of the peer's stream of counted frames, with the time at which each was reached.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    /// Since the last acknowledgement, ascending; at first the position that it told.
    seen: [(u64, Time); STEPS + 1],
    count: usize,
    told: u64,
    position: u64,
}

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_micros())
        .unwrap_or(u32::MAX)
        .min(MOST_24)
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self {
            seen: [(0, Time::ZERO); STEPS + 1],
            count: 0,
            told: 0,
            position: 0,
        }
    }

    /// All counted frames have arrived up to here.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes that the peer has not been told of.
    pub(crate) fn news(&self) -> u64 {
        self.position - self.told
    }

    /// So many times are kept that the next acknowledgement should leave.
    pub(crate) fn is_crowded(&self) -> bool {
        self.count + 3 > STEPS
    }

    /// The position advanced to `position`: these bytes came after `since` and not later than `at`.
    pub(crate) fn came(&mut self, position: u64, since: Time, at: Time) {
        let before = self.position;
        self.position = position;
        let (last, at) = match self.count {
            0 => (Time::ZERO, at),
            n => (self.seen[n - 1].1, at.max(self.seen[n - 1].1)),
        };
        let since = since.clamp(last, at);
        if self.count == 0 || since > last + GAP {
            self.note(before, since);
        } else if at == last && self.count > 1 {
            self.count -= 1;
        }
        self.note(position, at);
    }

    fn note(&mut self, position: u64, at: Time) {
        if self.count > STEPS {
            self.count = STEPS;
        }
        self.seen[self.count] = (position, at);
        self.count += 1;
    }

    /// The acknowledgement; `edge`: up to where the peer may send.
    pub(crate) fn ack(&mut self, now: Time, edge: u64) -> Ack {
        let seen = &self.seen[..self.count];
        let window = edge.saturating_sub(self.position) / WINDOW_UNIT;
        let mut ack = Ack::default();
        let reached = seen.last().map_or(now, |(_, at)| *at);
        ack.position = self.position;
        ack.window = u32::try_from(window).unwrap_or(u32::MAX).min(MOST_24);
        ack.time = reached.as_nanos().div_euclid(1000) as u32;
        ack.hold = micros(now.since(reached));
        for pair in seen.windows(2).rev() {
            let bytes = u32::try_from(pair[1].0 - pair[0].0).unwrap_or(u32::MAX);
            ack.push(Step {
                bytes: bytes.min(MOST_24),
                micros: micros(pair[1].1.since(pair[0].1)),
            });
        }
        ack.trim();
        self.told = self.position;
        self.count = 0;
        ack
    }
}
