// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending end of a flow around a [`Controller`]: transmission, loss recovery and timers.
mod acks;
mod losses;
mod sending;
mod timers;

use crate::pacer::Pacer;
use crate::ranges::{Range, RangeSet};
use crate::rate_reduction::RateReduction;
use crate::rto::RtoEstimator;
use crate::rules::{AckSemantics, Reduction, Rules};
use crate::scoreboard::{Scoreboard, SegmentIndex};
use crate::unreported::Unreported;
use crate::{Repair, TcpProgress};
use alcc_cc::{Controller, Feed, Instance, Log, Packet, Path, Pn, Recovery, RttView, Spurious};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

/// Upper bound of the data in flight, whatever an algorithm allows.
const MAX_IN_FLIGHT: Bytes = Bytes::new(65_536 * 1500);
/// Linux sizes the send buffer for two windows of segments that take this much memory each.
const BUFFER_PER_SEGMENT: u64 = 2 * 4352;
/// Extra delay of a tail loss probe for a single segment in flight, whose ACK may be delayed. RFC
/// 8985, section 7.2; TCP_RTO_MIN.
const LONE_SEGMENT: Span = Span::from_millis(200);
const TIMER_GRANULARITY: Span = Span::from_millis(2);

/// A lost packet, as found by the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundLost {
    /// Its number.
    pub pn: Pn,
    /// The evidence of the loss.
    pub by: LossSign,
}

/// Evidence by which a sender detects a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossSign {
    /// Enough later packets have arrived.
    Reordering,
    /// A later packet has arrived, and this one is overdue.
    Overdue,
    /// The retransmission timer has expired, or a tail loss probe has repaired the loss.
    Timeout,
}

/// A time without acknowledgements, of a sender whose timer only probes.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Time,
    /// Timeouts that were reported to the algorithm.
    told: u32,
    /// The first probe after an expiry that was not reported.
    first_probe: Option<Pn>,
}

impl Silence {
    fn from(since: Time) -> Self {
        Self {
            since,
            told: 0,
            first_probe: None,
        }
    }
}

/// Totals of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderStats {
    /// Transmissions, without empty probes.
    pub transmissions: u64,
    /// Transmissions of data that had been sent before.
    pub retransmits: u64,
    /// Expiries of the retransmission timer that were reported to the algorithm.
    pub timeouts: u64,
    /// Loss episodes: one fast recovery, or one expiry of the timer.
    pub episodes: u64,
    /// Tail loss probes, and probes of datagrams after expiries that were not reported.
    pub tail_probes: u64,
    /// Reductions that turned out to be spurious.
    pub spurious: u64,
    /// Number of round trips, and of those that ended with a packet after which there was nothing to send, because of
    /// the application or the send buffer.
    pub rounds: (u64, u64),
}

/// Sender of one flow, without I/O. The caller passes time and acknowledgements in and takes packets out.
///
/// The order within one instant: [`Sender::on_ack`] and [`Sender::on_timer`], [`Sender::write`], then
/// [`Sender::poll_transmit`] until it returns `None`, then [`Sender::next_timer`]. Acknowledgements are checked. Memory
/// is bounded by the data in flight.
pub struct Sender {
    feed: Feed,
    rules: Rules,
    mss: u64,
    /// True if the algorithm leaves rate reduction in recovery to the host.
    reduces_rate: bool,
    /// True if packets carry a header for the algorithm's receiver module.
    has_header: bool,
    seed: u64,
    rtt_hint: Option<Span>,
    scoreboard: Scoreboard,
    rtt: RtoEstimator,
    written: u64,
    next: u64,
    cumulative_ack: u64,
    buffer: u64,
    /// End of the peer's window (SND.UNA + SND.WND).
    send_limit: u64,
    /// Acknowledged ranges: bytes beyond `cumulative_ack`, or packet numbers.
    acked_ranges: RangeSet,
    pacer: Pacer,
    paced_until: Option<Time>,
    /// Time between two calls of the caller.
    poll_interval: Span,
    /// True if the application has more data than it has written.
    more: bool,
    max_pacing: Option<Rate>,
    /// The value of `tcpi_delivery_rate` in Linux: the newest sample, or a larger application-limited one.
    delivery_rate: Option<Rate>,
    newest: Option<Newest>,
    /// End of the highest segment that has arrived.
    highest_arrived: u64,
    reordered: bool,
    /// Packet numbers below which packets are missing, each with the end of their timer.
    gaps: VecDeque<(Pn, Time)>,
    reordering_deadline: Option<Time>,
    recovery: Option<Episode>,
    reduction: Option<RateReduction>,
    undo: Option<Undo>,
    /// Retransmissions in flight: sending time of the first, end of the last.
    outstanding_retransmits: Option<(Time, u64)>,
    pending_probe: Option<Probe>,
    tail_probe: Option<TailProbe>,
    /// The probe after a timeout that marked nothing as lost.
    pto_probe: Option<Pn>,
    silence: Silence,
    progress_at: Time,
    new_data_at: Time,
    /// The next window probe while the peer's window is zero, and the number of probes sent.
    persist: Option<(Time, u32)>,
    pinged: Option<Time>,
    echo: Time,
    /// Payload that the peer received with an ECN mark, bytes.
    marked: u64,
    last_rtt: Option<Span>,
    stats: SenderStats,
    acked: Vec<Packet>,
    /// Losses found by the current call, not reported yet.
    lost: Vec<Packet>,
    /// Losses since the last [`Sender::take_lost`], if they are kept.
    found_lost: Option<Vec<FoundLost>>,
    /// ACK delay per packet, ascending; `None` if the receiver does not report it.
    ack_delays: Option<Vec<(Pn, Span)>>,
    /// Arrived but unreported bytes, by the same delays; zero without them.
    unreported: Unreported,
    scratch: Vec<Range>,
}

/// The newest packet that has arrived.
#[derive(Clone, Copy, Debug)]
struct Newest {
    pn: Pn,
    rtt: Span,
}

/// A recovery episode: the losses of one flight.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// The episode ends when the cumulative ACK reaches this, or packet `pn` or a later one has
    /// arrived.
    recovery_point: u64,
    pn: Pn,
    timeout: bool,
}

/// Evidence about whether a reduction was spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    cause: Spurious,
    /// Sending time of the first retransmission of a lost segment, or of one in flight when the episode began.
    first_retransmit_at: Option<Time>,
    /// True if a segment lost in this episode has been retransmitted.
    resent: bool,
    /// Retransmissions not yet known to be unnecessary (Linux's `undo_retrans`). For datagrams:
    /// losses that have not arrived.
    pending: u64,
    /// F-RTO: the arrival of a segment that was sent only once proves that the timeout was
    /// spurious.
    frto: bool,
}

/// The next packet, sent regardless of the window.
#[derive(Clone, Copy, Debug)]
enum Probe {
    Retransmit(SegmentIndex),
    NewData,
    Window,
}

/// A tail loss probe in flight.
#[derive(Clone, Copy, Debug)]
struct TailProbe {
    /// The highest position sent (TLP.end_seq).
    end: u64,
    /// The packet that it retransmitted.
    retransmitted: Option<Packet>,
}

/// Result of one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
struct AckOutcome {
    advanced: bool,
    /// RTT of the oldest segment that was sent only once.
    rtt: Option<Span>,
    /// True if a segment sent only once, before the timeout, has arrived.
    original: bool,
    /// Sending time of the oldest of the newly acknowledged segments.
    oldest_sent: Option<Time>,
    duplicate: bool,
    /// The echoed time stamp.
    answers: Option<Time>,
    /// End of the highest segment that had arrived before it.
    highest_arrived: u64,
}

impl Sender {
    /// A flow that has not started. `rtt_hint`: the RTT of the handshake.
    pub fn new(cc: Instance, rules: &Rules, now: Time, rtt_hint: Option<Span>, seed: u64) -> Self {
        let mut scoreboard = Scoreboard::new(now);
        if !rules.is_stream() {
            scoreboard.keep_replaced();
        }
        let mut rtt = RtoEstimator::new(rules.timeout);
        if let Some(hint) = rtt_hint {
            rtt.sample(hint, 0, 0);
        }
        let needs = cc.needs();
        let reduces_rate =
            rules.reduction != Reduction::Immediate && needs.recovery == Recovery::Prr;
        let mut rules = *rules;
        if !rules.is_stream() {
            let header = Bytes::new(cc.header_len().into());
            rules.mss = rules.mss.saturating_sub(header);
            rules.header += header;
        }
        Self {
            has_header: cc.header_len() > 0,
            feed: Feed::new(cc, now),
            rules,
            mss: rules.mss.get().max(1),
            reduces_rate,
            seed,
            rtt_hint,
            scoreboard,
            rtt,
            written: 0,
            next: 0,
            cumulative_ack: 0,
            buffer: rules.send_buffer.0.get(),
            send_limit: if rules.ack_semantics == (AckSemantics::PacketNumbers { reliable: false })
            {
                // Without a stream there is no flow control.
                u64::MAX
            } else {
                rules.window.0.get()
            },
            acked_ranges: RangeSet::default(),
            pacer: Pacer::new(now),
            paced_until: None,
            poll_interval: Span::ZERO,
            more: false,
            max_pacing: None,
            delivery_rate: None,
            newest: None,
            highest_arrived: 0,
            reordered: false,
            gaps: VecDeque::new(),
            reordering_deadline: None,
            recovery: None,
            reduction: None,
            undo: None,
            outstanding_retransmits: None,
            pending_probe: None,
            tail_probe: None,
            pto_probe: None,
            silence: Silence::from(now),
            progress_at: now,
            new_data_at: now,
            persist: None,
            pinged: None,
            echo: Time::ZERO,
            marked: 0,
            last_rtt: None,
            stats: SenderStats::default(),
            acked: Vec::new(),
            lost: Vec::new(),
            found_lost: None,
            ack_delays: rules.arrivals.then(Vec::new),
            unreported: Unreported::new(now),
            scratch: Vec::new(),
        }
    }

    /// Sets the sink for the algorithm's events. Until then they are discarded.
    pub fn set_log(&mut self, log: Log) {
        self.feed.set_log(log);
    }

    /// Keeps every loss from now on until [`Sender::take_lost`] takes it.
    pub fn keep_lost(&mut self) {
        self.found_lost = Some(Vec::new());
    }

    /// The losses found since the last call, in the order in which they were found.
    pub fn take_lost(&mut self) -> Vec<FoundLost> {
        self.found_lost
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Starts the flow.
    pub fn start(&mut self, now: Time) {
        self.feed.advance(now);
        let path = Path {
            mss: Bytes::new(self.mss),
            rtt_hint: self.rtt_hint,
            seed: self.seed,
        };
        self.feed.start(&path);
    }

    /// Writes data. Returns the number of bytes that the send buffer took. Without a send buffer [`Bytes::MAX`] means
    /// endless data.
    pub fn write(&mut self, len: Bytes) -> Bytes {
        let taken = len.min(self.free());
        self.written = self.written.saturating_add(taken.get());
        taken
    }

    /// Bytes that may be written now: the free space in the send buffer, limited by the unsent data that the rules
    /// allow.
    #[inline]
    pub fn free(&self) -> Bytes {
        let lowat = self.rules.notsent_lowat;
        let allowed = lowat.map_or(Bytes::MAX, |lowat| lowat.saturating_sub(self.unsent()));
        self.space().min(allowed)
    }

    /// Free space in the send buffer, bytes.
    #[inline]
    fn space(&self) -> Bytes {
        if self.rules.send_buffer.1 == Bytes::ZERO {
            return Bytes::MAX;
        }
        Bytes::new(self.buffer).saturating_sub(Bytes::new(self.buffered()))
    }

    /// Memory that the kernel charges to the send buffer: sent segments have an `sk_buff` each.
    #[inline(always)]
    fn buffered(&self) -> u64 {
        let sent = self.next - self.cumulative_ack;
        let heads = sent.div_ceil(self.mss) * self.rules.overhead.get();
        (self.written.max(self.next) - self.cumulative_ack).saturating_add(heads)
    }

    /// True if a third of the send buffer is free and less than half of the permitted unsent data
    /// waits. The kernel would then wake a waiting program.
    #[inline]
    pub fn is_writable(&self) -> bool {
        let lowat = self.rules.notsent_lowat;
        lowat.is_none_or(|lowat| self.unsent() * 2 < lowat) && self.space().get() >= self.buffer / 3
    }

    /// Drops unsent data, because the application has ended.
    pub fn forget_unsent(&mut self) {
        self.written = self.next;
    }

    /// True if all written data is acknowledged.
    pub fn is_done(&self) -> bool {
        self.written <= self.next && self.scoreboard.is_empty()
    }

    /// Takes a report of the algorithm's receiver module.
    pub fn on_feedback(&mut self, now: Time, report: &[u8]) {
        self.feed.advance(now);
        self.feed.feedback(report);
    }

    /// The rules of this sender.
    #[inline]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The algorithm.
    #[inline]
    pub fn controller(&self) -> &dyn Controller {
        self.feed.controller()
    }

    /// Sets the maximum pacing rate (`SO_MAX_PACING_RATE`).
    pub fn set_max_pacing(&mut self, rate: Option<Rate>) {
        self.max_pacing = rate;
    }

    /// Sets the time between two calls of [`Sender::poll_transmit`]: pacing allows a burst of that duration.
    pub fn set_poll_interval(&mut self, interval: Span) {
        self.poll_interval = interval;
    }

    /// Declares that the application has more data than it has written, and writes it as soon as there is room. So an
    /// empty buffer does not count as application-limited, and a partial packet waits to be filled.
    pub fn set_more(&mut self, more: bool) {
        self.more = more;
    }

    /// The sender's knowledge: total payload acknowledged, and number of packets found lost.
    pub fn outcome(&self) -> (Bytes, u64) {
        let lost = self.stats.retransmits + self.scoreboard.waiting();
        (self.scoreboard.delivery().total(), lost)
    }

    /// The state as a program would read it from `TCP_INFO`.
    pub fn progress(&self) -> TcpProgress {
        let seen = self.rtt.view();
        TcpProgress {
            acked: self.cumulative_ack,
            written: self.written,
            unsent: self.unsent(),
            retransmits: self.stats.retransmits,
            lost: self.stats.retransmits + self.scoreboard.waiting(),
            sacked: self.scoreboard.arrived(),
            repair: match self.recovery {
                None => Repair::None,
                Some(episode) if episode.timeout => Repair::Timeout,
                Some(_) => Repair::Losses,
            },
            backoff: self.rtt.backoff(),
            undone: self.stats.spurious,
            ssthresh: 0,
            delivery_rate: self.delivery_rate,
            in_flight: u32::try_from(self.in_flight().get() / self.mss).unwrap_or(u32::MAX),
            window_full: !self.has_room(&self.feed.allowance()),
            min_rtt: seen.min,
            smoothed_rtt: seen.smoothed,
            acks: self.rtt.samples(),
            marked: self.marked / self.mss,
            mss: Bytes::new(self.mss),
        }
    }

    /// Total bytes written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Bytes written and not acknowledged (`SIOCOUTQ`).
    pub fn queued(&self) -> Bytes {
        Bytes::new(self.written - self.cumulative_ack)
    }

    /// Bytes written and not sent (`SIOCOUTQNSD`).
    pub fn unsent(&self) -> Bytes {
        Bytes::new(self.written - self.next)
    }

    /// Payload in flight, bytes.
    #[inline]
    pub fn in_flight(&self) -> Bytes {
        self.scoreboard.in_flight()
    }

    /// The congestion window in packets.
    pub fn window_packets(&self) -> u64 {
        self.window(&self.feed.allowance())
    }

    /// True during loss recovery.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// The RTT estimate.
    pub fn rtt(&self) -> RttView {
        self.rtt.view()
    }

    /// RTT of the newest packet that the last ACK acknowledged.
    #[inline]
    pub fn last_rtt(&self) -> Option<Span> {
        self.last_rtt
    }

    /// Packets acknowledged by the last ACK.
    pub fn acked(&self) -> &[Packet] {
        &self.acked
    }

    /// The totals of the sender.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// Number of entries in memory, for testing the bound.
    pub fn remembered(&self) -> usize {
        self.scoreboard.remembered() + self.acked_ranges.len() + self.gaps.len()
    }
}
