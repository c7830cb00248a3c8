// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending end of a flow around a [`Controller`]: what is sent, what is lost, what is sent again and when.
use crate::board::{Board, Number, Segment};
use crate::pacer::Pacer;
use crate::ranges::{Range, RangeSet};
use crate::recovery::{Heard, Shaper};
use crate::rules::{Detection, Expiry, Form, Rules, Shape};
use crate::timeout::RoundTrip;
use crate::wire::{Ack, AckError, Transmit};
use crate::{TcpProgress, earlier};
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, EventSink, Header, Kind, LimitedBy, LossBatch, Packet,
    Path, Pn, Recovery, RecoveryEnd, Rto, RttView, Sending, Sent, Source, Spurious,
};
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
    cc: Box<dyn Controller>,
    rules: Rules,
    mss: u64,
    /// The algorithm leaves the shape of recovery to the host.
    shaped: bool,
    /// Its packets carry something for a receiver half.
    headed: bool,
    seed: u64,
    rtt_hint: Option<Span>,
    started: bool,
    board: Board,
    rtt: RoundTrip,
    written: u64,
    next: u64,
    complete: u64,
    endless: bool,
    buffer: u64,
    /// The peer permits the stream up to here.
    edge: u64,
    /// What the peer has said to have: bytes beyond `complete`, or transmissions.
    known: RangeSet,
    pacer: Pacer,
    paced_until: Option<Time>,
    max_pacing: Option<Rate>,
    limited: LimitedBy,
    app_limited_until: u64,
    round_ends: Bytes,
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
    sent_at: Option<Time>,
    tail_from: Time,
    /// The peer's window is shut: when to ask, and how often we have.
    persist: Option<(Time, u32)>,
    pinged: Option<Time>,
    echo: Time,
    last_rtt: Option<Span>,
    stats: SenderStats,
    acked: Vec<Packet>,
    lost: Vec<Packet>,
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
            cc,
            rules,
            mss: rules.mss.get().max(1),
            shaped,
            headed: needs.header > 0,
            seed,
            rtt_hint,
            started: false,
            board,
            rtt,
            written: 0,
            next: 0,
            complete: 0,
            endless: false,
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
            max_pacing: None,
            limited: LimitedBy::default(),
            app_limited_until: 0,
            round_ends: Bytes::ZERO,
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
            sent_at: None,
            tail_from: now,
            persist: None,
            pinged: None,
            echo: Time::ZERO,
            last_rtt: None,
            stats: SenderStats::default(),
            acked: Vec::new(),
            lost: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The flow begins.
    pub fn start(&mut self, now: Time, log: &mut dyn EventSink) {
        self.started = true;
        let path = Path {
            mss: Bytes::new(self.mss),
            rtt_hint: self.rtt_hint,
            seed: self.seed,
        };
        self.cc.on_start(&mut Cx { now, log }, &path);
    }

    // --- the application ---------------------------------------------------------------------------------------------

    /// There is always more data: it is made when it can be sent.
    pub fn set_endless(&mut self, endless: bool) {
        self.endless = endless;
    }

    /// The application writes; returns how much the send buffer took.
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
        self.endless = false;
        self.written = self.next;
    }

    /// Everything written has arrived.
    pub fn is_done(&self) -> bool {
        !self.endless && self.written <= self.next && self.board.is_empty()
    }

    // --- sending -----------------------------------------------------------------------------------------------------

    /// The next packet that may leave now.
    pub fn poll_transmit(&mut self, now: Time, log: &mut dyn EventSink) -> Option<Transmit> {
        if !self.started {
            return None;
        }
        self.paced_until = None;
        if let Some(forced) = self.forced.take()
            && let Some(transmit) = self.force(now, forced, log)
        {
            return Some(transmit);
        }
        let mut allowance = self.cc.allowance();
        if self.board.flight() == 0 && self.resume(now, log) {
            allowance = self.cc.allowance();
        }
        if allowance.ping && self.pinged != Some(now) {
            self.pinged = Some(now);
            return Some(self.ping(now, log));
        }
        if !self.has_room(&allowance) {
            self.limited.window = true;
            return None;
        }
        if self.board.in_flight() >= MOST_IN_FLIGHT {
            self.limited.peer = true;
            return None;
        }
        if allowance.quota.get() < self.mss {
            self.limited.quota = true;
            return None;
        }
        if let Some(number) = self.board.next_lost() {
            let len = self.board.get(number).map_or(0, |s| u64::from(s.len));
            self.pace(now, &allowance, len).then(|| {
                self.board.take_lost();
                self.send_again(now, number, log)
            })
        } else {
            let len = self.sendable(now)?;
            self.pace(now, &allowance, len)
                .then(|| self.send_new(now, len, Kind::New, log))
        }
    }

    fn has_room(&self, allowance: &Allowance) -> bool {
        if self.rules.overshoots {
            return self.board.in_flight() < allowance.window;
        }
        self.flight() < self.window(allowance)
    }

    /// Another packet may leave at once.
    fn may_send_more(&mut self, now: Time) -> bool {
        let allowance = self.cc.allowance();
        let data = self.endless || self.written > self.next || self.board.next_lost().is_some();
        let paced = allowance
            .rate
            .and_then(|rate| self.pacer.wait(now, rate, allowance.burst, self.rules.mss));
        data && paced.is_none() && self.has_room(&allowance) && allowance.quota.get() >= self.mss
    }

    /// Packets in flight, as windows count them.
    fn flight(&self) -> u64 {
        if self.rules.is_stream() {
            self.board.flight()
        } else {
            self.board.in_flight().get() / self.mss
        }
    }

    /// The window in packets.
    fn window(&self, allowance: &Allowance) -> u64 {
        match &self.shaper {
            Some(shaper) => shaper.window(),
            None => (allowance.window.get() / self.mss).max(1),
        }
    }

    /// How much new data may be sent at once, window and pacer aside.
    fn sendable(&mut self, now: Time) -> Option<u64> {
        let waiting = if self.endless {
            self.mss
        } else {
            self.written - self.next
        };
        if waiting == 0 {
            self.limited.app = true;
            self.app_limited_until = (self.board.delivered() + self.board.in_flight())
                .get()
                .max(1);
            return None;
        }
        let len = waiting.min(self.mss);
        let permitted = self.edge.saturating_sub(self.next);
        if len <= permitted {
            self.persist = None;
            return Some(len);
        }
        // A part of a segment is better than to wait for a probe.
        if permitted > 0 && self.board.is_empty() {
            self.persist = None;
            return Some(permitted);
        }
        self.limited.peer = true;
        if self.board.is_empty() && self.persist.is_none() {
            self.persist = Some((now + self.timeout(), 0));
        }
        None
    }

    fn timeout(&self) -> Span {
        self.rtt.timeout().unwrap_or(Span::from_secs(1))
    }

    /// Sending resumes after a pause; true if the algorithm was told.
    fn resume(&mut self, now: Time, log: &mut dyn EventSink) -> bool {
        let Some(before) = self.sent_at else {
            return false;
        };
        let idle = now.since(before.max(self.progress_at));
        let waits = !self.board.is_empty() || !(self.endless || self.written > self.next);
        if waits || idle <= self.rtt.view().smoothed {
            return false;
        }
        self.sent_at = None;
        self.cc.on_idle_restart(&mut Cx { now, log }, idle);
        true
    }

    /// True if pacing lets `len` bytes leave.
    fn pace(&mut self, now: Time, allowance: &Allowance, len: u64) -> bool {
        let (rate, burst) = match (allowance.rate, self.max_pacing) {
            (Some(rate), Some(most)) if rate <= most => (rate, allowance.burst),
            (Some(rate), None) => (rate, allowance.burst),
            (None, None) => return true,
            // The kernel sends a millisecond's worth at a time, at least two segments.
            (_, Some(most)) => {
                let burst = most.bytes_in(Span::from_millis(1));
                (most, burst.max(Bytes::new(2 * self.mss)))
            }
        };
        let len = Bytes::new(len);
        self.paced_until = self.pacer.wait(now, rate, burst, len);
        if self.paced_until.is_some() {
            self.limited.pacer = true;
            return false;
        }
        self.pacer.spend(len);
        true
    }

    fn force(&mut self, now: Time, forced: Forced, log: &mut dyn EventSink) -> Option<Transmit> {
        match forced {
            Forced::Again(number) => {
                let state = self.board.get(number)?.state;
                (state != crate::board::State::Arrived).then(|| self.send_again(now, number, log))
            }
            Forced::New => {
                let len = self.sendable(now)?;
                Some(self.send_new(now, len, Kind::New, log))
            }
            Forced::Window => Some(self.bare(now)),
        }
    }

    /// A packet without data, which the peer answers.
    fn bare(&self, now: Time) -> Transmit {
        Transmit {
            pn: self.board.next_pn(),
            start: self.complete,
            len: 0,
            kind: Kind::Probe,
            sent_at: now,
            echo: self.echo,
            header: Header::EMPTY,
        }
    }

    fn ping(&mut self, now: Time, log: &mut dyn EventSink) -> Transmit {
        if !self.rules.is_stream() {
            return self.send_new(now, 0, Kind::Probe, log);
        }
        if let Some(len) = self.sendable(now) {
            return self.send_new(now, len, Kind::Probe, log);
        }
        let sent = self.sent(Kind::Probe, 0);
        self.cc.on_sent(&mut Cx { now, log }, &sent);
        self.bare(now)
    }

    fn sent(&self, kind: Kind, len: u64) -> Sent {
        Sent {
            pn: self.board.next_pn(),
            len: Bytes::new(len),
            in_flight_before: self.board.in_flight(),
            kind,
            app_limited: self.is_app_limited(),
        }
    }

    fn is_app_limited(&self) -> bool {
        self.board.delivered().get() < self.app_limited_until
    }

    fn send_new(&mut self, now: Time, len: u64, kind: Kind, log: &mut dyn EventSink) -> Transmit {
        let sent = self.sent(kind, len);
        let start = self.next;
        self.leaves(now, false);
        let tag = self.cc.on_sent(&mut Cx { now, log }, &sent);
        self.board
            .send(now, start, len as u32, sent.app_limited, tag);
        self.next += len;
        self.written = self.written.max(self.next);
        self.tail_from = now;
        self.transmit(now, &sent, start, log)
    }

    fn send_again(&mut self, now: Time, number: Number, log: &mut dyn EventSink) -> Transmit {
        let (start, len) = self
            .board
            .get(number)
            .map_or((self.complete, 0), |s| (s.start, u64::from(s.len)));
        let sent = self.sent(Kind::Retransmit, len);
        self.leaves(now, start <= self.complete);
        self.stats.retransmits += 1;
        let since = self.again.filter(|(_, end)| self.complete < *end);
        let (at, end) = since.unwrap_or((now, 0));
        self.again = Some((at, end.max(start + len)));
        if let Some(undo) = &mut self.undo {
            undo.again_at.get_or_insert(at);
            undo.resent = true;
            undo.open += u64::from(self.rules.is_stream());
        }
        let tag = self.cc.on_sent(&mut Cx { now, log }, &sent);
        self.board.send_again(now, number, sent.app_limited, tag);
        self.transmit(now, &sent, start, log)
    }

    /// The retransmission timer runs from the first packet after silence, and anew when the oldest one is sent again.
    fn leaves(&mut self, now: Time, oldest: bool) {
        if oldest || self.board.flight() == 0 {
            self.progress_at = now;
        }
        self.sent_at = Some(now);
        self.stats.transmissions += 1;
        if let Some(shaper) = &mut self.shaper {
            shaper.sent();
        }
    }

    fn transmit(
        &mut self,
        now: Time,
        sent: &Sent,
        start: u64,
        log: &mut dyn EventSink,
    ) -> Transmit {
        let header = if self.headed {
            let sending = Sending {
                pn: sent.pn,
                more: self.may_send_more(now),
            };
            self.cc.header(&mut Cx { now, log }, &sending)
        } else {
            Header::EMPTY
        };
        Transmit {
            pn: sent.pn,
            start,
            len: sent.len.get(),
            kind: sent.kind,
            sent_at: now,
            echo: self.echo,
            header,
        }
    }

    // --- acknowledgements --------------------------------------------------------------------------------------------

    /// An acknowledgement arrives.
    ///
    /// # Errors
    /// [`AckError`] if it cannot be true; then nothing has changed.
    pub fn on_ack(
        &mut self,
        now: Time,
        ack: &Ack,
        log: &mut dyn EventSink,
    ) -> Result<(), AckError> {
        self.on_ack_ranges(now, ack, ack.ranges(), log)
    }

    /// An acknowledgement with as many ranges as the caller's encoding has; those in `ack` are not looked at.
    ///
    /// # Errors
    /// [`AckError`] if it cannot be true; then nothing has changed.
    pub fn on_ack_ranges(
        &mut self,
        now: Time,
        ack: &Ack,
        ranges: &[Range],
        log: &mut dyn EventSink,
    ) -> Result<(), AckError> {
        self.check(ack, ranges)?;
        let in_flight_before = self.board.in_flight();
        let newest = self.newest.map(|n| n.pn);
        self.acked.clear();
        self.lost.clear();
        let mut news = News {
            duplicate: ack.duplicate.is_some(),
            highest: self.highest,
            answers: (self.rules.timestamps && ack.echo > Time::ZERO).then_some(ack.echo),
            ..News::default()
        };
        self.echo = self.echo.max(ack.sent_at);
        let edge = ack.complete.saturating_add(ack.window.get());
        self.edge = self.edge.max(edge);
        match self.rules.form {
            Form::Stream => self.hear_stream(now, ack, ranges, &mut news),
            Form::Datagrams { .. } => self.hear_numbers(now, ranges, &mut news),
        }
        if !self.acked.is_sorted_by_key(|p| p.pn) {
            self.acked.sort_unstable_by_key(|p| p.pn);
        }
        self.measure(now, ack, &news);
        self.judge_tail(now, &news, log);
        let mistaken = self.judge_reduction(now, ack, &news, log);
        let ended = self.repaired();
        // Only something newer that has arrived tells of losses.
        if self.newest.map(|n| n.pn) > newest && !matches!(self.rules.detection, Detection::Gap(_))
        {
            self.detect(now);
        }
        let new_episode = self.begin_episode();
        if ended && new_episode {
            // One episode after the other; otherwise the end comes last.
            self.end_recovery(now, log);
        }
        self.report_losses(now, new_episode, log);
        if news.advanced || !self.acked.is_empty() {
            self.note_progress(now, &news);
        }
        self.shape(self.acked.len() as u64, news.advanced);
        self.report_arrivals(now, in_flight_before, news.advanced, log);
        if (ended || mistaken) && !new_episode {
            self.end_recovery(now, log);
        }
        self.grow_buffer();
        self.run_controller_timer(now, log);
        if self.lost.capacity() > 1024 {
            self.lost = Vec::new();
        }
        Ok(())
    }

    fn check(&self, ack: &Ack, ranges: &[Range]) -> Result<(), AckError> {
        let stream = self.rules.is_stream();
        let sent = if stream {
            self.next
        } else {
            self.board.next_pn()
        };
        let never = |named| Err(AckError::NeverSent { named, sent });
        if stream && ack.complete > sent {
            return never(ack.complete);
        }
        for range in ranges {
            if range.end < range.start {
                return Err(AckError::Backwards(*range));
            }
            if range.end > sent {
                return never(range.end);
            }
        }
        Ok(())
    }

    fn hear_stream(&mut self, now: Time, ack: &Ack, ranges: &[Range], news: &mut News) {
        self.edge = self.edge.max(ack.complete.saturating_add(ack.window.get()));
        if ack.complete > self.complete {
            news.advanced = true;
            self.complete = ack.complete;
            while let Some((segment, packet)) = self.board.settle(now, ack.complete) {
                if let Some(packet) = packet {
                    self.arrived(now, &segment, packet, news);
                }
            }
            self.board.clean();
            self.known.forget_below(self.complete);
        }
        for range in ranges {
            let range = Range::new(range.start.max(self.complete), range.end);
            if range.is_empty() {
                continue;
            }
            self.scratch.clear();
            let mut scratch = std::mem::take(&mut self.scratch);
            let merged = self.known.insert(range, &mut scratch);
            for part in &scratch {
                let mut number = self.board.number_at(part.start);
                while let Some(segment) = self.board.get(number).copied()
                    && segment.start < part.end
                {
                    let whole = Range::new(segment.start, segment.end());
                    if merged.covers(&whole)
                        && let Some(packet) = self.board.arrive(now, number)
                    {
                        self.arrived(now, &segment, packet, news);
                    }
                    number += 1;
                }
            }
            self.scratch = scratch;
        }
        self.highest = self.highest.max(self.complete);
    }

    /// A segment of a stream has arrived; by which of its transmissions is not known if there were several.
    fn arrived(&mut self, now: Time, segment: &Segment, mut packet: Packet, news: &mut News) {
        let rtt = now.since(segment.sent_at);
        if segment.again {
            // Sooner than any round trip, or in answer to something older: an earlier transmission (RFC 8985, section 6.2).
            // Linux's RACK does not ask the time stamp, and takes too much for lost after a needless timeout, until the next
            // acknowledgement.
            let earlier = self.rules.detection != Detection::Rack
                && news.answers.is_some_and(|at| at < segment.sent_at);
            if rtt >= self.rtt.view().min && !earlier {
                self.overtake(segment.pn, rtt);
            }
        } else {
            packet.rtt = Some(rtt);
            news.rtt = news.rtt.or(Some(rtt));
            self.overtake(segment.pn, rtt);
            self.reordered |= segment.end() < news.highest;
            news.original |= self
                .recovery
                .is_some_and(|episode| segment.end() <= episode.until);
        }
        self.highest = self.highest.max(segment.end());
        let sent = segment.sent_at;
        news.oldest_sent = Some(news.oldest_sent.map_or(sent, |at| at.min(sent)));
        self.acked.push(packet);
    }

    /// A transmission has arrived.
    fn overtake(&mut self, pn: Pn, rtt: Span) {
        if self.newest.is_none_or(|newest| newest.pn < pn) {
            self.newest = Some(Newest { pn, rtt });
        }
    }

    fn hear_numbers(&mut self, now: Time, ranges: &[Range], news: &mut News) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let oldest = self.board.first_pn();
        for range in ranges {
            scratch.clear();
            let range = Range::new(range.start.max(oldest), range.end);
            self.known.insert(range, &mut scratch);
            for pn in scratch.iter().flat_map(|part| part.start..part.end) {
                self.number_arrived(now, pn, news);
            }
        }
        self.scratch = scratch;
        if let Some(complete) = self.board.settle_arrived() {
            news.advanced = true;
            self.complete = self.complete.max(complete);
        }
        self.known.forget_below(self.board.first_pn());
    }

    fn number_arrived(&mut self, now: Time, pn: Pn, news: &mut News) {
        let Some(number) = self.board.number_of(pn) else {
            return;
        };
        let Some(segment) = self.board.get(number).copied() else {
            return;
        };
        let late = segment.pn != pn || segment.state == crate::board::State::Lost;
        let Some(mut packet) = self.board.arrive(now, number) else {
            return;
        };
        if late {
            // It was taken for lost.
            if let Some(undo) = self.undo.as_mut().filter(|u| u.what == Spurious::Loss) {
                undo.open = undo.open.saturating_sub(1);
            }
            packet.pn = pn;
        } else {
            let rtt = now.since(segment.sent_at);
            packet.rtt = Some(rtt);
            news.rtt = Some(rtt);
            let expected = self.newest.map_or(0, |newest| newest.pn + 1);
            if matches!(self.rules.detection, Detection::Gap(_)) && pn > expected {
                self.gaps.push_back((pn, now));
            }
            self.overtake(pn, rtt);
        }
        news.oldest_sent = news.oldest_sent.or(Some(segment.sent_at));
        self.acked.push(packet);
    }

    fn measure(&mut self, now: Time, ack: &Ack, news: &News) {
        let echoed = (self.rules.timestamps && ack.echo > Time::ZERO && news.advanced)
            .then(|| now.since(ack.echo));
        if self.rules.is_stream() {
            if let Some(rtt) = news.rtt.or(echoed) {
                self.rtt.sample(rtt, self.complete, self.next);
            }
        } else {
            for rtt in self.acked.iter().filter_map(|p| p.rtt) {
                self.rtt.sample(rtt, self.complete, self.next);
            }
        }
        self.last_rtt = self.acked.last().and_then(|p| p.rtt);
    }

    /// What a tail probe has shown (RFC 8985, section 7.4).
    fn judge_tail(&mut self, now: Time, news: &News, log: &mut dyn EventSink) {
        let Some(tail) = self.tail else { return };
        match tail.again {
            _ if self.recovery.is_some() => self.tail = None,
            None if self.complete >= tail.until => self.tail = None,
            Some(_) if news.duplicate => self.tail = None,
            Some(packet) if self.complete > tail.until => {
                // Nobody complained of a duplicate: it repaired a loss, for which the algorithm has to answer once.
                self.tail = None;
                let loss = LossBatch {
                    lost: &[packet],
                    new_episode: true,
                    in_flight: self.board.in_flight(),
                    rtt: self.rtt.view(),
                };
                self.cc.on_loss(&mut Cx { now, log }, &loss);
                self.end_recovery(now, log);
            }
            _ => {}
        }
    }

    /// Takes back a reduction that was a mistake; true if it did.
    fn judge_reduction(
        &mut self,
        now: Time,
        ack: &Ack,
        news: &News,
        log: &mut dyn EventSink,
    ) -> bool {
        if let (Some(question), Some(first)) = (self.question, self.acked.first()) {
            self.question = None;
            if first.pn < question {
                self.stats.mistakes += 1;
                self.cc.on_spurious(&mut Cx { now, log }, Spurious::Rto);
            }
        }
        let Some(undo) = &mut self.undo else {
            return false;
        };
        if news.duplicate {
            undo.open = undo.open.saturating_sub(1);
        }
        let Some(again_at) = undo.again_at.filter(|_| undo.resent) else {
            return false;
        };
        // RFC 3522: the answer is to something sent before anything was sent again.
        let delayed =
            self.rules.timestamps && news.advanced && ack.echo > Time::ZERO && ack.echo < again_at;
        let original = undo.by_original && news.original;
        let stamped = self.rules.timestamps || !self.rules.is_stream();
        if !(delayed || original || (undo.open == 0 && stamped)) {
            return false;
        }
        let what = undo.what;
        self.undo = None;
        self.recovery = None;
        self.shaper = None;
        self.reordered = true;
        self.stats.mistakes += 1;
        if self.rules.is_stream() {
            self.board.restore();
        }
        self.cc.on_spurious(&mut Cx { now, log }, what);
        true
    }

    /// True once when what was lost is repaired.
    fn repaired(&mut self) -> bool {
        let stream = self.rules.is_stream();
        let newest = self.newest.map(|newest| newest.pn);
        let over = self.recovery.is_some_and(|episode| {
            if stream {
                self.complete >= episode.until
            } else {
                newest >= Some(episode.pn)
            }
        });
        if over {
            if let Some(episode) = self.recovery.take() {
                self.board.forget_replaced(episode.pn);
            }
            self.shaper = None;
            self.undo = None;
        }
        over
    }

    /// The reordering window (RFC 8985, section 6.2, step 4, as in Linux).
    fn reordering(&self) -> Span {
        let rtt = self.rtt.view();
        if !self.reordered && (self.recovery.is_some() || self.board.arrived() >= 3) {
            return Span::ZERO;
        }
        (rtt.min / 4).min(rtt.smoothed)
    }

    /// Finds what is lost by now.
    fn detect(&mut self, now: Time) {
        self.reordering_ends = None;
        let Some(newest) = self.newest else { return };
        let patience = newest.rtt + self.reordering();
        let reliable = self.rules.form != (Form::Datagrams { reliable: false });
        while let Some((number, segment)) = self.board.candidate()
            && segment.pn < newest.pn
        {
            let due = match self.rules.detection {
                Detection::Rack => segment.sent_at + patience,
                Detection::Packets(n) if segment.pn + n <= newest.pn => now,
                Detection::Packets(_) => break,
                Detection::Gap(patience) => self.missed(segment.pn, now) + patience,
            };
            if due > now {
                self.reordering_ends = (self.rules.detection == Detection::Rack).then_some(due);
                break;
            }
            self.lost.extend(self.board.lose(number, reliable));
        }
        if !reliable {
            self.board.settle_arrived();
        }
    }

    /// Since when a transmission is known to be missing.
    fn missed(&mut self, pn: Pn, now: Time) -> Time {
        while let Some(&(below, since)) = self.gaps.front() {
            if pn < below {
                return since;
            }
            self.gaps.pop_front();
        }
        now
    }

    /// True if what was just lost begins an episode.
    fn begin_episode(&mut self) -> bool {
        let Some(last) = self.lost.last() else {
            return false;
        };
        let stream = self.rules.is_stream();
        let new = match self.recovery {
            None => true,
            Some(episode) => !stream && last.pn >= episode.pn,
        };
        if new {
            self.open_episode(Spurious::Loss, false);
        }
        if let Some(undo) = self.undo.as_mut().filter(|_| !stream) {
            undo.open += self.lost.len() as u64;
            (undo.again_at, undo.resent) = (Some(Time::ZERO), true);
        }
        new
    }

    fn open_episode(&mut self, what: Spurious, by_original: bool) {
        let timeout = what == Spurious::Rto;
        self.recovery = Some(Episode {
            until: self.next,
            pn: self.board.next_pn(),
            timeout,
        });
        // What was sent again in an episode before may still be answered: that says nothing about this one.
        let under_way = self.again.filter(|(_, end)| self.complete < *end);
        self.undo = Some(Undo {
            what,
            again_at: under_way.map(|(at, _)| at),
            resent: false,
            open: 0,
            by_original,
        });
        self.tail = None;
    }

    fn report_losses(&mut self, now: Time, new_episode: bool, log: &mut dyn EventSink) {
        if self.lost.is_empty() {
            return;
        }
        let before = self.window(&self.cc.allowance());
        let in_flight = self.board.in_flight();
        let loss = LossBatch {
            lost: &self.lost,
            new_episode,
            in_flight,
            rtt: self.rtt.view(),
        };
        self.cc.on_loss(&mut Cx { now, log }, &loss);
        if new_episode && self.shaped {
            let out = (self.next - self.complete).div_ceil(self.mss);
            self.shaper = Some(Shaper::new(self.rules.shape, before.min(out)));
        }
    }

    fn shape(&mut self, delivered: u64, advanced: bool) {
        let target = (self.cc.allowance().window.get() / self.mss).max(1);
        let flight = self.flight();
        let lost = !self.lost.is_empty();
        if let Some(shaper) = &mut self.shaper {
            shaper.heard(&Heard {
                delivered,
                flight,
                target,
                advanced,
                lost,
            });
        }
    }

    /// The timer starts anew when the stream advances, and when something arrives that was sent before the oldest segment was sent again.
    fn note_progress(&mut self, now: Time, news: &News) {
        let fresh = !self.rules.is_stream()
            || news.advanced
            || self
                .board
                .front()
                .zip(news.oldest_sent)
                .is_some_and(|(front, sent)| sent < front.sent_at);
        if fresh {
            self.progress_at = now;
            self.rtt.progress();
        }
    }

    fn report_arrivals(
        &mut self,
        now: Time,
        in_flight_before: Bytes,
        advanced: bool,
        log: &mut dyn EventSink,
    ) {
        let Some(newest) = self.acked.last() else {
            return;
        };
        let delivered = self.board.delivered();
        let round_start = newest.stamp.delivered >= self.round_ends;
        if round_start {
            self.round_ends = delivered;
        }
        let batch = AckBatch {
            acked: &self.acked,
            in_flight_before,
            in_flight: self.board.in_flight(),
            delivered,
            rtt: self.rtt.view(),
            rate: newest.stamp.rate(newest.sent_at, delivered, now),
            round_start,
            limited: self.limited,
            in_recovery: self.recovery.is_some(),
            advanced: advanced || self.reordered || !self.rules.is_stream(),
            source: Source::Wire,
            rtt_error: Span::ZERO,
        };
        self.cc.on_ack(&mut Cx { now, log }, &batch);
        self.limited = LimitedBy::default();
    }

    fn end_recovery(&mut self, now: Time, log: &mut dyn EventSink) {
        let end = RecoveryEnd {
            in_flight: self.board.in_flight(),
            rtt: self.rtt.view(),
        };
        self.cc.on_recovery_end(&mut Cx { now, log }, &end);
    }

    fn grow_buffer(&mut self) {
        let most = self.rules.send_buffer.1.get();
        if self.buffer < most {
            let window = self.cc.allowance().window.get() / self.mss;
            let wanted = window.saturating_mul(BUFFER_PER_SEGMENT);
            self.buffer = self.buffer.max(wanted.min(most));
        }
    }

    // --- timers ------------------------------------------------------------------------------------------------------

    /// When [`Sender::on_timer`] wants to be called.
    pub fn next_timer(&self) -> Option<Time> {
        let controller = if self.started {
            self.cc.next_timer()
        } else {
            None
        };
        let persist = self.persist.map(|(at, _)| at);
        let alarm = earlier(self.alarm(), self.reordering_ends);
        earlier(
            earlier(alarm, controller),
            earlier(self.paced_until, persist),
        )
    }

    /// When the retransmission timer expires, or the tail is probed.
    fn alarm(&self) -> Option<Time> {
        if self.board.flight() == 0 {
            return None;
        }
        let timeout = self.progress_at + self.rtt.timeout()?;
        Some(match self.probe_due() {
            Some(probe) => probe.min(timeout),
            None => timeout,
        })
    }

    /// When the tail would be probed, if it is worth it.
    fn probe_due(&self) -> Option<Time> {
        let rtt = self.rtt.view();
        let quiet = self.recovery.is_none() && self.tail.is_none() && self.board.arrived() == 0;
        if !self.rules.tail_probe || !quiet || rtt.smoothed.is_zero() {
            return None;
        }
        let more = if self.board.flight() == 1 {
            LONE_SEGMENT
        } else {
            TIMER_GRAIN
        };
        Some(self.tail_from.max(self.progress_at) + rtt.smoothed * 2 + more)
    }

    /// A moment that [`Sender::next_timer`] named has come. Early calls do nothing.
    pub fn on_timer(&mut self, now: Time, log: &mut dyn EventSink) {
        if self.reordering_ends.is_some_and(|at| at <= now) {
            self.lost.clear();
            self.detect(now);
            let new_episode = self.begin_episode();
            if !self.lost.is_empty() {
                self.report_losses(now, new_episode, log);
                self.shape(1, false);
            }
        }
        if self.alarm().is_some_and(|at| at <= now) {
            if self.probe_due().is_some() {
                self.probe_tail(now);
            } else {
                self.expire(now, log);
            }
        }
        if let Some((at, asked)) = self.persist
            && at <= now
        {
            let asked = (asked + 1).min(16);
            let wait = (self.timeout() * (1 << asked)).min(self.rules.timeout.most);
            self.persist = Some((now + wait, asked));
            self.forced = Some(Forced::Window);
        }
        self.run_controller_timer(now, log);
    }

    fn run_controller_timer(&mut self, now: Time, log: &mut dyn EventSink) {
        if self.started && self.cc.next_timer().is_some_and(|due| due <= now) {
            if matches!(self.rules.detection, Detection::Gap(_)) {
                self.lost.clear();
                self.detect(now);
                let new_episode = self.begin_episode();
                self.report_losses(now, new_episode, log);
            }
            self.cc.on_timer(&mut Cx { now, log });
        }
    }

    /// New data if there is some, otherwise the last segment once more (RFC 8985, section 7.3).
    fn probe_tail(&mut self, now: Time) {
        self.stats.tail_probes += 1;
        self.progress_at = now;
        let fresh = (self.endless || self.written > self.next)
            && self.edge >= self.next.saturating_add(self.mss);
        let again = if fresh {
            self.forced = Some(Forced::New);
            None
        } else {
            self.board.back().map(|(number, last)| {
                self.forced = Some(Forced::Again(number));
                last.packet()
            })
        };
        self.tail = Some(Tail {
            until: self.next,
            again,
        });
    }

    /// The retransmission timer has expired.
    fn expire(&mut self, now: Time, log: &mut dyn EventSink) {
        let Some((number, oldest)) = self.board.oldest() else {
            return;
        };
        // Losses that the algorithm answers already are no news.
        let repairing = self.recovery.is_some_and(|episode| !episode.timeout);
        let stream = self.rules.is_stream();
        let again = self.rtt.backoff() > 0;
        self.rtt.expired();
        self.stats.timeouts += 1;
        let rto = Rto {
            backoff: self.reactions(stream && repairing),
            oldest: oldest.packet(),
            in_flight: self.board.in_flight(),
            silence: now.since(self.progress_at),
        };
        self.cc.on_rto(&mut Cx { now, log }, &rto);
        self.progress_at = now;
        if self.rules.timeout.expiry == Expiry::Tell {
            return;
        }
        self.shaper = None;
        self.lost.clear();
        match self.rules.timeout.expiry {
            Expiry::DeclareAll => {
                if stream && self.known.first().is_some_and(|r| r.start <= self.complete) {
                    self.known.clear();
                    self.board.renege();
                }
                self.declare_all(now);
                if stream {
                    let first = self.board.numbers().start;
                    self.forced = Some(Forced::Again(first));
                }
            }
            Expiry::Tell => {}
            Expiry::Probe => {
                self.question = Some(self.board.next_pn());
                self.forced = Some(Forced::Again(number));
            }
        }
        // RFC 5682, as Linux applies it: not while losses are being repaired.
        let what = Spurious::Rto;
        self.open_episode(
            what,
            stream && self.rules.timestamps && (!repairing || again),
        );
        if !stream {
            self.undo = None;
        }
        if !self.lost.is_empty() {
            self.report_losses(now, false, log);
        }
    }

    /// The how manieth answer to silence is due for the same data.
    fn reactions(&self, repairing: bool) -> u32 {
        match self.rules.timeout.expiry {
            Expiry::Tell => 1,
            _ => self.rtt.backoff() + u32::from(repairing),
        }
    }

    /// All that is in flight is lost, except what may still be on its way.
    fn declare_all(&mut self, now: Time) {
        let reliable = self.rules.form != (Form::Datagrams { reliable: false });
        let recent = match (self.rules.detection, self.newest) {
            (Detection::Rack, Some(newest)) => newest.rtt,
            _ => Span::ZERO,
        };
        let numbers = self.board.numbers();
        let first = numbers.start;
        for number in numbers {
            let young = self
                .board
                .get(number)
                .is_some_and(|s| s.sent_at + recent > now);
            if number == first || !young {
                self.lost.extend(self.board.lose(number, reliable));
            }
        }
        if !reliable {
            self.board.settle_arrived();
        }
    }

    // --- looking -----------------------------------------------------------------------------------------------------

    /// A report of the algorithm's receiver half.
    pub fn on_feedback(&mut self, now: Time, report: &[u8], log: &mut dyn EventSink) {
        self.cc.on_feedback(&mut Cx { now, log }, report);
    }

    /// The rules that it keeps.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The algorithm.
    pub fn controller(&self) -> &dyn Controller {
        &*self.cc
    }

    /// `SO_MAX_PACING_RATE`.
    pub fn set_max_pacing(&mut self, rate: Option<Rate>) {
        self.max_pacing = rate;
    }

    /// What a program can read of a TCP connection.
    pub fn progress(&self) -> TcpProgress {
        let seen = self.rtt.view().min;
        TcpProgress {
            acked: self.complete,
            written: self.written,
            unsent: self.unsent(),
            retransmits: self.stats.retransmits,
            repairing: self.recovery.is_some(),
            min_rtt: seen,
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
        self.window(&self.cc.allowance())
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

    /// What happened so far.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// How many things are remembered, for a bound on memory.
    pub fn remembered(&self) -> usize {
        self.board.remembered() + self.known.len() + self.gaps.len()
    }
}
