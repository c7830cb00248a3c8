// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The value of one quantity of a link over time, as set by its [`Changes`].
use crate::changes::{Changes, Step};
use alcc_units::{Span, Time};

/// One quantity over time: its current value, and its next one with its time.
#[derive(Clone, Debug)]
pub(crate) struct Schedule<T> {
    /// Values in order of time; the first one is the initial value.
    points: Vec<(Time, T)>,
    period: Option<Span>,
    /// Index into `points` of the current value, and the time at which the current repetition
    /// began.
    index: usize,
    round: Time,
}

impl<T: Copy> Schedule<T> {
    /// A schedule; `None` if the quantity never changes.
    pub(crate) fn new(
        first: T,
        changes: &Changes,
        of: impl Fn(&Step) -> Option<T>,
    ) -> Option<Self> {
        let period = changes.repeat.filter(|p| !p.is_zero());
        let end = period.map_or(Time::MAX, |p| Time::ZERO + p);
        let mut points = vec![(Time::ZERO, first)];
        let steps = changes.steps.iter();
        points.extend(steps.filter_map(|s| of(s).map(|v| (s.at, v)).filter(|p| p.0 < end)));
        points.sort_by_key(|p| p.0);
        (points.len() > 1).then_some(Self {
            points,
            period,
            index: 0,
            round: Time::ZERO,
        })
    }

    /// The current value.
    pub(crate) fn value(&self) -> T {
        self.points[self.index].1
    }

    /// Time of the next value; [`Time::MAX`]: never.
    pub(crate) fn next(&self) -> Time {
        match (self.points.get(self.index + 1), self.period) {
            (Some((at, _)), _) => self.round + at.since(Time::ZERO),
            (None, Some(period)) => self.round + period,
            (None, None) => Time::MAX,
        }
    }

    /// The value at `now`, which never goes back.
    pub(crate) fn at(&mut self, now: Time) -> T {
        if now >= self.next() {
            self.seek(now);
        }
        self.value()
    }

    fn seek(&mut self, now: Time) {
        if let Some(period) = self.period {
            let rounds = now.since(self.round).as_nanos() / period.as_nanos();
            if rounds > 0 {
                self.round += period * rounds;
                self.index = 0;
            }
        }
        let within = now.since(self.round);
        let before = |p: &(Time, T)| p.0.since(Time::ZERO) <= within;
        self.index += self.points[self.index + 1..].partition_point(before);
    }

    /// The pieces of constant value that cover `from..to`, as (begin, end, value).
    pub(crate) fn pieces(&self, from: Time, to: Time) -> impl Iterator<Item = (Time, Time, T)> {
        let mut schedule = Self {
            index: 0,
            round: Time::ZERO,
            ..self.clone()
        };
        let mut begin = from;
        std::iter::from_fn(move || {
            if begin >= to {
                return None;
            }
            let value = schedule.at(begin);
            let end = schedule.next().min(to);
            let piece = (begin, end, value);
            begin = end;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Time = |s| Time::from_millis(s * 1000);

    #[test]
    fn a_course_repeats_and_leaps() {
        let steps = ["4s:loss=0.4", "2s:loss=0.1", "2s:loss=0.2", "12s:loss=1"];
        let mut changes = Changes::of(steps.iter().map(|t| t.parse().unwrap()).collect());
        changes.repeat = Some(Span::from_secs(10));
        let schedule = || schedule_of(&changes);
        let mut walking = schedule();
        for (at, value, next) in [
            (0, 0.0, 2),
            (1, 0.0, 2),
            (2, 0.2, 4),
            (3, 0.2, 4),
            (4, 0.4, 10),
            (9, 0.4, 10),
            (10, 0.0, 12),
            (12, 0.2, 14),
            (29, 0.4, 30),
            (1_000_000_000, 0.0, 1_000_000_002),
        ] {
            assert_eq!(
                (walking.at(S(at)), walking.next()),
                (value, S(next)),
                "{at}"
            );
            assert_eq!(schedule().at(S(at)), value, "{at} in one leap");
        }
        let pieces: Vec<_> = schedule().pieces(S(3), S(13)).collect();
        assert_eq!(
            pieces,
            [
                (S(3), S(4), 0.2),
                (S(4), S(10), 0.4),
                (S(10), S(12), 0.0),
                (S(12), S(13), 0.2)
            ]
        );
        changes.repeat = None;
        let mut once = schedule_of(&changes);
        assert_eq!((once.at(S(13)), once.next()), (1.0, Time::MAX));
        assert!(Schedule::new(Span::ZERO, &changes, |s| s.delay).is_none());
    }

    fn schedule_of(changes: &Changes) -> Schedule<f64> {
        Schedule::new(0.0, changes, |s| s.loss).unwrap()
    }
}
