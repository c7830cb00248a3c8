// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distance of results from their reference, and its bounds.
use crate::Spread;

/// Maximum distance of a value from its reference. The larger of the two counts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tolerance {
    /// Part of the reference.
    pub relative: f64,
    /// Part in the unit of the value.
    pub absolute: f64,
}

impl Tolerance {
    /// This part of the reference.
    pub const fn part(relative: f64) -> Self {
        Self {
            relative,
            absolute: 0.0,
        }
    }

    /// A tolerance in per cent of the reference.
    pub const fn percent(percent: f64) -> Self {
        Self::part(percent / 100.0)
    }

    /// An absolute tolerance.
    pub const fn absolute(absolute: f64) -> Self {
        Self {
            relative: 0.0,
            absolute,
        }
    }

    /// This, or so much.
    #[must_use]
    pub const fn or(self, absolute: f64) -> Self {
        Self { absolute, ..self }
    }

    /// The largest difference from this reference.
    pub fn around(self, reference: f64) -> f64 {
        self.absolute.max(self.relative * reference.abs())
    }

    /// Text of the tolerance; `unit` is that of the value.
    pub fn describe(self, unit: &str) -> String {
        // Without the last digits of a product.
        let relative = format!("{} %", (100.0 * self.relative) as f32);
        let absolute = format!("{}{unit}", self.absolute);
        match (self.relative > 0.0, self.absolute > 0.0) {
            (true, true) => format!("{relative} or {absolute}"),
            (true, false) => relative,
            (false, _) => absolute,
        }
    }
}

/// A figure of several runs beside those of a reference, which may have several, too.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compared {
    /// The figure of our runs.
    pub ours: Spread,
    /// The figure of the reference.
    pub theirs: Spread,
}

impl Compared {
    /// `None`: one of them has no value.
    pub fn of(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        Some(Self {
            ours: Spread::of(ours)?,
            theirs: Spread::of(theirs)?,
        })
    }

    /// The nearest value of the reference's range.
    fn nearest(&self) -> f64 {
        self.ours.median.clamp(self.theirs.min, self.theirs.max)
    }

    /// Distance of our median from the reference's range. Negative: below.
    pub fn off(&self) -> f64 {
        self.ours.median - self.nearest()
    }

    /// The same in per cent of the nearest value of the range.
    pub fn off_percent(&self) -> f64 {
        100.0 * self.off() / self.nearest().max(1e-9)
    }

    /// True if our median is within the tolerance.
    pub fn is_within(&self, tolerance: Tolerance) -> bool {
        self.off().abs() <= tolerance.around(self.nearest())
    }

    /// True if the two ranges have a value in common.
    pub fn overlaps(&self) -> bool {
        self.ours.min <= self.theirs.max && self.theirs.min <= self.ours.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_tolerance_counts() {
        let both = Tolerance::percent(5.0).or(2.0);
        assert_eq!([both.around(20.0), both.around(-60.0)], [2.0, 3.0]);
        assert_eq!(both.describe(" ms"), "5 % or 2 ms");
        assert_eq!(Tolerance::percent(7.0).describe(" ms"), "7 %");
        assert_eq!(Tolerance::absolute(2.0).describe(" points"), "2 points");
    }

    #[test]
    fn the_nearest_run_counts_and_the_median_of_ours() {
        let c = Compared::of(&[60.0, 70.0, 90.0], &[75.0, 80.0]).unwrap();
        assert_eq!((c.ours.median, c.off(), c.overlaps()), (70.0, -5.0, true));
        assert!((c.off_percent() + 100.0 * 5.0 / 75.0).abs() < 1e-9);
        assert!(c.is_within(Tolerance::absolute(5.0)) && c.is_within(Tolerance::percent(6.7)));
        assert!(!c.is_within(Tolerance::percent(6.6)));
        let inside = Compared::of(&[77.0], &[75.0, 80.0]).unwrap();
        assert_eq!((inside.off(), inside.ours.median), (0.0, 77.0));
        assert!(!Compared::of(&[90.0], &[75.0, 80.0]).unwrap().overlaps());
    }
}
