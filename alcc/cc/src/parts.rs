// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts that several algorithms share.
mod credit;
pub(crate) mod drains;
mod loss_based;
mod loss_rate;
mod loss_test;
mod path_model;
mod policer;
pub(crate) mod route;
mod window;
mod windowed;

pub use crate::algorithms::reno::{Reno, kernel};
pub use credit::{AckRatio, Credit};
pub use drains::{Drained, Drains};
pub use loss_based::{restart_window, rto, window_used};
pub use loss_rate::LossRate;
pub use loss_test::{LossTest, Losses};
pub use path_model::{
    AckAggregation, FullPipe, MinRtt, ProbeRttTimer, RateSample, first_rate, quantum,
};
pub use policer::Policer;
pub(crate) use route::{FLAT, Route};
pub use window::{
    Counting, Growth, INITIAL_WINDOW, Kernel, LossBased, MIN_SSTHRESH, UNLIMITED, Window,
};
pub use windowed::{WindowedMax, WindowedMin};

use alcc_units::{Bytes, Rate};

/// Verus: the code that its forms share, and MDI with them.
pub mod verus {
    pub use crate::algorithms::verus::curve::Curve;
    pub use crate::algorithms::verus::epochs::Epochs;
    pub use crate::algorithms::verus::estimator::plausible;
    pub use crate::algorithms::verus::fit::{DIVISOR, fit, nodes};
    pub use crate::algorithms::verus::profile::{LARGEST, Points, ProfilePoint, label, label_of};
    pub use crate::algorithms::verus::release::{
        epochs_in, lacking, packets, release_exact, release_whole, whole_packets,
    };
    pub use crate::algorithms::verus::{Asked, MIN_DELAY, OPTIONS, Verus};
}

/// The code that the forms of Copa share.
pub mod copa {
    pub use crate::algorithms::copa::shared::{
        Gauges, HeavyLoss, INITIAL, MAX_WINDOW, MIN_RTT_OVER, MIN_WINDOW, Mode, Rtts, SILENCE,
        allowance, needs, verdict,
    };
    pub use crate::algorithms::copa::velocity::{Velocity, Way};
    pub use crate::algorithms::copa::{OPTIONS, asked};
}

/// The code that the forms of Sprout share, and Sprout-EWMA with them.
pub mod sprout {
    pub use crate::algorithms::sprout::learner::{Arrived, Estimate, Learner};
    pub use crate::algorithms::sprout::living;
    pub use crate::algorithms::sprout::model::{HORIZON, Phi};
    pub use crate::algorithms::sprout::outlook::Outlook;
    pub use crate::algorithms::sprout::receiver::{Half, TICK};
    pub use crate::algorithms::sprout::settings::{Asked, Inference, OPTIONS};
    pub use crate::algorithms::sprout::wire::{Forecast, HEADER, Mark};
}

/// The curve of Linux's CUBIC, for algorithms with their own exit from slow start.
pub mod cubic {
    pub use crate::algorithms::cubic::{Curve, curve};
}

constants! { PARTS:
    /// Largest window, bytes: more than any path holds.
    LARGEST: u64 = 1 << 40;
    /// Smallest pacing rate, bit/s.
    SLOWEST: u64 = 8_000;
    /// Largest pacing rate, bit/s.
    FASTEST: u64 = 1_000_000_000_000;
}
pub(crate) const TABLES: &[&[crate::constants::Constant]] = &[
    TABLE,
    drains::TABLE,
    route::TABLE,
    windowed::TABLE,
    loss_rate::TABLE,
    credit::TABLE,
    window::TABLE,
];

/// Upper bound of windows.
pub const MAX_WINDOW: Bytes = Bytes::new(LARGEST);
/// Minimum pacing rate of the controller contract.
pub const MIN_PACING_RATE: Rate = Rate::bps(SLOWEST);
/// Maximum pacing rate of the controller contract.
pub const MAX_PACING_RATE: Rate = Rate::bps(FASTEST);

/// The number of segments in a record: its length over `mss`, rounded, at least 1. At most 65536,
/// so that loops over segments are bounded.
#[inline]
pub fn segments(len: Bytes, mss: Bytes) -> u64 {
    if len == mss {
        // Nearly all records are a single segment, and a division is slow.
        return 1;
    }
    let mss = mss.get().max(1);
    (len.get().saturating_add(mss / 2) / mss).clamp(1, 1 << 16)
}

/// A window in packets as whole bytes: at least one segment, at most [`MAX_WINDOW`].
pub fn window_bytes(packets: f64, mss: Bytes) -> Bytes {
    mss.mul_f64(packets)
        .min(MAX_WINDOW)
        .max(mss)
        .max(Bytes::new(1))
}

/// A pacing rate from packets per second, clamped to the range of the contract.
pub fn pacing_rate(packets_per_second: f64, mss: Bytes) -> Rate {
    Rate::bps_f64(packets_per_second * mss.get() as f64 * 8.0)
        .clamp(MIN_PACING_RATE, MAX_PACING_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_as_the_segments_it_stands_for() {
        let mss = Bytes::new(1448);
        let counts = |len| segments(Bytes::new(len), mss);
        assert_eq!(
            [
                counts(0),
                counts(100),
                counts(1448),
                counts(14480),
                counts(u64::MAX)
            ],
            [1, 1, 1, 10, 65536]
        );
        assert_eq!(segments(Bytes::new(5), Bytes::ZERO), 5);
    }

    #[test]
    fn allowances_stay_in_the_range_of_the_contract() {
        let mss = Bytes::new(1500);
        for w in [f64::NAN, -1.0, 0.0, 0.5] {
            assert_eq!(window_bytes(w, mss), mss);
        }
        assert_eq!(window_bytes(2.5, mss), Bytes::new(3750));
        assert_eq!(window_bytes(f64::INFINITY, mss), MAX_WINDOW);
        assert_eq!(pacing_rate(f64::NAN, mss), MIN_PACING_RATE);
        assert_eq!(pacing_rate(f64::INFINITY, mss), MAX_PACING_RATE);
        assert_eq!(pacing_rate(1000.0, mss), Rate::mbps(12));
    }
}
