// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A direction in which nothing changes and nothing is drawn: one bottleneck, one delay, drop-tail.
//!
//! What becomes of a packet is known when it comes: nobody behind it has a say. So its times are
//! computed once, and there is no server to be woken. Others are told of them as they come.
use crate::bottleneck::{Instant, work};
use crate::queue::Limits;
use crate::{Dir, DropReason, Outcome, Outcomes, Packet, RateSpec};
use alcc_trace::{OPPORTUNITY, Opportunities};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Steady {
    dir: Dir,
    /// The delay is before the bottleneck or after it, as `dir` says; the other one is zero. So a
    /// packet's times are sums, without a question.
    before: Span,
    after: Span,
    server: Server,
    limits: Limits,
    /// Who waited when the last packet came to the queue: when each is begun, and its length.
    waiting: VecDeque<(Time, Bytes)>,
    waiting_bytes: Bytes,
    /// In the order of their coming.
    inside: VecDeque<Passage>,
    /// So many of the first ones have the first part of their way behind them, and the host was
    /// told. That part is the delay or the bottleneck.
    halfway: usize,
    /// When the first of all is through, or refused.
    first_ends: Time,
    /// The first of all, if there is one, is not refused.
    first_taken: bool,
    /// Those inside who are refused, and of whom that has not been told.
    refused: usize,
}

/// With more of them than this, another one lets a host that does not watch be told what is due,
/// each by itself. In a storm they would take memory behind a long queue.
const MAX_REFUSED: usize = 100;

/// A packet with what becomes of it.
#[derive(Clone, Copy, Debug)]
struct Passage {
    packet: Packet,
    arrives: Time,
    /// Who is refused departs as it arrives.
    departs: Time,
    /// The queue takes it.
    taken: bool,
}

/// When it is done with all that it has taken.
#[derive(Clone, Debug)]
enum Server {
    Unlimited,
    Fixed {
        rate: Rate,
        free: Instant,
        /// How long one of this length takes. Most are of one length, and a division costs more
        /// than the rest of a packet's way.
        known: (Bytes, Instant),
    },
    Trace(Opportune),
}

/// A server that follows a trace.
#[derive(Clone, Debug)]
struct Opportune {
    opportunities: Opportunities,
    /// The opportunity that carries the last packet's end, and what it still has room for.
    last: Time,
    room: Bytes,
}

impl Server {
    /// Takes a packet that comes at `at`: when it is begun and when it is done.
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
            // Those of an idle link pass unused, the one of this very moment included.
            let next = opportunities.count_before(at + Span::from_nanos(1));
            opportunities.seek(next);
            *room = Bytes::ZERO;
        }
        let mut advance = || (opportunities.next().unwrap_or(Time::MAX), OPPORTUNITY);
        if *room == Bytes::ZERO {
            (*last, *room) = advance();
        }
        let (begins, mut left) = (*last, len);
        while left > *room {
            left -= *room;
            (*last, *room) = advance();
        }
        *room -= left;
        (begins, *last)
    }
}

impl Steady {
    /// `None` for a link that never moves: what waits there has no time.
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

    /// How many packets are inside; those that were refused are not.
    pub(crate) fn inside(&self) -> usize {
        let told = self.inside.iter().take(self.halfway);
        self.inside.len() - told.filter(|p| !p.taken).count()
    }

    /// What becomes of a packet that comes to the queue at `arrives`, later than all before it.
    #[inline]
    fn passage(&mut self, arrives: Time, packet: Packet) -> Passage {
        // The bottleneck goes first: who is begun at this very moment waits no more.
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

    /// A packet enters at `now`, after what is due up to then.
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

    /// The packet that came last is refused.
    #[cold]
    fn refuse(&mut self, now: Time, out: &mut impl Outcomes) {
        self.refused += 1;
        if self.refused > MAX_REFUSED {
            self.tell_each(now, out);
        }
    }

    /// When it comes halfway.
    #[inline]
    fn half(&self, passage: &Passage) -> Time {
        match self.dir {
            Dir::Down => passage.arrives,
            Dir::Up => passage.departs,
        }
    }

    /// When it is through, or refused. Who is refused is inside only if nothing comes after.
    #[inline]
    fn ends(&self, passage: &Passage) -> Time {
        passage.departs + self.after
    }

    fn next_halfway(&self) -> Time {
        let next = self.inside.get(self.halfway);
        next.map_or(Time::MAX, |p| self.half(p))
    }

    /// When there is something to tell.
    pub(crate) fn next(&self) -> Time {
        self.next_halfway().min(self.first_ends)
    }

    /// When the next packet is through.
    #[inline]
    pub(crate) fn next_delivery(&self) -> Time {
        if self.first_taken {
            return self.first_ends;
        }
        let next = self.inside.iter().find(|p| p.taken);
        next.map_or(Time::MAX, |p| self.ends(p))
    }

    /// Tells what is due up to `now`: asked more often than there is something.
    #[inline(always)]
    pub(crate) fn advance(&mut self, now: Time, out: &mut impl Outcomes) {
        if out.is_watching() {
            self.tell_each(now, out);
            return;
        }
        while self.first_ends <= now && self.first_ends < Time::MAX {
            self.leave(out);
        }
    }

    /// In the order of its times. The bottleneck goes first.
    #[inline(never)]
    fn tell_each(&mut self, now: Time, out: &mut impl Outcomes) {
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

    /// The first of all is through, or refused. What has not been told of its way is told with it.
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

    /// The same for one of whom the first part of its way has been told.
    #[cold]
    fn leave_from_halfway(&mut self, passage: &Passage, out: &mut impl Outcomes) {
        self.halfway -= 1;
        if passage.taken {
            if self.dir == Dir::Down {
                passage.departs(out);
            }
            passage.delivered(self.first_ends, out);
        }
        // Of these it has been told that they were refused.
        while self.halfway > 0 && self.inside.front().is_some_and(|p| !p.taken) {
            self.inside.pop_front();
            self.halfway -= 1;
        }
    }

    /// The first of those who have not come halfway does. Who is refused goes no further.
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
