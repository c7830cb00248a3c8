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
//!
//! ```
//! use alcc_inband::{Settings, Stream, carrier::Unix};
//! use std::io::{Read, Write};
//! use std::{sync::Arc, time::Duration};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Arc::new(alcc_cc::Registry::builtin());
//! let (here, there) = std::os::unix::net::UnixStream::pair()?; // or any connected socket
//! let verus = Settings::new("verus".parse()?);
//!
//! let other = (registry.clone(), verus.clone());
//! let receiver = std::thread::spawn(move || -> std::io::Result<String> {
//!     let mut stream = Stream::accept(Unix::new(there)?, &other.0, other.1)?;
//!     let mut text = String::new();
//!     stream.read_to_string(&mut text)?; // until the sender's end
//!     Ok(text)
//! });
//!
//! let mut stream = Stream::connect(Unix::new(here)?, &registry, verus)?;
//! stream.write_all(b"hello")?;
//! while !stream.finish(Duration::from_secs(1))? {} // the peer has everything
//! assert_eq!(receiver.join().expect("no panic")?, "hello");
//! # Ok(())
//! # }
//! ```
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
