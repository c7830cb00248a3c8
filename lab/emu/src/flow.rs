// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classification of packets into flows: small numbers, the same in both directions.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The key of a flow: addresses, protocol and ports, with the outside end first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FlowKey {
    /// IP protocol: 6 is TCP, 17 UDP.
    pub protocol: u8,
    /// Address and port (0 if there is none) outside.
    pub outside: (IpAddr, u16),
    /// Address and port (0 if there is none) inside.
    pub inside: (IpAddr, u16),
}

/// Reads the key of an IP packet that travels down (`down`) or up; `None` for anything else. Later
/// fragments of IPv4 and packets of IPv6 with extension headers have no ports.
pub(crate) fn key(packet: &[u8], down: bool) -> Option<FlowKey> {
    let word = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let v4 = |at: usize| {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(bytes)))
    };
    let v6 = |at: usize| {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    let first = *packet.first()?;
    let (header, protocol, source, destination, is_first) = match first >> 4 {
        4 => {
            let header = usize::from(first & 15) * 4;
            (
                header,
                *packet.get(9)?,
                v4(12)?,
                v4(16)?,
                word(6)? & 0x1fff == 0,
            )
        }
        6 => (40, *packet.get(6)?, v6(8)?, v6(24)?, true),
        _ => return None,
    };
    let ports = matches!(protocol, 6 | 17) && is_first;
    let port = |at| if ports { word(at).unwrap_or(0) } else { 0 };
    let (from, to) = ((source, port(header)), (destination, port(header + 2)));
    let (outside, inside) = if down { (from, to) } else { (to, from) };
    Some(FlowKey {
        protocol,
        outside,
        inside,
    })
}

/// A table that numbers flows in the order in which they appear. Number 0 is for packets that are
/// not IP, or came after the table was full.
pub(crate) struct FlowTable {
    /// Hash table with open addressing; its size is a power of two.
    slots: Vec<u32>,
    keys: Vec<FlowKey>,
    /// The last result, because packets of a flow come in runs.
    last: Option<(FlowKey, u32)>,
}

const SLOTS: usize = 1 << 14;

impl FlowTable {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![0; SLOTS],
            keys: Vec::with_capacity(64),
            last: None,
        }
    }

    pub(crate) fn number(&mut self, key: FlowKey) -> u32 {
        if let Some((last, number)) = self.last
            && last == key
        {
            return number;
        }
        let number = self.look_up(key);
        self.last = Some((key, number));
        number
    }

    fn look_up(&mut self, key: FlowKey) -> u32 {
        let ports = u64::from(key.outside.1) << 16 | u64::from(key.inside.1);
        let folded = |address| match address {
            IpAddr::V4(address) => u64::from(u32::from(address)),
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                (bits >> 64) as u64 ^ bits as u64
            }
        };
        let hosts = folded(key.outside.0).rotate_left(32) ^ folded(key.inside.0);
        let hash = (hosts ^ ports.rotate_left(24) ^ u64::from(key.protocol))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut at = (hash >> 50) as usize;
        loop {
            match self.slots[at] {
                0 if self.keys.len() >= SLOTS / 2 => return 0,
                0 => {
                    self.keys.push(key);
                    self.slots[at] = self.keys.len() as u32;
                    return self.slots[at];
                }
                number if self.keys[number as usize - 1] == key => return number,
                _ => at = (at + 1) % SLOTS,
            }
        }
    }

    /// All flows; the first one has number 1.
    pub(crate) fn keys(self) -> Vec<FlowKey> {
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(source: [u8; 4], sport: u16, destination: [u8; 4], dport: u16) -> Vec<u8> {
        let mut p = vec![0; 40];
        p[0] = 0x45;
        p[9] = 6;
        p[12..16].copy_from_slice(&source);
        p[16..20].copy_from_slice(&destination);
        p[20..22].copy_from_slice(&sport.to_be_bytes());
        p[22..24].copy_from_slice(&dport.to_be_bytes());
        p
    }

    #[test]
    fn both_directions_are_one_flow() {
        let down = key(&tcp([1, 0, 0, 1], 80, [2, 0, 0, 2], 5000), true).unwrap();
        let up = key(&tcp([2, 0, 0, 2], 5000, [1, 0, 0, 1], 80), false).unwrap();
        assert_eq!(down, up);
        assert_eq!(down.outside, (Ipv4Addr::new(1, 0, 0, 1).into(), 80));
        let mut table = FlowTable::new();
        assert_eq!(table.number(down), 1);
        let other = key(&tcp([1, 0, 0, 1], 80, [2, 0, 0, 2], 5001), true).unwrap();
        assert_eq!(table.number(other), 2);
        assert_eq!(table.number(up), 1);
        assert_eq!(table.keys(), [down, other]);
    }

    #[test]
    fn a_flow_of_ipv6_has_its_addresses_and_ports() {
        let mut p = vec![0; 60];
        (p[0], p[6], p[23], p[39]) = (0x60, 17, 1, 2);
        p[40..44].copy_from_slice(&[0, 80, 0x13, 0x88]);
        let key = key(&p, true).unwrap();
        let of = |last: u16| IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, last));
        assert_eq!(
            (key.protocol, key.outside, key.inside),
            (17, (of(1), 80), (of(2), 5000))
        );
    }

    #[test]
    fn rubbish_has_no_key() {
        assert_eq!(key(&[], true), None);
        assert_eq!(key(&[0x45; 12], true), None);
        assert_eq!(key(&[0x60; 39], true), None);
        // A header that claims to be longer than the packet: addresses, no ports.
        let mut long = tcp([1, 0, 0, 1], 80, [2, 0, 0, 2], 5000);
        long[0] = 0x4f;
        assert_eq!(key(&long, true).unwrap().outside.1, 0);
    }

    #[test]
    fn a_full_table_answers_zero() {
        let mut table = FlowTable::new();
        for n in 0..SLOTS as u32 {
            let key = FlowKey {
                protocol: 6,
                outside: (Ipv4Addr::from(n).into(), 80),
                inside: (Ipv4Addr::LOCALHOST.into(), 1),
            };
            let want = if n < SLOTS as u32 / 2 { n + 1 } else { 0 };
            assert_eq!(table.number(key), want);
        }
    }
}
