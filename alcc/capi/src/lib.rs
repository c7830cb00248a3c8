// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library: `accept`, `connect`, `send`, `recv`, `shutdown` and `close` with the argument
//! lists of their namesakes, over [`alcc_socket::own`]. The calls are described in `calls.rs`, from
//! which the header is generated.
//!
//! This crate prints nothing, and no panic crosses the boundary. Calls on other descriptors do the
//! same as their namesakes. A child of `fork` takes a stream over at its first call.

mod boundary;
mod calls;
mod inband;
mod message;
mod process;
mod session;
mod table;

pub use calls::*;
pub use inband::*;
pub use session::*;
