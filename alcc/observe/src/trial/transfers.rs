// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Division of a connection's readings into transfers: from nothing in flight to nothing in flight.
use alcc_units::{Bytes, Span, Time};

/// Smaller transfers are ignored, because they fit into the first windows of any algorithm.
const MIN_BYTES: u64 = 64 * 1024;
/// Maximum number of RTT readings that are kept of one transfer; above it every second, fourth, ... one.
const MAX_RTTS: usize = 512;
/// Minimum number of readings for percentiles.
const MIN_RTTS: usize = 5;
/// A transfer counts from an idle reading before it if the next reading came within this time. A reading every 5 ms is
/// usual.
const SOON: Span = Span::from_millis(10);

/// A reading of one connection's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Time of the reading.
    pub at: Time,
    /// Stream position acknowledged.
    pub acked: u64,
    /// Bytes written and not acknowledged.
    pub in_flight: Bytes,
    /// The kernel's smoothed RTT; zero: none yet.
    pub rtt: Span,
    /// Segments retransmitted so far.
    pub retransmits: u64,
    /// Segment size.
    pub mss: Bytes,
    /// True if the program has more data, because its last write was short or refused.
    pub has_more: bool,
}

/// Percentiles of a transfer's RTT samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtt {
    /// The median.
    pub median: Span,
    /// The 95th percentile.
    pub p95: Span,
}

/// A transfer that was acknowledged to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Bytes acknowledged.
    pub bytes: Bytes,
    /// Time from its first reading to its last, and at least an RTT, because of a short one only the end may have been
    /// seen.
    pub time: Span,
    /// Percentiles of its RTT samples; `None`: there were fewer than five.
    pub rtt: Option<Rtt>,
    /// Bytes retransmitted.
    pub resent: Bytes,
}

/// The transfers of one connection, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    began: Option<Reading>,
    /// The last reading, with whose counters the next transfer begins.
    last: Option<Reading>,
    rtts: Vec<Span>,
    /// One of this many readings is kept.
    every: u64,
    seen: u64,
}

impl Transfers {
    /// Time of the last reading.
    pub fn read_at(&self) -> Option<Time> {
        self.last.map(|last| last.at)
    }

    /// True if a transfer has begun that is large enough to count, and has not ended.
    pub fn is_pending(&self) -> bool {
        let both = self.began.zip(self.last);
        both.is_some_and(|(began, last)| {
            let all = last.acked.saturating_add(last.in_flight.get());
            all.saturating_sub(began.acked) >= MIN_BYTES
        })
    }

    /// Takes a reading. Returns the transfer that it ends, if that is large enough to count.
    pub fn reading(&mut self, reading: &Reading) -> Option<Transfer> {
        let before = self.last.replace(*reading);
        let idle = reading.in_flight == Bytes::ZERO && !reading.has_more;
        let began = match self.began {
            Some(began) => began,
            None if idle && before.is_none_or(|before| before.acked == reading.acked) => {
                return None;
            }
            // Data acknowledged before the first reading of a transfer belongs to it, too.
            None => {
                let counters = before.unwrap_or(*reading);
                let soon = reading.at.since(counters.at) <= SOON;
                let at = if soon { counters.at } else { reading.at };
                let began = Reading { at, ..counters };
                (self.every, self.seen) = (1, 0);
                self.rtts.clear();
                *self.began.insert(began)
            }
        };
        if before.is_none_or(|before| reading.acked > before.acked) && !reading.rtt.is_zero() {
            self.keep(reading.rtt);
        }
        if !idle {
            return None;
        }
        self.began = None;
        self.transfer(&began, reading)
    }

    /// Keeps a sample of the RTTs, whatever their number.
    fn keep(&mut self, rtt: Span) {
        if self.seen.is_multiple_of(self.every) {
            if self.rtts.len() == MAX_RTTS {
                let mut n = 0;
                self.rtts.retain(|_| {
                    n += 1;
                    n % 2 == 1
                });
                self.every *= 2;
            }
            self.rtts.push(rtt);
        }
        self.seen += 1;
    }

    fn transfer(&mut self, began: &Reading, end: &Reading) -> Option<Transfer> {
        let bytes = end.acked.saturating_sub(began.acked);
        if bytes < MIN_BYTES {
            return None;
        }
        self.rtts.sort_unstable();
        let one_rtt = self.rtts.first().copied().unwrap_or(end.rtt);
        // The nearest rank.
        let at = |percent: usize| self.rtts[(self.rtts.len() * percent).div_ceil(100) - 1];
        let rtt = (self.rtts.len() >= MIN_RTTS).then(|| Rtt {
            median: at(50),
            p95: at(95),
        });
        let again = end.retransmits.saturating_sub(began.retransmits);
        Some(Transfer {
            bytes: Bytes::new(bytes),
            time: end.at.since(began.at).max(one_rtt),
            rtt,
            resent: Bytes::new(again.saturating_mul(end.mss.get())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ms: u64, acked: u64, in_flight: u64, rtt_ms: u64) -> Reading {
        Reading {
            at: Time::from_millis(ms),
            acked,
            in_flight: Bytes::new(in_flight),
            rtt: Span::from_millis(rtt_ms),
            retransmits: acked / 500_000,
            mss: Bytes::new(1000),
            has_more: false,
        }
    }

    fn is_near(span: Span, ms: f64) -> bool {
        (span.as_millis_f64() - ms).abs() <= 2.0
    }

    #[test]
    fn transfers_on_one_connection_are_told_apart() {
        let mut all = Transfers::default();
        let mut found = Vec::new();
        for start in [0, 60_000] {
            let base = if start == 0 { 0 } else { 1_000_000 };
            for n in 0..100u64 {
                let remaining = 1_000_000 - n * 10_000;
                found.extend(all.reading(&reading(
                    start + 10 * n,
                    base + n * 10_000,
                    remaining,
                    20 + n,
                )));
            }
            found.extend(all.reading(&reading(start + 1000, base + 1_000_000, 0, 120)));
            // It is idle, and is read once more.
            found.extend(all.reading(&reading(start + 5000, base + 1_000_000, 0, 120)));
        }
        assert_eq!(found.len(), 2);
        for transfer in found {
            assert_eq!(transfer.bytes, Bytes::new(1_000_000));
            assert_eq!(transfer.time, Span::from_secs(1));
            assert_eq!(transfer.resent, Bytes::new(2000));
            let rtt = transfer.rtt.unwrap();
            assert!(is_near(rtt.median, 70.0), "{transfer:?}");
            assert!(is_near(rtt.p95, 115.0), "{transfer:?}");
        }
    }

    #[test]
    fn small_answers_and_broken_off_transfers_do_not_count() {
        let mut all = Transfers::default();
        for n in 0..50 {
            assert_eq!(all.reading(&reading(n, n * 1000, 1000, 10)), None);
        }
        assert_eq!(all.reading(&reading(60, 50_000, 0, 10)), None);
        assert!(!all.is_pending());
        assert_eq!(all.reading(&reading(70, 60_000, 1_000_000, 10)), None);
        assert!(all.is_pending());
        assert_eq!(all.read_at(), Some(Time::from_millis(70)));
    }

    /// The reading before the first write shows when a transfer began that is over between two readings.
    #[test]
    fn a_transfer_begins_with_the_idle_reading_just_before_it() {
        let mut all = Transfers::default();
        assert_eq!(all.reading(&reading(10, 0, 0, 0)), None);
        let found = all.reading(&reading(14, 100_000, 0, 1)).unwrap();
        assert_eq!(found.bytes, Bytes::new(100_000));
        assert_eq!(found.time, Span::from_millis(4));
    }

    /// The window is full and its acknowledgements have arrived, and the program still has the rest.
    #[test]
    fn a_refused_write_keeps_a_transfer_together() {
        let mut all = Transfers::default();
        assert_eq!(all.reading(&reading(10, 0, 0, 0)), None);
        for (at, acked) in [(14, 100_000), (18, 200_000)] {
            let more = Reading {
                has_more: true,
                ..reading(at, acked, 0, 1)
            };
            assert_eq!(all.reading(&more), None);
            assert!(all.is_pending());
        }
        let found = all.reading(&reading(22, 300_000, 0, 1)).unwrap();
        assert_eq!(found.bytes, Bytes::new(300_000));
        assert_eq!(found.time, Span::from_millis(12));
    }

    #[test]
    fn a_short_transfer_counts_without_an_rtt() {
        let mut all = Transfers::default();
        // Read twice, then only at its end: it took at least an RTT.
        assert_eq!(all.reading(&reading(70, 0, 1_000_000, 10)), None);
        for (at, acked, ms) in [(90, 1_000_000, 20), (500, 1_100_000, 10)] {
            let found = all.reading(&reading(at, acked, 0, 10)).unwrap();
            assert_eq!((found.time, found.rtt), (Span::from_millis(ms), None));
            assert!(!all.is_pending());
        }
    }

    #[test]
    fn a_long_transfer_keeps_a_sample_of_its_readings() {
        let mut all = Transfers::default();
        for n in 1..100_000u64 {
            let more = all.reading(&reading(n, n * 1500, 1500, 10 + n / 1000));
            assert_eq!(more, None);
        }
        assert!(all.rtts.len() <= MAX_RTTS);
        let end = all.reading(&reading(100_000, 150_000_000, 0, 110)).unwrap();
        let near = |span: Span, ms: f64| (span.as_millis_f64() - ms).abs() <= 2.0;
        assert!(
            end.rtt
                .is_some_and(|rtt| near(rtt.median, 60.0) && near(rtt.p95, 105.0)),
            "{end:?}"
        );
    }
}
