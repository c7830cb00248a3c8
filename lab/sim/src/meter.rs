// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements of flows in the network.
use crate::histogram::{Durations, Paged};
use alcc_units::{Bytes, Span, Time};

/// Measurements of one flow in the network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// Data packets that entered the path.
    pub(crate) sent: u64,
    /// Retransmissions: all, runs of them without new data between, and those in the present run.
    pub(crate) retransmit_runs: (u64, u64, u64),
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
    /// From the sender to the end of the last link, each. Nothing if propagation never changes;
    /// then it is `queue_delay` and that.
    pub(crate) delay: Durations,
    /// Queueing of each.
    pub(crate) queue_delay: Durations,
    /// From the application's write to the delivery at the other application, per segment.
    pub(crate) app_delay: Durations,
    pub(crate) signal: SignalDelay,
    /// Bytes of each second of the window.
    pub(crate) seconds: Vec<u64>,
    /// Up to the last sample of the time series.
    sampled: Totals,
}

/// Values of the time series, up to an instant or in an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) bytes: Bytes,
    pub(crate) packets: u64,
    pub(crate) queueing: Span,
    pub(crate) dropped: u64,
}

impl Meter {
    /// The last bottleneck delivered a packet of `len` bytes at `now`. It was in that `second` of
    /// the window, after `queueing` in all.
    #[inline(always)]
    pub(crate) fn delivered(&mut self, now: Time, second: usize, len: Bytes, queueing: Span) {
        self.delivered += 1;
        self.delivered_bytes += len;
        self.queue_delay.add(queueing);
        self.signal.departed(now - queueing, now);
        match self.seconds.get_mut(second) {
            Some(bytes) => *bytes += len.get(),
            None => self.begin_second(second, len),
        }
    }

    #[cold]
    fn begin_second(&mut self, second: usize, len: Bytes) {
        self.seconds.resize(second, 0);
        self.seconds.push(len.get());
    }

    /// A packet left; `retransmission` if its data had left before.
    #[inline]
    pub(crate) fn sent(&mut self, retransmission: bool) {
        self.sent += 1;
        let (all, runs, run) = &mut self.retransmit_runs;
        if retransmission {
            *all += 1;
            *runs += u64::from(*run == 0);
            *run += 1;
        } else {
            *run = 0;
        }
    }

    /// The path lost a packet, perhaps after the last bottleneck.
    #[inline]
    pub(crate) fn dropped(&mut self, late: bool) {
        self.dropped += 1;
        self.dropped_late += u64::from(late);
    }

    /// Totals since the last call.
    pub(crate) fn sample(&mut self) -> Totals {
        let now = Totals {
            bytes: self.delivered_bytes,
            packets: self.delivered,
            queueing: self.queue_delay.sum(),
            dropped: self.dropped,
        };
        let before = std::mem::replace(&mut self.sampled, now);
        Totals {
            bytes: now.bytes - before.bytes,
            packets: now.packets - before.packets,
            queueing: now.queueing - before.queueing,
            dropped: now.dropped - before.dropped,
        }
    }

    /// A segment reached the application in order.
    #[inline]
    pub(crate) fn delivered_to_application(&mut self, after: Span) {
        self.app_delay.add(after);
    }
}

/// Mahimahi's signal delay (Winstein et al., NSDI 2013): the smallest (departure - t) over packets
/// that arrived at or after t. It has a value for every millisecond t from the first to the last
/// arrival of a delivered packet. A flow's packets depart in the order of their arrival. So each
/// departure settles the milliseconds since the arrival before it. They are an interval of values,
/// counted by its two ends. To a millisecond, as its logs are.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignalDelay {
    /// Number of milliseconds with this value (its number) more than with the one before: the sums of
    /// `latest`. Values may be up to minutes and are few: those around the ends of pauses.
    changes: Paged<i32>,
    /// Value, change. A flow of few packets and long pauses has nothing else.
    latest: Vec<(u32, i32)>,
    /// First millisecond that is not settled.
    next: Option<u64>,
}

/// Longer delays count as this one.
const MAX_MS: u64 = 120_000;
/// Maximum number of changes before they are summed up.
const MAX_LATEST: usize = 512;

impl SignalDelay {
    #[inline]
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
        let (min, max) = (departed - arrived, departed - first);
        // Values cut off at the end of the scale are one value: what its interval lacks.
        let beyond = max.saturating_sub(min.max(MAX_MS)) as i32;
        let (min, max) = (min.min(MAX_MS) as u32, max.min(MAX_MS) as u32);
        self.latest.push((min, 1));
        if beyond > 0 {
            self.latest.push((max, beyond));
        }
        self.latest.push((max + 1, -1 - beyond));
        if self.latest.len() >= MAX_LATEST {
            self.sum_up();
        }
    }

    #[cold]
    fn sum_up(&mut self) {
        for (value, change) in self.latest.drain(..) {
            *self.changes.at(value as usize) += change;
        }
    }

    /// Values one after the other that as many milliseconds have, ascending. The fields are the
    /// first of them, how many they are, and how many milliseconds have each.
    fn runs(&self) -> Vec<(u64, u64, u64)> {
        let sums = self
            .changes
            .iter()
            .map(|(value, change)| (value as u32, change));
        let mut changes: Vec<_> = sums.chain(self.latest.iter().copied()).collect();
        changes.retain(|(_, change)| *change != 0);
        changes.sort_unstable();
        let mut count = 0;
        let runs = changes.windows(2).map(|pair| {
            let [(first, change), (next, _)] = [pair[0], pair[1]];
            count += i64::from(change);
            (u64::from(first), u64::from(next - first), count)
        });
        let runs = runs.filter(|(_, values, _)| *values > 0);
        runs.map(|(first, values, count)| (first, values, count.unsigned_abs()))
            .collect()
    }

    /// The sorted value number floor(0.95 n), counted from 0.
    pub(crate) fn p95(&self) -> Option<Span> {
        let runs = self.runs();
        let all = runs.iter().map(|(_, values, count)| values * count);
        let rank = all.sum::<u64>() * 95 / 100;
        let mut before = 0;
        for (first, values, count) in runs {
            if before + values * count > rank {
                return Some(Span::from_millis(first + (rank - before) / count));
            }
            before += values * count;
        }
        None
    }

    /// Bytes of memory.
    #[cfg(test)]
    fn memory(&self) -> usize {
        self.changes.memory() + self.latest.capacity() * size_of::<(u32, i32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_delay_by_hand() {
        // Arrivals at 0, 1 and 10 ms leave at 5, 6 and 30 ms: t = 0: 5; t = 1: 5; t = 2 to 10: 28,
        // 27, ..., 20. Eleven values, number floor(10.45) = 10 of 5 5 20 21 22 23 24 25 26 27 28.
        let at = Time::from_millis;
        let mut signal = SignalDelay::default();
        assert_eq!(signal.p95(), None);
        for (arrived, departed) in [(0, 5), (1, 6), (1, 7), (10, 30)] {
            signal.departed(at(arrived), at(departed));
        }
        assert_eq!(signal.p95(), Some(Span::from_millis(28)));
    }

    #[test]
    fn a_signal_beyond_the_scale_counts_at_its_end() {
        let mut signal = SignalDelay::default();
        signal.departed(Time::ZERO, Time::from_millis(1));
        signal.departed(Time::from_millis(10), Time::from_millis(MAX_MS + 50));
        assert_eq!(signal.p95(), Some(Span::from_millis(MAX_MS)));
        let all = signal
            .runs()
            .into_iter()
            .map(|(_, values, count)| values * count);
        assert_eq!(all.sum::<u64>(), 11);
    }

    /// Every millisecond by itself.
    #[test]
    fn a_signal_is_the_same_few_by_few_and_summed_up() {
        let mut rng = alcc_units::Rng::new(7);
        let (mut signal, mut all) = (SignalDelay::default(), Vec::new());
        let (mut arrived, mut departed, mut next) = (0, 0, None);
        for n in 1..3_000 {
            arrived += rng.below(4) * rng.below(400);
            departed = arrived.max(departed) + rng.below(90);
            signal.departed(Time::from_millis(arrived), Time::from_millis(departed));
            let first = *next.get_or_insert(arrived);
            all.extend((first..=arrived).map(|t| departed - t));
            next = Some((arrived + 1).max(first));
            if n % 293 == 0 {
                all.sort_unstable();
                let want = Span::from_millis(all[all.len() * 95 / 100]);
                assert_eq!(signal.p95(), Some(want), "after {n}");
            }
        }
    }

    #[test]
    fn long_pauses_take_no_memory() {
        let after = |packets: u64| {
            let mut signal = SignalDelay::default();
            for n in 0..packets {
                let pause = 1_000 * (n % 59);
                let at = Time::from_millis(60_000 * n + pause);
                signal.departed(at, at + Span::from_millis(20));
            }
            assert!(signal.p95() > Some(Span::from_secs(50)));
            signal.memory()
        };
        // A table of all milliseconds is 240 kB.
        assert!(after(50) < 2_000, "{}", after(50));
        assert!(after(5_000) < 80_000, "{}", after(5_000));
    }
}
