// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_cc::Registry;
use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_sim::{FlowSpec, Scenario, Timing};
use alcc_units::{Bytes, Span};

/// One path of the experiments: the bottleneck towards the receiver, nothing but delay on the way back.
pub(crate) fn scenario(rate: RateSpec, seconds: u64, flows: &[&str]) -> Scenario {
    let delay = Span::from_millis(20);
    let registry = Registry::builtin();
    let parse = |text: &&str| FlowSpec::parse(text, &registry, Timing::default()).unwrap();
    Scenario {
        down: DirectionSpec {
            rate,
            queue: QueueSpec::droptail(Bytes::new(2_000_000)),
            delay,
            loss: 0.0,
        },
        up: DirectionSpec {
            delay,
            ..DirectionSpec::default()
        },
        duration: Span::from_secs(seconds),
        seed: 1,
        flows: flows.iter().flat_map(parse).collect(),
        series: None,
    }
}
