// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that are completely plain TCP: those that the selection excludes, and those that the
//! library does not reach. Bytes that bypass the algorithm on connections under control are
//! [`Bypass`](crate::Bypass).
use crate::bypass::Bypass;
use crate::map::{COUNTERS, COUNTERS_LEN, MISSED};
use crate::segment::Segment;
use alcc_units::Bytes;
use std::sync::atomic::Ordering;

/// The reason for which a connection is not controlled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Missed {
    /// Excluded: the peer is on this machine.
    Loopback,
    /// Excluded: the program opened it.
    Outbound,
    /// Excluded by the options or the file.
    Excluded,
    /// The program is linked statically.
    Static,
    /// The program is linked against another C library.
    OtherLibc,
    /// The program changes its user when it starts (set-user-ID).
    SetUserId,
    /// The library is not in the process.
    NotLoaded,
    /// We are not allowed to inspect the process.
    Hidden,
    /// Streams of the C library, which writes them by internal calls.
    Stdio,
    /// Calls that the library does not interpose: `dprintf`, direct system calls.
    RawCalls,
    /// `io_uring`.
    IoUring,
    /// Multipath TCP.
    Mptcp,
    /// The program has forbidden itself system calls (seccomp).
    Seccomp,
    /// The runtime failed in its process.
    Failed,
    /// It ended before its process could be inspected.
    Ended,
}

/// The remedy for a connection that the library cannot reach.
pub(crate) const KERNEL_OR_PROXY: &str =
    "use 'alcc attach' (root), or put 'alcc proxy' in front of it";

/// The numbers for a reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MissedCount {
    /// Number of connections.
    pub connections: u64,
    /// Bytes on them, if counted: those of excluded connections are not.
    pub bytes: u64,
}

impl Missed {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 15] = [
        Self::Loopback,
        Self::Outbound,
        Self::Excluded,
        Self::Static,
        Self::OtherLibc,
        Self::SetUserId,
        Self::NotLoaded,
        Self::Hidden,
        Self::Stdio,
        Self::RawCalls,
        Self::IoUring,
        Self::Mptcp,
        Self::Seccomp,
        Self::Failed,
        Self::Ended,
    ];

    /// The word for metrics and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Outbound => "outbound",
            Self::Excluded => "excluded",
            Self::Static => "static",
            Self::OtherLibc => "other-libc",
            Self::SetUserId => "set-user-id",
            Self::NotLoaded => "not-loaded",
            Self::Hidden => "hidden",
            Self::Stdio => "stdio",
            Self::RawCalls => "raw-calls",
            Self::IoUring => "io_uring",
            Self::Mptcp => "mptcp",
            Self::Seccomp => "seccomp",
            Self::Failed => "failed",
            Self::Ended => "ended",
        }
    }

    /// A sentence for people.
    pub fn why(self) -> &'static str {
        match self {
            Self::Loopback => "the other end is on this machine",
            Self::Outbound => "the program opened it",
            Self::Excluded => "the options or the file exclude it",
            Self::Static => "a static program does not load the library",
            Self::OtherLibc => "a program of another C library (musl) does not load the library",
            Self::SetUserId => {
                "a program with the set-user-id bit or file capabilities does not load the library"
            }
            Self::NotLoaded => "it did not load the library (its environment was cleaned?)",
            Self::Hidden => "the process cannot be inspected (another user's, set-user-id?)",
            Self::Stdio => "it writes by streams of the C library (stdio)",
            Self::RawCalls => {
                "it sends by system calls that the library cannot intercept, as Go programs do"
            }
            Self::IoUring => "it sends by io_uring",
            Self::Mptcp => "an MPTCP socket",
            Self::Seccomp => "it has forbidden itself system calls (seccomp)",
            Self::Failed => "the runtime failed in its process",
            Self::Ended => {
                "it ended before its process could be inspected (a child without the library, or calls that bypass it)"
            }
        }
    }

    /// The way to bring it under control.
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Loopback => Some("--loopback"),
            Self::Outbound => Some("--outbound"),
            Self::Excluded | Self::Failed => None,
            Self::NotLoaded | Self::Ended => Some(
                "let it keep LD_PRELOAD and the ALCC_ variables, or put 'alcc proxy' in front of it",
            ),
            Self::Hidden => Some("start 'alcc run' as root or as that user"),
            Self::Static
            | Self::OtherLibc
            | Self::SetUserId
            | Self::Stdio
            | Self::RawCalls
            | Self::IoUring
            | Self::Mptcp
            | Self::Seccomp => Some(KERNEL_OR_PROXY),
        }
    }

    /// True if the user chose this, so that it is not a problem.
    pub fn is_chosen(self) -> bool {
        matches!(self, Self::Loopback | Self::Outbound | Self::Excluded)
    }
}

const _: () = assert!(MISSED + 2 * Missed::ALL.len() <= COUNTERS + COUNTERS_LEN);

impl Segment {
    fn missed_word(&self, why: Missed, second: usize) -> &std::sync::atomic::AtomicU64 {
        self.map().word(MISSED + 2 * why as usize + second)
    }

    /// Counts connections that are not controlled, and bytes on them.
    pub(crate) fn miss(&self, why: Missed, connections: u64, bytes: Bytes) {
        for (second, n) in [connections, bytes.get()].into_iter().enumerate() {
            if n > 0 {
                self.missed_word(why, second)
                    .fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    /// The connections that were not controlled so far, by reason; reasons without a connection are
    /// omitted.
    pub fn missed(&self) -> Vec<(Missed, MissedCount)> {
        let count = |why| MissedCount {
            connections: self.missed_word(why, 0).load(Ordering::Relaxed),
            bytes: self.missed_word(why, 1).load(Ordering::Relaxed),
        };
        let all = Missed::ALL.into_iter().map(|why| (why, count(why)));
        all.filter(|(_, n)| n.connections > 0).collect()
    }
}

/// Traffic that was not controlled, for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uncontrolled {
    /// The word for metrics and tables.
    pub reason: &'static str,
    /// A sentence for people; only the word of `reason` if the user chose to leave the connections alone.
    pub why: &'static str,
    /// The way to bring it under control.
    pub remedy: Option<&'static str>,
    /// Number of connections that were not, or not completely, controlled.
    pub connections: u64,
    /// Bytes on them; `None`: not counted, because the user chose to leave them alone.
    pub bytes: Option<u64>,
}

impl Segment {
    /// All traffic that was not controlled so far: whole connections, then bytes of controlled
    /// ones.
    pub fn uncontrolled(&self) -> impl Iterator<Item = Uncontrolled> {
        let totals = self.totals();
        let missed = self.missed().into_iter().map(|(why, n)| Uncontrolled {
            reason: why.name(),
            why: if why.is_chosen() {
                why.name()
            } else {
                why.why()
            },
            remedy: why.remedy(),
            connections: n.connections,
            bytes: (!why.is_chosen()).then_some(n.bytes),
        });
        let bypassed = Bypass::ALL.into_iter().map(move |why| Uncontrolled {
            reason: why.name(),
            why: why.why(),
            remedy: Some(why.remedy()),
            connections: totals.bypassed_connections.get(why),
            bytes: Some(totals.bypassed_bytes.get(why)),
        });
        missed.chain(bypassed.filter(|one| one.connections > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;

    #[test]
    fn every_reason_has_its_place_and_touches_no_other() {
        let scratch = Scratch::new();
        let (ours, theirs) = (scratch.create(), scratch.open());
        for (place, why) in Missed::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
            let n = place as u64 + 1;
            let more = MissedCount {
                connections: n,
                bytes: 100 * n,
            };
            theirs.miss(why, n, Bytes::new(100 * n));
            assert_eq!(ours.missed().len(), place + 1);
            assert_eq!(ours.missed()[place], (why, more));
        }
        assert_eq!(ours.totals(), crate::Totals::default());
        assert!(ours.failed().is_empty());
    }
}
