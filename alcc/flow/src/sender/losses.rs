// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loss detection, and the recovery episode from the first loss to the recovery point.
use super::{Episode, FoundLost, LossSign, Newest, Sender, Undo};
use crate::rate_reduction::{AckSummary, RateReduction};
use crate::rules::{AckSemantics, Detection};
use crate::scoreboard::SegmentIndex;
use alcc_cc::{Pn, Spurious};
use alcc_units::{Span, Time};

impl Sender {
    /// Ends the episode at its recovery point; true if it ended now.
    #[inline]
    pub(super) fn repaired(&mut self) -> bool {
        match self.recovery {
            None => false,
            Some(episode) => self.end_episode(episode),
        }
    }

    #[cold]
    fn end_episode(&mut self, episode: Episode) -> bool {
        let over = if self.rules.is_stream() {
            self.cumulative_ack >= episode.recovery_point
        } else {
            self.newest.map(|newest| newest.pn) >= Some(episode.pn)
        };
        if over {
            self.recovery = None;
            self.scoreboard.forget_replaced(episode.pn);
            self.reduction = None;
            self.undo = None;
        }
        over
    }

    /// The reordering window (RFC 8985, section 6.2, step 4, as in Linux).
    pub(super) fn reordering(&self) -> Span {
        let rtt = self.rtt.view();
        if !self.reordered && (self.recovery.is_some() || self.scoreboard.arrived() >= 3) {
            return Span::ZERO;
        }
        (rtt.min / 4).min(rtt.smoothed)
    }

    /// Marks packets that are lost by now.
    #[inline]
    pub(super) fn detect(&mut self, now: Time) {
        self.reordering_deadline = None;
        let reliable =
            self.rules.ack_semantics != (AckSemantics::PacketNumbers { reliable: false });
        if let Some(newest) = self.newest
            && (newest.pn > self.scoreboard.examined() || !reliable)
        {
            self.detect_before(now, newest, reliable);
        }
    }

    /// Marks packets sent before `newest` that are lost by now.
    #[cold]
    fn detect_before(&mut self, now: Time, newest: Newest, reliable: bool) {
        let patience = newest.rtt + self.reordering();
        while let Some((index, segment)) = self.scoreboard.loss_candidate()
            && segment.pn < newest.pn
        {
            let due = match self.rules.detection {
                Detection::Rack => segment.sent_at + patience,
                Detection::PacketThreshold(n) if segment.pn + n <= newest.pn => now,
                Detection::PacketThreshold(_) => break,
                Detection::TimeThreshold(_) => match self.timer_of(segment.pn) {
                    Some(ends) => ends,
                    None => break,
                },
            };
            if due > now {
                self.reordering_deadline = (self.rules.detection == Detection::Rack).then_some(due);
                break;
            }
            let by = match self.rules.detection {
                Detection::PacketThreshold(_) => LossSign::Reordering,
                Detection::Rack | Detection::TimeThreshold(_) => LossSign::Overdue,
            };
            self.lose(index, reliable, by);
        }
        if !reliable {
            self.scoreboard.pop_arrived();
        }
    }

    /// Marks a segment as lost unless it is no longer in flight.
    pub(super) fn lose(&mut self, index: SegmentIndex, reliable: bool, by: LossSign) {
        if let Some(packet) = self.scoreboard.mark_lost(index, reliable) {
            self.note_lost(packet.pn, by);
            self.lost.push(packet);
        }
    }

    pub(super) fn note_lost(&mut self, pn: Pn, by: LossSign) {
        if let Some(found) = &mut self.found_lost {
            found.push(FoundLost { pn, by });
        }
    }

    /// End of the timer of a missing packet. Its length is that of the time when the gap was found.
    fn timer_of(&mut self, pn: Pn) -> Option<Time> {
        while let Some(&(below, ends)) = self.gaps.front() {
            if pn < below {
                return Some(ends);
            }
            self.gaps.pop_front();
        }
        None
    }

    /// True if the new losses begin a recovery episode.
    #[inline]
    pub(super) fn begin_episode(&mut self) -> bool {
        match self.lost.last().map(|packet| packet.pn) {
            None => false,
            Some(last) => self.begin_episode_with(last),
        }
    }

    #[cold]
    fn begin_episode_with(&mut self, last: Pn) -> bool {
        let stream = self.rules.is_stream();
        let new = match self.recovery {
            None => true,
            Some(episode) => !stream && last >= episode.pn,
        };
        if new {
            self.open_episode(Spurious::Loss, false);
        }
        if let Some(undo) = self.undo.as_mut().filter(|_| !stream) {
            undo.pending += self.lost.len() as u64;
            (undo.first_retransmit_at, undo.resent) = (Some(Time::ZERO), true);
        }
        new
    }

    pub(super) fn open_episode(&mut self, cause: Spurious, frto: bool) {
        let timeout = cause == Spurious::Rto;
        self.stats.episodes += 1;
        self.recovery = Some(Episode {
            recovery_point: self.next,
            pn: self.scoreboard.next_pn(),
            timeout,
        });
        // Retransmissions of an earlier episode may still be acknowledged; they belong to that
        // episode.
        let under_way = self
            .outstanding_retransmits
            .filter(|(_, end)| self.cumulative_ack < *end);
        self.undo = Some(Undo {
            cause,
            first_retransmit_at: under_way.map(|(at, _)| at),
            resent: false,
            pending: 0,
            frto,
        });
        self.tail_probe = None;
    }

    /// Reports newly found losses to the algorithm. True if there are any.
    #[inline]
    pub(super) fn report_losses(&mut self, new_episode: bool) -> bool {
        let found = !self.lost.is_empty();
        if found {
            self.pass_losses(new_episode);
        }
        found
    }

    #[cold]
    fn pass_losses(&mut self, new_episode: bool) {
        // Frees their memory, because the next loss may be far away.
        let mut lost = std::mem::take(&mut self.lost);
        // So far they are in stream order; a retransmission has a higher packet number.
        if !lost.is_sorted_by_key(|p| p.pn) {
            lost.sort_unstable_by_key(|p| p.pn);
        }
        let before = self.window(&self.feed.allowance());
        let in_flight = self.scoreboard.in_flight();
        let rtt = self.rtt.view();
        self.feed.lost(&lost, new_episode, in_flight, rtt);
        if new_episode && self.reduces_rate {
            let out = (self.next - self.cumulative_ack).div_ceil(self.mss);
            self.reduction = Some(RateReduction::new(self.rules.reduction, before.min(out)));
        }
    }

    #[inline]
    pub(super) fn reduce_rate(&mut self, delivered: u64, advanced: bool, lost: bool) {
        if self.reduction.is_some() {
            self.reduce_rate_on(delivered, advanced, lost);
        }
    }

    #[cold]
    fn reduce_rate_on(&mut self, delivered: u64, advanced: bool, lost: bool) {
        let ssthresh = (self.feed.allowance().window.get() / self.mss).max(1);
        let packets_in_flight = self.packets_in_flight();
        if let Some(reduction) = &mut self.reduction {
            reduction.on_ack(&AckSummary {
                delivered,
                pipe: packets_in_flight,
                ssthresh,
                advanced,
                lost,
            });
        }
    }
}
