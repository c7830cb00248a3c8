// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of a flow whose peer acknowledges by in-band frames, with exact times.
use alcc_units::{Bytes, Span, Time};

/// The mean is over this time.
const MEAN_OVER: Span = Span::from_millis(100);
/// Longer than a peer may wait to tell: a pause of this program, not how late it usually is.
const MAX_LATE: Span = Span::from_millis(50);

#[derive(Debug)]
pub(super) struct InBand {
    /// The smallest RTT of a packet with an exact time. Interpolated samples are never below it.
    pub(super) exact_min_rtt: Option<Span>,
    unheard: f64,
    /// Of what was heard of since the last look: bytes times seconds.
    late: f64,
    at: Time,
}

impl InBand {
    pub(super) fn new(now: Time) -> Self {
        Self {
            exact_min_rtt: None,
            unheard: 0.0,
            late: 0.0,
            at: now,
        }
    }

    /// Bytes that had arrived but were not heard of, in the mean: the peer told late, or nobody read
    /// here. They are not in the path. An algorithm that takes its window from the rate would else
    /// take the lateness of this program, or of the peer, for a slower path, and send ever less.
    pub(super) fn unheard(&self) -> Bytes {
        Bytes::new(self.unheard as u64)
    }

    /// `len` bytes arrived evenly between the two times.
    pub(super) fn arrived(&mut self, now: Time, len: u64, since: Time, at: Time) {
        let late = (now.since(at) + at.since(since) / 2).min(MAX_LATE);
        self.late += len as f64 * late.as_secs_f64();
    }

    /// All that came until now is heard of.
    pub(super) fn heard(&mut self, now: Time) {
        let span = now.since(self.at);
        if span > Span::ZERO {
            let share = (span.as_secs_f64() / MEAN_OVER.as_secs_f64()).min(1.0);
            self.unheard += share * (self.late / span.as_secs_f64() - self.unheard);
            self.late = 0.0;
            self.at = now;
        }
    }

    /// A flight begins: before it there was nothing to be heard of.
    pub(super) fn begin(&mut self, now: Time) {
        self.at = now;
    }
}
