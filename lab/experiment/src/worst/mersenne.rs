// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The random numbers of Python's `random`, so that the same number gives the same scenario in
//! scripts.
use rand_mt::Mt;

/// Python's `random.Random`.
pub(super) struct Mersenne(Mt);

impl Mersenne {
    /// `random.Random(seed)`.
    pub(super) fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let words = if high == 0 { 1 } else { 2 };
        Self(Mt::new_with_key([low, high].into_iter().take(words)))
    }

    fn word(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A number from 0 to below 1, with 53 bits.
    pub(super) fn random(&mut self) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    pub(super) fn uniform(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.random()
    }

    /// One of several with equal probability.
    pub(super) fn choice<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let bits = usize::BITS - all.len().leading_zeros();
        loop {
            let drawn = (self.word() >> (32 - bits)) as usize;
            if let Some(one) = all.get(drawn) {
                return one;
            }
        }
    }

    /// The index of one of several with these weights.
    pub(super) fn weighted(&mut self, weights: &[u32]) -> usize {
        let all: u32 = weights.iter().sum();
        let drawn = self.random() * f64::from(all);
        let mut sum = 0;
        let upper = weights.iter().position(|weight| {
            sum += weight;
            drawn < f64::from(sum)
        });
        upper.unwrap_or(weights.len() - 1)
    }
}
