// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::VecDeque;

constants! { MINIMUM:
    /// Buckets of a window: they bound the memory of a filter.
    BUCKETS: u64 = 128, kernel 16 because "an ACK goes through all of them";
}

/// Minimum over a sliding window of time.
///
/// A monotone queue whose entries are at least 1/128 of the window apart, so at most 129 exist.
/// Entries leave on insertion only. The newest value always stays, so that there is a result after
/// a silence.
#[derive(Clone, Debug)]
pub struct WindowedMin<T> {
    /// Ascending in time and in value; the first is the minimum.
    entries: VecDeque<(Time, T)>,
}

impl<T: Copy + Ord> WindowedMin<T> {
    /// An empty filter.
    pub fn new() -> Self {
        Self {
            entries: VecDeque::new(),
        }
    }

    /// Inserts `value` at `now` and drops what is older than `window`. The window may differ from
    /// call to call; [`Span::MAX`] drops nothing.
    pub fn insert(&mut self, now: Time, value: T, window: Span) {
        while self.entries.back().is_some_and(|(_, v)| *v >= value) {
            self.entries.pop_back();
        }
        while self
            .entries
            .front()
            .is_some_and(|(t, _)| now.since(*t) > window)
        {
            self.entries.pop_front();
        }
        let apart = self
            .entries
            .back()
            .is_none_or(|(t, _)| now.since(*t) > window / BUCKETS);
        if apart && self.entries.len() <= BUCKETS as usize {
            self.entries.push_back((now, value));
        }
    }

    /// The minimum, `None` before the first value.
    pub fn get(&self) -> Option<T> {
        self.entries.front().map(|(_, v)| *v)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Frees the memory. The next value allocates it again.
    pub fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }
}

impl<T: Copy + Ord> Default for WindowedMin<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Maximum over a sliding window of time. See [`WindowedMin`].
#[derive(Clone, Debug, Default)]
pub struct WindowedMax<T: Copy + Ord>(WindowedMin<Reverse<T>>);

impl<T: Copy + Ord> WindowedMax<T> {
    /// An empty filter.
    pub fn new() -> Self {
        Self(WindowedMin::new())
    }

    /// Inserts `value` at `now` and drops values older than `window`.
    pub fn insert(&mut self, now: Time, value: T, window: Span) {
        self.0.insert(now, Reverse(value), window);
    }

    /// The maximum, `None` before the first value.
    pub fn get(&self) -> Option<T> {
        self.0.get().map(|Reverse(v)| v)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Frees the memory. The next value allocates it again.
    pub fn shrink(&mut self) {
        self.0.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    #[test]
    fn a_minimum_leaves_when_something_newer_arrives_after_it_expired() {
        let (mut f, window) = (WindowedMin::new(), Span::from_millis(1280));
        let mut insert = |t, v| {
            f.insert(ms(t), v, window);
            f.get().unwrap()
        };
        assert_eq!(
            [
                insert(0, 50),
                insert(500, 40),
                insert(1000, 60),
                insert(1500, 70)
            ],
            [50, 40, 40, 40]
        );
        assert_eq!(insert(1900, 70), 60);
        assert_eq!(insert(5000, 80), 80);
    }

    #[test]
    fn without_a_window_nothing_is_forgotten() {
        let mut f = WindowedMin::new();
        f.insert(ms(0), 5, Span::MAX);
        f.insert(ms(1_000_000), 9, Span::MAX);
        assert_eq!(f.get(), Some(5));
    }

    proptest! {
        /// Against the definition: exact for what is younger than the window by more than one
        /// bucket.
        #[test]
        fn agrees_with_the_definition_to_one_bucket(steps in prop::collection::vec((0u64..40, 0u32..100), 1..400)) {
            let window = Span::from_millis(1280);
            let bucket = Span::from_millis(10);
            let (mut min, mut max) = (WindowedMin::new(), WindowedMax::new());
            let (mut now, mut all) = (Time::ZERO, Vec::new());
            for (dt, v) in steps {
                now += Span::from_millis(dt);
                all.push((now, v));
                min.insert(now, v, window);
                max.insert(now, v, window);
                let within = |w: Span| all.iter().filter(move |(t, _)| now.since(*t) <= w).map(|(_, v)| *v);
                let low = min.get().unwrap();
                prop_assert!(low >= within(window).min().unwrap() && low <= within(window - bucket - bucket).min().unwrap());
                let high = max.get().unwrap();
                prop_assert!(high <= within(window).max().unwrap() && high >= within(window - bucket - bucket).max().unwrap());
                prop_assert!(min.entries.len() <= 129);
            }
        }

        #[test]
        fn memory_is_bounded_even_when_the_window_changes(steps in prop::collection::vec((0u64..1_000_000, 0u64..10), 1..600)) {
            let (mut f, mut now) = (WindowedMin::new(), Time::ZERO);
            for (i, (window, dt)) in steps.into_iter().enumerate() {
                now += Span::from_micros(dt);
                f.insert(now, i, Span::from_micros(window));
                prop_assert!(f.entries.len() <= 129 && f.get().is_some());
            }
        }
    }
}
