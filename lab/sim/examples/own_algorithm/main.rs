// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm of one's own, checked by the conformance kit and run in the simulator: `cargo run
//! -p alcc-sim --example own_algorithm`. docs/adding-an-algorithm.md explains it line by line.
use alcc_cc::{Registry, conformance};
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FlowSpec, Scenario, Timing, run};
use alcc_units::{Rate, Span};
use mine::ALGORITHM;

mod mine;

#[allow(clippy::disallowed_macros, reason = "a program, not the library")]
pub(crate) fn main() {
    conformance::check(&ALGORITHM);
    let registry = Registry::builtin().with(ALGORITHM);
    for flow in ["mine", "mine:queue=5ms", "mine/over=cubic", "cubic"] {
        let flows = FlowSpec::parse(flow, &registry, Timing::default());
        let link = RateSpec::Fixed(Rate::mbps(12));
        let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), QueueSpec::default());
        scenario.duration = Span::from_secs(30);
        scenario.flows = flows.unwrap_or_else(|error| panic!("{error}"));
        let report = run(&scenario).unwrap_or_else(|error| panic!("{error}"));
        let row = &report.flows[0];
        println!(
            "{flow:<16} {:>6.2} Mbit/s, mean delay {:>4.0} ms",
            row.throughput.as_mbps_f64(),
            row.delay.mean.as_millis_f64()
        );
    }
}
