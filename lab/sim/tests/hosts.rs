// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same algorithm with packets of our own and above the kernel's TCP, which keeps its window.
mod common;

use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FlowReport, run};
use alcc_units::Rate;

const STARTS: u64 = 5;

/// On 12 Mbit/s and 40 ms, 100 packets of queue: in each start utilization in per cent, and mean
/// one-way delay in ms.
fn seen(flow: &str, loss: f64, seed: u64) -> (f64, f64) {
    let rate = RateSpec::Fixed(Rate::mbps(12));
    let mut scenario = common::scenario(rate, 60, &[flow]);
    scenario.seed = seed;
    scenario.links[0].down.queue = "droptail:packets=100".parse::<QueueSpec>().unwrap();
    scenario.links[0].down.loss = loss;
    let report: FlowReport = run(&scenario).unwrap().flows.remove(0);
    (
        report.utilization.unwrap() * 100.0,
        report.delay.mean.as_millis_f64(),
    )
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    values.sum::<f64>() / STARTS as f64
}

/// An acknowledgement at once at one end and 5 ms late at the other is the same in the path.
/// Utilizations may differ by two points, because TCP's repair of 1 % of losses costs one.
fn queue_alike(algorithm: &str, loss: f64) {
    let of = |host: &str| {
        let flow = format!("{algorithm}/host={host}");
        let starts: Vec<_> = (1..=STARTS).map(|seed| seen(&flow, loss, seed)).collect();
        (
            mean(starts.iter().map(|s| s.0)),
            mean(starts.iter().map(|s| s.1)),
        )
    };
    let (datagrams, kernel) = (of("udp"), of("linux"));
    assert!(
        (datagrams.0 - kernel.0).abs() < 2.0 && (datagrams.1 - kernel.1).abs() < 2.0,
        "{algorithm}, {} % lost: {:.1} % at {:.1} ms with packets of our own, {:.1} % at {:.1} ms above TCP",
        loss * 100.0,
        datagrams.0,
        datagrams.1,
        kernel.0,
        kernel.1
    );
}

#[test]
fn budget_keeps_the_same_queue() {
    queue_alike("budget", 0.0);
    queue_alike("budget", 0.01);
}

#[test]
fn copa_keeps_the_same_queue() {
    queue_alike("copa", 0.0);
    queue_alike("copa", 0.01);
}
