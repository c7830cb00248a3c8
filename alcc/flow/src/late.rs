// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Span;

/// Lateness up to this does not reduce the rate.
const BORNE: Span = Span::from_millis(20);
/// Time over which the mean is taken.
const MEAN_OVER: Span = Span::from_secs(1);
/// Weight limit of one reading, because a single pause, however long, is no evidence of a busy
/// machine.
const MAX_WEIGHT: f64 = 0.4;
/// Above this, the window is opened. From a lateness of three round trips on no algorithm keeps its
/// rate; below two, most do.
const OPENS: f32 = 0.75;
const CLOSES: f32 = 0.5;

/// Detects that the counters are read so late that no window lasts from one reading to the next.
/// The program would then send less than without a limit, and the algorithm would take that for a
/// slow path and reduce further. At 12 Mbit/s Copa used 3 % when each reading was 300 ms late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness {
    /// Mean share of the time for which the path was empty, if a window is sent at once.
    mean: f32,
    open: bool,
}

impl Lateness {
    /// True unless the reading follows so soon after the last one that it changes nothing, because
    /// none was late.
    #[inline]
    pub(crate) fn concerns(&self, gap: Span) -> bool {
        gap > BORNE || self.mean > 0.0
    }

    /// Takes a reading `gap` after the last one, `late` after it was due, on a path with this RTT.
    #[inline]
    pub(crate) fn read(&mut self, gap: Span, late: Span, rtt: Span) {
        let late = late.saturating_sub(BORNE);
        let empty = late.as_secs_f64() / (late + rtt.max(BORNE)).as_secs_f64();
        let weight = (gap.as_secs_f64() / MEAN_OVER.as_secs_f64()).min(MAX_WEIGHT);
        self.mean += (weight * (empty - f64::from(self.mean))) as f32;
        self.open = self.mean > if self.open { CLOSES } else { OPENS };
    }

    /// True while the kernel decides alone.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(readings: u64, ms: u64, rtt_ms: u64) -> Lateness {
        let mut lateness = Lateness::default();
        goes_on(&mut lateness, readings, ms, rtt_ms);
        lateness
    }

    fn goes_on(lateness: &mut Lateness, readings: u64, ms: u64, rtt_ms: u64) {
        let ms_of = Span::from_millis;
        for _ in 0..readings {
            lateness.read(ms_of(5 + ms), ms_of(ms), ms_of(rtt_ms));
        }
    }

    #[test]
    fn a_writer_always_late_by_more_than_a_round_trip_is_dropped() {
        assert!(after(5, 300, 20).is_open());
        assert!(after(40, 100, 20).is_open());
        // The window of a longer path lasts longer.
        assert!(!after(200, 100, 100).is_open());
        assert!(!after(1000, 60, 20).is_open());
    }

    #[test]
    fn one_pause_is_none() {
        assert!(!after(1, 10_000, 20).is_open());
    }

    #[test]
    fn a_writer_in_time_again_decides_again() {
        let mut lateness = after(20, 300, 20);
        goes_on(&mut lateness, 60, 0, 20);
        assert!(lateness.is_open(), "0.3 s are not enough");
        goes_on(&mut lateness, 140, 0, 20);
        assert!(!lateness.is_open());
    }
}
