// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compensation of the wake-up latency of a sleeping thread. On an idle machine, even more on a
//! virtual one, this is the largest part of an emulated link's error, and nearly constant.
use alcc_units::{Span, Time};

/// The change of the estimate with each sample: towards the median, whatever the outliers.
const STEP: Span = Span::from_micros(2);
/// Larger latencies are those of a busy machine, and are not compensated.
const MOST: Span = Span::from_micros(150);

/// The median latency of the end of a sleep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wakeup {
    typical: Span,
}

impl Wakeup {
    /// The time until which to sleep for an event at `next`, so that the thread is most likely
    /// awake by then.
    pub(crate) fn aim(self, now: Time, next: Time) -> Time {
        // A shorter sleep is a light one, and would not be a sleep at all.
        if next.since(now) > self.typical * 2 {
            now + (next.since(now) - self.typical)
        } else {
            next
        }
    }

    /// A sleep that was to end at `aimed` has ended at `woke`.
    pub(crate) fn slept(&mut self, aimed: Time, woke: Time) {
        self.typical = if woke.since(aimed) > self.typical {
            (self.typical + STEP).min(MOST)
        } else {
            self.typical.saturating_sub(STEP)
        };
    }

    /// The arrival time of a packet that woke the thread at `woke`, after it had begun to sleep at
    /// `slept`.
    pub(crate) fn arrival(self, slept: Time, woke: Time) -> Time {
        slept.max(Time::ZERO + woke.since(Time::ZERO + self.typical))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Time {
        Time::ZERO + Span::from_micros(n)
    }

    fn settled(late: impl Fn(u64) -> u64) -> Wakeup {
        let mut wakeup = Wakeup::default();
        (0..1000).for_each(|n| wakeup.slept(us(n), us(n + late(n))));
        wakeup
    }

    #[test]
    fn a_sleep_that_ends_60_us_late_begins_60_us_earlier() {
        let wakeup = settled(|_| 60);
        let aimed = wakeup.aim(us(0), us(10_000));
        assert!((us(9_938)..=us(9_942)).contains(&aimed), "{aimed:?}");
        let came = wakeup.arrival(us(0), us(5_000));
        assert!((us(4_938)..=us(4_942)).contains(&came), "{came:?}");
    }

    #[test]
    fn nothing_comes_before_the_sleep_that_it_ends() {
        let wakeup = settled(|_| 60);
        assert_eq!(wakeup.arrival(us(4_990), us(5_000)), us(4_990));
    }

    #[test]
    fn a_short_sleep_is_not_cut() {
        let wakeup = settled(|_| 60);
        assert_eq!(wakeup.aim(us(0), us(100)), us(100));
    }

    #[test]
    fn outliers_and_a_busy_machine_are_not_made_up_for() {
        let wakeup = settled(|n| if n % 5 == 0 { 5_000 } else { 40 });
        assert!(wakeup.aim(us(0), us(10_000)) > us(9_900), "{wakeup:?}");
        let busy = settled(|_| 5_000);
        assert_eq!(busy.aim(us(0), us(10_000)), us(9_850));
    }
}
