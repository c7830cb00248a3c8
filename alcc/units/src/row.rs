// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A row: the configuration and the results of one measured flow.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// [`Row::side`] of results of real programs.
pub const EMULATED: &str = "emulated";
/// [`Row::side`] of results of the simulator.
pub const SIMULATED: &str = "simulated";

/// The value of a field of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// Not measured, or it cannot be measured.
    Unknown,
    /// A text.
    Text(&'a str),
    /// A whole number.
    Integer(u64),
    /// A finite number.
    Float(f64),
}

impl Value<'_> {
    /// The value as a number, if it is one.
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Unknown | Self::Text(_) => None,
            Self::Integer(n) => Some(n as f64),
            Self::Float(n) => Some(n),
        }
    }

    /// The cell of a CSV table: empty if the value is unknown.
    fn cell(self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Text(text) => csv_cell(text),
            Self::Integer(n) => n.to_string(),
            Self::Float(n) => serde_json::Value::from(n).to_string(),
        }
    }
}

/// The type of a field's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [`Value::Text`].
    Text,
    /// [`Value::Integer`].
    Integer,
    /// [`Value::Float`].
    Float,
    /// A list: in JSON only, without a column in tables.
    List,
}

/// The type of a field.
trait Field {
    const KIND: Kind;

    fn value(&self) -> Value<'_>;
}

impl Field for String {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl Field for u64 {
    const KIND: Kind = Kind::Integer;

    fn value(&self) -> Value<'_> {
        Value::Integer(*self)
    }
}

impl Field for u32 {
    const KIND: Kind = Kind::Integer;

    fn value(&self) -> Value<'_> {
        Value::Integer((*self).into())
    }
}

impl Field for f64 {
    const KIND: Kind = Kind::Float;

    fn value(&self) -> Value<'_> {
        // JSON has no form for infinite values and for not-a-number.
        if self.is_finite() {
            Value::Float(*self)
        } else {
            Value::Unknown
        }
    }
}

/// A list is in JSON only.
impl<T> Field for Vec<T> {
    const KIND: Kind = Kind::List;

    fn value(&self) -> Value<'_> {
        Value::Unknown
    }
}

impl<T: Field> Field for Option<T> {
    const KIND: Kind = T::KIND;

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Unknown, Field::value)
    }
}

/// One phase of the window of measurement.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PhaseSummary {
    /// The phase as typed: `30s-60s`.
    pub phase: String,
    /// IP bytes that the bottleneck delivered of each flow, Mbit/s.
    pub throughput_mbps: Vec<f64>,
    /// Jain's index of the throughputs of the flows that are present for the whole phase. `None` without such flows, or
    /// if they got nothing.
    pub jain: Option<f64>,
    /// Mean of Jain's index over single seconds; `None` if there are fewer than two flows.
    #[serde(default)]
    pub jain_1s: Option<f64>,
}

/// Declares the fields of a row, one per line. JSON, CSV and the means over repetitions follow from it.
macro_rules! row {
    (
        $(#[$doc:meta])*
        configuration { $($(#[$config_doc:meta])* $config:ident: $Config:ty,)* }
        measured { $($(#[$measured_doc:meta])* $measured:ident: $Measured:ty,)* }
        distribution { $($(#[$dist_doc:meta])* $dist:ident: $Dist:ty,)* }
        optional { $($(#[$optional_doc:meta])* $optional:ident: $Optional:ty,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
        pub struct Row {
            $($(#[$config_doc])* pub $config: $Config,)*
            $($(#[$measured_doc])* pub $measured: $Measured,)*
            $(
                $(#[$dist_doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $dist: $Dist,
            )*
            $(
                $(#[$optional_doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $optional: $Optional,
            )*
        }

        impl Row {
            /// Names of the fields that describe the configuration, in order.
            pub const CONFIGURATION: &[&str] = &[$(stringify!($config)),*];
            /// Names of the measured fields, in order. They follow [`Row::CONFIGURATION`].
            pub const MEASURED: &[&str] = &[$(stringify!($measured)),*];
            /// Names of further measured fields, about distributions. A row omits those without a
            /// value.
            pub const DISTRIBUTION: &[&str] = &[$(stringify!($dist)),*];
            /// Names of further fields of the configuration. A row omits those without a value.
            pub const OPTIONAL: &[&str] = &[$(stringify!($optional)),*];

            /// Every field with the type of its values, for tables with typed columns.
            pub const KINDS: &[(&str, Kind)] = &[
                $((stringify!($config), <$Config as Field>::KIND),)*
                $((stringify!($measured), <$Measured as Field>::KIND),)*
                $((stringify!($dist), <$Dist as Field>::KIND),)*
                $((stringify!($optional), <$Optional as Field>::KIND),)*
            ];

            fn configuration_values(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
                [$((stringify!($config), self.$config.value())),*].into_iter()
            }

            fn measured_values(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
                [$((stringify!($measured), self.$measured.value())),*].into_iter()
            }

            fn distribution_values(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
                [$((stringify!($dist), self.$dist.value())),*].into_iter()
            }

            fn optional_values(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
                [$((stringify!($optional), self.$optional.value())),*].into_iter()
            }
        }
    };
}

row! {
    /// One measured flow. A value that cannot be known is `None` (JSON `null`); ratios are 0 to 1.
    ///
    /// The window of all figures begins with the first full-size packet at the bottleneck and
    /// includes the start-up.
    configuration {
        /// The name of the row in tables: `cubic`, `alcc-verus`.
        scheme: String,
        /// The algorithm that limits the data in flight: `verus`, `cubic`.
        algorithm: String,
        /// Its options as typed, without the name: `r=4`.
        options: String,
        /// The source of feedback on delivered data: `tcp-info`, `kernel`.
        feedback: String,
        /// The way in which the limit is enforced: `gate+pacing`, `kernel`.
        enforcement: String,
        /// The kernel's congestion control underneath; `None` where there is none.
        under: Option<String>,
        /// The link: name of the trace or rate of the downlink.
        link: String,
        /// The bottleneck's queue: `droptail:bytes=2000000`.
        queue: String,
        /// Round trip without queueing, ms.
        min_rtt_ms: Option<f64>,
        /// Length of the window, s.
        duration_s: f64,
        /// Seed of everything random on the link.
        seed: u64,
        /// Number of the repetition, from 1.
        run: u32,
        /// The start of the flow's part of the window, s since the link's start. It is the window's start, or the
        /// flow's if that is later.
        started_s: Option<f64>,
    }
    measured {
        /// IP bytes that the bottleneck delivered, Mbit/s.
        throughput_mbps: Option<f64>,
        /// Payload that reached the receiving application, Mbit/s.
        goodput_mbps: Option<f64>,
        /// Payload that reached the receiving application, bytes.
        bytes: Option<u64>,
        /// Bytes delivered / bytes of the delivery opportunities in the window.
        utilization: Option<f64>,
        /// One way, bottleneck queueing + propagation, per delivered packet: mean, ms.
        delay_mean_ms: Option<f64>,
        /// The same: median, ms.
        delay_median_ms: Option<f64>,
        /// The same: 95th percentile, ms.
        delay_p95_ms: Option<f64>,
        /// Bottleneck queueing without propagation: mean, ms.
        queue_delay_mean_ms: Option<f64>,
        /// The same: median, ms.
        queue_delay_median_ms: Option<f64>,
        /// The same: 95th percentile, ms.
        queue_delay_p95_ms: Option<f64>,
        /// Mahimahi's signal delay, 95th percentile, propagation excluded, ms.
        signal_delay_p95_ms: Option<f64>,
        /// From the application's write to the delivery at the other application, per byte: median,
        /// ms.
        app_delay_median_ms: Option<f64>,
        /// The same: 95th percentile, ms.
        app_delay_p95_ms: Option<f64>,
        /// Round trip as the sender measured it: mean, ms.
        rtt_mean_ms: Option<f64>,
        /// The same: 95th percentile, ms.
        rtt_p95_ms: Option<f64>,
        /// Packets dropped at the bottleneck / packets that arrived there.
        loss: Option<f64>,
        /// Segments sent again.
        retransmits: Option<u64>,
        /// Retransmission timeouts.
        timeouts: Option<u64>,
        /// Mean number of retransmitted segments in a row.
        rtx_burst: Option<f64>,
        /// From request to last byte, ms; `None` for a transfer that outlives the window.
        fct_ms: Option<f64>,
        /// CPU of server or sender process + runtime, user + system, s per Gbit delivered.
        cpu_s_per_gbit: Option<f64>,
        /// Lateness of the timers of emulator or runtime, 99th percentile, ms.
        lateness_p99_ms: Option<f64>,
    }
    distribution {
        /// Throughput of single seconds of the window: lower quartile, Mbit/s.
        throughput_p25_mbps: Option<f64>,
        /// The same: upper quartile.
        throughput_p75_mbps: Option<f64>,
        /// Over TCP: share of the observations in which the algorithm's window was below TCP's.
        below_tcp: Option<f64>,
        /// Over TCP: median of TCP's window over time, segments.
        tcp_cwnd_median: Option<f64>,
        /// Over TCP: 95th / 5th percentile of TCP's window; 1 if it is constant.
        tcp_cwnd_range: Option<f64>,
        /// Retransmitted segments per loss episode, mean. An episode is one fast recovery or one timeout.
        rtx_per_episode: Option<f64>,
        /// Several flows: mean of Jain's index over single seconds, after the settling time.
        jain_1s: Option<f64>,
        /// Several flows: the smallest share of a flow in any 10 s after the settling time; 1 is an equal share.
        worst_share_10s: Option<f64>,
        /// Several flows: the time that the slowest one took to its fair share, s. It lasts until the end of the flow's
        /// first second with 80 % of an equal share, or for the flow's whole stay.
        fair_after_s: Option<f64>,
    }
    optional {
        /// The flow as typed.
        flow: Option<String>,
        /// Number of the flow in the scenario, from 0, also in the time series; `group_id` in the qlog.
        flow_number: Option<u64>,
        /// The form of the algorithm: `tuned`, `paper`, `original`, `linux`; `kernel` for the running kernel's own,
        /// `default` if there is only one form, `unknown` at a receiver. Several flows: each form once, joined by `+`.
        profile: Option<String>,
        /// The name that the writer of the scenario gave the flow.
        name: Option<String>,
        /// The rules of its hosts: `linux`, `datagrams`.
        host: Option<String>,
        /// The links that the flow passes, if those are not all: `2-3`.
        links: Option<String>,
        /// Direction of the data: `down`, `up`.
        dir: Option<String>,
        /// Start of the flow, s since the link's start, its phase included.
        start_s: Option<f64>,
        /// Configured stop of the flow, s since the link's start.
        stop_s: Option<f64>,
        /// Configured random loss before the bottleneck, 0 to 1. The measured one is `loss`.
        axis_loss: Option<f64>,
        /// The same on the return path.
        loss_up: Option<f64>,
        /// The bottleneck of the return path as configured: rate or trace.
        up: Option<String>,
        /// The effects of the radio link as configured, separated by spaces.
        radio: Option<String>,
        /// The same on the return path.
        radio_up: Option<String>,
        /// Changes of the link as configured: table, draws, steps and outages.
        steps: Option<String>,
        /// Configured time from the opening of the gate to the program's next write.
        wake: Option<String>,
        /// Offset in the recorded trace at which the link began, s.
        trace_start_s: Option<f64>,
        /// Several flows: their number.
        number_of_flows: Option<u64>,
        /// Several flows: the results of each phase between arrivals and departures of flows.
        phases: Option<Vec<PhaseSummary>>,
        /// The reason for missing figures, if the run failed.
        error: Option<String>,
        /// [`EMULATED`] or [`SIMULATED`], in tables that have both.
        side: Option<String>,
    }
}

impl Row {
    /// The name of the row in tables and legends: the scheme, with ` (tuned)` if the name is that of a published
    /// algorithm and the row is this project's own form of it.
    pub fn label(&self) -> String {
        let is_said = self.scheme.contains("profile=");
        match self.profile.as_deref() {
            Some("tuned") if !is_said => format!("{} (tuned)", self.scheme),
            _ => self.scheme.clone(),
        }
    }

    /// Fields by name, in order: those of every row, then the optional ones that have a value.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        let known = self.distribution_values().chain(self.optional_values());
        let known = known.filter(|(_, value)| *value != Value::Unknown);
        self.configuration_values()
            .chain(self.measured_values())
            .chain(known)
    }

    /// The measured numbers by name, and `power`.
    pub fn numbers(&self) -> BTreeMap<String, f64> {
        let number = |(name, value): (&str, Value<'_>)| Some((name.to_owned(), value.number()?));
        let power = self.power().map(|power| ("power".to_owned(), power));
        let measured = self.measured_values().chain(self.distribution_values());
        measured.filter_map(number).chain(power).collect()
    }

    /// Power: throughput / mean delay, Mbit/s per second.
    pub fn power(&self) -> Option<f64> {
        let delay = self.delay_mean_ms.filter(|ms| *ms > 0.0)?;
        Some(self.throughput_mbps? / (delay / 1e3))
    }

    /// True if the simulator made the row.
    pub fn is_simulated(&self) -> bool {
        self.feedback == "sim" || self.side.as_deref() == Some(SIMULATED)
    }

    /// True if the algorithm runs without a TCP below it and outside the kernel.
    pub fn is_native(&self) -> bool {
        self.under.is_none() && self.feedback != "kernel" && self.enforcement == "native"
    }

    /// Algorithm, feedback, enforcement and the TCP below: `verus / tcp-info / gate+pacing over cubic`.
    pub fn triple(&self) -> String {
        let mut text = self.algorithm.clone();
        if !self.options.is_empty() {
            let _ = write!(text, ":{}", self.options);
        }
        let _ = write!(text, " / {} / {}", self.feedback, self.enforcement);
        if let Some(under) = &self.under {
            let _ = write!(text, " over {under}");
        }
        text
    }
}

/// The rows as CSV with a header line; unknown values are empty. An optional field gets a column if any row has it.
pub fn csv(rows: &[Row]) -> String {
    let mut names: Vec<&str> = Row::CONFIGURATION
        .iter()
        .chain(Row::MEASURED)
        .copied()
        .collect();
    for (name, _) in rows.iter().flat_map(Row::fields) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut text = names.join(",");
    text.push('\n');
    for row in rows {
        let fields: BTreeMap<&str, Value<'_>> = row.fields().collect();
        let cell = |name: &&str| {
            fields
                .get(name)
                .map_or_else(String::new, |value| value.cell())
        };
        let cells: Vec<String> = names.iter().map(cell).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

/// A text as a CSV cell: quoted if RFC 4180 requires it. A text that a spreadsheet would take for a formula gets a `'`
/// in front, because names of traces and programs come from outside. Numbers stay as they are, also below zero.
pub fn csv_cell(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r'])
        && cell.len() > 1
        && cell.parse::<f64>().is_err();
    let guarded = is_formula.then(|| format!("'{cell}"));
    let cell = guarded.as_deref().unwrap_or(cell);
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
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
    fn the_kind_of_a_field_is_that_of_its_values() {
        let kind = |name: &str| Row::KINDS.iter().find(|(n, _)| *n == name).unwrap().1;
        assert_eq!(kind("under"), Kind::Text);
        assert_eq!(kind("run"), Kind::Integer);
        assert_eq!(kind("bytes"), Kind::Integer);
        assert_eq!(kind("loss"), Kind::Float);
        assert_eq!(kind("phases"), Kind::List);
        let lists = [
            Row::CONFIGURATION,
            Row::MEASURED,
            Row::DISTRIBUTION,
            Row::OPTIONAL,
        ];
        let names = lists.concat();
        assert_eq!(
            names,
            Row::KINDS.iter().map(|(n, _)| *n).collect::<Vec<_>>()
        );
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

    /// Every CSV writer has its texts from here.
    #[test]
    fn no_text_is_a_formula_and_numbers_stay() {
        for (text, cell) in [
            (
                "=HYPERLINK(\"http://x\")",
                "\"'=HYPERLINK(\"\"http://x\"\")\"",
            ),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
            ("-2+3", "'-2+3"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("-1.5", "-1.5"),
            ("+1e-3", "+1e-3"),
            ("-", "-"),
            ("12mbit", "12mbit"),
        ] {
            assert_eq!(csv_cell(text), cell);
        }
        let row = Row {
            link: "=1+1".into(),
            throughput_mbps: Some(-1.5),
            ..Row::default()
        };
        let text = csv(&[row]);
        assert!(
            text.contains(",'=1+1,") && text.contains(",-1.5,"),
            "{text}"
        );
    }

    #[test]
    fn numbers_are_those_that_were_measured() {
        let row = Row {
            seed: 7,
            min_rtt_ms: Some(40.0),
            throughput_mbps: Some(8.0),
            delay_mean_ms: Some(100.0),
            loss: Some(f64::NAN),
            bytes: Some(3),
            start_s: Some(1.0),
            ..Row::default()
        };
        let numbers = row.numbers();
        let numbers: Vec<(&str, f64)> = numbers.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        let want = [
            ("bytes", 3.0),
            ("delay_mean_ms", 100.0),
            ("power", 80.0),
            ("throughput_mbps", 8.0),
        ];
        assert_eq!(numbers, want);
    }
}
