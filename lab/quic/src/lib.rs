// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The algorithms as congestion controllers of [noq], a QUIC stack.
//!
//! ```
//! let verus = alcc_quic::congestion("verus:r=4")?;
//! let mut transport = noq::TransportConfig::default();
//! verus.set(&mut transport);
//! # Ok::<(), alcc_cc::SpecError>(())
//! ```
//!
//! and, so that an algorithm's timers are exact, `Arc::new(alcc_quic::TimedRuntime::default())` as
//! the runtime of the endpoint. Without it everything works, but what is due between two packets
//! happens at the next one ([`TimedRuntime`]).
//!
//! * a pipe of bytes for programs without async: [`blocking`], and the transport of `alcc send`:
//!   [`Quic`];
//! * another set of algorithms, one of your own too: [`Congestion::new`];
//! * what differs from the same algorithm over datagrams of its own: `docs/transfer.md`.
#![forbid(unsafe_code)]

pub mod blocking;
mod controller;
mod factory;
mod gauge;
mod host;
mod sent_packets;
mod stack;
mod timed_runtime;
mod transport;

pub use factory::{Congestion, congestion};
pub use gauge::Gauge;
pub use stack::StackController;
pub use timed_runtime::TimedRuntime;
pub use transport::Quic;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
