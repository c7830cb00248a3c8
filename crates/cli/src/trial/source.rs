// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a trial's readings come from: the runtime of the server or of the proxy, or the kernel.
use super::left::Left;
use alcc_bpf::Counters;
use alcc_observe::{Action, Command, Pattern, Segment, Share, TraceReader, Traced};
use alcc_results::trial::Reading;
use alcc_units::{Bytes, Span, Time};
use std::sync::Arc;
use std::time::Duration;

/// What a trial follows.
pub(crate) enum Source {
    /// The ring into which runtimes write their readings.
    Ring(Arc<Segment>),
    /// Connections that the kernel controls.
    Kernel(Box<alcc_bpf::Trial>),
}

/// A reading, of which connection and client.
pub(super) struct Seen {
    pub(super) connection: (u32, u64),
    pub(super) client: u64,
    pub(super) reading: Reading,
}

/// The processes stop writing readings so long after this one has ended.
const LEASE: Span = Span::from_secs(2);

/// A source as the following thread has it.
pub(super) trait Readings {
    /// Time between two calls of [`Readings::take`].
    fn period(&self) -> Duration;
    /// What has come since the last time.
    fn take(&mut self, at: Time, each: &mut dyn FnMut(&Seen));
    /// Readings that came too fast.
    fn lost(&self) -> u64;
    /// Connections that were closed with bytes in flight and not seen to their end.
    fn unseen(&self) -> u64;
    /// Plain TCP for all clients. `false`: not now, ask again.
    fn give_back(&mut self, share: Share) -> bool;
    /// No more readings.
    fn end(&mut self);
}

/// The ring holds 65536 readings.
pub(super) struct Ring<'a> {
    pub(super) segment: &'a Segment,
    pub(super) trace: TraceReader<'a>,
    pub(super) left: Left,
}

impl Readings for Ring<'_> {
    fn period(&self) -> Duration {
        // Those that were left are read as often as the runtime read them.
        Duration::from_millis(5)
    }

    fn take(&mut self, at: Time, each: &mut dyn FnMut(&Seen)) {
        self.trace.lease(at + LEASE);
        let left = &mut self.left;
        self.trace.read(|traced| match traced {
            Traced::Reading(entry) => each(&Seen {
                connection: (entry.pid, entry.id),
                client: entry.client,
                reading: Reading {
                    at: entry.at,
                    acked: entry.acked,
                    in_flight: entry.in_flight,
                    rtt: entry.smoothed,
                    retransmits: entry.retransmits,
                    mss: entry.mss,
                },
            }),
            Traced::Left(entry) => left.add(entry, each),
        });
        left.take(at, each);
    }

    fn lost(&self) -> u64 {
        self.trace.lost()
    }

    fn unseen(&self) -> u64 {
        self.left.unseen()
    }

    fn give_back(&mut self, share: Share) -> bool {
        let off = Command {
            pattern: Some(Pattern::Share(share)),
            action: Action::Off,
        };
        // The lock of the orders is held for microseconds: at the next look it will be free.
        self.segment.command(off).is_ok()
    }

    fn end(&mut self) {
        self.trace.end();
    }
}

/// The kernel is asked as often as a runtime reads its connections.
pub(super) struct Kernel(pub(super) Box<alcc_bpf::Trial>);

impl Readings for Kernel {
    fn period(&self) -> Duration {
        Duration::from_millis(5)
    }

    fn take(&mut self, at: Time, each: &mut dyn FnMut(&Seen)) {
        // What cannot be read now is read in 5 ms; at the end nothing is missing but that.
        for counters in self.0.readings().unwrap_or_default() {
            each(&seen(at, &counters));
        }
    }

    fn lost(&self) -> u64 {
        0
    }

    fn unseen(&self) -> u64 {
        0
    }

    fn give_back(&mut self, _share: Share) -> bool {
        self.0.give_back().is_ok()
    }

    fn end(&mut self) {
        // The server goes on, and its connections end: what one of them keeps does no harm.
        let _refused = self.0.give_back();
    }
}

fn seen(at: Time, counters: &Counters) -> Seen {
    Seen {
        connection: (0, counters.cookie),
        client: counters.client,
        reading: Reading {
            at,
            acked: counters.acked,
            in_flight: Bytes::new(counters.in_flight.into()),
            rtt: Span::from_micros(counters.rtt_us.into()),
            retransmits: counters.retransmits.into(),
            mss: Bytes::new(counters.mss.into()),
        },
    }
}
