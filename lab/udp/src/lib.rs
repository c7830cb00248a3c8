// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The algorithms over datagrams: the native reference for comparing the same algorithms over TCP.
//!
//! This is a transport for measurements, not another QUIC: one stream in one direction per
//! connection, without encryption. `alcc_flow` contains the sender around an algorithm, with the
//! rules `udp`. This crate has the [datagrams](wire) and the ends of a connection.
//!
//! * [`Outgoing`], [`Incoming`], [`Listener`]: without clock and socket; time is an argument, and
//!   datagrams are the output.
//! * [`Udp`]: the transport of `alcc send`.
//! * [`Client`] and [`Server`]: the same over sockets, many flows in one loop; reads and writes
//!   block.
#![forbid(unsafe_code)]

mod buffer;
mod client;
pub mod cookie;
mod end;
mod hub;
mod incoming;
mod listener;
mod outgoing;
mod pacing;
mod port;
mod server;
mod transport;
pub mod wire;

pub use alcc_sys::now;
pub use client::{Client, FlowStats, Stream};
pub use cookie::unguessable;
pub use end::End;
pub use incoming::Incoming;
pub use listener::{Entropy, LINGER, Limits, Listener, ReceiverModules};
pub use outgoing::{Outgoing, Setup};
pub use server::{Arrived, Server};
pub use transport::Udp;
