// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Byte streams that the in-band form runs over. A carrier is one file, and one line in the
//! registry.
//!
//! ```text
//! websocket ──► tls ──► connect ──► tcp        --carrier websocket+tls+connect:proxy=HOST:PORT
//!   layer       layer    layer      base
//! ```
//!
//! A [`CarrierSpec`] is what a user types: layers, topmost first, over a base.
//! [`CarrierSpec::connect`] and [`Listener::accept`] do every handshake, blocking and with a
//! deadline. They give an in-band [`Carrier`] that never blocks.
//!
//! [`InBand`] is the transport of `alcc send` over all of this, [`Tcp`] the one over TCP alone.
//!
//! What the other end sends is untrusted. Every layer has limits. A peer that is not what it should
//! be is an [`Error`] of one line.
#![forbid(unsafe_code)]

mod connect;
mod error;
mod http;
mod own_tcp;
mod registry;
mod spec;
mod tcp;
pub mod tls;
mod transport;
mod unix;
mod wait;
mod websocket;

pub use alcc_pipe::Target;
pub use error::Error;
pub use own_tcp::Tcp;
pub use registry::{Row, rows};
pub use spec::{Accepted, CarrierSpec, Client, Listener, Server};
pub use transport::InBand;

/// The transports of `alcc send` and `alcc recv`; the first is the default.
pub static TRANSPORTS: alcc_pipe::Table = alcc_pipe::Table(&[&Tcp, &InBand]);
