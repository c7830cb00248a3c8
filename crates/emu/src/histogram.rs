// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Span;

/// Spans counted in buckets of at most 1/32 relative width: quantiles of any number of samples in fixed memory.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    n: u64,
    sum_ns: u128,
    max: Span,
}

const SUB: u32 = 5;

fn bucket(ns: u64) -> usize {
    if ns < 1 << SUB {
        return ns as usize;
    }
    let exponent = ns.ilog2() - SUB;
    ((u64::from(exponent) << SUB) + (ns >> exponent)) as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 << SUB {
        return bucket;
    }
    let exponent = (bucket >> SUB) - 1;
    let mantissa = (bucket & ((1 << SUB) - 1)) | (1 << SUB);
    ((u128::from(mantissa) + 1 << exponent) - 1).min(u128::from(u64::MAX)) as u64
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; bucket(u64::MAX) + 1],
            n: 0,
            sum_ns: 0,
            max: Span::ZERO,
        }
    }

    pub(crate) fn add(&mut self, span: Span) {
        self.counts[bucket(span.as_nanos())] += 1;
        self.n += 1;
        self.sum_ns += u128::from(span.as_nanos());
        self.max = self.max.max(span);
    }

    pub(crate) fn mean(&self) -> Option<Span> {
        (self.n > 0).then(|| Span::from_nanos((self.sum_ns / u128::from(self.n)) as u64))
    }

    pub(crate) fn max(&self) -> Option<Span> {
        (self.n > 0).then_some(self.max)
    }

    /// The smallest bucket bound that at least the share `q` of the samples does not exceed.
    pub(crate) fn quantile(&self, q: f64) -> Option<Span> {
        let want = ((self.n as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= want {
                return Some(Span::from_nanos(upper(i)).min(self.max));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_and_are_narrow() {
        for ns in (0..5_000).chain([1 << 40, (1 << 40) + 12_345, u64::MAX]) {
            let top = upper(bucket(ns));
            assert!(
                top >= ns && top - ns <= ns / 32,
                "{ns} in a bucket up to {top}"
            );
            assert!(ns == 0 || bucket(ns) >= bucket(ns - 1));
        }
    }

    #[test]
    fn quantiles_of_a_known_sample() {
        let mut h = Histogram::new();
        assert_eq!(h.quantile(0.5), None);
        for us in 1..=1000 {
            h.add(Span::from_micros(us));
        }
        let near = |q: f64, us: u64| {
            let got = h.quantile(q).unwrap().as_micros();
            assert!((us..=us + us / 30).contains(&got), "{q}: {got}");
        };
        near(0.5, 500);
        near(0.95, 950);
        near(0.99, 990);
        assert_eq!(h.quantile(1.0), Some(Span::from_micros(1000)));
        assert_eq!(h.mean(), Some(Span::from_nanos(500_500)));
    }
}
