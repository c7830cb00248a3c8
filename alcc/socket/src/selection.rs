// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The selection of connections to be controlled.
use alcc_cc::Spec;
use alcc_observe::{Missed, Pattern, Peer};
use std::fmt;
use std::str::FromStr;

/// The connections to be controlled: by default accepted ones whose peer is not loopback.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// True to include loopback peers.
    pub loopback: bool,
    /// True to include connections that the program opens.
    pub outbound: bool,
    /// The only connections that are selected; empty: all.
    pub only: Vec<Pattern>,
    /// Connections that are excluded.
    pub except: Vec<Pattern>,
    /// Settings for some of them; the first rule that matches applies.
    pub rules: Vec<Rule>,
}

/// Settings for the connections of a port or an address range, where they differ from the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The connections that the rule is for.
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

    /// The reason for not controlling this connection; `None`: it is to be controlled.
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

    /// The first rule that matches this connection.
    pub fn rule(&self, peer: &Peer) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.pattern.matches(peer))
    }
}

/// Writes a rule as typed: `443 cc=copa under=bbr`.
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
}
