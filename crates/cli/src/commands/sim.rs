// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use crate::plugin_arg::Plugins;
use crate::trace_arg::{LinkTrace, TRACE_HELP, load_link_trace};
use alcc_lab::simulated;
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FLOW_HELP, FlowSpec, Report, Scenario, Timing};
use alcc_units::{Rate, Span};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Samples of `--series` are this far apart.
const SAMPLE: Span = Span::from_millis(20);

const EXAMPLES: &str = "Examples:
  alcc sim --flow verus
  alcc sim --link city-driving --flow copa --flow verus/over=cubic
  alcc sim --link 6mbit --rtt 80ms --flow 2*verus:r=4/over=cubic --json
";

/// Simulate flows on one bottleneck link; the same arguments give the same result
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n{FLOW_HELP}\n\n{TRACE_HELP}."))]
pub(crate) struct Args {
    /// The bottleneck: a trace or a rate such as 12mbit
    #[arg(long, value_name = "TRACE|RATE", default_value = "12mbit")]
    link: String,
    /// Round-trip time without queueing, half of it in each direction
    #[arg(long, value_name = "T", default_value = "40ms")]
    rtt: Span,
    /// The queue before the bottleneck
    #[arg(long, value_name = "Q", default_value = "droptail:bytes=2000000")]
    queue: QueueSpec,
    /// Who sends; may be repeated
    #[arg(long, value_name = "FLOW", default_value = "verus/over=cubic")]
    flow: Vec<String>,
    #[command(flatten)]
    plugins: Plugins,
    /// Length of the measured window, which begins with the first full-size packet at the bottleneck
    #[arg(long, value_name = "T", default_value = "60s")]
    duration: Span,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Above TCP: by how much each reading of the counters is late at least
    #[arg(long, value_name = "T", default_value_t = Timing::default().lateness)]
    lateness: Span,
    /// Above TCP: by how much more a reading is late at most, evenly distributed
    #[arg(long, value_name = "T", default_value_t = Timing::default().jitter)]
    jitter: Span,
    /// Above TCP: from the opening of the gate to the program's next write
    #[arg(long, value_name = "T", default_value_t = Timing::default().wake)]
    wake: Span,
    /// Write a CSV file with a line per flow every 20 ms: throughput, delay, window, the algorithm's values
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let timing = Timing {
        lateness: args.lateness,
        jitter: args.jitter,
        wake: args.wake,
    };
    let registry = args.plugins.registry()?;
    let mut flows = Vec::new();
    for text in &args.flow {
        flows.extend(FlowSpec::parse(text, &registry, timing).map_err(Failure::usage)?);
    }
    let (rate, name) = link(&args.link, args.seed)?;
    let mut scenario = Scenario::dumbbell(rate, args.rtt, args.queue.clone());
    scenario.duration = args.duration;
    scenario.seed = args.seed;
    scenario.flows = flows;
    scenario.series = args.series.is_some().then_some(SAMPLE);
    let report = alcc_sim::run(&scenario).map_err(Failure::usage)?;
    if let Some(path) = &args.series {
        write_series(path, &report)
            .map_err(|e| Failure::usage(format!("write series to {}: {e}", path.display())))?;
    }
    if args.json {
        let rows = simulated::rows(&name, &scenario, &report);
        let summary = serde_json::json!({
            "throughput_mbps": report.flows.iter().map(|f| f.throughput.as_mbps_f64()).sum::<f64>(),
            "jain": report.jain(),
        });
        println!(
            "{}",
            serde_json::json!({ "flows": rows, "summary": summary })
        );
    } else {
        table(&report);
    }
    Ok(ExitCode::SUCCESS)
}

/// The rate of `--link`, and what to call it.
fn link(text: &str, seed: u64) -> Result<(RateSpec, String), Failure> {
    if let Ok(rate) = text.parse::<Rate>() {
        return Ok((RateSpec::Fixed(rate), rate.to_string()));
    }
    let LinkTrace { name, trace } = load_link_trace(text, seed)?;
    Ok((RateSpec::Trace(trace), name))
}

fn table(report: &Report) {
    println!(
        "{:<16} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>5}",
        "scheme",
        "Mbit/s",
        "util%",
        "delay ms",
        "median",
        "p95",
        "rtt ms",
        "app med",
        "loss%",
        "rto"
    );
    for flow in &report.flows {
        println!(
            "{:<16} {:>9.3} {:>6} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>7.2} {:>5}",
            flow.scheme,
            flow.throughput.as_mbps_f64(),
            flow.utilization
                .map_or_else(|| "-".to_owned(), |u| format!("{:.1}", u * 100.0)),
            flow.delay.mean.as_millis_f64(),
            flow.delay.median.as_millis_f64(),
            flow.delay.p95.as_millis_f64(),
            flow.rtt.mean.as_millis_f64(),
            flow.app_delay.median.as_millis_f64(),
            flow.loss() * 100.0,
            flow.timeouts,
        );
    }
}

/// One line per flow and sample. Gauges of all algorithms are columns; what a flow does not have is empty.
fn write_series(path: &Path, report: &Report) -> std::io::Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for sample in report.flows.iter().flat_map(|f| f.series.iter()) {
        for (name, _) in &sample.gauges {
            if !names.contains(name) {
                names.push(name);
            }
        }
    }
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    write!(
        out,
        "time_s,flow,scheme,capacity_mbps,throughput_mbps,queue_delay_ms,dropped,in_flight_bytes,kernel_cwnd"
    )?;
    for name in &names {
        write!(out, ",{name}")?;
    }
    writeln!(out)?;
    for (number, flow) in report.flows.iter().enumerate() {
        for sample in &flow.series {
            let known = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.3}"));
            write!(
                out,
                "{:.3},{number},{},{:.3},{:.3},{},{},{},{}",
                sample.at.as_secs_f64(),
                flow.scheme,
                sample.capacity.as_mbps_f64(),
                sample.throughput.as_mbps_f64(),
                known(sample.queue_delay.map(Span::as_millis_f64)),
                sample.dropped,
                sample.in_flight.get(),
                known(sample.kernel_cwnd),
            )?;
            for name in &names {
                let gauge = sample.gauges.iter().find(|(n, _)| n == name);
                write!(out, ",{}", known(gauge.map(|(_, v)| *v)))?;
            }
            writeln!(out)?;
        }
    }
    out.flush()
}
