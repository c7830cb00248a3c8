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
//! the runtime of the endpoint. Without it everything works, but a timer between two packets runs
//! at the next packet ([`TimedRuntime`]).
//!
//! * a byte stream for programs without async: [`blocking`], and the transport of `alcc send`:
//!   [`Quic`];
//! * another set of algorithms, including your own: [`Congestion::new`];
//! * the differences to the same algorithm over its own datagrams: `docs/transfer.md`.
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
