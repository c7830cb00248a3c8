// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers: retransmission, tail probe, reordering, a shut window, the algorithm's own.
use super::{Forced, LONE_SEGMENT, Sender, TIMER_GRAIN, Tail};
use crate::earlier;
use crate::rules::{Detection, Expiry, Form};
use alcc_cc::{Rto, Spurious};
use alcc_units::{Span, Time};

impl Sender {
    /// When [`Sender::on_timer`] or, because of pacing, [`Sender::poll_transmit`] wants to be called.
    pub fn next_timer(&self) -> Option<Time> {
        earlier(self.next_deadline(), self.paced_until)
    }

    /// When pacing lets the next packet leave, if it held one back.
    pub fn next_departure(&self) -> Option<Time> {
        self.paced_until
    }

    /// When [`Sender::on_timer`] wants to be called.
    pub fn next_deadline(&self) -> Option<Time> {
        let persist = self.persist.map(|(at, _)| at);
        let alarm = earlier(self.alarm(), self.reordering_ends);
        earlier(earlier(alarm, self.feed.next_timer()), persist)
    }

    /// When the retransmission timer expires, or the tail is probed.
    pub(super) fn alarm(&self) -> Option<Time> {
        if self.board.flight() == 0 {
            return None;
        }
        let timeout = self.progress_at + self.rtt.timeout()?;
        Some(match self.probe_due() {
            Some(probe) => probe.min(timeout),
            None => timeout,
        })
    }

    /// When the tail would be probed, if it is worth it.
    pub(super) fn probe_due(&self) -> Option<Time> {
        let rtt = self.rtt.view();
        let quiet = self.recovery.is_none() && self.tail.is_none() && self.board.arrived() == 0;
        if !self.rules.tail_probe || !quiet || rtt.smoothed.is_zero() {
            return None;
        }
        let more = if self.board.flight() == 1 {
            LONE_SEGMENT
        } else {
            TIMER_GRAIN
        };
        Some(self.tail_from.max(self.progress_at) + rtt.smoothed * 2 + more)
    }

    /// A moment that [`Sender::next_timer`] named has come. Early calls do nothing.
    pub fn on_timer(&mut self, now: Time) {
        let now = self.feed.advance(now);
        if self.reordering_ends.is_some_and(|at| at <= now) {
            self.lost.clear();
            self.detect(now);
            let new_episode = self.begin_episode();
            if !self.lost.is_empty() {
                self.report_losses(new_episode);
                self.shape(1, false);
            }
        }
        if self.alarm().is_some_and(|at| at <= now) {
            if self.probe_due().is_some() {
                self.probe_tail(now);
            } else {
                self.expire(now);
            }
        }
        if let Some((at, asked)) = self.persist
            && at <= now
        {
            let asked = (asked + 1).min(16);
            let wait = (self.timeout() * (1 << asked)).min(self.rules.timeout.most);
            self.persist = Some((now + wait, asked));
            self.forced = Some(Forced::Window);
        }
        self.run_controller_timer(now);
    }

    pub(super) fn run_controller_timer(&mut self, now: Time) {
        if self.feed.is_due() && matches!(self.rules.detection, Detection::Gap(_)) {
            self.lost.clear();
            self.detect(now);
            let new_episode = self.begin_episode();
            self.report_losses(new_episode);
        }
        // With all of it lost there may be nothing left to wait for.
        self.feed.run_timer();
    }

    /// New data if there is some, otherwise the last segment once more (RFC 8985, section 7.3).
    pub(super) fn probe_tail(&mut self, now: Time) {
        self.stats.tail_probes += 1;
        self.progress_at = now;
        let fresh = self.written > self.next && self.edge >= self.next.saturating_add(self.mss);
        let again = if fresh {
            self.forced = Some(Forced::New);
            None
        } else {
            self.board.back().map(|(number, last)| {
                self.forced = Some(Forced::Again(number));
                last.packet()
            })
        };
        self.tail = Some(Tail {
            until: self.next,
            again,
        });
    }

    /// The retransmission timer has expired.
    pub(super) fn expire(&mut self, now: Time) {
        let Some((number, oldest)) = self.board.oldest() else {
            return;
        };
        // Losses that the algorithm answers already are no news.
        let repairing = self.recovery.is_some_and(|episode| !episode.timeout);
        let stream = self.rules.is_stream();
        let again = self.rtt.backoff() > 0;
        self.rtt.expired();
        self.stats.timeouts += 1;
        let rto = Rto {
            backoff: self.reactions(stream && repairing),
            oldest: oldest.packet(),
            in_flight: self.board.in_flight(),
            silence: now.since(self.progress_at),
        };
        self.feed.expired(&rto);
        self.progress_at = now;
        if self.rules.timeout.expiry == Expiry::Tell {
            return;
        }
        self.shaper = None;
        self.lost.clear();
        match self.rules.timeout.expiry {
            Expiry::DeclareAll => {
                if stream && self.known.first().is_some_and(|r| r.start <= self.complete) {
                    self.known.clear();
                    self.board.renege();
                }
                self.declare_all(now);
                if stream {
                    let first = self.board.numbers().start;
                    self.forced = Some(Forced::Again(first));
                }
            }
            Expiry::Tell => {}
            Expiry::Probe => {
                self.question = Some(self.board.next_pn());
                self.forced = Some(Forced::Again(number));
            }
        }
        // RFC 5682, as Linux applies it: not while losses are being repaired.
        let what = Spurious::Rto;
        self.open_episode(
            what,
            stream && self.rules.timestamps && (!repairing || again),
        );
        if !stream {
            self.undo = None;
        }
        if !self.lost.is_empty() {
            self.report_losses(false);
        }
    }

    /// The how manieth answer to silence is due for the same data.
    pub(super) fn reactions(&self, repairing: bool) -> u32 {
        match self.rules.timeout.expiry {
            Expiry::Tell => 1,
            _ => self.rtt.backoff() + u32::from(repairing),
        }
    }

    /// All that is in flight is lost, except what may still be on its way.
    pub(super) fn declare_all(&mut self, now: Time) {
        let reliable = self.rules.form != (Form::Datagrams { reliable: false });
        let recent = match (self.rules.detection, self.newest) {
            (Detection::Rack, Some(newest)) => newest.rtt,
            _ => Span::ZERO,
        };
        let numbers = self.board.numbers();
        let first = numbers.start;
        for number in numbers {
            let young = self
                .board
                .get(number)
                .is_some_and(|s| s.sent_at + recent > now);
            if number == first || !young {
                self.lost.extend(self.board.lose(number, reliable));
            }
        }
        if !reliable {
            self.board.settle_arrived();
        }
    }
}
