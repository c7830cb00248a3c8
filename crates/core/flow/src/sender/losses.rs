// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is lost, and the episode from the first loss to its repair.
use super::{Episode, Sender, Undo};
use crate::recovery::{Heard, Shaper};
use crate::rules::{Detection, Form};
use alcc_cc::{Pn, Spurious};
use alcc_units::{Span, Time};

impl Sender {
    /// True once when what was lost is repaired.
    pub(super) fn repaired(&mut self) -> bool {
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
    pub(super) fn reordering(&self) -> Span {
        let rtt = self.rtt.view();
        if !self.reordered && (self.recovery.is_some() || self.board.arrived() >= 3) {
            return Span::ZERO;
        }
        (rtt.min / 4).min(rtt.smoothed)
    }

    /// Finds what is lost by now.
    pub(super) fn detect(&mut self, now: Time) {
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
    pub(super) fn missed(&mut self, pn: Pn, now: Time) -> Time {
        while let Some(&(below, since)) = self.gaps.front() {
            if pn < below {
                return since;
            }
            self.gaps.pop_front();
        }
        now
    }

    /// True if what was just lost begins an episode.
    pub(super) fn begin_episode(&mut self) -> bool {
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

    pub(super) fn open_episode(&mut self, what: Spurious, by_original: bool) {
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

    pub(super) fn report_losses(&mut self, new_episode: bool) {
        if self.lost.is_empty() {
            return;
        }
        // By the order of the stream; what was sent again has a later number.
        if !self.lost.is_sorted_by_key(|p| p.pn) {
            self.lost.sort_unstable_by_key(|p| p.pn);
        }
        let before = self.window(&self.feed.allowance());
        let in_flight = self.board.in_flight();
        let rtt = self.rtt.view();
        self.feed.lost(&self.lost, new_episode, in_flight, rtt);
        if new_episode && self.shaped {
            let out = (self.next - self.complete).div_ceil(self.mss);
            self.shaper = Some(Shaper::new(self.rules.shape, before.min(out)));
        }
    }

    pub(super) fn shape(&mut self, delivered: u64, advanced: bool) {
        if self.shaper.is_none() {
            return;
        }
        let target = (self.feed.allowance().window.get() / self.mss).max(1);
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
}
