// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurement of a real channel between two hosts. Both send so that the queues are never empty
//! (or at a constant rate), record the arrivals, and make a trace of them.
//!
//! The core is without I/O and takes the time as an argument. [`session`] is one end of a
//! recording, and [`clock`] compares the two clocks. [`arrivals`] keeps the arrivals, and [`wire`]
//! is the format of the packets. Around it are a client and a listener over UDP.
pub mod arrivals;
mod client;
pub mod clock;
mod error;
mod lateness;
mod listener;
pub mod plan;
mod recording;
pub mod results;
pub mod session;
mod socket;
mod source;
pub mod wire;

pub use client::{Request, record};
pub use error::RecordError;
pub use listener::{Event, Limits, Listener};
pub use plan::{Load, Mode, Plan};
pub use recording::Recording;
