// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending end of a connection, without clock and socket.
use crate::buffer::Unacknowledged;
use crate::end::End;
use crate::wire::{self, AckBody, COOKIE, Cookie, Data, Datagram, Reason};
use alcc_cc::{Instance, Packet};
use alcc_flow::rules::UDP;
use alcc_flow::{Ack, Arrival, Sender};
use alcc_units::{Bytes, Span, Time};

/// Initial and maximum interval between repetitions of the first `HELLO`.
const HELLO: (Span, Span) = (Span::from_millis(250), Span::from_secs(2));
/// The application may be ahead by about the data of this time.
const AHEAD: Span = Span::from_millis(5);
/// Window of the rate measurement.
const WINDOW: Span = Span::from_millis(20);
/// Interval of keep-alives: an empty packet is sent, and the peer answers.
const ALIVE: Span = Span::from_secs(20);
/// Upper bound of the recommended size of a write, bytes.
const MAX_AHEAD: u64 = 64 << 10;

/// Parameters of a sending end.
pub struct Setup {
    /// The algorithm.
    pub cc: Instance,
    /// Its spec, from which the receiver makes its receiver module; at most 255 bytes.
    pub spec: String,
    /// The connection id, which cannot be guessed.
    pub id: u64,
    /// Seed of the algorithm's random numbers.
    pub seed: u64,
    /// Timeout for an answer to the first datagram.
    pub patience: Span,
    /// Timeout for an acknowledgement.
    pub silence: Span,
}

enum State {
    Connecting { since: Time, next: Time, tries: u32 },
    Open,
    Ended(End),
}

/// The sending end of a connection. Within one instant: [`Outgoing::on_datagram`],
/// [`Outgoing::on_timer`], [`Outgoing::write`], then [`Outgoing::poll`] until it returns false,
/// then [`Outgoing::next_timer`].
pub struct Outgoing {
    setup: SetupRest,
    state: State,
    cookie: Cookie,
    peer: u64,
    sender: Sender,
    ecn: bool,
    /// The last argument of [`Outgoing::set_more`].
    more: bool,
    kept: Unacknowledged,
    /// The end of the stream: one after its last byte, which is the end mark.
    end: Option<u64>,
    /// Time since which an acknowledgement is due.
    waiting: Option<Time>,
    now: Time,
    /// Time of sending the last packet.
    last_sent: Time,
    body: AckBody,
    arrivals: Vec<Arrival>,
    answer: Option<Vec<u8>>,
    pending_close: Option<Reason>,
    /// Start of the current rate window, and bytes sent since then.
    lately: (Time, u64),
    rate: u64,
}

struct SetupRest {
    id: u64,
    spec: String,
    patience: Span,
    silence: Span,
}

impl Outgoing {
    /// A connection to be opened: the first [`Outgoing::poll`] returns a datagram.
    pub fn new(now: Time, setup: Setup) -> Self {
        let ecn = setup.cc.needs().ecn;
        let mut sender = Sender::new(setup.cc, &UDP, now, None, setup.seed);
        // Assumed until the application shows that it has no data.
        sender.set_more(true);
        Self {
            sender,
            ecn,
            more: true,
            setup: SetupRest {
                id: setup.id,
                spec: setup.spec,
                patience: setup.patience,
                silence: setup.silence,
            },
            state: State::Connecting {
                since: now,
                next: now,
                tries: 0,
            },
            cookie: [0; COOKIE],
            peer: 0,
            kept: Unacknowledged::default(),
            end: None,
            waiting: None,
            now,
            last_sent: now,
            body: AckBody::default(),
            arrivals: Vec::new(),
            answer: None,
            pending_close: None,
            lately: (now, 0),
            rate: 0,
        }
    }

    /// The connection's id, which datagrams to it carry.
    pub fn id(&self) -> u64 {
        self.setup.id
    }

    /// The receiver's id; 0 until it has accepted.
    pub fn peer(&self) -> u64 {
        self.peer
    }

    /// True if the receiver has accepted.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// True if its packets may carry ECT (RFC 3168), because the algorithm reacts to marks. If
    /// nothing of the first flight arrived, the path may drop such packets, and they are no longer
    /// sent.
    pub fn is_markable(&self) -> bool {
        let lost = self.sender.stats().timeouts > 0 && self.sender.progress().acked == 0;
        self.is_open() && self.ecn && !lost
    }

    /// The end of the connection, if it has ended.
    pub fn ended(&self) -> Option<&End> {
        match &self.state {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// True if the stream is finished and everything has arrived: acknowledged, or answered by the
    /// receiving application.
    pub fn is_done(&self) -> bool {
        // The data in flight may never be zero, because of heartbeats.
        self.end
            .is_some_and(|end| self.answer.is_some() || self.sender.progress().acked >= end)
    }

    /// The sender inside.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Sets the time between two calls of [`Outgoing::poll`].
    pub fn set_poll_interval(&mut self, interval: Span) {
        self.sender.set_poll_interval(interval);
    }

    /// Sets whether the application waits to write.
    pub fn set_more(&mut self, more: bool) {
        self.more = more && self.end.is_none();
        self.sender.set_more(self.more);
    }

    /// True if the application has more data, as far as is known: a partial packet waits for it.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// The answer of the receiving application.
    pub fn answer(&self) -> Option<&[u8]> {
        self.answer.as_deref()
    }

    /// Recommended size of the application's next write, bytes. It is small, because waiting data
    /// is delayed.
    pub fn room(&self) -> usize {
        if !self.is_open() || self.end.is_some() {
            return 0;
        }
        let mss = self.sender.rules().mss.get();
        let most = self.rate.clamp(2 * mss, MAX_AHEAD);
        most.saturating_sub(self.sender.unsent().get()) as usize
    }

    /// True if no new data waits to be sent.
    pub fn is_all_sent(&self) -> bool {
        self.sender.unsent() == Bytes::ZERO
    }

    /// True if less than a packet of new data waits to be sent.
    pub fn has_partial_packet(&self) -> bool {
        self.sender.unsent() < self.sender.rules().mss
    }

    /// Takes data of the application. Returns the number of bytes taken.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.room());
        self.kept.push(&bytes[..n]);
        self.sender.write(Bytes::new(n as u64));
        n
    }

    /// Notes that the application has written everything.
    pub fn finish(&mut self) {
        if self.end.is_none() && self.is_open() {
            self.kept.push(&[0]);
            self.sender.write(Bytes::new(1));
            self.end = Some(self.sender.written());
            self.set_more(false);
        }
    }

    /// The application has finished with the connection: if not everything has arrived, the peer is
    /// informed of the abort.
    pub fn close(&mut self) {
        match self.state {
            State::Ended(_) => {}
            State::Open if self.is_done() => self.end_with(End::Done, Some(Reason::Done)),
            State::Open => self.end_with(End::Aborted, Some(Reason::Aborted)),
            State::Connecting { .. } => self.end_with(End::Aborted, None),
        }
    }

    fn end_with(&mut self, end: End, pending_close: Option<Reason>) {
        self.state = State::Ended(end);
        self.pending_close = pending_close;
        self.waiting = None;
    }

    /// The packets acknowledged by the last acknowledgement.
    pub fn acked(&self) -> &[Packet] {
        self.sender.acked()
    }

    /// A datagram with this id arrived at `at`; a time before the last call counts as the current
    /// time. Invalid content is ignored or, if only the peer can have sent it, ends the connection.
    /// True if it was an acknowledgement.
    pub fn on_datagram(&mut self, at: Time, datagram: &Datagram<'_>) -> bool {
        let at = at.max(self.now);
        self.now = at;
        match (&self.state, datagram) {
            (State::Connecting { since, tries, .. }, Datagram::Retry { cookie, .. }) => {
                // A repeated RETRY is valid, but no reason to send again at once.
                if self.cookie == [0; COOKIE] {
                    self.state = State::Connecting {
                        since: *since,
                        next: at,
                        tries: *tries,
                    };
                }
                self.cookie = *cookie;
            }
            (State::Connecting { .. }, Datagram::Accept { peer, .. }) => {
                self.peer = *peer;
                self.state = State::Open;
                self.sender.start(at);
            }
            (State::Connecting { .. } | State::Open, Datagram::Close { reason, .. }) => {
                let done = self.is_done();
                let end = if done {
                    End::Done
                } else {
                    End::Closed(*reason)
                };
                self.end_with(end, None);
            }
            (State::Open, Datagram::Ack { body, .. }) => return self.on_ack(at, body),
            (State::Open, Datagram::Unknown { id }) if *id == self.peer => {
                let done = self.is_done();
                self.end_with(if done { End::Done } else { End::Forgotten }, None);
            }
            // Also before the last acknowledgement, which may have been lost.
            (State::Open, Datagram::Answer { bytes, .. }) if self.end.is_some() => {
                self.answer.get_or_insert_with(|| bytes.to_vec());
            }
            _ => {}
        }
        false
    }

    fn on_ack(&mut self, at: Time, body: &[u8]) -> bool {
        if self.body.read(body).is_err() {
            return false;
        }
        // Timers that were due before it arrived run first.
        self.run_timers(at);
        if !self.body.report.is_empty() {
            let report = self.body.report;
            self.sender.on_feedback(at, &report);
        }
        let mut ack = Ack::default();
        ack.cumulative_ack = self.body.complete;
        ack.window = Bytes::new(self.body.window);
        ack.sent_at = at;
        ack.marked = self.body.marked;
        self.arrivals.clear();
        self.arrivals
            .extend(self.body.arrivals.iter().map(|(pn, held)| Arrival {
                pn: *pn,
                at: at - *held,
            }));
        let (ranges, arrivals) = (&self.body.ranges, &self.arrivals);
        let result = self.sender.on_ack_arrivals(at, &ack, ranges, arrivals);
        if let Err(error) = result {
            self.end_with(End::Violation(error.to_string()), Some(Reason::Protocol));
            return false;
        }
        self.kept.forget_below(self.sender.progress().acked);
        self.waiting = (!self.sender.is_done()).then_some(at);
        true
    }

    /// Runs timers that are due by `at`, each at its own time.
    fn run_timers(&mut self, at: Time) {
        // If a timer does not advance, or there are too many of them, all run at once.
        for _ in 0..1000 {
            match self.sender.next_deadline() {
                Some(due) if due < at => self.sender.on_timer(due),
                _ => return,
            }
        }
        self.sender.on_timer(at);
    }

    /// Runs timers that are due. It does nothing when called early.
    pub fn on_timer(&mut self, now: Time) {
        let now = now.max(self.now);
        self.now = now;
        match self.state {
            State::Connecting { since, .. } if now.since(since) >= self.setup.patience => {
                self.end_with(End::NoAnswer(self.setup.patience), None);
            }
            State::Open => {
                if self
                    .waiting
                    .is_some_and(|w| now.since(w) >= self.setup.silence)
                {
                    self.end_with(End::Silent(self.setup.silence), Some(Reason::Aborted));
                    return;
                }
                self.run_timers(now);
                if self.sender.next_deadline().is_some_and(|due| due <= now) {
                    self.sender.on_timer(now);
                }
                if self.keeps_alive().is_some_and(|at| at <= now) {
                    self.last_sent = now;
                    self.sender.probe();
                }
            }
            _ => {}
        }
    }

    /// Time of the next keep-alive.
    fn keeps_alive(&self) -> Option<Time> {
        (!self.is_done()).then_some(self.last_sent + ALIVE)
    }

    /// Time of the next call of [`Outgoing::on_timer`] or [`Outgoing::poll`].
    pub fn next_timer(&self) -> Option<Time> {
        match &self.state {
            State::Connecting { since, next, .. } => {
                Some((*next).min(*since + self.setup.patience))
            }
            State::Open => {
                let silent = self.waiting.map(|at| at + self.setup.silence);
                let timers = [self.sender.next_timer(), silent, self.keeps_alive()];
                timers.into_iter().flatten().min()
            }
            State::Ended(_) => None,
        }
    }

    /// Appends the next datagram to send now; false if there is none.
    pub fn poll(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let now = now.max(self.now);
        self.now = now;
        match &mut self.state {
            State::Ended(_) => {
                let Some(reason) = self.pending_close.take() else {
                    return false;
                };
                Datagram::Close {
                    id: self.peer,
                    reason,
                }
                .write(out);
                true
            }
            State::Connecting { next, tries, .. } => {
                if *next > now {
                    return false;
                }
                *next = now + (HELLO.0 * (1 << (*tries).min(10))).min(HELLO.1);
                *tries += 1;
                Datagram::Hello {
                    id: self.setup.id,
                    cookie: self.cookie,
                    spec: &self.setup.spec,
                }
                .write(out);
                true
            }
            State::Open => self.poll_data(now, out),
        }
    }

    fn poll_data(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let Some(packet) = self.sender.poll_transmit(now) else {
            return false;
        };
        self.waiting.get_or_insert(now);
        self.last_sent = now;
        let len = packet.len as usize;
        let data = Data {
            pn: packet.pn,
            offset: packet.start,
            end: packet.len > 0 && self.end == Some(packet.end()),
            header: packet.header,
            payload: &[],
        };
        let from = out.len();
        wire::data_header(out, self.peer, &data, len);
        if len > 0 && !self.kept.copy(packet.start, len, out) {
            debug_assert!(false, "what is sent is kept");
            out.resize(out.len() + len, 0);
        }
        wire::seal(out, from);
        if now.since(self.lately.0) >= WINDOW {
            let part = AHEAD.as_nanos() as f64 / now.since(self.lately.0).as_nanos() as f64;
            self.rate = (self.lately.1 as f64 * part) as u64;
            self.lately = (now, 0);
        }
        self.lately.1 += packet.len;
        true
    }

    /// Number of entries in memory, for testing the bound.
    pub fn remembered(&self) -> usize {
        self.sender.remembered() + self.arrivals.capacity() + self.body.arrivals.capacity()
    }
}
