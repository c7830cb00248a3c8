// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue and what serves it.
use crate::queue::{Enqueue, Queue, Queued};
use crate::{DropReason, Outcome, Outcomes, Packet, RateSpec};
use alcc_trace::{OPPORTUNITY, Opportunities};
use alcc_units::{Bytes, Rate, Rng, Span, Time};

#[derive(Clone, Debug)]
pub(crate) struct Bottleneck {
    queue: Box<dyn Queue>,
    server: Server,
    /// When [`serve`](Self::serve) has something to do: asked for far more often than it changes.
    due: Time,
    /// Until then nothing is carried.
    still_until: Time,
    rng: Rng,
    /// Those that have just left; whoever calls sends them on.
    pub(crate) left: Vec<Queued>,
    // kept for its memory only
    drops: Vec<Packet>,
}

#[derive(Clone, Debug)]
enum Server {
    Unlimited,
    Fixed {
        rate: Rate,
        carrying: Option<(Queued, Instant)>,
        /// At standstill: what is left of the packet being carried.
        stalled: Work,
    },
    Trace {
        opportunities: Opportunities,
        /// A packet of which a part has been carried, and what is left of it.
        carrying: Option<(Queued, Bytes)>,
    },
}

/// A moment between two nanoseconds: `ns + fraction / rate`. A busy link adds up such moments
/// without error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    ns: u64,
    fraction: u64,
}

/// Bits times nanoseconds per second: what a link of 1 bit/s does in a nanosecond.
pub(crate) type Work = u128;

#[inline]
pub(crate) fn work(len: Bytes) -> Work {
    u128::from(len.get()) * 8 * 1_000_000_000
}

impl Instant {
    pub(crate) const fn at(time: Time) -> Self {
        Self {
            ns: time.as_nanos(),
            fraction: 0,
        }
    }

    /// When so much is done that a link of `rate` begins at `self`: never at standstill.
    pub(crate) fn after(self, work: Work, rate: Rate) -> Self {
        let work = work + u128::from(self.fraction);
        let rate = rate.as_bps();
        let (ns, fraction) = match u64::try_from(work) {
            _ if rate == 0 => return Self::at(Time::MAX),
            // what nearly all packets take: the wide division costs more than the rest of a
            // packet's way
            Ok(work) => (work / rate, work % rate),
            Err(_) => {
                let rate = u128::from(rate);
                let ns = u64::try_from(work / rate).unwrap_or(u64::MAX);
                (ns, (work % rate) as u64)
            }
        };
        Self {
            ns: self.ns.saturating_add(ns),
            fraction,
        }
    }

    /// The moment that is as much later as `other` is after zero. Both are of this rate.
    #[inline]
    pub(crate) fn plus(self, other: Self, rate: Rate) -> Self {
        // Both fractions are less than the rate: their sum is not computed, so it cannot overflow.
        let room = rate.as_bps() - other.fraction;
        let carry = self.fraction >= room;
        Self {
            ns: (self.ns.saturating_add(other.ns)).saturating_add(u64::from(carry)),
            fraction: if carry {
                self.fraction - room
            } else {
                self.fraction + other.fraction
            },
        }
    }

    /// What a link of `rate` does from `now` until `self`.
    fn work_since(self, now: Time, rate: Rate) -> Work {
        let ns = self.ns.saturating_sub(now.as_nanos());
        u128::from(ns) * u128::from(rate.as_bps()) + u128::from(self.fraction)
    }

    /// The first whole nanosecond at which it has come.
    pub(crate) const fn time(self) -> Time {
        Time::from_nanos(self.ns.saturating_add((self.fraction > 0) as u64))
    }
}

impl Bottleneck {
    pub(crate) fn new(rate: &RateSpec, queue: Box<dyn Queue>, rng: Rng) -> Self {
        let server = match rate {
            RateSpec::Unlimited => Server::Unlimited,
            RateSpec::Fixed(rate) => Server::Fixed {
                rate: *rate,
                carrying: None,
                stalled: 0,
            },
            RateSpec::Trace(trace) => Server::Trace {
                opportunities: trace.cursor(),
                carrying: None,
            },
        };
        Self {
            queue,
            server,
            due: Time::MAX,
            still_until: Time::ZERO,
            rng,
            left: Vec::new(),
            drops: Vec::new(),
        }
    }

    /// How many packets are here, the one being carried included.
    #[inline]
    pub(crate) fn inside(&self) -> usize {
        let carrying = match &self.server {
            Server::Unlimited => false,
            Server::Fixed { carrying, .. } => carrying.is_some(),
            Server::Trace { carrying, .. } => carrying.is_some(),
        };
        self.queue.len() + usize::from(carrying)
    }

    /// Whether a packet is here.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.inside() > 0
    }

    /// The rate is another one from `now` on. What is due up to `now` has been served.
    pub(crate) fn set_rate(&mut self, now: Time, new: Rate, out: &mut impl Outcomes) {
        let now = now.max(self.still_until);
        let carried = match &mut self.server {
            Server::Unlimited => None,
            Server::Fixed {
                rate,
                carrying,
                stalled,
            } => carrying.take().map(|(queued, done)| {
                let left = match *rate {
                    Rate::ZERO => *stalled,
                    rate => done.work_since(now, rate),
                };
                (queued, left)
            }),
            Server::Trace { carrying, .. } => carrying.take().map(|(q, left)| (q, work(left))),
        };
        let left = carried.map_or(0, |c| c.1);
        self.server = Server::Fixed {
            rate: new,
            carrying: carried.map(|(queued, left)| (queued, Instant::at(now).after(left, new))),
            stalled: left,
        };
        if carried.is_none() {
            self.begin(Instant::at(now), out);
        }
        self.update_due();
    }

    /// Nothing is carried from `now` until `end`. What is due up to `now` has been served. A packet
    /// that is being carried stops where it is.
    pub(crate) fn stand_still(&mut self, now: Time, end: Time) {
        let from = now.max(self.still_until);
        self.still_until = self.still_until.max(end);
        match &mut self.server {
            Server::Fixed {
                carrying: Some((_, done)),
                ..
            } => done.ns = done.ns.saturating_add(end.since(from).as_nanos()),
            Server::Trace { opportunities, .. } => {
                opportunities.seek(opportunities.count_before(end));
            }
            _ => {}
        }
        self.update_due();
    }

    /// When `serve` has something to do; [`Time::MAX`] means never.
    #[inline]
    pub(crate) const fn next(&self) -> Time {
        self.due
    }

    #[inline]
    fn update_due(&mut self) {
        self.due = match &self.server {
            Server::Fixed {
                carrying: Some((_, done)),
                ..
            } => done.time(),
            Server::Trace {
                opportunities,
                carrying,
            } if carrying.is_some() || !self.queue.is_empty() => opportunities.peek(),
            // What waits although the link is free waits for the queue.
            Server::Fixed { .. } | Server::Unlimited if !self.queue.is_empty() => {
                self.queue.ready().max(self.still_until)
            }
            _ => Time::MAX,
        };
    }

    /// A packet arrives. What is due up to `now` has been served.
    pub(crate) fn arrive(&mut self, now: Time, packet: Packet, out: &mut impl Outcomes) {
        out.tell(Outcome::Arrived { at: now, packet });
        if let Server::Trace {
            opportunities,
            carrying: None,
        } = &mut self.server
            && self.queue.is_empty()
        {
            // The opportunities of an idle link pass unused, in one leap. The one of this very
            // moment is over as well.
            let from = (now + Span::from_nanos(1)).max(self.still_until);
            opportunities.seek(opportunities.count_before(from));
        }
        match self
            .queue
            .enqueue(now, packet, &mut self.rng, &mut self.drops)
        {
            Enqueue::Refused(why) => out.tell(Outcome::Dropped {
                at: now,
                packet,
                why,
            }),
            Enqueue::Taken => self.tell(now, DropReason::Overflow, out),
        }
        match self.server {
            Server::Unlimited => {
                self.let_go(now, out);
                self.update_due();
            }
            Server::Fixed { carrying: None, .. } => {
                self.begin(Instant::at(now), out);
                self.update_due();
            }
            Server::Trace { .. } if self.due == Time::MAX => self.update_due(),
            Server::Fixed { .. } | Server::Trace { .. } => {}
        }
    }

    /// Does what is due at `now`, which is [`next`](Self::next).
    pub(crate) fn serve(&mut self, now: Time, out: &mut impl Outcomes) {
        match &mut self.server {
            Server::Unlimited => self.let_go(now, out),
            Server::Fixed { carrying, .. } => {
                if let Some((queued, done)) = carrying.take() {
                    self.depart(now, queued, out);
                    // from the exact moment, not from the nanosecond after it: back to back means
                    // no gap at all
                    self.begin(done, out);
                } else {
                    self.begin(Instant::at(now), out);
                }
            }
            Server::Trace {
                opportunities,
                carrying,
            } => {
                opportunities.next();
                let mut current = carrying.take();
                let mut room = OPPORTUNITY;
                while room > Bytes::ZERO {
                    let Some((queued, left)) = current
                        .take()
                        .or_else(|| self.dequeue(now, out).map(|q| (q, q.packet.len)))
                    else {
                        break;
                    };
                    if left <= room {
                        self.depart(now, queued, out);
                    } else {
                        current = Some((queued, left - room));
                    }
                    room -= left;
                }
                if let Server::Trace { carrying, .. } = &mut self.server {
                    *carrying = current;
                }
            }
        }
        self.update_due();
    }

    /// A link of fixed rate is free at `start`: begins with the next packet if there is one.
    #[inline]
    fn begin(&mut self, start: Instant, out: &mut impl Outcomes) {
        let Some(queued) = self.dequeue(start.time(), out) else {
            return;
        };
        if let Server::Fixed {
            rate,
            carrying,
            stalled,
        } = &mut self.server
        {
            let start = if start.time() < self.still_until {
                Instant::at(self.still_until)
            } else {
                start
            };
            let work = work(queued.packet.len);
            if *rate == Rate::ZERO {
                *stalled = work;
            }
            *carrying = Some((queued, start.after(work, *rate)));
        }
    }

    /// Without a rate all that may leave does.
    fn let_go(&mut self, now: Time, out: &mut impl Outcomes) {
        while let Some(queued) = self.dequeue(now, out) {
            self.depart(now, queued, out);
        }
    }

    #[inline]
    fn depart(&mut self, at: Time, queued: Queued, out: &mut impl Outcomes) {
        let Queued { packet, arrived } = queued;
        self.left.push(queued);
        out.tell(Outcome::Departed {
            at,
            packet,
            arrived,
        });
    }

    #[inline]
    fn dequeue(&mut self, now: Time, out: &mut impl Outcomes) -> Option<Queued> {
        let queued = self.queue.dequeue(now, &mut self.drops);
        self.tell(now, DropReason::Aqm, out);
        queued
    }

    /// Says which packets the queue has just discarded, if any.
    #[inline(always)]
    fn tell(&mut self, at: Time, why: DropReason, out: &mut impl Outcomes) {
        if !self.drops.is_empty() {
            self.tell_drops(at, why, out);
        }
    }

    #[cold]
    fn tell_drops(&mut self, at: Time, why: DropReason, out: &mut impl Outcomes) {
        for packet in self.drops.drain(..) {
            out.tell(Outcome::Dropped { at, packet, why });
        }
    }
}
