// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which connections: by our port, or by where the other end is.
use alcc_sys::Peer;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A local port, or an address range of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Our port (accepted) or the other end's port (outbound).
    Port(u16),
    /// The other end's address and how many leading bits count.
    Cidr(IpAddr, u8),
}

impl Pattern {
    /// Is this connection meant?
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
                "'{text}' is neither a port nor an address range: write 443, 10.0.0.0/8 or 2001:db8::/32"
            )
        };
        if let Ok(port) = text.parse() {
            if port == 0 {
                return Err("0 is no port: write 1 to 65535".to_owned());
            }
            return Ok(Self::Port(port));
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pattern_says_what_to_write() {
        for bad in ["", "http", "10.0.0.0/33", "10.0.0/8", "70000"] {
            assert!(
                bad.parse::<Pattern>().unwrap_err().contains("write 443"),
                "{bad}"
            );
        }
    }
}
