// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Mersenne Twister MT19937 with the draws of Python's `random`, so that the numbers of
//! scenarios mean the same in scripts. Seeding and constants: Matsumoto and Nishimura,
//! `init_by_array` of 2002.

const N: usize = 624;
const M: usize = 397;

/// Python's `random.Random`.
pub(super) struct Mersenne {
    state: Vec<u32>,
    next: usize,
}

impl Mersenne {
    /// `random.Random(seed)`.
    pub(super) fn new(seed: u64) -> Self {
        let mut key = vec![seed as u32];
        if seed >> 32 != 0 {
            key.push((seed >> 32) as u32);
        }
        let mut state = vec![19_650_218_u32];
        for i in 1..N {
            let last = state[i - 1];
            let mixed = (last ^ (last >> 30)).wrapping_mul(1_812_433_253);
            state.push(mixed.wrapping_add(i as u32));
        }
        let (mut i, mut j) = (1, 0);
        let mut step = |state: &mut Vec<u32>, factor: u32, add: &mut dyn FnMut(usize) -> u32| {
            let last = state[i - 1];
            let mixed = state[i] ^ (last ^ (last >> 30)).wrapping_mul(factor);
            state[i] = mixed.wrapping_add(add(i));
            i += 1;
            if i == N {
                state[0] = state[N - 1];
                i = 1;
            }
        };
        for _ in 0..N.max(key.len()) {
            step(&mut state, 1_664_525, &mut |_| {
                let add = key[j].wrapping_add(j as u32);
                j = (j + 1) % key.len();
                add
            });
        }
        for _ in 1..N {
            step(&mut state, 1_566_083_941, &mut |i| {
                (i as u32).wrapping_neg()
            });
        }
        state[0] = 0x8000_0000;
        Self { state, next: N }
    }

    fn word(&mut self) -> u32 {
        if self.next == N {
            for i in 0..N {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
                let twist = if y & 1 == 0 { 0 } else { 0x9908_b0df };
                self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ twist;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// From 0 to below 1, with 53 bits.
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
