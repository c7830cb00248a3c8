// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving direction.
use super::{Ending, Session};
use crate::Error;
use crate::frame::{self, Ack, Item, MAX_STEPS, MAX_U48, WINDOW_UNIT, reason};
use crate::output::Output;
use crate::preface::Preface;
use alcc_cc::Header;
use alcc_flow::{AckStamp, TcpProgress};
use alcc_units::{Bytes, Span, Time};

/// Maximum time between two reads while data arrive.
const MAX_READ_INTERVAL: Span = Span::from_millis(5);

/// Maximum number of unacknowledged bytes, however short the time since the last acknowledgement.
const MAX_UNACKED: u64 = 64 * 1024;

/// The frame whose payload is being received.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    header: Header,
    len: u64,
    remaining: usize,
    number: u64,
}

/// Arrival time of bytes.
///
/// ```
/// use alcc_inband::When;
/// use alcc_units::{Span, Time};
///
/// // Read after 5 ms in which nothing was read.
/// let now = Time::from_millis(25);
/// let when = When { since: now - Span::from_millis(5), ..When::exactly(now) };
/// assert_eq!((when.at, when.now), (now, now));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct When {
    /// Time until which nothing of them had arrived.
    pub since: Time,
    /// Time at which all of them had arrived.
    pub at: Time,
    /// The current time.
    pub now: Time,
}

impl When {
    /// All bytes arrived now.
    pub fn exactly(now: Time) -> Self {
        Self {
            since: now,
            at: now,
            now,
        }
    }
}

impl Session {
    /// Takes received bytes. Payload goes to `sink` as long as there is room and no older payload
    /// waits, the rest is kept for [`Session::read`]. Returns the number of bytes in `sink`. An
    /// error is in [`Session::error`].
    pub fn on_bytes(&mut self, when: When, bytes: &[u8], sink: &mut [u8]) -> usize {
        if self.error.is_some() || bytes.is_empty() {
            return 0;
        }
        self.stats.bytes_in += bytes.len() as u64;
        let mut filled = 0;
        if let Err(error) = self.take(when, bytes, sink, &mut filled) {
            self.fail(error);
        }
        filled
    }

    fn take(
        &mut self,
        when: When,
        mut bytes: &[u8],
        sink: &mut [u8],
        filled: &mut usize,
    ) -> Result<(), Error> {
        if self.last_received.is_none() && !self.preface(when.now, &mut bytes)? {
            return Ok(());
        }
        self.last_received = Some(when.now);
        let before = self.arrivals.position();
        let mut position = before;
        while let Some(item) = self.decoder.next(&mut bytes)? {
            match item {
                Item::Data {
                    sequence,
                    header,
                    payload,
                    overhead,
                } => {
                    self.expect(sequence, position)?;
                    let len = (overhead + payload) as u64;
                    if payload > 0 && position + len > self.receive_edge {
                        return Err(Error::Protocol("more data than was permitted"));
                    }
                    position += overhead as u64;
                    self.frame.header = header;
                    self.frame.len = len;
                    self.frame.remaining = payload;
                    if payload == 0 {
                        self.on_frame(when);
                    }
                }
                Item::Payload(piece) => {
                    position += piece.len() as u64;
                    self.payload(when, piece, sink, filled);
                }
                Item::Close {
                    sequence,
                    reason: reason::END,
                    len,
                    ..
                } => {
                    self.expect(sequence, position)?;
                    position += len as u64;
                    self.peer_ended = true;
                    self.ack_due = Some(when.now);
                }
                Item::Close { reason, text, .. } => {
                    return Err(Error::Closed { reason, text });
                }
                Item::Ack(ack) => self.acked(when, &ack)?,
                Item::Report(report) => {
                    if let Some(flow) = &mut self.flow {
                        flow.on_report(when.now, &report);
                        if flow.is_writable(flow.in_flight(), Bytes::ZERO) {
                            flow.unblock();
                        }
                    }
                }
                Item::Ping(octets) => self.pong = Some(octets),
                Item::Pong(_) | Item::Unknown(_) => {}
            }
        }
        if position > before {
            self.arrivals
                .on_arrival(position, when.since.min(when.at), when.at.min(when.now));
            self.extend_window();
            let at_once = self.arrivals.unacked() >= MAX_UNACKED || self.arrivals.is_full();
            self.acknowledge_by(if at_once {
                when.now
            } else {
                when.now.max(self.acked_at + self.ack_interval)
            });
        }
        Ok(())
    }

    /// Takes a piece of a frame's payload. It goes into `sink`, of which `filled` bytes are used,
    /// unless older payload waits or `sink` is full.
    fn payload(&mut self, when: When, piece: &[u8], sink: &mut [u8], filled: &mut usize) {
        self.stats.received += piece.len() as u64;
        let direct = if self.received.is_empty() {
            piece.len().min(sink.len() - *filled)
        } else {
            0
        };
        sink[*filled..*filled + direct].copy_from_slice(&piece[..direct]);
        *filled += direct;
        self.received.extend(&piece[direct..]);
        self.frame.remaining -= piece.len();
        if self.frame.remaining == 0 {
            self.on_frame(when);
        }
    }

    /// Makes an acknowledgement due at `due` at the latest.
    fn acknowledge_by(&mut self, due: Time) {
        self.ack_due = Some(self.ack_due.map_or(due, |old| old.min(due)));
    }

    /// Takes bytes of the peer's preface; true when it is complete.
    fn preface(&mut self, now: Time, bytes: &mut &[u8]) -> Result<bool, Error> {
        let had = self.preface.len();
        let max = crate::preface::MAX_PREFACE
            .saturating_sub(had)
            .min(bytes.len());
        self.preface.extend_from_slice(&bytes[..max]);
        let Some((peer, len)) = Preface::decode(&self.preface)? else {
            return Ok(false);
        };
        *bytes = &bytes[len - had..];
        self.preface = Vec::new();
        self.on_preface(now, &peer)?;
        Ok(true)
    }

    fn expect(&self, sequence: u32, position: u64) -> Result<(), Error> {
        if self.peer_ended {
            return Err(Error::Protocol("data after the end"));
        }
        if sequence != position as u32 {
            return Err(Error::Protocol("a sequence number out of order"));
        }
        Ok(())
    }

    /// Processes a complete frame with data.
    fn on_frame(&mut self, when: When) {
        // The frame's arrival time applies, not the current one. The module's timers before it run
        // first, and those up to now after all frames of this reading.
        self.run_receiver_module(when.at.min(when.now));
        let Some(receiver_module) = &mut self.receiver_module else {
            return;
        };
        let frame = &mut self.frame;
        let len = Bytes::new(frame.len);
        receiver_module.on_packet(self.module_now, frame.number, len, &frame.header);
        frame.number += 1;
        self.report = receiver_module.report(self.module_now).or(self.report);
    }

    /// Runs the receiver module's timer and takes its report.
    pub(super) fn run_receiver_module(&mut self, now: Time) {
        let Some(receiver_module) = &mut self.receiver_module else {
            return;
        };
        self.module_now = self.module_now.max(now);
        if receiver_module
            .next_timer()
            .is_some_and(|at| at <= self.module_now)
        {
            receiver_module.on_timer(self.module_now);
        }
        if let Some(report) = receiver_module.report(self.module_now) {
            self.report = Some(report);
        }
    }

    /// Processes an acknowledgement.
    fn acked(&mut self, when: When, ack: &Ack) -> Result<(), Error> {
        let flow = self
            .flow
            .as_mut()
            .ok_or(Error::Protocol("an acknowledgement before the preface"))?;
        let (sent, before) = (flow.written(), flow.written() - flow.in_flight().get());
        if ack.position > sent {
            return Err(Error::NeverSent {
                named: ack.position,
                sent,
            });
        }
        if ack.position < before {
            return Err(Error::Protocol("an acknowledgement that retracts data"));
        }
        self.stats.acks_in += 1;
        let edge = ack.position + u64::from(ack.window) * WINDOW_UNIT;
        self.credit = self.credit.max(edge);
        // The peer's times, converted to the clock of this end. Between its last instant and the
        // arrival here the frame was in flight, or held.
        let mut stamps = [AckStamp {
            acked: before,
            at: Time::ZERO,
        }; MAX_STEPS + 2];
        let back = |from: Time, micros: u32| {
            let nanos = from.as_nanos().saturating_sub(u64::from(micros) * 1000);
            Time::from_nanos(nanos)
        };
        let mut at = back(when.at.min(when.now), ack.hold);
        let mut position = ack.position;
        let mut first = stamps.len() - 1;
        stamps[first] = AckStamp {
            acked: position,
            at,
        };
        for step in ack.steps() {
            at = back(at, step.micros);
            position = position.saturating_sub(step.bytes.into()).max(before);
            first -= 1;
            stamps[first] = AckStamp {
                acked: position,
                at,
            };
        }
        // Data before the oldest instant counts as arrived at that instant.
        first -= 1;
        stamps[first] = AckStamp { acked: before, at };
        let progress = TcpProgress {
            acked: ack.position,
            written: sent,
            mss: Bytes::new(self.mss),
            ..TcpProgress::default()
        };
        flow.progress_stamped(when.now, &progress, &stamps[first..]);
        if flow.is_writable(flow.in_flight(), Bytes::ZERO) {
            flow.unblock();
        }
        Ok(())
    }

    /// Reads received payload. Zero at the end of the peer's data, or if there is none now
    /// ([`Session::is_readable`] distinguishes).
    pub fn read(&mut self, now: Time, into: &mut [u8]) -> usize {
        let n = into.len().min(self.received.len());
        let (a, b) = self.received.as_slices();
        let first = n.min(a.len());
        into[..first].copy_from_slice(&a[..first]);
        into[first..n].copy_from_slice(&b[..n - first]);
        self.received.drain(..n);
        if self.received.is_empty() && self.received.capacity() > 0 {
            self.received = std::collections::VecDeque::new();
        }
        self.taken(now);
        n
    }

    /// Extends the window of a peer that may be waiting. Call it after the application has read.
    pub fn taken(&mut self, now: Time) {
        self.extend_window();
        let quarter = (self.settings.receive_buffer / 4).max(1) as u64;
        if self.receive_edge - self.advertised_edge >= quarter && !self.peer_ended && self.is_open()
        {
            self.acknowledge_by(now);
        }
    }

    /// Extends the receive window to the free buffer. It never shrinks.
    fn extend_window(&mut self) {
        let free = self
            .settings
            .receive_buffer
            .saturating_sub(self.received.len());
        self.receive_edge = self
            .receive_edge
            .max(self.arrivals.position() + free as u64)
            .min(MAX_U48);
    }

    /// True if data waits, or the peer's end has arrived.
    pub fn is_readable(&self) -> bool {
        !self.received.is_empty() || self.peer_ended
    }

    /// True if the peer will send no more, and everything has been read.
    pub fn is_at_end(&self) -> bool {
        self.peer_ended && self.received.is_empty()
    }

    /// Number of bytes that wait for [`Session::read`].
    pub fn unread(&self) -> usize {
        self.received.len()
    }

    /// Encodes ACK, REPORT and PONG, as far as they are due.
    pub(super) fn encode_answers(&mut self, now: Time, out: &mut Output) {
        if self.ack_due.is_some_and(|due| due <= now) {
            self.ack_due = None;
            self.acked_at = now;
            self.advertised_edge = self.receive_edge;
            self.stats.acks_out += 1;
            self.arrivals
                .ack(now, self.receive_edge)
                .encode(&mut out.bytes);
        }
        if let Some(report) = self.report.take() {
            frame::encode_report(&mut out.bytes, &report);
        }
        if let Some(octets) = self.pong.take() {
            frame::encode_ping(&mut out.bytes, true, octets);
        }
    }

    /// The time to the next read after one of `bytes` bytes. Acknowledgements and data are read in
    /// batches, but never more than the buffer holds.
    pub fn read_interval(&self, bytes: usize) -> Span {
        let min = Span::from_micros(200);
        let mut interval = self.ack_interval.min(MAX_READ_INTERVAL);
        if bytes as u64 > MAX_UNACKED {
            interval = interval.mul_f64(MAX_UNACKED as f64 / bytes as f64);
        }
        if let Some(flow) = self.flow.as_ref().filter(|f| f.in_flight() > Bytes::ZERO) {
            let rtt = flow.rtt().smoothed;
            interval = interval.min(rtt / 8);
            // The room of a whole window should not become free at once.
            let pieces = flow.in_flight().get() as f64 / (2 * MAX_UNACKED) as f64;
            if pieces > 8.0 {
                interval = interval.min(rtt.mul_f64(1.0 / pieces));
            }
        }
        interval.max(min)
    }

    /// True if the algorithm needs reports at once, not with the next batch.
    pub fn is_latency_sensitive(&self) -> bool {
        self.header_len.is_some() && self.flow.as_ref().is_some_and(|f| !f.is_idle())
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending != Ending::Open
    }
}
