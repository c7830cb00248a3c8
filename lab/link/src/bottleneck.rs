// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bottleneck: a queue and its server.
use crate::queue::{Enqueue, Queue, Queued};
use crate::{DropReason, Outcome, Outcomes, Packet, RateSpec};
use alcc_trace::{OPPORTUNITY, Opportunities};
use alcc_units::{Bytes, Rate, Rng, Span, Time};

#[derive(Clone, Debug)]
pub(crate) struct Bottleneck {
    queue: Box<dyn Queue>,
    server: Server,
    /// Time of the next [`serve`](Self::serve); cached, because it is read far more often than it
    /// changes.
    due: Time,
    /// Nothing is carried until this time.
    still_until: Time,
    rng: Rng,
    /// Packets that have just departed; the caller forwards them.
    pub(crate) departed: Vec<Queued>,
    // Kept only to reuse its memory.
    drops: Vec<Packet>,
}

#[derive(Clone, Debug)]
enum Server {
    Unlimited,
    Fixed {
        rate: Rate,
        carrying: Option<(Queued, Instant)>,
        /// The unfinished work on the packet being carried, while the rate is zero.
        stalled: Work,
    },
    Trace {
        opportunities: Opportunities,
        /// A partly carried packet, and its remaining bytes.
        carrying: Option<(Queued, Bytes)>,
    },
}

/// A moment between two nanoseconds: `ns + fraction / rate`. On a busy link such moments are added
/// without error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    ns: u64,
    fraction: u64,
}

/// Bits times nanoseconds per second: the work of a link of 1 bit/s in a nanosecond.
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

    /// The time at which a link of `rate` that begins at `self` has done this work. The rate must
    /// not be zero.
    pub(crate) fn after(self, work: Work, rate: Rate) -> Self {
        let work = work + u128::from(self.fraction);
        let rate = rate.as_bps();
        let (ns, fraction) = match u64::try_from(work) {
            _ if rate == 0 => return Self::at(Time::MAX),
            // The case of nearly all packets: the wide division costs more than the rest of the
            // model per packet.
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

    /// The sum of both moments, as spans from zero. Both are of this rate.
    #[inline]
    pub(crate) fn plus(self, other: Self, rate: Rate) -> Self {
        // Both fractions are less than the rate. Their sum is not computed, so it cannot overflow.
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

    /// The work of a link of `rate` from `now` until `self`.
    fn work_since(self, now: Time, rate: Rate) -> Work {
        let ns = self.ns.saturating_sub(now.as_nanos());
        u128::from(ns) * u128::from(rate.as_bps()) + u128::from(self.fraction)
    }

    /// The first whole nanosecond at or after the moment.
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
            departed: Vec::new(),
            drops: Vec::new(),
        }
    }

    /// The number of packets here, the one being carried included.
    #[inline]
    pub(crate) fn inside(&self) -> usize {
        let carrying = match &self.server {
            Server::Unlimited => false,
            Server::Fixed { carrying, .. } => carrying.is_some(),
            Server::Trace { carrying, .. } => carrying.is_some(),
        };
        self.queue.len() + usize::from(carrying)
    }

    /// True if a packet is here.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.inside() > 0
    }

    /// Sets the rate from `now` on. All events up to `now` must have been served.
    pub(crate) fn set_rate(&mut self, now: Time, new: Rate, out: &mut impl Outcomes) {
        let now = now.max(self.still_until);
        let carried = match &mut self.server {
            Server::Unlimited => None,
            Server::Fixed {
                rate,
                carrying,
                stalled,
            } => carrying.take().map(|(queued, done)| {
                let remaining = match *rate {
                    Rate::ZERO => *stalled,
                    rate => done.work_since(now, rate),
                };
                (queued, remaining)
            }),
            Server::Trace { carrying, .. } => {
                carrying.take().map(|(q, remaining)| (q, work(remaining)))
            }
        };
        let remaining = carried.map_or(0, |c| c.1);
        self.server = Server::Fixed {
            rate: new,
            carrying: carried
                .map(|(queued, remaining)| (queued, Instant::at(now).after(remaining, new))),
            stalled: remaining,
        };
        if carried.is_none() {
            self.begin(Instant::at(now), out);
        }
        self.update_due();
    }

    /// Stops the bottleneck from `now` until `end`. All events up to `now` must have been served. A
    /// packet that is being carried is continued afterwards.
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

    /// Time of the next `serve`; [`Time::MAX`] means never.
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
            // Packets that wait although the link is free wait for the queue to release them.
            Server::Fixed { .. } | Server::Unlimited if !self.queue.is_empty() => {
                self.queue.ready().max(self.still_until)
            }
            _ => Time::MAX,
        };
    }

    /// A packet arrives. All events up to `now` must have been served.
    pub(crate) fn arrive(&mut self, now: Time, packet: Packet, out: &mut impl Outcomes) {
        out.tell(Outcome::Arrived { at: now, packet });
        if let Server::Trace {
            opportunities,
            carrying: None,
        } = &mut self.server
            && self.queue.is_empty()
        {
            // Skips the opportunities that an idle link has not used, including one at this very
            // moment.
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

    /// Does the work that is due at `now`, which is [`next`](Self::next).
    pub(crate) fn serve(&mut self, now: Time, out: &mut impl Outcomes) {
        match &mut self.server {
            Server::Unlimited => self.let_go(now, out),
            Server::Fixed { carrying, .. } => {
                if let Some((queued, done)) = carrying.take() {
                    self.depart(now, queued, out);
                    // From the exact moment, not from the nanosecond after it: back to back means
                    // no gap at all.
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
                    let Some((queued, remaining)) = current
                        .take()
                        .or_else(|| self.dequeue(now, out).map(|q| (q, q.packet.len)))
                    else {
                        break;
                    };
                    if remaining <= room {
                        self.depart(now, queued, out);
                    } else {
                        current = Some((queued, remaining - room));
                    }
                    room -= remaining;
                }
                if let Server::Trace { carrying, .. } = &mut self.server {
                    *carrying = current;
                }
            }
        }
        self.update_due();
    }

    /// A link of fixed rate is free at `start`: begins with the next packet, if there is one.
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

    /// Without a rate, all packets that the queue releases depart at once.
    fn let_go(&mut self, now: Time, out: &mut impl Outcomes) {
        while let Some(queued) = self.dequeue(now, out) {
            self.depart(now, queued, out);
        }
    }

    #[inline]
    fn depart(&mut self, at: Time, queued: Queued, out: &mut impl Outcomes) {
        let Queued { packet, arrived } = queued;
        self.departed.push(queued);
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

    /// Reports the packets that the queue has just discarded.
    #[inline(always)]
    fn tell(&mut self, at: Time, why: DropReason, out: &mut impl Outcomes) {
        if !self.drops.is_empty() {
            self.report_drops(at, why, out);
        }
    }

    #[cold]
    fn report_drops(&mut self, at: Time, why: DropReason, out: &mut impl Outcomes) {
        for packet in self.drops.drain(..) {
            out.tell(Outcome::Dropped { at, packet, why });
        }
    }
}
