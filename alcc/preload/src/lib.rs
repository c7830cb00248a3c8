// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library that `alcc run` preloads. It stands between an unmodified program and the C library.
//! Writes on controlled connections pass only as far as the algorithm allows.
//!
//! Rules of this crate: whatever is not a controlled connection goes straight through. A child
//! process that inherited a connection is not in control of it. When the runtime fails, everything
//! is plain TCP.

mod alloc;
mod epoll;
#[expect(
    unreachable_pub,
    reason = "the dynamic linker reaches what no crate does"
)]
mod hooks;
mod process;
mod real;
mod table;
mod vector;
