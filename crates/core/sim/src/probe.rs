// SPDX-License-Identifier: Apache-2.0 OR MIT
//! To watch a run while it goes: packet by packet for captures, flow by flow for logs.
use alcc_cc::{Log, ProfilePoint};
use alcc_flow::Ack;
use alcc_link::Dir;
use alcc_units::{Bytes, Time};

/// Watches a run. Every method has an empty body: say only what you want to know. `()` watches
/// nothing and costs nothing.
pub trait Probe {
    /// Whether it wants packets and flows at all. Asked often: the same answer each
    /// time.
    fn is_enabled(&self) -> bool {
        true
    }

    /// Something happened to a packet.
    fn packet(&mut self, _event: &PacketEvent) {}

    /// A flow's sender has just dealt with an acknowledgement or a timer, and has sent what it
    /// wanted to send.
    fn flow(&mut self, _state: &FlowState<'_>) {}

    /// Where the events of that flow's algorithm go. Asked once, before the run.
    fn log(&mut self, _flow: usize) -> Option<Log> {
        None
    }

    /// Now and then: simulated time has come to `now` and will end at `end`, as far as is known.
    /// False ends the run with [`SimError::Stopped`](crate::SimError::Stopped).
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

    fn flow(&mut self, state: &FlowState<'_>) {
        (**self).flow(state);
    }

    fn log(&mut self, flow: usize) -> Option<Log> {
        (**self).log(flow)
    }

    fn progress(&mut self, now: Time, end: Time) -> bool {
        (**self).progress(now, end)
    }
}

/// Something happened to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketEvent {
    /// When.
    pub at: Time,
    /// Number of its flow in the scenario, from 0.
    pub flow: usize,
    /// Where and what.
    pub what: PacketStep,
    /// Its length in IP bytes.
    pub len: Bytes,
    /// What is in it.
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

/// What a packet carries. Positions are those of the byte stream, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketContent {
    /// Payload.
    Data {
        /// Number of the transmission; a segment that is sent again has a new one.
        pn: u64,
        /// Where it begins in the stream.
        start: u64,
        /// Bytes of payload.
        len: u64,
        /// No TCP: a datagram of a constant-rate sender.
        udp: bool,
        /// A segment of a byte stream, as of TCP; else a datagram.
        stream: bool,
        /// The sender's clock as it left.
        sent_at: Time,
        /// The newest time stamp of the receiver.
        echo: Time,
    },
    /// An acknowledgement.
    Ack {
        /// Of a byte stream; else of datagrams.
        stream: bool,
        /// What it says.
        ack: Ack,
    },
    /// What the receiver module of an algorithm says to its sender.
    Report,
}

/// Takes a value by name.
pub type PutGauge<'a> = &'a mut dyn FnMut(&'static str, f64);

/// Takes the points of a delay profile.
pub type PutProfile<'a> = &'a mut dyn FnMut(ProfilePoint);

/// A sender at one moment.
pub struct FlowState<'a> {
    /// Now.
    pub at: Time,
    /// Number of the flow in the scenario, from 0.
    pub flow: usize,
    /// Payload under way.
    pub in_flight: Bytes,
    /// The simulated kernel's window, in segments.
    pub kernel_cwnd: Option<f64>,
    /// Asks for the algorithm's internal values.
    pub gauges: &'a dyn Fn(PutGauge<'_>),
    /// Asks for the algorithm's delay profile.
    pub profile: &'a dyn Fn(PutProfile<'_>),
}
