// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The belief about the link's rate: a distribution over the model's bins.
use super::model::{BINS, HORIZON, Model, dot, most, rate};
use libm::exp;

/// Smaller probabilities are set to zero: denormal numbers would slow down the processor.
const NOTHING: f64 = 1e-100;

#[derive(Clone)]
/// The distribution of the rate.
pub struct Belief {
    model: &'static Model,
    /// The probability of each bin. It is on the heap, as everything of this size, because a
    /// program may write for the first time on a stack of a few KiB.
    p: Vec<f64>,
    /// Scratch buffer for the next distribution.
    next: Vec<f64>,
    /// The last results, at which the next search begins.
    last: [u32; HORIZON],
}

impl Belief {
    pub(super) fn new(model: &'static Model) -> Self {
        Self {
            model,
            p: vec![1.0 / BINS as f64; BINS],
            next: vec![0.0; BINS],
            last: [0; HORIZON],
        }
    }

    /// Makes all rates equally likely.
    pub(super) fn reset(&mut self) {
        self.p.fill(1.0 / BINS as f64);
    }

    #[cfg(test)]
    pub(super) fn with(model: &'static Model, p: &[f64]) -> Self {
        Self {
            p: p.to_vec(),
            ..Self::new(model)
        }
    }

    #[cfg(test)]
    pub(super) fn p(&self) -> &[f64] {
        &self.p
    }

    /// Advances the distribution by a tick.
    pub(super) fn evolve(&mut self) {
        self.model.evolve(&self.p, &mut self.next);
        std::mem::swap(&mut self.p, &mut self.next);
        self.normalise();
    }

    /// Takes the observation of `count` packets in the last tick.
    pub(super) fn observe(&mut self, count: f64) {
        let mut most = f64::NEG_INFINITY;
        for (i, (w, p)) in self.next.iter_mut().zip(&self.p).enumerate() {
            *w = self.model.log_likelihood(count, i);
            if *p > 0.0 {
                most = most.max(*w);
            }
        }
        for (p, w) in self.p.iter_mut().zip(&self.next) {
            if *p > 0.0 {
                *p *= exp(w - most);
            }
        }
        self.normalise();
    }

    fn normalise(&mut self) {
        let total = dot(&self.p, &[1.0; BINS]);
        if !(NOTHING..f64::MAX).contains(&total) {
            self.reset();
            return;
        }
        for p in &mut self.p {
            *p /= total;
            if *p < NOTHING {
                *p = 0.0;
            }
        }
    }

    /// Doubles the unit of later counts.
    pub(super) fn fold(&mut self) {
        for i in 0..BINS {
            let pair = |j: usize| self.p.get(j).copied().unwrap_or(0.0);
            self.p[i] = pair(2 * i) + pair(2 * i + 1);
        }
        self.normalise();
    }

    /// Halves the unit of later counts.
    pub(super) fn spread(&mut self) {
        for i in (1..BINS).rev() {
            self.p[i] = if i == 1 { 0.0 } else { self.p[i / 2] / 2.0 };
        }
        self.normalise();
    }

    /// The mean rate, packets per second.
    pub(super) fn mean(&self) -> f64 {
        self.p.iter().enumerate().map(|(i, p)| p * rate(i)).sum()
    }

    /// The number of packets that arrive within 1 to 8 ticks from now, with probability 1 -
    /// `quantile` or more.
    pub(super) fn forecast(&mut self, quantile: f64) -> [u32; HORIZON] {
        let mut floor = 0;
        for h in 0..HORIZON {
            let k = self.search(h, quantile, floor, self.last[h] as usize);
            floor = k.min(most(h));
            self.last[h] = k as u32;
        }
        self.last
    }

    /// The smallest count, from `floor` on, at which the distribution function reaches the
    /// quantile. The search goes outwards from a guess.
    fn search(&self, h: usize, quantile: f64, floor: usize, guess: usize) -> usize {
        let reaches = |k: usize| dot(&self.p, self.model.at_most(h, k)) >= quantile;
        let end = most(h);
        // Invariant: below the quantile at `low`, at or above it at `high`; `high` may stand for
        // "never".
        let never = end + 2;
        let (mut low, mut high) = (floor, never);
        let mut k = guess.clamp(floor, end);
        let mut step = 1;
        if reaches(k) {
            high = k;
            while high > low {
                k = high.saturating_sub(step).max(low);
                if !reaches(k) {
                    low = k + 1;
                    break;
                }
                high = k;
                step *= 2;
            }
        } else {
            low = k + 1;
            while low <= end {
                k = (low + step - 1).min(end);
                if reaches(k) {
                    high = k;
                    break;
                }
                low = k + 1;
                step *= 2;
            }
        }
        if low > end {
            return high;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if reaches(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        high
    }
}
