// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface between the engine and a sending host. A kind of host is one file; sending and
//! repairing packets is the work of `alcc_flow`.
use crate::histogram::Durations;
use crate::network::Outbox;
use alcc_cc::{Controller, Log, Receiver, RttView};
use alcc_flow::rules::AckRule;
use alcc_flow::{Ack, Arrival, FoundLost, Rules, Sender};
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;

pub(crate) mod native;
pub(crate) mod over_tcp;
pub(crate) mod udp;

/// Length of the IPv4 and UDP headers.
pub(crate) const UDP_HEADER: Bytes = Bytes::new(28);

/// A sender's statistics, for the report.
#[derive(Clone, Debug, Default)]
pub(crate) struct SenderStats {
    /// Round-trip times as the sender saw them.
    pub(crate) rtt: Durations,
    /// The last of them.
    pub(crate) last_rtt: Option<Span>,
    pub(crate) retransmits: u64,
    pub(crate) timeouts: u64,
    pub(crate) episodes: u64,
    pub(crate) gate_closed: u64,
    /// See [`alcc_flow::SenderStats::rounds`].
    pub(crate) rounds: (u64, u64),
}

impl SenderStats {
    fn record_rtt(&mut self, sender: &Sender) {
        if let Some(rtt) = sender.last_rtt() {
            self.rtt.add(rtt);
            self.last_rtt = Some(rtt);
        }
    }

    fn count(&mut self, sender: &Sender) {
        let stats = sender.stats();
        (self.retransmits, self.timeouts) = (stats.retransmits, stats.timeouts);
        self.episodes = stats.episodes;
        self.rounds = stats.rounds;
    }
}

/// The sending host of one flow. Within one instant the engine calls the `on_` functions, then
/// `send`, then calls `next_timer`.
pub(crate) trait Host: Send {
    /// The rules of both ends.
    fn rules(&self) -> &Rules;

    /// Acknowledgement rules of its receiver.
    fn acks(&self) -> AckRule {
        self.rules().acks
    }

    /// Receives the algorithm's events.
    fn set_log(&mut self, log: Log);

    /// The flow begins.
    fn on_start(&mut self, now: Time);

    /// From now on the stream may be sent up to `upto` (`u64::MAX`: without end). What has been
    /// sent already stays sent: less means that nothing new may leave.
    fn on_write(&mut self, now: Time, upto: u64);

    /// An acknowledgement, with receive times if the rules have them.
    fn on_ack(&mut self, now: Time, ack: &Ack, arrivals: &[Arrival]);

    /// The algorithm's receiver module.
    fn receiver_module(&self) -> Option<Box<dyn Receiver>> {
        None
    }

    /// A report of the receiver module.
    fn on_feedback(&mut self, _now: Time, _report: &[u8]) {}

    /// Runs expired timers. A no-op when called early.
    fn on_timer(&mut self, now: Time);

    /// Sends the packets that may leave now, into `out`.
    fn send(&mut self, now: Time, out: &mut Outbox<'_>);

    /// Time at which `on_timer` is to be called; later than the last call.
    fn next_timer(&self) -> Option<Time>;

    /// Time at which the byte at `position` was written. Positions never decrease.
    fn written_at(&mut self, position: u64) -> Time;

    /// Bytes that the socket has accepted so far.
    fn written(&self) -> u64;

    /// Payload in flight.
    fn in_flight(&self) -> Bytes;

    /// See [`Sender::keep_lost`].
    fn keep_lost(&mut self);

    /// See [`Sender::take_lost`].
    fn take_lost(&mut self) -> Vec<FoundLost>;

    /// The sender's estimate of the round-trip time.
    fn rtt(&self) -> RttView;

    /// See [`Sender::outcome`].
    fn outcome(&self) -> (Bytes, u64);

    /// The algorithm's window.
    fn window(&self) -> Option<Bytes>;

    /// The simulated kernel's congestion window in segments.
    fn kernel_window(&self) -> Option<f64> {
        None
    }

    /// The algorithm; `None` before the start.
    fn controller(&self) -> Option<&dyn Controller>;

    /// Statistics so far.
    fn stats(&mut self) -> &mut SenderStats;
}

/// Writes that have not all reached the other application: where each ended, and when
/// it happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes {
    ends: VecDeque<(u64, Time)>,
}

impl Writes {
    fn wrote(&mut self, now: Time, end: u64) {
        match self.ends.back_mut() {
            Some(last) if last.1 == now => last.0 = end,
            _ => self.ends.push_back((end, now)),
        }
    }

    fn at(&mut self, position: u64) -> Time {
        while self.ends.front().is_some_and(|(end, _)| *end <= position) {
            self.ends.pop_front();
        }
        self.ends.front().map_or(Time::MAX, |(_, at)| *at)
    }
}

/// The earlier of two times; `None` is never.
#[inline]
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
