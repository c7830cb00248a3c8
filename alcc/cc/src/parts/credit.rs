// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion avoidance as in Linux: the window grows by one packet per `period` acknowledged
//! segments.

/// Acknowledged segments that have not increased the window yet.
#[derive(Clone, Copy, Default, Debug)]
pub struct Credit {
    acked: u64,
}

impl Credit {
    /// Adds `acked` segments; returns the number of packets by which the window grows, at one per
    /// `period`. Segments counted under a longer period add one packet at most.
    pub fn add(&mut self, acked: u64, period: u64) -> u64 {
        let period = period.max(1);
        let mut grown = 0;
        if self.acked >= period {
            self.acked = 0;
            grown = 1;
        }
        self.acked = self.acked.saturating_add(acked);
        if self.acked >= period {
            grown += self.acked / period;
            self.acked %= period;
        }
        grown
    }

    /// Adds one ACK as kernels before 4.1 do: the one after `period` increases the window and is
    /// not counted itself.
    pub fn add_one(&mut self, period: u64) -> u64 {
        if self.acked >= period.max(1) {
            self.acked = 0;
            return 1;
        }
        self.acked += 1;
        0
    }

    /// Forgets the count.
    pub fn clear(&mut self) {
        self.acked = 0;
    }
}

constants! { ACK_RATIO:
    /// Segments per ACK at first, in sixteenths: two, delayed ACKs.
    DELAYED: u64 = 32;
}

/// Segments per ACK, in sixteenths: a moving average of weight 1/16. Kernels that count ACKs
/// instead of segments divide the period of [`Credit::add_one`] by it.
#[derive(Clone, Copy, Debug)]
pub struct AckRatio(u64);

impl AckRatio {
    /// The ratio with delayed ACKs: two segments per ACK.
    pub const DELAYED: Self = Self(DELAYED);

    /// A ratio in sixteenths.
    pub const fn of(sixteenths: u64) -> Self {
        Self(sixteenths)
    }

    /// Adds an ACK for `segments`.
    pub fn add(&mut self, segments: u64, most: u64) {
        let faded = self.0 - self.0 / 16;
        self.0 = faded.saturating_add(segments).min(most);
    }

    /// Converts a period in segments to one in ACKs.
    pub fn period(&self, segments: u64) -> u64 {
        (segments.saturating_mul(16) / self.0.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_per_period_and_one_for_an_older_longer_one() {
        let mut credit = Credit::default();
        let grown: Vec<u64> = (0..6).map(|_| credit.add(2, 5)).collect();
        assert_eq!(grown, [0, 0, 1, 0, 1, 0]);
        let mut credit = Credit::default();
        assert_eq!(credit.add(9, 10), 0);
        assert_eq!(credit.add(1, 3), 1, "nine would be three");
    }

    #[test]
    fn old_kernels_need_one_acknowledgement_more() {
        let mut credit = Credit::default();
        let grown: Vec<u64> = (0..8).map(|_| credit.add_one(3)).collect();
        assert_eq!(grown, [0, 0, 0, 1, 0, 0, 0, 1]);
    }

    #[test]
    fn the_ratio_follows_what_acknowledgements_stand_for() {
        let mut ratio = AckRatio::DELAYED;
        assert_eq!((ratio.period(100), ratio.period(1)), (50, 1));
        (0..200).for_each(|_| ratio.add(1, u64::MAX));
        // Settles where a sixteenth, rounded down, is one.
        assert_eq!(ratio.period(160), 160 * 16 / 31);
        (0..100).for_each(|_| ratio.add(1000, 512));
        assert_eq!(ratio.period(3200), 100);
    }
}
