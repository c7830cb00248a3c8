// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop.
//!
//! The next event is due in the network or is a timer of a flow. Each place of the network
//! and each flow has one entry, so that a step costs little with one packet in flight and with a
//! million. There may be thousands of flows, so they are not looked through: see [`Timers`].
pub(crate) mod tunnel;

use crate::flow::{Endpoints, Flow, phase_of};
use crate::host::UDP_HEADER;
use crate::network::{Content, InFlight, Network, Next, Outbox, Packets};
use crate::probe::{FlowState, PacketStep, Probe};
use crate::processes::Processes;
use crate::receiver::Receiver;
use crate::timers::Timers;
use crate::traffic::Traffic;
use crate::{FlowStatus, LinkReport, Report, Scenario, SimError};
use alcc_flow::Shares;
use alcc_link::Ecn;
use alcc_units::{Bytes, Rng, Span, Time};

/// More events at one moment than this are an endless loop. For each flow, as many are added as its
/// packets in flight can bring about.
const MAX_AT_ONCE: u64 = 1_000_000;
const MAX_AT_ONCE_PER_FLOW: u64 = 4 * 65_536;
/// Events between two calls of the probe's `progress`.
const PROGRESS_INTERVAL: u64 = 1 << 16;

/// A run of a scenario, in steps as long as its user wants them. The steps have no effect on what
/// happens.
///
/// ```
/// use alcc_link::{QueueSpec, RateSpec};
/// use alcc_sim::{Scenario, Simulation};
/// use alcc_units::{Rate, Span};
///
/// let link = RateSpec::Fixed(Rate::mbps(12));
/// let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), QueueSpec::default())
///     .with("cubic")?;
/// scenario.duration = Span::from_secs(5);
/// let mut simulation = Simulation::new(&scenario)?;
/// while !simulation.is_over() {
///     simulation.run_until(simulation.now() + Span::from_millis(100))?;
///     let flow = simulation.flow(0).unwrap();
///     assert!(flow.in_flight <= flow.window.unwrap());
/// }
/// assert_eq!(simulation.report(), alcc_sim::run(&scenario)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation<P: Probe = ()> {
    network: Network,
    traffic: Traffic<P>,
    timers: Timers,
    /// Start of the first flow, where the window begins if there is no full-size packet.
    first_start: Time,
    max_events: u64,
    /// Maximum number of events at one instant (detects endless loops).
    max_at_once: u64,
    /// The time of the last event, and the number of events when it began.
    instant: (Time, u64),
    /// Number of events below which nothing is checked.
    look_at: u64,
    /// Everything up to here has happened.
    now: Time,
    over: bool,
    /// Packets that a host has sent.
    outbox: Vec<u32>,
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
/// As [`run`]; [`SimError::Stopped`] if the probe stops it.
pub fn run_with<P: Probe>(scenario: &Scenario, probe: &mut P) -> Result<Report, SimError> {
    let mut simulation = Simulation::with_probe(scenario, probe)?;
    simulation.run_until(Time::MAX)?;
    Ok(simulation.report())
}

impl Simulation {
    /// Creates a simulation, in the state before the first event.
    ///
    /// # Errors
    /// [`SimError`] for a scenario that cannot be.
    pub fn new(scenario: &Scenario) -> Result<Self, SimError> {
        Self::with_probe(scenario, ())
    }
}

impl<P: Probe> Simulation<P> {
    /// [`Simulation::new`], watched by `probe`.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    #[cold]
    pub fn with_probe(scenario: &Scenario, probe: P) -> Result<Self, SimError> {
        scenario.check()?;
        let mut seeds = Rng::new(scenario.seed);
        let mut network = Network::new(scenario, &mut seeds);
        let offered = network.offered(Time::ZERO, Time::ZERO + scenario.duration);
        let mut packets = Packets::default();
        let mut flows: Vec<Flow> = Vec::with_capacity(scenario.flows.len());
        let mut phase = Span::ZERO;
        let (mut shares, mut processes) = (Shares::new(), Processes::default());
        for spec in &scenario.flows {
            let seed = seeds.next_u64();
            // A pair is one program.
            if !spec.paired {
                phase = phase_of(spec, seed, flows.is_empty());
            }
            let cc = spec.controller.clone();
            let cc = match &spec.share {
                None => cc,
                Some(name) => shares.join(name.as_str(), cc, || processes.join(name)),
            };
            flows.push(Flow::new(
                scenario,
                spec,
                cc,
                phase,
                seed,
                (&mut network, &mut packets),
                &offered,
            ));
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
        Ok(Self {
            network,
            timers,
            first_start,
            max_events: scenario.max_events,
            max_at_once: MAX_AT_ONCE + MAX_AT_ONCE_PER_FLOW * flows.len() as u64,
            traffic: Traffic::new(probe, flows, packets, scenario, first_start),
            instant: (Time::ZERO, 0),
            look_at: 0,
            now: Time::ZERO,
            over: false,
            outbox: Vec::new(),
        })
    }

    /// The simulated time: everything up to here has happened.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Start of the window: the first full-size packet at a bottleneck, so `None` before
    /// it.
    pub fn started(&self) -> Option<Time> {
        self.traffic.window
    }

    /// End of the window, as far as is known: it has its length from its start on.
    pub fn end(&self) -> Time {
        self.traffic.end
    }

    /// The window is over: nothing more will happen.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The present state of flow number `number`, from 0; `None` if there is none.
    pub fn flow(&mut self, number: usize) -> Option<FlowStatus> {
        self.traffic.flows.get_mut(number).map(Flow::status)
    }

    /// The figures of the window up to now. Of a run that is not over the window is as long as it
    /// has lasted.
    #[cold]
    pub fn report(&mut self) -> Report {
        let traffic = &mut self.traffic;
        let started = traffic.window.unwrap_or(self.first_start);
        let duration = if self.over {
            traffic.duration
        } else {
            self.now.since(started)
        };
        let offered = self.network.offered(started, started + duration);
        let flows = traffic.flows.iter_mut();
        let flows = flows.map(|flow| flow.report(duration, offered[flow.bottleneck]));
        let flows = flows.collect();
        let counters = traffic.counters.chunks_exact(2);
        let links = counters.zip(offered.chunks_exact(2));
        Report {
            flows,
            links: links
                .map(|(counters, offered)| LinkReport {
                    down: counters[0],
                    up: counters[1],
                    opportunities_down: offered[0],
                    opportunities_up: offered[1],
                })
                .collect(),
            started,
            duration,
            events: traffic.events,
        }
    }

    /// Goes on until all that happens up to `until` has happened, or the window is over.
    ///
    /// Within one moment the network moves first, then hosts react, then meters look.
    ///
    /// # Errors
    /// [`SimError`] if it would not end, or the probe stops it: then nothing more can be done with
    /// it.
    pub fn run_until(&mut self, until: Time) -> Result<(), SimError> {
        loop {
            let (network, index) = self.network.first();
            let (timer, flow) = self.timers.first();
            let first = network.min(timer).min(self.traffic.sample_at);
            // A timeout that has just become shorter may have been due already: it is late, but
            // time does not run backwards.
            let now = first.max(self.instant.0);
            if now > self.traffic.end || now == Time::MAX {
                self.over |= until >= self.traffic.end;
                return self.stop_at(until.min(self.traffic.end));
            }
            if now > until {
                return self.stop_at(until);
            }
            if network == first {
                self.network.advance(now, index, &mut self.traffic);
            } else if timer == first {
                self.count(now)?;
                self.on_timer(now, flow);
            } else {
                self.count(now)?;
                self.sample(now);
            }
            while let Some(id) = self.traffic.packets.pop_moved() {
                self.count(now)?;
                self.next_hop(now, id);
            }
        }
    }

    /// All that happens up to `now` has happened.
    #[cold]
    fn stop_at(&mut self, now: Time) -> Result<(), SimError> {
        self.now = self.now.max(now);
        self.network.catch_up(self.now, &mut self.traffic);
        self.traffic.pass_reported();
        Ok(())
    }

    /// One more event: an error if there are too many. What happens inside a link is none.
    #[inline]
    fn count(&mut self, now: Time) -> Result<(), SimError> {
        self.traffic.events += 1;
        let events = self.traffic.events;
        if now > self.instant.0 {
            self.instant = (now, events);
        }
        if events < self.look_at {
            return Ok(());
        }
        self.look(now)
    }

    /// Are there too many events, or is it time to show progress?
    #[cold]
    fn look(&mut self, now: Time) -> Result<(), SimError> {
        let events = self.traffic.events;
        if events > self.max_events {
            return Err(SimError::Events { events, at: now });
        }
        let at_once = events - self.instant.1;
        if at_once > self.max_at_once {
            return Err(SimError::Standstill {
                events: at_once,
                at: now,
            });
        }
        if events.is_multiple_of(PROGRESS_INTERVAL)
            && !self.traffic.probe.progress(now, self.traffic.end)
        {
            return Err(SimError::Stopped { at: now });
        }
        // An instant that begins later reaches its limit later: this is never too late.
        let most = self.max_events.min(self.instant.1 + self.max_at_once);
        let progress = (events / PROGRESS_INTERVAL + 1) * PROGRESS_INTERVAL;
        self.look_at = progress.min(most.saturating_add(1));
        Ok(())
    }

    /// A packet has left a hop: on to the next, or to its host.
    fn next_hop(&mut self, now: Time, id: u32) {
        let traffic = &mut self.traffic;
        let (next, through) = traffic.packets.next_hop(id);
        let packet = traffic.packets.get(id);
        let number = packet.flow as usize;
        if packet.data && through {
            let flow = &mut traffic.flows[number];
            if flow.propagation.is_none() {
                flow.meter.delay.add(now.since(packet.sent));
            }
        }
        match next {
            Next::Hop => self.enter(now, id),
            Next::Host => {
                traffic.notify(now, id, PacketStep::Received);
                traffic.packets.remove(id);
                self.deliver(now, number, id);
            }
        }
    }

    /// The receiving host sends the packet that `write` writes in place. Returns the length.
    #[inline(always)]
    fn push(
        &mut self,
        now: Time,
        number: usize,
        write: impl FnOnce(&mut Receiver, &mut Content) -> Bytes,
    ) {
        let Traffic { flows, packets, .. } = &mut self.traffic;
        let flow = &mut flows[number];
        if let Endpoints::Acked { receiver, .. } = &mut flow.endpoints {
            let id = packets.insert(InFlight::new(now, number, flow.routes[1]));
            let len = write(receiver, packets.content_mut(id));
            packets.get_mut(id).len = len.get() as u32;
            self.leave(now, id);
        }
    }

    /// The receiving host sends an acknowledgement, if one is due.
    #[inline(always)]
    fn acknowledge(&mut self, now: Time, number: usize) {
        if let Endpoints::Acked { receiver, .. } = &self.traffic.flows[number].endpoints
            && receiver.is_ack_due(now)
        {
            self.push(now, number, |receiver, content| {
                receiver.write_ack(now, content.ack())
            });
        }
    }

    /// A packet leaves its host.
    fn leave(&mut self, now: Time, id: u32) {
        self.traffic.notify(now, id, PacketStep::Sent);
        self.enter(now, id);
    }

    /// A packet enters its present hop.
    fn enter(&mut self, now: Time, id: u32) {
        if let Some(outer) = self.network.enter(now, id, &mut self.traffic) {
            self.enter_tunnel(now, outer, id);
        }
    }

    /// A packet, which is freed already, is at its host.
    fn deliver(&mut self, now: Time, number: usize, id: u32) {
        let Traffic { flows, packets, .. } = &mut self.traffic;
        let flow = &mut flows[number];
        match (packets.content(id), &mut flow.endpoints) {
            (Content::Data(data), Endpoints::Acked { host, receiver }) => {
                let app = &flow.app;
                let written_at = |position| {
                    let at = host.written_at(position);
                    app.written_at(position).map_or(at, |due| due.min(at))
                };
                if packets.get(id).ecn == Ecn::Ce {
                    flow.meter.marked += 1;
                    receiver.on_mark(data);
                }
                receiver.on_data(now, data, &mut flow.meter, written_at);
                let complete = receiver.cumulative_ack();
                if flow.completed.is_none() && flow.app.size().is_some_and(|s| complete >= s) {
                    flow.completed = Some(now);
                }
                self.acknowledge(now, number);
                self.after_data(now, number);
            }
            (Content::Data(data), Endpoints::Udp(udp)) => {
                udp.arrived += data.len;
                let after = now.since(data.sent_at);
                flow.meter.delivered_to_application(after);
            }
            (Content::Ack(ack), Endpoints::Acked { host, receiver }) => {
                let arrivals = receiver.take_arrivals(ack);
                host.on_ack(now, ack, &arrivals);
                self.transmit(now, number);
            }
            (Content::Report(report), Endpoints::Acked { .. }) => {
                let report = *report;
                self.deliver_report(now, number, report);
            }
            (Content::Ack(_) | Content::Report(_), Endpoints::Udp(_)) => {}
        }
    }

    /// Work of the receiving host after data has arrived. Most flows only have a timer.
    #[inline(always)]
    fn after_data(&mut self, now: Time, number: usize) {
        let flow = &self.traffic.flows[number];
        if let Endpoints::Acked { receiver, .. } = &flow.endpoints
            && flow.tunnel.is_none()
            && flow.partner.is_none()
            && !receiver.has_module()
        {
            let next = receiver.next_timer();
            self.earlier(number, next);
        } else {
            self.after_data_of_few(now, number);
        }
    }

    #[cold]
    fn after_data_of_few(&mut self, now: Time, number: usize) {
        if self.traffic.flows[number].tunnel.is_some() {
            self.leave_tunnel(now, number);
        }
        self.report_back(now, number);
        self.schedule_receiver(number);
    }

    #[cold]
    fn deliver_report(&mut self, now: Time, number: usize, report: u64) {
        if let Endpoints::Acked { host, receiver } = &mut self.traffic.flows[number].endpoints
            && let Some(report) = receiver.take_report(report)
        {
            host.on_feedback(now, &report);
            self.transmit(now, number);
        }
    }

    /// Sends the report of the receiver module, if one is due.
    #[inline]
    fn report_back(&mut self, now: Time, number: usize) {
        let flow = &self.traffic.flows[number];
        if let Endpoints::Acked { receiver, .. } = &flow.endpoints
            && receiver.has_module()
            && flow.partner.is_none()
        {
            self.push_report(now, number);
        }
    }

    #[cold]
    fn push_report(&mut self, now: Time, number: usize) {
        if let Endpoints::Acked { receiver, .. } = &mut self.traffic.flows[number].endpoints
            && let Some((report, len)) = receiver.report(now)
        {
            self.push(now, number, |_, content| {
                *content = Content::Report(report);
                UDP_HEADER + len
            });
        }
    }

    /// Runs the expired timers of a flow: its start, its end, its application, its receiver, its
    /// sender.
    #[inline(never)]
    fn on_timer(&mut self, now: Time, number: usize) {
        let flow = &mut self.traffic.flows[number];
        let mut act = false;
        if !flow.started {
            flow.started = true;
            if let Endpoints::Acked { host, .. } = &mut flow.endpoints {
                host.on_start(now);
            }
            act = true;
        }
        let mut written = flow.app.poll(now);
        if flow.stop.is_some_and(|stop| stop <= now) {
            flow.stop = None;
            flow.app.stop();
            written = Some(0);
        }
        match &mut flow.endpoints {
            Endpoints::Acked { host, receiver } => {
                if let Some(upto) = written {
                    host.on_write(now, upto);
                    act = true;
                }
                receiver.on_timer(now);
                if host.next_timer().is_some_and(|at| at <= now) {
                    host.on_timer(now);
                    act = true;
                }
                self.acknowledge(now, number);
                self.report_back(now, number);
            }
            Endpoints::Udp(udp) => {
                udp.on_write(written.unwrap_or(0));
                act = true;
            }
        }
        if act {
            self.transmit(now, number);
        }
        let next = self.traffic.flows[number].next_timer();
        self.timers.set(number, next);
    }

    /// Lets a host send, after something happened to it.
    fn transmit(&mut self, now: Time, number: usize) {
        if self.traffic.probe.is_enabled()
            && let Endpoints::Acked { host, .. } = &mut self.traffic.flows[number].endpoints
        {
            let lost = host.take_lost();
            if !lost.is_empty() {
                self.traffic.pass_reported();
                self.traffic.probe.lost(now, number, &lost);
            }
        }
        let mut outbox = std::mem::take(&mut self.outbox);
        let Traffic { flows, packets, .. } = &mut self.traffic;
        let flow = &mut flows[number];
        if flow.tunnel.is_some() {
            flow.write_records(now, |id| packets.get(id).len);
        }
        let mut out = Outbox {
            packets,
            common: InFlight {
                data: true,
                ecn: if flow.ecn { Ecn::Ect0 } else { Ecn::NotEct },
                ..InFlight::new(now, number, flow.routes[0])
            },
            header: UDP_HEADER,
            meter: &mut flow.meter,
            ids: &mut outbox,
        };
        match &mut flow.endpoints {
            Endpoints::Acked { host, .. } => {
                out.header = host.rules().header;
                host.send(now, &mut out);
            }
            Endpoints::Udp(udp) => udp.send(now, &flow.app, &mut out),
        }
        if let Some(other) = flow.partner.filter(|_| !outbox.is_empty()) {
            self.push_report(now, other);
        }
        for id in &outbox {
            self.leave(now, *id);
        }
        outbox.clear();
        self.outbox = outbox;
        if self.traffic.probe.is_enabled() {
            self.traffic.pass_reported();
        }
        if self.traffic.probe.is_enabled()
            && let Endpoints::Acked { host, .. } = &self.traffic.flows[number].endpoints
        {
            self.traffic.probe.flow(&FlowState {
                at: now,
                flow: number,
                in_flight: host.in_flight(),
                window: match host.kernel_window() {
                    Some(segments) => Some(host.rules().mss.mul_f64(segments)),
                    None => host.window().filter(|window| *window != Bytes::MAX),
                },
                mss: host.rules().mss,
                rtt: host.rtt(),
                controller: host.controller(),
            });
        }
        self.schedule(number);
    }

    /// Moves the flow's timer to an earlier time if need be, after something happened to its
    /// sender. A timer that has become too early fires and is set again then.
    fn schedule(&mut self, number: usize) {
        let flow = &self.traffic.flows[number];
        let next = match &flow.endpoints {
            Endpoints::Acked { host, .. } if flow.partner.is_none() => host.next_timer(),
            _ => Some(flow.next_timer()),
        };
        self.earlier(number, next);
    }

    /// The same after something happened to its receiver.
    fn schedule_receiver(&mut self, number: usize) {
        let flow = &self.traffic.flows[number];
        let next = match &flow.endpoints {
            Endpoints::Acked { receiver, .. } if flow.partner.is_none() => receiver.next_timer(),
            _ => Some(flow.next_timer()),
        };
        self.earlier(number, next);
    }

    fn earlier(&mut self, number: usize, next: Option<Time>) {
        if let Some(next) = next
            && next < self.timers.at(number)
        {
            self.timers.set(number, next);
        }
    }

    #[cold]
    fn sample(&mut self, now: Time) {
        self.network.catch_up(now, &mut self.traffic);
        let traffic = &mut self.traffic;
        let Some((every, start)) = traffic.series.zip(traffic.window) else {
            traffic.sample_at = Time::MAX;
            return;
        };
        let interval = now.since(traffic.sampled_at);
        for flow in traffic.flows.iter_mut().filter(|flow| flow.started) {
            let link = &self.network.links[flow.bottleneck];
            let offered = link.opportunity_bytes(traffic.sampled_at, now);
            flow.sample(now.since(start), offered, interval);
        }
        traffic.sampled_at = now;
        traffic.sample_at = now + every;
    }
}
