// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::EmuError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of one emulated link: a /16 of 100.64.0.0/10, and the link's place in a chain of
/// nested links. Home and office networks do not use that range, which is of RFC 6598.
///
/// Level `k` is 100.(64+n).k.1 outside and 100.(64+n).k.2 inside. Every namespace of a chain routes
/// the whole /16 to the next deeper link. It routes the /24s of its own and all upper levels to its
/// uplink. So all levels can reach each other.
///
/// The same in IPv6: `fd61:6c63:63nn:k::1` and `::2`, with the /48 and the /64s of these. They are
/// unique local addresses (RFC 4193) of this project: 61 6c 63 63 spells its name.
///
/// ```
/// use alcc_emu::Subnet;
///
/// let first = Subnet::default();
/// assert_eq!(first.outside().to_string(), "100.64.1.1");
/// let nested = first.nested().next().expect("there are 254 levels");
/// assert_eq!(nested.inside().to_string(), "100.64.2.2");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subnet {
    n: u8,
    level: u8,
    /// True if no link can be nested inside: such a link is beside another one in the same
    /// namespace.
    leaf: bool,
}

impl Default for Subnet {
    /// The first range, which is free in every new namespace.
    fn default() -> Self {
        Self {
            n: 0,
            level: 1,
            leaf: false,
        }
    }
}

impl Subnet {
    /// The range number `n` (0 to 63) at nesting depth `level` (1 to 254).
    ///
    /// # Errors
    /// [`EmuError::Spec`] outside these bounds.
    pub fn new(n: u8, level: u8) -> Result<Self, EmuError> {
        if n > 63 || level == 0 || level == 255 {
            return Err(EmuError::Spec(format!(
                "address range {n} at nesting level {level}: 0 to 63 at 1 to 254 exist; nest fewer emulated links"
            )));
        }
        Ok(Self {
            n,
            level,
            leaf: false,
        })
    }

    /// All ranges at the uppermost level, beginning with number `first` modulo 64: candidates for a
    /// namespace that others use too.
    pub fn candidates(first: u32) -> impl Iterator<Item = Self> {
        (0..64).map(move |i| Self {
            n: (first.wrapping_add(i) % 64) as u8,
            level: 1,
            leaf: false,
        })
    }

    /// The addresses for a link inside this one, in order of preference. The first is the next
    /// level, which may be nested further. If a link beside it has that, there are addresses for
    /// links without further nesting.
    pub fn nested(self) -> impl Iterator<Item = Self> {
        let next = Self::new(self.n, self.level.saturating_add(1)).ok();
        // Links beside each other at different depths must not collide: 15 for each of the first 14
        // depths.
        let first = 254 - 16 * u16::from(self.level % 14);
        let beside = (0..254)
            .map(move |i| ((first + 253 - i) % 254 + 1) as u8)
            .filter(move |level| *level > self.level)
            .map(move |level| Self {
                level,
                leaf: true,
                ..self
            });
        next.into_iter().chain(beside).filter(move |_| !self.leaf)
    }

    /// The number of the range, 0 to 63.
    pub const fn number(self) -> u8 {
        self.n
    }

    /// The nesting depth, from 1.
    pub const fn level(self) -> u8 {
        self.level
    }

    /// The address of the outer end.
    pub const fn outside(self) -> Ipv4Addr {
        Ipv4Addr::new(100, 64 + self.n, self.level, 1)
    }

    /// The address of the inner end.
    pub const fn inside(self) -> Ipv4Addr {
        Ipv4Addr::new(100, 64 + self.n, self.level, 2)
    }

    /// The IPv6 address of the outer end.
    pub const fn outside6(self) -> Ipv6Addr {
        self.address6(self.level, 1)
    }

    /// The IPv6 address of the inner end.
    pub const fn inside6(self) -> Ipv6Addr {
        self.address6(self.level, 2)
    }

    const fn address6(self, level: u8, host: u16) -> Ipv6Addr {
        let range = 0x6300 | self.n as u16;
        Ipv6Addr::new(0xfd61, 0x6c63, range, level as u16, 0, 0, 0, host)
    }

    /// True if no further link can be nested inside.
    pub const fn is_leaf(self) -> bool {
        self.leaf
    }

    /// The same addresses without further nesting, in the form for a process inside.
    pub const fn leaf(self) -> Self {
        Self { leaf: true, ..self }
    }

    const fn range(self) -> Ipv4Addr {
        Ipv4Addr::new(100, 64 + self.n, 0, 0)
    }

    /// The destinations that the outer end reaches through the link, as address and prefix length.
    pub(crate) const fn downlink(self) -> (Ipv4Addr, u8) {
        if self.leaf {
            (Ipv4Addr::new(100, 64 + self.n, self.level, 0), 24)
        } else {
            (self.range(), 16)
        }
    }

    /// The same in IPv6.
    pub(crate) const fn downlink6(self) -> (IpAddr, u8) {
        if self.leaf {
            (IpAddr::V6(self.address6(self.level, 0)), 64)
        } else {
            (IpAddr::V6(self.address6(0, 0)), 48)
        }
    }

    /// The destinations that the inner end reaches through the link even if a link nested in it has
    /// the whole range.
    pub(crate) fn uplinks(self) -> impl Iterator<Item = (Ipv4Addr, u8)> {
        let last = if self.leaf { 0 } else { self.level };
        (1..=last).map(move |level| (Ipv4Addr::new(100, 64 + self.n, level, 0), 24))
    }

    /// The same in IPv6.
    pub(crate) fn uplinks6(self) -> impl Iterator<Item = (IpAddr, u8)> {
        let last = if self.leaf { 0 } else { self.level };
        (1..=last).map(move |level| (IpAddr::V6(self.address6(level, 0)), 64))
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, prefix) = self.downlink();
        write!(f, "{address}/{prefix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_level() {
        let net = Subnet::new(3, 2).unwrap();
        assert_eq!(net.outside().to_string(), "100.67.2.1");
        assert_eq!(net.inside().to_string(), "100.67.2.2");
        assert_eq!(net.to_string(), "100.67.0.0/16");
        let routes: Vec<String> = net.uplinks().map(|r| r.0.to_string()).collect();
        assert_eq!(routes, ["100.67.1.0", "100.67.2.0"]);
        assert_eq!(net.outside6().to_string(), "fd61:6c63:6303:2::1");
        assert_eq!(net.downlink6().0.to_string(), "fd61:6c63:6303::");
    }

    #[test]
    fn a_nested_link_takes_the_next_level_or_stands_beside_it() {
        let around = Subnet::new(3, 2).unwrap();
        let found: Vec<Subnet> = around.nested().collect();
        assert_eq!(found[0], Subnet::new(3, 3).unwrap());
        assert_eq!(found[0].to_string(), "100.67.0.0/16");
        assert_eq!(found[1].to_string(), "100.67.222.0/24");
        let mut levels: Vec<u8> = found[1..].iter().map(|s| s.level()).collect();
        levels.sort_unstable();
        assert_eq!(levels, (3..=254).collect::<Vec<u8>>());
        assert_eq!(found[1].nested().count(), 0);
    }

    #[test]
    fn there_are_64_ranges_and_254_levels() {
        assert!(Subnet::new(64, 1).is_err());
        assert!(Subnet::new(0, 0).is_err());
        assert!(Subnet::new(0, 255).is_err());
        let mut all: Vec<u8> = Subnet::candidates(u32::MAX - 3)
            .map(Subnet::number)
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..64).collect::<Vec<u8>>());
    }
}
