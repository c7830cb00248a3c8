// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows of one kind on a link, as they run in the kernel and as they run in `cc`.
use super::ours;
use alcc_cc::Registry;
use alcc_link::RateSpec;
use alcc_sim::{FlowSpec, Scenario, Timing, run};
use alcc_units::{Rate, Span};

/// Throughput of all, Mbit/s; Jain's index of the flows; mean queueing, ms.
struct Outcome {
    mbps: f64,
    jain: f64,
    ms: f64,
    /// Standard error of the mean of Jain's index over the draws, squared.
    error2: f64,
}

/// Means over eight draws of the losses, because the first loss determines the shares for long.
fn together(registry: &Registry, flow: &str, n: u32, loss: f64) -> Outcome {
    let seeds = if loss > 0.0 { 1..=8 } else { 1..=1 };
    let each: Vec<Outcome> = seeds.map(|s| drawn(registry, flow, n, loss, s)).collect();
    let mean = |of: fn(&Outcome) -> f64| each.iter().map(of).sum::<f64>() / each.len() as f64;
    let jain = mean(|o| o.jain);
    let squares: f64 = each.iter().map(|o| (o.jain - jain).powi(2)).sum();
    let n = each.len() as f64;
    Outcome {
        mbps: mean(|o| o.mbps),
        jain,
        ms: mean(|o| o.ms),
        error2: squares / (n - 1.0).max(1.0) / n,
    }
}

/// 24 Mbit/s, 40 ms, a queue of 200 packets, a minute.
fn drawn(registry: &Registry, flow: &str, n: u32, loss: f64, seed: u64) -> Outcome {
    let link = RateSpec::Fixed(Rate::mbps(24));
    let queue = "droptail:packets=200".parse().unwrap();
    let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), queue);
    scenario.links[0].down.loss = loss;
    scenario.seed = seed;
    scenario.duration = Span::from_secs(60);
    let flows = format!("{n}*{flow}");
    scenario.flows = FlowSpec::parse(&flows, registry, Timing::default()).unwrap();
    let report = run(&scenario).unwrap();
    let shares: Vec<f64> = (report.flows.iter())
        .map(|flow| flow.throughput.as_bps() as f64 / 1e6)
        .collect();
    let (sum, squares) = (
        shares.iter().sum::<f64>(),
        shares.iter().map(|s| s * s).sum::<f64>(),
    );
    let waits = (report.flows.iter()).map(|flow| flow.queue_delay.mean.as_millis_f64());
    Outcome {
        mbps: sum,
        jain: sum * sum / (f64::from(n) * squares),
        ms: waits.sum::<f64>() / f64::from(n),
        error2: 0.0,
    }
}

/// Two and six of a kind, without loss and with 1 %: as fair as the reference, and as much.
#[test]
fn siblings_share_as_those_of_the_reference_do() {
    let mut wrong = Vec::new();
    for (name, algorithm) in ours() {
        let follows = super::follows(name);
        let ported = algorithm.name;
        let registry = alcc_zoo::registry().with(algorithm);
        for n in [2, 6] {
            for loss in [0.0, 0.01] {
                let (a, b) = (
                    together(&registry, follows, n, loss),
                    together(&registry, ported, n, loss),
                );
                let line = format!(
                    "{n} {name}, loss {loss}: {:.2} Mbit/s, Jain {:.3}, {:.1} ms; reference {:.2}, {:.3}, {:.1}",
                    b.mbps, b.jain, b.ms, a.mbps, a.jain, a.ms
                );
                println!("{line}");
                // Or less by an amount that eight draws cannot distinguish from zero.
                let less = (2.0 * (a.error2 + b.error2).sqrt()).max(0.08);
                if b.mbps < 0.95 * a.mbps || b.jain < a.jain - less || b.ms > 1.25 * a.ms + 2.0 {
                    wrong.push(line);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
