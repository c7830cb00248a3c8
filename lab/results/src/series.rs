// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time series of flows.
use serde::{Deserialize, Serialize};

/// Time series of one flow, for plots. Times are seconds since the start of the window.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// The row's scheme.
    pub scheme: String,
    /// The row's link.
    pub link: String,
    /// The row's repetition.
    pub run: u32,
    /// The row's side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Width of a bin, s.
    pub bin_s: f64,
    /// Delivered by the bottleneck per bin, Mbit/s.
    pub throughput_mbps: Vec<f64>,
    /// Delivery opportunities per bin, Mbit/s.
    pub capacity_mbps: Vec<f64>,
    /// Mean one-way delay of the packets delivered in the bin, ms.
    pub delay_ms: Vec<Option<f64>>,
    /// One-way delay in ms at the quantiles [`quantiles`].
    pub delay_quantiles_ms: Vec<f64>,
}

impl Series {
    /// The throughput bins of each whole second of the window, Mbit/s.
    pub fn seconds(&self) -> impl Iterator<Item = &[f64]> {
        let each = ((1.0 / self.bin_s).round() as usize).max(1);
        self.throughput_mbps.chunks_exact(each)
    }

    /// The throughput of each whole second of the window, Mbit/s.
    pub fn seconds_mbps(&self) -> impl Iterator<Item = f64> {
        let mean = |bins: &[f64]| bins.iter().sum::<f64>() / bins.len() as f64;
        self.seconds().map(mean)
    }
}

/// Quantiles at which [`Series::delay_quantiles_ms`] is given: 0 to 1 in steps of 0.01, finer in
/// the tail.
pub fn quantiles() -> Vec<f64> {
    let coarse = (0..=100).map(|i| f64::from(i) / 100.0);
    let fine = (1..10).map(|i| 0.99 + f64::from(i) / 1000.0);
    let mut all: Vec<f64> = coarse.chain(fine).collect();
    all.sort_by(f64::total_cmp);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_seconds_count() {
        let series = Series {
            bin_s: 0.5,
            throughput_mbps: vec![1.0, 3.0, 4.0, 8.0, 9.0],
            ..Series::default()
        };
        assert_eq!(series.seconds_mbps().collect::<Vec<_>>(), [2.0, 6.0]);
        let wide = Series {
            bin_s: 5.0,
            ..series
        };
        assert_eq!(wide.seconds_mbps().count(), 5);
    }

    #[test]
    fn quantiles_are_sorted_and_end_at_the_maximum() {
        let q = quantiles();
        assert!(q.windows(2).all(|w| w[0] < w[1]));
        assert_eq!((q[0], q[q.len() - 1]), (0.0, 1.0));
    }
}
