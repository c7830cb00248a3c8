// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller sends packets itself, with as much data as the application has.
use super::{Host, MTU, Tally, UDP_HEADER, earlier};
use crate::pacer::Pacer;
use crate::receiver::{AckPolicy, Data};
use crate::scoreboard::{Scoreboard, Segment};
use alcc_cc::{
    AckBatch, Controller, Cx, Discard, Kind, LimitedBy, LossBatch, Packet, Path, Pn, Receiver,
    RecoveryEnd, Rto, Sending, Sent, Source, Spurious, Tag,
};
use alcc_flow::{RttEstimator, room};
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;

/// Smallest retransmission timeout (RFC 6298, section 2.4), also the first. A shorter one takes the outages of a cellular
/// link for losses.
const MIN_RTO: Span = Span::from_secs(1);

/// What a host holds at most, whatever the algorithm allows.
const MOST_IN_FLIGHT: Bytes = Bytes::new(65_536 * 1500);

/// What leaves.
enum Leaving {
    New,
    Again(Segment),
    /// A packet without data: a probe that neither window nor quota would let through.
    Empty,
}

pub(crate) struct Native {
    cc: Box<dyn Controller>,
    /// Bytes that each packet carries for the receiver half.
    header: Bytes,
    mss: Bytes,
    seed: u64,
    started: bool,
    board: Scoreboard,
    rtt: RttEstimator,
    pacer: Pacer,
    paced_until: Option<Time>,
    resend: VecDeque<Segment>,
    next_start: u64,
    /// The application has data up to here.
    written: u64,
    limited: LimitedBy,
    round_ends: Bytes,
    /// Last progress: an acknowledgement, or sending after silence.
    progress_at: Time,
    backoff: u32,
    /// The timer expired and this transmission probes: an acknowledgement of an earlier one says that it was wrong.
    probe: Option<Pn>,
    probe_wanted: bool,
    tally: Tally,
    losses: Vec<Packet>,
}

impl Native {
    pub(crate) fn new(cc: Box<dyn Controller>, now: Time, seed: u64) -> Self {
        let header = Bytes::new(cc.needs().header.into());
        Self {
            cc,
            header,
            mss: MTU.saturating_sub(UDP_HEADER + header),
            seed,
            started: false,
            board: Scoreboard::new(now),
            rtt: RttEstimator::default(),
            pacer: Pacer::new(now),
            paced_until: None,
            resend: VecDeque::new(),
            next_start: 0,
            written: 0,
            limited: LimitedBy::default(),
            round_ends: Bytes::ZERO,
            progress_at: now,
            backoff: 0,
            probe: None,
            probe_wanted: false,
            tally: Tally::default(),
            losses: Vec::new(),
        }
    }

    fn rto_at(&self) -> Option<Time> {
        if self.board.in_flight() == Bytes::ZERO {
            return None;
        }
        let rtt = self.rtt.view();
        let rto = (rtt.smoothed + rtt.variance * 4).max(MIN_RTO);
        Some(self.progress_at + (rto * (1 << self.backoff.min(6))).min(Span::from_secs(60)))
    }

    fn run_timer(&mut self, now: Time) {
        if self.cc.next_timer().is_some_and(|due| due <= now) {
            self.cc.on_timer(&mut Cx {
                now,
                log: &mut Discard,
            });
        }
    }

    /// Another packet may leave at once.
    fn more(&mut self, now: Time) -> bool {
        let a = self.cc.allowance();
        let in_flight = self.board.in_flight();
        let paced = a
            .rate
            .and_then(|rate| self.pacer.wait(now, rate, a.burst, self.mss));
        room(&a, in_flight, Bytes::ZERO, self.mss) >= self.mss && paced.is_none()
    }

    fn transmit(&mut self, now: Time, what: Leaving, out: &mut Vec<Data>) -> Pn {
        let (start, len, kind, written_at) = match &what {
            Leaving::New => {
                let len = self.mss.min(Bytes::new(self.written - self.next_start));
                (self.next_start, len, Kind::New, now)
            }
            Leaving::Again(s) => (s.start, s.packet.len, Kind::Retransmit, s.written_at),
            Leaving::Empty => (self.next_start, Bytes::ZERO, Kind::Probe, now),
        };
        match what {
            Leaving::Again(_) => self.tally.retransmits += 1,
            Leaving::New | Leaving::Empty => self.next_start += len.get(),
        }
        let in_flight_before = self.board.in_flight();
        if in_flight_before == Bytes::ZERO {
            self.progress_at = now;
        }
        let sent = Sent {
            pn: self.board.next_pn(),
            len,
            in_flight_before,
            kind,
            app_limited: false,
        };
        let cx = &mut Cx {
            now,
            log: &mut Discard,
        };
        let tag: Tag = self.cc.on_sent(cx, &sent);
        let pn = self
            .board
            .send(now, start, len, kind, written_at, false, tag);
        let more = self.header > Bytes::ZERO && self.more(now);
        out.push(Data {
            pn,
            start,
            len: len.get(),
            written_at,
            header: self.cc.header(cx, &Sending { pn, more }),
        });
        pn
    }
}

impl Host for Native {
    fn header(&self) -> Bytes {
        UDP_HEADER + self.header
    }

    fn receiver_half(&self) -> Option<Box<dyn Receiver>> {
        self.cc.receiver()
    }

    fn on_feedback(&mut self, now: Time, report: &[u8]) {
        let cx = &mut Cx {
            now,
            log: &mut Discard,
        };
        self.cc.on_feedback(cx, report);
    }

    fn ack_policy(&self) -> AckPolicy {
        if self.cc.needs().per_packet_ack {
            AckPolicy::EveryPacket
        } else {
            AckPolicy::Delayed
        }
    }

    fn on_start(&mut self, now: Time) {
        self.started = true;
        let path = Path {
            mss: self.mss,
            rtt_hint: None,
            seed: self.seed,
        };
        let cx = &mut Cx {
            now,
            log: &mut Discard,
        };
        self.cc.on_start(cx, &path);
    }

    fn on_write(&mut self, _now: Time, upto: u64) {
        self.written = upto.max(self.next_start);
    }

    fn on_ack(&mut self, now: Time, arrived: &[Pn], _complete: u64) {
        let in_flight_before = self.board.in_flight();
        let new_episode = self.board.arrived(now, arrived);
        for rtt in self.board.acked.iter().filter_map(|p| p.rtt) {
            self.rtt.sample(rtt);
            self.tally.rtt.add(rtt);
        }
        let rtt = self.rtt.view();
        let cx = &mut Cx {
            now,
            log: &mut Discard,
        };
        if let (Some(probe), Some(first)) = (self.probe, self.board.acked.first()) {
            if first.pn < probe {
                self.cc.on_spurious(cx, Spurious::Rto);
            }
            self.probe = None;
        }
        let in_flight = self.board.in_flight();
        if !self.board.lost.is_empty() {
            self.losses.clear();
            self.losses.extend(self.board.lost.iter().map(|s| s.packet));
            // A packet without data is not sent again.
            let again = self
                .board
                .lost
                .iter()
                .filter(|s| s.packet.len > Bytes::ZERO);
            self.resend.extend(again);
            let loss = LossBatch {
                lost: &self.losses,
                new_episode,
                in_flight,
                rtt,
            };
            self.cc.on_loss(cx, &loss);
        }
        if let Some(newest) = self.board.acked.last() {
            self.progress_at = now;
            self.backoff = 0;
            let round_start = newest.stamp.delivered >= self.round_ends;
            if round_start {
                self.round_ends = self.board.delivered();
            }
            let batch = AckBatch {
                acked: &self.board.acked,
                in_flight_before,
                in_flight,
                delivered: self.board.delivered(),
                rtt,
                rate: self.board.rate(newest, now),
                round_start,
                limited: self.limited,
                in_recovery: self.board.in_recovery(),
                source: Source::Wire,
                rtt_error: Span::ZERO,
            };
            self.cc.on_ack(cx, &batch);
            self.limited = LimitedBy::default();
        }
        if self.board.recovered() {
            self.cc.on_recovery_end(cx, &RecoveryEnd { in_flight, rtt });
        }
        self.run_timer(now);
    }

    fn on_wake(&mut self, now: Time) {
        if self.rto_at().is_some_and(|at| at <= now)
            && let Some(oldest) = self.board.oldest().map(|s| s.packet)
        {
            self.backoff += 1;
            self.tally.timeouts += 1;
            let rto = Rto {
                backoff: self.backoff,
                oldest,
                in_flight: self.board.in_flight(),
                silence: now.since(self.progress_at),
            };
            let cx = &mut Cx {
                now,
                log: &mut Discard,
            };
            self.cc.on_rto(cx, &rto);
            self.board.begin_episode();
            self.probe_wanted = true;
            self.progress_at = now;
        }
        self.run_timer(now);
    }

    fn send(&mut self, now: Time, out: &mut Vec<Data>) {
        self.paced_until = None;
        if self.probe_wanted {
            self.probe_wanted = false;
            let oldest = self.board.oldest().copied();
            if let Some(oldest) = oldest {
                self.probe = Some(self.transmit(now, Leaving::Again(oldest), out));
            }
        }
        while self.started {
            let allowance = self.cc.allowance();
            let in_flight = self.board.in_flight();
            if in_flight >= MOST_IN_FLIGHT {
                self.limited.peer = true;
                return;
            }
            if allowance.ping {
                self.transmit(now, Leaving::Empty, out);
                // Whoever does not take back its ping does not get another one at this instant.
                if self.cc.allowance().ping {
                    return;
                }
                continue;
            }
            if self.resend.is_empty() && self.next_start == self.written {
                self.limited.app = true;
                return;
            }
            if room(&allowance, in_flight, Bytes::ZERO, self.mss) < self.mss {
                let window_full = allowance.window.saturating_sub(in_flight) < allowance.quota;
                self.limited.window |= window_full;
                self.limited.quota |= !window_full;
                return;
            }
            if let Some(rate) = allowance.rate {
                self.paced_until = self.pacer.wait(now, rate, allowance.burst, self.mss);
                if self.paced_until.is_some() {
                    self.limited.pacer = true;
                    return;
                }
                self.pacer.spend(self.mss);
            }
            let what = self.resend.pop_front();
            self.transmit(now, what.map_or(Leaving::New, Leaving::Again), out);
        }
    }

    fn next_wake(&self) -> Option<Time> {
        let timers = earlier(self.rto_at(), self.cc.next_timer());
        earlier(timers, self.paced_until)
    }

    fn in_flight(&self) -> Bytes {
        self.board.in_flight()
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        self.cc.gauges(put);
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
