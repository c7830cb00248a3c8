// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library: `accept`, `connect`, `send`, `recv`, `shutdown` and `close` with the argument
//! lists of their namesakes, over [`alcc_socket::own`]. What each call does stands in `calls.rs`,
//! from which the header is generated.
//!
//! Rules of this crate: nothing is printed; no panic crosses the boundary; calls on other
//! descriptors do the same as their namesakes; a child of `fork` takes a stream over at its first
//! call.

mod boundary;
mod calls;
mod inband;
mod message;
mod process;
mod table;

pub use calls::*;
pub use inband::*;
