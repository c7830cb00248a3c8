// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Validation of the simulator with published figures. A reference file has one scenario per line,
//! run from several starting points. Fixed bounds give a verdict.
//!
//! | figures of | share of the link | mean delay |
//! |---|---|---|
//! | `prototypes`: `cubic`, `reno`, `bbr` | 2 points of utilization | 15 % |
//! | `prototypes`: the rest | 5 points of utilization | 20 % |
//! | `cs244` | 5 % of the throughput | 15 % of the queueing delay |
//!
//! The distance of our median from the nearest of their runs is judged. A trace link has no
//! randomness besides the time in the trace at which the flow begins. Because their start is not
//! known to the millisecond, repetitions begin at different times.
mod cell;
mod pairs;
mod reference;
mod traces;

pub use cell::{Cell, Runner, Verdict, markdown};
pub use pairs::{Pair, markdown_of_pairs};
pub use reference::{Bounds, Reference};
pub use traces::Traces;
