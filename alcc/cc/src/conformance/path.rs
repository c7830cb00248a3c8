// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows over one bottleneck in virtual time: small enough to trust by reading, for tests of
//! algorithms. Not the simulator.
use super::sender::Sender;
use crate::parts::MAX_WINDOW;
use crate::{Instance, Report, Spec};
use alcc_units::{Bytes, Rate, Rng, Span, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Size of every packet of these flows on the link, headers included.
pub const PACKET: Bytes = Bytes::new(1500);

/// The times at which the bottleneck delivers.
#[derive(Clone, Debug)]
pub enum Service {
    /// One packet after the other at this rate.
    Constant(Rate),
    /// One packet at each of these times (milliseconds, ascending, the last positive), repeated after the last.
    Opportunities(Vec<u64>),
}

/// A path, and the behaviour of the host.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The bottleneck.
    pub service: Service,
    /// RTT without queueing.
    pub rtt: Span,
    /// Size of the bottleneck's queue, in packets.
    pub queue: usize,
    /// Length of the run.
    pub duration: Span,
    /// Acknowledgements are read at this tick, as over TCP; zero: as they arrive.
    pub tick: Span,
    /// Maximum lateness of the controllers' timers.
    pub lateness: Span,
    /// Start and end of an outage of the link.
    pub outage: Option<(Time, Time)>,
    /// From a time on another path: its rate and its RTT without queueing. The sender is not informed.
    pub other: Option<(Time, Rate, Span)>,
    /// Maximum extra delay of acknowledgements, independent for each; they keep their order.
    pub jitter: Span,
    /// Packets of other flows that fill the queue at the start, as when a connection is taken over while it is
    /// established.
    pub standing: usize,
    /// Data rate of each application; `None`: unlimited.
    pub offered: Option<Rate>,
    /// Seed of the lateness and the jitter.
    pub seed: u64,
}

impl Scenario {
    /// A constant link with a deep buffer.
    pub fn constant(rate: Rate, rtt: Span, duration: Span) -> Self {
        Self {
            service: Service::Constant(rate),
            rtt,
            queue: 1333,
            duration,
            tick: Span::ZERO,
            lateness: Span::ZERO,
            outage: None,
            other: None,
            jitter: Span::ZERO,
            standing: 0,
            offered: None,
            seed: 1,
        }
    }
}

impl Scenario {
    /// The path and its seed, and the command that runs `flows` of `spec` on such a path in the simulator. The
    /// simulator has a receiver and a TCP, and no other packets in the queue at the start.
    pub(super) fn describe(&self, spec: &Spec, flows: usize) -> String {
        let link = match &self.service {
            Service::Constant(rate) => rate.to_string(),
            Service::Opportunities(_) => "TRACE".to_owned(),
        };
        let mut text = format!(
            "link {link}, round trip {}, queue of {} packets, seed {}",
            self.rtt, self.queue, self.seed
        );
        let mut command = format!(
            "alcc-lab sim --link {link} --rtt {} --queue droptail:packets={} --seed {}",
            self.rtt, self.queue, self.seed
        );
        let mut is = |what: String, option: String| {
            text = format!("{text}, {what}");
            command = format!("{command}{option}");
        };
        if !self.lateness.is_zero() {
            is(
                format!("timers up to {} late", self.lateness),
                String::new(),
            );
        }
        if !self.jitter.is_zero() {
            let jitter = self.jitter;
            let option = format!(" --radio-up jitter:most={jitter}");
            is(format!("jitter of {jitter}"), option);
        }
        if self.standing > 0 {
            let standing = format!("{} packets in the queue at the start", self.standing);
            is(standing, String::new());
        }
        if let Some((from, to)) = self.outage {
            let [from, to] = [from, to].map(|at| at.since(Time::ZERO));
            let option = format!(" --step {from}:rate=0bit --step {to}:rate={link}");
            is(format!("nothing passes from {from} to {to}"), option);
        }
        if let Some((at, rate, rtt)) = self.other {
            let at = at.since(Time::ZERO);
            let option = format!(" --step {at}:rate={rate},delay={}", rtt / 2);
            is(format!("from {at} on {rate} and {rtt}"), option);
        }
        let mut flow = format!(" --flow '{spec}'");
        if let Some(rate) = self.offered {
            flow = format!(" --flow '{spec}/app={rate}'");
            is(format!("an application of {rate}"), String::new());
        }
        let duration = self.duration;
        format!(
            "{text}; in the simulator: {command}{} --duration {duration}",
            flow.repeat(flows)
        )
    }
}

/// The result of one flow.
#[derive(Clone, Debug, Default)]
pub struct FlowResult {
    /// Departure from the queue, and waiting time there, of every delivered packet.
    pub delivered: Vec<(Time, Span)>,
    /// Packets refused by a full queue.
    pub dropped: u64,
    /// Maximum that could have been in flight, as a multiple of the earlier maximum, or of the first window if that is
    /// larger.
    pub unproven: f64,
}

impl FlowResult {
    fn after(&self, from: Time) -> impl Iterator<Item = &(Time, Span)> {
        self.delivered.iter().filter(move |(t, _)| *t >= from)
    }

    /// Packets delivered at or after `from`.
    pub fn packets(&self, from: Time) -> usize {
        self.after(from).count()
    }

    /// Mean waiting time in milliseconds of packets delivered at or after `from`; zero if there are none.
    pub fn mean_wait_ms(&self, from: Time) -> f64 {
        let n = self.packets(from).max(1) as f64;
        self.after(from)
            .map(|(_, w)| w.as_millis_f64())
            .sum::<f64>()
            / n
    }

    /// A quantile (0 to 1) of the waiting time in milliseconds; zero if nothing was delivered.
    pub fn wait_ms(&self, from: Time, quantile: f64) -> f64 {
        let mut all: Vec<Span> = self.after(from).map(|(_, w)| *w).collect();
        all.sort_unstable();
        let at = (all.len().saturating_sub(1) as f64 * quantile) as usize;
        all.get(at).map_or(0.0, |w| w.as_millis_f64())
    }
}

/// The order of events at one moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    Report { flow: usize, number: usize },
    Ack { flow: usize, pn: u64 },
    Module { flow: usize },
    Wake { flow: usize },
    Serve,
}

/// The bottleneck's service times.
struct Server {
    service: Service,
    next: usize,
    free: Time,
    outage: Option<(Time, Time)>,
    other: Option<(Time, Rate, Span)>,
}

impl Server {
    /// Departure of a packet that reaches the head of the queue now.
    fn departure(&mut self, now: Time) -> Time {
        if let Some((at, rate, _)) = self.other
            && now >= at
        {
            self.service = Service::Constant(rate);
        }
        let mut at = match &self.service {
            Service::Constant(rate) => {
                let start = self.free.max(now);
                start + rate.time_for(PACKET)
            }
            Service::Opportunities(ms) => loop {
                let (round, i) = (self.next / ms.len(), self.next % ms.len());
                let t = Time::from_millis(round as u64 * ms[ms.len() - 1] + ms[i]);
                self.next += 1;
                if t >= now {
                    break t;
                }
            },
        };
        if let Some((from, to)) = self.outage
            && at >= from
            && at < to
        {
            at = to;
        }
        self.free = at;
        at
    }
}

/// Flow number of packets in the queue that belong to no flow here.
const OTHERS: usize = usize::MAX;

/// The return path of acknowledgements.
struct WayBack {
    rtt: Span,
    other: Option<(Time, Rate, Span)>,
    jitter: Span,
    rng: Rng,
    last: Vec<Time>,
}

impl WayBack {
    fn new(scenario: &Scenario, flows: usize) -> Self {
        Self {
            rtt: scenario.rtt,
            other: scenario.other,
            jitter: scenario.jitter,
            rng: Rng::new(scenario.seed ^ 0x6a69_7474),
            last: vec![Time::ZERO; flows],
        }
    }

    /// Arrival at the sender of the acknowledgement of a packet that arrives now.
    fn arrival(&mut self, now: Time, flow: usize) -> Time {
        let rtt = match self.other {
            Some((at, _, rtt)) if now >= at => rtt,
            _ => self.rtt,
        };
        let jitter = if self.jitter.is_zero() {
            Span::ZERO
        } else {
            self.jitter.mul_f64(self.rng.unit())
        };
        let at = (now + rtt + jitter).max(self.last[flow]);
        self.last[flow] = at;
        at
    }
}

/// The data that an application has offered, and the largest use that its flow has made of its window.
#[derive(Clone, Copy, Default)]
struct Offer {
    sent: u64,
    most: Bytes,
}

impl Offer {
    /// Time at which the next packet of the application is available.
    fn due(&self, rate: Rate) -> Time {
        Time::ZERO + rate.time_for(PACKET) * self.sent
    }

    fn has(&self, now: Time, rate: Rate) -> bool {
        self.due(rate) <= now
    }

    fn check(&mut self, sender: &Sender, result: &mut FlowResult) {
        let allowance = sender.feed.allowance();
        let quota = sender.in_flight + allowance.quota.min(MAX_WINDOW);
        let may = allowance.window.min(quota);
        let first = self.most == Bytes::ZERO;
        self.most = self.most.max(if first { may } else { sender.in_flight });
        let ratio = may.get() as f64 / self.most.get().max(1) as f64;
        result.unproven = result.unproven.max(ratio);
    }
}

/// Runs `controllers` beside each other.
pub fn run(scenario: &Scenario, controllers: Vec<Instance>) -> Vec<FlowResult> {
    let mut run = Run::new(scenario, controllers);
    let end = Time::ZERO + scenario.duration;
    while let Some(Reverse((now, what, _))) = run.events.pop() {
        if now > end {
            break;
        }
        run.happens(now, what);
    }
    run.flows.into_iter().map(|flow| flow.result).collect()
}

/// One flow of a run.
struct Flow {
    sender: Sender,
    offer: Offer,
    result: FlowResult,
    /// The earliest planned wake-up of the sender, and of its receiver module.
    wakes_at: Time,
    module_wakes_at: Time,
}

/// The flows, the bottleneck between them and their receivers, and the planned events.
struct Run<'a> {
    scenario: &'a Scenario,
    events: BinaryHeap<Reverse<(Time, What, u64)>>,
    /// Number of planned events, which orders equal events at one moment.
    planned: u64,
    server: Server,
    /// Flow, packet number and arrival of the packets in the queue.
    queue: VecDeque<(usize, u64, Time)>,
    back: WayBack,
    flows: Vec<Flow>,
    reports: Vec<Report>,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, controllers: Vec<Instance>) -> Self {
        let back = WayBack::new(scenario, controllers.len());
        let flow = |(i, cc)| {
            let seed = scenario.seed + i as u64;
            let mut sender = Sender::new(cc, PACKET, PACKET, scenario.tick, seed);
            sender.lateness = scenario.lateness;
            Flow {
                sender,
                offer: Offer::default(),
                result: FlowResult::default(),
                wakes_at: Time::MAX,
                module_wakes_at: Time::MAX,
            }
        };
        let mut run = Self {
            scenario,
            events: BinaryHeap::new(),
            planned: 0,
            server: Server {
                service: scenario.service.clone(),
                next: 0,
                free: Time::ZERO,
                outage: scenario.outage,
                other: scenario.other,
            },
            queue: (0..scenario.standing)
                .map(|_| (OTHERS, 0, Time::ZERO))
                .collect(),
            back,
            flows: controllers.into_iter().enumerate().map(flow).collect(),
            reports: Vec::new(),
        };
        for flow in 0..run.flows.len() {
            run.plan(Time::ZERO, What::Wake { flow });
        }
        if !run.queue.is_empty() {
            run.plan_service(Time::ZERO);
        }
        run
    }

    fn plan(&mut self, at: Time, what: What) {
        self.planned += 1;
        self.events.push(Reverse((at, what, self.planned)));
    }

    /// Plans the departure of the packet at the head of the queue.
    fn plan_service(&mut self, now: Time) {
        let at = self.server.departure(now);
        self.plan(at, What::Serve);
    }

    fn happens(&mut self, now: Time, what: What) {
        match what {
            What::Ack { flow, pn } => {
                self.flows[flow].sender.arrived(now, pn);
                self.wake(now, flow);
            }
            What::Wake { flow } => {
                let planned = &mut self.flows[flow].wakes_at;
                if *planned <= now {
                    *planned = Time::MAX;
                }
                self.wake(now, flow);
            }
            What::Report { flow, number } => {
                let report = &self.reports[number];
                self.flows[flow].sender.feedback(now, report);
                self.wake(now, flow);
            }
            What::Module { flow } => {
                let planned = &mut self.flows[flow].module_wakes_at;
                if *planned <= now {
                    *planned = Time::MAX;
                }
                self.wake_module(now, flow);
            }
            What::Serve => self.serve(now),
        }
    }

    /// The packet at the head of the queue leaves the bottleneck and arrives.
    fn serve(&mut self, now: Time) {
        let packet = self.queue.pop_front().filter(|(flow, ..)| *flow != OTHERS);
        if let Some((flow, pn, since)) = packet {
            let delivered = (now, now.since(since));
            self.flows[flow].result.delivered.push(delivered);
            let heard = self.back.arrival(now, flow);
            self.plan(heard, What::Ack { flow, pn });
            self.flows[flow].sender.reached(now, pn, PACKET);
        }
        if !self.queue.is_empty() {
            self.plan_service(now);
        }
        if let Some((flow, ..)) = packet {
            self.wake_module(now, flow);
        }
    }

    /// Runs the receiver module: it may report, and sets its next wake-up.
    fn wake_module(&mut self, now: Time, flow: usize) {
        if let Some(report) = self.flows[flow].sender.report(now) {
            let number = self.reports.len();
            self.reports.push(report);
            let at = self.back.arrival(now, flow);
            self.plan(at, What::Report { flow, number });
        }
        let Flow {
            sender,
            module_wakes_at,
            ..
        } = &mut self.flows[flow];
        let next = sender.half.as_ref().and_then(|half| half.next_timer());
        if let Some(next) = next.filter(|next| next < module_wakes_at) {
            *module_wakes_at = next;
            self.plan(next, What::Module { flow });
        }
    }

    /// Runs the sender: it sends what is allowed, and sets its next wake-up.
    fn wake(&mut self, now: Time, flow: usize) {
        let Flow {
            sender,
            offer,
            result,
            ..
        } = &mut self.flows[flow];
        sender.wake(now);
        offer.check(sender, result);
        self.send(now, flow);
        let offered = self.scenario.offered;
        let Flow {
            sender,
            offer,
            wakes_at,
            ..
        } = &mut self.flows[flow];
        let next = sender.next_wake(now, offered.map_or(now, |rate| offer.due(rate)));
        if next < *wakes_at {
            *wakes_at = next;
            self.plan(next, What::Wake { flow });
        }
    }

    fn send(&mut self, now: Time, flow: usize) {
        loop {
            let Flow {
                sender,
                offer,
                result,
                ..
            } = &mut self.flows[flow];
            let offered = self.scenario.offered;
            if !offered.is_none_or(|rate| offer.has(now, rate)) {
                sender.feed.limited().app = true;
                return;
            }
            let Some(pn) = sender.send(now) else { return };
            offer.sent += 1;
            if self.queue.len() >= self.scenario.queue {
                result.dropped += 1;
                continue;
            }
            self.queue.push_back((flow, pn, now));
            if self.queue.len() == 1 {
                self.plan_service(now);
            }
        }
    }
}

/// Delivery opportunities up to `duration`.
pub fn capacity(service: &Service, duration: Span) -> f64 {
    match service {
        Service::Constant(rate) => {
            rate.as_bps() as f64 * duration.as_secs_f64() / (PACKET.get() as f64 * 8.0)
        }
        Service::Opportunities(ms) => {
            let last = ms[ms.len() - 1].max(1);
            let whole = duration.as_nanos() / 1_000_000;
            (whole / last) as f64 * ms.len() as f64
                + ms.iter().filter(|t| **t < whole % last).count() as f64
        }
    }
}
