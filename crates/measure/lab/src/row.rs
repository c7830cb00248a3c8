// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows: the fields of a measured flow, and the JSON object they travel in.
use crate::pairs::Pair;
use crate::twin::Twin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One measured flow. What cannot be known is `None` (JSON `null`); ratios are 0 to 1.
///
/// The window of all figures begins with the first full-size packet at the bottleneck and includes the start-up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// What a reader calls the row: `cubic`, `alcc-verus`.
    pub scheme: String,
    /// The algorithm that decided how much may leave: `verus`, `cubic`.
    pub algorithm: String,
    /// Its options as typed, without the name: `r=4`.
    pub options: String,
    /// How it learnt what arrived: `tcp-info`, `kernel`.
    pub feedback: String,
    /// How the limit was kept: `gate+pacing`, `kernel`.
    pub enforcement: String,
    /// The kernel's algorithm underneath; `None` where there is none.
    pub under: Option<String>,
    /// The link: name of the trace or rate of the downlink.
    pub link: String,
    /// The bottleneck's queue: `droptail:bytes=2000000`.
    pub queue: String,
    /// Round trip without queueing, ms.
    pub min_rtt_ms: Option<f64>,
    /// Length of the window, s.
    pub duration_s: f64,
    /// Seed of everything random on the link.
    pub seed: u64,
    /// Number of the repetition, from 1.
    pub run: u32,
    /// When the flow's part of the window began, s since the link's start: with the window, or later if the flow did.
    pub started_s: Option<f64>,
    /// IP bytes that the bottleneck delivered, Mbit/s.
    pub throughput_mbps: Option<f64>,
    /// Payload that reached the receiving application, Mbit/s.
    pub goodput_mbps: Option<f64>,
    /// Payload that reached the receiving application, bytes.
    pub bytes: Option<u64>,
    /// Bytes delivered / bytes of the delivery opportunities in the window.
    pub utilization: Option<f64>,
    /// One way, bottleneck queueing + propagation, per delivered packet: mean, ms.
    pub delay_mean_ms: Option<f64>,
    /// The same: median, ms.
    pub delay_median_ms: Option<f64>,
    /// The same: 95th percentile, ms.
    pub delay_p95_ms: Option<f64>,
    /// Bottleneck queueing without propagation: mean, ms.
    pub queue_delay_mean_ms: Option<f64>,
    /// The same: median, ms.
    pub queue_delay_median_ms: Option<f64>,
    /// The same: 95th percentile, ms.
    pub queue_delay_p95_ms: Option<f64>,
    /// Mahimahi's signal delay, 95th percentile, propagation excluded, ms.
    pub signal_delay_p95_ms: Option<f64>,
    /// From the application's write to the delivery at the other application, per byte: median, ms.
    pub app_delay_median_ms: Option<f64>,
    /// The same: 95th percentile, ms.
    pub app_delay_p95_ms: Option<f64>,
    /// Round trip as the sender saw it: mean, ms.
    pub rtt_mean_ms: Option<f64>,
    /// The same: 95th percentile, ms.
    pub rtt_p95_ms: Option<f64>,
    /// Packets dropped at the bottleneck / packets that arrived there.
    pub loss: Option<f64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Mean number of retransmitted segments in a row.
    pub rtx_burst: Option<f64>,
    /// From request to last byte, ms; `None` for a transfer that outlives the window.
    pub fct_ms: Option<f64>,
    /// CPU of server or sender process + runtime, user + system, s per Gbit delivered.
    pub cpu_s_per_gbit: Option<f64>,
    /// How late the emulator's or runtime's timers were, 99th percentile, ms.
    pub lateness_p99_ms: Option<f64>,
    /// The flow as typed; this and all below are only there where they are known, as in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// What its writer called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The rules of its hosts: `linux`, `datagrams`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The links that it passes if those are not all: `2-3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<String>,
    /// Which way the data go: `down`, `up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// When the flow began, s since the link's start, its phase included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
    /// When it was to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Where in the recorded trace the link began, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_start_s: Option<f64>,
    /// Why there are no figures; the field is only there if the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `emulated` or `simulated`; the field is only there where both stand beside each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
}

/// Everything one command measured: the `--json` object and the report's input.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Where, when and how it was measured.
    pub about: About,
    /// One row per measured flow.
    pub flows: Vec<Row>,
    /// What concerns several flows.
    pub summary: Summary,
    /// Time series and distribution of each flow, in the order of `flows`.
    pub series: Vec<Series>,
    /// Lines for the reader: what was skipped, what to keep in mind.
    pub notes: Vec<String>,
}

/// Where, when and how a result came about.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct About {
    /// `alcc` and its version.
    pub program: String,
    /// The command line.
    pub command: String,
    /// `emulated`, `simulated` or both with a `+`.
    #[serde(default)]
    pub mode: String,
    /// Start, UTC, RFC 3339; empty in the simulator, whose results do not depend on it.
    pub date: String,
    /// The kernel's release; empty in the simulator.
    pub kernel: String,
    /// Number of processors; 0 in the simulator.
    pub cpus: usize,
    /// Path in one line.
    pub link: String,
    /// Seed of everything random on the links.
    pub seed: u64,
}

/// What concerns several flows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// One sentence that compares.
    pub sentence: String,
    /// One entry per link and scheme.
    pub groups: Vec<Group>,
    /// One entry per scheme, if there are several links.
    #[serde(default)]
    pub overall: Vec<Overall>,
    /// One entry per link and scheme that was emulated and simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub twins: Vec<Twin>,
    /// One entry per link and form of an algorithm whose native form was measured beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
}

/// One scheme on all links that every scheme has figures of: means over the links of the medians over the repetitions, for
/// `power` the geometric mean.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Overall {
    /// The scheme.
    pub scheme: String,
    /// See [`Row::side`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Number of links that count.
    pub links: u32,
    /// On the Pareto front of mean utilization (throughput if there is none) and mean delay.
    pub front: bool,
    /// Per numeric field that all of the scheme's groups have.
    pub fields: BTreeMap<String, f64>,
}

/// The repetitions of one scheme on one link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Group {
    /// The link.
    pub link: String,
    /// The scheme.
    pub scheme: String,
    /// See [`Row::side`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Number of repetitions with figures.
    pub runs: u32,
    /// Number of repetitions that failed.
    #[serde(default)]
    pub failed: u32,
    /// On the link's Pareto front: no scheme has at least its throughput at no more mean delay, one of the two better.
    #[serde(default)]
    pub front: bool,
    /// Per numeric field of [`Row`] that every repetition has, and `power`: median and extremes.
    pub fields: BTreeMap<String, Spread>,
}

/// Median and extremes of repetitions.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Median; the mean of the middle two of an even number.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

/// What the plots of one flow are drawn from. Times are seconds since the window began.
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

/// Quantiles at which [`Series::delay_quantiles_ms`] is given: 0 to 1 in steps of 0.01, finer in the tail.
pub fn quantiles() -> Vec<f64> {
    let coarse = (0..=100).map(|i| f64::from(i) / 100.0);
    let fine = (1..10).map(|i| 0.99 + f64::from(i) / 1000.0);
    let mut all: Vec<f64> = coarse.chain(fine).collect();
    all.sort_by(f64::total_cmp);
    all
}

impl Row {
    /// The numeric fields, by name, that are known.
    pub fn numbers(&self) -> BTreeMap<String, f64> {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else {
            return BTreeMap::new();
        };
        let identity = [
            "seed",
            "run",
            "duration_s",
            "started_s",
            "min_rtt_ms",
            "start_s",
            "stop_s",
            "trace_start_s",
        ];
        let power = self.power().map(|power| ("power".to_owned(), power));
        fields
            .into_iter()
            .filter(|(name, _)| !identity.contains(&name.as_str()))
            .filter_map(|(name, value)| Some((name, value.as_f64()?)))
            .chain(power)
            .collect()
    }

    /// Throughput / mean delay, Mbit/s per second.
    pub fn power(&self) -> Option<f64> {
        let delay = self.delay_mean_ms.filter(|ms| *ms > 0.0)?;
        Some(self.throughput_mbps? / (delay / 1e3))
    }
}

impl Group {
    /// The median of a field, if all repetitions know it.
    pub fn median(&self, field: &str) -> Option<f64> {
        self.fields.get(field).map(|spread| spread.median)
    }
}

impl Spread {
    /// Of at least one number; `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { min, median, max })
    }
}

/// The repetitions of each scheme on each link, in the order in which they first appear; who is on the front is not yet said.
pub fn groups(rows: &[Row]) -> Vec<Group> {
    let mut groups: Vec<(Group, Vec<&Row>)> = Vec::new();
    for row in rows {
        let same = |g: &(Group, Vec<&Row>)| {
            g.0.link == row.link && g.0.scheme == row.scheme && g.0.side == row.side
        };
        let at = groups.iter().position(same);
        let at = at.unwrap_or_else(|| {
            let group = Group {
                link: row.link.clone(),
                scheme: row.scheme.clone(),
                side: row.side.clone(),
                ..Group::default()
            };
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        let (group, members) = &mut groups[at];
        if row.error.is_some() {
            group.failed += 1;
        } else {
            members.push(row);
        }
    }
    groups
        .into_iter()
        .map(|(mut group, members)| {
            group.runs = members.len() as u32;
            let numbers: Vec<_> = members.iter().map(|row| row.numbers()).collect();
            for name in numbers.first().into_iter().flat_map(BTreeMap::keys) {
                let values: Vec<f64> = numbers
                    .iter()
                    .filter_map(|n| n.get(name).copied())
                    .collect();
                if values.len() == members.len()
                    && let Some(spread) = Spread::of(&values)
                {
                    group.fields.insert(name.clone(), spread);
                }
            }
            group
        })
        .collect()
}

/// The rows as CSV with a header line; unknown values are empty. What only some rows have (`flow`, `error`, `side`) is a column only then.
pub fn csv(rows: &[Row]) -> String {
    let values: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| serde_json::to_value(row).unwrap_or_default())
        .collect();
    let empty = serde_json::to_value(Row::default()).unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for object in [&empty].into_iter().chain(&values) {
        for name in object.as_object().into_iter().flat_map(|o| o.keys()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    let mut text = names.join(",");
    text.push('\n');
    for value in &values {
        let cells: Vec<String> = names
            .iter()
            .map(|name| match &value[name] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(s) => quoted(s),
                other => other.to_string(),
            })
            .collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

/// A CSV cell after RFC 4180.
pub(crate) fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// For tests: a row with nothing but what the board looks at first.
#[cfg(test)]
pub(crate) fn sample(link: &str, scheme: &str, mbps: f64, ms: f64) -> Row {
    Row {
        link: link.to_owned(),
        scheme: scheme.to_owned(),
        throughput_mbps: Some(mbps),
        delay_mean_ms: Some(ms),
        ..Row::default()
    }
}

/// For tests: a row of a run that failed.
#[cfg(test)]
pub(crate) fn failed(link: &str, scheme: &str) -> Row {
    Row {
        error: Some("it broke".to_owned()),
        throughput_mbps: None,
        delay_mean_ms: None,
        ..sample(link, scheme, 0.0, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field list of the architecture, in its order: scripts of other people depend on it.
    const FIELDS: &str = "scheme algorithm options feedback enforcement under link queue min_rtt_ms duration_s seed run \
        started_s throughput_mbps goodput_mbps bytes utilization delay_mean_ms delay_median_ms delay_p95_ms \
        queue_delay_mean_ms queue_delay_median_ms queue_delay_p95_ms signal_delay_p95_ms app_delay_median_ms \
        app_delay_p95_ms rtt_mean_ms rtt_p95_ms loss retransmits timeouts rtx_burst fct_ms cpu_s_per_gbit lateness_p99_ms";

    #[test]
    fn a_row_has_exactly_the_published_fields() {
        let value = serde_json::to_value(Row::default()).unwrap();
        let names: Vec<&str> = value
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(names, FIELDS.split_whitespace().collect::<Vec<_>>());
        assert!(value["throughput_mbps"].is_null());
    }

    #[test]
    fn csv_quotes_and_leaves_unknown_empty() {
        let row = Row {
            scheme: "alcc-verus".into(),
            options: "r=4,profile=paper".into(),
            seed: 7,
            throughput_mbps: Some(1.5),
            ..Row::default()
        };
        let text = csv(&[row]);
        let mut lines = text.lines();
        assert_eq!(
            lines.next().unwrap().split(',').count(),
            FIELDS.split_whitespace().count()
        );
        let line = lines.next().unwrap();
        assert!(
            line.starts_with("alcc-verus,,\"r=4,profile=paper\",,,,,,,0.0,7,0,,1.5,,"),
            "{line}"
        );
    }

    #[test]
    fn groups_take_the_median_of_the_repetitions() {
        let row = |scheme: &str, mbps, loss| Row {
            scheme: scheme.into(),
            throughput_mbps: Some(mbps),
            loss,
            ..Row::default()
        };
        let rows = [
            row("a", 3.0, Some(0.0)),
            row("b", 9.0, None),
            row("a", 1.0, None),
            row("a", 2.0, Some(0.1)),
        ];
        let groups = groups(&rows);
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].scheme.as_str(), groups[0].runs), ("a", 3));
        let spread = groups[0].fields["throughput_mbps"];
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        assert!(
            !groups[0].fields.contains_key("loss"),
            "one repetition does not know it"
        );
        assert_eq!(Spread::of(&[1.0, 4.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn quantiles_are_sorted_and_end_at_the_maximum() {
        let q = quantiles();
        assert!(q.windows(2).all(|w| w[0] < w[1]));
        assert_eq!((q[0], q[q.len() - 1]), (0.0, 1.0));
    }
}
