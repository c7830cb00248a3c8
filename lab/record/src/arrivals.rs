// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arrivals in one direction: every packet of the counted time, and the report to the sender.
use crate::wire::Report;
use alcc_trace::{Trace, TraceError};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

/// Maximum number of packets kept of one direction, 24 bytes each.
pub const MAX_ARRIVALS: usize = 1 << 24;

/// Length of the slots over which rates are computed.
const SLOT: Span = Span::from_millis(100);
/// Number of slots of the peak rate: a queue absorbs shorter bursts.
const PEAK_SLOTS: usize = 2;
/// Number of slots of the current rate.
const LAST_SLOTS: usize = 10;
/// Number of slots that are remembered for the peak: a minute, because a channel that was fast will
/// be so again.
const PEAK_WINDOW_SLOTS: usize = 600;
/// A packet that is this far behind the newest is not looked up, but taken for a copy.
const DUPLICATE_WINDOW: u64 = 8192;

/// One packet that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its sequence number.
    pub seq: u64,
    /// Time of sending, by the sender's clock.
    pub sent: Time,
    /// Time of arrival, by the receiver's clock.
    pub received: Time,
}

/// The receiving side of one direction.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Start of the counted time.
    pub from: Time,
    /// End of the counted time, exclusive.
    pub to: Time,
    /// Counted arrivals, in order of arrival.
    pub kept: Vec<Arrival>,
    /// Number of copies of packets that had arrived before.
    pub copies: u64,
    /// Number of counted arrivals for which there was no room.
    pub beyond: u64,
    ip_len: u64,
    received: u64,
    below: u64,
    seen: Box<[u64; (DUPLICATE_WINDOW / 64) as usize]>,
    delay: i64,
    least: i64,
    slot: u64,
    in_slot: u64,
    slots: VecDeque<u64>,
    /// Maximum number of packets in [`PEAK_SLOTS`] slots, and number of packets in those of the
    /// last second.
    peak: u64,
    last: u64,
}

impl Arrivals {
    /// A state without arrivals; packets have `ip_len` IP bytes.
    pub fn new(from: Time, to: Time, ip_len: u64) -> Self {
        Self {
            from,
            to,
            kept: Vec::new(),
            copies: 0,
            beyond: 0,
            ip_len,
            received: 0,
            below: 0,
            seen: Box::new([0; (DUPLICATE_WINDOW / 64) as usize]),
            delay: 0,
            least: i64::MAX,
            slot: 0,
            in_slot: 0,
            slots: VecDeque::new(),
            peak: 0,
            last: 0,
        }
    }

    /// A packet has arrived.
    pub fn add(&mut self, arrival: Arrival) {
        if !self.is_new(arrival.seq) {
            self.copies += 1;
            return;
        }
        self.received += 1;
        let Arrival { sent, received, .. } = arrival;
        self.delay = received
            .as_nanos()
            .wrapping_sub(sent.as_nanos())
            .cast_signed();
        self.least = self.least.min(self.delay);
        self.count(received);
        if (self.from..self.to).contains(&received) {
            if self.kept.len() < MAX_ARRIVALS {
                self.kept.push(arrival);
            } else {
                self.beyond += 1;
            }
        }
    }

    fn is_new(&mut self, seq: u64) -> bool {
        // A number that no sender reaches is invalid.
        if seq > 1 << 48 || seq + DUPLICATE_WINDOW <= self.below {
            return false;
        }
        if seq >= self.below {
            if seq - self.below >= DUPLICATE_WINDOW {
                self.seen.fill(0);
            } else {
                for gone in self.below..=seq {
                    self.mark(gone, false);
                }
            }
            self.below = seq + 1;
        } else if self.seen[(seq % DUPLICATE_WINDOW / 64) as usize] >> (seq % 64) & 1 == 1 {
            return false;
        }
        self.mark(seq, true);
        true
    }

    fn mark(&mut self, seq: u64, set: bool) {
        let word = &mut self.seen[(seq % DUPLICATE_WINDOW / 64) as usize];
        let bit = 1 << (seq % 64);
        *word = if set { *word | bit } else { *word & !bit };
    }

    /// Counts the packet in the slot of its arrival time; one with an older time counts in the
    /// current slot.
    fn count(&mut self, received: Time) {
        let slot = received.as_nanos() / SLOT.as_nanos();
        if self.received == 1 {
            self.slot = slot;
        }
        if slot > self.slot {
            let passed = (slot - self.slot).min(PEAK_WINDOW_SLOTS as u64);
            for n in 0..passed {
                let count = if n == 0 { self.in_slot } else { 0 };
                self.slots.push_back(count);
            }
            while self.slots.len() > PEAK_WINDOW_SLOTS {
                self.slots.pop_front();
            }
            self.slot = slot;
            self.in_slot = 0;
            self.sum();
        }
        self.in_slot += 1;
    }

    fn sum(&mut self) {
        let sums = (1..=self.slots.len()).map(|end| {
            let from = end.saturating_sub(PEAK_SLOTS);
            self.slots.range(from..end).sum::<u64>()
        });
        self.peak = sums.max().unwrap_or(0);
        self.last = self.slots.iter().rev().take(LAST_SLOTS).sum();
    }

    /// The report to the sender.
    pub fn report(&self) -> Report {
        let rate = |packets: u64, slots: usize| {
            let span = SLOT.as_nanos() * slots.min(self.slots.len()).max(1) as u64;
            Rate::of(Bytes::new(packets * self.ip_len), Span::from_nanos(span)).as_bps()
        };
        Report {
            below: self.below,
            received: self.received,
            delay: self.delay,
            least: if self.received == 0 { 0 } else { self.least },
            peak: rate(self.peak, PEAK_SLOTS),
            rate: rate(self.last, LAST_SLOTS),
        }
    }

    /// Number of packets that have arrived, including those outside the counted time.
    pub fn received(&self) -> u64 {
        self.received
    }
}

/// The trace of these arrivals, from `from` on. Bytes are gathered into opportunities of 1500, each
/// at the time of the packet that completes it.
///
/// # Errors
/// Nothing has arrived, or everything in the first millisecond.
pub fn trace(arrivals: &[Arrival], from: Time, ip_len: u64) -> Result<Trace, TraceError> {
    let mut times: Vec<u64> = arrivals
        .iter()
        .map(|a| a.received.since(from).as_nanos())
        .collect();
    times.sort_unstable();
    Trace::from_arrivals(times.into_iter().map(|ns| (Span::from_nanos(ns), ip_len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals() -> Arrivals {
        Arrivals::new(Time::from_millis(1000), Time::from_millis(3000), 1500)
    }

    fn arrival(seq: u64, ms: u64) -> Arrival {
        Arrival {
            seq,
            sent: Time::from_millis(ms - 7),
            received: Time::from_millis(ms),
        }
    }

    #[test]
    fn only_the_time_that_counts_is_kept() {
        let mut all = arrivals();
        for (seq, ms) in [999, 1000, 2999, 3000].into_iter().enumerate() {
            all.add(arrival(seq as u64, ms));
        }
        let kept: Vec<u64> = all.kept.iter().map(|a| a.seq).collect();
        assert_eq!(kept, [1, 2]);
        assert_eq!(all.report().received, 4);
        assert_eq!(all.report().below, 4);
        assert_eq!(all.report().delay, 7_000_000);
        let trace = trace(&all.kept, all.from, 1500).unwrap();
        assert_eq!(trace.opportunities(), [0, 1999]);
    }

    #[test]
    fn copies_do_not_count_but_overtaken_packets_do() {
        let mut all = arrivals();
        for (seq, new) in [
            (5, true),
            (3, true),
            (5, false),
            (3, false),
            (4, true),
            (20_000, true),
            (4, false),
            (19_999, true),
        ] {
            let before = all.received();
            all.add(arrival(seq, 1500));
            assert_eq!(all.received() > before, new, "{seq}");
        }
        assert_eq!(all.copies, 3);
        all.add(arrival(u64::MAX, 1500));
        assert_eq!(all.report().below, 20_001);
    }

    #[test]
    fn rates_by_hand() {
        // 10 packets per 100 ms are 1.2 Mbit/s, 30 in one slot and 10 in the next 2.4 on average
        let mut all = arrivals();
        let mut seq = 0;
        for slot in 0..20u64 {
            let count = if slot == 5 { 30 } else { 10 };
            for n in 0..count {
                all.add(arrival(seq, 1000 + slot * 100 + n));
                seq += 1;
            }
        }
        // The twentieth slot is not complete.
        assert_eq!(all.report().peak, 2_400_000);
        assert_eq!(all.report().rate, 1_200_000);
    }
}
