// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of a simulation, of its links and of its flows.
use crate::Summary;
use crate::fairness::{self, Share};
use crate::network::LinkCounters;
use alcc_units::{Bytes, Rate, Span, Time};

/// The results of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// One per flow, in the order of the scenario.
    pub flows: Vec<FlowReport>,
    /// One per link, in the order of the scenario.
    pub links: Vec<LinkReport>,
    /// Beginning of the window: the first full-size packet at a bottleneck, or the first flow's
    /// start if there was none.
    pub started: Time,
    /// Length of the window.
    pub duration: Span,
    /// Number of events that the engine handled: timers, packets that left a hop or were lost.
    pub events: u64,
}

/// Bytes and packets that passed a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkReport {
    /// Towards the receivers.
    pub down: LinkCounters,
    /// Towards the senders.
    pub up: LinkCounters,
    /// Capacity of the bottleneck in the window towards the receivers, bytes; [`Bytes::MAX`]
    /// without a bottleneck.
    pub opportunities_down: Bytes,
    /// The same in the other direction.
    pub opportunities_up: Bytes,
}

/// The results of one flow. All figures are of the window. Delays are one way.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowReport {
    /// Its name in results.
    pub scheme: String,
    /// IP bytes that the bottleneck delivered (in a chain: the last one).
    pub delivered: Bytes,
    /// The same as a rate.
    pub throughput: Rate,
    /// Delivered / offered, 0 to 1, of the link that offers the least; `None` without a bottleneck.
    pub utilization: Option<f64>,
    /// Payload that reached the receiving application.
    pub goodput_bytes: Bytes,
    /// Queueing and propagation, from the sender to the end of the last link, per delivered packet.
    pub delay: Summary,
    /// Queueing at bottlenecks alone.
    pub queue_delay: Summary,
    /// Mahimahi's signal delay, 95th percentile, without propagation, to a millisecond; `None` if
    /// nothing was delivered.
    pub signal_delay_p95: Option<Span>,
    /// From the application's write to the delivery at the other application, per segment. For a
    /// native sender with endless data, the first transmission counts as the write.
    pub app_delay: Summary,
    /// Round trips as the sender saw them.
    pub rtt: Summary,
    /// Data packets that entered the path.
    pub sent: u64,
    /// Data packets that left the (last) bottleneck.
    pub packets: u64,
    /// Data packets that were lost on the path, overflow and random loss together.
    pub dropped: u64,
    /// Those of them that had left the (last) bottleneck: throughput counts them, goodput does not.
    pub lost_behind: u64,
    /// Data packets that arrived with a mark (ECN).
    pub marked: u64,
    /// Data packets before or in a bottleneck when the window ended.
    pub in_network: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// The mean length of their runs; `None` if there were none.
    pub rtx_burst: Option<f64>,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Loss episodes: what one recovery repairs, or one timeout.
    pub loss_episodes: u64,
    /// Over TCP: how often a write was refused or cut short.
    pub gate_closed: u64,
    /// True if its send buffer was the limit in most round trips, although the application had more
    /// data.
    pub held_by_buffer: bool,
    /// A transfer of a given size: from its start until its last byte was delivered to the
    /// application. `None` if that did not happen.
    pub completion: Option<Span>,
    /// Times at which it started, at which it was to stop, including its phase, and at which its transfer was
    /// complete.
    pub active: (Time, Option<Time>, Option<Time>),
    /// IP bytes that the bottleneck delivered in each second of the window. Trailing seconds
    /// without bytes may be missing.
    pub seconds: Vec<u64>,
    /// It carries other flows (`tunnel=`): what it delivers belongs to them.
    pub is_carrier: bool,
    /// The time series, if requested.
    pub series: Vec<Sample>,
}

/// The state of a flow in the middle of a run. Counts are from the flow's start.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlowStatus {
    /// The algorithm's window (cwnd); `None` if it has none (its quota or its rate is the limit).
    pub window: Option<Bytes>,
    /// The simulated kernel's window, in segments; `None` for a native sender.
    pub kernel_cwnd: Option<f64>,
    /// Payload in flight.
    pub in_flight: Bytes,
    /// The last round-trip time that the sender saw.
    pub rtt: Option<Span>,
    /// IP bytes that the bottleneck delivered.
    pub delivered: Bytes,
    /// Payload that reached the receiving application.
    pub goodput_bytes: Bytes,
    /// Payload that the sender knows to have arrived.
    pub acked: Bytes,
    /// Packets that the sender has found lost.
    pub lost: u64,
    /// Data packets that entered the path.
    pub sent: u64,
    /// Data packets that were lost on the path.
    pub dropped: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// The algorithm's values, in its order.
    pub gauges: Vec<Gauge>,
}

/// A named internal value of an algorithm.
pub type Gauge = (&'static str, f64);

/// One sample of a flow's time series; covers the interval that ends at `at`.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Start of the interval, since the window began.
    pub at: Span,
    /// Capacity of the bottleneck.
    pub capacity: Rate,
    /// Throughput of this flow at the bottleneck.
    pub throughput: Rate,
    /// Mean queueing of what it delivered; `None` if nothing.
    pub queue_delay: Option<Span>,
    /// Packets of this flow that it lost.
    pub dropped: u64,
    /// Payload in flight at the end.
    pub in_flight: Bytes,
    /// The algorithm's window; `None` if it has none (its quota or its rate is the limit).
    pub window: Option<Bytes>,
    /// The simulated kernel's window, in segments; `None` for a native sender.
    pub kernel_cwnd: Option<f64>,
    /// The algorithm's values at the end, in its order.
    pub gauges: Vec<Gauge>,
}

impl FlowReport {
    /// Data packets lost / data packets that entered the path, 0 to 1; 0 if none entered.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 {
            0.0
        } else {
            self.dropped as f64 / self.sent as f64
        }
    }
}

impl Report {
    /// Jain's index of fairness of the flows' throughputs over the window, 1 when all are equal.
    /// `None` if nothing was delivered.
    pub fn jain(&self) -> Option<f64> {
        let ends = self.flows.iter().filter(|flow| !flow.is_carrier);
        fairness::jain(ends.map(|f| f.throughput.as_mbps_f64()))
    }

    /// The mean of Jain's index over the whole seconds of the window, from `settled` after its
    /// beginning. A second counts the flows that are there all that second, if there are two or
    /// more. `None` if there is no such second.
    pub fn jain_of_seconds(&self, settled: Span) -> Option<f64> {
        let second = Span::from_secs(1).as_nanos();
        let from = settled.as_nanos().div_ceil(second);
        fairness::jain_of_seconds(&self.shares(), from, self.duration.as_nanos() / second)
    }

    /// Every flow as input of the fairness measures.
    pub fn shares(&self) -> Vec<Share<'_>> {
        let share = |flow| self.share(flow);
        self.flows.iter().map(share).collect()
    }

    /// This flow as input of the fairness measures.
    pub fn share<'a>(&self, flow: &'a FlowReport) -> Share<'a> {
        let (start, stop, completed) = flow.active;
        let end = self.started + self.duration;
        // A carrier takes nothing from those in it.
        let none = flow.is_carrier.then_some(start.max(self.started));
        let to = stop.into_iter().chain(completed).chain(none);
        let to = to.fold(end, Time::min);
        Share {
            from: start.max(self.started).since(self.started),
            to: to.max(self.started).since(self.started),
            seconds: &flow.seconds,
        }
    }
}
