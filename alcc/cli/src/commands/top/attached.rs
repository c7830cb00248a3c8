// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that `alcc attach` or a policy has given a control of the kernel, from the kernel's socket
//! diagnosis. Root sees those of all network namespaces in which a process runs.
use crate::holders::{Namespaces, processes};
use alcc_bpf::{InForce, Seen, Whose, policy};
use alcc_observe::{ByReason, Identity, State, Status, StatusRecord};
use alcc_socket::now;
use alcc_sys::{Before, Chosen, Options, OptionsMap, TcpSocket};
use alcc_units::{Bytes, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Name of feedback and enforcement if no process of alcc is involved.
pub(super) const KERNEL: &str = "kernel";

pub(super) struct Attached {
    namespaces: Namespaces,
    /// The map of earlier controls, which root can read. It identifies connections with a control that is
    /// not alcc's.
    before: Option<Before>,
    /// The options of an algorithm in the kernel, likewise.
    options: Option<OptionsMap>,
    /// The time at which each was first seen.
    since: BTreeMap<u64, Time>,
    reasons: Reasons,
}

/// A connection.
pub(super) struct One {
    pub(super) record: StatusRecord,
    /// The control that it had; empty if unknown.
    pub(super) before: String,
    /// The reason for its control, for root.
    pub(super) because: Option<String>,
}

impl Attached {
    pub(super) fn new() -> Self {
        Self {
            namespaces: Namespaces::default(),
            before: Before::open().ok(),
            options: OptionsMap::open().ok(),
            since: BTreeMap::new(),
            reasons: Reasons::default(),
        }
    }

    pub(super) fn look(&mut self) -> Vec<One> {
        let mut found = Vec::new();
        let mut numbers = BTreeSet::new();
        let this = std::process::id();
        // Others see theirs alone: only root may enter another's.
        let root = nix::unistd::geteuid().is_root();
        let others = root.then(processes).into_iter().flatten();
        for pid in std::iter::once(this).chain(others) {
            let Ok(number) = alcc_bpf::namespace_of(pid) else {
                continue;
            };
            if numbers.contains(&number) {
                continue;
            }
            let before = self.before.as_ref().map(Before::as_fd);
            let options = self.options.as_ref().map(OptionsMap::as_fd);
            let noted: Vec<_> = before.into_iter().chain(options).collect();
            // A process may end meanwhile; another may have the same namespace.
            if let Ok(sockets) = self.namespaces.sockets(number, &[pid], &noted) {
                found.extend(sockets);
                numbers.insert(number);
            }
        }
        self.namespaces.keep(&numbers);
        found.retain(is_attached);
        if root {
            self.reasons.update(&found);
        }
        let at = now();
        let since = std::mem::take(&mut self.since);
        let one = |s: &TcpSocket| {
            let first = since.get(&s.cookie).copied().unwrap_or(at);
            self.since.insert(s.cookie, first);
            Some(One {
                record: record(s, first, at)?,
                before: s.before.as_str().to_owned(),
                because: (self.reasons.known.get(&s.cookie)).map(|(_, why)| why.clone()),
            })
        };
        found.iter().filter_map(one).collect()
    }
}

/// The reason for the control of each connection, by its cookie.
#[derive(Default)]
struct Reasons {
    /// The policy that was in force then.
    policy: Option<InForce>,
    /// With the control for which it is the reason.
    known: BTreeMap<u64, (String, String)>,
}

impl Reasons {
    /// Goes through the kernel's sockets only if there are new connections, another control or another
    /// policy, because it loads a program for that.
    fn update(&mut self, found: &[TcpSocket]) {
        let policy = policy::in_force().ok().flatten();
        if policy != self.policy {
            self.known.clear();
            self.policy = policy;
        }
        let controls: BTreeMap<_, _> = found.iter().map(|s| (s.cookie, named(s))).collect();
        self.known
            .retain(|cookie, (control, _)| controls.get(cookie) == Some(control));
        if found.iter().all(|s| self.known.contains_key(&s.cookie)) {
            return;
        }
        let Ok(walk) = policy::look() else {
            return;
        };
        let ends = |seen: &Seen| Some((seen.port, seen.peer?));
        let seen: BTreeMap<_, _> = (walk.seen.iter())
            .filter_map(|seen| Some((ends(seen)?, seen)))
            .collect();
        for s in found {
            let peer = SocketAddr::new(s.remote.ip().to_canonical(), s.remote.port());
            if let Some(seen) = seen.get(&(s.local.port(), peer)) {
                let why = reason(seen, self.policy.as_ref());
                self.known.insert(s.cookie, (named(s), why));
            }
        }
    }
}

fn reason(seen: &Seen, policy: Option<&InForce>) -> String {
    let rule = policy.and_then(|policy| Some((policy, policy.rules.get(seen.rule?)?)));
    match (seen.whose, rule) {
        (Whose::Policy, Some((policy, rule))) => {
            format!("{}:{}: {}", policy.file.display(), rule.line, rule.label)
        }
        (Whose::Policy, None) => "an earlier policy has chosen it".to_owned(),
        (Whose::Attached, _) => "'alcc attach' has chosen it".to_owned(),
        (Whose::Own, _) => "its program or socket unit has chosen it".to_owned(),
        (Whose::Since, _) => {
            "its program or an administrator has chosen it after the policy".to_owned()
        }
        (Whose::Route, _) => "a route has chosen it".to_owned(),
        (Whose::System | Whose::Mptcp, _) => "it is the system's default".to_owned(),
    }
}

fn is_attached(s: &TcpSocket) -> bool {
    let ours = alcc_bpf::controls().any(|c| c.name == s.control.as_str());
    !s.listens && s.inode != 0 && (ours || !s.before.as_str().is_empty())
}

/// The control, with its options if it is one of alcc's.
fn named(s: &TcpSocket) -> String {
    let control = s.control.as_str();
    let ours = alcc_bpf::RESIDENT.iter().any(|r| r.control.name == control);
    let options = if ours { s.options } else { Options::default() };
    Chosen {
        control: control.to_owned(),
        options,
    }
    .to_string()
}

fn record(s: &TcpSocket, started: Time, at: Time) -> Option<StatusRecord> {
    let reading = s.reading?;
    let tcp = &reading.progress;
    let packets = |n: u64| Bytes::new(tcp.mss.get().saturating_mul(n));
    Some(StatusRecord {
        who: Identity {
            pid: 0,
            id: s.cookie,
            cookie: s.cookie,
            started,
            local: s.local,
            remote: s.remote,
            outbound: false,
            algorithm: named(s),
            feedback: KERNEL.to_owned(),
            enforcement: KERNEL.to_owned(),
        },
        now: Status {
            state: State::Controlled,
            resting: tcp.in_flight == 0 && tcp.unsent == Bytes::ZERO,
            generation: 0,
            updated: at,
            cwnd: reading.cwnd,
            ssthresh: reading.ssthresh,
            mss: tcp.mss,
            window: Some(packets(reading.cwnd)),
            in_flight: packets(tcp.in_flight.into()),
            rtt: tcp.smoothed_rtt,
            smoothed: tcp.smoothed_rtt,
            min_rtt: tcp.min_rtt,
            pacing: None,
            delivery: reading.delivery,
            bytes: tcp.acked,
            bypassed: ByReason::default(),
            gate_closed: 0,
            retransmits: tcp.retransmits,
        },
    })
}
