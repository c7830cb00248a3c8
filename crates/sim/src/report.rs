// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::Summary;
use alcc_units::{Bytes, Rate, Span, Time};

/// What a run gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// One per flow, in the order of the scenario.
    pub flows: Vec<FlowReport>,
    /// Begin of the window: the first full-size packet at the bottleneck; the origin if there was none.
    pub started: Time,
    /// Its length.
    pub duration: Span,
    /// What the bottleneck offered in it; [`Bytes::MAX`] without a bottleneck.
    pub opportunities: Bytes,
    /// How many events the engine handled: its cost.
    pub events: u64,
}

/// What a run gave for one flow. All figures are of the window. Delays are one way.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowReport {
    /// What a reader calls it.
    pub scheme: String,
    /// IP bytes that the bottleneck delivered.
    pub delivered: Bytes,
    /// The same per time.
    pub throughput: Rate,
    /// Delivered / offered, 0 to 1; `None` without a bottleneck.
    pub utilization: Option<f64>,
    /// Payload that reached the receiving application.
    pub goodput_bytes: Bytes,
    /// Queueing at the bottleneck and propagation, per delivered packet.
    pub delay: Summary,
    /// Queueing at the bottleneck alone.
    pub queue_delay: Summary,
    /// From the application's write to the delivery at the other application, per segment. For a native sender a write is
    /// the first transmission.
    pub app_delay: Summary,
    /// Round trips as the sender saw them.
    pub rtt: Summary,
    /// Data packets that entered the path.
    pub sent: u64,
    /// Data packets that left the bottleneck.
    pub packets: u64,
    /// Data packets that were lost on the path, overflow and random loss together.
    pub dropped: u64,
    /// Data packets inside the path when the window ended.
    pub inside: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Above TCP: how often a write was refused or cut short.
    pub gate_closed: u64,
    /// The time series, if asked for.
    pub series: Vec<Sample>,
}

/// A named internal value of an algorithm.
pub type Gauge = (&'static str, f64);

/// One sample of a flow's time series; covers the interval that ends at `at`.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Since the window began.
    pub at: Span,
    /// What the bottleneck offered.
    pub capacity: Rate,
    /// What it delivered of this flow.
    pub throughput: Rate,
    /// Mean queueing of what it delivered; `None` if nothing.
    pub queue_delay: Option<Span>,
    /// Packets of this flow that it lost.
    pub dropped: u64,
    /// Payload under way at the end.
    pub in_flight: Bytes,
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
