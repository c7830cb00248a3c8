// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated kernel TCP connection, as far as an algorithm above it can tell: send buffer, window, selective
//! acknowledgements without limit, retransmission timer with undo (RFC 3522), pacing when asked for.
use super::tcp_window::{Acked, TcpCc, TcpWindow};
use super::{MTU, TCP_HEADER, Tally, earlier};
use crate::pacer::Pacer;
use crate::receiver::Data;
use crate::scoreboard::{Scoreboard, Segment};
use alcc_cc::{Header, Kind, Pn, Tag};
use alcc_flow::{RttEstimator, TcpProgress};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

/// Linux's smallest retransmission timeout.
const MIN_RTO: Span = Span::from_millis(200);
const FIRST_RTO: Span = Span::from_secs(1);
/// Linux's send buffer: at first, and when autotuning ends (`tcp_wmem`).
const FIRST_BUFFER: u64 = 87_040;
const MOST_BUFFER: u64 = 4 << 20;

pub(super) const MSS: Bytes = MTU.saturating_sub(TCP_HEADER);

pub(super) struct Tcp {
    window: TcpWindow,
    board: Scoreboard,
    rtt: RttEstimator,
    handshake_rtt: Span,
    written: u64,
    next: u64,
    complete: u64,
    /// Ends of writes that are not sent whole, with their times.
    writes: VecDeque<(u64, Time)>,
    resend: VecDeque<Segment>,
    buffer: u64,
    pacer: Pacer,
    paced_until: Option<Time>,
    /// `SO_MAX_PACING_RATE`.
    pub(super) max_pacing: Option<Rate>,
    round_ends: Bytes,
    progress_at: Time,
    backoff: u32,
    probe: Option<Pn>,
    probe_wanted: bool,
    pub(super) tally: Tally,
}

impl Tcp {
    /// A connection whose handshake took `handshake_rtt`.
    pub(super) fn new(cc: TcpCc, now: Time, handshake_rtt: Span) -> Self {
        Self {
            window: TcpWindow::new(cc, now),
            board: Scoreboard::new(now),
            rtt: RttEstimator::default(),
            handshake_rtt,
            written: 0,
            next: 0,
            complete: 0,
            writes: VecDeque::new(),
            resend: VecDeque::new(),
            buffer: FIRST_BUFFER,
            pacer: Pacer::new(now),
            paced_until: None,
            max_pacing: None,
            round_ends: Bytes::ZERO,
            progress_at: now,
            backoff: 0,
            probe: None,
            probe_wanted: false,
            tally: Tally::default(),
        }
    }

    /// Written in all.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Written and not acknowledged (`SIOCOUTQ`).
    pub(super) fn queued(&self) -> Bytes {
        Bytes::new(self.written - self.complete)
    }

    /// Written and not sent (`SIOCOUTQNSD`).
    pub(super) fn unsent(&self) -> Bytes {
        Bytes::new(self.written - self.next)
    }

    /// What a write would take now.
    pub(super) fn free(&self) -> Bytes {
        Bytes::new(self.buffer).saturating_sub(self.queued())
    }

    /// A third of the buffer is free: the socket is writable again.
    pub(super) fn is_writable(&self) -> bool {
        self.free().get() >= self.buffer / 3
    }

    pub(super) fn window(&self) -> u64 {
        self.window.segments()
    }

    pub(super) fn in_flight(&self) -> Bytes {
        self.board.in_flight()
    }

    /// The counters that a program can read.
    pub(super) fn progress(&self) -> TcpProgress {
        let seen = self.rtt.view().min;
        TcpProgress {
            acked: self.complete,
            written: self.written,
            unsent: self.unsent(),
            retransmits: self.tally.retransmits,
            repairing: self.board.in_recovery(),
            min_rtt: if seen.is_zero() {
                self.handshake_rtt
            } else {
                seen.min(self.handshake_rtt)
            },
            mss: MSS,
        }
    }

    pub(super) fn write(&mut self, now: Time, len: Bytes) {
        self.written += len.get();
        self.writes.push_back((self.written, now));
    }

    fn rto(&self) -> Span {
        let rtt = self.rtt.view();
        if rtt.smoothed.is_zero() {
            return FIRST_RTO;
        }
        rtt.smoothed + (rtt.variance * 4).max(MIN_RTO)
    }

    fn rto_at(&self) -> Option<Time> {
        if self.board.in_flight() == Bytes::ZERO {
            return None;
        }
        let rto = (self.rto() * (1 << self.backoff.min(10))).min(Span::from_secs(120));
        Some(self.progress_at + rto)
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        earlier(self.rto_at(), self.paced_until)
    }

    pub(super) fn on_ack(&mut self, now: Time, arrived: &[Pn], complete: u64) {
        let new_episode = self.board.arrived(now, arrived);
        let (Some(first), Some(newest)) = (self.board.acked.first(), self.board.acked.last())
        else {
            self.complete = self.complete.max(complete);
            return;
        };
        // One sample per acknowledgement, of the newest segment.
        let rtt = newest.rtt.unwrap_or_default();
        self.rtt.sample(rtt);
        self.tally.rtt.add(rtt);
        if let Some(probe) = self.probe.take()
            && first.pn < probe
        {
            self.window.undo();
        }
        let segments: Bytes = self.board.acked.iter().map(|p| p.len).sum();
        let round_start = newest.stamp.delivered >= self.round_ends;
        if round_start {
            self.round_ends = self.board.delivered();
        }
        self.progress_at = now;
        // After a timeout the window grows while the holes are filled; otherwise it waits for the end of recovery.
        let recovering = self.board.in_recovery() && self.backoff == 0;
        self.backoff = 0;
        self.window.acked(&Acked {
            now,
            segments: segments.packets(MSS),
            rtt: Some(rtt),
            min_rtt: self.rtt.view().min,
            round_start,
            recovering,
        });
        if new_episode {
            self.window.on_loss();
        }
        self.resend.extend(&self.board.lost);
        self.board.recovered();
        self.complete = self.complete.max(complete);
        // Autotuning: room for two windows.
        let wanted = 2 * self.window.segments() * MSS.get();
        self.buffer = self.buffer.max(wanted).min(MOST_BUFFER);
    }

    pub(super) fn on_wake(&mut self, now: Time) {
        if self.rto_at().is_some_and(|at| at <= now) {
            self.window.on_timeout(self.backoff == 0);
            self.backoff += 1;
            self.tally.timeouts += 1;
            self.board.begin_episode();
            self.probe_wanted = true;
            self.progress_at = now;
        }
    }

    pub(super) fn send(&mut self, now: Time, out: &mut Vec<Data>) {
        self.paced_until = None;
        if self.probe_wanted {
            self.probe_wanted = false;
            if let Some(oldest) = self.board.oldest().copied() {
                self.probe = Some(self.transmit(now, Some(oldest), out));
            }
        }
        let before = out.len();
        let mut limited = false;
        loop {
            while self.resend.front().is_some_and(|s| s.start < self.complete) {
                self.resend.pop_front();
            }
            if self.resend.is_empty() && self.next == self.written {
                break;
            }
            limited = self.segments_out() >= self.window.segments();
            if limited || !self.pace(now) {
                break;
            }
            let again = self.resend.pop_front();
            self.transmit(now, again, out);
        }
        if out.len() > before {
            let out = self.segments_out();
            limited |= out >= self.window.segments();
            let rto = self.rto();
            self.window
                .used(now, out, limited, (self.complete, self.next), rto);
        }
    }

    fn segments_out(&self) -> u64 {
        self.board.in_flight().get().div_ceil(MSS.get())
    }

    /// True if pacing lets a segment leave. Linux sends a millisecond's worth at a time, at least two segments.
    fn pace(&mut self, now: Time) -> bool {
        let Some(rate) = self.max_pacing else {
            return true;
        };
        let burst = rate.bytes_in(Span::from_millis(1)).max(MSS * 2);
        self.paced_until = self.pacer.wait(now, rate, burst, MSS);
        if self.paced_until.is_none() {
            self.pacer.spend(MSS);
        }
        self.paced_until.is_none()
    }

    fn transmit(&mut self, now: Time, again: Option<Segment>, out: &mut Vec<Data>) -> Pn {
        if self.board.in_flight() == Bytes::ZERO {
            self.progress_at = now;
        }
        let (start, len, written_at, kind) = again.map_or_else(
            || {
                let len = MSS.min(Bytes::new(self.written - self.next));
                (self.next, len, self.written_at(), Kind::New)
            },
            |s| (s.start, s.packet.len, s.written_at, Kind::Retransmit),
        );
        if again.is_some() {
            self.tally.retransmits += 1;
        } else {
            self.next += len.get();
        }
        let pn = self
            .board
            .send(now, start, len, kind, written_at, false, Tag::default());
        out.push(Data {
            pn,
            start,
            len: len.get(),
            written_at,
            header: Header::EMPTY,
        });
        pn
    }

    /// When the next new byte was written.
    fn written_at(&mut self) -> Time {
        while self
            .writes
            .front()
            .is_some_and(|(end, _)| *end <= self.next)
        {
            self.writes.pop_front();
        }
        self.writes.front().map_or(Time::ZERO, |(_, at)| *at)
    }
}
