// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The algorithms over datagrams of our own: the native reference, with which the same algorithms above TCP are compared.
//!
//! A measuring transport, not a home-made QUIC: one stream in one direction per connection, without encryption. What a sender does around an
//! algorithm is `alcc_flow`'s, by the rules `udp`; here are the [datagrams](wire) and the ends of a connection.
//!
//! * [`Outgoing`], [`Incoming`], [`Listener`]: without clock and socket; time is an argument, what is sent comes out.
//! * [`Udp`]: the transport of `alcc send`.
//! * [`Client`] and [`Server`]: the same over sockets, many flows in one loop; reads and writes that block.
#![forbid(unsafe_code)]

mod buffer;
mod client;
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

pub use alcc_pipe::cookie::unguessable;
pub use alcc_sys::now;
pub use client::{Client, FlowStats, Stream};
pub use end::End;
pub use incoming::Incoming;
pub use listener::{Entropy, Halves, LINGER, Limits, Listener};
pub use outgoing::{Outgoing, Setup};
pub use server::{Arrived, Server};
pub use transport::Udp;
