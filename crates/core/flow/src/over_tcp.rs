// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm above a TCP connection, or another stream of bytes.
use crate::near_half::NearHalf;
use crate::{AckStamp, Ledger, RttEstimator, Rules, room};
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, EventSink, Header, Kind, LimitedBy, LossBatch, Packet,
    Path, RecoveryEnd, Rto, RttView, Sending, Sent, Source, Spurious, Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};

/// What the kernel says of a connection at one instant (`TCP_INFO`; all fields of one reading belong together).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpProgress {
    /// Bytes of the stream acknowledged in total.
    pub acked: u64,
    /// Bytes of the stream written in total.
    pub written: u64,
    /// Written and not yet sent.
    pub unsent: Bytes,
    /// Segments retransmitted in total.
    pub retransmits: u64,
    /// Segments found lost in total: sent again, or about to be.
    pub lost: u64,
    /// Segments that have arrived beyond a hole.
    pub sacked: u64,
    /// What the kernel is repairing.
    pub repair: Repair,
    /// How often the retransmission timer has expired for the same data.
    pub backoff: u32,
    /// How often the kernel has taken back a reduction that was a mistake; zero if it does not say.
    pub undone: u64,
    /// Its slow start threshold in segments, zero if unknown: one that rises during a repair was taken back, too.
    pub threshold: u64,
    /// The kernel's sample of the delivery rate: its newest, or a larger one if that was limited by the application.
    pub delivery_rate: Option<Rate>,
    /// The kernel's own congestion window is full.
    pub window_full: bool,
    /// Smallest RTT the kernel has seen; zero if none.
    pub min_rtt: Span,
    /// The kernel's smoothed RTT, and how many samples went into it, about: acknowledgements that arrived. Zero if unknown.
    pub smoothed_rtt: Span,
    /// The latter.
    pub acks: u64,
    /// Current segment size.
    pub mss: Bytes,
}

/// What the kernel is repairing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Repair {
    /// Nothing.
    #[default]
    None,
    /// Losses that acknowledgements disclosed.
    Losses,
    /// What was in flight when the retransmission timer expired.
    Timeout,
}

/// What a connection did, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// How often a write was refused or cut short by the algorithm's limit.
    pub gate_closed: u64,
    /// Bytes that passed.
    pub bytes: u64,
}

/// One algorithm in charge of one TCP connection, without I/O.
///
/// The host calls [`OverTcp::room`] before each write of the program and [`OverTcp::wrote`] after it; reads the kernel's
/// counters when [`OverTcp::deadline`] says so and hands them to [`OverTcp::progress`]. TCP keeps retransmitting, ordering and
/// its own window; the algorithm decides when bytes are handed to it, so at any time the smaller of both windows holds.
pub struct OverTcp {
    cc: Box<dyn Controller>,
    /// For an algorithm that wants to know how packets arrive.
    half: Option<NearHalf>,
    /// The peer acknowledges by frames of our own: it has the receiver half, and its times hold.
    frames: bool,
    /// Smallest RTT of a packet whose arrival had a time of its own: others are spread, but never below.
    exact: Option<Span>,
    ledger: Ledger,
    rtt: RttEstimator,
    mss: Bytes,
    read_at: Time,
    last_write: Time,
    /// The counters as of the last reading.
    seen: TcpProgress,
    /// The algorithm was made for datagrams: its own host has a timer of a second, and answers its expiry by a probe.
    datagrams: bool,
    repair: Option<Episode>,
    /// A write was refused or cut short: the program waits for room.
    shut: bool,
    shut_since_ack: LimitedBy,
    last_shut: Option<Time>,
    started: bool,
    round_ends: Bytes,
    period: Span,
    /// How many connections are served beside each other, this one included.
    company: u32,
    counters: Counters,
}

/// Losses of one flight, from the first to the repair.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// Over when the stream is acknowledged up to here, or a packet from here on.
    until: u64,
    pn: alcc_cc::Pn,
    timeout: bool,
    /// How many timeouts the algorithm was told of.
    told: u32,
}

/// What a paced connection may hold in the kernel beyond what has left: enough for so many readings, of which some come late.
const READINGS_AHEAD: u64 = 3;
/// And at least so many segments.
const SEGMENTS_AHEAD: u64 = 3;
/// What Linux keeps of its smoothed RTT with each sample.
const KEPT: f64 = 7.0 / 8.0;
/// The retransmission timer of hosts for datagrams: a shorter one takes the outages of a radio link for losses.
const DATAGRAM_TIMEOUT: Span = Span::from_secs(1);

/// So many connections are each read as often as their algorithm asks; more share the readings of so many.
const SERVED: u32 = 16;
/// But each is read so often in a round trip.
const READINGS_PER_RTT: u64 = 2;

impl OverTcp {
    /// Takes charge of a connection on which `progress` was read at `now`. `seed` feeds the controller's generator.
    pub fn new(
        mut cc: Box<dyn Controller>,
        now: Time,
        progress: &TcpProgress,
        seed: u64,
        log: &mut dyn EventSink,
    ) -> Self {
        let mss = progress.mss.max(Bytes::new(1));
        let rtt_hint = (!progress.min_rtt.is_zero()).then_some(progress.min_rtt);
        cc.on_start(
            &mut Cx { now, log },
            &Path {
                mss,
                rtt_hint,
                seed,
            },
        );
        let datagrams = !Rules::of(cc.needs().stack).is_stream();
        let period = cc.needs().feedback_period.max(Span::from_micros(100));
        Self {
            half: NearHalf::of(cc.as_ref()),
            frames: false,
            exact: None,
            cc,
            ledger: Ledger::new(now, progress.written, progress.acked),
            rtt: RttEstimator::default(),
            mss,
            read_at: now,
            last_write: now,
            seen: *progress,
            datagrams,
            repair: None,
            shut: false,
            shut_since_ack: LimitedBy::default(),
            last_shut: None,
            started: false,
            round_ends: Bytes::ZERO,
            period,
            company: 1,
            counters: Counters::default(),
        }
    }

    /// As [`OverTcp::new`], when the peer acknowledges by frames of our own inside the stream: their times are the whole truth
    /// ([`OverTcp::progress_stamped`]), and the algorithm's receiver half is at the peer ([`OverTcp::feedback`]).
    pub fn in_band(
        cc: Box<dyn Controller>,
        now: Time,
        progress: &TcpProgress,
        seed: u64,
        log: &mut dyn EventSink,
    ) -> Self {
        Self {
            half: None,
            frames: true,
            ..Self::new(cc, now, progress, seed, log)
        }
    }

    /// How many of `wanted` bytes may be written now, with `queued` bytes in the kernel (written and not acknowledged), of
    /// them `unsent` not yet sent. Less than `wanted` shuts the gate: the program waits until [`OverTcp::opens`].
    pub fn room(
        &mut self,
        now: Time,
        wanted: Bytes,
        queued: Bytes,
        unsent: Bytes,
        log: &mut dyn EventSink,
    ) -> Bytes {
        if self.is_idle() {
            // The first write after a pause: what was due in between counts once, and readings start afresh.
            let idle = now.since(self.ledger.acked_at().max(self.last_write));
            if self.started && idle > self.rtt.view().smoothed {
                self.cc.on_idle_restart(&mut Cx { now, log }, idle);
            }
            self.read_at = now;
            self.run_timer(now, log);
        }
        let allowance = self.cc.allowance();
        let (room, ahead) = self.under(&allowance, wanted, queued, unsent);
        if room.min(ahead) >= wanted {
            return wanted;
        }
        self.shut(now, &allowance, queued, ahead < room);
        room.min(ahead)
    }

    /// Less was written than the algorithm allows because its pacing rate was not up to it yet.
    pub fn paced(&mut self, now: Time) {
        self.last_shut = Some(now);
        self.shut_since_ack.pacer = true;
    }

    /// The kernel's segment size.
    pub fn mss(&self) -> Bytes {
        self.mss
    }

    /// What [`OverTcp::room`] would say, without consequences.
    pub fn allows(&self, wanted: Bytes, queued: Bytes, unsent: Bytes) -> Bytes {
        let (room, ahead) = self.under(&self.cc.allowance(), wanted, queued, unsent);
        room.min(ahead).min(wanted)
    }

    /// What the window and the quota leave, and how much a paced connection may write ahead.
    ///
    /// TCP itself never goes below one segment in flight, and whoever writes a few bytes now and then does not expect to be
    /// refused: programs exist that then wait for something else first (the FTP server of CPython's tests).
    fn under(
        &self,
        allowance: &Allowance,
        wanted: Bytes,
        queued: Bytes,
        unsent: Bytes,
    ) -> (Bytes, Bytes) {
        if queued + wanted <= self.mss {
            return (wanted, wanted);
        }
        // TCP itself probes with what is under way, for as long as it takes.
        let ping = allowance.ping && queued == Bytes::ZERO;
        let in_flight = queued.saturating_sub(self.beyond(queued));
        let room = room(
            &Allowance { ping, ..*allowance },
            in_flight,
            unsent,
            self.mss,
        );
        (room, self.ahead(allowance, unsent))
    }

    /// Of what is queued in the kernel, what is not under way: it has arrived beyond a hole, or is lost and not sent again. As of the
    /// last reading, less what was acknowledged since.
    fn beyond(&self, queued: Bytes) -> Bytes {
        let hidden = self
            .ledger
            .in_flight()
            .saturating_sub(self.ledger.under_way());
        if hidden == Bytes::ZERO {
            return hidden;
        }
        let since = self.ledger.in_flight().saturating_sub(queued);
        hidden.saturating_sub(since)
    }

    /// A paced connection writes ahead what leaves until the next readings: what waits longer in the kernel would leave at the rate
    /// of then, but count as in flight, and as sent, now.
    fn ahead(&self, allowance: &Allowance, unsent: Bytes) -> Bytes {
        let mss = self.mss.get();
        self.most_ahead(allowance).map_or(Bytes::MAX, |most| {
            Bytes::new(most.saturating_sub(unsent).get() / mss * mss)
        })
    }

    fn most_ahead(&self, allowance: &Allowance) -> Option<Bytes> {
        let rate = self.pacing_by(allowance).filter(|_| !self.frames)?;
        let span = self.period.max(self.shared()) * READINGS_AHEAD;
        Some(rate.bytes_in(span).max(self.mss * SEGMENTS_AHEAD))
    }

    fn shut(&mut self, now: Time, allowance: &Allowance, queued: Bytes, paced: bool) {
        self.counters.gate_closed += 1;
        self.shut = true;
        self.last_shut = Some(now);
        if paced {
            self.shut_since_ack.pacer = true;
            return;
        }
        let window_full = allowance.window.saturating_sub(queued) < allowance.quota;
        self.shut_since_ack.window |= window_full;
        self.shut_since_ack.quota |= !window_full;
    }

    /// `len` bytes were written.
    pub fn wrote(&mut self, now: Time, len: Bytes, log: &mut dyn EventSink) {
        self.framed(now, len, false, log);
    }

    /// `len` bytes were written, and `more` follow at once. Returns what goes with them to the peer's receiver half; a
    /// frame for one that wants to know of each packet is no longer than a segment.
    pub fn framed(&mut self, now: Time, len: Bytes, more: bool, log: &mut dyn EventSink) -> Header {
        self.started = true;
        self.last_write = now;
        self.counters.bytes += len.get();
        // Limited by the application: the gate has not been reached for a round trip.
        let patience = self.rtt.view().smoothed.max(Span::from_millis(100));
        let app_limited = !self.shut && self.last_shut.is_none_or(|at| now.since(at) > patience);
        let (cc, half) = (&mut self.cc, &mut self.half);
        let headed = self.frames && cc.needs().header > 0;
        let mut header = Header::EMPTY;
        let mut left = len;
        self.ledger.wrote(
            now,
            len,
            self.mss,
            app_limited,
            |pn, len, in_flight_before| {
                let sent = Sent {
                    pn,
                    len,
                    in_flight_before,
                    kind: Kind::New,
                    app_limited,
                };
                left = left.saturating_sub(len);
                let tag = cc.on_sent(&mut Cx { now, log }, &sent);
                let more = more || left > Bytes::ZERO;
                if let Some(half) = half {
                    half.sent(cc.as_mut(), now, Sending { pn, more }, log);
                } else if headed {
                    header = cc.header(&mut Cx { now, log }, &Sending { pn, more });
                }
                tag
            },
        );
        header
    }

    /// The peer's receiver half has reported. Untrusted bytes.
    pub fn feedback(&mut self, now: Time, report: &[u8], log: &mut dyn EventSink) {
        self.cc.on_feedback(&mut Cx { now, log }, report);
    }

    /// Does what is due of the algorithm's own timer.
    pub fn on_timer(&mut self, now: Time, log: &mut dyn EventSink) {
        self.run_timer(now, log);
    }

    /// When the algorithm's own timer is due; `None` while idle.
    pub fn next_timer(&self) -> Option<Time> {
        self.cc.next_timer().filter(|_| !self.is_idle())
    }

    /// The kernel's counters, read at `now`.
    pub fn progress(&mut self, now: Time, tcp: &TcpProgress, log: &mut dyn EventSink) {
        self.progress_stamped(now, tcp, &[], log);
    }

    /// The kernel's counters, read at `now`, and the times at which positions of the stream were acknowledged, ascending: RTT
    /// samples are exact there instead of spread over the time since the last reading.
    pub fn progress_stamped(
        &mut self,
        now: Time,
        tcp: &TcpProgress,
        stamps: &[AckStamp],
        log: &mut dyn EventSink,
    ) {
        if tcp.mss != self.mss && tcp.mss > Bytes::ZERO {
            self.mss = tcp.mss;
            self.cc.on_mtu(&mut Cx { now, log }, tcp.mss);
        }
        self.ledger.adopt(now, tcp.written);
        self.acknowledge(now, tcp, stamps, log);
        self.seen = *tcp;
        self.read_at = now;
        self.run_timer(now, log);
        if self.is_idle() {
            self.ledger.rest();
            self.cc.on_rest();
            if let Some(half) = &mut self.half {
                half.rest();
            }
        }
    }

    fn acknowledge(
        &mut self,
        now: Time,
        tcp: &TcpProgress,
        stamps: &[AckStamp],
        log: &mut dyn EventSink,
    ) {
        // A reading says that nothing more had arrived until then; a frame says itself since when.
        let since = if self.frames {
            self.ledger.delivered_at()
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
        // What waits for its time to leave is not in flight.
        let waits = if paced { tcp.unsent } else { Bytes::ZERO };
        let in_flight_before = self.ledger.under_way().saturating_sub(waits);
        let floor = tcp.min_rtt.max(self.exact.unwrap_or_default());
        let found = self.found_lost(tcp);
        let rtt_error = self.ledger.stamped(since, stamps, now, tcp.acked, floor);
        let over = self.is_repaired(tcp);
        let begins = found > 0 && (self.repair.is_none() || over);
        let sacked = tcp.sacked.saturating_mul(self.mss.get());
        let lost = found.saturating_mul(self.mss.get());
        self.ledger
            .beyond(since, now, (sacked, lost), begins, floor);
        if self.frames
            && let (Some(newest), Some(last)) = (self.ledger.returned().last(), stamps.last())
            && self.ledger.ends_here(last.acked)
        {
            let rtt = last.at.since(newest.sent_at);
            self.exact = Some(self.exact.map_or(rtt, |min| min.min(rtt)));
        }
        if let Some(half) = &mut self.half {
            half.acknowledged(now, self.ledger.returned());
            if let Some(report) = half.report(now) {
                self.cc.on_feedback(&mut Cx { now, log }, &report);
            }
        }
        // On a path shorter than the readings are apart a round trip takes as long as they are: the window has to last.
        let seldom = now.since(since) * READINGS_PER_RTT > tcp.min_rtt;
        if (tcp.unsent == Bytes::ZERO || paced) && !seldom {
            self.correct_rtt(since, now, tcp, floor);
        }
        for rtt in self.ledger.returned().iter().filter_map(|p| p.rtt) {
            self.rtt.sample(rtt);
        }
        let ended = self.losses(now, tcp, waits, over, log);
        self.arrivals(now, tcp, in_flight_before, waits, rtt_error, log);
        if ended {
            let end = RecoveryEnd {
                in_flight: self.ledger.under_way().saturating_sub(waits),
                rtt: self.rtt.view(),
            };
            self.cc.on_recovery_end(&mut Cx { now, log }, &end);
        }
        self.sent_again(now, tcp, log);
    }

    /// Shifts the samples of this reading to the mean that the kernel measured. Its smoothed RTT is a moving average of exact samples:
    /// from two of its values and the number of samples between them follows what those were on average.
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
            // A tail probe was no loss, or the kernel would be repairing it.
            Repair::None => false,
            Repair::Losses => true,
            // For datagrams nothing is known after a silence, and nothing is lost.
            Repair::Timeout => !self.datagrams,
        };
        let repeated = tcp.retransmits > self.seen.retransmits;
        if !counts && (repeated || tcp.repair == Repair::Timeout) {
            self.ledger.mark_ambiguous();
        }
        if counts { found } else { 0 }
    }

    /// The episode under way is over: called when the acknowledgements are in.
    fn is_repaired(&self, tcp: &TcpProgress) -> bool {
        self.repair.is_some_and(|episode| {
            if self.datagrams {
                let newest = self.ledger.returned().iter().map(|p| p.pn).max();
                newest >= Some(episode.pn) || tcp.acked >= episode.until
            } else {
                tcp.repair == Repair::None || tcp.acked >= episode.until
            }
        })
    }

    /// Tells of timeouts, losses and mistakes. True if an episode has ended and no other began.
    fn losses(
        &mut self,
        now: Time,
        tcp: &TcpProgress,
        waits: Bytes,
        over: bool,
        log: &mut dyn EventSink,
    ) -> bool {
        let in_flight = self.ledger.under_way().saturating_sub(waits);
        let rtt = self.rtt.view();
        let raised = self.seen.threshold > 0 && tcp.threshold > self.seen.threshold;
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
            self.cc.on_spurious(&mut Cx { now, log }, what);
        }
        let mut ended = before.is_some();
        let fresh = Episode {
            until: self.ledger.written(),
            pn: self.ledger.next_pn(),
            timeout: false,
            told: 0,
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
            self.cc.on_rto(&mut Cx { now, log }, &rto);
            let told = self.repair.map_or(0, |e| e.told) + 1;
            self.repair = Some(Episode {
                timeout: true,
                told,
                ..self.repair.unwrap_or(fresh)
            });
            ended = false;
        }
        let lost = self.ledger.lost();
        let Some(newest) = lost.last() else {
            return ended;
        };
        let new_episode = match self.repair {
            None => true,
            Some(episode) => self.datagrams && newest.pn >= episode.pn,
        };
        let loss = LossBatch {
            lost,
            new_episode,
            in_flight,
            rtt,
        };
        self.cc.on_loss(&mut Cx { now, log }, &loss);
        if new_episode {
            self.repair = Some(fresh);
        }
        ended && !new_episode
    }

    /// The retransmission timer has expired anew: how often it has for the same data.
    fn expired(&self, now: Time, tcp: &TcpProgress) -> Option<u32> {
        if tcp.repair != Repair::Timeout {
            return None;
        }
        let told = self.repair.filter(|e| e.timeout).map_or(0, |e| e.told);
        if self.datagrams {
            let rtt = self.rtt.view();
            let timeout = (rtt.smoothed + rtt.variance * 4).max(DATAGRAM_TIMEOUT);
            let silence = now.since(self.ledger.acked_at().max(self.last_write));
            return (silence >= timeout * (1 << told.min(16))).then_some(told + 1);
        }
        let before = self.seen.repair;
        let anew = before != Repair::Timeout || tcp.backoff > self.seen.backoff;
        // What the algorithm answers already is no news.
        let repairing = u32::from(before == Repair::Losses);
        anew.then(|| tcp.backoff.max(1) + repairing)
    }

    /// Tells what has arrived.
    fn arrivals(
        &mut self,
        now: Time,
        tcp: &TcpProgress,
        in_flight_before: Bytes,
        waits: Bytes,
        rtt_error: Span,
        log: &mut dyn EventSink,
    ) {
        let acked = self.ledger.returned();
        let Some(newest) = acked.last().copied() else {
            return;
        };
        // A round trip, counted in packets: over when data written after it began is acknowledged.
        let delivered = self.ledger.delivered();
        let round_start = newest.stamp.delivered >= self.round_ends;
        if round_start {
            self.round_ends = delivered;
        }
        let paced = self.is_paced();
        let limited = LimitedBy {
            // Less than a segment waits for more of the program's data, not for the kernel's window; and what is paced waits for
            // its time.
            peer: tcp.unsent >= self.mss && (tcp.window_full || !paced),
            app: !self.shut && self.shut_since_ack == LimitedBy::default(),
            ..self.shut_since_ack
        };
        let batch = AckBatch {
            acked,
            in_flight_before,
            in_flight: self.ledger.under_way().saturating_sub(waits),
            delivered,
            rtt: self.rtt.view(),
            rate: self.rate(&newest, tcp),
            round_start,
            limited,
            in_recovery: self.repair.is_some(),
            advanced: self.datagrams || tcp.acked > self.seen.acked,
            source: if self.frames {
                Source::Wire
            } else {
                Source::TcpInfo
            },
            rtt_error,
        };
        self.cc.on_ack(&mut Cx { now, log }, &batch);
        self.shut_since_ack = LimitedBy::default();
    }

    /// The delivery rate over the flight of `newest`. What arrives in one reading more or less would be some per cent of it, and who
    /// keeps the largest of many samples would keep the largest error: the kernel's sample is exact, and never below the true one.
    fn rate(&self, newest: &Packet, tcp: &TcpProgress) -> Option<Rate> {
        let (delivered, at) = (self.ledger.delivered(), self.ledger.delivered_at());
        let rate = newest.stamp.rate(newest.sent_at, delivered, at)?;
        Some(tcp.delivery_rate.map_or(rate, |most| rate.min(most)))
    }

    /// What the kernel has sent again since the last reading.
    fn sent_again(&mut self, now: Time, tcp: &TcpProgress, log: &mut dyn EventSink) {
        let segments = tcp.retransmits.saturating_sub(self.seen.retransmits);
        if segments == 0 {
            return;
        }
        let (cc, half) = (&mut self.cc, &mut self.half);
        let again = |pn, len, in_flight_before| -> Tag {
            let sent = Sent {
                pn,
                len,
                in_flight_before,
                kind: Kind::Retransmit,
                app_limited: false,
            };
            let tag = cc.on_sent(&mut Cx { now, log }, &sent);
            if let Some(half) = half {
                let sending = Sending { pn, more: true };
                half.sent(cc.as_mut(), now, sending, log);
            }
            tag
        };
        self.ledger.sent_again(now, segments, self.mss, again);
    }

    fn run_timer(&mut self, now: Time, log: &mut dyn EventSink) {
        if self.cc.next_timer().is_some_and(|due| due <= now) {
            self.cc.on_timer(&mut Cx { now, log });
        }
    }

    /// Nothing in flight and nobody waiting: no reading, no timer, no wake-up.
    pub fn is_idle(&self) -> bool {
        !self.shut && self.ledger.in_flight() == Bytes::ZERO
    }

    /// When the counters should be read next; `None` while idle.
    pub fn deadline(&self) -> Option<Time> {
        if self.is_idle() {
            return None;
        }
        let reading = self.read_at + self.period;
        let half = self.half.as_ref().and_then(NearHalf::next_timer);
        let timers = self.cc.next_timer().into_iter().chain(half);
        let due = timers.fold(reading, Time::min);
        // A peer that has fallen silent (outage, a client that stopped reading) is watched less closely the longer it lasts.
        let silence = self
            .read_at
            .since(self.ledger.acked_at().max(self.last_write));
        let patience = (silence / 64).min(Span::from_millis(20)).max(self.shared());
        Some(due.max(self.read_at + patience))
    }

    /// How many connections the host serves at the moment, this one included: among many each is read, and decided about, less often.
    /// Then a reading finds several segments acknowledged, and one write fills the room.
    pub fn among(&mut self, company: usize) {
        self.company = u32::try_from(company).unwrap_or(u32::MAX);
    }

    /// The least time between readings that the others leave; zero among few.
    fn shared(&self) -> Span {
        if self.company <= SERVED {
            return Span::ZERO;
        }
        self.period
            .mul_f64(f64::from(self.company) / f64::from(SERVED))
            .min(self.rtt.view().smoothed / READINGS_PER_RTT)
    }

    /// The program waits and there is room for a worthwhile write. The caller wakes the program and calls
    /// [`OverTcp::opened`].
    pub fn opens(&self, queued: Bytes, unsent: Bytes) -> bool {
        if !self.shut {
            return false;
        }
        let allowance = self.cc.allowance();
        let allowance = Allowance {
            ping: allowance.ping && queued == Bytes::ZERO,
            ..allowance
        };
        // Every opening costs the program a turn and a write: among many it has to bring more.
        let parts = if self.company <= SERVED { 16 } else { 4 };
        let segments = (allowance.window.get() / self.mss.get() / parts)
            .clamp(1, 4)
            .min((allowance.quota.get() / self.mss.get()).max(1));
        // A third of what may be written ahead: that much leaves from one reading to the next.
        let ahead = self.most_ahead(&allowance).unwrap_or(Bytes::MAX);
        let segments = segments.min((ahead.get() / READINGS_AHEAD / self.mss.get()).max(1));
        let in_flight = queued.saturating_sub(self.beyond(queued));
        room(&allowance, in_flight, Bytes::ZERO, self.mss).min(self.ahead(&allowance, unsent))
            >= self.mss * segments
    }

    /// The program has been told to write again.
    pub fn opened(&mut self) {
        self.shut = false;
    }

    /// True while the program waits for room.
    pub fn is_shut(&self) -> bool {
        self.shut
    }

    /// Pacing rate wanted, never below one segment per 20 ms: the departure of the next segment is fixed when the rate is
    /// set, so a lower rate would stall the connection long after it was raised again.
    ///
    /// For the same reason there is none beside a quota: the rate that spreads a tick's quota is another one every tick, and
    /// segments that leave by the rate of a poor tick hold up those of the rich one after it.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_by(&self.cc.allowance())
    }

    fn pacing_by(&self, allowance: &Allowance) -> Option<Rate> {
        let floor = Rate::of(self.mss, Span::from_millis(20));
        let rate = allowance.rate.filter(|_| allowance.quota == Bytes::MAX);
        rate.map(|rate| rate.max(floor))
    }

    /// The kernel paces at [`OverTcp::pacing_rate`]: what is written and not sent waits for its time.
    pub fn is_paced(&self) -> bool {
        !self.frames && self.pacing_rate().is_some()
    }

    /// Stream position up to which we know what was written.
    pub fn written(&self) -> u64 {
        self.ledger.written()
    }

    /// In flight as of the last reading.
    pub fn in_flight(&self) -> Bytes {
        self.ledger.in_flight()
    }

    /// Round-trip times as of the last reading.
    pub fn rtt(&self) -> RttView {
        self.rtt.view()
    }

    /// What the algorithm allows now.
    pub fn allowance(&self) -> Allowance {
        self.cc.allowance()
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The algorithm's window; [`Bytes::MAX`] if it has none.
    pub fn window(&self) -> Bytes {
        self.cc.allowance().window
    }

    /// The algorithm's internal values.
    pub fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        self.cc.gauges(put);
    }
}

#[cfg(test)]
mod tests;
