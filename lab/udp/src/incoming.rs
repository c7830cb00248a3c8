// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving end of a connection, without clock and socket.
use crate::buffer::Unread;
use crate::end::End;
use crate::wire::{self, ANSWER, AckBody, Data, Datagram, RANGES, Reason};
use alcc_cc::{Kind, Receiver as ReceiverModule, Report};
use alcc_flow::rules::UDP;
use alcc_flow::{Receiver, Transmit};
use alcc_units::{Bytes, Span, Time};

/// Number of packets after which an ACK is due, however fast they arrive.
const MAX_UNACKED: u32 = 64;
/// Interval and number of repetitions of the application's answer.
const ANSWER_AGAIN: (Span, u32) = (Span::from_millis(200), 25);

/// The receiving end of a connection. Within one instant: [`Incoming::on_data`],
/// [`Incoming::on_timer`], [`Incoming::read`], then [`Incoming::poll`] until it returns false, then
/// [`Incoming::next_timer`].
pub struct Incoming {
    /// The peer's connection id.
    peer: u64,
    receiver: Receiver,
    receiver_module: Option<Box<dyn ReceiverModule>>,
    report: Option<Report>,
    unread: Unread,
    /// The end of the stream, if known: one after its last byte, which is the end mark.
    end: Option<u64>,
    highest: u64,
    /// Number of packets not acknowledged yet.
    unacked: u32,
    silence: Span,
    last_received: Time,
    now: Time,
    ended: Option<End>,
    pending_close: Option<Reason>,
    answer: Option<(Vec<u8>, Time, u32)>,
    body: AckBody,
}

impl Incoming {
    /// A newly accepted connection; `peer` is the sender's id.
    pub fn new(
        now: Time,
        peer: u64,
        receiver_module: Option<Box<dyn ReceiverModule>>,
        silence: Span,
    ) -> Self {
        let mut receiver = Receiver::new(&UDP);
        receiver.read(now, 0);
        Self {
            peer,
            receiver,
            receiver_module,
            report: None,
            unread: Unread::default(),
            end: None,
            highest: 0,
            unacked: 0,
            silence,
            last_received: now,
            now,
            ended: None,
            pending_close: None,
            answer: None,
            body: AckBody::default(),
        }
    }

    /// The end of the connection, if it has ended. Received data can still be read.
    pub fn ended(&self) -> Option<&End> {
        self.ended.as_ref()
    }

    /// True if everything has been read.
    pub fn is_read(&self) -> bool {
        self.end
            .is_some_and(|end| self.unread.position() + 1 >= end)
    }

    /// True if everything has arrived.
    pub fn is_complete(&self) -> bool {
        self.end
            .is_some_and(|end| self.receiver.cumulative_ack() >= end)
    }

    /// Number of bytes that can be read.
    pub fn readable(&self) -> u64 {
        self.upto() - self.unread.position()
    }

    /// End of the readable stream, without the end mark.
    fn upto(&self) -> u64 {
        let complete = self.receiver.cumulative_ack();
        let data = self.end.map_or(complete, |end| complete.min(end - 1));
        data.max(self.unread.position())
    }

    /// Reads for the application.
    pub fn read(&mut self, now: Time, out: &mut [u8]) -> usize {
        let n = self.unread.read(self.upto(), out);
        if n > 0 {
            self.receiver
                .read(now.max(self.now), self.unread.position());
        }
        n
    }

    /// Sends an answer to the sending application, once: at most [`ANSWER`] bytes.
    pub fn answer(&mut self, now: Time, bytes: &[u8]) {
        let bytes = bytes[..bytes.len().min(ANSWER)].to_vec();
        self.answer.get_or_insert((bytes, now, 0));
    }

    /// The application has finished with the connection.
    pub fn close(&mut self) {
        if self.ended.is_none() && !self.is_complete() {
            self.ended = Some(End::Aborted);
            self.pending_close = Some(Reason::Aborted);
        }
    }

    /// Discards the rest, which will not be read.
    pub(crate) fn discard(&mut self) {
        self.unread.discard();
    }

    fn violated(&mut self, what: &str) {
        self.ended = Some(End::Violation(what.to_owned()));
        self.pending_close = Some(Reason::Protocol);
    }

    /// The peer closes the connection.
    pub fn on_close(&mut self, reason: Reason) {
        if self.ended.is_none() {
            let done = self.is_complete();
            self.ended = Some(if done { End::Done } else { End::Closed(reason) });
        }
    }

    /// The next packet has a CE mark, with `len` bytes of payload.
    pub(crate) fn on_mark(&mut self, len: usize) {
        self.receiver.on_mark(Bytes::new(len as u64));
    }

    /// A packet of data arrived at `at`; a time before the last call counts as the current time.
    pub fn on_data(&mut self, at: Time, data: &Data<'_>) {
        if self.ended.is_some() {
            return;
        }
        let at = at.max(self.now);
        self.now = at;
        let len = data.payload.len() as u64;
        let end = data.offset + len;
        let past = self.end.is_some_and(|known| end > known && len > 0);
        let other = data.end && (self.end.is_some_and(|known| known != end) || self.highest > end);
        if past || other {
            return self.violated("data beyond the end of the stream");
        }
        let packet = Transmit {
            pn: data.pn,
            start: data.offset,
            len,
            kind: Kind::New,
            sent_at: Time::ZERO,
            echo: Time::ZERO,
            header: data.header,
        };
        if !self.receiver.accepts(&packet) {
            return;
        }
        self.last_received = at;
        if len > 0 {
            self.highest = self.highest.max(end);
        }
        if data.end {
            self.end = Some(end);
        }
        self.run_receiver_module(at);
        let known = self.receiver.has_arrived(data.pn);
        // Also for old or duplicate packet numbers, because everything below the cumulative ACK
        // must be stored.
        if end > self.receiver.cumulative_ack() {
            self.unread.place(data.offset, data.payload);
        }
        self.receiver.on_data(at, &packet);
        self.unacked += 1;
        if let Some(receiver_module) = self.receiver_module.as_mut().filter(|_| !known) {
            receiver_module.on_packet(at, data.pn, Bytes::new(len), &data.header);
            self.report = receiver_module.report(at).or(self.report);
        }
    }

    /// True if an ACK is due now because of the number of packets: call [`Incoming::poll`].
    pub fn is_crowded(&self) -> bool {
        self.unacked >= MAX_UNACKED
    }

    /// Runs timers of the receiver module that are due by `at`, each at its own time.
    fn run_receiver_module(&mut self, at: Time) {
        let Some(receiver_module) = &mut self.receiver_module else {
            return;
        };
        for _ in 0..1000 {
            match receiver_module.next_timer() {
                Some(due) if due <= at => receiver_module.on_timer(due),
                _ => return,
            }
            self.report = receiver_module.report(at).or(self.report);
        }
        receiver_module.on_timer(at);
        self.report = receiver_module.report(at).or(self.report);
    }

    /// Runs timers that are due. It does nothing when called early.
    pub fn on_timer(&mut self, now: Time) {
        if self.ended.is_some() {
            return;
        }
        let now = now.max(self.now);
        self.now = now;
        if !self.is_complete() && now.since(self.last_received) >= self.silence {
            self.ended = Some(End::Silent(self.silence));
            self.pending_close = Some(Reason::Aborted);
            return;
        }
        if !self.is_complete() {
            self.run_receiver_module(now);
        }
    }

    /// Time of the next call of [`Incoming::on_timer`] or [`Incoming::poll`].
    pub fn next_timer(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        let answer = self.answer.as_ref().filter(|(_, _, n)| *n < ANSWER_AGAIN.1);
        let answer = answer.map(|(_, at, _)| *at);
        if self.is_complete() {
            return answer;
        }
        let receiver_module = self
            .receiver_module
            .as_ref()
            .and_then(|receiver_module| receiver_module.next_timer());
        let silent = Some(self.last_received + self.silence);
        let acks = self.receiver.next_timer();
        [receiver_module, silent, acks, answer]
            .into_iter()
            .flatten()
            .min()
    }

    /// Appends the next datagram to send; false if there is none. It acknowledges the packets since
    /// the last call.
    pub fn poll(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let now = now.max(self.now);
        self.now = now;
        if let Some(reason) = self.pending_close.take() {
            Datagram::Close {
                id: self.peer,
                reason,
            }
            .write(out);
            return true;
        }
        if self.ended.is_some() {
            return false;
        }
        if self.unacked > 0 || self.report.is_some() {
            self.receiver.ack_now();
        }
        if let Some(ack) = self.receiver.poll_ack(now) {
            self.unacked = 0;
            self.body.complete = ack.cumulative_ack;
            self.body.window = ack.window.get();
            self.body.marked = ack.marked;
            self.body.ranges.clear();
            self.body
                .ranges
                .extend(self.receiver.packet_ranges().take(RANGES));
            self.body.arrivals.clear();
            let arrivals = self.receiver.arrivals();
            let held = arrivals.map(|arrival| (arrival.pn, now.since(arrival.at)));
            self.body.arrivals.extend(held);
            self.body.report = self.report.take().unwrap_or_default();
            let (from, id) = (out.len(), self.peer);
            Datagram::Ack { id, body: &[] }.write(out);
            self.body.write(out);
            wire::seal(out, from);
            return true;
        }
        if let Some((bytes, at, tries)) = &mut self.answer
            && *at <= now
            && *tries < ANSWER_AGAIN.1
        {
            *at = now + ANSWER_AGAIN.0;
            *tries += 1;
            Datagram::Answer {
                id: self.peer,
                bytes,
            }
            .write(out);
            return true;
        }
        false
    }

    /// Bytes of the stream held for the application, holes included.
    pub(crate) fn held(&self) -> usize {
        self.unread.held()
    }

    /// Additional bytes that would be held with this packet, and the distance of its end from the
    /// read position. An empty probe needs no room.
    pub(crate) fn grows(&self, data: &Data<'_>) -> (usize, u64) {
        if data.payload.is_empty() {
            return (0, 0);
        }
        let end = data.offset + data.payload.len() as u64;
        let ahead = end.saturating_sub(self.unread.position());
        let more = ahead.saturating_sub(self.unread.held() as u64);
        (usize::try_from(more).unwrap_or(usize::MAX), ahead)
    }

    /// Number of entries and bytes in memory, for testing the bound.
    pub fn remembered(&self) -> usize {
        self.receiver.remembered() + self.unread.held()
    }
}
