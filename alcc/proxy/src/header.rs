// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header of the PROXY protocol, which identifies the client behind a relay to the server.
//!
//! Source: W. Tarreau and others, "The PROXY protocol, versions 1 & 2", sections 2.1 and 2.2. We
//! only ever send it.
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The version of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyProtocol {
    /// Version 1: one line of text.
    V1,
    /// Version 2: binary.
    V2,
}

/// Signature of version 2 (section 2.2): twelve bytes with which no other protocol begins.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 in the upper four bits, command PROXY in the lower.
const V2_PROXY: u8 = 0x21;
/// Address family in the upper four bits, STREAM in the lower.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

impl ProxyProtocol {
    /// The header for a connection from `client` to `local`, the relay's own address.
    ///
    /// IPv4 clients of a socket for both families are written as IPv4. If only one of the two
    /// addresses is IPv4, both are written as IPv6, because the header has one family.
    pub fn header(self, client: SocketAddr, local: SocketAddr) -> Vec<u8> {
        let pair = Pair::new(client.ip().to_canonical(), local.ip().to_canonical());
        match self {
            Self::V1 => pair.text(client.port(), local.port()).into_bytes(),
            Self::V2 => pair.binary(client.port(), local.port()),
        }
    }
}

enum Pair {
    V4([std::net::Ipv4Addr; 2]),
    V6([std::net::Ipv6Addr; 2]),
}

impl Pair {
    fn new(client: IpAddr, local: IpAddr) -> Self {
        let wide = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        match (client, local) {
            (IpAddr::V4(client), IpAddr::V4(local)) => Self::V4([client, local]),
            (client, local) => Self::V6([wide(client), wide(local)]),
        }
    }

    fn text(&self, client: u16, local: u16) -> String {
        match self {
            Self::V4([from, to]) => format!("PROXY TCP4 {from} {to} {client} {local}\r\n"),
            Self::V6([from, to]) => format!("PROXY TCP6 {from} {to} {client} {local}\r\n"),
        }
    }

    fn binary(&self, client: u16, local: u16) -> Vec<u8> {
        let (family, addresses) = match self {
            Self::V4(pair) => (TCP4, pair.map(|ip| ip.octets()).concat()),
            Self::V6(pair) => (TCP6, pair.map(|ip| ip.octets()).concat()),
        };
        let mut header = Vec::with_capacity(52);
        header.extend(SIGNATURE);
        header.extend([V2_PROXY, family]);
        // Length of the rest: both addresses and two ports, 12 or 36 bytes.
        header.extend((addresses.len() as u16 + 4).to_be_bytes());
        header.extend(addresses);
        header.extend(client.to_be_bytes());
        header.extend(local.to_be_bytes());
        header
    }
}

impl FromStr for ProxyProtocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "v1" => Ok(Self::V1),
            "v2" => Ok(Self::V2),
            _ => Err(format!(
                "'{text}' is not a version of the PROXY protocol: write v1 or v2"
            )),
        }
    }
}

impl fmt::Display for ProxyProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// The lines of the specification's section 2.1 and of its examples.
    #[test]
    fn version_1_is_the_line_of_the_specification() {
        let line = |client, local| {
            String::from_utf8(ProxyProtocol::V1.header(at(client), at(local))).unwrap()
        };
        assert_eq!(
            line("192.168.0.1:56324", "192.168.0.11:443"),
            "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"
        );
        assert_eq!(
            line("255.255.255.255:65535", "255.255.255.255:65535"),
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"
        );
        assert_eq!(
            line("[2001:db8::1]:1", "[2001:db8::2]:443"),
            "PROXY TCP6 2001:db8::1 2001:db8::2 1 443\r\n"
        );
        assert_eq!(
            line("[::ffff:10.0.0.1]:5", "[::ffff:10.0.0.2]:6"),
            "PROXY TCP4 10.0.0.1 10.0.0.2 5 6\r\n"
        );
        // The longest that section 2.1 allows for TCP6.
        let longest = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
        assert!(line(longest, longest).len() <= 104);
    }

    /// Byte by byte from section 2.2.
    #[test]
    fn version_2_is_the_binary_header_of_the_specification() {
        let v4 = ProxyProtocol::V2.header(at("192.0.2.33:4660"), at("198.51.100.7:443"));
        let expected: [u8; 28] = [
            0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A, 0x21, 0x11,
            0x00, 0x0C, 192, 0, 2, 33, 198, 51, 100, 7, 0x12, 0x34, 0x01, 0xBB,
        ];
        assert_eq!(v4, expected);
        let v6 = ProxyProtocol::V2.header(at("[2001:db8::33]:4660"), at("[2001:db8::7]:443"));
        let mut expected = expected[..12].to_vec();
        expected.extend([0x21, 0x21, 0x00, 0x24]);
        expected.extend([
            0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x33,
        ]);
        expected.extend([
            0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x07,
        ]);
        expected.extend([0x12, 0x34, 0x01, 0xBB]);
        assert_eq!(v6, expected);
    }

    /// The result of another implementation's parser.
    #[test]
    fn a_published_parser_reads_what_was_meant() {
        let pairs = [
            ("203.0.113.9:50000", "192.0.2.1:8443"),
            ("[2001:db8::9]:50000", "[2001:db8::1]:8443"),
            ("[::ffff:203.0.113.9]:50000", "[::ffff:192.0.2.1]:8443"),
            ("[2001:db8::9]:50000", "192.0.2.1:8443"),
        ];
        for (client, local) in pairs.map(|(client, local)| (at(client), at(local))) {
            let (from, to) = (client.ip().to_canonical(), local.ip().to_canonical());
            let mixed = from.is_ipv4() != to.is_ipv4();
            let v1 = ProxyProtocol::V1.header(client, local);
            let ports = (client.port(), local.port());
            match ppp::v1::Header::try_from(v1.as_slice()).unwrap().addresses {
                ppp::v1::Addresses::Tcp4(a) => {
                    assert_eq!(
                        (
                            IpAddr::V4(a.source_address),
                            IpAddr::V4(a.destination_address)
                        ),
                        (from, to)
                    );
                    assert_eq!((a.source_port, a.destination_port), ports);
                }
                ppp::v1::Addresses::Tcp6(a) => {
                    assert_eq!(IpAddr::V6(a.source_address).to_canonical(), from);
                    assert_eq!(IpAddr::V6(a.destination_address).to_canonical(), to);
                    assert_eq!((a.source_port, a.destination_port), ports);
                    assert!(mixed || from.is_ipv6());
                }
                ppp::v1::Addresses::Unknown => panic!("unknown"),
            }
            let v2 = ProxyProtocol::V2.header(client, local);
            let header = ppp::v2::Header::try_from(v2.as_slice()).unwrap();
            assert_eq!(
                (header.command, header.protocol),
                (ppp::v2::Command::Proxy, ppp::v2::Protocol::Stream)
            );
            match header.addresses {
                ppp::v2::Addresses::IPv4(a) => {
                    assert_eq!(
                        (
                            IpAddr::V4(a.source_address),
                            IpAddr::V4(a.destination_address)
                        ),
                        (from, to)
                    );
                    assert_eq!((a.source_port, a.destination_port), ports);
                }
                ppp::v2::Addresses::IPv6(a) => {
                    assert_eq!(IpAddr::V6(a.source_address).to_canonical(), from);
                    assert_eq!(IpAddr::V6(a.destination_address).to_canonical(), to);
                    assert_eq!((a.source_port, a.destination_port), ports);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_wrong_version_says_what_to_write() {
        assert_eq!("v2".parse(), Ok(ProxyProtocol::V2));
        assert!(
            "2".parse::<ProxyProtocol>()
                .unwrap_err()
                .contains("v1 or v2")
        );
    }
}
