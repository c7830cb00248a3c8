// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab trace stats`: statistics of traces.
use crate::failure::Failure;
use crate::output::print;
use crate::trace_arg::{TRACE_HELP, load_link_trace};
use alcc_live::board::aligned;
use alcc_trace::{Distribution, OPPORTUNITY, PredictionError, Stats, Trace};
use alcc_units::Span;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::process::ExitCode;

/// Windows whose capacity is predicted, and how many of them ahead.
const WINDOWS_MS: [u64; 2] = [20, 100];
const STEPS: [usize; 4] = [1, 2, 5, 10];

/// Print statistics of traces: throughput, variability, gaps, bursts, outages and predictability
#[derive(clap::Args)]
#[command(after_help = "Example:
  alcc-lab trace stats city-driving rapid", after_long_help = format!("{TRACE_HELP}.

CV: standard deviation / mean of the capacity in windows of that length.
gap: ms between milliseconds with a delivery opportunity; p50, p95, p99 and the longest.
burst: opportunities in the same or adjacent milliseconds; between: ms from one burst to the next.
outage: a gap longer than 100 ms.

--predict prints the error (root mean square / mean) of predictions of a window's capacity some windows ahead. The predictors are the newest window, the mean of the last ten, the straight line through them, and the best linear rule from the newest. CV is the error of predicting the mean. If the others are not well below CV, they cannot predict the channel (Verus, SIGCOMM 2015, section 3).

Examples:
  alcc-lab trace stats city-driving rapid
  alcc-lab trace stats city-driving --predict"))]
pub(crate) struct Args {
    /// Traces to measure
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<OsString>,
    /// Seed of synthetic traces
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Evaluate predictions of the capacity
    ///
    /// In windows of 20 and 100 ms, 1 to 10 windows ahead.
    #[arg(long)]
    predict: bool,
    /// Print a JSON object, predictions included
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut measured = Vec::new();
    for arg in &args.traces {
        let loaded = load_link_trace(arg, args.seed)?;
        let stats = loaded.trace.stats();
        measured.push((loaded.name, stats, predictions(&loaded.trace)));
    }
    if args.json {
        let row = |(name, stats, predictions): &(String, Stats, Vec<PredictionError>)| {
            let mut row = to_json(name, stats);
            row["predictions"] = predictions.iter().map(prediction).collect();
            row
        };
        let rows: Vec<_> = measured.iter().map(row).collect();
        print(format!("{}\n", json!({ "traces": rows })))?;
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
    rows.extend(measured.iter().map(|(name, stats, _)| row(name, stats)));
    print(aligned(&rows, 1))?;
    let head = [
        "Mbit/s in windows",
        "window ms",
        "least",
        "p5",
        "p50",
        "p95",
        "most",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (name, stats, _) in &measured {
        for (ms, counts) in [(20, &stats.in_20ms), (100, &stats.in_100ms)] {
            let mut row = vec![name.clone(), ms.to_string()];
            row.extend(throughput(ms, counts).map(|(_, mbps)| format!("{mbps:.2}")));
            rows.push(row);
        }
    }
    print(format!("\n{}", aligned(&rows, 1)))?;
    if args.predict {
        let head = [
            "error of predictors",
            "window ms",
            "ahead",
            "newest",
            "mean of 10",
            "line",
            "best from newest",
            "CV",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (name, stats, predictions) in &measured {
            rows.extend(predictions.iter().map(|p| prediction_row(name, stats, p)));
        }
        print(format!("\n{}", aligned(&rows, 1)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Quantiles of the throughput in windows of this many ms, Mbit/s.
fn throughput(ms: u32, counts: &Distribution) -> [(&'static str, f64); 5] {
    let mbps = |n: u32| f64::from(n) * OPPORTUNITY.get() as f64 * 8.0 / f64::from(ms) / 1e3;
    [
        ("min", mbps(counts.min)),
        ("p5", mbps(counts.p05)),
        ("p50", mbps(counts.p50)),
        ("p95", mbps(counts.p95)),
        ("max", mbps(counts.max)),
    ]
}

fn throughput_json(ms: u32, counts: &Distribution) -> Value {
    let pairs = throughput(ms, counts).map(|(name, mbps)| (name.to_owned(), mbps.into()));
    Value::Object(pairs.into_iter().collect())
}

fn predictions(trace: &Trace) -> Vec<PredictionError> {
    let windows = WINDOWS_MS.map(Span::from_millis);
    let all = windows.iter().flat_map(|w| STEPS.map(|k| (*w, k)));
    all.filter_map(|(window, steps)| trace.prediction_error(window, steps))
        .collect()
}

fn prediction_row(name: &str, stats: &Stats, p: &PredictionError) -> Vec<String> {
    let cv = if p.window == Span::from_millis(WINDOWS_MS[0]) {
        stats.cv_20ms
    } else {
        stats.cv_100ms
    };
    let figures = [p.last, p.mean, p.linear, p.k_step, cv.unwrap_or(f64::NAN)];
    let mut row = vec![
        name.to_owned(),
        format!("{:.0}", p.window.as_millis_f64()),
        p.steps.to_string(),
    ];
    row.extend(figures.iter().map(|f| format!("{f:.2}")));
    row
}

fn prediction(p: &PredictionError) -> Value {
    json!({
        "window_ms": p.window.as_millis_f64(),
        "steps": p.steps,
        "newest": p.last,
        "mean_of_10": p.mean,
        "linear": p.linear,
        "k_step": p.k_step,
    })
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
        "mbps_20ms": throughput_json(20, &s.in_20ms),
        "mbps_100ms": throughput_json(100, &s.in_100ms),
        "gap_ms": distribution(&s.gaps),
        "burst_packets": distribution(&s.bursts),
        "between_bursts_ms": distribution(&s.between_bursts),
        "outages": s.outages,
        "outages_per_minute": s.outages_per_minute(),
        "outage_ms": s.outage_time.as_millis_f64(),
    })
}
