// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::output::print;
use super::table::table;
use crate::failure::Failure;
use crate::trace_arg::{TRACE_HELP, load_link_trace};
use alcc_trace::{Distribution, Stats};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Print what traces are like: mean, variability, gaps, bursts, outages
#[derive(clap::Args)]
#[command(after_help = format!("{TRACE_HELP}.

CV: standard deviation / mean of the capacity in windows of that length.
gap: ms from one millisecond with a delivery opportunity to the next; p50, p95, p99 and the longest.
burst: opportunities in the same or adjacent milliseconds; between: ms from one burst to the next.
outage: a gap longer than 100 ms.

Example:
  alcc trace stats city-driving rapid"))]
pub(crate) struct Args {
    /// Traces to measure
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    /// Seed of synthetic traces
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut measured = Vec::new();
    for arg in &args.traces {
        let loaded = load_link_trace(arg, args.seed)?;
        measured.push((loaded.name, loaded.trace.stats()));
    }
    if args.json {
        let rows: Vec<_> = measured.iter().map(|(n, s)| to_json(n, s)).collect();
        print(&format!("{}\n", json!({ "traces": rows })))?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = [
        "trace",
        "s",
        "Mbit/s",
        "CV 20ms",
        "100ms",
        "1s",
        "gap p50",
        "p95",
        "p99",
        "longest",
        "burst p50",
        "p95",
        "between p50",
        "p95",
        "outages",
        "total ms",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(measured.iter().map(|(name, stats)| row(name, stats)));
    print(&table(&rows))?;
    Ok(ExitCode::SUCCESS)
}

fn row(name: &str, s: &Stats) -> Vec<String> {
    let cv = |cv: Option<f64>| cv.map_or_else(|| "-".to_owned(), |cv| format!("{cv:.2}"));
    vec![
        name.to_owned(),
        format!("{:.1}", s.period.as_secs_f64()),
        format!("{:.2}", s.mean_rate.as_mbps_f64()),
        cv(s.cv_20ms),
        cv(s.cv_100ms),
        cv(s.cv_1s),
        s.gaps.p50.to_string(),
        s.gaps.p95.to_string(),
        s.gaps.p99.to_string(),
        s.gaps.max.to_string(),
        s.bursts.p50.to_string(),
        s.bursts.p95.to_string(),
        s.between_bursts.p50.to_string(),
        s.between_bursts.p95.to_string(),
        s.outages.to_string(),
        format!("{:.0}", s.outage_time.as_millis_f64()),
    ]
}

fn distribution(d: &Distribution) -> Value {
    json!({"count": d.count, "p50": d.p50, "p95": d.p95, "p99": d.p99, "max": d.max})
}

/// The statistics as JSON, with the unit in each name.
pub(super) fn to_json(name: &str, s: &Stats) -> Value {
    json!({
        "trace": name,
        "duration_s": s.period.as_secs_f64(),
        "opportunities": s.opportunities,
        "mean_mbps": s.mean_rate.as_mbps_f64(),
        "cv_20ms": s.cv_20ms,
        "cv_100ms": s.cv_100ms,
        "cv_1s": s.cv_1s,
        "gap_ms": distribution(&s.gaps),
        "burst_packets": distribution(&s.bursts),
        "between_bursts_ms": distribution(&s.between_bursts),
        "outages": s.outages,
        "outages_per_minute": s.outages_per_minute(),
        "outage_ms": s.outage_time.as_millis_f64(),
    })
}
