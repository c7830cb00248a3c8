// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One flow of a run: its application, its two hosts, and its measurements.
use crate::engine::tunnel::Tunnel;
use crate::histogram::Summary;
use crate::host::native::Native;
use crate::host::over_tcp::OverTcpHost;
use crate::host::udp::Udp;
use crate::host::{Host, SenderStats, earlier};
use crate::meter::Meter;
use crate::network::{Hop, Network, Packets};
use crate::receiver::Receiver;
use crate::source::AppModel;
use crate::{FlowReport, FlowSpec, FlowStatus, Sample, Scenario, Under};
use alcc_cc::Instance;
use alcc_units::{Bytes, Rate, Rng, Span, Time};

/// Maximum phase of a flow: Sprout's tick, four of Verus' epochs, a frame of an
/// application.
const MAX_PHASE: Span = Span::from_millis(20);

/// Both ends of a flow.
pub(crate) enum Endpoints {
    Acked {
        host: Box<dyn Host>,
        receiver: Box<Receiver>,
    },
    Udp(Udp),
}

pub(crate) struct Flow {
    scheme: String,
    pub(crate) endpoints: Endpoints,
    pub(crate) app: AppModel,
    pub(crate) meter: Meter,
    pub(crate) start: Time,
    pub(crate) stop: Option<Time>,
    /// Planned stop: `stop` is `None` from then on.
    stops: Option<Time>,
    pub(crate) started: bool,
    /// Its data may be marked (ECN).
    pub(crate) ecn: bool,
    /// The flow that goes back from where this one arrives and carries its receiver's reports.
    pub(crate) partner: Option<usize>,
    /// First legs of the data's and of the acknowledgements' route.
    pub(crate) routes: [u32; 2],
    /// The tunnel, if it carries the packets of other flows.
    pub(crate) tunnel: Option<Box<Tunnel>>,
    /// One-way delay of a packet from host to host without queueing, if it is constant.
    pub(crate) propagation: Option<Span>,
    /// The link direction that offers the least.
    pub(crate) bottleneck: usize,
    pub(crate) completed: Option<Time>,
    pub(crate) series: Vec<Sample>,
}

/// Delay of a flow's start after the start in its description.
pub(crate) fn phase_of(spec: &FlowSpec, seed: u64, first: bool) -> Span {
    if let Some(phase) = spec.phase {
        return phase;
    }
    if first {
        return Span::ZERO;
    }
    let from = MAX_PHASE.max(spec.source.every);
    Span::from_nanos(Rng::new(seed ^ 0x0070_6861_7365).below(from.as_nanos()))
}

impl Endpoints {
    /// Payload that reached the receiving application, and the sender's statistics.
    fn counts(&mut self) -> (u64, Option<&mut SenderStats>) {
        match self {
            Self::Acked { host, receiver } => (receiver.cumulative_ack(), Some(host.stats())),
            Self::Udp(udp) => (udp.arrived, None),
        }
    }
}

impl Flow {
    /// Before its start. `cc` decides for it; `offered` is what each direction of the links offers in the window.
    pub(crate) fn new(
        scenario: &Scenario,
        spec: &FlowSpec,
        cc: Instance,
        phase: Span,
        seed: u64,
        (network, packets): (&mut Network, &mut Packets),
        offered: &[Bytes],
    ) -> Self {
        let [carrier, carrier_back] = scenario.carriers(spec);
        let there = scenario.data_route(carrier.map_or(spec, |number| &scenario.flows[number]));
        let bottleneck = there.iter().copied().min_by_key(|index| offered[*index]);
        let inside = |carrier: Option<usize>, links: Vec<Hop>| {
            carrier.map_or(links, |number| vec![Hop::Tunnel(number)])
        };
        // The way back takes the other direction of each link.
        let back = there.iter().rev().map(|index| Hop::Link(index ^ 1));
        let forth = there.iter().map(|index| Hop::Link(*index));
        let access = scenario.access(spec);
        // The rest of the round trip is on the sender's side of the links, both times.
        let routes = [
            network.route(packets, &inside(carrier, forth.collect()), access / 2, true),
            network.route(
                packets,
                &inside(carrier_back, back.collect()),
                access - access / 2,
                false,
            ),
        ];
        let directions = || there.iter().map(|index| scenario.direction(*index));
        let steady = directions()
            .all(|direction| direction.changes.is_empty() && direction.radio.is_empty());
        let delays = directions().map(|direction| direction.delay);
        let least = delays.fold(access / 2, |a, b| a + b);
        let propagation = (steady && carrier.is_none()).then_some(least);
        let tunnel = scenario
            .is_carrier(spec)
            .then(|| Box::new(Tunnel::new(least, spec.txqueuelen)));
        let mut app = AppModel::new(spec.source, spec.start + phase);
        if tunnel.is_some() {
            // What it writes comes from others.
            app.stop();
        }
        let rtt = scenario.min_rtt(spec);
        let (start, stop) = (spec.start + phase, spec.stop.map(|stop| stop + phase));
        let acked = |host: Box<dyn Host>| Endpoints::Acked {
            receiver: Box::new(Receiver::new(
                host.rules(),
                host.acks(),
                host.receiver_module(),
            )),
            host,
        };
        let endpoints = match &spec.under {
            Under::Native(rules) => acked(Box::new(Native::new(cc, rules, start, rtt, seed))),
            Under::Tcp(kernel) => acked(Box::new(OverTcpHost::new(cc, kernel, start, rtt, seed))),
            Under::Udp { packet } => Endpoints::Udp(Udp::new(*packet)),
        };
        Self {
            scheme: spec.scheme(),
            endpoints,
            app,
            meter: Meter::default(),
            start,
            stop,
            stops: stop,
            started: false,
            ecn: spec.ecn,
            partner: None,
            routes,
            tunnel,
            propagation,
            bottleneck: bottleneck.unwrap_or(0),
            completed: None,
            series: Vec::new(),
        }
    }

    /// Next timer of its application or of one of its endpoints.
    #[inline(never)]
    pub(crate) fn next_timer(&self) -> Time {
        let next = self.app.next().min(self.stop.unwrap_or(Time::MAX));
        let Endpoints::Acked { host, receiver } = &self.endpoints else {
            return next;
        };
        let wanted = earlier(host.next_timer(), receiver.next_timer());
        next.min(wanted.unwrap_or(Time::MAX))
    }

    /// One more sample of its time series, `at` after the window's start.
    pub(crate) fn sample(&mut self, at: Span, offered: Bytes, interval: Span) {
        let totals = self.meter.sample();
        let mut gauges = Vec::new();
        let (mut in_flight, mut window, mut kernel_cwnd) = (Bytes::ZERO, None, None);
        if let Endpoints::Acked { host, .. } = &self.endpoints {
            if let Some(cc) = host.controller() {
                cc.gauges(&mut |name, value| gauges.push((name, value)));
            }
            (in_flight, kernel_cwnd) = (host.in_flight(), host.kernel_window());
            window = host.window().filter(|window| *window != Bytes::MAX);
        }
        self.series.push(Sample {
            at,
            capacity: Rate::of(offered, interval),
            throughput: Rate::of(totals.bytes, interval),
            queue_delay: (totals.packets > 0).then(|| totals.queueing / totals.packets),
            dropped: totals.dropped,
            in_flight,
            window,
            kernel_cwnd,
            gauges,
        });
    }

    pub(crate) fn status(&mut self) -> FlowStatus {
        let (goodput, stats) = self.endpoints.counts();
        let mut status = FlowStatus {
            delivered: self.meter.delivered_bytes,
            goodput_bytes: Bytes::new(goodput),
            sent: self.meter.sent,
            dropped: self.meter.dropped,
            ..FlowStatus::default()
        };
        if let Some(stats) = stats {
            (status.retransmits, status.rtt) = (stats.retransmits, stats.last_rtt);
        }
        if let Endpoints::Acked { host, .. } = &self.endpoints {
            status.in_flight = host.in_flight();
            (status.acked, status.lost) = host.outcome();
            status.window = host.window().filter(|window| *window != Bytes::MAX);
            status.kernel_cwnd = host.kernel_window();
            if let Some(cc) = host.controller() {
                cc.gauges(&mut |name, value| status.gauges.push((name, value)));
            }
        }
        status
    }

    /// `offered` is what its tight direction offered in that `duration`.
    pub(crate) fn report(&mut self, duration: Span, offered: Bytes) -> FlowReport {
        let (goodput, stats) = self.endpoints.counts();
        // A source without end always has something for the buffer.
        let held =
            self.app.is_endless() && stats.as_ref().is_some_and(|t| 2 * t.rounds.1 > t.rounds.0);
        let (retransmits, timeouts, episodes, gate_closed, rtt) = match stats {
            Some(t) => (
                t.retransmits,
                t.timeouts,
                t.episodes,
                t.gate_closed,
                t.rtt.summary(),
            ),
            None => (0, 0, 0, 0, Summary::default()),
        };
        let meter = &mut self.meter;
        let share = meter.delivered_bytes.get() as f64 / offered.get() as f64;
        let queue_delay = meter.queue_delay.summary();
        FlowReport {
            scheme: self.scheme.clone(),
            delivered: meter.delivered_bytes,
            throughput: if duration.is_zero() {
                Rate::ZERO
            } else {
                Rate::of(meter.delivered_bytes, duration)
            },
            utilization: (offered != Bytes::MAX && offered != Bytes::ZERO).then_some(share),
            goodput_bytes: Bytes::new(goodput),
            delay: match self.propagation {
                Some(propagation) => queue_delay.shifted_by(propagation),
                None => meter.delay.summary(),
            },
            queue_delay,
            signal_delay_p95: meter.signal.p95(),
            app_delay: meter.app_delay.summary(),
            rtt,
            sent: meter.sent,
            packets: meter.delivered,
            dropped: meter.dropped,
            lost_behind: meter.dropped_late,
            marked: meter.marked,
            in_network: meter.sent - meter.delivered - (meter.dropped - meter.dropped_late),
            retransmits,
            rtx_burst: (meter.retransmit_runs.1 > 0)
                .then(|| meter.retransmit_runs.0 as f64 / meter.retransmit_runs.1 as f64),
            timeouts,
            loss_episodes: episodes,
            gate_closed,
            held_by_buffer: held && gate_closed == 0,
            completion: self.completed.map(|at| at.since(self.start)),
            active: (self.start, self.stops, self.completed),
            seconds: meter.seconds.clone(),
            is_carrier: self.tunnel.is_some(),
            series: self.series.clone(),
        }
    }
}
