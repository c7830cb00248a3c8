// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The time series of a simulated run as a table: a line per flow and sample.
use crate::row::{Kind, Value};
use alcc_sim::{FlowReport, Report, Sample};
use alcc_units::Span;

/// The columns of every algorithm. The algorithms' own values follow them: [`gauges`].
pub const COLUMNS: &[(&str, Kind)] = &[
    ("time_s", Kind::Float),
    ("flow_number", Kind::Integer),
    ("scheme", Kind::Text),
    ("capacity_mbps", Kind::Float),
    ("throughput_mbps", Kind::Float),
    ("queue_delay_ms", Kind::Float),
    ("dropped", Kind::Integer),
    ("in_flight_bytes", Kind::Integer),
    ("window_bytes", Kind::Integer),
    ("kernel_cwnd", Kind::Float),
];

/// The values of [`COLUMNS`] for a sample of flow number `number`.
pub fn values<'a>(number: usize, flow: &'a FlowReport, sample: &Sample) -> [Value<'a>; 10] {
    let float = |value: Option<f64>| value.map_or(Value::Unknown, Value::Float);
    let window = sample.window.map(|w| Value::Integer(w.get()));
    [
        Value::Float(sample.at.as_secs_f64()),
        Value::Integer(number as u64),
        Value::Text(&flow.scheme),
        Value::Float(sample.capacity.as_mbps_f64()),
        Value::Float(sample.throughput.as_mbps_f64()),
        float(sample.queue_delay.map(Span::as_millis_f64)),
        Value::Integer(sample.dropped),
        Value::Integer(sample.in_flight.get()),
        window.unwrap_or(Value::Unknown),
        float(sample.kernel_cwnd),
    ]
}

/// The names of the algorithms' own values, in the order of their first appearance.
pub fn gauges(report: &Report) -> Vec<&'static str> {
    let mut names = Vec::new();
    let samples = report.flows.iter().flat_map(|f| f.series.iter());
    for (name, _) in samples.flat_map(|sample| sample.gauges.iter()) {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    names
}

/// The algorithm's own value `name` in a sample.
pub fn gauge(sample: &Sample, name: &str) -> Option<f64> {
    let found = sample.gauges.iter().find(|(n, _)| *n == name);
    found.map(|(_, value)| *value).filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::COLUMNS;
    use crate::Row;

    /// A name has one type in the rows and the series of a run, so that they can be joined.
    #[test]
    fn names_shared_with_rows_have_the_same_type() {
        let shared: Vec<&str> = COLUMNS
            .iter()
            .filter_map(|(name, kind)| {
                let (_, of_row) = Row::KINDS.iter().find(|(known, _)| known == name)?;
                assert_eq!(kind, of_row, "{name}");
                Some(*name)
            })
            .collect();
        assert_eq!(shared, ["flow_number", "scheme", "throughput_mbps"]);
    }
}
