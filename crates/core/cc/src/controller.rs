// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trait, the events it receives and the allowance it answers with.
use crate::{EventSink, Header, Receiver};
use alcc_units::{Bytes, Rate, Span, Time};

/// Transmission number. Every transmission gets a new one, a retransmission too, so that RTT samples are unambiguous.
pub type Pn = u64;

/// Eight bytes that belong to the controller: returned by [`Controller::on_sent`], given back with the packet when it is
/// acknowledged or lost (Verus keeps its sending window there).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tag(pub u64);

/// What a controller answers: how much may leave, how fast, and whether a probe is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// Bytes in flight must not exceed this. At least one segment; [`Bytes::MAX`]: no window.
    pub window: Bytes,
    /// Bytes that may be released now, whatever is in flight. May be zero; [`Bytes::MAX`]: no quota.
    pub quota: Bytes,
    /// Pacing rate, 8 kbit/s to 1 Tbit/s; `None`: not paced.
    pub rate: Option<Rate>,
    /// Pacing credit: how much may leave back to back.
    pub burst: Bytes,
    /// One packet, empty if need be, should leave now, exempt from window and quota.
    pub ping: bool,
}

impl Allowance {
    /// No limit of any kind.
    pub const UNLIMITED: Self = Self {
        window: Bytes::MAX,
        quota: Bytes::MAX,
        rate: None,
        burst: Bytes::ZERO,
        ping: false,
    };

    /// A window and nothing else.
    pub const fn window(window: Bytes) -> Self {
        Self {
            window,
            ..Self::UNLIMITED
        }
    }
}

/// What comes with every event: the time and the place for log events.
pub struct Cx<'a> {
    /// Now. Never decreases from call to call, may be late.
    pub now: Time,
    /// Where the controller reports what it did.
    pub log: &'a mut dyn EventSink,
}

/// What is known about the path when a flow starts or changes route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Largest segment, at least 1 byte.
    pub mss: Bytes,
    /// RTT seen already, by the handshake for example.
    pub rtt_hint: Option<Span>,
    /// Seed of the controller's own generator.
    pub seed: u64,
}

/// How the host shapes sending during loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// The published window holds at once.
    #[default]
    AtOnce,
    /// Proportional rate reduction (RFC 6937).
    Prr,
}

/// The transport stack around a controller: a kernel of a certain age, or the program of a paper. `alcc_flow::Rules` has a row
/// of rules for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stack {
    /// Linux 6.
    Linux,
    /// Linux 3.16, the kernel of the Verus paper.
    Linux3_16,
    /// Linux 2.6.24, the kernel of the HSDPA paper.
    Linux2_6_24,
    /// TCP of Windows 7.
    Windows7,
    /// Datagrams with the project's own rules.
    #[default]
    Datagrams,
    /// Datagrams as `alcc-udp` puts them on a wire.
    Udp,
    /// The Verus authors' program.
    VerusOriginal,
    /// genericCC, with which Copa's authors published it.
    CopaOriginal,
    /// The Sprout authors' program.
    SproutOriginal,
}

/// What a controller needs of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Delayed or aggregated acknowledgements hurt (Verus, Copa).
    pub per_packet_ack: bool,
    /// The allowance has a pacing rate.
    pub paced: bool,
    /// It reacts to [`AckBatch::marked`], once per round trip as to a loss: its packets may be marked instead of dropped (ECT).
    pub ecn: bool,
    /// How the host shapes sending during recovery.
    pub recovery: Recovery,
    /// Over TCP: how often acknowledgement progress should be read. Shorter costs wake-ups, longer blurs RTT samples.
    pub feedback_period: Span,
    /// Bytes that each packet carries for the receiver half, at most 16: [`Controller::header`] never gives more.
    pub header: u8,
    /// The stack that it was made for: packets, acknowledgements, loss detection, timers.
    pub stack: Stack,
    /// It decides by what its receiver half reports: without [`Controller::receiver`] at work it starves.
    pub receiver: bool,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            per_packet_ack: false,
            paced: false,
            ecn: false,
            recovery: Recovery::AtOnce,
            feedback_period: Span::from_millis(5),
            header: 0,
            stack: Stack::Datagrams,
            receiver: false,
        }
    }
}

/// Why a packet was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// New data.
    #[default]
    New,
    /// Data sent before.
    Retransmit,
    /// A probe after silence.
    Probe,
}

/// A packet leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its transmission number.
    pub pn: Pn,
    /// Its length. Over TCP one record may stand for several segments: divide by the mss to count packets.
    pub len: Bytes,
    /// In flight before it.
    pub in_flight_before: Bytes,
    /// Why it was sent.
    pub kind: Kind,
    /// The application had no more to send.
    pub app_limited: bool,
}

/// The packet that [`Controller::on_sent`] was just told of, about to get its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sending {
    /// Its transmission number.
    pub pn: Pn,
    /// Another packet follows at once: there is data, and the allowance and the pacer let it leave.
    pub more: bool,
}

/// State of the connection when a packet was sent (delivery-rate estimation draft, section 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// Delivered in total when it was sent.
    pub delivered: Bytes,
    /// When that total was reached.
    pub delivered_at: Time,
    /// When the first packet of the flight was sent that this packet ended.
    pub first_sent_at: Time,
    /// In flight, this packet included.
    pub in_flight: Bytes,
    /// The application had no more to send.
    pub app_limited: bool,
}

impl Stamp {
    /// The delivery rate over the flight of a packet that was sent at `sent_at`, as it is acknowledged at `now` with
    /// `delivered` in total: over the longer of the times in which it was sent and acknowledged, so that acknowledgements that
    /// come in a bunch do not look like a faster path (delivery-rate estimation draft, section 3.1).
    pub fn rate(&self, sent_at: Time, delivered: Bytes, now: Time) -> Option<Rate> {
        let span = now
            .since(self.delivered_at)
            .max(sent_at.since(self.first_sent_at));
        (!span.is_zero()).then(|| Rate::of(delivered.saturating_sub(self.delivered), span))
    }
}

/// A packet given back, on acknowledgement or loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Its transmission number.
    pub pn: Pn,
    /// Its length.
    pub len: Bytes,
    /// When it was sent.
    pub sent_at: Time,
    /// What the controller attached to it.
    pub tag: Tag,
    /// The connection's state when it was sent.
    pub stamp: Stamp,
    /// Time from sending to acknowledgement; `None` on loss or when ambiguous (waited behind a hole).
    pub rtt: Option<Span>,
    /// Why it was sent.
    pub kind: Kind,
}

/// The host's RTT estimate (RFC 6298).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RttView {
    /// Newest sample.
    pub latest: Span,
    /// Smoothed, weight 1/8.
    pub smoothed: Span,
    /// Mean deviation, weight 1/4.
    pub variance: Span,
    /// Smallest ever.
    pub min: Span,
}

/// What kept the sender from sending more since the last acknowledgement. A set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitedBy {
    /// The controller's window.
    pub window: bool,
    /// The controller's quota.
    pub quota: bool,
    /// Pacing.
    pub pacer: bool,
    /// The application had no more to send.
    pub app: bool,
    /// Something below us: the kernel's own window, the receiver's window.
    pub peer: bool,
}

/// Where acknowledgements are learned from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Source {
    /// Acknowledgement packets themselves.
    #[default]
    Wire,
    /// Kernel counters read at a tick.
    TcpInfo,
}

/// Acknowledged packets, ascending, never empty. [`Feed::acked`](crate::Feed::acked) makes one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AckBatch<'a> {
    /// The packets.
    pub acked: &'a [Packet],
    /// In flight before them.
    pub in_flight_before: Bytes,
    /// In flight after them.
    pub in_flight: Bytes,
    /// Delivered in total.
    pub delivered: Bytes,
    /// Round-trip times.
    pub rtt: RttView,
    /// Delivery rate over the flight of the newest packet.
    pub rate: Option<Rate>,
    /// A packet-timed round trip has just begun.
    pub round_start: bool,
    /// What limited the sender since the last batch.
    pub limited: LimitedBy,
    /// The host is repairing a loss.
    pub in_recovery: bool,
    /// The oldest outstanding data have arrived; false if all that is new lies beyond a gap of a TCP stream, where a kernel's window
    /// does not grow.
    pub advanced: bool,
    /// Where this was learned from.
    pub source: Source,
    /// Bound on the error of the RTT samples; zero on the wire, the tick over TCP.
    pub rtt_error: Span,
    /// Bytes that arrived with a mark since the last batch: a queue met congestion and did not drop (ECN, RFC 3168). Only of hosts
    /// whose packets may be marked; they are where [`Needs::ecn`] is set.
    pub marked: Bytes,
}

/// Lost packets, ascending, never empty. Reported before the acknowledgement that disclosed them;
/// [`Feed::lost`](crate::Feed::lost) makes one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LossBatch<'a> {
    /// The packets.
    pub lost: &'a [Packet],
    /// The first loss of a recovery episode: windows are reduced once per episode.
    pub new_episode: bool,
    /// In flight after removing them.
    pub in_flight: Bytes,
    /// Round-trip times.
    pub rtt: RttView,
}

/// The retransmission timer expired.
#[derive(Clone, Copy, Debug)]
pub struct Rto {
    /// 1 on the first expiry for the same data, then 2, 3, ...
    pub backoff: u32,
    /// The oldest outstanding packet.
    pub oldest: Packet,
    /// In flight.
    pub in_flight: Bytes,
    /// Time since the last acknowledgement.
    pub silence: Span,
}

/// A loss episode or timeout turned out to be a mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spurious {
    /// All packets reported lost arrived after all.
    Loss,
    /// The timer was too early.
    Rto,
}

/// Recovery ended. [`Feed::repaired`](crate::Feed::repaired) makes one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecoveryEnd {
    /// In flight.
    pub in_flight: Bytes,
    /// Round-trip times.
    pub rtt: RttView,
}

/// A congestion control algorithm for one flow.
///
/// Contract, checked for every registered algorithm by the conformance suite:
///
/// * **Order at one instant**: `on_feedback`, `on_loss`, `on_ack`, `on_recovery_end`, `on_timer`, then sending. If one episode ends as the
///   next begins, its end comes before the new loss.
/// * **Time**: `cx.now` never decreases; calls may be late. After `on_timer` at `now`, [`Controller::next_timer`] is `None`
///   or later than `now`. Timers are idempotent deadlines: a late one counts once, with the true time.
/// * **Quota**: the controller takes what was sent off its own quota, and clears `ping`, in `on_sent`.
/// * **Numbers**: window at least one mss, rate 8 kbit/s to 1 Tbit/s, no NaN or infinity in the state.
/// * **Determinism**: the same events give the same allowances, bit for bit, on every platform.
/// * No allocation that grows with time, no panic, no error: every sequence of events is valid.
pub trait Controller: Send {
    /// What the host should arrange.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Once, before everything else.
    fn on_start(&mut self, _cx: &mut Cx<'_>, _path: &Path) {}

    /// A packet leaves. The returned tag comes back with it.
    fn on_sent(&mut self, _cx: &mut Cx<'_>, _sent: &Sent) -> Tag {
        Tag::default()
    }

    /// What that packet carries to the receiver half; asked right after [`Controller::on_sent`] by hosts that have one.
    fn header(&mut self, _cx: &mut Cx<'_>, _sending: &Sending) -> Header {
        Header::EMPTY
    }

    /// A fresh receiver half, for the place where the packets arrive; `Some` if [`Needs::receiver`].
    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        None
    }

    /// Packets were acknowledged.
    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>);

    /// Packets were lost.
    fn on_loss(&mut self, _cx: &mut Cx<'_>, _loss: &LossBatch<'_>) {}

    /// The retransmission timer expired; what is outstanding will be reported lost if the host gives it up.
    fn on_rto(&mut self, _cx: &mut Cx<'_>, _rto: &Rto) {}

    /// An earlier loss or timeout was no loss.
    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {}

    /// Everything lost has been repaired.
    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, _end: &RecoveryEnd) {}

    /// A report of the receiver half. Untrusted bytes.
    fn on_feedback(&mut self, _cx: &mut Cx<'_>, _report: &[u8]) {}

    /// Sending resumes after `idle` without anything in flight.
    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, _idle: Span) {}

    /// Nothing is in flight and nobody waits to send, perhaps for long and with thousands of others: memory that is not needed
    /// until then should be given back. Changes no answer.
    fn on_rest(&mut self) {}

    /// Packets may have another size from now on, as path MTU discovery finds out. The path is the same: what was learned of it holds.
    fn on_mtu(&mut self, _cx: &mut Cx<'_>, _mss: Bytes) {}

    /// The packets take another route: what was learned of the old one may not hold.
    fn on_route(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.on_mtu(cx, path.mss);
    }

    /// [`Controller::next_timer`] is due.
    fn on_timer(&mut self, _cx: &mut Cx<'_>) {}

    /// What may leave now.
    fn allowance(&self) -> Allowance;

    /// When [`Controller::on_timer`] wants to be called; `None`: not at all.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// Named internal values for plots, in the units of the source paper.
    fn gauges(&self, _put: &mut dyn FnMut(&'static str, f64)) {}

    /// A complete snapshot.
    fn clone_box(&self) -> Box<dyn Controller>;
}
