// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Byte streams that the in-band form runs over: TCP, or TLS over it.
//!
//! A [`CarrierSpec`] is what a user types. [`CarrierSpec::connect`] and [`Accepted::handshake`] do
//! every handshake, blocking and with a deadline. They give an in-band [`Carrier`] that never blocks.
//!
//! [`Carrier`]: alcc_inband::carrier::Carrier
//!
//! [`InBand`] is the transport of `alcc send` over all of this, [`Tcp`] the one over TCP alone.
//!
//! All input from the peer is untrusted, so everything has limits. A peer with another protocol is an [`Error`] of one
//! line.
#![forbid(unsafe_code)]

mod error;
mod own_tcp;
mod spec;
mod tcp;
pub mod tls;
mod transport;
mod wait;

pub use alcc_pipe::Target;
pub use error::Error;
pub use own_tcp::Tcp;
pub use spec::{Accepted, CarrierSpec, Client, Listener, Row, Server, rows};
pub use transport::InBand;

/// The transports of `alcc send` and `alcc recv`; the first is the default.
pub static TRANSPORTS: alcc_pipe::Table = alcc_pipe::Table(&[&Tcp, &InBand]);
