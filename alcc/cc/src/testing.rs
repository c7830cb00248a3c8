// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Test bench for window rules: whole rounds of packets at a constant RTT, without a simulation.
use alcc_cc::{
    AckBatch, Cx, Discard, Instance, Kind, LimitedBy, LossBatch, Packet, Path, RecoveryEnd, Rto,
    RttView, Sent, Source, Spec, Spurious, Stamp, Tag,
};
use alcc_units::{Bytes, Span, Time};

pub(crate) const MSS: Bytes = Bytes::new(1000);

pub(crate) struct Bench {
    pub(crate) cc: Instance,
    pub(crate) now: Time,
    /// RTT of the next packets; a longer one is queueing.
    pub(crate) rtt: Span,
    /// The shortest RTT so far.
    least: Span,
    pn: u64,
    in_recovery: bool,
    /// Marked bytes of each batch.
    pub(crate) marked: Bytes,
    /// Bound on the error of the RTTs.
    pub(crate) rtt_error: Span,
    /// True if the next batch begins a round trip.
    new_round: bool,
}

impl Bench {
    pub(crate) fn of(spec: &str) -> Self {
        let spec: Spec = spec.parse().unwrap();
        let mut cc = crate::registry().build(&spec).unwrap();
        let path = Path {
            mss: MSS,
            rtt_hint: None,
            seed: 1,
        };
        cc.on_start(
            &mut Cx {
                now: Time::ZERO,
                log: &mut Discard,
            },
            &path,
        );
        Self {
            cc,
            now: Time::ZERO,
            rtt: Span::from_millis(100),
            least: Span::MAX,
            pn: 0,
            in_recovery: false,
            marked: Bytes::ZERO,
            rtt_error: Span::ZERO,
            new_round: false,
        }
    }

    /// The window in packets.
    pub(crate) fn window(&self) -> f64 {
        self.cc.allowance().window.packets(MSS)
    }

    pub(crate) fn gauge(&self, name: &str) -> f64 {
        let mut found = f64::NAN;
        self.cc.gauges(&mut |n, v| {
            if n == name {
                found = v;
            }
        });
        found
    }

    pub(crate) fn wait(&mut self, span: Span) {
        self.now += span;
    }

    pub(crate) fn view(&mut self) -> RttView {
        self.least = self.least.min(self.rtt);
        RttView {
            latest: self.rtt,
            smoothed: self.rtt,
            variance: self.rtt / 8,
            min: self.least,
        }
    }

    fn in_flight(&self) -> Bytes {
        MSS * (self.cc.allowance().window.get() / MSS.get())
    }

    pub(crate) fn packet(&mut self, sent_at: Time, rtt: Option<Span>) -> Packet {
        self.pn += 1;
        let sent = Sent {
            pn: self.pn,
            len: MSS,
            in_flight_before: Bytes::ZERO,
            kind: Kind::New,
            app_limited: false,
        };
        let tag = self.cc.on_sent(
            &mut Cx {
                now: sent_at,
                log: &mut Discard,
            },
            &sent,
        );
        Packet {
            pn: self.pn,
            len: MSS,
            sent_at,
            tag,
            stamp: Stamp::default(),
            rtt,
            kind: Kind::New,
        }
    }

    /// Acknowledges one packet now, with this RTT.
    pub(crate) fn ack(&mut self, rtt: Span) {
        self.rtt = rtt;
        let packet = self.packet(self.now - rtt, Some(rtt));
        self.ack_batch(
            &[packet],
            LimitedBy {
                window: true,
                ..LimitedBy::default()
            },
        );
    }

    pub(crate) fn ack_batch(&mut self, acked: &[Packet], limited: LimitedBy) {
        let in_flight_before = if limited.app {
            MSS
        } else {
            self.in_flight().max(MSS)
        };
        let batch = AckBatch {
            acked,
            in_flight_before,
            in_flight: in_flight_before - acked.iter().map(|p| p.len).sum(),
            delivered: Bytes::ZERO,
            rtt: self.view(),
            rate: None,
            round_start: std::mem::take(&mut self.new_round),
            limited,
            in_recovery: self.in_recovery,
            advanced: true,
            source: Source::Wire,
            rtt_error: self.rtt_error,
            marked: self.marked,
        };
        self.cc.on_ack(
            &mut Cx {
                now: self.now,
                log: &mut Discard,
            },
            &batch,
        );
    }

    /// Acknowledges one window of packets, one RTT later.
    pub(crate) fn round(&mut self) {
        self.wait(self.rtt);
        self.new_round = true;
        let sent_at = self.now - self.rtt;
        let packets: Vec<Packet> = (0..self.window() as u64)
            .map(|_| self.packet(sent_at, Some(self.rtt)))
            .collect();
        for packet in packets {
            self.ack_batch(
                &[packet],
                LimitedBy {
                    window: true,
                    ..LimitedBy::default()
                },
            );
        }
    }

    /// The mean window of the rounds in which the second half of `packets` is acknowledged. One
    /// packet is lost after each `period` and repaired at once.
    pub(crate) fn mean_window_when_one_is_lost_in(&mut self, period: u64, packets: u64) -> u64 {
        let (mut acked, mut since, mut rounds, mut sum) = (0, 0, 0.0, 0.0);
        while acked < packets {
            let window = self.window() as u64;
            if acked > packets / 2 {
                (rounds, sum) = (rounds + 1.0, sum + self.window());
            }
            self.round();
            (acked, since) = (acked + window, since + window);
            if since >= period {
                since -= period;
                self.lose_one();
                self.recovered();
            }
        }
        libm::round(sum / f64::max(rounds, 1.0)) as u64
    }

    /// Acknowledges `n` packets now, one by one.
    pub(crate) fn acks(&mut self, n: u64) {
        for _ in 0..n {
            self.ack(self.rtt);
        }
    }

    /// A pause of `idle` with nothing in flight and nothing sent.
    pub(crate) fn pause(&mut self, idle: Span) {
        self.wait(idle);
        let (now, log) = (self.now, &mut Discard);
        self.cc.on_idle_restart(&mut Cx { now, log }, idle);
    }

    pub(crate) fn application_limited_round(&mut self, packets: u64) {
        self.wait(self.rtt);
        self.new_round = true;
        for _ in 0..packets {
            let packet = self.packet(self.now - self.rtt, Some(self.rtt));
            self.ack_batch(
                &[packet],
                LimitedBy {
                    app: true,
                    ..LimitedBy::default()
                },
            );
        }
    }

    pub(crate) fn lose(&mut self, packets: u64, new_episode: bool) {
        let flight = self.in_flight();
        let lost: Vec<Packet> = (0..packets).map(|_| self.packet(self.now, None)).collect();
        let loss = LossBatch {
            lost: &lost,
            new_episode,
            in_flight: flight - MSS * packets,
            rtt: self.view(),
        };
        self.in_recovery = true;
        self.cc.on_loss(
            &mut Cx {
                now: self.now,
                log: &mut Discard,
            },
            &loss,
        );
    }

    pub(crate) fn lose_one(&mut self) {
        self.lose(1, true);
    }

    pub(crate) fn lose_more(&mut self) {
        self.lose(1, false);
    }

    pub(crate) fn recovered(&mut self) {
        self.in_recovery = false;
        let end = RecoveryEnd {
            in_flight: self.in_flight(),
            rtt: self.view(),
        };
        self.cc.on_recovery_end(
            &mut Cx {
                now: self.now,
                log: &mut Discard,
            },
            &end,
        );
    }

    pub(crate) fn timeout(&mut self, backoff: u32) {
        let in_flight = self.in_flight();
        let oldest = Packet {
            pn: self.pn,
            len: MSS,
            sent_at: self.now,
            tag: Tag::default(),
            stamp: Stamp::default(),
            rtt: None,
            kind: Kind::New,
        };
        let rto = Rto {
            backoff,
            oldest,
            in_flight,
            silence: Span::from_secs(1),
        };
        self.cc.on_rto(
            &mut Cx {
                now: self.now,
                log: &mut Discard,
            },
            &rto,
        );
    }

    pub(crate) fn timer(&mut self) {
        self.cc.on_timer(&mut Cx {
            now: self.now,
            log: &mut Discard,
        });
    }

    pub(crate) fn spurious(&mut self) {
        self.in_recovery = false;
        self.cc.on_spurious(
            &mut Cx {
                now: self.now,
                log: &mut Discard,
            },
            Spurious::Loss,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_round_trip_is_a_queue() {
        let mut b = Bench::of("fixed");
        b.round();
        b.rtt = Span::from_millis(150);
        let queue = |view: RttView| view.latest - view.min;
        assert_eq!(queue(b.view()), Span::from_millis(50));
    }
}
