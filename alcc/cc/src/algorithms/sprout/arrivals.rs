// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::wire::Mark;
use std::collections::VecDeque;

/// Packets above the throwaway mark that are tracked individually: 10 ms at 5 Gbit/s.
const MAX_ABOVE: usize = 4096;

/// Counts the bytes that have arrived or are lost.
#[derive(Clone, Default)]
pub(super) struct Arrivals {
    /// All bytes below this sequence have arrived or are lost.
    below: u64,
    /// Packets at or above `below`: sequence and length.
    above: VecDeque<(u64, u64)>,
    bytes_above: u64,
    newest: u64,
}

impl Arrivals {
    pub(super) fn add(&mut self, mark: Mark, len: u64) {
        // Extends the sequence to 64 bits: the value nearest to the newest one.
        let ahead = mark.sequence.wrapping_sub(self.newest as u32) as i32;
        let sequence = self.newest.saturating_add_signed(ahead.into());
        self.newest = self.newest.max(sequence);
        if sequence >= self.below {
            self.above.push_back((sequence, len));
            self.bytes_above = self.bytes_above.saturating_add(len);
        }
        self.forget(sequence.saturating_sub(mark.throwaway.into()));
        if self.above.len() > MAX_ABOVE {
            let oldest = self.above[0];
            self.forget(oldest.0.saturating_add(oldest.1.max(1)));
        }
    }

    fn forget(&mut self, below: u64) {
        if below <= self.below {
            return;
        }
        self.below = below;
        while let Some((_, len)) = self.above.front().filter(|(at, _)| *at < below) {
            self.bytes_above = self.bytes_above.saturating_sub(*len);
            self.above.pop_front();
        }
    }

    pub(super) fn received_or_lost(&mut self) -> u64 {
        // A packet overtaken within the last 10 ms may still arrive after the one that overtook it.
        let below = self.below;
        if self.above.iter().any(|(at, _)| *at < below) {
            self.above.retain(|(at, _)| *at >= below);
            let sum = |sum: u64, (_, len): &(u64, u64)| sum.saturating_add(*len);
            self.bytes_above = self.above.iter().fold(0, sum);
        }
        self.below.saturating_add(self.bytes_above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(sequence: u32, throwaway: u32) -> Mark {
        Mark {
            sequence,
            throwaway,
            time_to_next: 0,
        }
    }

    #[test]
    fn what_is_missing_counts_when_it_is_given_up() {
        let mut a = Arrivals::default();
        a.add(mark(0, 0), 100);
        assert_eq!(a.received_or_lost(), 100);
        // 100 is late; 200 and 300 have arrived.
        a.add(mark(200, 200), 100);
        a.add(mark(300, 300), 100);
        assert_eq!(a.received_or_lost(), 300);
        a.add(mark(100, 100), 100);
        assert_eq!(a.received_or_lost(), 400);
        // 400 never arrives: a later packet declares it lost.
        a.add(mark(500, 0), 100);
        assert_eq!(a.received_or_lost(), 600);
    }

    #[test]
    fn sequences_beyond_four_gigabytes() {
        let mut a = Arrivals::default();
        let mut at = 0u64;
        for _ in 0..10 {
            a.add(mark(at as u32, 0), 1 << 30);
            at += 1 << 30;
        }
        assert_eq!(a.received_or_lost(), at);
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut a = Arrivals::default();
        for i in 0..100_000u32 {
            a.add(mark(i, u32::MAX), 1);
        }
        assert!(a.above.len() <= MAX_ABOVE);
        assert_eq!(a.received_or_lost(), 100_000);
    }
}
