// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trait `Controller`, its events, and the allowance that it returns.
use crate::{CloneController, EventSink};
use alcc_units::{Bytes, Rate, Span, Time};
use std::any::Any;

/// Packet number. Every transmission gets a new one, even a retransmission, so RTT samples are
/// unambiguous.
pub type Pn = u64;

/// Eight bytes for the controller's own use. [`Controller::on_sent`] returns them, and the host
/// passes them back when the packet is acknowledged or lost. Verus stores its sending window there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tag(pub u64);

/// The allowance of a controller: how much may be sent, how fast, and whether a probe is requested.
///
/// ```
/// use alcc_cc::Allowance;
/// use alcc_units::{Bytes, Rate};
///
/// let paced = Allowance {
///     rate: Some(Rate::mbps(4)),
///     ..Allowance::window(Bytes::new(20_000))
/// };
/// assert_eq!(paced.quota, Bytes::MAX); // no quota
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// Upper bound for bytes in flight. At least one segment; [`Bytes::MAX`]: no window.
    pub window: Bytes,
    /// Bytes that may be sent now, whatever is in flight. May be zero; [`Bytes::MAX`]: no quota.
    pub quota: Bytes,
    /// Pacing rate, 8 kbit/s to 1 Tbit/s; `None`: not paced.
    pub rate: Option<Rate>,
    /// Bytes that may be sent back to back.
    pub burst: Bytes,
    /// One packet, if necessary an empty one, should be sent now, regardless of window and quota.
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

    /// An allowance with a window and no other limit.
    pub const fn window(window: Bytes) -> Self {
        Self {
            window,
            ..Self::UNLIMITED
        }
    }
}

impl Default for Allowance {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

/// The context of an event: time and log.
pub struct Cx<'a> {
    /// The time of the event. It never decreases from call to call, and may be late.
    pub now: Time,
    /// The sink for the controller's events.
    pub log: &'a mut dyn EventSink,
}

/// Facts about the path at the start of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Path {
    /// Maximum segment size, at least 1 byte.
    pub mss: Bytes,
    /// An RTT known before the first packet, for example from the handshake.
    pub rtt_hint: Option<Span>,
    /// Seed of the controller's random numbers.
    pub seed: u64,
}

/// The host's reduction of the rate during loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// The window applies at once.
    #[default]
    AtOnce,
    /// Proportional rate reduction (RFC 6937).
    Prr,
}

/// Services that a controller needs from its host.
///
/// ```
/// use alcc_cc::Needs;
///
/// let needs = Needs { paced: true, ..Needs::default() };
/// assert!(!needs.ecn);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Delayed or aggregated acknowledgements hurt it (Verus, Copa).
    pub per_packet_ack: bool,
    /// Its allowance has a pacing rate and no quota, so that pacing alone can enforce it.
    pub paced: bool,
    /// It reacts to [`AckBatch::marked`] as to a loss, once per round trip. Its packets may be
    /// marked instead of dropped (ECT).
    pub ecn: bool,
    /// The host's reduction of the rate during recovery.
    pub recovery: Recovery,
    /// Over TCP: how often the counters should be read. A shorter interval costs wake-ups, a longer
    /// one blurs RTT samples.
    pub feedback_period: Span,
    /// It was designed for TCP with its loss detection and timers; otherwise for datagrams.
    pub stream: bool,
    /// Its limit must be enforced whatever it costs. On a host that sees the path so late that the
    /// program would send less than without a limit, other algorithms leave control to the kernel
    /// meanwhile.
    pub strict: bool,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            per_packet_ack: false,
            paced: false,
            ecn: false,
            recovery: Recovery::AtOnce,
            feedback_period: Span::from_millis(5),
            stream: false,
            strict: false,
        }
    }
}

/// The reason for sending a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// New data.
    #[default]
    New,
    /// Data that was sent before.
    Retransmit,
    /// A probe after idle or silence.
    Probe,
}

/// A sent packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sent {
    /// Its packet number.
    pub pn: Pn,
    /// Its length. Over TCP one record may stand for several segments: divide by the MSS to count
    /// packets.
    pub len: Bytes,
    /// Bytes in flight before it.
    pub in_flight_before: Bytes,
    /// The reason for sending it.
    pub kind: Kind,
    /// True if the application has no more data.
    pub app_limited: bool,
}

/// State of the connection when a packet was sent (delivery-rate estimation draft, section 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// Total delivered when it was sent.
    pub delivered: Bytes,
    /// Time at which that total was reached.
    pub delivered_at: Time,
    /// Sending time of the first packet of its flight; this packet ends that flight.
    pub first_sent_at: Time,
    /// Bytes in flight, including this packet.
    pub in_flight: Bytes,
    /// True if the application had no more data.
    pub app_limited: bool,
}

impl Stamp {
    /// Delivery rate over the flight of a packet. It was sent at `sent_at` and is acknowledged at
    /// `now`, with a total of `delivered`. The interval is the longer of sending and acknowledging
    /// (delivery-rate estimation draft, section 3.1). So aggregated ACKs do not look like a faster
    /// path.
    #[inline]
    pub fn rate(&self, sent_at: Time, delivered: Bytes, now: Time) -> Option<Rate> {
        let span = now
            .since(self.delivered_at)
            .max(sent_at.since(self.first_sent_at));
        (!span.is_zero()).then(|| Rate::of(delivered.saturating_sub(self.delivered), span))
    }
}

/// An acknowledged or lost packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Packet {
    /// Its packet number.
    pub pn: Pn,
    /// Its length.
    pub len: Bytes,
    /// Time of sending.
    pub sent_at: Time,
    /// The tag that the controller returned for it.
    pub tag: Tag,
    /// State of the connection when it was sent.
    pub stamp: Stamp,
    /// Time from sending to acknowledgement. `None` on loss, or if it is ambiguous because the
    /// packet waited above a hole.
    pub rtt: Option<Span>,
    /// The reason for sending it.
    pub kind: Kind,
}

/// The host's RTT estimate (RFC 6298).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RttView {
    /// Newest sample.
    pub latest: Span,
    /// Smoothed RTT, weight 1/8.
    pub smoothed: Span,
    /// Mean deviation of the RTT, weight 1/4.
    pub variance: Span,
    /// Smallest sample so far.
    pub min: Span,
}

/// The limits of the sender since the last acknowledgement, as a set of causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitedBy {
    /// The controller's window.
    pub window: bool,
    /// The controller's quota.
    pub quota: bool,
    /// Pacing.
    pub pacer: bool,
    /// The application had no more data.
    pub app: bool,
    /// Something below the sender: the kernel's window, the receiver's window.
    pub peer: bool,
}

/// The source of acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Source {
    /// From acknowledgement packets.
    #[default]
    Wire,
    /// From kernel counters, read at a tick.
    TcpInfo,
}

/// Acknowledged packets, ascending, never empty. [`Feed::acked`](crate::Feed::acked) makes one.
#[derive(Clone, Copy, Default, Debug)]
pub struct AckBatch<'a> {
    /// The packets.
    pub acked: &'a [Packet],
    /// Bytes in flight before the acknowledgement.
    pub in_flight_before: Bytes,
    /// Bytes in flight after the acknowledgement.
    pub in_flight: Bytes,
    /// Total delivered.
    pub delivered: Bytes,
    /// RTT estimate.
    pub rtt: RttView,
    /// Delivery rate over the flight of the newest packet.
    pub rate: Option<Rate>,
    /// True if a packet-timed round trip begins with this batch.
    pub round_start: bool,
    /// Limits of the sender since the last batch.
    pub limited: LimitedBy,
    /// True if the host is in loss recovery.
    pub in_recovery: bool,
    /// The oldest outstanding data has arrived. False if all new arrivals are above a hole of a TCP
    /// stream; a kernel's window does not grow then.
    pub advanced: bool,
    /// The source of these acknowledgements.
    pub source: Source,
    /// Bound on the error of the RTT samples; zero on the wire, the tick over TCP.
    pub rtt_error: Span,
    /// Bytes with a CE mark since the last batch (ECN, RFC 3168). Always zero if the controller's host (the
    /// runtime or simulator that runs it) cannot send ECN-capable packets, or if [`Needs::ecn`] is not set.
    pub marked: Bytes,
}

/// Lost packets, ascending, never empty. Reported before the acknowledgement that revealed them.
/// [`Feed::lost`](crate::Feed::lost) makes one.
#[derive(Clone, Copy, Default, Debug)]
pub struct LossBatch<'a> {
    /// The packets.
    pub lost: &'a [Packet],
    /// True for the first loss of a recovery episode. Windows are reduced once per episode.
    pub new_episode: bool,
    /// Bytes in flight without the lost packets.
    pub in_flight: Bytes,
    /// RTT estimate.
    pub rtt: RttView,
}

/// The retransmission timer expired.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rto {
    /// 1 on the first expiry for the same data, then 2, 3, ...
    pub backoff: u32,
    /// The oldest outstanding packet.
    pub oldest: Packet,
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// Time since the last acknowledgement.
    pub silence: Span,
}

/// A loss episode or timeout turned out to be spurious.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spurious {
    /// All packets reported lost arrived after all.
    Loss,
    /// The timeout was premature.
    Rto,
}

/// Recovery has ended. [`Feed::repaired`](crate::Feed::repaired) makes one.
#[derive(Clone, Copy, Default, Debug)]
pub struct RecoveryEnd {
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// RTT estimate.
    pub rtt: RttView,
}

/// A congestion control algorithm for one flow. [`WithReceiver`](crate::WithReceiver) is one with a
/// part at the receiver.
///
/// Contract, checked for every registered algorithm by the conformance suite:
///
/// * **Order at one instant**: a receiver's report, `on_loss`, `on_ack`, `on_recovery_end`,
///   `on_timer`, then sending. If one episode ends as the next begins, its end comes before the new
///   loss.
/// * **Time**: `cx.now` never decreases; calls may be late. After `on_timer` at `now`,
///   [`Controller::next_timer`] is `None` or later than `now`. Timers are idempotent deadlines: a
///   late one counts once, with the true time.
/// * **Quota**: in `on_sent` the controller subtracts the sent bytes from its own quota, and clears
///   `ping`.
/// * **Numbers**: window at least one mss, rate 8 kbit/s to 1 Tbit/s, no NaN or infinity in the
///   state.
/// * **Determinism**: the same events give the same allowances, bit for bit, on every platform. A
///   clone is a complete snapshot.
/// * No allocation that grows with time, no panic, no error: every sequence of events is valid.
///
/// ```
/// use alcc_cc::{AckBatch, Allowance, Controller, Cx, Discard, LossBatch, Path};
/// use alcc_units::{Bytes, Time};
///
/// /// One segment more per round trip, half after a loss.
/// #[derive(Clone, Default)]
/// struct Aimd {
///     mss: Bytes,
///     window: Bytes,
/// }
///
/// impl Controller for Aimd {
///     fn on_start(&mut self, _: &mut Cx<'_>, path: &Path) {
///         (self.mss, self.window) = (path.mss, path.mss * 10);
///     }
///
///     fn on_ack(&mut self, _: &mut Cx<'_>, ack: &AckBatch<'_>) {
///         if ack.round_start {
///             self.window += self.mss;
///         }
///     }
///
///     fn on_loss(&mut self, _: &mut Cx<'_>, loss: &LossBatch<'_>) {
///         if loss.new_episode {
///             self.window = self.window.mul_f64(0.5).max(self.mss);
///         }
///     }
///
///     fn allowance(&self) -> Allowance {
///         Allowance::window(self.window)
///     }
/// }
///
/// let mut aimd = Aimd::default();
/// let mut cx = Cx { now: Time::ZERO, log: &mut Discard };
/// aimd.on_start(&mut cx, &Path { mss: Bytes::new(1448), ..Path::default() });
/// aimd.on_loss(&mut cx, &LossBatch { new_episode: true, ..LossBatch::default() });
/// assert_eq!(aimd.allowance().window, Bytes::new(5 * 1448));
/// ```
pub trait Controller: CloneController + Any + Send {
    /// The algorithm's requirements to its host.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Called once, before everything else.
    fn on_start(&mut self, _cx: &mut Cx<'_>, _path: &Path) {}

    /// A packet is sent. The returned tag comes back with it.
    fn on_sent(&mut self, _cx: &mut Cx<'_>, _sent: &Sent) -> Tag {
        Tag::default()
    }

    /// Packets were acknowledged.
    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>);

    /// Packets were lost.
    fn on_loss(&mut self, _cx: &mut Cx<'_>, _loss: &LossBatch<'_>) {}

    /// The retransmission timer expired. If the host gives up outstanding packets, it reports them
    /// lost.
    fn on_rto(&mut self, _cx: &mut Cx<'_>, _rto: &Rto) {}

    /// An earlier loss or timeout was spurious.
    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {}

    /// Loss recovery has ended.
    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, _end: &RecoveryEnd) {}

    /// Sending restarts after `idle` with nothing in flight.
    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, _idle: Span) {}

    /// Path MTU discovery has changed the packet size. The path is the same, so what was learned
    /// about it stays valid.
    fn on_mtu(&mut self, _cx: &mut Cx<'_>, _mss: Bytes) {}

    /// [`Controller::next_timer`] is due.
    fn on_timer(&mut self, _cx: &mut Cx<'_>) {}

    /// The time of the next call of [`Controller::on_timer`]; `None` or [`Time::MAX`]: never.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// The current allowance.
    fn allowance(&self) -> Allowance;

    /// Named internal values for plots, in the units of the source paper.
    fn gauges(&self, _put: &mut dyn FnMut(&'static str, f64)) {}

    /// Frees memory that is not needed while nothing is in flight and no data waits to be sent,
    /// perhaps for a long time, and on thousands of connections. It changes no allowance.
    fn release_memory(&mut self) {}
}
