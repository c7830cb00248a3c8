// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several flows of one algorithm on one link.
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FlowSpec, Report, Scenario, Timing, run};
use alcc_trace::scenario;
use alcc_units::Span;

fn simulated(rate: RateSpec, queue: &str, seed: u64, seconds: u64, flows: &str) -> Report {
    let queue: QueueSpec = queue.parse().unwrap();
    let mut scenario = Scenario::dumbbell(rate, Span::from_millis(40), queue);
    scenario.flows = FlowSpec::parse(flows, &alcc_zoo::registry(), Timing::default()).unwrap();
    scenario.duration = Span::from_secs(seconds);
    scenario.seed = seed;
    run(&scenario).unwrap()
}

/// `lab/examples/contention.toml`: starts at whole seconds, epochs of 5 ms. When all epochs began at
/// the same nanosecond, who had the lower number sent first and got more: all 45 pairs of 10 flows
/// stood in the order of their numbers, and Jain's index of the seconds was 0.85.
#[test]
fn who_gets_what_is_not_decided_by_the_order_of_the_numbers() {
    let channel = || {
        RateSpec::Trace(
            scenario("city-driving")
                .unwrap()
                .generate(1, Span::from_secs(140)),
        )
    };
    let red = "red:min=375000,max=1125000,p=0.1";
    let mut ordered = 0;
    for seed in 1..=4 {
        let report = simulated(channel(), red, seed, 120, "10*verus:r=2/stagger=1s");
        // Once all are there: who was alone for a while has had more.
        let rates: Vec<u64> = report
            .flows
            .iter()
            .map(|flow| flow.seconds.iter().skip(20).sum())
            .collect();
        let pairs = (0..10).flat_map(|i| (i + 1..10).map(move |j| (i, j)));
        ordered += pairs.filter(|(i, j)| rates[*i] > rates[*j]).count();
        let jain = report.jain_of_seconds(Span::from_secs(20)).unwrap();
        assert!(jain > 0.92, "seed {seed}: {jain:.3}, {rates:?}");
    }
    // A coin gives 90 of 180, and between 60 and 120 in all but one of a hundred thousand throws.
    assert!((60..=120).contains(&ordered), "{ordered} of 180 pairs");
}
