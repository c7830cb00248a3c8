// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources of a trial's readings: the runtime of the server or of the proxy, or the kernel.
use super::left::Left;
use super::seen::Seen;
use super::{PERIOD, period_after};
use alcc_bpf::Counters;
use alcc_observe::trial::Reading;
use alcc_observe::{Action, Command, LeftBell, Pattern, Segment, Share, TraceReader, Traced};
use alcc_sys::process_cpu;
use alcc_units::{Bytes, Span, Time};
use std::sync::Arc;
use std::time::Duration;

/// The source of a trial's readings.
pub(crate) enum Source {
    /// The ring into which runtimes write their readings.
    Ring(Arc<Segment>),
    /// Connections that the kernel controls.
    Kernel(Box<alcc_bpf::Trial>),
}

/// A source, as the thread that reads it uses it.
pub(super) trait Readings {
    /// Waits until it is time for [`Readings::take`], or the thread is unparked.
    fn wait(&mut self);
    /// Passes on the readings since the last call.
    fn take(&mut self, at: Time, each: &mut dyn FnMut(&Seen));
    /// Number of readings that were lost because they came too fast.
    fn lost(&self) -> u64;
    /// Connections that were closed with bytes in flight and not seen to their end.
    fn unseen(&self) -> u64;
    /// Connections that were not followed, because there were too many.
    fn beyond(&self) -> u64;
    /// Switches all clients to plain TCP. `false`: not possible yet, try again.
    fn give_back(&mut self, share: Share) -> bool;
    /// Ends the readings.
    fn end(&mut self);
}

/// The ring holds 65536 readings.
pub(super) struct Ring<'a> {
    segment: &'a Segment,
    trace: TraceReader<'a>,
    bell: LeftBell<'a>,
    left: Left,
    /// Number of readings at the last time.
    came: usize,
}

/// Number of readings from which the ring is read again soon.
const MANY: usize = 4096;
/// Interval at which the ring is read if there are few readings and no closed connection is followed.
const SELDOM: Duration = Duration::from_millis(50);

impl<'a> Ring<'a> {
    pub(super) fn new(segment: &'a Segment) -> std::io::Result<Self> {
        Ok(Self {
            segment,
            trace: segment.trace()?,
            bell: segment.left_bell(),
            left: Left::default(),
            came: 0,
        })
    }

    /// Time until the next reading. `None`: not urgent, unless a closed connection is followed.
    fn period(&self) -> Option<Span> {
        let soon = (self.came >= MANY).then_some(PERIOD);
        self.left.period().or(soon)
    }
}

impl Readings for Ring<'_> {
    fn wait(&mut self) {
        match self.period() {
            Some(period) => std::thread::park_timeout(period.into()),
            None => self.bell.wait(SELDOM),
        }
    }

    fn take(&mut self, at: Time, each: &mut dyn FnMut(&Seen)) {
        self.trace.renew(at);
        let Self {
            trace, left, came, ..
        } = self;
        // New connections here are not closed yet: they are read from the next time on.
        left.take(at, each);
        *came = 0;
        trace.read(|traced| {
            *came += 1;
            match traced {
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
                        has_more: entry.has_more,
                    },
                    is_last: false,
                }),
                Traced::Left(entry) => left.add(entry, each),
            }
        });
    }

    fn lost(&self) -> u64 {
        self.trace.lost()
    }

    fn unseen(&self) -> u64 {
        self.left.unseen()
    }

    fn beyond(&self) -> u64 {
        self.left.beyond()
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

/// Readings from the kernel: as frequent as a runtime's, or less often if they take long.
pub(super) struct Kernel {
    trial: Box<alcc_bpf::Trial>,
    /// Time of the next readings. Ends are taken more often, because their queue is bounded.
    due: Time,
}

impl Kernel {
    pub(super) fn new(trial: Box<alcc_bpf::Trial>) -> Self {
        let due = Time::ZERO;
        Self { trial, due }
    }
}

impl Readings for Kernel {
    fn wait(&mut self) {
        std::thread::park_timeout(PERIOD.into());
    }

    fn take(&mut self, at: Time, each: &mut dyn FnMut(&Seen)) {
        let mut readings = Vec::new();
        if at >= self.due {
            let before = process_cpu();
            // What cannot be read now is read the next time; at the end nothing is missing but that.
            readings = self.trial.readings().unwrap_or_default();
            self.due = at + period_after(process_cpu().saturating_sub(before));
        }
        for counters in readings {
            began(at, &counters, each);
            each(&seen(at, &counters));
        }
        for ended in self.trial.ends() {
            began(at, &ended.counters, each);
            each(&Seen {
                is_last: ended.closed,
                ..seen(at, &ended.counters)
            });
        }
    }

    fn lost(&self) -> u64 {
        self.trial.ends_lost()
    }

    fn unseen(&self) -> u64 {
        0
    }

    fn beyond(&self) -> u64 {
        0
    }

    fn give_back(&mut self, _share: Share) -> bool {
        self.trial.give_back().is_ok()
    }

    fn end(&mut self) {
        // The server continues, and its connections end, so a control that one of them keeps does no harm.
        let _refused = self.trial.give_back();
    }
}

/// Before the first counters of a connection: what they show is all of its first transfer.
fn began(at: Time, counters: &Counters, each: &mut dyn FnMut(&Seen)) {
    if counters.is_first {
        let nothing = Counters {
            acked: 0,
            in_flight: 0,
            rtt_us: 0,
            retransmits: 0,
            ..*counters
        };
        each(&seen(at, &nothing));
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
            has_more: false,
        },
        is_last: false,
    }
}
