// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arrival times of frames, for the next acknowledgement.
use crate::frame::{Ack, MAX_STEPS, MAX_U24, Step, WINDOW_UNIT};
use alcc_units::{Span, Time};

/// A shorter pause is not reported: the data after it counts as evenly spread.
const MAX_GAP: Span = Span::from_millis(2);

/// Positions of the peer's stream of counted frames, with the time at which each was reached.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    /// Instants since the last acknowledgement, ascending; the first is that of the
    /// acknowledgement.
    instants: [(u64, Time); MAX_STEPS + 1],
    count: usize,
    acked: u64,
    position: u64,
}

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_micros())
        .unwrap_or(u32::MAX)
        .min(MAX_U24)
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self {
            instants: [(0, Time::ZERO); MAX_STEPS + 1],
            count: 0,
            acked: 0,
            position: 0,
        }
    }

    /// Position up to which all counted frames have arrived.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes that have not been acknowledged.
    pub(crate) fn unacked(&self) -> u64 {
        self.position - self.acked
    }

    /// True if there is almost no room for more times, so that an acknowledgement should be sent.
    pub(crate) fn is_full(&self) -> bool {
        self.count + 3 > MAX_STEPS
    }

    /// Advances the position to `position`: these bytes arrived between `since` and `at`.
    pub(crate) fn on_arrival(&mut self, position: u64, since: Time, at: Time) {
        let before = self.position;
        self.position = position;
        let (last, at) = match self.count {
            0 => (Time::ZERO, at),
            n => (self.instants[n - 1].1, at.max(self.instants[n - 1].1)),
        };
        let since = since.clamp(last, at);
        if self.count == 0 || since > last + MAX_GAP {
            self.note(before, since);
        } else if at == last && self.count > 1 {
            self.count -= 1;
        }
        self.note(position, at);
    }

    fn note(&mut self, position: u64, at: Time) {
        if self.count > MAX_STEPS {
            self.count = MAX_STEPS;
        }
        self.instants[self.count] = (position, at);
        self.count += 1;
    }

    /// Makes the acknowledgement. `edge`: position up to which the peer may send.
    pub(crate) fn ack(&mut self, now: Time, edge: u64) -> Ack {
        let instants = &self.instants[..self.count];
        let window = edge.saturating_sub(self.position) / WINDOW_UNIT;
        let mut ack = Ack::default();
        let reached = instants.last().map_or(now, |(_, at)| *at);
        ack.position = self.position;
        ack.window = u32::try_from(window).unwrap_or(u32::MAX).min(MAX_U24);
        ack.time = reached.as_nanos().div_euclid(1000) as u32;
        ack.hold = micros(now.since(reached));
        for pair in instants.windows(2).rev() {
            let bytes = u32::try_from(pair[1].0 - pair[0].0).unwrap_or(u32::MAX);
            ack.push(Step {
                bytes: bytes.min(MAX_U24),
                micros: micros(pair[1].1.since(pair[0].1)),
            });
        }
        ack.trim();
        self.acked = self.position;
        self.count = 0;
        ack
    }
}
