// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lateness in quantiles that are exact to 9 %, from a fixed table.
use alcc_units::Span;

/// Slots per doubling.
const SLOTS_PER_OCTAVE: f64 = 8.0;

#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    slots: Vec<u64>,
    count: u64,
    max: Span,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            slots: vec![0; 64 * SLOTS_PER_OCTAVE as usize + 1],
            count: 0,
            max: Span::ZERO,
        }
    }
}

impl Lateness {
    pub(crate) fn add(&mut self, late: Span) {
        let slot = (late.as_nanos().max(1) as f64).log2() * SLOTS_PER_OCTAVE;
        let last = self.slots.len() - 1;
        self.slots[(slot as usize).min(last)] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// The upper end of the slot that contains it, at most the maximum.
    pub(crate) fn quantile(&self, share: f64) -> Span {
        let rank = (share * self.count as f64).ceil() as u64;
        let mut sum = 0;
        for (n, count) in self.slots.iter().enumerate() {
            sum += count;
            if sum >= rank && sum > 0 {
                let end = ((n + 1) as f64 / SLOTS_PER_OCTAVE).exp2();
                return Span::from_nanos(end as u64).min(self.max);
            }
        }
        Span::ZERO
    }

    pub(crate) const fn max(&self) -> Span {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near() {
        let mut late = Lateness::default();
        assert_eq!(late.quantile(0.5), Span::ZERO);
        for us in 1..=1000 {
            late.add(Span::from_micros(us));
        }
        let median = late.quantile(0.5).as_micros();
        assert!((500..=546).contains(&median), "{median}");
        assert_eq!(late.quantile(1.0), Span::from_millis(1));
        assert_eq!(late.max(), Span::from_millis(1));
    }
}
