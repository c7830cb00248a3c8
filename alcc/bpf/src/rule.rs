// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules of a policy.
use crate::{Chosen, Options, Prefix};
use alcc_observe::Share;
use alcc_units::Rng;
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Largest number of rules in a policy, and of choices of [`crate::Future`].
pub const RULES: usize = 64;
/// Maximum length of a program's name, in bytes.
pub const PROGRAM_LEN: usize = 15;
/// Maximum length of a cgroup's name, in bytes.
pub const CGROUP_LEN: usize = 95;
/// Maximum depth of a cgroup below the root cgroup.
pub const CGROUP_LEVELS: usize = 8;
/// Maximum length of a label in the kernel, in bytes.
pub(crate) const LABEL_LEN: usize = 151;
const WORDS: usize = 12;

/// A cgroup, by its name, because a restarted service has a new cgroup of the same name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A unit of systemd, or the last part of the path of another cgroup.
    Unit(String),
    /// The path below the folder of all cgroups, without a slash at its ends.
    Path(String),
    /// This cgroup, by the inode number of its folder, and none that is made again in its place.
    Number(u64),
}

impl Place {
    /// The hash or number that the kernel's program compares.
    #[cfg(feature = "loader")]
    pub(crate) fn hash(&self, secret: u64) -> u64 {
        match self {
            Self::Unit(name) => hash_of(secret, &[name.as_bytes()]).0,
            Self::Path(path) => {
                let parts: Vec<_> = path.split('/').map(str::as_bytes).collect();
                hash_of(secret, &parts).1
            }
            Self::Number(number) => *number,
        }
    }
}

/// One rule. A condition that is `None` matches all connections.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The local port.
    pub port: Option<u16>,
    /// The cgroup of the process that opened the socket, or the listening one, or a cgroup above.
    pub place: Option<Place>,
    /// The peer's address.
    pub peer: Option<Prefix>,
    /// The name of the process that listens.
    pub program: Option<String>,
    /// The peer is one of this share of the clients.
    pub share: Option<Share>,
    /// The control of the kernel. `None`: the connection does not change.
    pub control: Option<Chosen>,
    /// The algorithm's name in the file.
    pub algorithm: String,
    /// Line of the file; 0: the rule is of `alcc attach`.
    pub line: u32,
}

impl Rule {
    /// Sort key that puts narrower rules first. The first rule that matches a connection counts.
    ///
    /// A rule with more conditions is narrower. Among rules with equally many, the order is: longer prefix
    /// of the peers' network, a port, a path of a cgroup (longer first), a unit, a program, the smaller
    /// share, and then the order in the file.
    pub fn narrowness(&self) -> impl Ord + use<> {
        let conditions = [
            self.port.is_some(),
            self.place.is_some(),
            self.peer.is_some(),
            self.program.is_some(),
            self.share.is_some(),
        ];
        let depth = match &self.place {
            None => 0,
            Some(Place::Unit(_)) => 1,
            Some(Place::Path(path)) => 2 + path.split('/').count(),
            Some(Place::Number(_)) => usize::MAX,
        };
        let share = self.share.map_or(1001, |share| share.per_mille());
        Reverse((
            conditions.into_iter().filter(|given| *given).count(),
            self.peer.map(|peer| peer.bits()),
            self.port.is_some(),
            depth,
            self.program.is_some(),
            Reverse(share),
            Reverse(self.line),
        ))
    }

    /// True if both match the same connections.
    pub fn matches_as(&self, other: &Self) -> bool {
        let of = |rule: &Self| {
            (
                rule.port,
                rule.place.clone(),
                rule.peer,
                rule.program.clone(),
            )
        };
        of(self) == of(other) && self.share == other.share
    }

    /// Text for people: `port 443, unit nginx.service: budget`.
    pub fn label(&self) -> String {
        let parts = [
            self.port.map(|port| format!("port {port}")),
            self.place.as_ref().map(|place| match place {
                Place::Unit(name) => format!("unit {name}"),
                Place::Path(path) => format!("cgroup {path}"),
                Place::Number(number) => format!("cgroup {number}"),
            }),
            self.peer.map(|peer| format!("peer {peer}")),
            self.program.as_ref().map(|name| format!("program {name}")),
            (self.share).map(|share| format!("{}% of the clients", share.percent())),
        ];
        let mut label: String = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if label.is_empty() {
            label.push_str("all connections");
        }
        let _ = write!(label, ": {}", self.algorithm);
        label
    }
}

/// The part of a label that the kernel keeps.
pub fn shortened(label: &str) -> &str {
    let mut end = label.len().min(LABEL_LEN);
    while !label.is_char_boundary(end) {
        end -= 1;
    }
    &label[..end]
}

/// A policy in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InForce {
    /// Its file.
    pub file: PathBuf,
    /// Time at which it was applied.
    pub applied: SystemTime,
    /// Its rules, in the order in which they are tried.
    pub rules: Vec<RuleInForce>,
    /// Initial value of the hashes of cgroups.
    pub(crate) secret: u64,
}

/// A rule of a policy in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleInForce {
    /// [`Rule::label`], [`shortened`].
    pub label: String,
    /// Line of the file.
    pub line: u32,
    /// The kernel's name of the control. `None`: connections do not change.
    pub control: Option<String>,
    /// The hash of the cgroup; 0: any.
    pub(crate) cgroup: u64,
}

/// The origin of a socket's control.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Whose {
    /// The system's default.
    System,
    /// The policy.
    Policy,
    /// A later change by a user or program, after the policy.
    Since,
    /// The socket's program.
    Own,
    /// A route.
    Route,
    /// Multipath TCP: all subflows of a connection have one control.
    Mptcp,
    /// `alcc attach`.
    Attached,
}

/// The sockets of all network namespaces.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Walk {
    /// All sockets.
    pub seen: Vec<Seen>,
    /// Number of namespaces that this process cannot enter.
    pub unreached: usize,
}

/// A socket, and the effect of the policy on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The local port.
    pub port: u16,
    /// The other end; `None`: it listens.
    pub peer: Option<SocketAddr>,
    /// The origin of the control that it had.
    pub whose: Whose,
    /// Index of the matching rule in the policy. For a listening socket, the rule for connections from
    /// clients that no rule names; from [`RULES`] on, the choice of [`crate::futures`] with the rest as index.
    pub rule: Option<usize>,
    /// True if it has the rule's control with other options.
    pub anew: bool,
    /// True if its program or an administrator has set these options after the policy.
    pub is_changed: bool,
    /// Its earlier control.
    pub was: String,
    /// The options of that control.
    pub had: Options,
    /// The control that this call selected. `None`: it does not change.
    pub now: Option<String>,
    /// The kernel's refusal.
    pub error: Option<String>,
}

/// Adds a component of a path to a hash: `hashed` of `policy.bpf.c`.
pub(crate) fn hashed(mut hash: u64, name: &[u8]) -> u64 {
    let mut padded = [0; 8 * WORDS];
    let len = name.len().min(CGROUP_LEN);
    padded[..len].copy_from_slice(&name[..len]);
    for word in padded.chunks_exact(8) {
        let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        hash = Rng::new(hash ^ word).next_u64();
    }
    hash
}

/// The hashes of the last component as a name, and of all components as a path.
pub(crate) fn hash_of(secret: u64, parts: &[&[u8]]) -> (u64, u64) {
    let name = parts.last().map_or(0, |name| hashed(secret, name));
    (
        name,
        // Another beginning than that of names: else a user could make a name with the hash of a path.
        (parts.iter()).fold(Rng::new(secret).next_u64(), |hash, part| hashed(hash, part)),
    )
}

/// The path of a cgroup below the folder of all cgroups. `None`: it is not below it, or is that folder.
pub fn below_all_cgroups(path: &Path, all: &Path) -> Option<String> {
    let below = path.strip_prefix(all).ok()?.to_str()?;
    let below = below.trim_matches('/');
    (!below.is_empty() && !below.split('/').any(|part| part == "..")).then(|| below.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_rule_comes_first() {
        let rule = |line| Rule {
            line,
            ..Rule::default()
        };
        let port = Some(443);
        let net = |text: &str| Some(text.parse().unwrap());
        let unit = Some(Place::Unit("nginx.service".into()));
        let path = |text: &str| Some(Place::Path(text.into()));
        let share = |text: &str| Some(text.parse().unwrap());
        let narrow_to_wide = [
            Rule {
                port,
                peer: net("10.0.0.0/8"),
                share: share("5%"),
                ..rule(9)
            },
            Rule {
                port,
                peer: net("10.1.0.0/16"),
                ..rule(8)
            },
            Rule {
                port,
                peer: net("10.0.0.0/8"),
                ..rule(7)
            },
            Rule {
                port,
                place: path("a/b"),
                ..rule(6)
            },
            Rule {
                port,
                place: path("a"),
                ..rule(5)
            },
            Rule {
                port,
                place: unit.clone(),
                ..rule(4)
            },
            Rule {
                port,
                share: share("5%"),
                ..rule(3)
            },
            Rule {
                port,
                share: share("50%"),
                ..rule(2)
            },
            Rule {
                peer: net("0.0.0.0/0"),
                ..rule(12)
            },
            Rule { port, ..rule(10) },
            Rule {
                port: Some(80),
                ..rule(11)
            },
            Rule {
                place: unit,
                ..rule(1)
            },
            Rule {
                program: Some("caddy".into()),
                ..rule(13)
            },
            Rule {
                share: share("50%"),
                ..rule(14)
            },
            rule(0),
        ];
        let lines = |rules: &[Rule]| rules.iter().map(|rule| rule.line).collect::<Vec<_>>();
        let mut sorted = narrow_to_wide.to_vec();
        sorted.reverse();
        sorted.sort_by_key(Rule::narrowness);
        assert_eq!(lines(&sorted), lines(&narrow_to_wide));
    }

    #[test]
    fn a_cgroup_is_known_by_its_name_or_its_path() {
        let hash_of_seven = |parts: &[&[u8]]| hash_of(7, parts);
        let (name, path) = hash_of_seven(&[b"system.slice", b"nginx.service"]);
        assert_eq!(name, hash_of_seven(&[b"nginx.service"]).0);
        assert_ne!(path, hash_of_seven(&[b"nginx.service"]).1);
        assert_ne!(path, hash_of_seven(&[b"nginx.service", b"system.slice"]).1);
        // No name has the hash of a path for every secret.
        let slice = b"machine.slice";
        let alike: Vec<_> = (slice.iter().take(8).map(|byte| !byte))
            .chain(slice[8..].iter().copied())
            .collect();
        assert_ne!(hash_of_seven(&[slice]).1, hash_of_seven(&[&alike]).0);
        // Whoever does not know the secret cannot compute it.
        assert_ne!(name, hash_of(8, &[b"nginx.service"]).0);
        let below = |path: &str| below_all_cgroups(path.as_ref(), "/sys/fs/cgroup".as_ref());
        assert_eq!(below("/sys/fs/cgroup/a/b/").as_deref(), Some("a/b"));
        for none in ["/sys/fs/cgroup", "/etc", "/sys/fs/cgroup/a/../..", "a"] {
            assert_eq!(below(none), None, "{none}");
        }
    }
}
