// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transmission of packets.
use super::{MAX_IN_FLIGHT, Probe, Sender, Silence};
use crate::scoreboard::{SegmentIndex, State};
use crate::wire::Transmit;
use alcc_cc::{Allowance, Header, Kind, Sending, Sent};
use alcc_units::{Bytes, Span, Time};

// The path of each segment is inlined and that of few segments is not, so that the frequent path
// fits the instruction cache.
impl Sender {
    /// The next packet that may be sent now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.feed.is_started() {
            return None;
        }
        let now = self.feed.advance(now);
        self.paced_until = None;
        if let Some(pending_probe) = self.pending_probe.take()
            && let Some(transmit) = self.send_probe(now, pending_probe)
        {
            return Some(transmit);
        }
        let mut allowance = self.feed.allowance();
        if self.scoreboard.packets_in_flight() == 0 && self.resume() {
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
        if self.scoreboard.in_flight() >= MAX_IN_FLIGHT {
            self.feed.limited().peer = true;
            return None;
        }
        if allowance.quota.get() < self.mss {
            self.feed.limited().quota = true;
            return None;
        }
        if let Some(index) = self.scoreboard.next_lost() {
            let len = self.scoreboard.get(index).map_or(0, |s| u64::from(s.len));
            self.pace(now, &allowance, len).then(|| {
                self.scoreboard.take_lost();
                self.retransmit(now, index)
            })
        } else {
            let len = self.sendable(now)?;
            self.pace(now, &allowance, len)
                .then(|| self.send_new(now, len, Kind::New))
        }
    }

    /// Makes the next packet an empty one that the peer acknowledges, regardless of the window.
    pub fn probe(&mut self) {
        if self.feed.is_started() && self.pending_probe.is_none() {
            self.pending_probe = Some(Probe::Window);
        }
    }

    pub(super) fn has_room(&self, allowance: &Allowance) -> bool {
        if self.rules.overshoots {
            return self.scoreboard.in_flight() < allowance.window;
        }
        let in_flight = self.packets_in_flight();
        match &self.reduction {
            Some(reduction) => in_flight < reduction.window(),
            // Equals `window`, without its division.
            None => {
                let after = (in_flight + 1).saturating_mul(self.mss);
                in_flight == 0 || after <= allowance.window.get()
            }
        }
    }

    /// True if another packet may be sent at once.
    pub(super) fn may_send_more(&mut self, now: Time) -> bool {
        let allowance = self.feed.allowance();
        let data = self.more || self.written > self.next || self.scoreboard.next_lost().is_some();
        let paced = allowance
            .rate
            .and_then(|rate| self.pacer.wait(now, rate, allowance.burst, self.rules.mss));
        data && paced.is_none() && self.has_room(&allowance) && allowance.quota.get() >= self.mss
    }

    /// Packets in flight, in the unit of the window, without those that have arrived and cannot
    /// have been reported yet.
    pub(super) fn packets_in_flight(&self) -> u64 {
        if self.rules.is_stream() {
            self.scoreboard.packets_in_flight()
        } else {
            self.reported_in_flight()
        }
    }

    /// The same for datagrams.
    #[inline(never)]
    fn reported_in_flight(&self) -> u64 {
        let in_flight = self.scoreboard.in_flight().get() / self.mss;
        in_flight.saturating_sub(self.unreported.packets(self.mss))
    }

    /// The window in packets.
    pub(super) fn window(&self, allowance: &Allowance) -> u64 {
        match &self.reduction {
            Some(reduction) => reduction.window(),
            None => (allowance.window.get() / self.mss).max(1),
        }
    }

    /// New data that may be sent now regardless of window and pacer, bytes.
    #[inline(always)]
    pub(super) fn sendable(&mut self, now: Time) -> Option<u64> {
        let waiting = self.written - self.next;
        if waiting < self.mss && self.more {
            // The application is about to fill the packet.
            return None;
        }
        if waiting == 0 {
            self.feed.limited().app = true;
            self.scoreboard.limit_by_app();
            return None;
        }
        let len = waiting.min(self.mss);
        let permitted = self.send_limit.saturating_sub(self.next);
        if len <= permitted {
            self.persist = None;
            return Some(len);
        }
        // A partial segment is better than waiting for a window probe.
        if permitted > 0 && self.scoreboard.is_empty() {
            self.persist = None;
            return Some(permitted);
        }
        self.feed.limited().peer = true;
        if self.scoreboard.is_empty() && self.persist.is_none() {
            self.persist = Some((now + self.timeout(), 0));
        }
        None
    }

    pub(super) fn timeout(&self) -> Span {
        self.rtt.timeout().unwrap_or(Span::from_secs(1))
    }

    /// Reports that sending restarts after an idle period. True if it was reported.
    pub(super) fn resume(&mut self) -> bool {
        let waits = !self.scoreboard.is_empty() || self.written <= self.next;
        !waits && (self.feed).resume(self.progress_at, self.rtt.view().smoothed)
    }

    /// True if the pacer allows `len` bytes.
    #[inline(always)]
    pub(super) fn pace(&mut self, now: Time, allowance: &Allowance, len: u64) -> bool {
        let paced = allowance.rate.is_some() || self.max_pacing.is_some();
        !paced || self.wait_for_pacer(now, allowance, len)
    }

    #[inline(never)]
    fn wait_for_pacer(&mut self, now: Time, allowance: &Allowance, len: u64) -> bool {
        let (rate, burst) = match (allowance.rate, self.max_pacing) {
            (Some(rate), Some(most)) if rate <= most => (rate, allowance.burst),
            (Some(rate), None) => (rate, allowance.burst),
            (None, None) => return true,
            // Linux paces in bursts of one millisecond, at least two segments.
            (_, Some(most)) => {
                let burst = most.bytes_in(Span::from_millis(1));
                (most, burst.max(Bytes::new(2 * self.mss)))
            }
        };
        let burst = burst + rate.bytes_in(self.poll_interval);
        let len = Bytes::new(len);
        self.paced_until = self.pacer.wait(now, rate, burst, len);
        if self.paced_until.is_some() {
            self.feed.limited().pacer = true;
            return false;
        }
        self.pacer.spend(len);
        true
    }

    #[cold]
    pub(super) fn send_probe(&mut self, now: Time, pending_probe: Probe) -> Option<Transmit> {
        match pending_probe {
            Probe::Retransmit(index) => {
                let state = self.scoreboard.get(index)?.state;
                (state != State::Arrived).then(|| self.retransmit(now, index))
            }
            Probe::NewData => {
                let len = self.sendable(now)?;
                Some(self.send_new(now, len, Kind::New))
            }
            // A probe over datagrams needs a packet number to be acknowledged.
            Probe::Window if !self.rules.is_stream() => Some(self.send_new(now, 0, Kind::Probe)),
            Probe::Window => Some(self.empty_packet(now)),
        }
    }

    /// An empty packet, which the peer acknowledges.
    pub(super) fn empty_packet(&self, now: Time) -> Transmit {
        Transmit {
            pn: self.scoreboard.next_pn(),
            start: self.cumulative_ack,
            len: 0,
            kind: Kind::Probe,
            sent_at: now,
            echo: self.echo,
            header: Header::EMPTY,
        }
    }

    #[cold]
    pub(super) fn ping(&mut self, now: Time) -> Transmit {
        if !self.rules.is_stream() {
            return self.send_new(now, 0, Kind::Probe);
        }
        if let Some(len) = self.sendable(now) {
            return self.send_new(now, len, Kind::Probe);
        }
        let sent = self.sent(Kind::Probe, 0);
        self.feed.sent(&sent);
        self.empty_packet(now)
    }

    pub(super) fn sent(&self, kind: Kind, len: u64) -> Sent {
        Sent {
            pn: self.scoreboard.next_pn(),
            len: Bytes::new(len),
            in_flight_before: self.scoreboard.in_flight(),
            kind,
            app_limited: self.scoreboard.delivery().is_app_limited(),
        }
    }

    #[inline(always)]
    pub(super) fn send_new(&mut self, now: Time, len: u64, kind: Kind) -> Transmit {
        let sent = self.sent(kind, len);
        let start = self.next;
        self.note_departure(now, false);
        let tag = self.feed.sent(&sent);
        self.scoreboard
            .send(now, start, len as u32, sent.app_limited, tag);
        self.next += len;
        self.written = self.written.max(self.next);
        self.new_data_at = now;
        self.transmit(now, &sent, start)
    }

    #[cold]
    pub(super) fn retransmit(&mut self, now: Time, index: SegmentIndex) -> Transmit {
        let (start, len) = self
            .scoreboard
            .get(index)
            .map_or((self.cumulative_ack, 0), |s| (s.start, u64::from(s.len)));
        let sent = self.sent(Kind::Retransmit, len);
        self.note_departure(now, start <= self.cumulative_ack);
        self.stats.retransmits += 1;
        let since = self
            .outstanding_retransmits
            .filter(|(_, end)| self.cumulative_ack < *end);
        let (at, end) = since.unwrap_or((now, 0));
        self.outstanding_retransmits = Some((at, end.max(start + len)));
        if let Some(undo) = &mut self.undo {
            undo.first_retransmit_at.get_or_insert(at);
            undo.resent = true;
            undo.pending += u64::from(self.rules.is_stream());
        }
        let tag = self.feed.sent(&sent);
        self.scoreboard
            .retransmit(now, index, sent.app_limited, tag);
        self.transmit(now, &sent, start)
    }

    /// Counts a transmission. The retransmission timer starts with the first packet after idle, and
    /// restarts when the oldest one is retransmitted.
    pub(super) fn note_departure(&mut self, now: Time, oldest: bool) {
        let first = self.scoreboard.packets_in_flight() == 0;
        if oldest || first {
            self.progress_at = now;
        }
        if first {
            self.silence = Silence::from(now);
            self.unreported.begin(now);
        }
        self.stats.transmissions += 1;
        if let Some(reduction) = &mut self.reduction {
            reduction.sent();
        }
    }

    #[inline(always)]
    pub(super) fn transmit(&mut self, now: Time, sent: &Sent, start: u64) -> Transmit {
        let header = if self.has_header {
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
