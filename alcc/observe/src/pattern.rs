// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Patterns for connections: by local port, by address of the peer, or by a share of the clients.
use crate::share::{Share, client_of};
use alcc_sys::Peer;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A local port, an address range of the peer, or a share of the peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// The local port (accepted) or the peer's port (outbound).
    Port(u16),
    /// The peer's address and the number of leading bits that count.
    Cidr(IpAddr, u8),
    /// A share of the peers' addresses.
    Share(Share),
}

impl Pattern {
    /// True if the pattern matches this connection.
    pub fn matches(&self, peer: &Peer) -> bool {
        match *self {
            Self::Port(port) => {
                port == if peer.outbound {
                    peer.remote.port()
                } else {
                    peer.local_port
                }
            }
            Self::Cidr(net, bits) => match (net.to_canonical(), peer.remote.ip().to_canonical()) {
                (IpAddr::V4(a), IpAddr::V4(b)) => prefix(
                    u128::from(a.to_bits()) << 96,
                    u128::from(b.to_bits()) << 96,
                    bits,
                ),
                (IpAddr::V6(a), IpAddr::V6(b)) => prefix(a.to_bits(), b.to_bits(), bits),
                _ => false,
            },
            Self::Share(share) => share.has(client_of(peer.remote.ip())),
        }
    }
}

fn prefix(a: u128, b: u128, bits: u8) -> bool {
    (a ^ b).leading_zeros() >= u32::from(bits)
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "'{text}' is neither a port nor an address range nor a share: write 443, 10.0.0.0/8, 2001:db8::/32 or 10%"
            )
        };
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return match text.parse() {
                Ok(port @ 1..) => Ok(Self::Port(port)),
                _ => Err(format!("{text} is not a port: write 1 to 65535")),
            };
        }
        if text.contains('%') {
            return text.parse().map(Self::Share);
        }
        let (address, bits) = text
            .split_once('/')
            .map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| bad())?;
        if bits > most {
            Err(bad())
        } else {
            Ok(Self::Cidr(address, bits))
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "{port}"),
            Self::Cidr(address, bits) => write!(f, "{address}/{bits}"),
            Self::Share(share) => write!(f, "{share}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pattern_says_what_to_write() {
        for bad in ["", "http", "10.0.0.0/33", "10.0.0/8", "+443"] {
            assert!(
                bad.parse::<Pattern>().unwrap_err().contains("write 443"),
                "{bad}"
            );
        }
        // One message for all numbers that are not ports.
        for bad in ["0", "000", "70000", "99999999999999999999"] {
            assert_eq!(
                bad.parse::<Pattern>().unwrap_err(),
                format!("{bad} is not a port: write 1 to 65535")
            );
        }
    }
}
