// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of a whole run.
use crate::bypass::ByReason;
use crate::map::{COUNTERS, MISSED};
use crate::segment::Segment;
use std::sync::atomic::{AtomicU64, Ordering};

const COUNTS: usize = 11;
const FIELDS: usize = COUNTS + 2 * ByReason::LEN;
const _: () = assert!(COUNTERS + FIELDS <= MISSED);

/// A snapshot of the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Processes that loaded the library.
    pub processes: u64,
    /// Connections controlled.
    pub connections: u64,
    /// TCP connections seen and left alone, by the selection.
    pub left_alone: u64,
    /// How often a write was refused or cut short.
    pub gate_closed: u64,
    /// Bytes that passed under control.
    pub bytes: u64,
    /// CPU time of the runtime's threads, ns.
    pub runtime_cpu_ns: u64,
    /// Readings of the kernel's counters.
    pub readings: u64,
    /// Runtimes that failed; their connections went on as plain TCP.
    pub failures: u64,
    /// Connections for which the kernel refused the congestion control asked for below.
    pub under_refused: u64,
    /// Wake-ups of the runtime's threads at a time that was planned.
    pub wakeups: u64,
    /// Wake-ups that came more than 3 ms late: the thread waited for a processor.
    pub late_wakeups: u64,
    /// Bytes of controlled connections that passed without the algorithm's leave; not among
    /// `bytes`.
    pub bypassed_bytes: ByReason,
    /// Connections with such bytes.
    pub bypassed_connections: ByReason,
}

/// Counters of which nobody else sees anything.
pub struct AtomicTotals([AtomicU64; FIELDS]);

impl Default for AtomicTotals {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; FIELDS])
    }
}

impl AtomicTotals {
    /// Adds to every counter.
    pub fn add(&self, t: &Totals) {
        t.add_to(|i| &self.0[i]);
    }

    /// The counters now.
    pub fn totals(&self) -> Totals {
        Totals::read(|i| &self.0[i])
    }
}

impl Segment {
    fn counter(&self, index: usize) -> &AtomicU64 {
        self.map().word(COUNTERS + index)
    }

    /// Adds to every counter.
    pub fn add(&self, t: &Totals) {
        t.add_to(|i| self.counter(i));
    }

    /// The counters now.
    pub fn totals(&self) -> Totals {
        Totals::read(|i| self.counter(i))
    }
}

impl Totals {
    fn add_to<'a>(&self, counter: impl Fn(usize) -> &'a AtomicU64) {
        for (index, n) in self.fields().into_iter().enumerate() {
            if n > 0 {
                counter(index).fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    fn read<'a>(counter: impl Fn(usize) -> &'a AtomicU64) -> Self {
        let get = |i| counter(i).load(Ordering::Relaxed);
        Self {
            processes: get(0),
            connections: get(1),
            left_alone: get(2),
            gate_closed: get(3),
            bytes: get(4),
            runtime_cpu_ns: get(5),
            readings: get(6),
            failures: get(7),
            under_refused: get(8),
            wakeups: get(9),
            late_wakeups: get(10),
            bypassed_bytes: ByReason::read(|i| get(COUNTS + i)),
            bypassed_connections: ByReason::read(|i| get(COUNTS + ByReason::LEN + i)),
        }
    }

    fn fields(&self) -> [u64; FIELDS] {
        let counts = [
            self.processes,
            self.connections,
            self.left_alone,
            self.gate_closed,
            self.bytes,
            self.runtime_cpu_ns,
            self.readings,
            self.failures,
            self.under_refused,
            self.wakeups,
            self.late_wakeups,
        ];
        let mut fields = [0; FIELDS];
        let by_reason = [self.bypassed_bytes, self.bypassed_connections];
        let words = by_reason.iter().flat_map(ByReason::words);
        let all = counts.into_iter().chain(words);
        fields.iter_mut().zip(all).for_each(|(to, n)| *to = n);
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bypass;
    use crate::segment::tests::Scratch;

    #[test]
    fn two_processes_views_add_up() {
        let scratch = Scratch::new();
        let (ours, theirs) = (scratch.create(), scratch.open());
        let one = Totals {
            processes: 1,
            connections: 2,
            left_alone: 3,
            gate_closed: 4,
            bytes: 5,
            runtime_cpu_ns: 6,
            readings: 7,
            failures: 8,
            under_refused: 9,
            wakeups: 10,
            late_wakeups: 11,
            bypassed_bytes: ByReason::of(Bypass::NoWakeup, 12),
            bypassed_connections: ByReason::of(Bypass::NoWakeup, 13),
        };
        theirs.add(&one);
        ours.add(&Totals {
            connections: 1,
            ..Totals::default()
        });
        assert_eq!(
            ours.totals(),
            Totals {
                connections: 3,
                ..one
            }
        );
    }
}
