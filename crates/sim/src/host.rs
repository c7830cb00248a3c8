// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the engine asks of a sending host. A kind of host is one file.
use crate::histogram::Durations;
use crate::receiver::{AckPolicy, Data};
use alcc_cc::{Pn, Receiver};
use alcc_units::{Bytes, Time};

pub(crate) mod native;
pub(crate) mod over_tcp;
pub(crate) mod tcp;
pub(crate) mod tcp_window;
pub(crate) mod udp;

/// IPv4 and TCP with timestamps.
pub(crate) const TCP_HEADER: Bytes = Bytes::new(52);
/// IPv4 and UDP.
pub(crate) const UDP_HEADER: Bytes = Bytes::new(28);
/// A full packet on the wire.
pub(crate) const MTU: Bytes = Bytes::new(1500);

/// What a sender did, for the report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Round-trip times as the sender saw them.
    pub(crate) rtt: Durations,
    pub(crate) retransmits: u64,
    pub(crate) timeouts: u64,
    pub(crate) gate_closed: u64,
}

/// The sending host of one flow. Within one instant the engine calls the `on_` functions, then `send`, then asks `next_wake`.
pub(crate) trait Host {
    /// Bytes that each packet is longer on the wire than its payload.
    fn header(&self) -> Bytes;

    /// How its receiver acknowledges.
    fn ack_policy(&self) -> AckPolicy;

    /// The flow begins.
    fn on_start(&mut self, now: Time);

    /// From now on the stream may be sent up to `upto` (`u64::MAX`: without end). What has been sent already stays sent: less
    /// means that nothing new may leave.
    fn on_write(&mut self, now: Time, upto: u64);

    /// These transmissions have arrived, and the stream is complete up to `complete`.
    fn on_ack(&mut self, now: Time, arrived: &[Pn], complete: u64);

    /// The algorithm's half for the place where the packets arrive.
    fn receiver_half(&self) -> Option<Box<dyn Receiver>> {
        None
    }

    /// A report of that half.
    fn on_feedback(&mut self, _now: Time, _report: &[u8]) {}

    /// A moment that `next_wake` asked for, or an earlier one.
    fn on_wake(&mut self, now: Time);

    /// Sends what may leave now.
    fn send(&mut self, now: Time, out: &mut Vec<Data>);

    /// When `on_wake` wants to be called; later than the last call.
    fn next_wake(&self) -> Option<Time>;

    /// Payload under way.
    fn in_flight(&self) -> Bytes;

    /// The simulated kernel's congestion window in segments.
    fn kernel_window(&self) -> Option<f64> {
        None
    }

    /// The algorithm's internal values.
    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64));

    /// What happened so far.
    fn tally(&mut self) -> &mut Tally;
}

/// The smaller of two moments of which each may be "never".
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
