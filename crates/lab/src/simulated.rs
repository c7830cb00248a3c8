// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a simulated scenario to rows: the one place where the simulator's report gets the names and units of a [`Row`].
use crate::LabError;
use crate::link::Link;
use crate::live::Measured;
use crate::row::{Row, Series};
use crate::scheme::Scheme;
use alcc_cc::Registry;
use alcc_sim::{FlowReport, FlowSpec, Passed, Report, Scenario, Timing, Under};
use alcc_units::{Bytes, Rate, Span, Time};
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Width of a bin of the plots' series: of the first repetition, which the time plots show, and of the others.
const BINS: [Span; 2] = [Span::from_millis(200), Span::from_secs(1)];

/// One run of the board: a scheme alone on a link.
pub struct Simulation<'a> {
    /// The link.
    pub link: &'a Link,
    /// Who sends.
    pub scheme: &'a Scheme,
    /// The algorithms.
    pub registry: &'a Registry,
    /// Length of the window.
    pub duration: Span,
    /// When the flow begins, since the link's beginning.
    pub start: Span,
    /// Number of the repetition, from 1.
    pub run: u32,
}

/// Runs it: one row, and its series if it did not fail. It depends on nothing but the arguments.
pub fn run(simulation: &Simulation<'_>) -> Measured {
    let Simulation {
        link, scheme, run, ..
    } = *simulation;
    let bin = BINS[usize::from(run > 1)];
    // An algorithm that breaks its own rules ends its run and no other.
    let measured = catch_unwind(AssertUnwindSafe(|| {
        let scenario = scenario(simulation, bin)?;
        let report = alcc_sim::run(&scenario).map_err(|e| LabError::Run {
            scheme: scheme.name.clone(),
            why: e.to_string(),
        })?;
        Ok((rows(&link.name, &scenario, &report), report))
    }));
    let broken = |panic: Box<dyn std::any::Any + Send>| {
        let what = panic.downcast_ref::<String>().cloned();
        let what = what.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        LabError::Run {
            scheme: scheme.name.clone(),
            why: format!("the simulation broke off: {}", what.unwrap_or_default()),
        }
    };
    match measured.unwrap_or_else(|panic| Err(broken(panic))) {
        Ok((mut rows, report)) => {
            for row in &mut rows {
                row.scheme.clone_from(&scheme.name);
                row.run = run;
                if row.bytes == Some(0) {
                    row.error = Some("no data came through the link".to_owned());
                }
            }
            let series = rows
                .iter()
                .zip(&report.flows)
                .filter(|(row, _)| row.error.is_none())
                .map(|(row, flow)| series(row, flow, link.path.down.delay, bin));
            Measured {
                series: series.collect(),
                rows,
                ..Measured::default()
            }
        }
        Err(error) => {
            let mut row = link.row(simulation.duration, run);
            scheme.describe(&mut row);
            row.error = Some(error.to_string());
            Measured {
                rows: vec![row],
                ..Measured::default()
            }
        }
    }
}

fn scenario(simulation: &Simulation<'_>, bin: Span) -> Result<Scenario, LabError> {
    let scheme = simulation.scheme;
    let mut flows =
        FlowSpec::parse(&scheme.flow, simulation.registry, Timing::default()).map_err(|e| {
            LabError::Scheme {
                scheme: scheme.name.clone(),
                why: e.to_string(),
            }
        })?;
    for flow in &mut flows {
        flow.start = Time::ZERO + simulation.start;
    }
    let path = simulation.link.path.clone();
    Ok(Scenario {
        flows,
        duration: simulation.duration,
        seed: path.seed,
        series: Some(bin),
        ..Scenario::one_link(path.down, path.up)
    })
}

fn series(row: &Row, flow: &FlowReport, propagation: Span, bin: Span) -> Series {
    let samples = flow.series.iter();
    let delay = |queueing: Span| (queueing + propagation).as_millis_f64();
    Series {
        scheme: row.scheme.clone(),
        link: row.link.clone(),
        run: row.run,
        bin_s: bin.as_secs_f64(),
        throughput_mbps: samples
            .clone()
            .map(|s| s.throughput.as_mbps_f64())
            .collect(),
        capacity_mbps: samples.clone().map(|s| s.capacity.as_mbps_f64()).collect(),
        delay_ms: samples.map(|s| s.queue_delay.map(delay)).collect(),
        delay_quantiles_ms: Vec::new(),
    }
}

/// One row per flow of `report`, which [`alcc_sim::run`] made of `scenario`. `link` is what the bottleneck is called.
///
/// A flow above TCP has the triple whose model it is: readings of the kernel's counters, gate and pacing. A native one has `sim`.
pub fn rows(link: &str, scenario: &Scenario, report: &Report) -> Vec<Row> {
    scenario
        .flows
        .iter()
        .zip(&report.flows)
        .map(|(spec, flow)| row(link, scenario, report, spec, flow))
        .collect()
}

/// What concerns several flows, and the links. `settle`: fairness of single seconds counts from then on.
pub fn summary(report: &Report, settle: Span) -> Value {
    let mbps = |bytes: Bytes| Rate::of(bytes, report.duration).as_mbps_f64();
    let direction = |passed: &Passed, offered: Bytes| {
        let known = offered != Bytes::MAX && offered != Bytes::ZERO;
        json!({
            "arrived": passed.arrived,
            "departed": passed.departed,
            "dropped": passed.dropped,
            "throughput_mbps": mbps(passed.bytes),
            "utilization": known.then(|| passed.bytes.get() as f64 / offered.get() as f64),
        })
    };
    let links: Vec<Value> = report
        .links
        .iter()
        .map(|link| {
            json!({
                "down": direction(&link.down, link.opportunities_down),
                "up": direction(&link.up, link.opportunities_up),
            })
        })
        .collect();
    json!({
        "throughput_mbps": report.flows.iter().map(|f| f.throughput.as_mbps_f64()).sum::<f64>(),
        "goodput_mbps": mbps(report.flows.iter().map(|f| f.goodput_bytes).sum()),
        "jain": report.jain(),
        "jain_1s": report.jain_of_seconds(settle),
        "jain_1s_from_s": settle.as_secs_f64(),
        "links": links,
        "events": report.events,
    })
}

fn row(
    link: &str,
    scenario: &Scenario,
    report: &Report,
    spec: &FlowSpec,
    flow: &FlowReport,
) -> Row {
    let ms = |span: Span| Some(span.as_millis_f64());
    let any = flow.packets > 0;
    let (feedback, enforcement, under) = match &spec.under {
        Under::Native(_) | Under::Udp { .. } => ("sim", "sim", None),
        Under::Tcp(kernel) => ("tcp-info", "gate+pacing", Some(kernel.name.clone())),
    };
    Row {
        scheme: flow.scheme.clone(),
        algorithm: spec.algorithm.clone(),
        options: spec.options.clone(),
        feedback: feedback.to_owned(),
        enforcement: enforcement.to_owned(),
        under,
        link: link.to_owned(),
        queue: queue(scenario),
        min_rtt_ms: ms(scenario.min_rtt(spec)),
        duration_s: report.duration.as_secs_f64(),
        seed: scenario.seed,
        run: 1,
        started_s: Some(report.started.as_secs_f64()),
        throughput_mbps: Some(flow.throughput.as_mbps_f64()),
        goodput_mbps: Some(Rate::of(flow.goodput_bytes, report.duration).as_mbps_f64()),
        bytes: Some(flow.goodput_bytes.get()),
        utilization: flow.utilization,
        delay_mean_ms: ms(flow.delay.mean).filter(|_| any),
        delay_median_ms: ms(flow.delay.median).filter(|_| any),
        delay_p95_ms: ms(flow.delay.p95).filter(|_| any),
        queue_delay_mean_ms: ms(flow.queue_delay.mean).filter(|_| any),
        queue_delay_median_ms: ms(flow.queue_delay.median).filter(|_| any),
        queue_delay_p95_ms: ms(flow.queue_delay.p95).filter(|_| any),
        signal_delay_p95_ms: flow.signal_delay_p95.map(Span::as_millis_f64),
        app_delay_median_ms: ms(flow.app_delay.median).filter(|_| flow.app_delay.count > 0),
        app_delay_p95_ms: ms(flow.app_delay.p95).filter(|_| flow.app_delay.count > 0),
        rtt_mean_ms: ms(flow.rtt.mean).filter(|_| flow.rtt.count > 0),
        rtt_p95_ms: ms(flow.rtt.p95).filter(|_| flow.rtt.count > 0),
        loss: Some(flow.loss()),
        retransmits: Some(flow.retransmits),
        timeouts: Some(flow.timeouts),
        fct_ms: flow.completion.map(Span::as_millis_f64),
        ..Row::default()
    }
}

/// The queue before the bottleneck; those of a chain if they differ.
fn queue(scenario: &Scenario) -> String {
    let mut queues: Vec<String> = Vec::new();
    for link in &scenario.links {
        let queue = link.down.queue.to_string();
        if !queues.contains(&queue) {
            queues.push(queue);
        }
    }
    queues.join(" ")
}
