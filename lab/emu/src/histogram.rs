// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Span;

/// Quantiles of any number of spans, to 1 %, in memory that depends only on their range. Mean and
/// maximum are exact.
pub(crate) struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    sum_ns: u128,
    max: Span,
}

/// Upper bound of an hour; longer spans count as this.
const MAX_NS: u64 = 3_600_000_000_000;

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: hdrhistogram::Histogram::new_with_bounds(1, MAX_NS, 2)
                .expect("the bounds are in order"),
            sum_ns: 0,
            max: Span::ZERO,
        }
    }

    pub(crate) fn add(&mut self, span: Span) {
        self.counts.saturating_record(span.as_nanos());
        self.sum_ns += u128::from(span.as_nanos());
        self.max = self.max.max(span);
    }

    fn any(&self) -> Option<u64> {
        Some(self.counts.len()).filter(|n| *n > 0)
    }

    pub(crate) fn mean(&self) -> Option<Span> {
        let n = self.any()?;
        Some(Span::from_nanos((self.sum_ns / u128::from(n)) as u64))
    }

    pub(crate) fn max(&self) -> Option<Span> {
        self.any().map(|_| self.max)
    }

    /// The value that a share `q` of the samples does not exceed.
    pub(crate) fn quantile(&self, q: f64) -> Option<Span> {
        self.any()?;
        Some(Span::from_nanos(self.counts.value_at_quantile(q)).min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_known_sample() {
        let mut h = Histogram::new();
        assert_eq!((h.quantile(0.5), h.mean(), h.max()), (None, None, None));
        for us in 1..=1000 {
            h.add(Span::from_micros(us));
        }
        let near = |q: f64, us: u64| {
            let got = h.quantile(q).unwrap().as_micros();
            assert!((us..=us + us / 99).contains(&got), "{q}: {got}");
        };
        near(0.5, 500);
        near(0.95, 950);
        near(0.99, 990);
        assert_eq!(h.quantile(1.0), Some(Span::from_micros(1000)));
        assert_eq!(h.mean(), Some(Span::from_nanos(500_500)));
        assert_eq!(h.max(), Some(Span::from_micros(1000)));
    }

    #[test]
    fn no_span_is_too_long() {
        let mut h = Histogram::new();
        h.add(Span::ZERO);
        h.add(Span::MAX);
        assert_eq!(h.max(), Some(Span::MAX));
        assert_eq!(h.quantile(0.5), Some(Span::ZERO));
    }
}
