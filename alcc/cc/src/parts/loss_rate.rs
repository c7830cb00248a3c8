// SPDX-License-Identifier: Apache-2.0 OR MIT

constants! { LOSS_RATE:
    /// Packets over which the share of losses is averaged.
    MEMORY: f64 = 128.0;
}

/// The share of lost packets, averaged over about 128 packets, or over the number given to [`LossRate::over`].
#[derive(Clone, Copy, Debug)]
pub struct LossRate {
    share: f64,
    memory: f64,
}

impl Default for LossRate {
    fn default() -> Self {
        Self::over(MEMORY)
    }
}

impl LossRate {
    /// An average over about `memory` packets.
    pub const fn over(memory: f64) -> Self {
        Self { share: 0.0, memory }
    }

    /// Counts packets that arrived.
    pub fn delivered(&mut self, packets: f64) {
        self.share *= libm::exp(-packets / self.memory);
    }

    /// Counts packets that were lost.
    pub fn lost(&mut self, packets: f64) {
        self.share += (1.0 - self.share) * (1.0 - libm::exp(-packets / self.memory));
    }

    /// The share of lost packets, 0 to 1.
    pub fn get(&self) -> f64 {
        self.share
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
