// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::{Bytes, Span, Time};

/// Time over which the mean is taken.
const MEAN_OVER: Span = Span::from_millis(100);
/// Longer delays of a report are pauses of the peer, not its usual delay.
const MAX_LATE: Span = Span::from_millis(50);

/// Mean number of bytes that had arrived but were not reported, because the peer reported late, or this program read
/// late. They are not in the path. Otherwise an algorithm that takes its window from the rate would take this lateness
/// for a slower path, and send ever less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreported {
    mean: f64,
    /// Sum over the bytes reported since the last update: bytes times seconds of delay.
    late: f64,
    at: Time,
}

impl Unreported {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            mean: 0.0,
            late: 0.0,
            at: now,
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes::new(self.mean as u64)
    }

    /// The same in packets of this length, to the nearest. Rounding up would give one too many on slow links.
    #[inline]
    pub(crate) fn packets(&self, mss: u64) -> u64 {
        (self.mean / mss as f64 + 0.5) as u64
    }

    /// Takes `len` bytes that were reported `late` after they arrived.
    pub(crate) fn arrived(&mut self, len: Bytes, late: Span) {
        self.late += len.get() as f64 * late.min(MAX_LATE).as_secs_f64();
    }

    /// Updates the mean: everything that arrived until now is reported.
    pub(crate) fn reported(&mut self, now: Time) {
        let span = now.since(self.at);
        if span > Span::ZERO {
            let share = (span.as_secs_f64() / MEAN_OVER.as_secs_f64()).min(1.0);
            self.mean += share * (self.late / span.as_secs_f64() - self.mean);
            self.late = 0.0;
            self.at = now;
        }
    }

    /// A flight begins: before it nothing could arrive.
    pub(crate) fn begin(&mut self, now: Time) {
        self.at = now;
    }
}
