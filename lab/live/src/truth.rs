// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulator beside published figures. A reference file has one scenario per line, run from
//! several starting points. Fixed bounds give a verdict.
//!
//! | figures of | share of the link | mean delay |
//! |---|---|---|
//! | `prototypes`: `cubic`, `reno`, `bbr` | 2 points of utilization | 15 % |
//! | `prototypes`: the rest | 5 points of utilization | 20 % |
//! | `cs244` | 5 % of the throughput | 15 % of the queueing delay |
//!
//! What counts is the distance of our median from the nearest of their runs. A trace link depends
//! on nothing random, but on when in the trace the flow begins. Nobody knows that to the
//! millisecond, so repetitions begin at different times.
mod cell;
mod pairs;
mod reference;
mod traces;

pub use cell::{Cell, Verdict, markdown, measure};
pub use pairs::{Pair, markdown_of_pairs, pairs};
pub use reference::{Bounds, Reference};
pub use traces::Traces;

use alcc_results::Spread;

/// What was found in one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Mbit/s.
    pub throughput: f64,
    /// 0 to 1.
    pub utilization: f64,
    /// Mean delay, ms: one way, or queueing alone, as the set has it.
    pub delay: Option<f64>,
    /// Its 95th percentile, ms.
    pub p95: Option<f64>,
    /// Of the packets, 0 to 1.
    pub loss: Option<f64>,
}

/// NaN of none.
fn median(values: &[f64]) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.median)
}
