// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host and a port as typed: one parser for every option that names a server.
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// A host with a port. Its meaning depends on the transport (a carrier may need a path).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Name, or IPv4 or IPv6 address without brackets.
    pub host: String,
    /// The port; 0: none was typed.
    pub port: u16,
}

impl Target {
    /// Parses `host`, `host:port`, `192.0.2.1:9700`, `2001:db8::1` or `[2001:db8::1]:9700`. Port 0
    /// cannot be typed. `None` for any other text.
    pub fn read(text: &str) -> Option<Self> {
        let port = |text: &str| text.parse().ok().filter(|port| *port > 0);
        let (host, port) = if text.parse::<Ipv6Addr>().is_ok() {
            (text, 0)
        } else if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            match after {
                "" => (host, 0),
                after => (host, port(after.strip_prefix(':')?)?),
            }
        } else {
            match text.rsplit_once(':') {
                None => (text, 0),
                Some((host, typed)) => (host, port(typed)?),
            }
        };
        let target = Self {
            host: host.to_owned(),
            port,
        };
        target.is_sound().then_some(target)
    }

    /// The same as [`Self::read`], but the port is required.
    pub fn with_port(text: &str) -> Option<Self> {
        Self::read(text).filter(|target| target.port > 0)
    }

    /// True if the host may be written into requests: not empty, no whitespace or control characters, and no colon
    /// unless it is an IPv6 address.
    pub fn is_sound(&self) -> bool {
        let colon = self.host.contains(':') && !self.is_literal();
        let bad = |c: char| c.is_whitespace() || c.is_control();
        !self.host.is_empty() && !colon && !self.host.contains(bad)
    }

    /// True for an address, which needs no look-up.
    pub fn is_literal(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok()
    }

    /// All current addresses of the name, in the resolver's order. Blocks on the resolver.
    ///
    /// # Errors
    /// The error of the resolver; `NotFound` if the name has no address.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if found.is_empty() {
            let why = "the name has no address";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(found)
    }
}

impl FromStr for Target {
    type Err = String;

    /// Parses as [`Target::with_port`] does.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::with_port(text).ok_or_else(|| {
            format!("'{text}' is not HOST:PORT: write example.net:443, 192.0.2.1:443 or [2001:db8::1]:443")
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_hosts_with_or_without_port() {
        for (text, host, port) in [
            ("example.net", "example.net", 0),
            ("192.0.2.1:5", "192.0.2.1", 5),
            ("2001:db8::1", "2001:db8::1", 0),
            ("[2001:db8::1]", "2001:db8::1", 0),
            ("[::1]:9", "::1", 9),
        ] {
            let target = Target::read(text).unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{text}");
            assert_eq!(Target::with_port(text).is_some(), port > 0, "{text}");
        }
        for bad in [
            "", "a b", ":5", "a:", "a:0", "a:99999", "[::1", "[::1]5", "[x]:5", "a:b:c", "a\r\n:5",
        ] {
            assert_eq!(Target::read(bad), None, "{bad}");
            let error = bad.parse::<Target>().unwrap_err();
            assert!(error.contains("write example.net:443"), "{error}");
        }
    }
}
