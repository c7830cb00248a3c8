// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::Trace;
use alcc_units::Time;

/// The opportunities of a repeated trace in order: an endless iterator, and random access by
/// number.
///
/// As in Mahimahi the period is the last opportunity's time. So a trace that begins at 0 has two
/// groups of opportunities at the end of a period: the last of one and the first of the next.
#[derive(Clone, Debug)]
pub struct Opportunities {
    trace: Trace,
    next: u64,
    // The parts of `next`, so that a step needs no division.
    index: usize,
    round_ms: u64,
}

impl Opportunities {
    pub(crate) const fn new(trace: Trace) -> Self {
        Self {
            trace,
            next: 0,
            index: 0,
            round_ms: 0,
        }
    }

    /// The underlying trace.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The number (from 0) of the opportunity that `next` will return.
    pub const fn position(&self) -> u64 {
        self.next
    }

    /// Time of the `n`-th opportunity (from 0), counted from the trace's start; [`Time::MAX`]
    /// beyond the range of a time.
    pub fn time_of(&self, n: u64) -> Time {
        let len = self.trace.len() as u64;
        let round = (n / len).saturating_mul(u64::from(self.trace.period_ms()));
        let within = self.trace.opportunities()[(n % len) as usize];
        Time::from_millis(round.saturating_add(u64::from(within)))
    }

    /// The number of opportunities before `time`, which is the number of the first one at or after
    /// it.
    pub fn count_before(&self, time: Time) -> u64 {
        let period = u64::from(self.trace.period_ms());
        // earlier than time <=> whole milliseconds < ceil(time)
        let ms = time.as_nanos().div_ceil(1_000_000);
        if ms == 0 {
            return 0;
        }
        // Counts up to ms-1 inclusive. At the end of a period, the last group of it and the first
        // group of the next are at the same time.
        let (round, within) = ((ms - 1) / period, (ms - 1) % period);
        let len = self.trace.len() as u64;
        let part = self
            .trace
            .opportunities()
            .partition_point(|&o| u64::from(o) <= within);
        round.saturating_mul(len).saturating_add(part as u64)
    }

    /// The time that `next` will return.
    pub fn peek(&self) -> Time {
        let within = u64::from(self.trace.opportunities()[self.index]);
        Time::from_millis(self.round_ms.saturating_add(within))
    }

    /// Moves to the `n`-th opportunity (from 0), which `next` will return.
    pub fn seek(&mut self, n: u64) {
        let len = self.trace.len() as u64;
        self.next = n;
        self.index = (n % len) as usize;
        self.round_ms = (n / len).saturating_mul(u64::from(self.trace.period_ms()));
    }
}

impl Iterator for Opportunities {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let time = self.peek();
        self.next = self.next.wrapping_add(1);
        self.index += 1;
        if self.index == self.trace.len() {
            self.index = 0;
            self.round_ms = self
                .round_ms
                .saturating_add(u64::from(self.trace.period_ms()));
        }
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(times: &[u64]) -> Vec<Time> {
        times.iter().copied().map(Time::from_millis).collect()
    }

    #[test]
    fn repeats_with_the_last_time_as_period() {
        let trace = Trace::new(vec![0, 3, 3, 10]).unwrap();
        let seen: Vec<_> = trace.cursor().take(10).collect();
        assert_eq!(seen, ms(&[0, 3, 3, 10, 10, 13, 13, 20, 20, 23]));
    }

    #[test]
    fn counts_what_is_earlier() {
        let cursor = Trace::new(vec![0, 3, 3, 10]).unwrap().cursor();
        let before = |n: u64| cursor.count_before(Time::from_nanos(n));
        assert_eq!(before(0), 0);
        assert_eq!(before(1), 1);
        assert_eq!(before(3_000_000), 1);
        assert_eq!(before(3_000_001), 3);
        assert_eq!(before(10_000_000), 3);
        assert_eq!(before(10_000_001), 5);
    }

    #[test]
    fn the_far_end_saturates() {
        let mut cursor = Trace::new(vec![u32::MAX]).unwrap().cursor();
        assert_eq!(cursor.time_of(u64::MAX), Time::MAX);
        cursor.seek(u64::MAX);
        assert_eq!(cursor.next(), Some(Time::MAX));
        assert_eq!(cursor.count_before(Time::MAX), 4294);
    }
}
