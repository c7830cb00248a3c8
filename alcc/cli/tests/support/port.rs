// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports for programs that cannot select a free one themselves.
use std::net::{TcpListener, UdpSocket};

/// A port that was free a moment ago, for TCP and for UDP.
pub(crate) fn free_port() -> u16 {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = tcp.local_addr().unwrap();
        if UdpSocket::bind(at).is_ok() {
            return at.port();
        }
    }
}
