// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processing of acknowledgements.
use super::{AckOutcome, BUFFER_PER_SEGMENT, LossSign, Newest, Sender, Silence, TailProbe};
use crate::ranges::Range;
use crate::rules::{AckSemantics, Detection, Patience};
use crate::scoreboard::{Segment, State};
use crate::wire::{Ack, AckError, Arrival};
use alcc_cc::{Acked, Packet, Pn, Source, Spurious};
use alcc_units::{Bytes, Span, Time};

// Code for rare acknowledgements is in functions of its own, so that the frequent path fits the
// instruction cache.
impl Sender {
    /// Processes an acknowledgement.
    ///
    /// # Errors
    /// [`AckError`] if the acknowledgement cannot be valid; it changes nothing then.
    pub fn on_ack(&mut self, now: Time, ack: &Ack) -> Result<(), AckError> {
        self.on_ack_ranges(now, ack, ack.ranges())
    }

    /// The same as [`Sender::on_ack`], with `ranges` instead of the ranges in `ack`: for encodings
    /// that carry more of them.
    ///
    /// # Errors
    /// [`AckError`] if the acknowledgement cannot be valid; it changes nothing then.
    pub fn on_ack_ranges(
        &mut self,
        now: Time,
        ack: &Ack,
        ranges: &[Range],
    ) -> Result<(), AckError> {
        self.on_ack_arrivals(now, ack, ranges, &[])
    }

    /// The same as [`Sender::on_ack_ranges`], with receive times for some packets
    /// ([`Rules::arrivals`](crate::Rules::arrivals)), on the clock of `ack.sent_at`. Only these
    /// packets give RTT samples, without the ACK delay.
    ///
    /// # Errors
    /// [`AckError`] if the acknowledgement cannot be valid; it changes nothing then.
    pub fn on_ack_arrivals(
        &mut self,
        now: Time,
        ack: &Ack,
        ranges: &[Range],
        arrivals: &[Arrival],
    ) -> Result<(), AckError> {
        self.check(ack, ranges)?;
        if self.ack_delays.is_some() || !arrivals.is_empty() {
            self.note_ack_delays(ack, arrivals)?;
        }
        let now = self.feed.advance(now);
        let in_flight_before = self.scoreboard.in_flight();
        let newest = self.newest.map(|n| n.pn);
        self.acked.clear();
        let mut outcome = AckOutcome {
            duplicate: ack.duplicate().is_some(),
            highest_arrived: self.highest_arrived,
            answers: (self.rules.timestamps && ack.echo > Time::ZERO).then_some(ack.echo),
            ..AckOutcome::default()
        };
        self.echo = self.echo.max(ack.sent_at);
        let marked = self.marked.max(ack.marked);
        self.feed.marked(Bytes::new(marked - self.marked));
        self.marked = marked;
        let send_limit = ack.cumulative_ack.saturating_add(ack.window.get());
        self.send_limit = self.send_limit.max(send_limit);
        match self.rules.ack_semantics {
            AckSemantics::ByteStream => self.process_stream_ack(now, ack, ranges, &mut outcome),
            AckSemantics::PacketNumbers { .. } => {
                self.process_ack_ranges(now, ranges, &mut outcome);
            }
        }
        if !self.acked.is_sorted_by_key(|p| p.pn) {
            self.acked.sort_unstable_by_key(|p| p.pn);
        }
        if self.ack_delays.is_some() {
            self.unreported.reported(now);
        }
        self.measure(now, ack, &outcome);
        let repaired_by_probe = self.check_tail_probe(&outcome);
        let spurious = self.check_spurious(ack, &outcome);
        let ended = self.repaired() || repaired_by_probe;
        // Losses can be found only after a newer packet has arrived.
        if self.newest.map(|n| n.pn) > newest
            && !matches!(self.rules.detection, Detection::TimeThreshold(_))
        {
            self.detect(now);
        }
        let new_episode = self.begin_episode();
        if ended || spurious {
            self.feed
                .repaired(self.scoreboard.in_flight(), self.rtt.view());
        }
        let lost = self.report_losses(new_episode);
        if outcome.advanced || !self.acked.is_empty() {
            self.note_progress(now, &outcome);
        }
        self.reduce_rate(self.acked.len() as u64, outcome.advanced, lost);
        self.report_arrivals(in_flight_before, outcome.advanced);
        self.run_controller_timer(now);
        Ok(())
    }

    /// Records the ACK delays that an acknowledgement reports.
    #[inline(never)]
    fn note_ack_delays(&mut self, ack: &Ack, arrivals: &[Arrival]) -> Result<(), AckError> {
        if let Some(newest) = arrivals.iter().map(|a| a.pn).max()
            && newest >= self.scoreboard.next_pn()
        {
            return Err(AckError::NeverSent {
                named: newest,
                sent: self.scoreboard.next_pn(),
            });
        }
        if let Some(ack_delays) = &mut self.ack_delays {
            ack_delays.clear();
            ack_delays.extend(arrivals.iter().map(|a| (a.pn, ack.sent_at.since(a.at))));
            ack_delays.sort_unstable_by_key(|(pn, _)| *pn);
        }
        Ok(())
    }

    pub(super) fn check(&self, ack: &Ack, ranges: &[Range]) -> Result<(), AckError> {
        let stream = self.rules.is_stream();
        let sent = if stream {
            self.next
        } else {
            self.scoreboard.next_pn()
        };
        let never = |named| Err(AckError::NeverSent { named, sent });
        if stream && ack.cumulative_ack > sent {
            return never(ack.cumulative_ack);
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

    pub(super) fn process_stream_ack(
        &mut self,
        now: Time,
        ack: &Ack,
        ranges: &[Range],
        outcome: &mut AckOutcome,
    ) {
        if ack.cumulative_ack > self.cumulative_ack {
            outcome.advanced = true;
            self.cumulative_ack = ack.cumulative_ack;
            while let Some(segment) = self.scoreboard.pop_acked(now, ack.cumulative_ack) {
                if segment.state != State::Arrived {
                    self.arrived(now, &segment, segment.packet(), outcome);
                }
            }
            self.scoreboard.clean();
            if !self.acked_ranges.is_empty() {
                self.acked_ranges.forget_below(self.cumulative_ack);
            }
        }
        if !ranges.is_empty() {
            self.process_sack(now, ranges, outcome);
        }
        self.highest_arrived = self.highest_arrived.max(self.cumulative_ack);
    }

    /// Processes data that has arrived above a hole.
    #[cold]
    fn process_sack(&mut self, now: Time, ranges: &[Range], outcome: &mut AckOutcome) {
        for range in ranges {
            let range = Range::new(range.start.max(self.cumulative_ack), range.end);
            if range.is_empty() {
                continue;
            }
            self.scratch.clear();
            let mut scratch = std::mem::take(&mut self.scratch);
            let merged = self.acked_ranges.insert(range, &mut scratch);
            for part in &scratch {
                let mut index = self.scoreboard.index_at(part.start);
                while let Some(segment) = self.scoreboard.get(index).copied()
                    && segment.start < part.end
                {
                    let whole = Range::new(segment.start, segment.end());
                    if merged.covers(&whole)
                        && let Some(packet) = self.scoreboard.mark_arrived(now, index)
                    {
                        self.arrived(now, &segment, packet, outcome);
                    }
                    index += 1;
                }
            }
            self.scratch = scratch;
        }
    }

    /// Handles the arrival of a segment of a byte stream. If it was sent several times, it is
    /// unknown which transmission arrived.
    pub(super) fn arrived(
        &mut self,
        now: Time,
        segment: &Segment,
        mut packet: Packet,
        outcome: &mut AckOutcome,
    ) {
        let rtt = now.since(segment.sent_at);
        if segment.retransmitted {
            // Faster than any round trip, or echoing an older time stamp: an earlier transmission
            // arrived (RFC 8985, section 6.2). Linux's RACK ignores the time stamp here, so that
            // after a spurious timeout it marks too much as lost until the next ACK.
            let earlier = self.rules.detection != Detection::Rack
                && outcome.answers.is_some_and(|at| at < segment.sent_at);
            if rtt >= self.rtt.view().min && !earlier {
                self.update_newest(segment.pn, rtt);
            }
        } else {
            packet.rtt = Some(rtt);
            outcome.rtt = outcome.rtt.or(Some(rtt));
            self.update_newest(segment.pn, rtt);
            self.reordered |= segment.end() < outcome.highest_arrived;
            outcome.original |= self
                .recovery
                .is_some_and(|episode| segment.end() <= episode.recovery_point);
        }
        self.highest_arrived = self.highest_arrived.max(segment.end());
        let sent = segment.sent_at;
        outcome.oldest_sent = Some(outcome.oldest_sent.map_or(sent, |at| at.min(sent)));
        self.acked.push(packet);
    }

    /// Updates the newest packet that has arrived.
    pub(super) fn update_newest(&mut self, pn: Pn, rtt: Span) {
        if self.newest.is_none_or(|newest| newest.pn < pn) {
            self.newest = Some(Newest { pn, rtt });
        }
    }

    #[inline(never)]
    pub(super) fn process_ack_ranges(
        &mut self,
        now: Time,
        ranges: &[Range],
        outcome: &mut AckOutcome,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let oldest = self.scoreboard.first_pn();
        for range in ranges {
            scratch.clear();
            let range = Range::new(range.start.max(oldest), range.end);
            self.acked_ranges.insert(range, &mut scratch);
            for pn in scratch.iter().flat_map(|part| part.start..part.end) {
                self.packet_arrived(now, pn, outcome);
            }
        }
        self.scratch = scratch;
        if let Some(cumulative_ack) = self.scoreboard.pop_arrived() {
            outcome.advanced = true;
            self.cumulative_ack = self.cumulative_ack.max(cumulative_ack);
        }
        self.acked_ranges.forget_below(self.scoreboard.first_pn());
    }

    pub(super) fn packet_arrived(&mut self, now: Time, pn: Pn, outcome: &mut AckOutcome) {
        let Some(index) = self.scoreboard.index_of(pn) else {
            return;
        };
        let Some(segment) = self.scoreboard.get(index).copied() else {
            return;
        };
        let late = segment.pn != pn || segment.state == State::Lost;
        let Some(mut packet) = self.scoreboard.mark_arrived(now, index) else {
            return;
        };
        if late {
            // The packet had been marked lost.
            if let Some(undo) = self.undo.as_mut().filter(|u| u.cause == Spurious::Loss) {
                undo.pending = undo.pending.saturating_sub(1);
            }
            packet.pn = pn;
        } else {
            let rtt = now.since(segment.sent_at);
            packet.rtt = match &self.ack_delays {
                None => Some(rtt),
                Some(ack_delays) => ack_delays
                    .binary_search_by_key(&pn, |(pn, _)| *pn)
                    .ok()
                    .map(|found| ack_delays[found].1)
                    .filter(|delay| *delay < rtt)
                    .map(|delay| {
                        self.unreported.arrived(packet.len, delay);
                        rtt.saturating_sub(delay)
                    }),
            };
            outcome.rtt = packet.rtt.or(outcome.rtt);
            let expected = self.newest.map_or(0, |newest| newest.pn + 1);
            if let Detection::TimeThreshold(patience) = self.rules.detection
                && pn > expected
            {
                let length = match patience {
                    Patience::Fixed(span) => span,
                    Patience::Rtts(n) => self.rtt.view().smoothed * n,
                };
                self.gaps.push_back((pn, now + length));
            }
            self.update_newest(pn, rtt);
        }
        outcome.oldest_sent = outcome.oldest_sent.or(Some(segment.sent_at));
        self.acked.push(packet);
    }

    pub(super) fn measure(&mut self, now: Time, ack: &Ack, outcome: &AckOutcome) {
        let echoed = (self.rules.timestamps && ack.echo > Time::ZERO && outcome.advanced)
            .then(|| now.since(ack.echo));
        if self.rules.is_stream() {
            if let Some(rtt) = outcome.rtt.or(echoed) {
                self.rtt.sample(rtt, self.cumulative_ack, self.next);
            }
        } else {
            self.measure_each();
        }
        self.last_rtt = self.acked.last().and_then(|p| p.rtt);
    }

    #[inline(never)]
    fn measure_each(&mut self) {
        for rtt in self.acked.iter().filter_map(|p| p.rtt) {
            self.rtt.sample(rtt, self.cumulative_ack, self.next);
        }
    }

    /// Evaluates a tail loss probe (RFC 8985, section 7.4). True if it repaired a loss, which
    /// completes a recovery episode.
    #[inline]
    pub(super) fn check_tail_probe(&mut self, outcome: &AckOutcome) -> bool {
        match self.tail_probe {
            None => false,
            Some(tail) => self.end_tail_probe(tail, outcome),
        }
    }

    #[cold]
    fn end_tail_probe(&mut self, tail: TailProbe, outcome: &AckOutcome) -> bool {
        match tail.retransmitted {
            _ if self.recovery.is_some() => self.tail_probe = None,
            None if self.cumulative_ack >= tail.end => self.tail_probe = None,
            Some(_) if outcome.duplicate => self.tail_probe = None,
            Some(packet) if self.cumulative_ack > tail.end => {
                // Without a DSACK the probe repaired a loss, and the algorithm has to react once.
                self.tail_probe = None;
                self.note_lost(packet.pn, LossSign::Timeout);
                let (in_flight, rtt) = (self.scoreboard.in_flight(), self.rtt.view());
                self.feed.lost(&[packet], true, in_flight, rtt);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Undoes a spurious reduction; true if it did.
    #[inline]
    pub(super) fn check_spurious(&mut self, ack: &Ack, outcome: &AckOutcome) -> bool {
        (self.pto_probe.is_some() || self.undo.is_some()) && self.undo_spurious(ack, outcome)
    }

    #[cold]
    fn undo_spurious(&mut self, ack: &Ack, outcome: &AckOutcome) -> bool {
        if let (Some(pto_probe), Some(first)) = (self.pto_probe, self.acked.first()) {
            self.pto_probe = None;
            if first.pn < pto_probe {
                self.stats.spurious += 1;
                self.feed.spurious(Spurious::Rto);
            }
        }
        let Some(undo) = &mut self.undo else {
            return false;
        };
        if outcome.duplicate {
            undo.pending = undo.pending.saturating_sub(1);
        }
        let Some(first_retransmit_at) = undo.first_retransmit_at.filter(|_| undo.resent) else {
            return false;
        };
        // RFC 3522 (Eifel): the echoed time stamp is older than the first retransmission.
        let delayed = self.rules.timestamps
            && outcome.advanced
            && ack.echo > Time::ZERO
            && ack.echo < first_retransmit_at;
        let original = undo.frto && outcome.original;
        let stamped = self.rules.timestamps || !self.rules.is_stream();
        if !(delayed || original || (undo.pending == 0 && stamped)) {
            return false;
        }
        let cause = undo.cause;
        self.undo = None;
        self.recovery = None;
        self.reduction = None;
        self.reordered = true;
        self.stats.spurious += 1;
        if self.rules.is_stream() {
            self.scoreboard.undo_losses();
        }
        self.feed.spurious(cause);
        true
    }

    /// Restarts the retransmission timer when the cumulative ACK advances, and when data arrives
    /// that was sent before the retransmission of the oldest segment.
    pub(super) fn note_progress(&mut self, now: Time, outcome: &AckOutcome) {
        let fresh = !self.rules.is_stream()
            || outcome.advanced
            || self
                .scoreboard
                .front()
                .zip(outcome.oldest_sent)
                .is_some_and(|(front, sent)| sent < front.sent_at);
        if fresh {
            self.progress_at = now;
            self.silence = Silence::from(now);
            self.rtt.on_progress();
        }
    }

    pub(super) fn report_arrivals(&mut self, in_flight_before: Bytes, advanced: bool) {
        let rate = self.scoreboard.delivery().rate(&self.acked);
        let round_start = self.feed.acked(&Acked {
            packets: &self.acked,
            in_flight_before,
            in_flight: self.scoreboard.in_flight(),
            delivery: self.scoreboard.delivery(),
            rtt: self.rtt.view(),
            rate,
            in_recovery: self.recovery.is_some(),
            advanced: advanced || self.reordered || !self.rules.is_stream(),
            source: Source::Wire,
            rtt_error: Span::ZERO,
        });
        let app_limited = self.acked.last().is_some_and(|p| p.stamp.app_limited);
        if !app_limited || rate >= self.delivery_rate {
            self.delivery_rate = rate.or(self.delivery_rate);
        }
        if round_start {
            let (all, limited) = &mut self.stats.rounds;
            *all += 1;
            *limited += u64::from(app_limited);
            self.grow_buffer();
        }
    }

    /// Grows the send buffer once per round trip: the window at most doubles in a round trip, and
    /// the buffer holds two windows.
    #[cold]
    pub(super) fn grow_buffer(&mut self) {
        let most = self.rules.send_buffer.1.get();
        if self.buffer < most {
            let window = self.feed.allowance().window.get() / self.mss;
            let wanted = window.saturating_mul(BUFFER_PER_SEGMENT);
            self.buffer = self.buffer.max(wanted.min(most));
        }
    }
}
