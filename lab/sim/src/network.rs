// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets on their way: links, delay lines, and the routes over them.
//!
//! Each direction of a link and each delay line has one entry among the due times, whatever passes
//! through it. They are few, so they are looked through. Packets lie by value in a slab.
use crate::Scenario;
use crate::meter::Meter;
use crate::probe::{LinkDir, Probe};
use crate::traffic::Traffic;
use alcc_cc::Kind;
use alcc_flow::{Ack, Transmit};
use alcc_link::{Dir, Direction, Ecn, Packet};
use alcc_units::{Bytes, Rng, Span, Time};
use std::collections::VecDeque;

/// Content of a packet. The link models know only its number. Each takes two cache lines, and one
/// is read for most acknowledgements.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) enum Content {
    Data(Transmit),
    Ack(Ack),
    /// Report of an algorithm's receiver module, by number.
    Report(u64),
}

impl Content {
    /// Makes it an empty acknowledgement, to be written where it stays.
    #[inline(always)]
    pub(crate) fn ack(&mut self) -> &mut Ack {
        *self = Self::Ack(Ack::default());
        match self {
            Self::Ack(ack) => ack,
            _ => unreachable!("it has just been made one"),
        }
    }
}

/// A packet in flight: the fields that every step needs. Its content is elsewhere, so that all
/// packets are close together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) sent: Time,
    /// Time in queues so far.
    pub(crate) queued: Span,
    pub(crate) flow: u32,
    pub(crate) len: u32,
    /// Number of the leg of its route.
    pub(crate) leg: u32,
    /// True if it carries data, not an acknowledgement or report.
    pub(crate) data: bool,
    /// True if it is through the last bottleneck of its route.
    pub(crate) departed: bool,
    pub(crate) ecn: Ecn,
}

impl InFlight {
    /// A packet without data that flow number `flow` sends now; its length is to be set.
    #[inline]
    pub(crate) fn new(now: Time, flow: usize, leg: u32) -> Self {
        Self {
            sent: now,
            queued: Span::ZERO,
            flow: flow as u32,
            len: 0,
            leg,
            data: false,
            departed: false,
            ecn: Ecn::NotEct,
        }
    }
}

/// A part of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hop {
    /// A direction of a link.
    Link(usize),
    /// A delay line.
    Delay(usize),
    /// Inside the flow with this number.
    Tunnel(usize),
}

/// A hop in its place on a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Leg {
    hop: Hop,
    /// The last direction of a link, or the flow that carries the packet.
    is_last_link: bool,
    /// The host comes next.
    is_end: bool,
}

/// A delay between hosts and links, shared by all flows that have the same.
#[derive(Debug)]
struct DelayLine {
    delay: Span,
    in_propagation: VecDeque<(Time, u32)>,
}

/// Counters of one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// Packets that came to it.
    pub arrived: u64,
    /// Packets that its bottleneck carried.
    pub departed: u64,
    /// Their IP bytes.
    pub bytes: Bytes,
    /// Packets that it lost.
    pub dropped: u64,
}

/// State of a packet after a hop.
pub(crate) enum Next {
    /// It has another hop.
    Hop,
    /// It is at its host.
    Host,
}

/// The packets on their way, and the routes that they take.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    /// Legs of all routes, one after the other.
    legs: Vec<Leg>,
    packets: Vec<InFlight>,
    /// Content of each packet.
    contents: Vec<Content>,
    free: Vec<u32>,
    /// Packets that have left a hop at this moment.
    moved: VecDeque<u32>,
}

/// Takes the packets that a host sends, before they leave it.
pub(crate) struct Outbox<'a> {
    pub(crate) packets: &'a mut Packets,
    /// Fields that all of them share.
    pub(crate) common: InFlight,
    /// Length of their headers.
    pub(crate) header: Bytes,
    pub(crate) meter: &'a mut Meter,
    /// Their numbers.
    pub(crate) ids: &'a mut Vec<u32>,
}

impl Outbox<'_> {
    #[inline(always)]
    pub(crate) fn push(&mut self, data: Transmit) {
        self.meter.sent(data.kind == Kind::Retransmit);
        let id = self.packets.insert(InFlight {
            len: (data.len + self.header.get()) as u32,
            ..self.common
        });
        *self.packets.content_mut(id) = Content::Data(data);
        self.ids.push(id);
    }
}

#[derive(Debug)]
pub(crate) struct Network {
    /// Down and up of each link.
    pub(crate) links: Vec<Direction>,
    lines: Vec<DelayLine>,
    /// Next event of each link, then of each delay line.
    due: Vec<Time>,
}

impl Packets {
    /// The number of the first leg; equal routes are one.
    fn route(&mut self, route: &[Leg]) -> u32 {
        let known = self
            .legs
            .windows(route.len())
            .position(|legs| legs == route);
        // There are at most two for each of 10,000 flows.
        known.unwrap_or_else(|| {
            self.legs.extend_from_slice(route);
            self.legs.len() - route.len()
        }) as u32
    }

    /// Adds a packet that a host sends, before its first hop. Its content is to be set.
    #[inline]
    pub(crate) fn insert(&mut self, packet: InFlight) -> u32 {
        if let Some(id) = self.free.pop() {
            self.packets[id as usize] = packet;
            return id;
        }
        self.packets.push(packet);
        self.contents.push(Content::Report(0));
        self.packets.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn content_mut(&mut self, id: u32) -> &mut Content {
        &mut self.contents[id as usize]
    }

    /// Frees a packet that is lost or at its host. It can be read until the next insertion.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &InFlight {
        &self.packets[id as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut InFlight {
        &mut self.packets[id as usize]
    }

    #[inline]
    pub(crate) fn content(&self, id: u32) -> &Content {
        &self.contents[id as usize]
    }

    /// A packet has left a link, perhaps with a mark.
    #[inline]
    pub(crate) fn delivered(&mut self, packet: &Packet) {
        let id = packet.id as u32;
        self.get_mut(id).ecn = packet.ecn;
        self.move_on(id);
    }

    /// A copy of a packet has left a link.
    #[cold]
    pub(crate) fn repeated(&mut self, packet: &Packet) {
        let original = packet.id as u32;
        let id = self.insert(*self.get(original));
        *self.content_mut(id) = *self.content(original);
        self.delivered(&Packet {
            id: id.into(),
            ..*packet
        });
    }

    /// A packet has left a hop.
    #[inline]
    pub(crate) fn move_on(&mut self, id: u32) {
        self.moved.push_back(id);
    }

    /// One of the packets that have left a hop, in their order.
    #[inline]
    pub(crate) fn pop_moved(&mut self) -> Option<u32> {
        self.moved.pop_front()
    }

    /// A bottleneck has carried a packet, `queued` after it had come. If it was its last one, and
    /// the packet has data: the packet.
    #[inline(always)]
    pub(crate) fn departed(&mut self, id: u32, queued: Span) -> Option<InFlight> {
        let packet = &mut self.packets[id as usize];
        packet.queued += queued;
        packet.departed = packet.data && self.legs[packet.leg as usize].is_last_link;
        packet.departed.then_some(*packet)
    }

    /// A packet has left its hop. Says where it stands, and whether that was the last link.
    #[inline]
    pub(crate) fn next_hop(&mut self, id: u32) -> (Next, bool) {
        let packet = &mut self.packets[id as usize];
        let leg = &self.legs[packet.leg as usize];
        packet.leg += 1;
        let next = if leg.is_end { Next::Host } else { Next::Hop };
        (next, leg.is_last_link)
    }

    /// The leg that a packet is on, or enters now.
    #[inline]
    fn leg(&self, packet: &InFlight) -> &Leg {
        &self.legs[packet.leg as usize]
    }
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, seeds: &mut Rng) -> Self {
        let mut links = Vec::new();
        for link in &scenario.links {
            links.push(Direction::new(&link.down, Dir::Down, seeds.next_u64()));
            links.push(Direction::new(&link.up, Dir::Up, seeds.next_u64()));
        }
        Self {
            due: vec![Time::MAX; links.len()],
            links,
            lines: Vec::new(),
        }
    }

    /// Capacity of each direction from `from` to `to`, bytes.
    pub(crate) fn offered(&self, from: Time, to: Time) -> Vec<Bytes> {
        let links = self.links.iter();
        links.map(|link| link.opportunity_bytes(from, to)).collect()
    }

    /// The number of the line with this delay; equal ones are one.
    fn line(&mut self, delay: Span) -> Option<Hop> {
        if delay.is_zero() {
            return None;
        }
        let known = self.lines.iter().position(|line| line.delay == delay);
        Some(Hop::Delay(known.unwrap_or_else(|| {
            self.lines.push(DelayLine {
                delay,
                in_propagation: VecDeque::new(),
            });
            self.due.push(Time::MAX);
            self.lines.len() - 1
        })))
    }

    /// The first leg of the route through these, with a delay before the first or after the last of
    /// them.
    pub(crate) fn route(
        &mut self,
        packets: &mut Packets,
        through: &[Hop],
        delay: Span,
        delay_first: bool,
    ) -> u32 {
        let line = self.line(delay);
        let last = through.last();
        let leg = |hop: &Hop| Leg {
            hop: *hop,
            is_last_link: Some(hop) == last,
            is_end: false,
        };
        let mut legs: Vec<Leg> = through.iter().map(leg).collect();
        if let Some(line) = &line {
            let place = if delay_first { 0 } else { legs.len() };
            legs.insert(place, leg(line));
        }
        if let Some(end) = legs.last_mut() {
            end.is_end = true;
        }
        packets.route(&legs)
    }

    /// The earliest due time, and where.
    #[inline]
    pub(crate) fn first(&self) -> (Time, usize) {
        let mut first = (Time::MAX, 0);
        // Pairs are the two directions of a link. The loop of single ones would be unrolled, which
        // takes longer than the few that there are.
        let (pairs, rest) = self.due.as_chunks::<2>();
        for (index, pair) in pairs.iter().enumerate() {
            for (dir, at) in pair.iter().enumerate() {
                if *at < first.0 {
                    first = (*at, 2 * index + dir);
                }
            }
        }
        if let [at] = rest
            && *at < first.0
        {
            first = (*at, self.due.len() - 1);
        }
        first
    }

    /// Processes the events of the link or line at `index`.
    pub(crate) fn advance<P: Probe>(&mut self, now: Time, index: usize, traffic: &mut Traffic<P>) {
        if let Some(link) = self.links.get_mut(index) {
            let watched = traffic.is_watched();
            link.advance(now, &mut traffic.over(index, watched));
            self.due[index] = wake(link, traffic);
            return;
        }
        let line = &mut self.lines[index - self.links.len()];
        while let Some((at, id)) = line.in_propagation.front().copied()
            && at <= now
        {
            line.in_propagation.pop_front();
            traffic.packets.move_on(id);
        }
        let next = line.in_propagation.front();
        self.due[index] = next.map_or(Time::MAX, |(at, _)| *at);
    }

    /// Makes all links report everything up to now, because somebody looks. Everything due has been
    /// done.
    pub(crate) fn catch_up<P: Probe>(&mut self, now: Time, traffic: &mut Traffic<P>) {
        for (index, link) in self.links.iter_mut().enumerate() {
            link.advance(now, &mut traffic.over(index, true));
        }
    }

    /// A packet enters its present hop. If another flow is to carry it: the number of that flow.
    #[must_use]
    pub(crate) fn enter<P: Probe>(
        &mut self,
        now: Time,
        id: u32,
        traffic: &mut Traffic<P>,
    ) -> Option<usize> {
        let packet = traffic.packets.get(id);
        match traffic.packets.leg(packet).hop {
            Hop::Link(index) => {
                let packet = Packet {
                    id: id.into(),
                    flow: packet.flow,
                    len: Bytes::new(packet.len.into()),
                    ecn: packet.ecn,
                };
                let link = &mut self.links[index];
                let watched = traffic.is_watched();
                link.push(now, packet, &mut traffic.over(index, watched));
                self.due[index] = wake(link, traffic);
            }
            Hop::Delay(line) => {
                let index = self.links.len() + line;
                let line = &mut self.lines[line];
                if line.in_propagation.is_empty() {
                    self.due[index] = now + line.delay;
                }
                line.in_propagation.push_back((now + line.delay, id));
            }
            Hop::Tunnel(outer) => return Some(outer),
        }
        None
    }
}

/// Time of a link's next event.
#[inline]
fn wake<P: Probe>(link: &Direction, traffic: &Traffic<P>) -> Time {
    let next = if traffic.is_watched() {
        link.next_event()
    } else {
        link.next_delivery()
    };
    next.unwrap_or(Time::MAX)
}

/// The direction and link of number `index`.
#[inline]
pub(crate) fn link_dir(index: usize) -> LinkDir {
    LinkDir {
        link: index / 2,
        dir: if index.is_multiple_of(2) {
            Dir::Down
        } else {
            Dir::Up
        },
    }
}
