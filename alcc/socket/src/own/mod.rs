// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets that send through the library: for a program that calls us instead of `send` (the C library, the proxy).
//!
//! ```text
//!   Stream::send ──► bounded queue ──► room? ──► send(2) in batches ──► OverTcp::wrote
//!        ▲                                 ▲
//!   notice: futex, descriptor, callback    │ window opens
//!        └───────────────── Runtime's thread ◄── deadline ── TCP_INFO + TX_ACK time stamps
//! ```
//!
//! Make one [`Runtime`] per process (or per core), and a [`Stream`] for each connected TCP socket:
//!
//! ```no_run
//! use alcc_socket::own::{Options, Runtime, Settings, Stream, Wait};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::new(Settings::new("verus".parse()?), alcc_cc::Registry::builtin());
//! let (socket, _) = std::net::TcpListener::bind("[::]:8080")?.accept()?;
//! let stream = Stream::new(&runtime, socket.into(), &Options::default())?;
//! stream.send(b"hello", Wait::Yes(None))?; // waits for space in the queue
//! match stream.send(b"hello", Wait::No) {  // EAGAIN: wait for a notice
//!     Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
//!     other => drop(other?),
//! }
//! stream.close(std::time::Duration::from_secs(10)); // drains in the background, then closes; RST after ten seconds
//! # Ok(())
//! # }
//! ```
//!
//! * [`Stream::send`] takes the bytes that fit into the queue, or writes directly while the window is open and nothing
//!   waits. `Err(WouldBlock)` (or a short count) promises one notice when a quarter of the queue is free. Then a
//!   sleeping `send` wakes up. [`Stream::writable_fd`] becomes writable (`POLLOUT`; level and edge triggered). The
//!   callback of [`Stream::on_notice`] runs.
//! * [`Stream`] is [`Read`](std::io::Read) and [`Write`](std::io::Write) like a `TcpStream`: it waits if its descriptor
//!   does. With the feature `tokio` it is also `AsyncRead` and `AsyncWrite`; other executors have [`Stream::poll_send`]
//!   and [`Stream::poll_shutdown_write`].
//! * A program may also read from the descriptor of a [`Stream`]. With `timestamps` feedback, `poll` on that descriptor also
//!   returns `POLLERR` while acknowledgement times wait to be read, so `auto` chooses it for blocking descriptors only.
//! * An error of the connection is kept: every later call returns it.
//! * A panic of an algorithm turns its stream into plain TCP; nothing is lost.

mod connection;
mod io;
mod notifier;
mod queue;
mod runtime;
mod settings;
mod stream;
#[cfg(feature = "tokio")]
mod tokio;

pub use runtime::Runtime;
pub use settings::Settings;
pub use stream::{Info, Options, Stream, Wait};
