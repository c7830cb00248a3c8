// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an acknowledgement says, and what follows from it.
use super::{BUFFER_PER_SEGMENT, Newest, News, Sender};
use crate::board::{Segment, State};
use crate::ranges::Range;
use crate::rules::{Detection, Form};
use crate::wire::{Ack, AckError, Arrival};
use alcc_cc::{Acked, Packet, Pn, Source, Spurious};
use alcc_units::{Bytes, Span, Time};

impl Sender {
    /// An acknowledgement arrives.
    ///
    /// # Errors
    /// [`AckError`] if it cannot be true; then nothing has changed.
    pub fn on_ack(&mut self, now: Time, ack: &Ack) -> Result<(), AckError> {
        self.on_ack_ranges(now, ack, ack.ranges())
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
    ) -> Result<(), AckError> {
        self.on_ack_arrivals(now, ack, ranges, &[])
    }

    /// An acknowledgement that says of some of the transmissions in `ranges` when they arrived, on the clock of `ack.sent_at`
    /// ([`Rules::arrivals`](crate::Rules::arrivals)): the round-trip times of these, and only these, are known, without what they waited for
    /// their acknowledgement.
    ///
    /// # Errors
    /// [`AckError`] if it cannot be true; then nothing has changed.
    pub fn on_ack_arrivals(
        &mut self,
        now: Time,
        ack: &Ack,
        ranges: &[Range],
        arrivals: &[Arrival],
    ) -> Result<(), AckError> {
        self.check(ack, ranges)?;
        let now = self.feed.advance(now);
        if let Some(newest) = arrivals.iter().map(|a| a.pn).max()
            && newest >= self.board.next_pn()
        {
            return Err(AckError::NeverSent {
                named: newest,
                sent: self.board.next_pn(),
            });
        }
        if let Some(held) = &mut self.held {
            held.clear();
            held.extend(arrivals.iter().map(|a| (a.pn, ack.sent_at.since(a.at))));
            held.sort_unstable_by_key(|(pn, _)| *pn);
        }
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
        let marked = self.marked.max(ack.marked);
        self.feed.marked(Bytes::new(marked - self.marked));
        self.marked = marked;
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
        let repaired_by_probe = self.judge_tail(&news);
        let mistaken = self.judge_reduction(ack, &news);
        let ended = self.repaired() || repaired_by_probe;
        // Only something newer that has arrived tells of losses.
        if self.newest.map(|n| n.pn) > newest && !matches!(self.rules.detection, Detection::Gap(_))
        {
            self.detect(now);
        }
        let new_episode = self.begin_episode();
        if ended || mistaken {
            self.feed.repaired(self.board.in_flight(), self.rtt.view());
        }
        self.report_losses(new_episode);
        if news.advanced || !self.acked.is_empty() {
            self.note_progress(now, &news);
        }
        self.shape(self.acked.len() as u64, news.advanced);
        self.report_arrivals(in_flight_before, news.advanced);
        self.run_controller_timer(now);
        if self.lost.capacity() > 1024 {
            self.lost = Vec::new();
        }
        Ok(())
    }

    pub(super) fn check(&self, ack: &Ack, ranges: &[Range]) -> Result<(), AckError> {
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

    pub(super) fn hear_stream(&mut self, now: Time, ack: &Ack, ranges: &[Range], news: &mut News) {
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
    pub(super) fn arrived(
        &mut self,
        now: Time,
        segment: &Segment,
        mut packet: Packet,
        news: &mut News,
    ) {
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
    pub(super) fn overtake(&mut self, pn: Pn, rtt: Span) {
        if self.newest.is_none_or(|newest| newest.pn < pn) {
            self.newest = Some(Newest { pn, rtt });
        }
    }

    pub(super) fn hear_numbers(&mut self, now: Time, ranges: &[Range], news: &mut News) {
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

    pub(super) fn number_arrived(&mut self, now: Time, pn: Pn, news: &mut News) {
        let Some(number) = self.board.number_of(pn) else {
            return;
        };
        let Some(segment) = self.board.get(number).copied() else {
            return;
        };
        let late = segment.pn != pn || segment.state == State::Lost;
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
            packet.rtt = match &self.held {
                None => Some(rtt),
                Some(held) => held
                    .binary_search_by_key(&pn, |(pn, _)| *pn)
                    .ok()
                    .map(|found| rtt.saturating_sub(held[found].1))
                    .filter(|rtt| !rtt.is_zero()),
            };
            news.rtt = packet.rtt.or(news.rtt);
            let expected = self.newest.map_or(0, |newest| newest.pn + 1);
            if matches!(self.rules.detection, Detection::Gap(_)) && pn > expected {
                self.gaps.push_back((pn, now));
            }
            self.overtake(pn, rtt);
        }
        news.oldest_sent = news.oldest_sent.or(Some(segment.sent_at));
        self.acked.push(packet);
    }

    pub(super) fn measure(&mut self, now: Time, ack: &Ack, news: &News) {
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

    /// What a tail probe has shown (RFC 8985, section 7.4). True if it repaired a loss: that is an episode from begin to end.
    pub(super) fn judge_tail(&mut self, news: &News) -> bool {
        let Some(tail) = self.tail else { return false };
        match tail.again {
            _ if self.recovery.is_some() => self.tail = None,
            None if self.complete >= tail.until => self.tail = None,
            Some(_) if news.duplicate => self.tail = None,
            Some(packet) if self.complete > tail.until => {
                // Nobody complained of a duplicate: it repaired a loss, for which the algorithm has to answer once.
                self.tail = None;
                let (in_flight, rtt) = (self.board.in_flight(), self.rtt.view());
                self.feed.lost(&[packet], true, in_flight, rtt);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Takes back a reduction that was a mistake; true if it did.
    pub(super) fn judge_reduction(&mut self, ack: &Ack, news: &News) -> bool {
        if let (Some(question), Some(first)) = (self.question, self.acked.first()) {
            self.question = None;
            if first.pn < question {
                self.stats.mistakes += 1;
                self.feed.spurious(Spurious::Rto);
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
        self.feed.spurious(what);
        true
    }

    /// The timer starts anew when the stream advances, and when something arrives that was sent before the oldest segment was sent again.
    pub(super) fn note_progress(&mut self, now: Time, news: &News) {
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

    pub(super) fn report_arrivals(&mut self, in_flight_before: Bytes, advanced: bool) {
        let rate = self.board.delivery().rate(&self.acked);
        let round_start = self.feed.acked(&Acked {
            packets: &self.acked,
            in_flight_before,
            in_flight: self.board.in_flight(),
            delivery: self.board.delivery(),
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
            self.grow_buffer();
        }
    }

    /// Once per round trip: a window no more than doubles in one, and there is room for two.
    pub(super) fn grow_buffer(&mut self) {
        let most = self.rules.send_buffer.1.get();
        if self.buffer < most {
            let window = self.feed.allowance().window.get() / self.mss;
            let wanted = window.saturating_mul(BUFFER_PER_SEGMENT);
            self.buffer = self.buffer.max(wanted.min(most));
        }
    }
}
