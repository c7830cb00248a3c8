// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An end that the other one does not expect.
use nix::sys::socket::{setsockopt, sockopt};
use std::net::TcpStream;

/// Closes it with a reset.
pub(crate) fn reset(stream: TcpStream) {
    let at_once = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&stream, sockopt::Linger, &at_once).unwrap();
    drop(stream);
}
