// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::{Bytes, Span};

/// Durations of which mean, median and 95th percentile are wanted. Kept in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations {
    micros: Vec<u32>,
    sum: u128,
}

/// Mean, median and 95th percentile (nearest rank) of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: Span,
    /// Median, to a microsecond.
    pub median: Span,
    /// 95th percentile, to a microsecond.
    pub p95: Span,
    /// How many there were. With none the others are zero.
    pub count: u64,
}

impl Durations {
    pub(crate) fn add(&mut self, span: Span) {
        self.sum += u128::from(span.as_nanos());
        self.micros
            .push(u32::try_from(span.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn summary(&mut self) -> Summary {
        let count = self.micros.len();
        if count == 0 {
            return Summary::default();
        }
        let mut rank = |percent: usize| {
            let index = (count * percent).div_ceil(100).max(1) - 1;
            let (_, value, _) = self.micros.select_nth_unstable(index);
            Span::from_micros(u64::from(*value))
        };
        let (median, p95) = (rank(50), rank(95));
        let mean = self.sum / count as u128;
        Summary {
            mean: Span::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)),
            median,
            p95,
            count: count as u64,
        }
    }
}

/// What the network saw of one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// Data packets that reached the bottleneck.
    pub(crate) sent: u64,
    /// Data packets that it lost.
    pub(crate) dropped: u64,
    /// Data packets that it delivered.
    pub(crate) delivered: u64,
    /// Their bytes, headers included.
    pub(crate) delivered_bytes: Bytes,
    /// Queueing and propagation of each.
    pub(crate) delay: Durations,
    /// Queueing of each.
    pub(crate) queue_delay: Durations,
    /// From the application's write to the delivery at the other application, per segment.
    pub(crate) app_delay: Durations,
    /// Since the last sample of the time series.
    pub(crate) lately: Lately,
}

/// What happened since the last sample of the time series.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lately {
    pub(crate) bytes: Bytes,
    pub(crate) packets: u64,
    pub(crate) queueing: Span,
    pub(crate) dropped: u64,
}

impl Meter {
    /// The bottleneck delivered a packet of `len` bytes after `queueing`.
    pub(crate) fn delivered(&mut self, len: Bytes, queueing: Span, propagation: Span) {
        self.delivered += 1;
        self.delivered_bytes += len;
        self.queue_delay.add(queueing);
        self.delay.add(queueing + propagation);
        self.lately.bytes += len;
        self.lately.packets += 1;
        self.lately.queueing += queueing;
    }

    /// The bottleneck lost a packet.
    pub(crate) fn dropped(&mut self) {
        self.dropped += 1;
        self.lately.dropped += 1;
    }

    /// A segment reached the application in order.
    pub(crate) fn delivered_to_application(&mut self, after: Span) {
        self.app_delay.add(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_hundred() {
        let mut durations = Durations::default();
        (1..=100)
            .rev()
            .for_each(|ms| durations.add(Span::from_millis(ms)));
        let summary = durations.summary();
        assert_eq!(summary.mean, Span::from_micros(50_500));
        assert_eq!(summary.median, Span::from_millis(50));
        assert_eq!(summary.p95, Span::from_millis(95));
        assert_eq!(Durations::default().summary(), Summary::default());
    }
}
