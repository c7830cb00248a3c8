// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A direction of a link, and its rate.
use alcc_link::{Dir, Direction, DirectionSpec, RateSpec};
use alcc_trace::Trace;

pub(crate) fn link(rate: RateSpec, queue: &str) -> Direction {
    let spec = DirectionSpec {
        rate,
        queue: queue.parse().unwrap(),
        ..DirectionSpec::default()
    };
    Direction::new(&spec, Dir::Down, 1)
}

pub(crate) fn trace(ms: &[u32]) -> RateSpec {
    RateSpec::Trace(Trace::new(ms.to_vec()).unwrap())
}
