// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters by port and algorithm, for watching a server over days: they stay when
//! connections end.
use crate::map::{GROUP_LEN, GROUPS, GROUPS_COUNT, get_text, put_text};
use crate::segment::Segment;
use alcc_units::Span;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the histograms' buckets, in microseconds; a last bucket takes the rest.
pub const BOUNDS_US: [u64; 12] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000,
];
const BUCKETS: usize = BOUNDS_US.len() + 1;

// Words of a group.
const STATE: usize = 0;
const PORT: usize = 1;
const ALGORITHM: usize = 2;
const ALGORITHM_LEN: usize = 6;
const TOTALS: usize = 8;
const TOTALS_LEN: usize = 5;
const RTT: usize = TOTALS + TOTALS_LEN;
const DELAY: usize = RTT + BUCKETS + 1;

const CLAIMED: u64 = 1;
const READY: u64 = 2;

/// Which group a connection belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupId(usize);

/// What is added to a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupTotals {
    /// Connections taken under control.
    pub connections: u64,
    /// Bytes that passed under control.
    pub bytes: u64,
    /// How often a write was refused or cut short.
    pub gate_closed: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Readings of the kernel's counters.
    pub readings: u64,
}

/// Times in buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// How many were at most [`BOUNDS_US`] and above the bound before; the last: above all.
    pub buckets: [u64; BUCKETS],
    /// Their sum, microseconds.
    pub sum_us: u64,
}

/// All connections of one port with one algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The local port, or the peer's for connections that the program opens. 0 for what found no
    /// group of its own.
    pub port: u16,
    /// The algorithm with its options.
    pub algorithm: String,
    /// Counters.
    pub totals: GroupTotals,
    /// RTT samples, one per reading.
    pub rtt: Histogram,
    /// RTT above the smallest, one per reading.
    pub queueing: Histogram,
}

fn words(segment: &Segment, index: usize) -> &[AtomicU64] {
    segment.map().words(GROUPS + index * GROUP_LEN, GROUP_LEN)
}

fn read(words: &[AtomicU64]) -> [u64; GROUP_LEN] {
    let mut copy = [0; GROUP_LEN];
    for (to, from) in copy.iter_mut().zip(words) {
        *to = from.load(Ordering::Relaxed);
    }
    copy
}

/// The group of a port and an algorithm, made if need be. Two processes may make the same one at
/// the same time: readers add them up. The last group is for all that find no other.
pub(crate) fn find(segment: &Segment, port: u16, algorithm: &str) -> GroupId {
    let cut = |text: &str| text.bytes().take(ALGORITHM_LEN * 8).collect::<Vec<_>>();
    for index in 0..GROUPS_COUNT - 1 {
        let group = words(segment, index);
        match group[STATE].load(Ordering::Acquire) {
            READY => {
                let copy = read(group);
                let name = get_text(&copy[ALGORITHM..][..ALGORITHM_LEN]);
                if copy[PORT] == u64::from(port) && name.into_bytes() == cut(algorithm) {
                    return GroupId(index);
                }
            }
            0 if group[STATE]
                .compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok() =>
            {
                group[PORT].store(port.into(), Ordering::Relaxed);
                put_text(&group[ALGORITHM..][..ALGORITHM_LEN], algorithm);
                group[STATE].store(READY, Ordering::Release);
                return GroupId(index);
            }
            _ => {}
        }
    }
    let last = words(segment, GROUPS_COUNT - 1);
    put_text(&last[ALGORITHM..][..ALGORITHM_LEN], "other");
    last[STATE].store(READY, Ordering::Release);
    GroupId(GROUPS_COUNT - 1)
}

/// Adds to a group's counters.
pub(crate) fn add(segment: &Segment, id: GroupId, more: &GroupTotals) {
    let values = [
        more.connections,
        more.bytes,
        more.gate_closed,
        more.retransmits,
        more.readings,
    ];
    for (word, n) in words(segment, id.0)[TOTALS..].iter().zip(values) {
        if n > 0 {
            word.fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// Enters one RTT sample.
pub(crate) fn observe(segment: &Segment, id: GroupId, rtt: Span, queueing: Span) {
    for (at, time) in [(RTT, rtt), (DELAY, queueing)] {
        let us = time.as_micros();
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        let group = words(segment, id.0);
        group[at + bucket].fetch_add(1, Ordering::Relaxed);
        group[at + BUCKETS].fetch_add(us, Ordering::Relaxed);
    }
}

impl Segment {
    /// All groups that there are, equal ones added up, in order of port and algorithm.
    pub fn groups(&self) -> Vec<Group> {
        let mut found = std::collections::BTreeMap::<(u16, String), Group>::new();
        for index in 0..GROUPS_COUNT {
            let copy = read(words(self, index));
            if copy[STATE] != READY {
                continue;
            }
            let key = (
                copy[PORT] as u16,
                get_text(&copy[ALGORITHM..][..ALGORITHM_LEN]),
            );
            let group = found.entry(key.clone()).or_insert_with(|| Group {
                port: key.0,
                algorithm: key.1,
                totals: GroupTotals::default(),
                rtt: Histogram::default(),
                queueing: Histogram::default(),
            });
            let t = &mut group.totals;
            let fields = [
                &mut t.connections,
                &mut t.bytes,
                &mut t.gate_closed,
                &mut t.retransmits,
                &mut t.readings,
            ];
            for (to, from) in fields.into_iter().zip(&copy[TOTALS..]) {
                *to = to.wrapping_add(*from);
            }
            for (histogram, at) in [(&mut group.rtt, RTT), (&mut group.queueing, DELAY)] {
                for (to, from) in histogram.buckets.iter_mut().zip(&copy[at..]) {
                    *to = to.wrapping_add(*from);
                }
                histogram.sum_us = histogram.sum_us.wrapping_add(copy[at + BUCKETS]);
            }
        }
        found.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;

    #[test]
    fn groups_are_found_again_and_the_rest_shares_the_last() {
        const { assert!(DELAY + BUCKETS < GROUP_LEN) };
        let scratch = Scratch::new();
        let segment = scratch.create();
        let a = find(&segment, 443, "verus");
        assert_eq!(find(&segment, 443, "verus"), a);
        assert_ne!(find(&segment, 443, "copa"), a);
        assert_ne!(find(&segment, 80, "verus"), a);
        let more = GroupTotals {
            connections: 1,
            bytes: 2,
            gate_closed: 3,
            retransmits: 4,
            readings: 5,
        };
        add(&segment, a, &more);
        // 40 ms is in the bucket up to 50 ms, 1 ms in that up to 1 ms, 6 s above all.
        observe(&segment, a, Span::from_millis(40), Span::from_millis(1));
        observe(&segment, a, Span::from_secs(6), Span::ZERO);
        let all = segment.groups();
        let verus = all
            .iter()
            .find(|g| g.port == 443 && g.algorithm == "verus")
            .unwrap();
        assert_eq!(verus.totals, more);
        let at = |h: &Histogram| {
            h.buckets
                .iter()
                .enumerate()
                .filter(|(_, n)| **n > 0)
                .map(|(i, n)| (i, *n))
                .collect::<Vec<_>>()
        };
        assert_eq!(at(&verus.rtt), [(5, 1), (12, 1)]);
        assert_eq!(at(&verus.queueing), [(0, 2)]);
        assert_eq!(verus.rtt.sum_us, 6_040_000);
        for port in 1..200 {
            add(&segment, find(&segment, port, "verus"), &more);
        }
        let all = segment.groups();
        assert_eq!(all.len(), GROUPS_COUNT);
        assert_eq!(all.iter().map(|g| g.totals.connections).sum::<u64>(), 200);
    }
}
