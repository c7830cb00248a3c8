// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In-band acknowledgements: frames inside any byte stream, for both ends of a connection.
//!
//! ```text
//!   Stream::write ──► Session ── DATA ──────────────▶ Carrier ──► TCP, TLS, a tunnel ──► the same at the other end
//!                     algorithm ◀── ACK with times, REPORT ── Carrier ◀──
//! ```
//!
//! * [`Stream`] wraps a connected [`carrier::Carrier`] and is read and written like any stream.
//!   Both ends need one.
//! * [`Session`] is one end without I/O: bytes in, bytes out, time as an argument. It is for event
//!   loops and other languages' bindings.
//! * [`frame`] and [`preface`] encode and decode the bytes that `docs/formats.md` describes.
//!
//! The algorithm limits the data in flight (feedback `in-band`, enforcement `queue`). The stream
//! below still retransmits, orders and encrypts. The smaller of both windows applies.
mod arrivals;
pub mod carrier;
mod error;
pub mod frame;
mod kernel;
mod output;
pub mod preface;
mod session;
mod settings;
mod stream;

pub use error::Error;
pub use output::Output;
pub use session::{Session, Stats, When};
pub use settings::Settings;
pub use stream::{Info, Stream};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
