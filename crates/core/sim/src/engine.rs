// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop.
//!
//! What can happen next is a direction of a link, a delay line or a timer of a flow: each has one entry, whatever passes through it, so
//! that a step costs little with one packet on the way and with a million. Directions and lines are few and looked through; flows
//! may be thousands and stand in a heap. Packets lie by value in a slab.
use crate::host::native::Native;
use crate::host::over_tcp::OverTcpHost;
use crate::host::udp::Udp;
use crate::host::{Host, UDP_HEADER};
use crate::meter::Meter;
use crate::probe::{FlowState, LinkWay, PacketContent, PacketEvent, PacketStep, Probe};
use crate::receiver::Receiver;
use crate::source::Supply;
use crate::timers::Timers;
use crate::{FlowSpec, Report, Sample, Scenario, SimError, Under, Way};
use alcc_cc::{Header, Kind};
use alcc_flow::{Ack, Transmit};
use alcc_link::{Direction, Order, Outcome, Packet};
use alcc_units::{Bytes, Rate, Rng, Span, Time};
use std::collections::VecDeque;

/// The first packet so long begins the window: those of the papers' programs are shorter than 1500 bytes.
const FULL_SIZE: Bytes = Bytes::new(1400);
/// More events at one moment than this, and for each flow as many as its packets in flight can bring about, are an endless loop.
const MOST_AT_ONCE: u64 = 1_000_000;
const MOST_AT_ONCE_PER_FLOW: u64 = 4 * 65_536;
/// The probe is asked after so many events whether to go on.
const PROGRESS: u64 = 1 << 16;
const SECOND: Span = Span::from_secs(1);
/// Phases of flows are drawn from so long: Sprout's tick, four of Verus' epochs, a frame of an application.
const PHASES: Span = Span::from_millis(20);

/// What is inside a packet; the link models know only its number.
#[derive(Clone, Copy, Debug)]
enum Content {
    Data(Transmit),
    Ack(Ack),
    /// What the receiver half of an algorithm says, by number.
    Report(u64),
}

/// A packet on its way: what is needed at every step. What is in it lies elsewhere, so that all of these are close together.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    sent: Time,
    /// Time in queues so far.
    queued: Span,
    flow: u32,
    len: u32,
    route: u16,
    /// Which part of its route it is on.
    hop: u16,
    /// It carries data, not an acknowledgement or report.
    data: bool,
    /// It is through the last bottleneck of its route.
    departed: bool,
}

/// A part of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hop {
    /// A direction of a link.
    Link(usize),
    /// A delay line.
    Line(usize),
}

/// What a packet passes, in order.
#[derive(PartialEq, Eq, Debug)]
struct Route {
    hops: Vec<Hop>,
    /// Its last direction of a link.
    last: usize,
}

/// A delay between hosts and links, shared by all flows that have the same.
#[derive(Debug)]
struct Line {
    delay: Span,
    travelling: VecDeque<(Time, u32)>,
}

/// Both ends of a flow.
enum Ends {
    Acked {
        host: Box<dyn Host>,
        receiver: Box<Receiver>,
    },
    Udp(Udp),
}

struct Flow {
    ends: Ends,
    supply: Supply,
    meter: Meter,
    start: Time,
    stop: Option<Time>,
    /// When it was to stop: `stop` is forgotten then.
    stops: Option<Time>,
    started: bool,
    /// The flow that goes back from where this one arrives and carries its receiver's reports.
    partner: Option<usize>,
    /// There and back.
    routes: [u16; 2],
    /// What a packet takes from host to host without queueing, if that is always the same.
    propagation: Option<Span>,
    /// The direction with the least to offer.
    tight: usize,
    completed: Option<Time>,
    series: Vec<Sample>,
}

/// What passed one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Packets that came to it.
    pub arrived: u64,
    /// Packets that its bottleneck carried.
    pub departed: u64,
    /// Their IP bytes.
    pub bytes: Bytes,
    /// Packets that it lost.
    pub dropped: u64,
}

pub(crate) struct World<'p, P: Probe> {
    probe: &'p mut P,
    /// Down and up of each link.
    links: Vec<Direction>,
    passed: Vec<Passed>,
    lines: Vec<Line>,
    /// When each of the links has something to do, then each of the lines.
    due: Vec<Time>,
    timers: Timers,
    routes: Vec<Route>,
    flows: Vec<Flow>,
    parcels: Vec<Parcel>,
    /// What is in each of them.
    contents: Vec<Content>,
    free: Vec<u32>,
    /// Parcels that have left a hop at this moment.
    moved: VecDeque<u32>,
    window: Option<Time>,
    /// The second of the window, and when it ends.
    second: (usize, Time),
    duration: Span,
    /// Without a full-size packet the window begins with the first flow.
    first_start: Time,
    series: Option<Span>,
    sample_at: Time,
    sampled_at: Time,
    events: u64,
    most_events: u64,
    /// The present moment, and the number of events when it began.
    moment: (Time, u64),
    outcomes: Vec<Outcome>,
    outbox: Vec<Transmit>,
}

/// Runs a scenario to the end of its window.
///
/// # Errors
/// [`SimError`] for a scenario that cannot be, and for a run that would not end.
pub fn run(scenario: &Scenario) -> Result<Report, SimError> {
    run_with(scenario, &mut ())
}

/// Runs a scenario to the end of its window while `probe` watches.
///
/// # Errors
/// As [`run`]; [`SimError::Stopped`] when the probe says so.
pub fn run_with<P: Probe>(scenario: &Scenario, probe: &mut P) -> Result<Report, SimError> {
    scenario.check()?;
    let mut world = World::new(scenario, probe);
    world.run()?;
    Ok(world.report(&scenario.flows))
}

impl<'p, P: Probe> World<'p, P> {
    fn new(scenario: &Scenario, probe: &'p mut P) -> Self {
        let mut seeds = Rng::new(scenario.seed);
        let mut links = Vec::new();
        for link in &scenario.links {
            links.push(Direction::new(&link.down, Order::Down, seeds.next_u64()));
            links.push(Direction::new(&link.up, Order::Up, seeds.next_u64()));
        }
        let mut paths = Paths {
            lines: Vec::new(),
            routes: Vec::new(),
        };
        let window =
            |link: &Direction| link.opportunity_bytes(Time::ZERO, Time::ZERO + scenario.duration);
        let offered: Vec<Bytes> = links.iter().map(window).collect();
        let mut flows: Vec<Flow> = Vec::with_capacity(scenario.flows.len());
        let mut phase = Span::ZERO;
        for spec in &scenario.flows {
            let seed = seeds.next_u64();
            // A pair is one program.
            if !spec.paired {
                phase = phase_of(spec, seed, flows.is_empty());
            }
            flows.push(flow(scenario, spec, phase, seed, &mut paths, &offered));
        }
        for (number, _) in scenario.flows.iter().enumerate().filter(|(_, f)| f.paired) {
            if let Some(other) = number.checked_sub(1) {
                flows[number].partner = Some(other);
                flows[other].partner = Some(number);
            }
        }
        let mut timers = Timers::new(flows.len());
        for (number, flow) in flows.iter().enumerate() {
            timers.set(number, flow.start);
        }
        let first_start = flows.iter().map(|f| f.start).min().unwrap_or(Time::ZERO);
        Self {
            probe,
            passed: vec![Passed::default(); links.len()],
            due: vec![Time::MAX; links.len() + paths.lines.len()],
            links,
            lines: paths.lines,
            timers,
            routes: paths.routes,
            flows,
            parcels: Vec::new(),
            contents: Vec::new(),
            free: Vec::new(),
            moved: VecDeque::new(),
            window: None,
            second: (0, Time::MAX),
            duration: scenario.duration,
            first_start,
            series: scenario.series.filter(|every| !every.is_zero()),
            sample_at: Time::MAX,
            sampled_at: Time::ZERO,
            events: 0,
            most_events: scenario.most_events,
            moment: (Time::ZERO, 0),
            outcomes: Vec::new(),
            outbox: Vec::new(),
        }
    }

    fn end(&self) -> Time {
        self.window.unwrap_or(self.first_start) + self.duration
    }

    /// Within one moment the network moves first, then hosts react, then meters look.
    fn run(&mut self) -> Result<(), SimError> {
        loop {
            let (mut network, mut place) = (Time::MAX, 0);
            for (index, at) in self.due.iter().enumerate() {
                if *at < network {
                    (network, place) = (*at, index);
                }
            }
            let (timer, flow) = self.timers.first().unwrap_or((Time::MAX, 0));
            let first = network.min(timer).min(self.sample_at);
            // A timeout that has just become shorter may have been due already: it is late, but time does not run backwards.
            let now = first.max(self.moment.0);
            if now > self.end() || now == Time::MAX {
                return Ok(());
            }
            self.count(now)?;
            if network == first {
                self.advance(now, place);
            } else if timer == first {
                self.wake(now, flow);
            } else {
                self.sample(now);
            }
            while let Some(id) = self.moved.pop_front() {
                self.count(now)?;
                self.next_hop(now, id);
            }
        }
    }

    /// One more event: an error if there are too many.
    fn count(&mut self, now: Time) -> Result<(), SimError> {
        self.events += 1;
        if now > self.moment.0 {
            self.moment = (now, self.events);
        }
        let events = self.events;
        if events > self.most_events {
            return Err(SimError::Events { events, at: now });
        }
        let at_once = events - self.moment.1;
        if at_once > MOST_AT_ONCE + MOST_AT_ONCE_PER_FLOW * self.flows.len() as u64 {
            return Err(SimError::Standstill {
                events: at_once,
                at: now,
            });
        }
        if events.is_multiple_of(PROGRESS) && !self.probe.progress(now, self.end()) {
            return Err(SimError::Stopped { at: now });
        }
        Ok(())
    }

    /// A link or a line has something to do.
    fn advance(&mut self, now: Time, place: usize) {
        if place < self.links.len() {
            self.links[place].advance(now, &mut self.outcomes);
            self.settle(place);
        } else {
            let line = &mut self.lines[place - self.links.len()];
            while let Some((at, id)) = line.travelling.front().copied()
                && at <= now
            {
                line.travelling.pop_front();
                self.moved.push_back(id);
            }
            let next = line.travelling.front();
            self.due[place] = next.map_or(Time::MAX, |(at, _)| *at);
        }
    }

    /// Takes note of what link `place` has just done, and of when it wants to do more.
    fn settle(&mut self, place: usize) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Arrived { at, packet } => {
                    self.passed[place].arrived += 1;
                    if self.window.is_none() && packet.len >= FULL_SIZE {
                        self.begin_window(at);
                    }
                    self.tell(at, packet.id as u32, PacketStep::Arrived(way(place)));
                }
                Outcome::Departed {
                    at,
                    packet,
                    arrived,
                } => {
                    let passed = &mut self.passed[place];
                    passed.departed += 1;
                    passed.bytes += packet.len;
                    self.departed(at, place, &packet, arrived);
                    self.tell(at, packet.id as u32, PacketStep::Departed(way(place)));
                }
                Outcome::Dropped { at, packet, why } => {
                    // What is lost comes to nothing later: it is counted here, or a storm of losses would cost nothing.
                    self.events += 1;
                    self.passed[place].dropped += 1;
                    let parcel = &self.parcels[packet.id as usize];
                    if parcel.data {
                        let meter = &mut self.flows[parcel.flow as usize].meter;
                        meter.dropped(parcel.departed);
                    }
                    self.tell(at, packet.id as u32, PacketStep::Dropped(way(place), why));
                    self.free.push(packet.id as u32);
                }
                Outcome::Delivered { packet, .. } => self.moved.push_back(packet.id as u32),
            }
        }
        self.outcomes = outcomes;
        self.due[place] = self.links[place].next_event().unwrap_or(Time::MAX);
    }

    fn begin_window(&mut self, at: Time) {
        self.window = Some(at);
        self.second = (0, at + SECOND);
        self.sampled_at = at;
        if let Some(every) = self.series {
            self.sample_at = at + every;
        }
    }

    /// The bottleneck of link `place` has carried a packet.
    fn departed(&mut self, at: Time, place: usize, packet: &Packet, arrived: Time) {
        let parcel = &mut self.parcels[packet.id as usize];
        parcel.queued += at.since(arrived);
        if !parcel.data || self.routes[usize::from(parcel.route)].last != place {
            return;
        }
        parcel.departed = true;
        while at >= self.second.1 {
            self.second = (self.second.0 + 1, self.second.1 + SECOND);
        }
        let meter = &mut self.flows[parcel.flow as usize].meter;
        meter.delivered(at, self.second.0, packet.len, parcel.queued);
    }

    /// A parcel has left a hop: on to the next, or to its host.
    fn next_hop(&mut self, now: Time, id: u32) {
        let parcel = &mut self.parcels[id as usize];
        let number = parcel.flow as usize;
        let route = &self.routes[usize::from(parcel.route)];
        if parcel.data && route.hops[usize::from(parcel.hop)] == Hop::Link(route.last) {
            let flow = &mut self.flows[number];
            if flow.propagation.is_none() {
                flow.meter.delay.add(now.since(parcel.sent));
            }
        }
        parcel.hop += 1;
        if usize::from(parcel.hop) < route.hops.len() {
            self.enter(now, id);
            return;
        }
        self.tell(now, id, PacketStep::Received);
        self.free.push(id);
        let content = self.contents[id as usize];
        self.deliver(now, number, content);
    }

    /// A parcel enters its present hop.
    fn enter(&mut self, now: Time, id: u32) {
        let parcel = &self.parcels[id as usize];
        match self.routes[usize::from(parcel.route)].hops[usize::from(parcel.hop)] {
            Hop::Link(place) => {
                let packet = Packet {
                    id: id.into(),
                    flow: parcel.flow,
                    len: Bytes::new(parcel.len.into()),
                };
                self.links[place].push(now, packet, &mut self.outcomes);
                self.settle(place);
            }
            Hop::Line(line) => {
                let place = self.links.len() + line;
                let line = &mut self.lines[line];
                if line.travelling.is_empty() {
                    self.due[place] = now + line.delay;
                }
                line.travelling.push_back((now + line.delay, id));
            }
        }
    }

    /// A host sends.
    fn push(&mut self, now: Time, number: usize, len: Bytes, content: Content) {
        let data = matches!(content, Content::Data(_));
        let parcel = Parcel {
            sent: now,
            queued: Span::ZERO,
            flow: number as u32,
            len: len.get() as u32,
            route: self.flows[number].routes[usize::from(!data)],
            hop: 0,
            data,
            departed: false,
        };
        let id = self.free.pop().unwrap_or(self.parcels.len() as u32);
        match self.parcels.get_mut(id as usize) {
            Some(place) => {
                *place = parcel;
                self.contents[id as usize] = content;
            }
            None => {
                self.parcels.push(parcel);
                self.contents.push(content);
            }
        }
        self.tell(now, id, PacketStep::Sent);
        self.enter(now, id);
    }

    fn deliver(&mut self, now: Time, number: usize, content: Content) {
        let flow = &mut self.flows[number];
        match (content, &mut flow.ends) {
            (Content::Data(data), Ends::Acked { host, receiver }) => {
                let supply = &flow.supply;
                let written_at = |position| {
                    let at = host.written_at(position);
                    supply.written_at(position).map_or(at, |due| due.min(at))
                };
                let ack = receiver.on_data(now, &data, &mut flow.meter, written_at);
                let complete = receiver.complete();
                if flow.completed.is_none() && flow.supply.size().is_some_and(|s| complete >= s) {
                    flow.completed = Some(now);
                }
                if let Some((ack, len)) = ack {
                    self.push(now, number, len, Content::Ack(ack));
                }
                self.report_back(now, number);
                self.schedule(number);
            }
            (Content::Data(data), Ends::Udp(udp)) => {
                udp.arrived += data.len;
                let after = now.since(data.sent_at);
                flow.meter.delivered_to_application(after);
            }
            (Content::Ack(ack), Ends::Acked { host, receiver }) => {
                let arrivals = receiver.told(&ack);
                host.on_ack(now, &ack, &arrivals);
                self.transmit(now, number);
            }
            (Content::Report(report), Ends::Acked { host, receiver }) => {
                if let Some(report) = receiver.reported(report) {
                    host.on_feedback(now, &report);
                    self.transmit(now, number);
                }
            }
            (Content::Ack(_) | Content::Report(_), Ends::Udp(_)) => {}
        }
    }

    /// Sends what the algorithm's half at the receiver has to say.
    fn report_back(&mut self, now: Time, number: usize) {
        if self.flows[number].partner.is_none() {
            self.push_report(now, number);
        }
    }

    fn push_report(&mut self, now: Time, number: usize) {
        if let Ends::Acked { receiver, .. } = &mut self.flows[number].ends
            && let Some((report, len)) = receiver.report(now)
        {
            self.push(now, number, UDP_HEADER + len, Content::Report(report));
        }
    }

    /// A moment that a flow asked for: its start, its end, its application, its receiver, its sender.
    fn wake(&mut self, now: Time, number: usize) {
        let flow = &mut self.flows[number];
        let mut act = false;
        if !flow.started {
            flow.started = true;
            if let Ends::Acked { host, .. } = &mut flow.ends {
                host.on_start(now);
            }
            act = true;
        }
        let mut written = flow.supply.turn(now);
        if flow.stop.is_some_and(|stop| stop <= now) {
            flow.stop = None;
            flow.supply.stop();
            written = Some(0);
        }
        match &mut flow.ends {
            Ends::Acked { host, receiver } => {
                if let Some(upto) = written {
                    host.on_write(now, upto);
                    act = true;
                }
                let ack = receiver.on_wake(now);
                if host.next_wake().is_some_and(|at| at <= now) {
                    host.on_wake(now);
                    act = true;
                }
                if let Some((ack, len)) = ack {
                    self.push(now, number, len, Content::Ack(ack));
                }
                self.report_back(now, number);
            }
            Ends::Udp(udp) => {
                udp.on_write(written.unwrap_or(0));
                act = true;
            }
        }
        if act {
            self.transmit(now, number);
        }
        let next = self.next_timer(number);
        self.timers.set(number, next);
    }

    /// Lets a host send, after something happened to it.
    fn transmit(&mut self, now: Time, number: usize) {
        let mut outbox = std::mem::take(&mut self.outbox);
        let flow = &mut self.flows[number];
        let header = match &mut flow.ends {
            Ends::Acked { host, .. } => {
                host.send(now, &mut outbox);
                host.rules().header
            }
            Ends::Udp(udp) => {
                while let Some((pn, start, len)) = udp.send() {
                    outbox.push(Transmit {
                        pn,
                        start,
                        len,
                        kind: Kind::New,
                        sent_at: udp.due(&flow.supply, start).unwrap_or(now),
                        echo: Time::ZERO,
                        header: Header::EMPTY,
                    });
                }
                UDP_HEADER
            }
        };
        for data in &outbox {
            flow.meter.sent(data.kind == Kind::Retransmit);
        }
        if let Some(other) = flow.partner.filter(|_| !outbox.is_empty()) {
            self.push_report(now, other);
        }
        for data in outbox.drain(..) {
            let len = Bytes::new(data.len) + header;
            self.push(now, number, len, Content::Data(data));
        }
        self.outbox = outbox;
        if self.probe.watches()
            && let Ends::Acked { host, .. } = &self.flows[number].ends
        {
            self.probe.flow(&FlowState {
                at: now,
                flow: number,
                in_flight: host.in_flight(),
                kernel_cwnd: host.kernel_window(),
                gauges: &|put| host.gauges(put),
            });
        }
        self.schedule(number);
    }

    /// Sees to it that the flow's timer rings in time. A timer that has become too early rings and is set again then.
    fn schedule(&mut self, number: usize) {
        let next = self.next_timer(number);
        if next < self.timers.at(number) {
            self.timers.set(number, next);
        }
    }

    /// When something is due of the flow's application or at one of its ends.
    fn next_timer(&self, number: usize) -> Time {
        let flow = &self.flows[number];
        let next = flow.supply.next().min(flow.stop.unwrap_or(Time::MAX));
        let Ends::Acked { host, receiver } = &flow.ends else {
            return next;
        };
        let wanted = crate::host::earlier(host.next_wake(), receiver.next_wake());
        next.min(wanted.unwrap_or(Time::MAX))
    }

    fn tell(&mut self, at: Time, id: u32, what: PacketStep) {
        if !self.probe.watches() {
            return;
        }
        let parcel = &self.parcels[id as usize];
        let flow = parcel.flow as usize;
        let (udp, stream) = match &self.flows[flow].ends {
            Ends::Udp(_) => (true, false),
            Ends::Acked { host, .. } => (false, host.rules().is_stream()),
        };
        let content = match self.contents[id as usize] {
            Content::Data(data) => PacketContent::Data {
                pn: data.pn,
                start: data.start,
                len: data.len,
                udp,
                stream,
                sent_at: data.sent_at,
                echo: data.echo,
            },
            Content::Ack(ack) => PacketContent::Ack { stream, ack },
            Content::Report(_) => PacketContent::Report,
        };
        self.probe.packet(&PacketEvent {
            at,
            flow,
            what,
            len: Bytes::new(parcel.len.into()),
            content,
        });
    }

    fn sample(&mut self, now: Time) {
        let Some((every, start)) = self.series.zip(self.window) else {
            self.sample_at = Time::MAX;
            return;
        };
        let interval = now.since(self.sampled_at);
        for flow in self.flows.iter_mut().filter(|flow| flow.started) {
            let link = &self.links[flow.tight];
            let offered = link.opportunity_bytes(self.sampled_at, now);
            let lately = std::mem::take(&mut flow.meter.lately);
            let mut gauges = Vec::new();
            let (mut in_flight, mut window, mut kernel_cwnd) = (Bytes::ZERO, None, None);
            if let Ends::Acked { host, .. } = &flow.ends {
                host.gauges(&mut |name, value| gauges.push((name, value)));
                (in_flight, kernel_cwnd) = (host.in_flight(), host.kernel_window());
                window = host.window().filter(|window| *window != Bytes::MAX);
            }
            flow.series.push(Sample {
                at: now.since(start),
                capacity: Rate::of(offered, interval),
                throughput: Rate::of(lately.bytes, interval),
                queue_delay: (lately.packets > 0).then(|| lately.queueing / lately.packets),
                dropped: lately.dropped,
                in_flight,
                window,
                kernel_cwnd,
                gauges,
            });
        }
        self.sampled_at = now;
        self.sample_at = now + every;
    }

    fn report(mut self, specs: &[FlowSpec]) -> Report {
        let started = self.window.unwrap_or(self.first_start);
        let (duration, end) = (self.duration, started + self.duration);
        let offered: Vec<Bytes> = self
            .links
            .iter()
            .map(|link| link.opportunity_bytes(started, end))
            .collect();
        let flows = self.flows.drain(..).zip(specs);
        let flows = flows
            .map(|(mut flow, spec)| flow.report(spec, duration, offered[flow.tight]))
            .collect();
        let mut passed = self.passed.chunks_exact(2);
        let mut offered = offered.chunks_exact(2);
        let links = std::iter::from_fn(|| Some((passed.next()?, offered.next()?)));
        Report {
            flows,
            links: links
                .map(|(passed, offered)| crate::LinkReport {
                    down: passed[0],
                    up: passed[1],
                    opportunities_down: offered[0],
                    opportunities_up: offered[1],
                })
                .collect(),
            started,
            duration,
            events: self.events,
        }
    }
}

/// Which direction of which link is number `place`.
fn way(place: usize) -> LinkWay {
    LinkWay {
        link: place / 2,
        way: if place.is_multiple_of(2) {
            Way::Down
        } else {
            Way::Up
        },
    }
}

/// Routes and lines as flows need them, equal ones once.
struct Paths {
    lines: Vec<Line>,
    routes: Vec<Route>,
}

impl Paths {
    fn line(&mut self, delay: Span) -> Option<Hop> {
        if delay.is_zero() {
            return None;
        }
        let known = self.lines.iter().position(|line| line.delay == delay);
        Some(Hop::Line(known.unwrap_or_else(|| {
            self.lines.push(Line {
                delay,
                travelling: VecDeque::new(),
            });
            self.lines.len() - 1
        })))
    }

    fn route(&mut self, hops: Vec<Hop>, last: usize) -> u16 {
        let route = Route { hops, last };
        let known = self.routes.iter().position(|r| *r == route);
        // There are at most two for each of 10,000 flows.
        known.unwrap_or_else(|| {
            self.routes.push(route);
            self.routes.len() - 1
        }) as u16
    }
}

/// By how much later a flow begins than its description says.
fn phase_of(spec: &FlowSpec, seed: u64, first: bool) -> Span {
    if let Some(phase) = spec.phase {
        return phase;
    }
    if first {
        return Span::ZERO;
    }
    let from = PHASES.max(spec.source.every);
    Span::from_nanos(Rng::new(seed ^ 0x0070_6861_7365).below(from.as_nanos()))
}

fn flow(
    scenario: &Scenario,
    spec: &FlowSpec,
    phase: Span,
    seed: u64,
    paths: &mut Paths,
    offered: &[Bytes],
) -> Flow {
    let there = scenario.data_route(spec);
    let tight = there
        .iter()
        .copied()
        .min_by_key(|place| offered[*place])
        .unwrap_or(0);
    // The way back takes the other direction of each link.
    let back: Vec<usize> = there.iter().rev().map(|place| place ^ 1).collect();
    let access = scenario.access(spec);
    let mut route = |delay: Span, links: &[usize], line_first: bool| {
        let line = paths.line(delay);
        let last = links.last().copied().unwrap_or(0);
        let links = links.iter().map(|place| Hop::Link(*place));
        let hops = if line_first {
            line.into_iter().chain(links).collect()
        } else {
            links.chain(line).collect()
        };
        paths.route(hops, last)
    };
    // On the sender's side of the links, both times.
    let routes = [
        route(access / 2, &there, true),
        route(access - access / 2, &back, false),
    ];
    let directions = || there.iter().map(|place| scenario.direction(*place));
    let steady = directions().all(|direction| direction.changes.is_empty());
    let delays = directions().map(|direction| direction.delay);
    let propagation = steady.then(|| delays.fold(access / 2, |a, b| a + b));
    let cc = spec.controller.clone_box();
    let rtt = scenario.min_rtt(spec);
    let (start, stop) = (spec.start + phase, spec.stop.map(|stop| stop + phase));
    let acked = |host: Box<dyn Host>| Ends::Acked {
        receiver: Box::new(Receiver::new(
            host.rules(),
            host.acks(),
            host.receiver_half(),
        )),
        host,
    };
    let ends = match &spec.under {
        Under::Native(rules) => acked(Box::new(Native::new(cc, rules, start, rtt, seed))),
        Under::Tcp(kernel) => acked(Box::new(OverTcpHost::new(cc, kernel, start, rtt, seed))),
        Under::Udp { packet } => Ends::Udp(Udp::new(*packet)),
    };
    Flow {
        ends,
        supply: Supply::new(spec.source, start),
        meter: Meter::default(),
        start,
        stop,
        stops: stop,
        started: false,
        partner: None,
        routes,
        propagation,
        tight,
        completed: None,
        series: Vec::new(),
    }
}

impl Flow {
    fn report(&mut self, spec: &FlowSpec, duration: Span, offered: Bytes) -> crate::FlowReport {
        let meter = &mut self.meter;
        let share = meter.delivered_bytes.get() as f64 / offered.get() as f64;
        let mut tally = crate::host::Tally::default();
        let goodput = match &mut self.ends {
            Ends::Acked { host, receiver } => {
                tally = host.tally().clone();
                receiver.complete()
            }
            Ends::Udp(udp) => udp.arrived,
        };
        crate::FlowReport {
            scheme: spec.scheme(),
            delivered: meter.delivered_bytes,
            throughput: Rate::of(meter.delivered_bytes, duration),
            utilization: (offered != Bytes::MAX && offered != Bytes::ZERO).then_some(share),
            goodput_bytes: Bytes::new(goodput),
            delay: match self.propagation {
                Some(propagation) => meter.queue_delay.summary().later(propagation),
                None => meter.delay.summary(),
            },
            queue_delay: meter.queue_delay.summary(),
            signal_delay_p95: meter.signal.p95(),
            app_delay: meter.app_delay.summary(),
            rtt: tally.rtt.summary(),
            sent: meter.sent,
            packets: meter.delivered,
            dropped: meter.dropped,
            inside: meter.sent - meter.delivered - (meter.dropped - meter.dropped_late),
            retransmits: tally.retransmits,
            rtx_burst: (meter.again.1 > 0).then(|| meter.again.0 as f64 / meter.again.1 as f64),
            timeouts: tally.timeouts,
            gate_closed: tally.gate_closed,
            completion: self.completed.map(|at| at.since(self.start)),
            active: (self.start, self.stops, self.completed),
            seconds: std::mem::take(&mut meter.seconds),
            series: std::mem::take(&mut self.series),
        }
    }
}
