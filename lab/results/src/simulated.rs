// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the simulator's report to rows, with the names and units of [`Row`].
use crate::Row;
use crate::crowd;
use crate::row::PhaseSummary;
use crate::samples::gauge;
use crate::scenario::{Phase, Resolved};
use alcc_link::RateSpec;
use alcc_sim::fairness::{self, Share};
use alcc_sim::{FlowReport, FlowSpec, LinkCounters, Report, Sample, Scenario, Under};
use alcc_units::percentile;
use alcc_units::{Bytes, Rate, Span, Time};
use serde::{Deserialize, Serialize};

/// Payload of a segment of the simulated TCP, bytes.
const SEGMENT_PAYLOAD: f64 = 1448.0;

/// Note about a flow whose rate is not its algorithm's.
pub const HELD_BY_BUFFER: &str = "its send buffer was the limit in most round trips (4 MiB by Linux's tcp_wmem): /sndbuf=SIZE sets another";

/// Results of a simulation: the object of `alcc-lab sim --json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Simulated {
    /// One row per flow.
    pub flows: Vec<Row>,
    /// Values of several flows together, and of the links.
    pub summary: Summary,
    /// Why figures may not be those of the algorithms, see [`notes`].
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Simulated {
    /// The rows and the summary of `report`, the result of [`alcc_sim::run`] for `resolved`.
    pub fn of(resolved: &Resolved, report: &Report) -> Self {
        let flows = Self::rows(resolved, report);
        let summary = Summary::of(report, resolved.settle, &resolved.phases);
        Self {
            flows,
            summary,
            notes: notes(&resolved.scenario, report),
        }
    }

    /// The rows alone.
    pub fn rows(resolved: &Resolved, report: &Report) -> Vec<Row> {
        let mut flows = rows(&resolved.link, &resolved.scenario, report);
        for row in &mut flows {
            row.trace_start_s = resolved.trace_start.map(Span::as_secs_f64);
            resolved.configured.fill(row);
        }
        flows
    }
}

/// Why figures of `report` may not be those of the algorithms.
pub fn notes(scenario: &Scenario, report: &Report) -> Vec<String> {
    let held = report.flows.iter().filter(|flow| flow.held_by_buffer);
    let held = held.map(|flow| format!("{}: {HELD_BY_BUFFER}", flow.scheme));
    let late = late_traces(scenario, report).into_iter().map(|first| {
        format!(
            "a trace lets its first packet pass at {first}, after the end of the run: take a longer duration"
        )
    });
    held.chain(late).collect()
}

/// Time at which the first packet could pass the links that let none pass in the run.
fn late_traces(scenario: &Scenario, report: &Report) -> Vec<Span> {
    let end = report.started + report.duration;
    let directions = scenario.links.iter().flat_map(|l| [&l.down, &l.up]);
    let first = directions.filter_map(|direction| match &direction.rate {
        RateSpec::Trace(trace) => Some(trace.cursor().peek()),
        _ => None,
    });
    let late = first.filter(|first| *first > end);
    late.map(|first| first.since(Time::ZERO)).collect()
}

/// One row per flow of `report`, the result of [`alcc_sim::run`] for `scenario`. `link` is the name
/// of the bottleneck.
///
/// A flow over TCP has the triple that the simulation models: `tcp-info`, gate and pacing. A
/// native one has `sim`.
pub fn rows(link: &str, scenario: &Scenario, report: &Report) -> Vec<Row> {
    scenario
        .flows
        .iter()
        .zip(&report.flows)
        .zip(0..)
        .map(|((spec, flow), number)| Row {
            flow_number: Some(number),
            ..row(link, scenario, report, spec, flow)
        })
        .collect()
}

/// Summary over the flows and the links: `summary` of `alcc-lab sim --json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// IP bytes that the bottleneck delivered, of all flows, Mbit/s.
    pub throughput_mbps: f64,
    /// Payload that reached the receiving applications, Mbit/s.
    pub goodput_mbps: f64,
    /// Jain's index of the flows' throughputs.
    pub jain: Option<f64>,
    /// Mean of Jain's index over single seconds.
    pub jain_1s: Option<f64>,
    /// Single seconds count from this time after the start of the window, s.
    pub jain_1s_from_s: f64,
    /// One entry per link.
    pub links: Vec<Link>,
    /// Number of events that the engine handled.
    pub events: u64,
    /// One summary for each requested phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseSummary>,
    /// The smallest share that one of several flows had over 10 s from `jain_1s_from_s` on, 1 being
    /// an equal one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_share_10s: Option<f64>,
    /// With several flows: time of the slowest one to its fair share, s. It counts from its
    /// coming until the end of its first second with 80 % of an equal share. Otherwise it is its
    /// whole stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_after_s: Option<f64>,
    /// Reason why there is no `jain_1s` although there are several flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain_1s_note: Option<String>,
}

/// Counters of a link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Link {
    /// Towards the receivers.
    pub down: Direction,
    /// Back.
    pub up: Direction,
}

/// Counters of one direction of a link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Direction {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that left the bottleneck.
    pub departed: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Throughput in IP bytes, Mbit/s.
    pub throughput_mbps: f64,
    /// Throughput / capacity of the bottleneck, 0 to 1; `None` without a bottleneck.
    pub utilization: Option<f64>,
}

impl Summary {
    /// Summarizes `report`. Fairness of single seconds counts from `settle` on.
    pub fn of(report: &Report, settle: Span, phases: &[Phase]) -> Self {
        let mbps = |bytes: Bytes| Rate::of(bytes, report.duration).as_mbps_f64();
        let direction = |counters: &LinkCounters, offered: Bytes| {
            let known = offered != Bytes::MAX && offered != Bytes::ZERO;
            Direction {
                arrived: counters.arrived,
                departed: counters.departed,
                dropped: counters.dropped,
                throughput_mbps: mbps(counters.bytes),
                utilization: known.then(|| counters.bytes.get() as f64 / offered.get() as f64),
            }
        };
        let links = report.links.iter().map(|link| Link {
            down: direction(&link.down, link.opportunities_down),
            up: direction(&link.up, link.opportunities_up),
        });
        let ends = || report.flows.iter().filter(|flow| !flow.is_carrier);
        let shares = report.shares();
        let (worst, fair_after) = crowd::shared(&shares, report.duration, settle);
        Self {
            throughput_mbps: ends().map(|f| f.throughput.as_mbps_f64()).sum(),
            goodput_mbps: mbps(ends().map(|f| f.goodput_bytes).sum()),
            jain: report.jain(),
            jain_1s: report.jain_of_seconds(settle),
            jain_1s_from_s: settle.as_secs_f64(),
            links: links.collect(),
            events: report.events,
            phases: phases
                .iter()
                .map(|phase| crowd::of_phase(&shares, *phase))
                .collect(),
            worst_share_10s: worst,
            fair_after_s: fair_after,
            jain_1s_note: why_no_jain_of_seconds(report, settle),
        }
    }

    /// Summarizes measured flows, which know nothing of links and events. `shares` are the flows in
    /// the order of `rows`. Fairness of single seconds counts from `settle` on.
    pub fn of_rows(
        rows: &[Row],
        shares: &[Share<'_>],
        window: Span,
        settle: Span,
        phases: &[Phase],
    ) -> Self {
        let sum = |field: fn(&Row) -> Option<f64>| crate::sum(rows.iter().filter_map(field));
        let (worst, fair_after) = crowd::shared(shares, window, settle);
        Self {
            throughput_mbps: sum(|row| row.throughput_mbps),
            goodput_mbps: sum(|row| row.goodput_mbps),
            jain: fairness::jain(rows.iter().filter_map(|row| row.throughput_mbps)),
            jain_1s: crowd::jain_of_seconds(shares, window, settle),
            jain_1s_from_s: settle.as_secs_f64(),
            phases: phases
                .iter()
                .map(|phase| crowd::of_phase(shares, *phase))
                .collect(),
            worst_share_10s: worst,
            fair_after_s: fair_after,
            ..Self::default()
        }
    }
}

/// Reason why several flows have no Jain's index of single seconds, if they have none.
pub fn why_no_jain_of_seconds(report: &Report, settle: Span) -> Option<String> {
    if report.flows.len() < 2 || report.jain_of_seconds(settle).is_some() {
        return None;
    }
    Some(if settle + Span::from_secs(1) > report.duration {
        format!(
            "no whole second after settle={settle} in a window of {}: give a shorter settle or a longer duration",
            report.duration
        )
    } else {
        format!("no two flows were active during a whole second after settle={settle}")
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
    let has_packets = flow.packets > 0;
    let (feedback, enforcement, under) = match &spec.under {
        Under::Native(_) | Under::Udp { .. } => ("sim", "sim", None),
        Under::Tcp(kernel) => ("tcp-info", "gate+pacing", Some(kernel.name.clone())),
    };
    let host = match &spec.under {
        Under::Native(rules) => Some(rules.name),
        Under::Tcp(kernel) => Some(kernel.rules.name),
        Under::Udp { .. } => None,
    };
    let (start, stop, _) = flow.active;
    let mut seconds = seconds(report, flow);
    let windows = flow.series.iter().filter_map(|sample| sample.kernel_cwnd);
    let mut windows: Vec<f64> = windows.collect();
    seconds.sort_unstable_by(f64::total_cmp);
    windows.sort_unstable_by(f64::total_cmp);
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
        started_s: Some(report.started.max(start).as_secs_f64()),
        throughput_mbps: Some(flow.throughput.as_mbps_f64()),
        goodput_mbps: Some(Rate::of(flow.goodput_bytes, report.duration).as_mbps_f64()),
        bytes: Some(flow.goodput_bytes.get()),
        utilization: flow.utilization,
        delay_mean_ms: ms(flow.delay.mean).filter(|_| has_packets),
        delay_median_ms: ms(flow.delay.median).filter(|_| has_packets),
        delay_p95_ms: ms(flow.delay.p95).filter(|_| has_packets),
        queue_delay_mean_ms: ms(flow.queue_delay.mean).filter(|_| has_packets),
        queue_delay_median_ms: ms(flow.queue_delay.median).filter(|_| has_packets),
        queue_delay_p95_ms: ms(flow.queue_delay.p95).filter(|_| has_packets),
        signal_delay_p95_ms: flow.signal_delay_p95.map(Span::as_millis_f64),
        app_delay_median_ms: ms(flow.app_delay.median).filter(|_| flow.app_delay.count > 0),
        app_delay_p95_ms: ms(flow.app_delay.p95).filter(|_| flow.app_delay.count > 0),
        rtt_mean_ms: ms(flow.rtt.mean).filter(|_| flow.rtt.count > 0),
        rtt_p95_ms: ms(flow.rtt.p95).filter(|_| flow.rtt.count > 0),
        loss: Some(flow.loss()),
        retransmits: Some(flow.retransmits),
        timeouts: Some(flow.timeouts),
        rtx_burst: flow.rtx_burst,
        fct_ms: flow.completion.map(Span::as_millis_f64),
        throughput_p25_mbps: percentile(&seconds, 25),
        throughput_p75_mbps: percentile(&seconds, 75),
        below_tcp: below_tcp(flow),
        tcp_cwnd_median: percentile(&windows, 50),
        tcp_cwnd_range: percentile(&windows, 95)
            .zip(percentile(&windows, 5))
            .map(|(high, low)| high / low),
        rtx_per_episode: (flow.loss_episodes > 0)
            .then(|| flow.retransmits as f64 / flow.loss_episodes as f64),
        flow: Some(spec.text.clone()),
        profile: Some(crate::row::profile(&spec.algorithm, &spec.options)),
        name: spec.name.clone(),
        host: host.map(str::to_owned),
        links: spec.links.map(|(from, to)| format!("{from}-{to}")),
        dir: Some(spec.dir.name().to_owned()),
        start_s: Some(start.as_secs_f64()),
        stop_s: stop.map(Time::as_secs_f64),
        ..Row::default()
    }
}

/// Throughput of the flow in each whole second in which it was active, Mbit/s.
fn seconds(report: &Report, flow: &FlowReport) -> Vec<f64> {
    let (start, stop, completed) = flow.active;
    let end = report.started + report.duration;
    let end = stop.into_iter().chain(completed).fold(end, Time::min);
    let second = Span::from_secs(1);
    let whole = report.duration.as_nanos() / second.as_nanos();
    let there = (0..whole).filter(|index| {
        let from = report.started + second * *index;
        start <= from && from + second <= end
    });
    let bytes = |index: u64| flow.seconds.get(index as usize).copied().unwrap_or(0);
    there.map(|index| bytes(index) as f64 * 8e-6).collect()
}

/// The algorithm's window in segments; `None` if it has none.
pub fn window_of(sample: &Sample) -> Option<f64> {
    // The limit of Verus is a quota. Its target window is one of its gauges.
    match sample.window {
        Some(window) => Some(window.get() as f64 / SEGMENT_PAYLOAD),
        None => gauge(sample, "window"),
    }
}

/// Share of the samples in which the algorithm's window is below the cwnd of the TCP under it.
fn below_tcp(flow: &FlowReport) -> Option<f64> {
    let both = flow
        .series
        .iter()
        .filter_map(|sample| Some(window_of(sample)? <= sample.kernel_cwnd?));
    let (below, all) = both.fold((0.0, 0.0), |(below, all), is| {
        (below + f64::from(is), all + 1.0)
    });
    (all > 0.0).then(|| below / all)
}

/// The queue before the bottleneck. For a chain: all different ones.
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
