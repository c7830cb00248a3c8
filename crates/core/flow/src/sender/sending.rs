// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What leaves.
use super::{Forced, MOST_IN_FLIGHT, Sender};
use crate::board::{Number, State};
use crate::wire::Transmit;
use alcc_cc::{Allowance, Header, Kind, Sending, Sent};
use alcc_units::{Bytes, Span, Time};

impl Sender {
    /// The next packet that may leave now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.feed.is_started() {
            return None;
        }
        let now = self.feed.advance(now);
        self.paced_until = None;
        if let Some(forced) = self.forced.take()
            && let Some(transmit) = self.force(now, forced)
        {
            return Some(transmit);
        }
        let mut allowance = self.feed.allowance();
        if self.board.flight() == 0 && self.resume() {
            allowance = self.feed.allowance();
        }
        if allowance.ping && self.pinged != Some(now) {
            self.pinged = Some(now);
            return Some(self.ping(now));
        }
        if !self.has_room(&allowance) {
            self.feed.limited().window = true;
            return None;
        }
        if self.board.in_flight() >= MOST_IN_FLIGHT {
            self.feed.limited().peer = true;
            return None;
        }
        if allowance.quota.get() < self.mss {
            self.feed.limited().quota = true;
            return None;
        }
        if let Some(number) = self.board.next_lost() {
            let len = self.board.get(number).map_or(0, |s| u64::from(s.len));
            self.pace(now, &allowance, len).then(|| {
                self.board.take_lost();
                self.send_again(now, number)
            })
        } else {
            let len = self.sendable(now)?;
            self.pace(now, &allowance, len)
                .then(|| self.send_new(now, len, Kind::New))
        }
    }

    /// The next packet is one without data that the peer acknowledges, whatever the window says.
    pub fn probe(&mut self) {
        if self.feed.is_started() && self.forced.is_none() {
            self.forced = Some(Forced::Window);
        }
    }

    pub(super) fn has_room(&self, allowance: &Allowance) -> bool {
        if self.rules.overshoots {
            return self.board.in_flight() < allowance.window;
        }
        self.flight() < self.window(allowance)
    }

    /// Another packet may leave at once.
    pub(super) fn may_send_more(&mut self, now: Time) -> bool {
        let allowance = self.feed.allowance();
        let data = self.more || self.written > self.next || self.board.next_lost().is_some();
        let paced = allowance
            .rate
            .and_then(|rate| self.pacer.wait(now, rate, allowance.burst, self.rules.mss));
        data && paced.is_none() && self.has_room(&allowance) && allowance.quota.get() >= self.mss
    }

    /// Packets in flight, as windows count them.
    pub(super) fn flight(&self) -> u64 {
        if self.rules.is_stream() {
            self.board.flight()
        } else {
            self.board.in_flight().get() / self.mss
        }
    }

    /// The window in packets.
    pub(super) fn window(&self, allowance: &Allowance) -> u64 {
        match &self.shaper {
            Some(shaper) => shaper.window(),
            None => (allowance.window.get() / self.mss).max(1),
        }
    }

    /// How much new data may be sent at once, window and pacer aside.
    pub(super) fn sendable(&mut self, now: Time) -> Option<u64> {
        let waiting = self.written - self.next;
        if waiting < self.mss && self.more {
            // The rest of a packet, or of all, is about to be written.
            return None;
        }
        if waiting == 0 {
            self.feed.limited().app = true;
            self.board.limit_by_app();
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
        self.feed.limited().peer = true;
        if self.board.is_empty() && self.persist.is_none() {
            self.persist = Some((now + self.timeout(), 0));
        }
        None
    }

    pub(super) fn timeout(&self) -> Span {
        self.rtt.timeout().unwrap_or(Span::from_secs(1))
    }

    /// Sending resumes after a pause; true if the algorithm was told.
    pub(super) fn resume(&mut self) -> bool {
        let waits = !self.board.is_empty() || self.written <= self.next;
        !waits && (self.feed).resume(self.progress_at, self.rtt.view().smoothed)
    }

    /// True if pacing lets `len` bytes leave.
    pub(super) fn pace(&mut self, now: Time, allowance: &Allowance, len: u64) -> bool {
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
        let burst = burst + rate.bytes_in(self.turn);
        let len = Bytes::new(len);
        self.paced_until = self.pacer.wait(now, rate, burst, len);
        if self.paced_until.is_some() {
            self.feed.limited().pacer = true;
            return false;
        }
        self.pacer.spend(len);
        true
    }

    pub(super) fn force(&mut self, now: Time, forced: Forced) -> Option<Transmit> {
        match forced {
            Forced::Again(number) => {
                let state = self.board.get(number)?.state;
                (state != State::Arrived).then(|| self.send_again(now, number))
            }
            Forced::New => {
                let len = self.sendable(now)?;
                Some(self.send_new(now, len, Kind::New))
            }
            // Datagrams are acknowledged by number: a probe needs one of its own.
            Forced::Window if !self.rules.is_stream() => Some(self.send_new(now, 0, Kind::Probe)),
            Forced::Window => Some(self.bare(now)),
        }
    }

    /// A packet without data, which the peer answers.
    pub(super) fn bare(&self, now: Time) -> Transmit {
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

    pub(super) fn ping(&mut self, now: Time) -> Transmit {
        if !self.rules.is_stream() {
            return self.send_new(now, 0, Kind::Probe);
        }
        if let Some(len) = self.sendable(now) {
            return self.send_new(now, len, Kind::Probe);
        }
        let sent = self.sent(Kind::Probe, 0);
        self.feed.sent(&sent);
        self.bare(now)
    }

    pub(super) fn sent(&self, kind: Kind, len: u64) -> Sent {
        Sent {
            pn: self.board.next_pn(),
            len: Bytes::new(len),
            in_flight_before: self.board.in_flight(),
            kind,
            app_limited: self.board.delivery().is_app_limited(),
        }
    }

    pub(super) fn send_new(&mut self, now: Time, len: u64, kind: Kind) -> Transmit {
        let sent = self.sent(kind, len);
        let start = self.next;
        self.leaves(now, false);
        let tag = self.feed.sent(&sent);
        self.board
            .send(now, start, len as u32, sent.app_limited, tag);
        self.next += len;
        self.written = self.written.max(self.next);
        self.tail_from = now;
        self.transmit(now, &sent, start)
    }

    pub(super) fn send_again(&mut self, now: Time, number: Number) -> Transmit {
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
        let tag = self.feed.sent(&sent);
        self.board.send_again(now, number, sent.app_limited, tag);
        self.transmit(now, &sent, start)
    }

    /// The retransmission timer runs from the first packet after silence, and anew when the oldest one is sent again.
    pub(super) fn leaves(&mut self, now: Time, oldest: bool) {
        if oldest || self.board.flight() == 0 {
            self.progress_at = now;
        }
        self.stats.transmissions += 1;
        if let Some(shaper) = &mut self.shaper {
            shaper.sent();
        }
    }

    pub(super) fn transmit(&mut self, now: Time, sent: &Sent, start: u64) -> Transmit {
        let header = if self.headed {
            let sending = Sending {
                pn: sent.pn,
                more: self.may_send_more(now),
            };
            self.feed.header(sending)
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
}
