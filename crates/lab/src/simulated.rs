// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a simulated scenario to rows: the one place where the simulator's report gets the names and units of a [`Row`].
use crate::row::Row;
use alcc_sim::{FlowReport, FlowSpec, Report, Scenario, Under};
use alcc_units::{Rate, Span};

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

fn row(
    link: &str,
    scenario: &Scenario,
    report: &Report,
    spec: &FlowSpec,
    flow: &FlowReport,
) -> Row {
    let ms = |span: Span| Some(span.as_millis_f64());
    let any = flow.packets > 0;
    let (feedback, enforcement, under) = match spec.under {
        Under::Native | Under::Udp { .. } => ("sim", "sim", None),
        Under::Tcp { cc, .. } => ("tcp-info", "gate+pacing", Some(cc.name().to_owned())),
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
