// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a reading of the counters means for the algorithm.
use super::{Episode, OverTcp, READINGS_PER_RTT, Repair, TcpProgress};
use crate::AckStamp;
use alcc_cc::{Acked, Kind, LimitedBy, Rto, Sending, Sent, Source, Spurious, Tag};
use alcc_units::{Bytes, Span, Time};

/// Weight of the old smoothed RTT in Linux.
const KEPT: f64 = 7.0 / 8.0;
/// Minimum RTO of hosts for datagrams: a shorter one mistakes the outages of a radio link for
/// losses.
const DATAGRAM_TIMEOUT: Span = Span::from_secs(1);

impl OverTcp {
    /// The kernel's counters, read at `now`.
    pub fn progress(&mut self, now: Time, tcp: &TcpProgress) {
        self.progress_stamped(now, tcp, &[]);
    }

    /// As [`OverTcp::progress`], with the exact times at which stream positions were acknowledged,
    /// ascending. Other RTT samples are interpolated since the last reading.
    pub fn progress_stamped(&mut self, now: Time, tcp: &TcpProgress, stamps: &[AckStamp]) {
        let now = self.feed.advance(now);
        self.take_late_reading(now, tcp.min_rtt);
        if tcp.mss != self.mss && tcp.mss > Bytes::ZERO {
            self.mss = tcp.mss;
            self.feed.mtu(tcp.mss);
        }
        self.ledger.adopt(now, tcp.written);
        self.acknowledge(now, tcp, stamps);
        self.seen = *tcp;
        self.read_at = now;
        self.feed.run_timer();
        if self.is_idle() {
            self.ledger.release_memory();
            self.feed.release_memory();
        }
    }

    fn acknowledge(&mut self, now: Time, tcp: &TcpProgress, stamps: &[AckStamp]) {
        // With counters, nothing more had arrived at the last reading. A frame has a time of its
        // own.
        let since = if self.in_band.is_some() {
            self.ledger.delivery().at()
        } else {
            self.read_at
        };
        let paced = self.is_paced() && !tcp.window_full;
        self.ledger.left(
            since,
            now,
            tcp.written.saturating_sub(tcp.unsent.get()),
            paced,
        );
        // What the pacer holds back is not in flight.
        let waits = if paced { tcp.unsent } else { Bytes::ZERO };
        let in_flight_before = self.ledger.under_way().saturating_sub(waits);
        let floor = tcp.min_rtt.max(
            self.in_band
                .as_ref()
                .and_then(|it| it.exact_min_rtt)
                .unwrap_or_default(),
        );
        let found = self.found_lost(tcp);
        self.take_lateness(since, now, stamps);
        let rtt_error = self.ledger.stamped(since, stamps, now, tcp.acked, floor);
        let over = self.is_repaired(tcp);
        let begins = found > 0 && (self.repair.is_none() || over);
        let sacked = tcp.sacked.saturating_mul(self.mss.get());
        let lost = found.saturating_mul(self.mss.get());
        self.ledger
            .beyond(since, now, (sacked, lost), begins, floor);
        if let Some(in_band) = &mut self.in_band
            && let (Some(newest), Some(last)) = (self.ledger.returned().last(), stamps.last())
            && self.ledger.ends_here(last.acked)
        {
            let rtt = last.at.since(newest.sent_at);
            in_band.exact_min_rtt = Some(in_band.exact_min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        self.feed.notify_local_receiver(self.ledger.returned());
        // On a path with a shorter RTT than the time between readings, a round trip takes as long
        // as that: the window has to last.
        let seldom = now.since(since) * READINGS_PER_RTT > tcp.min_rtt;
        if (tcp.unsent == Bytes::ZERO || paced) && !seldom {
            self.correct_rtt(since, now, tcp, floor);
        }
        for rtt in self.ledger.returned().iter().filter_map(|p| p.rtt) {
            self.rtt.sample(rtt);
        }
        self.losses(now, tcp, waits, over);
        self.arrivals(tcp, in_flight_before, waits, rtt_error);
        self.sent_again(now, tcp);
    }

    /// Looks whether this reading was late. Frames tell more, see [`Self::take_lateness`].
    #[inline]
    fn take_late_reading(&mut self, now: Time, rtt: Span) {
        let gap = now.since(self.read_at);
        if self.in_band.is_none()
            && self.late.concerns(gap)
            && !self.feed.needs().strict
            && let Some(due) = self.deadline()
        {
            self.late.read(gap, now.since(due.max(self.read_at)), rtt);
        }
    }

    /// The delay between the events in these stamps and this reading of them.
    fn take_lateness(&mut self, mut since: Time, now: Time, stamps: &[AckStamp]) {
        let Some(in_band) = &mut self.in_band else {
            return;
        };
        let mut acked = self.ledger.acked();
        for stamp in stamps {
            let at = stamp.at.max(since).min(now);
            // They arrived evenly between the two times.
            let late = now.since(at) + at.since(since) / 2;
            let len = Bytes::new(stamp.acked.saturating_sub(acked));
            in_band.unheard.arrived(len, late);
            (since, acked) = (at, acked.max(stamp.acked));
        }
        in_band.unheard.heard(now);
    }

    /// Shifts the samples of this reading to the mean that the kernel measured. Its smoothed RTT is
    /// a moving average of exact samples. Two of its values and the number of samples between them
    /// give their mean.
    fn correct_rtt(&mut self, since: Time, now: Time, tcp: &TcpProgress, floor: Span) {
        let (before, after) = (self.seen.smoothed_rtt, tcp.smoothed_rtt);
        let samples = tcp.acks.saturating_sub(self.seen.acks);
        if before.is_zero() || after.is_zero() || samples == 0 {
            return;
        }
        let kept = KEPT.powi(i32::try_from(samples).unwrap_or(i32::MAX));
        let mean = (after.as_secs_f64() - kept * before.as_secs_f64()) / (1.0 - kept);
        self.ledger.shift_rtt(mean, since, now, floor);
    }

    /// How many segments the kernel has found lost since the last reading.
    fn found_lost(&mut self, tcp: &TcpProgress) -> u64 {
        let found = tcp.lost.saturating_sub(self.seen.lost);
        let counts = match tcp.repair {
            // A tail loss probe was no loss, or the kernel would be in recovery.
            Repair::None => false,
            Repair::Losses => true,
            // Datagrams: a timeout marks nothing as lost.
            Repair::Timeout => !self.datagrams,
        };
        let repeated = tcp.retransmits > self.seen.retransmits;
        if !counts && (repeated || tcp.repair == Repair::Timeout) {
            self.ledger.mark_ambiguous();
        }
        if counts { found } else { 0 }
    }

    /// The recovery episode is over. Called after the ACKs are processed.
    fn is_repaired(&self, tcp: &TcpProgress) -> bool {
        self.repair.is_some_and(|episode| {
            if self.datagrams {
                let newest = self.ledger.returned().iter().map(|p| p.pn).max();
                newest >= Some(episode.pn) || tcp.acked >= episode.recovery_point
            } else {
                tcp.repair == Repair::None || tcp.acked >= episode.recovery_point
            }
        })
    }

    /// Reports timeouts, losses and spurious reductions.
    fn losses(&mut self, now: Time, tcp: &TcpProgress, waits: Bytes, over: bool) {
        let in_flight = self.ledger.under_way().saturating_sub(waits);
        let rtt = self.rtt.view();
        let raised = self.seen.ssthresh > 0 && tcp.ssthresh > self.seen.ssthresh;
        let taken_back = raised || tcp.undone > self.seen.undone;
        let before = if over || taken_back {
            self.repair.take()
        } else {
            None
        };
        if taken_back && let Some(episode) = before {
            let what = if episode.timeout {
                Spurious::Rto
            } else {
                Spurious::Loss
            };
            self.feed.spurious(what);
        }
        if before.is_some() {
            self.feed.repaired(in_flight, rtt);
        }
        let fresh = Episode {
            recovery_point: self.ledger.written(),
            pn: self.ledger.next_pn(),
            timeout: false,
            reported: 0,
        };
        if let Some(backoff) = self.expired(now, tcp)
            && let Some(oldest) = self.ledger.oldest()
        {
            let rto = Rto {
                backoff,
                oldest,
                in_flight,
                silence: now.since(self.ledger.acked_at().max(oldest.sent_at)),
            };
            self.feed.expired(&rto);
            let reported = self.repair.map_or(0, |e| e.reported) + 1;
            self.repair = Some(Episode {
                timeout: true,
                reported,
                ..self.repair.unwrap_or(fresh)
            });
        }
        let lost = self.ledger.lost();
        let Some(newest) = lost.last() else {
            return;
        };
        let new_episode = match self.repair {
            None => true,
            Some(episode) => self.datagrams && newest.pn >= episode.pn,
        };
        self.feed.lost(lost, new_episode, in_flight, rtt);
        if new_episode {
            self.repair = Some(fresh);
        }
    }

    /// If the retransmission timer has expired again: the number of consecutive timeouts.
    fn expired(&self, now: Time, tcp: &TcpProgress) -> Option<u32> {
        if tcp.repair != Repair::Timeout {
            return None;
        }
        let reported = self.repair.filter(|e| e.timeout).map_or(0, |e| e.reported);
        if self.datagrams {
            let rtt = self.rtt.view();
            let timeout = (rtt.smoothed + rtt.variance * 4).max(DATAGRAM_TIMEOUT);
            let silence = now.since(self.ledger.acked_at().max(self.last_write));
            return (silence >= timeout * (1 << reported.min(16))).then_some(reported + 1);
        }
        let before = self.seen.repair;
        let anew = before != Repair::Timeout || tcp.backoff > self.seen.backoff;
        // What the algorithm answers already is no news.
        let repairing = u32::from(before == Repair::Losses);
        anew.then(|| tcp.backoff.max(1) + repairing)
    }

    /// Reports what has arrived.
    fn arrivals(
        &mut self,
        tcp: &TcpProgress,
        in_flight_before: Bytes,
        waits: Bytes,
        rtt_error: Span,
    ) {
        let free = !self.waits() && *self.feed.limited() == LimitedBy::default();
        // Less than a segment waits for more of the program's data, not for the kernel's window;
        // and what is paced waits for its time.
        let blocked = tcp.unsent >= self.mss && (tcp.window_full || !self.is_paced());
        let packets = self.ledger.returned();
        if !packets.is_empty() {
            (self.feed.limited().app, self.feed.limited().peer) = (free, blocked);
        }
        // What arrives in one reading more or less would be some per cent of the rate, and who
        // keeps the largest of many samples would keep the largest error: the kernel's sample is
        // exact, and never below the true one.
        let rate = self.ledger.delivery().rate(packets);
        let rate = rate.map(|rate| tcp.delivery_rate.map_or(rate, |most| rate.min(most)));
        let marked = tcp.marked.saturating_sub(self.seen.marked);
        self.feed.marked(self.mss * marked);
        self.feed.acked(&Acked {
            packets,
            in_flight_before,
            in_flight: self.ledger.under_way().saturating_sub(waits),
            delivery: self.ledger.delivery(),
            rtt: self.rtt.view(),
            rate,
            in_recovery: self.repair.is_some(),
            advanced: self.datagrams || tcp.acked > self.seen.acked,
            source: if self.in_band.is_some() {
                Source::Wire
            } else {
                Source::TcpInfo
            },
            rtt_error,
        });
    }

    /// The retransmissions of the kernel since the last reading.
    fn sent_again(&mut self, now: Time, tcp: &TcpProgress) {
        let segments = tcp.retransmits.saturating_sub(self.seen.retransmits);
        if segments == 0 {
            return;
        }
        let feed = &mut self.feed;
        let again = |pn, len, in_flight_before| -> Tag {
            let sent = Sent {
                pn,
                len,
                in_flight_before,
                kind: Kind::Retransmit,
                app_limited: false,
            };
            let tag = feed.sent(&sent);
            if feed.has_local_receiver() {
                feed.header(Sending { pn, more: true });
            }
            tag
        };
        self.ledger.sent_again(now, segments, self.mss, again);
    }
}
