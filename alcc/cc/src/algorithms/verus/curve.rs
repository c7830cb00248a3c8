// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fitted curve and its inverse: window to delay, delay to window (paper, equation 1).
//!
//! The program tries w = 2, 3, ... up to the first delay above the wanted one and returns w - 1.
//! The first crossing of a curve is the first crossing of its running maximum, which is sorted. So
//! the largest value up to each node is stored, and the search covers only one node distance.
//! Outside the data the curve continues as a straight line.
use super::fit::weights;
use super::profile::{LARGEST, ProfilePoint};

/// A natural cubic spline over windows, in ms.
#[derive(Clone, Debug)]
pub struct Curve {
    low: f64,
    high: f64,
    /// Smallest and largest window with data, in packets.
    first: u32,
    last: u32,
    coefficients: Vec<f64>,
    mean: f64,
    scale: f64,
    /// Largest delay at whole windows from 2 up to the end of each node distance.
    highest: Vec<f64>,
}

impl Curve {
    /// `coefficients`: B-spline coefficients at equidistant nodes from `low` to `high`, at least
    /// five, of `(delay - mean) / scale`. `first`: smallest window with data.
    pub fn new(
        low: f64,
        high: f64,
        first: u32,
        coefficients: Vec<f64>,
        mean: f64,
        scale: f64,
    ) -> Self {
        let mut curve = Self {
            low,
            high,
            first: first.max(2),
            last: high as u32,
            coefficients,
            mean,
            scale,
            highest: Vec::new(),
        };
        let mut highest = vec![f64::NEG_INFINITY; curve.coefficients.len() - 1];
        for w in curve.first..=curve.last {
            let cell = curve.cell(f64::from(w));
            highest[cell] = highest[cell].max(curve.delay(f64::from(w)));
        }
        let mut so_far = curve.delay(2.0);
        for value in &mut highest {
            so_far = so_far.max(*value);
            *value = so_far;
        }
        curve.highest = highest;
        curve
    }

    fn position(&self, w: f64) -> f64 {
        (w - self.low) / (self.high - self.low) * (self.coefficients.len() - 1) as f64
    }

    fn cell(&self, w: f64) -> usize {
        (self.position(w).max(0.0) as usize).min(self.coefficients.len() - 2)
    }

    /// Delay of a window, ms. Far from the data it may be any finite number, also a negative one.
    pub fn delay(&self, w: f64) -> f64 {
        let a = &self.coefficients;
        let n = a.len();
        let at = self.position(w);
        let end = (n - 1) as f64;
        let y = if at <= 0.0 {
            a[0] + (a[1] - a[0]) * at
        } else if at >= end {
            a[n - 1] + (a[n - 1] - a[n - 2]) * (at - end)
        } else {
            let (first, weight) = weights(at, n);
            (0..4).map(|i| weight[i] * a[first + i]).sum()
        };
        self.mean + self.scale * y
    }

    /// Reports the curve between the smallest and the largest window with data, at no more than 100
    /// of them.
    pub fn show(&self, put: &mut dyn FnMut(ProfilePoint)) {
        let step = (self.last.saturating_sub(self.first) / 100).max(1);
        for window in (self.first..=self.last).step_by(step as usize) {
            put(ProfilePoint {
                window,
                delay_ms: self.delay(f64::from(window)),
                fitted: true,
            });
        }
    }

    /// The largest window with data.
    pub fn largest(&self) -> u32 {
        self.last
    }

    /// The window before the first one, from 2 up, whose delay exceeds `d`. `None` if the delay of
    /// no possible window does.
    pub fn window_for(&self, d: f64) -> Option<u32> {
        let above = |w: u32| self.delay(f64::from(w)) > d;
        if above(2) {
            return Some(1);
        }
        if self.first > 2 && above(self.first) {
            // Before the first data the curve is a rising straight line from 2 on.
            return Some(halve(2, self.first, above));
        }
        let cell = self.highest.partition_point(|highest| *highest <= d);
        if cell < self.highest.len() {
            let distance = (self.high - self.low) / self.highest.len() as f64;
            // One cell earlier than computed, because rounding may put a window on either side of a
            // node.
            let from = ((self.low + distance * cell as f64) as u32).max(self.first);
            if let Some(w) = (from..=self.last).find(|w| above(*w)) {
                return Some(w - 1);
            }
        }
        if !above(LARGEST) {
            return None;
        }
        Some(halve(self.last.max(2), LARGEST, above))
    }
}

/// Bisection: the last window that is not `above`, between `below`, which is not, and `beyond`,
/// which is.
fn halve(mut below: u32, mut beyond: u32, above: impl Fn(u32) -> bool) -> u32 {
    while beyond > below + 1 {
        let middle = below + (beyond - below) / 2;
        if above(middle) {
            beyond = middle;
        } else {
            below = middle;
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::super::fit::fit;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_inverse_of_a_straight_profile() {
        let curve = fit((1..=20).map(|x| (x, 20.0 + 3.0 * f64::from(x))), 5, 2.0).unwrap();
        for (d, w) in [
            (0.0, 1),
            (25.9, 1),
            (26.1, 2),
            (50.5, 10),
            (79.9, 19),
            (200.5, 60),
        ] {
            assert_eq!(curve.window_for(d), Some(w), "{d} ms");
        }
        assert_eq!(curve.largest(), 20);
    }

    #[test]
    fn a_flat_profile_does_not_reach_a_longer_delay() {
        let curve = fit((1..=20).map(|x| (x, 50.0)), 5, 2.0).unwrap();
        assert_eq!(
            (curve.window_for(51.0), curve.window_for(49.0)),
            (None, Some(1))
        );
    }

    proptest! {
        /// The search agrees with the walk it replaces, on profiles of any shape.
        #[test]
        fn searching_agrees_with_walking(
            delays in proptest::collection::vec(1.0..300.0_f64, 2..60),
            first in 1..40_u32,
            step in 1..9_u32,
            wanted in 0.0..400.0_f64,
        ) {
            let points = delays.iter().zip((first..).step_by(step as usize)).map(|(d, w)| (w, *d));
            let curve = fit(points, 9, -1.0).unwrap();
            let walked = (2..=LARGEST).find(|w| curve.delay(f64::from(*w)) > wanted).map(|w| w - 1);
            prop_assert_eq!(curve.window_for(wanted), walked);
        }
    }
}
