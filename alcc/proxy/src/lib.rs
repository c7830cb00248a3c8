// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TCP relay for servers that cannot load the preload library. The runtime of `alcc-socket`
//! controls the data sent to the clients.
//!
//! ```text
//!             ┌─ acceptor ──► the loop with the fewest connections
//!   client ◄──┤                                                        server
//!             └─ loop 1..N:  read server ─► write client (controlled)
//!                            read client ─► write server (plain)
//! ```
//!
//! One thread per loop, none per connection. An idle connection holds no buffer. Data is read into
//! one buffer of the loop. Only data that the other side does not take at once is kept; until it is
//! written nothing more is read.
//!
//! Start reading at [`Proxy::start`]; `session.rs` has the rules of half-closed and reset
//! connections.

mod acceptor;
mod address;
mod end;
mod header;
mod proxy;
mod route;
mod session;
mod stats;
mod sys;
mod worker;

pub use acceptor::Stopper;
pub use address::Listen;
pub use alcc_sys::Target;
pub use header::ProxyProtocol;
pub use proxy::{Config, Proxy, StartError};
pub use stats::Totals;
