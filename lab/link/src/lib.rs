// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Model of a path: a queue before a bottleneck, a rate that may follow a trace, delay and random
//! loss.
//!
//! The models are pure: the host gives them the time and the packet, and gets [`Outcome`]s with
//! exact times. The simulator and the real-time emulator run this same code, so an emulated run has
//! a simulated counterpart.
//!
//! * [`Direction`]: one direction of a path, built from a [`DirectionSpec`]; [`Changes`]: its
//!   changes over time;
//! * [`log`]: a text format for the outcomes of all packets;
//! * [`Queue`]: decides which packets wait and which are dropped; chosen by name with [`QueueSpec`]
//!   (`codel:target=5ms`). To add one: a file `queue/NAME.rs`, its name in the registry line of
//!   `queue.rs`;
//! * [`radio`]: delays and pauses of radio links, chosen by name with [`RadioSpec`]
//!   (`harq:errors=0.2`), in the same way.
#![forbid(unsafe_code)]

mod bottleneck;
mod changes;
mod direction;
pub mod log;
mod packet;
pub mod queue;
pub mod radio;
mod schedule;
mod steady;

pub use changes::{Changes, ChangesError, Step};
pub use direction::{Dir, Direction, DirectionSpec, RateSpec};
pub use packet::{DropReason, Ecn, Outcome, Outcomes, Packet};
pub use queue::{Queue, QueueKind, QueueSpec};
pub use radio::{RadioKind, RadioSpec};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
