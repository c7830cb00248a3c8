// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of the single seconds of a flow, stored for figures over time and densities.
use alcc_results::simulated::window_of;
use alcc_sim::Sample;
use alcc_units::Span;
use serde::{Deserialize, Serialize};

/// Metric of every second, and also the standard metric of a figure.
pub const THROUGHPUT: &str = "throughput_mbps";
pub(crate) const DELAY: &str = "queue_delay_ms";
const WINDOW: &str = "cwnd";
/// Metrics of single seconds. `cwnd` is the algorithm's window, and that of the TCP below it.
pub const SECOND_METRICS: [&str; 3] = [THROUGHPUT, DELAY, WINDOW];

/// The values of a flow, one for each second of the run. `None`: before its start, after its last
/// packet, or unknown. A vector without any value is empty.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Seconds {
    /// Capacity of the bottleneck, Mbit/s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capacity_mbps: Vec<Option<f64>>,
    /// Throughput of this flow at the bottleneck, Mbit/s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throughput_mbps: Vec<Option<f64>>,
    /// Mean queueing of the packets that were delivered, ms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue_delay_ms: Vec<Option<f64>>,
    /// Mean window of the algorithm, segments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<Option<f64>>,
    /// Mean cwnd of the TCP below it, segments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tcp_window: Vec<Option<f64>>,
}

impl Seconds {
    /// The seconds of a flow's samples, of which a second has many.
    pub fn of(series: &[Sample]) -> Self {
        let mut by_second: Vec<Vec<&Sample>> = Vec::new();
        for sample in series {
            // A sample is of the interval that ends at its time.
            let second = sample.at.as_nanos().saturating_sub(1) / Span::from_secs(1).as_nanos();
            let second = second as usize;
            by_second.resize(by_second.len().max(second + 1), Vec::new());
            by_second[second].push(sample);
        }
        let is_there = |samples: &Vec<&Sample>| samples.iter().any(|s| s.throughput.as_bps() > 0);
        by_second.truncate(
            by_second
                .iter()
                .rposition(is_there)
                .map_or(0, |last| last + 1),
        );
        let each = |value: &dyn Fn(&Sample) -> Option<f64>| {
            let mean = |samples: &Vec<&Sample>| weighted(samples.iter().map(|s| (value(s), 1.0)));
            known(by_second.iter().map(mean).collect())
        };
        let delay = |samples: &Vec<&Sample>| {
            weighted(samples.iter().map(|s| {
                let delay = s.queue_delay.map(Span::as_millis_f64);
                (delay, s.throughput.as_mbps_f64())
            }))
        };
        Self {
            capacity_mbps: each(&|s| Some(s.capacity.as_mbps_f64())),
            throughput_mbps: each(&|s| Some(s.throughput.as_mbps_f64())),
            queue_delay_ms: known(by_second.iter().map(delay).collect()),
            window: each(&window_of),
            tcp_window: each(&|s| s.kernel_cwnd),
        }
    }

    /// The lines of one of [`SECOND_METRICS`]: what they are, if it has several, and their values.
    pub fn lines(&self, metric: &str) -> Vec<(&'static str, &[Option<f64>])> {
        let lines = match metric {
            WINDOW if self.tcp_window.is_empty() => vec![("", &self.window)],
            WINDOW => vec![
                ("window of the algorithm", &self.window),
                ("cwnd of TCP", &self.tcp_window),
            ],
            DELAY => vec![("", &self.queue_delay_ms)],
            _ => vec![("", &self.throughput_mbps)],
        };
        let lines = lines.into_iter().filter(|(_, values)| !values.is_empty());
        lines
            .map(|(what, values)| (what, values.as_slice()))
            .collect()
    }
}

/// Mean of what is known, with three decimals: the eye sees no more, and files stay small.
fn weighted(values: impl Iterator<Item = (Option<f64>, f64)>) -> Option<f64> {
    let known = values.filter_map(|(value, weight)| Some((value?, weight)));
    let (sum, weights) = known.fold((0.0, 0.0), |(sum, all), (v, w)| (sum + v * w, all + w));
    (weights > 0.0).then(|| (sum / weights * 1e3).round() / 1e3)
}

fn known(values: Vec<Option<f64>>) -> Vec<Option<f64>> {
    if values.iter().any(Option::is_some) {
        values
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_units::{Bytes, Rate};

    fn sample(at_ms: u64, mbps: u64, delay_ms: Option<u64>) -> Sample {
        Sample {
            at: Span::from_millis(at_ms),
            capacity: Rate::mbps(12),
            throughput: Rate::mbps(mbps),
            queue_delay: delay_ms.map(Span::from_millis),
            dropped: 0,
            in_flight: Bytes::ZERO,
            window: Some(Bytes::new(14_480)),
            kernel_cwnd: None,
            gauges: Vec::new(),
        }
    }

    #[test]
    fn a_second_has_the_mean_of_its_samples() {
        let seconds = Seconds::of(&[
            sample(1_500, 1, Some(10)),
            // It ends the second second.
            sample(2_000, 3, Some(30)),
            sample(2_500, 0, None),
            sample(3_500, 4, Some(5)),
            // Nothing comes any more.
            sample(4_500, 0, None),
        ]);
        let throughput = [None, Some(2.0), Some(0.0), Some(4.0)];
        assert_eq!(seconds.throughput_mbps, throughput);
        // Of the packets, not of the samples.
        let delay = [None, Some(25.0), None, Some(5.0)];
        assert_eq!(seconds.queue_delay_ms, delay);
        assert_eq!(seconds.lines("cwnd"), [("", &seconds.window[..])]);
        assert_eq!(seconds.window[1], Some(10.0));
        assert_eq!(seconds.capacity_mbps[3], Some(12.0));
    }
}
