// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::Span;
use hdrhistogram::Histogram;

/// The distribution of spans of time in bounded memory: exact mean, quantiles to 0.1 %, 1 µs to 1
/// hour.
///
/// ```
/// use alcc_units::{Distribution, Span};
///
/// let mut delays = Distribution::new();
/// delays.add(Span::from_millis(10), 3);
/// delays.add(Span::from_millis(50), 1);
/// assert_eq!(delays.mean_ms(), Some(20.0));
/// assert!(delays.quantile_ms(0.95) > Some(49.0));
/// ```
pub struct Distribution {
    histogram: Histogram<u64>,
    weighted_ns: u128,
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// A distribution without samples.
    pub fn new() -> Self {
        // These bounds are valid: the lowest is 1, the highest at least twice that, and at most 5
        // digits.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3)
            .unwrap_or_else(|e| unreachable!("constant bounds: {e}"));
        Self {
            histogram,
            weighted_ns: 0,
        }
    }

    /// Adds `weight` samples of the same length.
    pub fn add(&mut self, span: Span, weight: u64) {
        self.weighted_ns += u128::from(span.as_nanos()) * u128::from(weight);
        self.histogram
            .saturating_record_n(span.as_nanos().div_ceil(1_000), weight);
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// True if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Mean in ms; `None` without samples.
    pub fn mean_ms(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.weighted_ns as f64 / 1e6 / self.len() as f64)
    }

    /// Quantile `q` (0 to 1) in ms: the smallest length that a share `q` of the samples does not
    /// exceed. `None` without samples.
    pub fn quantile_ms(&self, q: f64) -> Option<f64> {
        (!self.is_empty()).then(|| {
            let us = self.histogram.value_at_quantile(q);
            // The histogram reports the upper end of a bucket, which may lie above the largest
            // sample.
            us.min(self.histogram.max()) as f64 / 1e3
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_one_to_a_hundred() {
        let mut d = Distribution::new();
        for ms in 1..=100 {
            d.add(Span::from_millis(ms), 1);
        }
        let near = |q: f64, want: f64| {
            let found = d.quantile_ms(q).unwrap();
            assert!(
                (found / want - 1.0).abs() < 0.001,
                "{q}: {found} not {want}"
            );
        };
        near(0.5, 50.0);
        near(0.95, 95.0);
        near(1.0, 100.0);
        assert_eq!(d.mean_ms(), Some(50.5));
        assert_eq!(Distribution::new().mean_ms(), None);
        assert_eq!(Distribution::new().quantile_ms(0.5), None);
    }

    #[test]
    fn a_weight_counts_as_that_many_samples() {
        let mut d = Distribution::new();
        d.add(Span::from_millis(10), 3);
        d.add(Span::from_millis(50), 1);
        assert_eq!(d.mean_ms(), Some(20.0));
        assert!((d.quantile_ms(0.75).unwrap() - 10.0).abs() < 0.02);
        assert!((d.quantile_ms(0.76).unwrap() - 50.0).abs() < 0.06);
    }
}
