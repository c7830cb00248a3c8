// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Observation of a run: packet by packet for captures, flow by flow for logs.
use alcc_cc::{Controller, Event, RttView};
use alcc_flow::{Ack, FoundLost};
use alcc_link::Dir;
use alcc_units::{Bytes, Time};

/// Watches a run. Every method has an empty body: implement only those that you need. `()` watches
/// nothing and costs nothing.
///
/// ```
/// use alcc_link::{QueueSpec, RateSpec};
/// use alcc_sim::{PacketEvent, PacketStep, Probe, Scenario, run_with};
/// use alcc_units::{Bytes, Rate, Span};
///
/// #[derive(Default)]
/// struct Drops(u64);
///
/// impl Probe for Drops {
///     fn packet(&mut self, event: &PacketEvent) {
///         self.0 += u64::from(matches!(event.what, PacketStep::Dropped(..)));
///     }
/// }
///
/// let (link, queue) = (RateSpec::Fixed(Rate::mbps(12)), QueueSpec::droptail(Bytes::new(30_000)));
/// let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), queue).with("cubic")?;
/// scenario.duration = Span::from_secs(5);
/// let mut drops = Drops::default();
/// run_with(&scenario, &mut drops)?;
/// assert!(drops.0 > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Probe {
    /// True if it wants packets and flows at all. Called often; the answer must always be the same.
    fn is_enabled(&self) -> bool {
        true
    }

    /// Something happened to a packet.
    fn packet(&mut self, _event: &PacketEvent) {}

    /// A flow's sender has found these packets lost, `at` that time. Retransmissions follow.
    fn lost(&mut self, _at: Time, _flow: usize, _packets: &[FoundLost]) {}

    /// A flow's sender has just dealt with an acknowledgement or a timer, and has sent what it
    /// wanted to send.
    fn flow(&mut self, _state: &FlowState<'_>) {}

    /// True if it wants the events of algorithms. Called before the run.
    fn wants_algorithms(&self) -> bool {
        false
    }

    /// The algorithm of a flow has reported an event. A probe of packets gets it before the packets
    /// that follow from it, another one at the end of the step.
    fn algorithm(&mut self, _event: &AlgorithmEvent) {}

    /// Called from time to time. Simulated time is `now`. The run will end at `end`, as far as is
    /// known. False ends the run with [`SimError::Stopped`](crate::SimError::Stopped).
    fn progress(&mut self, _now: Time, _end: Time) -> bool {
        true
    }
}

impl Probe for () {
    fn is_enabled(&self) -> bool {
        false
    }
}

impl<P: Probe + ?Sized> Probe for &mut P {
    fn is_enabled(&self) -> bool {
        (**self).is_enabled()
    }

    fn packet(&mut self, event: &PacketEvent) {
        (**self).packet(event);
    }

    fn lost(&mut self, at: Time, flow: usize, packets: &[FoundLost]) {
        (**self).lost(at, flow, packets);
    }

    fn flow(&mut self, state: &FlowState<'_>) {
        (**self).flow(state);
    }

    fn wants_algorithms(&self) -> bool {
        (**self).wants_algorithms()
    }

    fn algorithm(&mut self, event: &AlgorithmEvent) {
        (**self).algorithm(event);
    }

    fn progress(&mut self, now: Time, end: Time) -> bool {
        (**self).progress(now, end)
    }
}

/// An event that an algorithm reported.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AlgorithmEvent {
    /// Time of the event.
    pub at: Time,
    /// Number of the flow in the scenario, from 0.
    pub flow: usize,
    /// The event.
    pub event: Event,
    /// Round-trip times that its host knew by then.
    pub rtt: RttView,
}

/// Something happened to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketEvent {
    /// Time of the event.
    pub at: Time,
    /// Number of its flow in the scenario, from 0.
    pub flow: usize,
    /// Place and kind of the event.
    pub what: PacketStep,
    /// Its length in IP bytes.
    pub len: Bytes,
    /// Its content.
    pub content: PacketContent,
}

/// A step on a packet's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketStep {
    /// Its host sent it.
    Sent,
    /// It reached the queue of a link.
    Arrived(LinkDir),
    /// Its last byte left that link's bottleneck.
    Departed(LinkDir),
    /// It was lost there.
    Dropped(LinkDir, alcc_link::DropReason),
    /// The other host has it.
    Received,
}

/// One direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkDir {
    /// Number of the link in the scenario, from 0.
    pub link: usize,
    /// The direction.
    pub dir: Dir,
}

/// Content of a packet. Positions are those of the byte stream, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketContent {
    /// Payload.
    Data {
        /// Number of the transmission; a retransmission has a new one.
        pn: u64,
        /// Position of its first byte in the stream.
        start: u64,
        /// Bytes of payload.
        len: u64,
        /// A datagram of a constant-rate sender, without TCP.
        udp: bool,
        /// A segment of a byte stream such as TCP; otherwise a datagram.
        stream: bool,
        /// The sender's clock when it left.
        sent_at: Time,
        /// The newest time stamp of the receiver.
        echo: Time,
    },
    /// An acknowledgement.
    Ack {
        /// True for a byte stream, false for datagrams.
        stream: bool,
        /// Its content.
        ack: Ack,
    },
    /// A report of an algorithm's receiver module to its sender.
    Report,
}

/// The state of a sender at one moment.
pub struct FlowState<'a> {
    /// The present time.
    pub at: Time,
    /// Number of the flow in the scenario, from 0.
    pub flow: usize,
    /// Payload in flight.
    pub in_flight: Bytes,
    /// The congestion window, of the simulated kernel if there is one. `None` if the algorithm limits
    /// by other means.
    pub window: Option<Bytes>,
    /// Payload of a full packet.
    pub mss: Bytes,
    /// The sender's estimate.
    pub rtt: RttView,
    /// The algorithm, to read its state; `None` before the start.
    pub controller: Option<&'a dyn Controller>,
}
