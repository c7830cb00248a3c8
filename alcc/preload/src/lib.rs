// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library that `alcc run` preloads. It interposes calls of an unmodified program to the C
//! library, so that writes on controlled connections pass only as far as the algorithm allows.
//!
//! Rules of this crate: calls for anything but a controlled connection pass unchanged. A child
//! process does not control a connection that it inherited. When the runtime fails, everything is
//! plain TCP.

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
