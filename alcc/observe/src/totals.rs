// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of a whole run.
use crate::bypass::ByReason;
use crate::event::Event;
use crate::map::{COUNTERS, MISSED};
use crate::segment::Segment;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the counters: the doc comment, the name, and the index among the counters.
macro_rules! totals {
    ($($(#[$doc:meta])+ $name:ident = $word:literal,)+) => {
        /// A snapshot of the counters.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Totals {
            $($(#[$doc])+ pub $name: u64,)+
            /// Bytes of controlled connections that bypassed the algorithm; not included in
            /// `bytes`.
            pub bypassed_bytes: ByReason,
            /// Connections with such bytes.
            pub bypassed_connections: ByReason,
        }

        /// Indices of the counters.
        #[allow(non_upper_case_globals, reason = "named as the fields are")]
        mod word {
            $(pub(super) const $name: usize = $word;)+
        }

        impl AddAssign for Totals {
            fn add_assign(&mut self, more: Self) {
                $(self.$name += more.$name;)+
                self.bypassed_bytes += more.bypassed_bytes;
                self.bypassed_connections += more.bypassed_connections;
            }
        }

        impl Totals {
            fn read(words: &[AtomicU64]) -> Self {
                let get = |word: usize| words[word].load(Ordering::Relaxed);
                Self {
                    $($name: get($word),)+
                    bypassed_bytes: ByReason::read(|i| get(BYPASSED_BYTES + i)),
                    bypassed_connections: ByReason::read(|i| get(BYPASSED_CONNECTIONS + i)),
                }
            }
        }
    };
}

totals! {
    /// Processes that loaded the library.
    processes = 0,
    /// Connections controlled.
    connections = 1,
    /// TCP connections excluded by the selection.
    left_alone = 2,
    /// Number of writes that were refused or cut short.
    gate_closed = 3,
    /// Bytes that passed under control.
    bytes = 4,
    /// CPU time of the runtime's threads, ns.
    runtime_cpu_ns = 5,
    /// Readings of the kernel's counters.
    readings = 6,
    /// Runtimes that failed; their connections continued as plain TCP.
    failures = 7,
    /// Connections for which the kernel refused the requested congestion control.
    under_refused = 8,
    /// Wake-ups of the runtime's threads at a planned time.
    wakeups = 9,
    /// Wake-ups more than 3 ms late, because the thread waited for a processor.
    late_wakeups = 10,
}

const BYPASSED_BYTES: usize = 11;
const BYPASSED_CONNECTIONS: usize = BYPASSED_BYTES + ByReason::LEN;
const WORDS: usize = BYPASSED_CONNECTIONS + ByReason::LEN;
const _: () = assert!(COUNTERS + WORDS <= MISSED);

/// Counters of one runtime, not visible to other processes.
pub struct AtomicTotals([AtomicU64; WORDS]);

impl Default for AtomicTotals {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; WORDS])
    }
}

impl AtomicTotals {
    /// Counts an event.
    pub fn count(&self, event: &Event<'_>) {
        count(&self.0, event);
    }

    /// The current counters.
    pub fn totals(&self) -> Totals {
        Totals::read(&self.0)
    }
}

impl Segment {
    fn counters(&self) -> &[AtomicU64] {
        self.map().words(COUNTERS, WORDS)
    }

    /// Counts an event among the counters of the run.
    pub(crate) fn count_totals(&self, event: &Event<'_>) {
        count(self.counters(), event);
    }

    /// The current counters.
    pub fn totals(&self) -> Totals {
        Totals::read(self.counters())
    }
}

fn count(words: &[AtomicU64], event: &Event<'_>) {
    let add = |word: usize, n: u64| {
        if n > 0 {
            words[word].fetch_add(n, Ordering::Relaxed);
        }
    };
    match *event {
        Event::ProcessStarted => add(word::processes, 1),
        Event::RuntimeFailed { .. } => add(word::failures, 1),
        Event::Worked {
            cpu,
            wakeups,
            late_wakeups,
        } => {
            add(word::runtime_cpu_ns, cpu.as_nanos());
            add(word::wakeups, wakeups);
            add(word::late_wakeups, late_wakeups);
        }
        Event::Missed {
            why, connections, ..
        } if why.is_chosen() => {
            add(word::left_alone, connections);
        }
        Event::Opened(_) => add(word::connections, 1),
        Event::UnderRefused => add(word::under_refused, 1),
        Event::Passed(more) => {
            add(word::bytes, more.bytes.get());
            add(word::gate_closed, more.gate_closed);
            for (first, by_reason) in [
                (BYPASSED_BYTES, &more.bypassed),
                (BYPASSED_CONNECTIONS, &more.newly_bypassed),
            ] {
                (by_reason.words().into_iter().enumerate()).for_each(|(i, n)| add(first + i, n));
            }
        }
        Event::Reading(_) => add(word::readings, 1),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;
    use crate::{Bypass, Missed, Passed};
    use alcc_flow::TcpProgress;
    use alcc_units::{Bytes, Span};

    #[test]
    fn the_events_of_two_processes_add_up() {
        let scratch = Scratch::new();
        let (ours, theirs) = (scratch.create(), scratch.open());
        let passed = Passed {
            bytes: Bytes::new(5),
            gate_closed: 4,
            bypassed: ByReason::of(Bypass::NoWakeup, 12),
            newly_bypassed: ByReason::of(Bypass::NoWakeup, 1),
        };
        let worked = Event::Worked {
            cpu: Span::from_nanos(6),
            wakeups: 10,
            late_wakeups: 11,
        };
        let tcp = TcpProgress::default();
        let missed = |why| Event::Missed {
            why,
            connections: 3,
            bytes: Bytes::ZERO,
        };
        for event in [
            Event::ProcessStarted,
            Event::RuntimeFailed { pid: 7 },
            worked,
            missed(Missed::Outbound),
            missed(Missed::Static),
            Event::Opened(&tcp),
            Event::UnderRefused,
            Event::Passed(&passed),
            Event::Closed,
        ] {
            theirs.count(&event);
        }
        ours.count(&Event::Opened(&tcp));
        let expected = Totals {
            processes: 1,
            connections: 2,
            left_alone: 3,
            gate_closed: 4,
            bytes: 5,
            runtime_cpu_ns: 6,
            readings: 0,
            failures: 1,
            under_refused: 1,
            wakeups: 10,
            late_wakeups: 11,
            bypassed_bytes: ByReason::of(Bypass::NoWakeup, 12),
            bypassed_connections: ByReason::of(Bypass::NoWakeup, 1),
        };
        assert_eq!(ours.totals(), expected);
        assert_eq!(ours.failed(), [7]);
    }

    /// Programs of other versions read and write these words.
    #[test]
    fn each_counter_has_its_word() {
        let words: [AtomicU64; WORDS] = std::array::from_fn(|i| AtomicU64::new(i as u64));
        let totals = Totals::read(&words);
        assert_eq!(
            (totals.processes, totals.bytes, totals.late_wakeups),
            (0, 4, 10)
        );
        assert_eq!(totals.bypassed_bytes.words(), [11, 12, 13]);
        assert_eq!(totals.bypassed_connections.words(), [14, 15, 16]);
    }
}
