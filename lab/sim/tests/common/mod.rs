// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FlowSpec, Scenario, Timing};
use alcc_units::{Bytes, Span};

/// One path of the experiments: the bottleneck towards the receiver, nothing but delay on the way
/// back.
pub(crate) fn scenario(rate: RateSpec, seconds: u64, flows: &[&str]) -> Scenario {
    let registry = alcc_zoo::registry();
    let parse = |text: &&str| FlowSpec::parse(text, &registry, Timing::default()).unwrap();
    let queue = QueueSpec::droptail(Bytes::new(2_000_000));
    let mut scenario = Scenario::dumbbell(rate, Span::from_millis(40), queue);
    scenario.flows = flows.iter().flat_map(parse).collect();
    scenario.duration = Span::from_secs(seconds);
    scenario
}
