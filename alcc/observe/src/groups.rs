// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters by port and algorithm, for monitoring a server over days: they remain when connections
//! end.
use crate::event::{Event, Subscriber};
use crate::map::{GROUP_LEN, GROUPS, GROUPS_COUNT, get_text, put_text};
use crate::segment::Segment;
use alcc_units::Span;
use std::sync::Arc;
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
const CONNECTIONS: usize = 8;
const BYTES: usize = 9;
const GATE_CLOSED: usize = 10;
const RETRANSMITS: usize = 11;
const READINGS: usize = 12;
const RTT: usize = 13;
const DELAY: usize = RTT + BUCKETS + 1;

const CLAIMED: u64 = 1;
const READY: u64 = 2;

/// The group of a connection, whose counters its events update.
pub(crate) struct Member {
    segment: Arc<Segment>,
    port: u16,
    /// Index of the group.
    group: u16,
    /// Retransmissions as of the last reading.
    retransmits: u64,
    acked: u64,
}

/// Counters of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupTotals {
    /// Connections taken under control.
    pub connections: u64,
    /// Bytes that passed under control.
    pub bytes: u64,
    /// Number of writes that were refused or cut short.
    pub gate_closed: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Readings of the kernel's counters.
    pub readings: u64,
}

/// A histogram of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// Number of times at most [`BOUNDS_US`] and above the bound before; the last: above all
    /// bounds.
    pub buckets: [u64; BUCKETS],
    /// Sum of the times, microseconds.
    pub sum_us: u64,
}

/// The counters of all connections with one port and one algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The local port, or the peer's for connections that the program opens. 0 for connections
    /// without a group of their own.
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

fn words(segment: &Segment, index: u16) -> &[AtomicU64] {
    let at = GROUPS + usize::from(index) * GROUP_LEN;
    segment.map().words(at, GROUP_LEN)
}

fn read(words: &[AtomicU64]) -> [u64; GROUP_LEN] {
    let mut copy = [0; GROUP_LEN];
    for (to, from) in copy.iter_mut().zip(words) {
        *to = from.load(Ordering::Relaxed);
    }
    copy
}

/// The group of a port and an algorithm, created if necessary. Two processes may create the same
/// one at the same time: readers add them up. The last group is for all connections that find no
/// other.
fn find(segment: &Segment, port: u16, algorithm: &str) -> u16 {
    let cut = |text: &str| text.bytes().take(ALGORITHM_LEN * 8).collect::<Vec<_>>();
    for index in 0..GROUPS_COUNT - 1 {
        let group = words(segment, index);
        match group[STATE].load(Ordering::Acquire) {
            READY => {
                let copy = read(group);
                let name = get_text(&copy[ALGORITHM..][..ALGORITHM_LEN]);
                if copy[PORT] == u64::from(port) && name.into_bytes() == cut(algorithm) {
                    return index;
                }
            }
            0 if group[STATE]
                .compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok() =>
            {
                group[PORT].store(port.into(), Ordering::Relaxed);
                put_text(&group[ALGORITHM..][..ALGORITHM_LEN], algorithm);
                group[STATE].store(READY, Ordering::Release);
                return index;
            }
            _ => {}
        }
    }
    let last = words(segment, GROUPS_COUNT - 1);
    put_text(&last[ALGORITHM..][..ALGORITHM_LEN], "other");
    last[STATE].store(READY, Ordering::Release);
    GROUPS_COUNT - 1
}

impl Member {
    /// The membership of a connection with this port under this algorithm.
    pub(crate) fn new(segment: &Arc<Segment>, port: u16, algorithm: &str) -> Self {
        Self {
            segment: Arc::clone(segment),
            port,
            group: find(segment, port, algorithm),
            retransmits: 0,
            acked: 0,
        }
    }

    fn add(&self, word: usize, n: u64) {
        if n > 0 {
            words(&self.segment, self.group)[word].fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Adds a time to the histogram at this word.
    fn observe(&self, histogram: usize, time: Span) {
        let us = time.as_micros();
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.add(histogram + bucket, 1);
        self.add(histogram + BUCKETS, us);
    }
}

impl Subscriber for Member {
    fn on(&mut self, event: &Event<'_>) {
        match *event {
            Event::Opened(tcp) => {
                self.add(CONNECTIONS, 1);
                (self.retransmits, self.acked) = (tcp.retransmits, tcp.acked);
            }
            Event::Passed(more) => {
                self.add(BYTES, more.bytes.get());
                self.add(GATE_CLOSED, more.gate_closed);
            }
            Event::Reading(now) => {
                let (retransmits, acked) = (now.tcp.retransmits, now.tcp.acked);
                self.add(RETRANSMITS, retransmits.saturating_sub(self.retransmits));
                self.add(READINGS, 1);
                if acked > self.acked && !now.rtt.latest.is_zero() {
                    self.observe(RTT, now.rtt.latest);
                    self.observe(DELAY, now.queueing());
                }
                (self.retransmits, self.acked) = (retransmits, acked);
            }
            Event::AlgorithmChanged(now) => {
                self.group = find(&self.segment, self.port, now.algorithm);
            }
            _ => {}
        }
    }
}

impl Segment {
    /// All groups, equal ones added up, in the order of port and algorithm.
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
            for (to, word) in [
                (&mut t.connections, CONNECTIONS),
                (&mut t.bytes, BYTES),
                (&mut t.gate_closed, GATE_CLOSED),
                (&mut t.retransmits, RETRANSMITS),
                (&mut t.readings, READINGS),
            ] {
                *to = to.wrapping_add(copy[word]);
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
    use crate::event::tests::{reading, tcp};
    use crate::event::{Passed, Reading};
    use crate::segment::tests::Scratch;
    use alcc_cc::RttView;
    use alcc_units::Bytes;

    #[test]
    fn groups_are_found_again_and_the_rest_shares_the_last() {
        const { assert!(DELAY + BUCKETS < GROUP_LEN) };
        let scratch = Scratch::new();
        let segment = Arc::new(scratch.create());
        let a = find(&segment, 443, "verus");
        assert_eq!(find(&segment, 443, "verus"), a);
        assert_ne!(find(&segment, 443, "copa"), a);
        assert_ne!(find(&segment, 80, "verus"), a);
        let mut member = Member::new(&segment, 443, "verus");
        let mut tcp = tcp();
        member.on(&Event::Opened(&tcp));
        let passed = Passed {
            bytes: Bytes::new(2),
            gate_closed: 3,
            ..Passed::default()
        };
        member.on(&Event::Passed(&passed));
        // Nothing new is acknowledged: no sample.
        member.on(&Event::Reading(&reading(&tcp)));
        // 40 ms is in the bucket up to 50 ms, 1 ms in that up to 1 ms, 6 s above all.
        for (latest, min) in [(40, 39), (6000, 6000)] {
            tcp.acked += 1;
            tcp.retransmits += 2;
            let rtt = RttView {
                latest: Span::from_millis(latest),
                min: Span::from_millis(min),
                ..RttView::default()
            };
            member.on(&Event::Reading(&Reading {
                rtt,
                ..reading(&tcp)
            }));
        }
        let expected = GroupTotals {
            connections: 1,
            bytes: 2,
            gate_closed: 3,
            retransmits: 4,
            readings: 3,
        };
        let all = segment.groups();
        let verus = all
            .iter()
            .find(|g| g.port == 443 && g.algorithm == "verus")
            .unwrap();
        assert_eq!(verus.totals, expected);
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
            Member::new(&segment, port, "verus").on(&Event::Opened(&tcp));
        }
        let all = segment.groups();
        assert_eq!(all.len(), usize::from(GROUPS_COUNT));
        assert_eq!(all.iter().map(|g| g.totals.connections).sum::<u64>(), 200);
    }
}
