// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Packets over which the rate is averaged.
const MEMORY: f64 = 128.0;

/// The share of packets that is lost, averaged over about 128 packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossRate(f64);

impl LossRate {
    /// Counts packets that arrived.
    pub fn delivered(&mut self, packets: f64) {
        self.0 *= libm::exp(-packets / MEMORY);
    }

    /// Counts packets that were lost.
    pub fn lost(&mut self, packets: f64) {
        self.0 += (1.0 - self.0) * (1.0 - libm::exp(-packets / MEMORY));
    }

    /// The share.
    pub fn get(&self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_last_packets() {
        for every in [50, 20] {
            let mut rate = LossRate::default();
            for _ in 0..1000 / every {
                rate.lost(1.0);
                rate.delivered(f64::from(every - 1));
            }
            // Up to one loss more or less within the memory.
            let want = 1.0 / f64::from(every);
            assert!(
                (rate.get() - want).abs() < 1.0 / MEMORY,
                "1 of {every}: {}",
                rate.get()
            );
        }
    }
}
