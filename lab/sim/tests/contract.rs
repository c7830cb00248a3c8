// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulator's hosts keep the contract towards the algorithm: native and above TCP, by every
//! host's rules, with losses.
mod common;

use alcc_cc::conformance::Checked;
use alcc_link::RateSpec;
use alcc_sim::{Under, run};
use alcc_units::{Rate, Span};

/// The first violation of the contract (wrong order or inconsistent values), if any.
fn keeps_the_contract(flow: &str, loss: f64, seed: u64) -> Option<String> {
    let mut scenario = common::scenario(RateSpec::Fixed(Rate::mbps(12)), 8, &[flow]);
    scenario.links[0].down.loss = loss;
    scenario.links[0].up.loss = loss;
    scenario.links[0].down.queue = "droptail:bytes=100000".parse().unwrap();
    scenario.duration = Span::from_secs(8);
    scenario.seed = seed;
    for flow in &mut scenario.flows {
        flow.controller = Checked::of(flow.controller.clone());
        if let Under::Tcp(kernel) = &mut flow.under {
            kernel.controller = Checked::of(kernel.controller.clone());
        }
    }
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&scenario)));
    let broken = |panic: Box<dyn std::any::Any + Send>| {
        let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        format!("{flow}, loss {loss}, seed {seed}: {why}")
    };
    match checked {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(panic) => Some(broken(panic)),
    }
}

#[test]
fn of_every_algorithm() {
    let mut wrong = Vec::new();
    for algorithm in alcc_zoo::registry().iter() {
        for part in ["", "/over=cubic", "/over=reno", "/over=bbr"] {
            wrong.extend(keeps_the_contract(
                &format!("{}{part}", algorithm.name),
                0.01,
                1,
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Answers of a few segments: tails are lost and probed, pauses end, timers expire.
#[test]
fn of_every_host() {
    let mut wrong = Vec::new();
    for host in alcc_flow::Rules::ALL {
        for algorithm in ["reno", "cubic", "verus", "copa", "bbr3"] {
            for seed in 1..=3 {
                let flow = format!(
                    "{algorithm}/host={}/on=100ms,off=400ms/app=3mbit",
                    host.name
                );
                wrong.extend(keeps_the_contract(&flow, 0.05, seed));
                let flow = format!(
                    "{algorithm}/over=cubic/host={}/app=1mbit,every=150ms",
                    host.name
                );
                wrong.extend(keeps_the_contract(&flow, 0.05, seed));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The events of algorithms.
#[derive(Default)]
struct Events(Vec<alcc_sim::AlgorithmEvent>);

impl alcc_sim::Probe for Events {
    fn is_enabled(&self) -> bool {
        false
    }

    fn wants_algorithms(&self) -> bool {
        true
    }

    fn algorithm(&mut self, event: &alcc_sim::AlgorithmEvent) {
        self.0.push(*event);
    }
}

#[test]
fn events_of_each_algorithm_reach_the_probe() {
    let mut events = Events::default();
    let flows = ["cubic", "verus/over=cubic"];
    let mut scenario = common::scenario(RateSpec::Fixed(Rate::mbps(12)), 8, &flows);
    scenario.links[0].down.queue = "droptail:bytes=100000".parse().unwrap();
    alcc_sim::run_with(&scenario, &mut events).unwrap();
    for flow in 0..flows.len() {
        let ends = |e: &alcc_sim::AlgorithmEvent| {
            e.flow == flow && matches!(e.event, alcc_cc::Event::SlowStartExit { .. })
        };
        assert!(events.0.iter().any(ends), "{flow}: {:?}", events.0);
    }
}
