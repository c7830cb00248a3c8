// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::{Bytes, Span, Time};

/// The mean is over this time.
const MEAN_OVER: Span = Span::from_millis(100);
/// Longer than a peer may wait to tell: a pause, not how late news usually is.
const MAX_LATE: Span = Span::from_millis(50);

/// Mean number of bytes that had arrived but were not reported: the peer reported late, or nobody
/// read here. They are not in the path. Otherwise an algorithm that takes its window from the rate
/// would be misled. It would take the lateness of this program, or of the peer, for a slower path.
/// It would send ever less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unheard {
    mean: f64,
    /// Of the bytes reported since the last look: bytes times seconds.
    late: f64,
    at: Time,
}

impl Unheard {
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

    /// The same in packets of this length, to the nearest. Rounded up it would be one too many where
    /// a packet takes long.
    #[inline]
    pub(crate) fn packets(&self, mss: u64) -> u64 {
        (self.mean / mss as f64 + 0.5) as u64
    }

    /// `len` bytes were heard of so long after they arrived.
    pub(crate) fn arrived(&mut self, len: Bytes, late: Span) {
        self.late += len.get() as f64 * late.min(MAX_LATE).as_secs_f64();
    }

    /// All that came until now is heard of.
    pub(crate) fn heard(&mut self, now: Time) {
        let span = now.since(self.at);
        if span > Span::ZERO {
            let share = (span.as_secs_f64() / MEAN_OVER.as_secs_f64()).min(1.0);
            self.mean += share * (self.late / span.as_secs_f64() - self.mean);
            self.late = 0.0;
            self.at = now;
        }
    }

    /// A flight begins: before it there was nothing to be heard of.
    pub(crate) fn begin(&mut self, now: Time) {
        self.at = now;
    }
}
