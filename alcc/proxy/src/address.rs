// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses as typed: the listen address, and the server behind the proxy.
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::str::FromStr;

/// A listen address: `:8443` (every address of this machine, IPv4 and IPv6), `192.0.2.1:8443`,
/// `[2001:db8::1]:8443`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The address; `None`: every one of this machine.
    pub ip: Option<IpAddr>,
    /// The port; zero: a free one.
    pub port: u16,
}

impl Listen {
    /// Opens a non-blocking listening socket. For the unspecified address it serves IPv4 and IPv6,
    /// or IPv4 alone on a system without IPv6.
    ///
    /// # Errors
    /// The socket cannot be opened or bound, or cannot listen.
    pub fn open(self, backlog: i32) -> io::Result<TcpListener> {
        let open = |addr: SocketAddr| -> io::Result<TcpListener> {
            let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
            // Lets a new proxy bind the port while connections of the old one linger; two listeners
            // are still refused.
            socket.set_reuse_address(true)?;
            if addr.is_ipv6() {
                socket.set_only_v6(self.ip.is_some())?;
            }
            socket.bind(&addr.into())?;
            socket.listen(backlog)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        };
        match self.ip {
            Some(ip) => open((ip, self.port).into()),
            None => match open((Ipv6Addr::UNSPECIFIED, self.port).into()) {
                Err(e)
                    if matches!(
                        e.raw_os_error(),
                        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
                    ) =>
                {
                    open((Ipv4Addr::UNSPECIFIED, self.port).into())
                }
                other => other,
            },
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix(':').and_then(|p| p.parse().ok()) {
            return Ok(Self { ip: None, port });
        }
        text.parse::<SocketAddr>()
            .map(|a| Self {
                ip: Some(a.ip()),
                port: a.port(),
            })
            .map_err(|_| {
                format!("'{text}' is not an address to listen on: write :8443, 192.0.2.1:8443 or [2001:db8::1]:8443")
            })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            None => write!(f, ":{}", self.port),
            Some(ip) => SocketAddr::new(ip, self.port).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_back() {
        for text in [":8443", "192.0.2.1:80", "[2001:db8::1]:443", "0.0.0.0:0"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_ones_say_what_to_write() {
        for bad in [
            "",
            "8443",
            ":",
            ":70000",
            "host:80",
            "2001:db8::1",
            "1.2.3.4",
        ] {
            assert!(
                bad.parse::<Listen>().unwrap_err().contains("write :8443"),
                "{bad}"
            );
        }
    }
}
