// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop.
use crate::host::native::Native;
use crate::host::over_tcp::OverTcpHost;
use crate::host::{Host, MTU, TCP_HEADER, UDP_HEADER};
use crate::meter::Meter;
use crate::queue::{Class, EventQueue};
use crate::receiver::{Ack, Data, Receiver};
use crate::{FlowReport, FlowSpec, Report, Sample, Scenario, Under};
use alcc_cc::Pn;
use alcc_link::{Direction, Order, Outcome, Packet};
use alcc_units::{Bytes, Rate, Rng, Span, Time};

/// Length of an acknowledgement on the wire.
const ACK: Bytes = TCP_HEADER;

const DOWN: usize = 0;
const UP: usize = 1;

#[derive(Clone, Copy, Debug)]
enum Event {
    Link(usize),
    Start(usize),
    Wake(usize),
    Sample,
}

/// What is inside a packet; the link models know only its number.
#[derive(Clone, Copy, Debug)]
enum Content {
    Data(Data),
    Ack(Ack),
    /// What the receiver half of an algorithm says, by number.
    Report(u64),
}

struct Flow {
    host: Box<dyn Host>,
    receiver: Receiver,
    meter: Meter,
    started: bool,
    wake_at: Option<Time>,
    series: Vec<Sample>,
}

struct World {
    events: EventQueue<Event>,
    links: [Direction; 2],
    link_wake: [Option<Time>; 2],
    delay: Span,
    flows: Vec<Flow>,
    /// Packets on the path by number; numbers are used again.
    contents: Vec<Content>,
    free: Vec<u64>,
    window: Option<Time>,
    duration: Span,
    series: Option<Span>,
    sampled_at: Time,
    handled: u64,
    outcomes: Vec<Outcome>,
    outbox: Vec<Data>,
    news: Vec<Pn>,
}

/// Runs a scenario to the end of its window.
pub fn run(scenario: &Scenario) -> Report {
    let mut world = World::new(scenario);
    world.run();
    world.report(&scenario.flows)
}

impl World {
    fn new(scenario: &Scenario) -> Self {
        let mut seeds = Rng::new(scenario.seed);
        let links = [
            Direction::new(&scenario.down, Order::Down, seeds.next_u64()),
            Direction::new(&scenario.up, Order::Up, seeds.next_u64()),
        ];
        let handshake = scenario.down.delay + scenario.up.delay;
        let mut events = EventQueue::new();
        let mut flow = |number: usize, spec: &FlowSpec| {
            events.push(spec.start, Class::Host, Event::Start(number));
            let (cc, seed) = (spec.controller.clone_box(), seeds.next_u64());
            let host: Box<dyn Host> = match spec.under {
                Under::Native => Box::new(Native::new(cc, spec.start, seed)),
                Under::Tcp { cc: tcp, timing } => Box::new(OverTcpHost::new(
                    cc, tcp, timing, spec.start, handshake, seed,
                )),
            };
            Flow {
                receiver: Receiver::new(host.ack_policy(), host.receiver_half()),
                host,
                meter: Meter::default(),
                started: false,
                wake_at: None,
                series: Vec::new(),
            }
        };
        let flows = scenario
            .flows
            .iter()
            .enumerate()
            .map(|(number, spec)| flow(number, spec))
            .collect();
        Self {
            events,
            links,
            link_wake: [None; 2],
            delay: scenario.down.delay,
            flows,
            contents: Vec::new(),
            free: Vec::new(),
            window: None,
            duration: scenario.duration,
            series: scenario.series.filter(|every| !every.is_zero()),
            sampled_at: Time::ZERO,
            handled: 0,
            outcomes: Vec::new(),
            outbox: Vec::new(),
            news: Vec::new(),
        }
    }

    fn end(&self) -> Time {
        self.window.map_or(Time::MAX, |start| start + self.duration)
    }

    fn run(&mut self) {
        while let Some((now, event)) = self.events.pop(self.end()) {
            self.handled += 1;
            match event {
                Event::Link(way) => {
                    // An event that was brought forward has left an older one behind.
                    if self.link_wake[way] == Some(now) {
                        self.link_wake[way] = None;
                        let mut outcomes = std::mem::take(&mut self.outcomes);
                        self.links[way].advance(now, &mut outcomes);
                        self.settle(&mut outcomes);
                        self.outcomes = outcomes;
                    }
                    self.schedule_link(way);
                }
                Event::Start(number) => {
                    self.flows[number].started = true;
                    self.flows[number].host.on_start(now);
                    self.transmit(now, number);
                }
                Event::Wake(number) => self.wake(now, number),
                Event::Sample => self.sample(now),
            }
        }
    }

    fn schedule_link(&mut self, way: usize) {
        if let Some(next) = self.links[way].next_event()
            && self.link_wake[way].is_none_or(|at| next < at)
        {
            self.link_wake[way] = Some(next);
            self.events.push(next, Class::Link, Event::Link(way));
        }
    }

    fn schedule_flow(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let wanted = crate::host::earlier(flow.host.next_wake(), flow.receiver.next_wake());
        if let Some(next) = wanted.filter(|at| *at < Time::MAX)
            && flow.wake_at.is_none_or(|at| next < at)
        {
            flow.wake_at = Some(next);
            self.events.push(next, Class::Host, Event::Wake(number));
        }
    }

    fn wake(&mut self, now: Time, number: usize) {
        let flow = &mut self.flows[number];
        if flow.wake_at != Some(now) {
            return;
        }
        flow.wake_at = None;
        if let Some(ack) = flow.receiver.on_wake(now) {
            self.push(now, UP, number, ACK, Content::Ack(ack));
        }
        self.report_back(now, number);
        if self.flows[number]
            .host
            .next_wake()
            .is_some_and(|at| at <= now)
        {
            self.flows[number].host.on_wake(now);
            self.transmit(now, number);
        } else {
            self.schedule_flow(number);
        }
    }

    /// Sends what the algorithm's half at the receiver has to say.
    fn report_back(&mut self, now: Time, number: usize) {
        if let Some((report, len)) = self.flows[number].receiver.report(now) {
            let content = Content::Report(report);
            self.push(now, UP, number, UDP_HEADER + len, content);
        }
    }

    /// Lets a host send, after something happened to it.
    fn transmit(&mut self, now: Time, number: usize) {
        let mut outbox = std::mem::take(&mut self.outbox);
        let flow = &mut self.flows[number];
        flow.host.send(now, &mut outbox);
        let header = flow.host.header();
        flow.meter.sent += outbox.len() as u64;
        for data in outbox.drain(..) {
            let len = Bytes::new(data.len) + header;
            self.push(now, DOWN, number, len, Content::Data(data));
        }
        self.outbox = outbox;
        self.schedule_flow(number);
    }

    fn push(&mut self, now: Time, way: usize, number: usize, len: Bytes, content: Content) {
        let id = self.free.pop().unwrap_or(self.contents.len() as u64);
        match self.contents.get_mut(id as usize) {
            Some(place) => *place = content,
            None => self.contents.push(content),
        }
        let flow = number as u32;
        // On a path without delay a packet can be through at once; `settle` may then come back here.
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.links[way].push(now, Packet { id, flow, len }, &mut outcomes);
        self.settle(&mut outcomes);
        self.outcomes = outcomes;
        self.schedule_link(way);
    }

    fn settle(&mut self, outcomes: &mut Vec<Outcome>) {
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Arrived { at, packet } => {
                    if self.window.is_none() && packet.len >= MTU {
                        self.window = Some(at);
                        self.sampled_at = at;
                        if let Some(every) = self.series {
                            self.events.push(at + every, Class::Meter, Event::Sample);
                        }
                    }
                }
                Outcome::Departed {
                    at,
                    packet,
                    arrived,
                } => {
                    if let Content::Data(_) = self.contents[packet.id as usize] {
                        let meter = &mut self.flows[packet.flow as usize].meter;
                        meter.delivered(packet.len, at.since(arrived), self.delay);
                    }
                }
                Outcome::Dropped { packet, .. } => {
                    if let Content::Data(_) = self.contents[packet.id as usize] {
                        self.flows[packet.flow as usize].meter.dropped();
                    }
                    self.free.push(packet.id);
                }
                Outcome::Delivered { at, packet, .. } => {
                    self.free.push(packet.id);
                    let content = self.contents[packet.id as usize];
                    self.deliver(at, packet.flow as usize, content);
                }
            }
        }
    }

    fn deliver(&mut self, now: Time, number: usize, content: Content) {
        let flow = &mut self.flows[number];
        match content {
            Content::Data(data) => {
                if let Some(ack) = flow.receiver.on_data(now, &data, &mut flow.meter) {
                    self.push(now, UP, number, ACK, Content::Ack(ack));
                }
                self.report_back(now, number);
                self.schedule_flow(number);
            }
            Content::Report(report) => {
                if let Some(report) = flow.receiver.reported(report) {
                    flow.host.on_feedback(now, &report);
                    self.transmit(now, number);
                }
            }
            Content::Ack(ack) => {
                flow.receiver.news(&ack, &mut self.news);
                flow.host.on_ack(now, &self.news, ack.complete);
                self.transmit(now, number);
            }
        }
    }

    fn sample(&mut self, now: Time) {
        let Some((every, start)) = self.series.zip(self.window) else {
            return;
        };
        let interval = now.since(self.sampled_at);
        let offered = self.links[DOWN].opportunity_bytes(self.sampled_at, now);
        for flow in self.flows.iter_mut().filter(|flow| flow.started) {
            let lately = std::mem::take(&mut flow.meter.lately);
            let mut gauges = Vec::new();
            flow.host
                .gauges(&mut |name, value| gauges.push((name, value)));
            flow.series.push(Sample {
                at: now.since(start),
                capacity: Rate::of(offered, interval),
                throughput: Rate::of(lately.bytes, interval),
                queue_delay: (lately.packets > 0).then(|| lately.queueing / lately.packets),
                dropped: lately.dropped,
                in_flight: flow.host.in_flight(),
                kernel_cwnd: flow.host.kernel_window(),
                gauges,
            });
        }
        self.sampled_at = now;
        self.events.push(now + every, Class::Meter, Event::Sample);
    }

    fn report(mut self, specs: &[FlowSpec]) -> Report {
        let started = self.window.unwrap_or(Time::ZERO);
        let offered = self.links[DOWN].opportunity_bytes(started, started + self.duration);
        let mut inside = vec![0; self.flows.len()];
        for (flow, inside) in self.flows.iter().zip(&mut inside) {
            *inside = flow.meter.sent - flow.meter.dropped - flow.meter.delivered;
        }
        let duration = self.duration;
        let flows = self.flows.drain(..).zip(specs).zip(inside);
        let flows = flows
            .map(|((mut flow, spec), inside)| {
                let mut meter = flow.meter;
                let tally = flow.host.tally();
                let share = meter.delivered_bytes.get() as f64 / offered.get() as f64;
                FlowReport {
                    scheme: spec.scheme(),
                    delivered: meter.delivered_bytes,
                    throughput: Rate::of(meter.delivered_bytes, duration),
                    utilization: (offered != Bytes::MAX && offered != Bytes::ZERO).then_some(share),
                    goodput_bytes: Bytes::new(flow.receiver.complete()),
                    delay: meter.delay.summary(),
                    queue_delay: meter.queue_delay.summary(),
                    app_delay: meter.app_delay.summary(),
                    rtt: tally.rtt.summary(),
                    sent: meter.sent,
                    packets: meter.delivered,
                    dropped: meter.dropped,
                    inside,
                    retransmits: tally.retransmits,
                    timeouts: tally.timeouts,
                    gate_closed: tally.gate_closed,
                    series: flow.series,
                }
            })
            .collect();
        Report {
            flows,
            started,
            duration,
            opportunities: offered,
            events: self.handled,
        }
    }
}
