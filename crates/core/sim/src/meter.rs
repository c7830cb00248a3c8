// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::histogram::Durations;
use alcc_units::{Bytes, Span, Time};

/// What the network saw of one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// Data packets that entered the path.
    pub(crate) sent: u64,
    /// Segments sent again: all, how many times in a row, and in the present row.
    pub(crate) again: (u64, u64, u64),
    /// Data packets that it lost.
    pub(crate) dropped: u64,
    /// Those of them that had passed the last bottleneck.
    pub(crate) dropped_late: u64,
    /// Data packets that arrived with a mark (ECN).
    pub(crate) marked: u64,
    /// Data packets that left the last bottleneck.
    pub(crate) delivered: u64,
    /// Their bytes, headers included.
    pub(crate) delivered_bytes: Bytes,
    /// From the sender to the end of the last link, each; nothing if propagation never changes: then it is `queue_delay` and that.
    pub(crate) delay: Durations,
    /// Queueing of each.
    pub(crate) queue_delay: Durations,
    /// From the application's write to the delivery at the other application, per segment.
    pub(crate) app_delay: Durations,
    pub(crate) signal: Signal,
    /// Bytes of each second of the window.
    pub(crate) seconds: Vec<u64>,
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
    /// The last bottleneck delivered a packet of `len` bytes at `now`, in that `second` of the window, after `queueing` in all.
    pub(crate) fn delivered(&mut self, now: Time, second: usize, len: Bytes, queueing: Span) {
        self.delivered += 1;
        self.delivered_bytes += len;
        self.queue_delay.add(queueing);
        self.signal.departed(now - queueing, now);
        if second >= self.seconds.len() {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += len.get();
        self.lately.bytes += len;
        self.lately.packets += 1;
        self.lately.queueing += queueing;
    }

    /// A packet left; `again` if its data had left before.
    pub(crate) fn sent(&mut self, again: bool) {
        self.sent += 1;
        let (all, rows, row) = &mut self.again;
        if again {
            *all += 1;
            *rows += u64::from(*row == 0);
            *row += 1;
        } else {
            *row = 0;
        }
    }

    /// The path lost a packet, perhaps after the last bottleneck.
    pub(crate) fn dropped(&mut self, late: bool) {
        self.dropped += 1;
        self.dropped_late += u64::from(late);
        self.lately.dropped += 1;
    }

    /// A segment reached the application in order.
    pub(crate) fn delivered_to_application(&mut self, after: Span) {
        self.app_delay.add(after);
    }
}

/// Mahimahi's signal delay (Winstein et al., NSDI 2013): for every millisecond t from the first to the last arrival of a
/// delivered packet, the smallest (departure - t) over packets that arrived at or after t. A flow's packets depart in the
/// order of their arrival, so each departure settles the milliseconds since the arrival before it: an interval of values, counted
/// by its two ends. To a millisecond, as its logs are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal {
    /// How many more milliseconds have this value (index) than the one before: the sums of `latest`.
    changes: Vec<i32>,
    /// Value, change. A flow of few packets and long pauses has nothing else.
    latest: Vec<(u32, i32)>,
    /// First millisecond that is not settled.
    next: Option<u64>,
}

/// Longer delays count as this one.
const MOST_MS: u64 = 120_000;
/// So many changes are kept before they are summed up.
const LATEST: usize = 512;

impl Signal {
    fn departed(&mut self, arrived: Time, departed: Time) {
        let (arrived, departed) = (
            arrived.as_nanos() / 1_000_000,
            departed.as_nanos() / 1_000_000,
        );
        let first = *self.next.get_or_insert(arrived);
        if arrived < first {
            return;
        }
        self.next = Some(arrived + 1);
        let (least, most) = (departed - arrived, departed - first);
        // Values cut off at the end of the scale are one value: what its interval lacks.
        let beyond = most.saturating_sub(least.max(MOST_MS)) as i32;
        let (least, most) = (least.min(MOST_MS) as u32, most.min(MOST_MS) as u32);
        self.latest.push((least, 1));
        if beyond > 0 {
            self.latest.push((most, beyond));
        }
        self.latest.push((most + 1, -1 - beyond));
        if self.latest.len() >= LATEST {
            self.sum_up();
        }
    }

    fn sum_up(&mut self) {
        for (value, change) in self.latest.drain(..) {
            let value = value as usize;
            if value >= self.changes.len() {
                self.changes.resize(value + 1, 0);
            }
            self.changes[value] += change;
        }
    }

    /// The sorted value number floor(0.95 n), counted from 0.
    pub(crate) fn p95(&mut self) -> Option<Span> {
        self.sum_up();
        let counts = || {
            self.changes.iter().scan(0i64, |now, change| {
                *now += i64::from(*change);
                Some(*now)
            })
        };
        let rank = counts().sum::<i64>() * 95 / 100;
        let mut before = 0;
        for (ms, count) in counts().enumerate() {
            before += count;
            if before > rank {
                return Some(Span::from_millis(ms as u64));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_delay_by_hand() {
        // Arrivals at 0, 1 and 10 ms leave at 5, 6 and 30 ms: t = 0: 5; t = 1: 5; t = 2 to 10: 28, 27, ..., 20. Eleven values, number
        // floor(10.45) = 10 of 5 5 20 21 22 23 24 25 26 27 28.
        let at = Time::from_millis;
        let mut signal = Signal::default();
        assert_eq!(signal.p95(), None);
        for (arrived, departed) in [(0, 5), (1, 6), (1, 7), (10, 30)] {
            signal.departed(at(arrived), at(departed));
        }
        assert_eq!(signal.p95(), Some(Span::from_millis(28)));
    }

    #[test]
    fn a_signal_beyond_the_scale_counts_at_its_end() {
        let mut signal = Signal::default();
        signal.departed(Time::ZERO, Time::from_millis(1));
        signal.departed(Time::from_millis(10), Time::from_millis(MOST_MS + 50));
        assert_eq!(signal.p95(), Some(Span::from_millis(MOST_MS)));
        let running = signal.changes.iter().scan(0, |now, change| {
            *now += change;
            Some(*now)
        });
        assert_eq!(running.sum::<i32>(), 11);
    }
}
