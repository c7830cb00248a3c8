// SPDX-License-Identifier: Apache-2.0 OR MIT
/// A small seeded generator (SplitMix64, Steele et al. 2014): the same seed gives the same numbers
/// on every platform. Not for secrets.
///
/// ```
/// use alcc_units::Rng;
///
/// let mut rng = Rng::new(7);
/// assert!(rng.below(6) < 6);
/// assert!((0.0..1.0).contains(&rng.unit()));
/// assert_ne!(rng.next_u64(), Rng::new(8).next_u64());
/// ```
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that starts at `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The next `n` bytes: those of the next numbers, little-endian. They cannot be compressed.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(n.next_multiple_of(8));
        while bytes.len() < n {
            bytes.extend(self.next_u64().to_le_bytes());
        }
        bytes.truncate(n);
        bytes
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number in `0..n` (0 if `n` is 0), by multiplication: the bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vector_of_splitmix64() {
        // First outputs for seed 1234567, as in the reference implementation's widely used test
        // vector.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn bytes_are_those_of_the_numbers() {
        let mut numbers = Rng::new(7);
        let [a, b] = [numbers.next_u64(), numbers.next_u64()].map(u64::to_le_bytes);
        assert_eq!(Rng::new(7).bytes(11), [&a[..], &b[..3]].concat());
        assert_eq!(Rng::new(7).bytes(0), Vec::<u8>::new());
    }

    #[test]
    fn chance_is_about_right() {
        let mut rng = Rng::new(7);
        let hits = (0..100_000).filter(|_| rng.chance(0.02)).count();
        assert!((1_800..2_200).contains(&hits), "{hits}");
    }
}
