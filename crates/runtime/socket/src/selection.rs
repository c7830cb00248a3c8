// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which connections are controlled.
use crate::{Missed, Peer};
use alcc_cc::Spec;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A port of ours, or an address range of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Our port (accepted) or the other end's port (outbound).
    Port(u16),
    /// The other end's address and how many leading bits count.
    Cidr(IpAddr, u8),
}

/// Which connections are controlled: accepted ones whose peer is not loopback, unless widened or narrowed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// Loopback peers too.
    pub loopback: bool,
    /// Connections that the program opens, too.
    pub outbound: bool,
    /// If not empty: only these.
    pub only: Vec<Pattern>,
    /// Never these.
    pub except: Vec<Pattern>,
    /// What holds for some of them; the first that matches counts.
    pub rules: Vec<Rule>,
}

/// How the connections of a port or an address range are controlled, where it differs from the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Which.
    pub pattern: Pattern,
    /// The algorithm.
    pub cc: Option<Spec>,
    /// The kernel's congestion control below.
    pub under: Option<String>,
}

impl Selection {
    /// True if this connection is to be controlled.
    pub fn covers(&self, peer: &Peer) -> bool {
        self.leaves_alone(peer).is_none()
    }

    /// Why this connection is not to be controlled, if it is not.
    pub fn leaves_alone(&self, peer: &Peer) -> Option<Missed> {
        let matches = |patterns: &[Pattern]| patterns.iter().any(|p| p.matches(peer));
        if peer.outbound && !self.outbound {
            Some(Missed::Outbound)
        } else if !self.loopback && peer.remote.ip().to_canonical().is_loopback() {
            Some(Missed::Loopback)
        } else if matches(&self.except) || !(self.only.is_empty() || matches(&self.only)) {
            Some(Missed::Excluded)
        } else {
            None
        }
    }

    /// The rule for this connection, if it is a special one.
    pub fn rule(&self, peer: &Peer) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.pattern.matches(peer))
    }
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

/// `443 cc=copa under=bbr`
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pattern)?;
        if let Some(cc) = &self.cc {
            write!(f, " cc={cc}")?;
        }
        if let Some(under) = &self.under {
            write!(f, " under={under}")?;
        }
        Ok(())
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let mut rule = Self {
            pattern: words.next().unwrap_or_default().parse()?,
            cc: None,
            under: None,
        };
        for word in words {
            match word.split_once('=') {
                Some(("cc", spec)) => {
                    let spec = spec.parse();
                    rule.cc = Some(spec.map_err(|e: alcc_cc::SpecError| e.to_string())?);
                }
                Some(("under", name)) => rule.under = Some(name.to_owned()),
                _ => return Err(format!("'{word}': write cc=ALGORITHM or under=NAME")),
            }
        }
        Ok(rule)
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

    fn accepted(remote: &str) -> Peer {
        Peer {
            remote: remote.parse().unwrap(),
            local_port: 443,
            outbound: false,
        }
    }

    #[test]
    fn loopback_and_outbound_are_off_unless_asked_for() {
        let plain = Selection::default();
        assert!(plain.covers(&accepted("192.0.2.1:999")));
        for loopback in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(!plain.covers(&accepted(loopback)), "{loopback}");
            assert!(
                Selection {
                    loopback: true,
                    ..Selection::default()
                }
                .covers(&accepted(loopback))
            );
        }
        let outbound = Peer {
            outbound: true,
            ..accepted("192.0.2.1:999")
        };
        assert!(!plain.covers(&outbound));
        assert!(
            Selection {
                outbound: true,
                ..Selection::default()
            }
            .covers(&outbound)
        );
        let why = |peer: &Peer| plain.leaves_alone(peer);
        assert_eq!(why(&accepted("127.0.0.1:1")), Some(Missed::Loopback));
        assert_eq!(why(&outbound), Some(Missed::Outbound));
        let except = Selection {
            except: vec!["443".parse().unwrap()],
            ..Selection::default()
        };
        let accepted = accepted("192.0.2.1:999");
        assert_eq!(except.leaves_alone(&accepted), Some(Missed::Excluded));
    }

    #[test]
    fn only_and_except_by_port_and_range() {
        let of = |only: &[&str], except: &[&str]| {
            let read = |list: &[&str]| list.iter().map(|p| p.parse().unwrap()).collect();
            Selection {
                only: read(only),
                except: read(except),
                ..Selection::default()
            }
        };
        assert!(of(&["443"], &[]).covers(&accepted("192.0.2.1:1")));
        assert!(!of(&["80"], &[]).covers(&accepted("192.0.2.1:1")));
        assert!(of(&["192.0.0.0/8"], &[]).covers(&accepted("[::ffff:192.0.2.1]:1")));
        assert!(!of(&[], &["192.0.2.0/24"]).covers(&accepted("192.0.2.1:1")));
        assert!(of(&["2001:db8::/32"], &[]).covers(&accepted("[2001:db8::5]:1")));
        assert!(!of(&["0.0.0.0/0"], &[]).covers(&accepted("[2001:db8::5]:1")));
    }

    #[test]
    fn the_first_rule_that_matches_counts_and_a_rule_is_written_as_it_is_read() {
        let rules = [
            "443 cc=copa:delta=0.2 under=bbr",
            "192.0.2.0/24 under=reno",
            "443",
        ];
        let selection = Selection {
            rules: rules.iter().map(|r| r.parse().unwrap()).collect(),
            ..Selection::default()
        };
        let found = selection.rule(&accepted("192.0.2.1:1")).unwrap();
        assert_eq!(found.to_string(), rules[0]);
        let other = Peer {
            local_port: 80,
            ..accepted("192.0.2.1:1")
        };
        assert_eq!(selection.rule(&other).unwrap().to_string(), rules[1]);
        assert!(
            selection
                .rule(&Peer {
                    local_port: 80,
                    ..accepted("198.51.100.1:1")
                })
                .is_none()
        );
        for bad in ["", "443 cc", "443 off", "443 cc=:", "x cc=copa"] {
            assert!(bad.parse::<Rule>().is_err(), "{bad}");
        }
    }

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
