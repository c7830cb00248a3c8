// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending end of a flow around a [`Controller`]: what is sent, what is lost, what is sent again and when.
mod hearing;
mod losses;
mod sending;
mod timers;

use crate::board::{Board, Number};
use crate::pacer::Pacer;
use crate::ranges::{Range, RangeSet};
use crate::recovery::Shaper;
use crate::rules::{Form, Rules, Shape};
use crate::timeout::RoundTrip;
use crate::{Repair, TcpProgress};
use alcc_cc::{Controller, Feed, Log, Packet, Path, Pn, Recovery, RttView, Spurious};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

/// What a host holds at most, whatever an algorithm allows.
const MOST_IN_FLIGHT: Bytes = Bytes::new(65_536 * 1500);
/// Linux makes room in the send buffer for two windows of segments that it takes to be so large.
const BUFFER_PER_SEGMENT: u64 = 2 * 4352;
/// A tail probe waits so much longer for a lone segment, whose acknowledgement may be delayed (RFC 8985, section 7.2; TCP_RTO_MIN).
const LONE_SEGMENT: Span = Span::from_millis(200);
const TIMER_GRAIN: Span = Span::from_millis(2);

/// What a sender did, in total.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderStats {
    /// Transmissions, probes without data left out.
    pub transmissions: u64,
    /// Of these, transmissions of data that had been sent before.
    pub retransmits: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Probes for a lost tail.
    pub tail_probes: u64,
    /// Reductions that turned out to be mistakes.
    pub mistakes: u64,
}

/// Sends one flow, without I/O: the caller brings time and acknowledgements and carries away packets.
///
/// Within one instant: [`Sender::on_ack`] and [`Sender::on_timer`], [`Sender::write`], then [`Sender::poll_transmit`] until there is nothing
/// more, then [`Sender::next_timer`]. What a peer says is checked; memory is bounded by what is in flight.
pub struct Sender {
    feed: Feed,
    rules: Rules,
    mss: u64,
    /// The algorithm leaves the shape of recovery to the host.
    shaped: bool,
    /// Its packets carry something for a receiver half.
    headed: bool,
    seed: u64,
    rtt_hint: Option<Span>,
    board: Board,
    rtt: RoundTrip,
    written: u64,
    next: u64,
    complete: u64,
    buffer: u64,
    /// The peer permits the stream up to here.
    edge: u64,
    /// What the peer has said to have: bytes beyond `complete`, or transmissions.
    known: RangeSet,
    pacer: Pacer,
    paced_until: Option<Time>,
    /// The caller looks only so often.
    turn: Span,
    /// The application has more than it has written.
    more: bool,
    max_pacing: Option<Rate>,
    /// What Linux keeps for `tcpi_delivery_rate`: the newest sample, or a larger one if that was limited by the application.
    delivery_rate: Option<Rate>,
    newest: Option<Newest>,
    /// End of the highest segment that has arrived.
    highest: u64,
    reordered: bool,
    /// Transmissions below, and since when it is known that some are missing.
    gaps: VecDeque<(Pn, Time)>,
    reordering_ends: Option<Time>,
    recovery: Option<Episode>,
    shaper: Option<Shaper>,
    undo: Option<Undo>,
    /// When the first of the retransmissions that are under way left, and where the last of them ends.
    again: Option<(Time, u64)>,
    forced: Option<Forced>,
    tail: Option<Tail>,
    /// After an expiry that declares nothing: the transmission that asks.
    question: Option<Pn>,
    progress_at: Time,
    tail_from: Time,
    /// The peer's window is shut: when to ask, and how often we have.
    persist: Option<(Time, u32)>,
    pinged: Option<Time>,
    echo: Time,
    /// Payload that the peer has received with marks (ECN).
    marked: u64,
    last_rtt: Option<Span>,
    stats: SenderStats,
    acked: Vec<Packet>,
    lost: Vec<Packet>,
    /// For how long the receiver held back the acknowledgement of each packet, ascending; `None`: it does not say.
    held: Option<Vec<(Pn, Span)>>,
    scratch: Vec<Range>,
}

/// The newest transmission that has arrived.
#[derive(Clone, Copy, Debug)]
struct Newest {
    pn: Pn,
    rtt: Span,
}

/// Losses of one flight, from the first to the repair.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// Over when the stream is complete up to here, or a transmission from here on has arrived.
    until: u64,
    pn: Pn,
    timeout: bool,
}

/// What there is to say against a reduction.
#[derive(Clone, Copy, Debug)]
struct Undo {
    what: Spurious,
    /// The first transmission of something lost; of one that was under way when the episode began.
    again_at: Option<Time>,
    /// Something lost in this episode has been sent again.
    resent: bool,
    /// Retransmissions of which it is not known that they were for nothing; datagrams: losses that have not arrived.
    open: u64,
    /// F-RTO: an arrival of something that was sent once only proves the mistake.
    by_original: bool,
}

/// What leaves next, whatever the window says.
#[derive(Clone, Copy, Debug)]
enum Forced {
    Again(Number),
    New,
    Window,
}

/// A tail probe is out.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// The end of the stream as sent.
    until: u64,
    /// It repeated this transmission.
    again: Option<Packet>,
}

/// What one acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    advanced: bool,
    /// Of the oldest segment sent once.
    rtt: Option<Span>,
    /// One that was sent once, before the timer expired.
    original: bool,
    /// When the oldest of what arrived had been sent.
    oldest_sent: Option<Time>,
    duplicate: bool,
    /// The time stamp that it answers.
    answers: Option<Time>,
    /// End of the highest segment that had arrived before.
    highest: u64,
}

impl Sender {
    /// A flow that has not begun. `rtt_hint`: what a handshake took.
    pub fn new(
        cc: Box<dyn Controller>,
        rules: &Rules,
        now: Time,
        rtt_hint: Option<Span>,
        seed: u64,
    ) -> Self {
        let mut board = Board::new(now);
        if !rules.is_stream() {
            board.keep_replaced();
        }
        let mut rtt = RoundTrip::new(rules.timeout);
        if let Some(hint) = rtt_hint {
            rtt.sample(hint, 0, 0);
        }
        let needs = cc.needs();
        let shaped = rules.shape != Shape::AtOnce && needs.recovery == Recovery::Prr;
        let mut rules = *rules;
        if !rules.is_stream() {
            let header = Bytes::new(needs.header.into());
            rules.mss = rules.mss.saturating_sub(header);
            rules.header += header;
        }
        Self {
            feed: Feed::new(cc, now),
            rules,
            mss: rules.mss.get().max(1),
            shaped,
            headed: needs.header > 0,
            seed,
            rtt_hint,
            board,
            rtt,
            written: 0,
            next: 0,
            complete: 0,
            buffer: rules.send_buffer.0.get(),
            edge: if rules.form == (Form::Datagrams { reliable: false }) {
                // There is no stream that a receiver could hold back.
                u64::MAX
            } else {
                rules.window.0.get()
            },
            known: RangeSet::default(),
            pacer: Pacer::new(now),
            paced_until: None,
            turn: Span::ZERO,
            more: false,
            max_pacing: None,
            delivery_rate: None,
            newest: None,
            highest: 0,
            reordered: false,
            gaps: VecDeque::new(),
            reordering_ends: None,
            recovery: None,
            shaper: None,
            undo: None,
            again: None,
            forced: None,
            tail: None,
            question: None,
            progress_at: now,
            tail_from: now,
            persist: None,
            pinged: None,
            echo: Time::ZERO,
            marked: 0,
            last_rtt: None,
            stats: SenderStats::default(),
            acked: Vec::new(),
            lost: Vec::new(),
            held: rules.arrivals.then(Vec::new),
            scratch: Vec::new(),
        }
    }

    /// Where the algorithm's events go from now on. At first they are thrown away.
    pub fn set_log(&mut self, log: Log) {
        self.feed.set_log(log);
    }

    /// The flow begins.
    pub fn start(&mut self, now: Time) {
        self.feed.advance(now);
        let path = Path {
            mss: Bytes::new(self.mss),
            rtt_hint: self.rtt_hint,
            seed: self.seed,
        };
        self.feed.start(&path);
    }

    /// The application writes; returns how much the send buffer took. Where there is none, [`Bytes::MAX`] is data without end.
    pub fn write(&mut self, len: Bytes) -> Bytes {
        let taken = len.min(self.free());
        self.written = self.written.saturating_add(taken.get());
        taken
    }

    /// What a write would take.
    pub fn free(&self) -> Bytes {
        if self.rules.send_buffer.1 == Bytes::ZERO {
            return Bytes::MAX;
        }
        Bytes::new(self.buffer).saturating_sub(Bytes::new(self.buffered()))
    }

    /// What the kernel counts against the send buffer: segments that were sent have a head each.
    fn buffered(&self) -> u64 {
        let sent = self.next - self.complete;
        let heads = sent.div_ceil(self.mss) * self.rules.overhead.get();
        (self.written.max(self.next) - self.complete).saturating_add(heads)
    }

    /// A third of the send buffer is free: a waiting program is woken.
    pub fn is_writable(&self) -> bool {
        self.free().get() >= self.buffer / 3
    }

    /// What has not been sent yet will not be: the application is gone.
    pub fn forget_unsent(&mut self) {
        self.written = self.next;
    }

    /// Everything written has arrived.
    pub fn is_done(&self) -> bool {
        self.written <= self.next && self.board.is_empty()
    }

    /// A report of the algorithm's receiver half.
    pub fn on_feedback(&mut self, now: Time, report: &[u8]) {
        self.feed.advance(now);
        self.feed.feedback(report);
    }

    /// The rules that it keeps.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The algorithm.
    pub fn controller(&self) -> &dyn Controller {
        self.feed.controller()
    }

    /// `SO_MAX_PACING_RATE`.
    pub fn set_max_pacing(&mut self, rate: Option<Rate>) {
        self.max_pacing = rate;
    }

    /// The caller calls [`Sender::poll_transmit`] only so often: what pacing would have let leave meanwhile leaves at once.
    pub fn set_turn(&mut self, turn: Span) {
        self.turn = turn;
    }

    /// The application has more than was written, and writes it as soon as there is room: that nothing is there to be sent does not mean
    /// that it limits the flow, and less than a packet waits to be filled up.
    pub fn set_more(&mut self, more: bool) {
        self.more = more;
    }

    /// What a program can read of a TCP connection.
    pub fn progress(&self) -> TcpProgress {
        let seen = self.rtt.view();
        TcpProgress {
            acked: self.complete,
            written: self.written,
            unsent: self.unsent(),
            retransmits: self.stats.retransmits,
            lost: self.stats.retransmits + self.board.waiting(),
            sacked: self.board.arrived(),
            repair: match self.recovery {
                None => Repair::None,
                Some(episode) if episode.timeout => Repair::Timeout,
                Some(_) => Repair::Losses,
            },
            backoff: self.rtt.backoff(),
            undone: self.stats.mistakes,
            threshold: 0,
            delivery_rate: self.delivery_rate,
            window_full: !self.has_room(&self.feed.allowance()),
            min_rtt: seen.min,
            smoothed_rtt: seen.smoothed,
            acks: self.rtt.samples(),
            marked: self.marked / self.mss,
            mss: Bytes::new(self.mss),
        }
    }

    /// Written in all.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Written and not acknowledged (`SIOCOUTQ`).
    pub fn queued(&self) -> Bytes {
        Bytes::new(self.written - self.complete)
    }

    /// Written and not sent (`SIOCOUTQNSD`).
    pub fn unsent(&self) -> Bytes {
        Bytes::new(self.written - self.next)
    }

    /// Payload in flight.
    pub fn in_flight(&self) -> Bytes {
        self.board.in_flight()
    }

    /// The window in packets that holds now.
    pub fn window_packets(&self) -> u64 {
        self.window(&self.feed.allowance())
    }

    /// Losses are being repaired.
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Round-trip times.
    pub fn rtt(&self) -> RttView {
        self.rtt.view()
    }

    /// The round-trip time of the newest packet that the last acknowledgement brought.
    pub fn last_rtt(&self) -> Option<Span> {
        self.last_rtt
    }

    /// What the last acknowledgement brought.
    pub fn acked(&self) -> &[Packet] {
        &self.acked
    }

    /// What happened so far.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// How many things are remembered, for a bound on memory.
    pub fn remembered(&self) -> usize {
        self.board.remembered() + self.known.len() + self.gaps.len()
    }
}
