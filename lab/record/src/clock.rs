// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparison of two clocks: their offset and skew, from the delays of packets in both directions.
//!
//! If a packet was sent at `s` by this clock and arrived at `r` by the other one, the other clock
//! was ahead by at most `r - s`, because no packet arrives before it was sent. If another packet
//! was sent there at `s` and arrived here at `r`, the other clock was ahead by at least `s - r`. So
//! the difference over time is in a corridor between the lower hull of the former values and the
//! upper hull of the latter. It is a straight line if both clocks run steadily. Of all lines that
//! fit, the middle of the widest pair of parallels is taken. A wrong slope makes the corridor
//! narrower, because the fastest packets of the beginning and of the end cannot both touch it. The
//! width of the corridor is the shortest round trip. The line is right if the fastest packets take
//! the same time in both directions. Otherwise its error is half of the difference, at most half
//! the shortest round trip.

/// Maximum skew of a clock: 5000 parts per million.
const MAX_SKEW: f64 = 5e-3;
/// Minimum time (ns) for fitting a slope.
const MIN_FIT_TIME: f64 = 2e9;

/// The hull of points on one side of a line. Times never decrease, and points inside the hull are
/// dropped.
#[derive(Clone, Debug, Default)]
struct Hull {
    points: Vec<(f64, f64)>,
}

impl Hull {
    /// Adds a point and keeps the lower hull.
    fn add(&mut self, x: f64, y: f64) {
        if let Some(&(last, height)) = self.points.last() {
            // An echo out of order is not worth sorting.
            if x < last || (x == last && y >= height) {
                return;
            }
            if x == last {
                self.points.pop();
            }
        }
        while let [.., a, b] = self.points[..] {
            if (b.0 - a.0) * (y - a.1) > (b.1 - a.1) * (x - a.0) {
                break;
            }
            self.points.pop();
        }
        self.points.push((x, y));
    }

    /// Time from the first to the last point.
    fn length(&self) -> f64 {
        match (self.points.first(), self.points.last()) {
            (Some(a), Some(b)) => b.0 - a.0,
            _ => 0.0,
        }
    }

    /// The highest line of this slope below all points: the point that it touches, and its height
    /// at 0.
    fn support(&self, slope: f64) -> Option<(f64, f64)> {
        // Slopes increase along the hull, so that y - slope x first falls and then rises.
        let steps = self.points.windows(2);
        let mut at = 0;
        for (n, pair) in steps.enumerate() {
            if pair[1].1 - pair[0].1 >= slope * (pair[1].0 - pair[0].0) {
                break;
            }
            at = n + 1;
        }
        self.points.get(at).map(|&(x, y)| (x, y - slope * x))
    }
}

/// Samples of two clocks from packets. Times are in nanoseconds with an arbitrary origin for each
/// clock.
#[derive(Clone, Debug, Default)]
pub struct ClockSamples {
    /// The local time and the difference that are subtracted from all numbers, to keep them small.
    origin: Option<(u64, i64)>,
    /// Upper bounds of the difference.
    above: Hull,
    /// Negated lower bounds of the difference.
    below: Hull,
}

/// The fitted relation of the other clock to ours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClockFit {
    origin: u64,
    difference: i64,
    height: f64,
    slope: f64,
    /// The shortest round trip relative to the fitted line, ns. The error of the offset is at most
    /// half of it.
    pub round_trip_ns: f64,
}

const fn difference(theirs: u64, ours: u64) -> i64 {
    theirs.wrapping_sub(ours).cast_signed()
}

impl ClockSamples {
    /// Takes a packet sent at `sent` by the local clock, received at `received` by the peer's.
    pub fn sent(&mut self, sent: u64, received: u64) {
        let (x, y) = self.point(sent, difference(received, sent));
        self.above.add(x, y);
    }

    /// Takes a packet of the other end, sent at `sent` by the other clock, received at `received`
    /// by this one.
    pub fn received(&mut self, sent: u64, received: u64) {
        let (x, y) = self.point(received, difference(sent, received));
        self.below.add(x, -y);
    }

    fn point(&mut self, at: u64, difference: i64) -> (f64, f64) {
        let (origin, first) = *self.origin.get_or_insert((at, difference));
        (
            at.wrapping_sub(origin).cast_signed() as f64,
            difference.wrapping_sub(first) as f64,
        )
    }

    /// The line; `None` before a packet has come in each direction.
    pub fn fit(&self) -> Option<ClockFit> {
        let (origin, difference) = self.origin?;
        let touch = |slope: f64| Some((self.above.support(slope)?, self.below.support(-slope)?));
        touch(0.0)?;
        // The width of the corridor as a function of its slope is concave, with the derivative
        // (where it touches below) - (above). If that is 0 over a range of slopes, its middle is
        // taken.
        let edge = |flat_is_left: bool| {
            let (mut low, mut high) = (-MAX_SKEW, MAX_SKEW);
            for _ in 0..60 {
                let middle = f64::midpoint(low, high);
                let Some((above, below)) = touch(middle) else {
                    break;
                };
                let rises = below.0 - above.0;
                if rises > 0.0 || (rises == 0.0 && flat_is_left) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            f64::midpoint(low, high)
        };
        let slope = f64::midpoint(edge(true), edge(false));
        // Only noise gives a slope beyond that of any clock; and a slope from a short time is
        // noise.
        let long = self.above.length().min(self.below.length()) >= MIN_FIT_TIME;
        let slope = if long && slope.abs() < 0.99 * MAX_SKEW {
            slope
        } else {
            0.0
        };
        let (above, below) = touch(slope)?;
        let (above, below) = (above.1, -below.1);
        Some(ClockFit {
            origin,
            difference,
            height: f64::midpoint(above, below),
            slope,
            round_trip_ns: (above - below).max(0.0),
        })
    }
}

impl ClockFit {
    /// Offset of the other clock when ours shows `ours`, ns.
    pub fn offset_ns(&self, ours: u64) -> f64 {
        let x = ours.wrapping_sub(self.origin).cast_signed() as f64;
        self.difference as f64 + self.height + self.slope * x
    }

    /// Relative speed of the other clock: 1e-6 is one part per million faster.
    pub fn skew(&self) -> f64 {
        self.slope
    }

    /// Maximum error of the offset, ns: half the shortest round trip.
    pub fn error_ns(&self) -> f64 {
        self.round_trip_ns / 2.0
    }

    /// Converts a time of the other clock to ours.
    pub fn to_ours(&self, theirs: u64) -> u64 {
        // One iteration suffices: a slope of 5e-3 times a delay is far below the error bound.
        let guess = theirs.wrapping_sub(self.difference.cast_unsigned());
        let x = guess.wrapping_sub(self.origin).cast_signed() as f64;
        let shift = (self.height + self.slope * x) / (1.0 + self.slope);
        guess.wrapping_add_signed(-(shift.round() as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_units::Rng;

    /// Two clocks: the peer's is `offset` ns ahead and `ppm` faster. Packets take `out` and `back`
    /// at least, and queueing on top.
    fn samples(
        offset: i64,
        ppm: f64,
        out: u64,
        back: u64,
        seconds: u64,
        seed: u64,
    ) -> ClockSamples {
        let mut rng = Rng::new(seed);
        let (mut all, mut back_home) = (ClockSamples::default(), Vec::new());
        let start = 5_000_000_000_000u64;
        let theirs = |ours: u64| {
            let elapsed = (ours - start) as f64;
            ours.wrapping_add_signed(offset + (elapsed * ppm * 1e-6) as i64)
        };
        for n in 0..seconds * 50 {
            let ours = start + n * 20_000_000;
            // In the middle the queues are full, as while a saturator works.
            let quiet = n < 40 || n + 40 > seconds * 50;
            let mut queue = || {
                let standing = if quiet { 0 } else { 700_000_000 };
                standing + rng.below(2_000_000)
            };
            let (there, here) = (out + queue(), back + queue());
            all.sent(ours, theirs(ours + there));
            back_home.push((ours + there + here, theirs(ours + there)));
        }
        // As a queue would have it.
        back_home.sort_unstable();
        for (received, sent) in back_home {
            all.received(sent, received);
        }
        all
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]

        /// Offset within half the asymmetry of the fastest packets and what their jitter adds, at
        /// the ends and in the middle; skew as well as jitter over the time between allows.
        #[test]
        fn finds_offset_and_skew(
            offset in -4_000_000_000_000_000i64..4_000_000_000_000_000,
            ppm in -200.0f64..200.0,
            out in 0u64..80_000_000,
            back in 0u64..80_000_000,
            seconds in 4u64..60,
            seed: u64,
        ) {
            let fit = samples(offset, ppm, out, back, seconds, seed).fit().unwrap();
            let jitter = 1_000_000.0;
            let asymmetry = (out as f64 - back as f64).abs() / 2.0;
            for t in [0, seconds / 2, seconds] {
                let ours = 5_000_000_000_000 + t * 1_000_000_000;
                let truth = offset as f64 + t as f64 * 1e3 * ppm;
                let off = (fit.offset_ns(ours) - truth).abs();
                // Numbers of 4e15 ns have an eighth of a nanosecond to spare in a double.
                proptest::prop_assert!(off <= asymmetry + 2.0 * jitter, "{off} ns off at {t} s, asymmetry {asymmetry}");
                proptest::prop_assert!(off <= fit.error_ns() + 2.0 * jitter, "beyond the stated bound {}", fit.error_ns());
                let there = ours.wrapping_add_signed(truth as i64);
                let back = difference(fit.to_ours(there), ours).unsigned_abs() as f64;
                proptest::prop_assert!((back - off).abs() < 10_000.0, "{back} and {off}");
            }
            let skew = (fit.skew() * 1e6 - ppm).abs();
            proptest::prop_assert!(skew <= 4.0 * jitter / (seconds as f64 * 1e3) + 1.0, "{skew} ppm off over {seconds} s");
        }

        /// With any input, nothing panics, and a fit is finite.
        #[test]
        fn nonsense_is_survived(pairs: Vec<(u64, u64, bool)>) {
            let mut all = ClockSamples::default();
            for (a, b, ours) in pairs {
                if ours { all.sent(a, b) } else { all.received(a, b) }
            }
            if let Some(fit) = all.fit() {
                proptest::prop_assert!(fit.offset_ns(0).is_finite() && fit.skew().is_finite());
                let _ = fit.to_ours(u64::MAX);
            }
        }
    }

    #[test]
    fn two_packets_by_hand() {
        // Theirs is 1000 ahead. There 30, back 10: the middle is (1030 + 990) / 2, wrong by half
        // the asymmetry.
        let mut all = ClockSamples::default();
        assert_eq!(all.fit(), None);
        all.sent(100, 1130);
        assert_eq!(all.fit(), None);
        all.received(1130, 140);
        let fit = all.fit().unwrap();
        assert_eq!(fit.offset_ns(100), 1010.0);
        assert_eq!(fit.error_ns(), 20.0);
        assert_eq!(fit.skew(), 0.0);
        assert_eq!(fit.to_ours(1110), 100);
    }

    #[test]
    fn a_straight_line_is_found_exactly() {
        // 100 ppm, delay 500 both ways, no jitter: every packet touches the corridor
        let fit = samples(7_000, 100.0, 500, 500, 0, 1);
        assert_eq!(fit.fit(), None);
        let mut all = ClockSamples::default();
        for n in 0..1000u64 {
            let t = n * 5_000_000;
            let theirs = |t: u64| t + 7_000 + t / 10_000;
            all.sent(t, theirs(t + 500));
            all.received(theirs(t), t + 500);
        }
        let fit = all.fit().unwrap();
        assert!((fit.skew() - 1e-4).abs() < 1e-8, "{}", fit.skew());
        assert!(
            (fit.offset_ns(0) - 7_000.0).abs() < 2.0,
            "{}",
            fit.offset_ns(0)
        );
    }
}
