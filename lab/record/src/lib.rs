// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measuring a real channel between two hosts. Send so that the queues are never empty (or at a
//! constant rate). Write down what arrives when, and make a trace of it.
//!
//! The core is without I/O and takes the time as an argument. [`session`] is one end of a
//! recording, and [`clock`] says what lies between the two clocks. [`arrivals`] keeps what came,
//! and [`wire`] is the format of the packets. Around it are a client and a listener over UDP.
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
