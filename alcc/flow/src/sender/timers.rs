// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers: retransmission, tail loss probe, reordering, zero window, and the algorithm's own.
use super::{LONE_SEGMENT, LossSign, Probe, Sender, TIMER_GRANULARITY, TailProbe};
use crate::earlier;
use crate::rules::{AckSemantics, Detection, Expiry};
use alcc_cc::{Rto, Spurious};
use alcc_units::{Span, Time};

impl Sender {
    /// Time at which [`Sender::on_timer`] is due or the pacer allows another
    /// [`Sender::poll_transmit`].
    #[inline]
    pub fn next_timer(&self) -> Option<Time> {
        earlier(self.next_deadline(), self.paced_until)
    }

    /// Time at which the pacer releases the next packet, if it held one back.
    pub fn next_departure(&self) -> Option<Time> {
        self.paced_until
    }

    /// Time at which [`Sender::on_timer`] is due.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        let persist = self.persist.map(|(at, _)| at);
        let retransmission_deadline =
            earlier(self.retransmission_deadline(), self.reordering_deadline);
        earlier(
            earlier(retransmission_deadline, self.feed.next_timer()),
            persist,
        )
    }

    /// Time at which the retransmission timer or the tail loss probe is due.
    #[inline(always)]
    pub(super) fn retransmission_deadline(&self) -> Option<Time> {
        if self.scoreboard.packets_in_flight() == 0 {
            return None;
        }
        let mut timeout = self.progress_at + self.rtt.timeout()?;
        if let Expiry::Probe(told) = self.rules.timeout.on_expiry
            && self.silence.first_probe.is_some()
            && self.silence.told == 0
        {
            // The backoff of probes does not delay the report.
            timeout = timeout.min(self.silence.since + told);
        }
        Some(match self.probe_due() {
            Some(probe) => probe.min(timeout),
            None => timeout,
        })
    }

    /// Time at which the tail loss probe is due, if one is allowed.
    pub(super) fn probe_due(&self) -> Option<Time> {
        let rtt = self.rtt.view();
        let quiet =
            self.recovery.is_none() && self.tail_probe.is_none() && self.scoreboard.arrived() == 0;
        if !self.rules.tail_probe || !quiet || rtt.smoothed.is_zero() {
            return None;
        }
        let more = if self.scoreboard.packets_in_flight() == 1 {
            LONE_SEGMENT
        } else {
            TIMER_GRANULARITY
        };
        Some(self.new_data_at.max(self.progress_at) + rtt.smoothed * 2 + more)
    }

    /// Runs expired timers. It does nothing when called early.
    pub fn on_timer(&mut self, now: Time) {
        let now = self.feed.advance(now);
        if self.reordering_deadline.is_some_and(|at| at <= now) {
            self.detect(now);
            let new_episode = self.begin_episode();
            if self.report_losses(new_episode) {
                self.reduce_rate(1, false, true);
            }
        }
        if self.retransmission_deadline().is_some_and(|at| at <= now) {
            if self.probe_due().is_some() {
                self.probe_tail(now);
            } else {
                self.on_rto(now);
            }
        }
        if let Some((at, asked)) = self.persist
            && at <= now
        {
            let asked = (asked + 1).min(16);
            let wait = (self.timeout() * (1 << asked)).min(self.rules.timeout.max);
            self.persist = Some((now + wait, asked));
            self.pending_probe = Some(Probe::Window);
        }
        self.run_controller_timer(now);
    }

    #[inline(always)]
    pub(super) fn run_controller_timer(&mut self, now: Time) {
        if matches!(self.rules.detection, Detection::TimeThreshold(_)) && self.feed.is_due() {
            self.detect(now);
            let new_episode = self.begin_episode();
            self.report_losses(new_episode);
        }
        // With everything lost there may be no other timer.
        self.feed.run_timer();
    }

    /// Sends new data if there is some, otherwise the last segment again (RFC 8985, section 7.3).
    pub(super) fn probe_tail(&mut self, now: Time) {
        self.stats.tail_probes += 1;
        self.progress_at = now;
        let fresh =
            self.written > self.next && self.send_limit >= self.next.saturating_add(self.mss);
        let retransmitted = if fresh {
            self.pending_probe = Some(Probe::NewData);
            None
        } else {
            self.scoreboard.back().map(|(index, last)| {
                self.pending_probe = Some(Probe::Retransmit(index));
                last.packet()
            })
        };
        self.tail_probe = Some(TailProbe {
            end: self.next,
            retransmitted,
        });
    }

    /// Handles the expiry of the retransmission timer.
    pub(super) fn on_rto(&mut self, now: Time) {
        let Some((index, oldest)) = self.scoreboard.oldest() else {
            return;
        };
        if let Expiry::Probe(told) = self.rules.timeout.on_expiry {
            self.pending_probe = Some(Probe::Retransmit(index));
            let probe = self.scoreboard.next_pn();
            let first = *self.silence.first_probe.get_or_insert(probe);
            if now.since(self.silence.since) < told {
                self.stats.tail_probes += 1;
                // What it repeats is not lost, so its arrival takes nothing back.
                self.undo = None;
                self.rtt.on_expiry();
                self.progress_at = now;
                return;
            }
            self.pto_probe = Some(first);
            self.silence.told += 1;
        }
        // The algorithm has already reacted to these losses.
        let repairing = self.recovery.is_some_and(|episode| !episode.timeout);
        let stream = self.rules.is_stream();
        let again = self.rtt.backoff() > 0;
        self.rtt.on_expiry();
        self.stats.timeouts += 1;
        let rto = Rto {
            backoff: self.backoff_count(stream && repairing),
            oldest: oldest.packet(),
            in_flight: self.scoreboard.in_flight(),
            silence: match self.rules.timeout.on_expiry {
                Expiry::Probe(_) => now.since(self.silence.since),
                _ => now.since(self.progress_at),
            },
        };
        self.feed.expired(&rto);
        self.progress_at = now;
        if self.rules.timeout.on_expiry == Expiry::Notify {
            return;
        }
        self.reduction = None;
        match self.rules.timeout.on_expiry {
            Expiry::MarkAllLost => {
                if stream
                    && self
                        .acked_ranges
                        .first()
                        .is_some_and(|r| r.start <= self.cumulative_ack)
                {
                    self.acked_ranges.clear();
                    self.scoreboard.renege();
                }
                self.mark_all_lost(now);
                if stream {
                    let first = self.scoreboard.indices().start;
                    self.pending_probe = Some(Probe::Retransmit(first));
                }
            }
            Expiry::Notify | Expiry::Probe(_) => {}
        }
        // F-RTO (RFC 5682) as in Linux: not during loss recovery.
        let cause = Spurious::Rto;
        self.open_episode(
            cause,
            stream && self.rules.timestamps && (!repairing || again),
        );
        if !stream {
            self.undo = None;
        }
        self.report_losses(false);
    }

    /// Number of consecutive timeouts for this data.
    pub(super) fn backoff_count(&self, repairing: bool) -> u32 {
        match self.rules.timeout.on_expiry {
            Expiry::Notify => 1,
            Expiry::Probe(_) => self.silence.told,
            _ => self.rtt.backoff() + u32::from(repairing),
        }
    }

    /// Marks everything in flight as lost, except data sent within the last RTT (RACK).
    pub(super) fn mark_all_lost(&mut self, now: Time) {
        let reliable =
            self.rules.ack_semantics != (AckSemantics::PacketNumbers { reliable: false });
        let recent = match (self.rules.detection, self.newest) {
            (Detection::Rack, Some(newest)) => newest.rtt,
            _ => Span::ZERO,
        };
        let indices = self.scoreboard.indices();
        let first = indices.start;
        for index in indices {
            let young = self
                .scoreboard
                .get(index)
                .is_some_and(|s| s.sent_at + recent > now);
            if index == first || !young {
                self.lose(index, reliable, LossSign::Timeout);
            }
        }
        if !reliable {
            self.scoreboard.pop_arrived();
        }
    }
}
