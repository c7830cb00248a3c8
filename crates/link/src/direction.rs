// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::bottleneck::Bottleneck;
use crate::{DropReason, Outcome, Packet, Queue, QueueSpec};
use alcc_trace::{OPPORTUNITY, Trace};
use alcc_units::{Bytes, Rate, Rng, Span, Time};
use std::collections::VecDeque;

/// How fast a bottleneck is.
#[derive(Clone, Debug, Default)]
pub enum RateSpec {
    /// Nothing ever waits.
    #[default]
    Unlimited,
    /// A constant rate of IP bytes; packets are serialised one after the other. [`Rate::ZERO`] carries nothing.
    Fixed(Rate),
    /// The delivery opportunities of a trace, which begins at [`Time::ZERO`] and repeats. Each carries up to 1500 bytes:
    /// several small packets, or a part of a large one that goes on in the next. What an opportunity does not use is lost.
    /// This is Mahimahi's link, without the 4 bytes that its tunnel adds to every packet (and to an opportunity).
    Trace(Trace),
}

/// One direction of a path.
#[derive(Clone, Debug, Default)]
pub struct DirectionSpec {
    /// The rate of its bottleneck.
    pub rate: RateSpec,
    /// The queue before the bottleneck.
    pub queue: QueueSpec,
    /// One-way propagation delay.
    pub delay: Span,
    /// Probability of random loss, 0 to 1, for every packet by itself.
    pub loss: f64,
}

/// The order in which a packet meets the parts of a direction: as with a bottleneck shell nested in a delay shell around
/// the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Towards the client: delay, loss, bottleneck.
    Down,
    /// From the client: bottleneck, loss, delay.
    Up,
}

/// One direction of a path at work.
///
/// The host pushes packets, asks when it is worth calling again, and advances. Outcomes carry the times of the model, so
/// that a host which calls late loses punctuality but not correctness. Time never goes back: an earlier `now` counts as the
/// latest one. What would happen at [`Time::MAX`] never happens.
#[derive(Clone, Debug)]
pub struct Direction {
    spec_rate: RateSpec,
    order: Order,
    delay: Span,
    loss: f64,
    clock: Time,
    bottleneck: Bottleneck,
    /// Packets on their way, with the time at which they are through; before or after the bottleneck as `order` says.
    travelling: VecDeque<(Time, Travelling)>,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Travelling {
    packet: Packet,
    // at and from the bottleneck; the former means nothing before it
    arrived: Time,
    departed: Time,
}

impl Direction {
    /// An empty direction at [`Time::ZERO`]. The same `seed` and calls give the same outcomes; the two directions of a path
    /// should have different seeds.
    pub fn new(spec: &DirectionSpec, order: Order, seed: u64) -> Self {
        let mut seeds = Rng::new(seed);
        let rng = Rng::new(seeds.next_u64());
        let queue_rng = Rng::new(seeds.next_u64());
        Self {
            spec_rate: spec.rate.clone(),
            order,
            delay: spec.delay,
            loss: spec.loss,
            clock: Time::ZERO,
            bottleneck: Bottleneck::new(&spec.rate, spec.queue.queue(), queue_rng),
            travelling: VecDeque::new(),
            rng,
        }
    }

    /// A packet enters at `now`, after everything that is due up to `now`.
    pub fn push(&mut self, now: Time, packet: Packet, out: &mut Vec<Outcome>) {
        self.advance(now, out);
        let now = self.clock;
        match self.order {
            Order::Down => self.travel(now, packet, now, now),
            Order::Up => {
                let from = out.len();
                self.bottleneck.arrive(now, packet, out);
                self.route(from, out);
            }
        }
        self.advance(now, out);
    }

    /// Everything that is due up to `now`, in the order of its times.
    pub fn advance(&mut self, now: Time, out: &mut Vec<Outcome>) {
        self.clock = self.clock.max(now);
        while let Some(at) = self.next_event()
            && at <= self.clock
        {
            // The bottleneck goes first: a packet that arrives at the moment of an opportunity has missed it.
            let from = out.len();
            if self.bottleneck.next() == at {
                self.bottleneck.serve(at, out);
                self.route(from, out);
            } else if let Some((_, t)) = self.travelling.pop_front() {
                if self.order == Order::Up {
                    out.push(t.delivered(at));
                } else if self.lost() {
                    out.push(dropped(at, t.packet));
                } else {
                    self.bottleneck.arrive(at, t.packet, out);
                    self.route(from, out);
                }
            }
        }
    }

    /// The earliest time at which [`advance`](Self::advance) would do something to a packet; `None` if no packet is inside
    /// or none will ever get on. An idle link needs no wake-up, whatever its trace does.
    pub fn next_event(&self) -> Option<Time> {
        let travelling = self.travelling.front().map_or(Time::MAX, |(due, _)| *due);
        Some(self.bottleneck.next().min(travelling)).filter(|at| *at < Time::MAX)
    }

    /// What the bottleneck offers to carry after `from` and up to and including `to`: what deliveries in that window are a
    /// share of. [`Bytes::MAX`] without a bottleneck.
    pub fn opportunity_bytes(&self, from: Time, to: Time) -> Bytes {
        match &self.spec_rate {
            RateSpec::Unlimited => Bytes::MAX,
            RateSpec::Fixed(rate) => rate.bytes_in(to.since(from)),
            RateSpec::Trace(trace) => {
                let cursor = trace.cursor();
                let up_to = |time: Time| cursor.count_before(time + Span::from_nanos(1));
                OPPORTUNITY * up_to(to).saturating_sub(up_to(from))
            }
        }
    }

    /// How many packets are inside: neither delivered nor dropped yet.
    pub fn inside(&self) -> usize {
        self.bottleneck.inside() + self.travelling.len()
    }

    /// The queue before the bottleneck, to look at.
    pub fn queue(&self) -> &dyn Queue {
        self.bottleneck.queue()
    }

    fn travel(&mut self, now: Time, packet: Packet, arrived: Time, departed: Time) {
        let travelling = Travelling {
            packet,
            arrived,
            departed,
        };
        self.travelling.push_back((now + self.delay, travelling));
    }

    fn lost(&mut self) -> bool {
        self.loss > 0.0 && self.rng.chance(self.loss)
    }

    /// Sends on what has left the bottleneck since `out` was `from` long.
    fn route(&mut self, from: usize, out: &mut Vec<Outcome>) {
        for i in from..out.len() {
            let Outcome::Departed {
                at,
                packet,
                arrived,
            } = out[i]
            else {
                continue;
            };
            if self.order == Order::Down {
                out.push(Outcome::Delivered {
                    at,
                    packet,
                    queue_delay: at.since(arrived),
                    arrived,
                });
            } else if self.lost() {
                out.push(dropped(at, packet));
            } else {
                self.travel(at, packet, arrived, at);
            }
        }
    }
}

impl Travelling {
    fn delivered(self, at: Time) -> Outcome {
        Outcome::Delivered {
            at,
            packet: self.packet,
            queue_delay: self.departed.since(self.arrived),
            arrived: self.arrived,
        }
    }
}

const fn dropped(at: Time, packet: Packet) -> Outcome {
    Outcome::Dropped {
        at,
        packet,
        why: DropReason::Loss,
    }
}
