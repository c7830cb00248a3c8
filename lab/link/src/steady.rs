// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A direction without changes and random effects: one bottleneck, one delay, drop-tail.
//!
//! The fate of a packet is known at its arrival, because later packets do not affect it. So its
//! times are computed once, without events of a server, and the outcomes are reported at these
//! times.
use crate::bottleneck::{Instant, work};
use crate::queue::Limits;
use crate::{Dir, DropReason, Outcome, Outcomes, Packet, RateSpec};
use alcc_trace::{OPPORTUNITY, Opportunities};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Steady {
    dir: Dir,
    /// The delay is before the bottleneck or after it, depending on `dir`; the other one is zero.
    /// So a packet's times are sums without a branch.
    before: Span,
    after: Span,
    server: Server,
    limits: Limits,
    /// Packets that waited when the last packet came to the queue: time of beginning to carry each,
    /// and its length.
    waiting: VecDeque<(Time, Bytes)>,
    waiting_bytes: Bytes,
    /// The packets inside, in order of arrival.
    inside: VecDeque<Passage>,
    /// Number of the first ones that have passed the first part (the delay or the bottleneck) and
    /// for which that was reported.
    halfway: usize,
    /// Time at which the first of all is delivered or refused.
    first_ends: Time,
    /// True if the first of all, if there is one, is not refused.
    first_taken: bool,
    /// Number of refused packets inside whose drop has not been reported.
    refused: usize,
}

/// Maximum of these. Above it, due outcomes are reported one by one even to a host that is not
/// watching, because in an overload they would use memory behind a long queue.
const MAX_REFUSED: usize = 100;

/// A packet with its future times.
#[derive(Clone, Copy, Debug)]
struct Passage {
    packet: Packet,
    arrives: Time,
    /// Departure from the bottleneck; for a refused packet equal to its arrival.
    departs: Time,
    /// True if the queue takes it.
    taken: bool,
}

/// The server: the time at which it has carried all packets that it has taken.
#[derive(Clone, Debug)]
enum Server {
    Unlimited,
    Fixed {
        rate: Rate,
        free: Instant,
        /// The time for a packet of the last length. Most have one length, and a division costs
        /// more than the rest of the model per packet.
        known: (Bytes, Instant),
    },
    Trace(Opportune),
}

/// A server that follows a trace.
#[derive(Clone, Debug)]
struct Opportune {
    opportunities: Opportunities,
    /// The opportunity that carries the end of the last packet, and its remaining bytes.
    last: Time,
    room: Bytes,
}

impl Server {
    /// Takes a packet that arrives at `at`. Returns the times at which carrying it begins and ends.
    #[inline]
    fn take(&mut self, at: Time, len: Bytes) -> (Time, Time) {
        match self {
            Self::Unlimited => (at, at),
            Self::Fixed { rate, free, known } => {
                let mut begins = free.time();
                if begins <= at {
                    (begins, *free) = (at, Instant::at(at));
                }
                if known.0 != len {
                    *known = (len, Instant::at(Time::ZERO).after(work(len), *rate));
                }
                // From the exact moment: back to back means no gap at all.
                *free = free.plus(known.1, *rate);
                (begins, free.time())
            }
            Self::Trace(carrier) => carrier.take(at, len),
        }
    }
}

impl Opportune {
    #[inline(never)]
    fn take(&mut self, at: Time, len: Bytes) -> (Time, Time) {
        let Self {
            opportunities,
            last,
            room,
        } = self;
        if *last <= at {
            // An idle link does not use its opportunities, including one at this very moment.
            let next = opportunities.count_before(at + Span::from_nanos(1));
            opportunities.seek(next);
            *room = Bytes::ZERO;
        }
        let mut advance = || (opportunities.next().unwrap_or(Time::MAX), OPPORTUNITY);
        if *room == Bytes::ZERO {
            (*last, *room) = advance();
        }
        let (begins, mut remaining) = (*last, len);
        while remaining > *room {
            remaining -= *room;
            (*last, *room) = advance();
        }
        *room -= remaining;
        (begins, *last)
    }
}

impl Steady {
    /// A direction; `None` for a link that never moves, where a waiting packet has no departure
    /// time.
    pub(crate) fn new(rate: &RateSpec, limits: Limits, dir: Dir, delay: Span) -> Option<Self> {
        let server = match rate {
            RateSpec::Unlimited => Server::Unlimited,
            RateSpec::Fixed(Rate::ZERO) => return None,
            RateSpec::Fixed(rate) => Server::Fixed {
                rate: *rate,
                free: Instant::at(Time::ZERO),
                known: (Bytes::ZERO, Instant::at(Time::ZERO)),
            },
            RateSpec::Trace(trace) => Server::Trace(Opportune {
                opportunities: trace.cursor(),
                last: Time::ZERO,
                room: Bytes::ZERO,
            }),
        };
        let (before, after) = match dir {
            Dir::Down => (delay, Span::ZERO),
            Dir::Up => (Span::ZERO, delay),
        };
        Some(Self {
            dir,
            before,
            after,
            server,
            limits,
            waiting: VecDeque::new(),
            waiting_bytes: Bytes::ZERO,
            inside: VecDeque::new(),
            halfway: 0,
            first_ends: Time::MAX,
            first_taken: true,
            refused: 0,
        })
    }

    /// The number of packets inside, without refused ones.
    pub(crate) fn inside(&self) -> usize {
        let told = self.inside.iter().take(self.halfway);
        self.inside.len() - told.filter(|p| !p.taken).count()
    }

    /// The future times of a packet that comes to the queue at `arrives`, later than all before it.
    #[inline]
    fn passage(&mut self, arrives: Time, packet: Packet) -> Passage {
        // The bottleneck comes first: a packet that is begun at this very moment does not wait any
        // more.
        while let Some(&(_, len)) = self
            .waiting
            .front()
            .filter(|(begins, _)| *begins <= arrives)
        {
            self.waiting.pop_front();
            self.waiting_bytes -= len;
        }
        let mut passage = Passage {
            packet,
            arrives,
            departs: arrives,
            taken: (self.limits).fit(self.waiting.len(), self.waiting_bytes, packet.len),
        };
        if passage.taken {
            let (begins, departs) = self.server.take(arrives, packet.len);
            passage.departs = departs;
            if begins > arrives {
                self.waiting.push_back((begins, packet.len));
                self.waiting_bytes += packet.len;
            }
        }
        passage
    }

    /// A packet enters at `now`, after all events up to then.
    #[inline(always)]
    pub(crate) fn push(&mut self, now: Time, packet: Packet, out: &mut impl Outcomes) {
        self.advance(now, out);
        let passage = self.passage(now + self.before, packet);
        if self.dir == Dir::Up && !passage.arrives(out) {
            return;
        }
        if self.inside.is_empty() {
            (self.first_ends, self.first_taken) = (self.ends(&passage), passage.taken);
        }
        self.inside.push_back(passage);
        if !passage.taken {
            self.refuse(now, out);
        }
        self.advance(now, out);
    }

    /// The last packet is refused.
    #[cold]
    fn refuse(&mut self, now: Time, out: &mut impl Outcomes) {
        self.refused += 1;
        if self.refused > MAX_REFUSED {
            self.report_each(now, out);
        }
    }

    /// Time at which it has passed the first part.
    #[inline]
    fn half(&self, passage: &Passage) -> Time {
        match self.dir {
            Dir::Down => passage.arrives,
            Dir::Up => passage.departs,
        }
    }

    /// Time at which it is delivered, or refused. A refused packet is inside only if none comes
    /// after it.
    #[inline]
    fn ends(&self, passage: &Passage) -> Time {
        passage.departs + self.after
    }

    fn next_halfway(&self) -> Time {
        let next = self.inside.get(self.halfway);
        next.map_or(Time::MAX, |p| self.half(p))
    }

    /// Time of the next outcome to report.
    pub(crate) fn next(&self) -> Time {
        self.next_halfway().min(self.first_ends)
    }

    /// Time of the next delivery.
    #[inline]
    pub(crate) fn next_delivery(&self) -> Time {
        if self.first_taken {
            return self.first_ends;
        }
        let next = self.inside.iter().find(|p| p.taken);
        next.map_or(Time::MAX, |p| self.ends(p))
    }

    /// Reports the outcomes up to `now`. It is called more often than there are any.
    #[inline(always)]
    pub(crate) fn advance(&mut self, now: Time, out: &mut impl Outcomes) {
        if out.is_watching() {
            self.report_each(now, out);
            return;
        }
        while self.first_ends <= now && self.first_ends < Time::MAX {
            self.leave(out);
        }
    }

    /// Reports them one by one in order of time. The bottleneck comes first.
    #[inline(never)]
    fn report_each(&mut self, now: Time, out: &mut impl Outcomes) {
        loop {
            let (halfway, ends) = (self.next_halfway(), self.first_ends);
            let at = halfway.min(ends);
            if at > now || at == Time::MAX {
                return;
            }
            let leaves = match self.dir {
                Dir::Down => self.halfway > 0 && ends == at,
                Dir::Up => halfway > at,
            };
            if leaves {
                self.leave(out);
            } else {
                self.come_halfway(out);
            }
        }
    }

    /// The first of all is delivered, or refused. Its earlier outcomes are reported with it if they
    /// were not.
    fn leave(&mut self, out: &mut impl Outcomes) {
        let Some(passage) = self.inside.pop_front() else {
            return;
        };
        if self.halfway > 0 {
            self.leave_from_halfway(&passage, out);
        } else if self.dir == Dir::Up || passage.arrives(out) {
            let Passage {
                packet,
                arrives,
                departs,
                ..
            } = passage;
            out.passed(self.first_ends, packet, arrives, departs);
        } else {
            self.refused -= 1;
        }
        let first = self.inside.front();
        (self.first_ends, self.first_taken) =
            first.map_or((Time::MAX, true), |p| (self.ends(p), p.taken));
    }

    /// The same for a packet whose first part was reported.
    #[cold]
    fn leave_from_halfway(&mut self, passage: &Passage, out: &mut impl Outcomes) {
        self.halfway -= 1;
        if passage.taken {
            if self.dir == Dir::Down {
                passage.departs(out);
            }
            passage.delivered(self.first_ends, out);
        }
        // The drops of these were reported.
        while self.halfway > 0 && self.inside.front().is_some_and(|p| !p.taken) {
            self.inside.pop_front();
            self.halfway -= 1;
        }
    }

    /// The first packet that has not passed the first part does. A refused packet goes no further.
    fn come_halfway(&mut self, out: &mut impl Outcomes) {
        match self.inside.get(self.halfway) {
            Some(passage) if passage.taken || self.halfway > 0 => {
                match self.dir {
                    Dir::Down => drop(passage.arrives(out)),
                    Dir::Up => passage.departs(out),
                }
                self.halfway += 1;
                self.refused -= usize::from(!passage.taken);
            }
            _ => self.leave(out),
        }
    }
}

impl Passage {
    /// It comes to the queue; true if that takes it.
    #[inline]
    fn arrives(&self, out: &mut impl Outcomes) -> bool {
        let (at, packet) = (self.arrives, self.packet);
        out.tell(Outcome::Arrived { at, packet });
        if !self.taken {
            self.refused(out);
        }
        self.taken
    }

    #[cold]
    fn refused(&self, out: &mut impl Outcomes) {
        out.tell(Outcome::Dropped {
            at: self.arrives,
            packet: self.packet,
            why: DropReason::Overflow,
        });
    }

    #[inline]
    fn departs(&self, out: &mut impl Outcomes) {
        out.tell(Outcome::Departed {
            at: self.departs,
            packet: self.packet,
            arrived: self.arrives,
        });
    }

    #[inline]
    fn delivered(&self, at: Time, out: &mut impl Outcomes) {
        out.tell(Outcome::Delivered {
            at,
            packet: self.packet,
            queue_delay: self.departs.since(self.arrives),
            arrived: self.arrives,
        });
    }
}
