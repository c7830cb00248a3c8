// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One flow of a run: its application, its two hosts, and what is measured of it.
use crate::histogram::Summary;
use crate::host::native::Native;
use crate::host::over_tcp::OverTcpHost;
use crate::host::udp::Udp;
use crate::host::{Host, Tally, earlier};
use crate::meter::Meter;
use crate::network::Network;
use crate::receiver::Receiver;
use crate::source::Supply;
use crate::{FlowReport, FlowSpec, FlowStatus, Sample, Scenario, Under};
use alcc_units::{Bytes, Rate, Rng, Span, Time};

/// Phases of flows are drawn from so long: Sprout's tick, four of Verus' epochs, a frame of an
/// application.
const PHASES: Span = Span::from_millis(20);

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
    pub(crate) ends: Endpoints,
    pub(crate) supply: Supply,
    pub(crate) meter: Meter,
    pub(crate) start: Time,
    pub(crate) stop: Option<Time>,
    /// When it was to stop: `stop` is forgotten then.
    stops: Option<Time>,
    pub(crate) started: bool,
    /// Its data may be marked (ECN).
    pub(crate) ecn: bool,
    /// The flow that goes back from where this one arrives and carries its receiver's reports.
    pub(crate) partner: Option<usize>,
    /// There and back.
    pub(crate) routes: [u16; 2],
    /// What a packet takes from host to host without queueing, if that is always the same.
    pub(crate) propagation: Option<Span>,
    /// The direction with the least to offer.
    pub(crate) tight: usize,
    pub(crate) completed: Option<Time>,
    pub(crate) series: Vec<Sample>,
}

/// By how much later a flow begins than its description says.
pub(crate) fn phase_of(spec: &FlowSpec, seed: u64, first: bool) -> Span {
    if let Some(phase) = spec.phase {
        return phase;
    }
    if first {
        return Span::ZERO;
    }
    let from = PHASES.max(spec.source.every);
    Span::from_nanos(Rng::new(seed ^ 0x0070_6861_7365).below(from.as_nanos()))
}

impl Endpoints {
    /// Payload that reached the receiving application, and what the sender did.
    fn counts(&mut self) -> (u64, Option<&mut Tally>) {
        match self {
            Self::Acked { host, receiver } => (receiver.complete(), Some(host.tally())),
            Self::Udp(udp) => (udp.arrived, None),
        }
    }
}

impl Flow {
    /// Before its start. `offered` is what each direction of the links offers in the window.
    pub(crate) fn new(
        scenario: &Scenario,
        spec: &FlowSpec,
        phase: Span,
        seed: u64,
        network: &mut Network,
        offered: &[Bytes],
    ) -> Self {
        let there = scenario.data_route(spec);
        let tight = there.iter().copied().min_by_key(|place| offered[*place]);
        // The way back takes the other direction of each link.
        let back: Vec<usize> = there.iter().rev().map(|place| place ^ 1).collect();
        let access = scenario.access(spec);
        // The rest of the round trip is on the sender's side of the links, both times.
        let routes = [
            network.route(&there, access / 2, true),
            network.route(&back, access - access / 2, false),
        ];
        let directions = || there.iter().map(|place| scenario.direction(*place));
        let steady = directions().all(|direction| direction.changes.is_empty());
        let delays = directions().map(|direction| direction.delay);
        let propagation = steady.then(|| delays.fold(access / 2, |a, b| a + b));
        let cc = spec.controller.clone_box();
        let rtt = scenario.min_rtt(spec);
        let (start, stop) = (spec.start + phase, spec.stop.map(|stop| stop + phase));
        let acked = |host: Box<dyn Host>| Endpoints::Acked {
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
            Under::Udp { packet } => Endpoints::Udp(Udp::new(*packet)),
        };
        Self {
            scheme: spec.scheme(),
            ends,
            supply: Supply::new(spec.source, start),
            meter: Meter::default(),
            start,
            stop,
            stops: stop,
            started: false,
            ecn: spec.ecn,
            partner: None,
            routes,
            propagation,
            tight: tight.unwrap_or(0),
            completed: None,
            series: Vec::new(),
        }
    }

    /// When something is due of its application or at one of its ends.
    pub(crate) fn next_timer(&self) -> Time {
        let next = self.supply.next().min(self.stop.unwrap_or(Time::MAX));
        let Endpoints::Acked { host, receiver } = &self.ends else {
            return next;
        };
        let wanted = earlier(host.next_wake(), receiver.next_wake());
        next.min(wanted.unwrap_or(Time::MAX))
    }

    /// One more sample of its time series, `at` after the window's begin.
    pub(crate) fn sample(&mut self, at: Span, offered: Bytes, interval: Span) {
        let lately = std::mem::take(&mut self.meter.lately);
        let mut gauges = Vec::new();
        let (mut in_flight, mut window, mut kernel_cwnd) = (Bytes::ZERO, None, None);
        if let Endpoints::Acked { host, .. } = &self.ends {
            host.gauges(&mut |name, value| gauges.push((name, value)));
            (in_flight, kernel_cwnd) = (host.in_flight(), host.kernel_window());
            window = host.window().filter(|window| *window != Bytes::MAX);
        }
        self.series.push(Sample {
            at,
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

    pub(crate) fn status(&mut self) -> FlowStatus {
        let (goodput, tally) = self.ends.counts();
        let mut status = FlowStatus {
            delivered: self.meter.delivered_bytes,
            goodput_bytes: Bytes::new(goodput),
            sent: self.meter.sent,
            dropped: self.meter.dropped,
            ..FlowStatus::default()
        };
        if let Some(tally) = tally {
            (status.retransmits, status.rtt) = (tally.retransmits, tally.last_rtt);
        }
        if let Endpoints::Acked { host, .. } = &self.ends {
            status.in_flight = host.in_flight();
            status.window = host.window().filter(|window| *window != Bytes::MAX);
            status.kernel_cwnd = host.kernel_window();
            host.gauges(&mut |name, value| status.gauges.push((name, value)));
        }
        status
    }

    /// `offered` is what its tight direction offered in that `duration`.
    pub(crate) fn report(&mut self, duration: Span, offered: Bytes) -> FlowReport {
        let (goodput, tally) = self.ends.counts();
        let (retransmits, timeouts, gate_closed, rtt) = match tally {
            Some(t) => (t.retransmits, t.timeouts, t.gate_closed, t.rtt.summary()),
            None => (0, 0, 0, Summary::default()),
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
                Some(propagation) => queue_delay.later(propagation),
                None => meter.delay.summary(),
            },
            queue_delay,
            signal_delay_p95: meter.signal.p95(),
            app_delay: meter.app_delay.summary(),
            rtt,
            sent: meter.sent,
            packets: meter.delivered,
            dropped: meter.dropped,
            marked: meter.marked,
            inside: meter.sent - meter.delivered - (meter.dropped - meter.dropped_late),
            retransmits,
            rtx_burst: (meter.again.1 > 0).then(|| meter.again.0 as f64 / meter.again.1 as f64),
            timeouts,
            gate_closed,
            completion: self.completed.map(|at| at.since(self.start)),
            active: (self.start, self.stops, self.completed),
            seconds: meter.seconds.clone(),
            series: self.series.clone(),
        }
    }
}
