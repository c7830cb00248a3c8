// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host without a network, for vectors worked out by hand.
use alcc_cc::{
    AckBatch, Controller, Cx, Event, Kind, LimitedBy, LossBatch, Packet, Path, Rto, RttView, Sent,
    Source, Spurious, Stamp, Tag,
};
use alcc_units::{Bytes, Span, Time};

pub(in super::super) const MSS: Bytes = Bytes::new(1000);

/// It sends what is allowed, the test decides what arrives.
pub(in super::super) struct Bench<C> {
    pub(in super::super) cc: C,
    pub(in super::super) now: Time,
    pub(in super::super) flight: Vec<Packet>,
    pub(in super::super) pn: u64,
    pub(in super::super) log: Vec<(Time, Event)>,
}

impl<C: Controller> Bench<C> {
    pub(in super::super) fn new(cc: C) -> Self {
        let mut bench = Self {
            cc,
            now: Time::ZERO,
            flight: Vec::new(),
            pn: 0,
            log: Vec::new(),
        };
        let path = Path {
            mss: MSS,
            rtt_hint: None,
            seed: 0,
        };
        let mut cx = Cx {
            now: bench.now,
            log: &mut bench.log,
        };
        bench.cc.on_start(&mut cx, &path);
        bench
    }

    pub(in super::super) fn in_flight(&self) -> Bytes {
        MSS * self.flight.len() as u64
    }

    /// Sends all that may leave; the labels.
    pub(in super::super) fn send(&mut self) -> Vec<u64> {
        let mut labels = Vec::new();
        while labels.len() < 10_000 {
            let allowed = self.cc.allowance();
            let fits = self.in_flight() + MSS <= allowed.window || self.flight.is_empty();
            if !fits || allowed.quota < MSS {
                break;
            }
            labels.push(self.send_one());
        }
        labels
    }

    pub(in super::super) fn send_one(&mut self) -> u64 {
        let sent = Sent {
            pn: self.pn,
            len: MSS,
            in_flight_before: self.in_flight(),
            kind: Kind::New,
            app_limited: false,
        };
        let mut cx = Cx {
            now: self.now,
            log: &mut self.log,
        };
        let tag = self.cc.on_sent(&mut cx, &sent);
        self.flight.push(Packet {
            pn: self.pn,
            len: MSS,
            sent_at: self.now,
            tag,
            stamp: Stamp {
                in_flight: self.in_flight() + MSS,
                ..Stamp::default()
            },
            rtt: None,
            kind: Kind::New,
        });
        self.pn += 1;
        tag.0
    }

    /// The oldest packet arrives with this delay; `label` replaces what it was sent with.
    pub(in super::super) fn ack(&mut self, rtt: Option<Span>, label: Option<u64>) {
        if self.flight.is_empty() {
            self.send_one();
        }
        let before = self.in_flight();
        let mut packet = Packet {
            rtt,
            ..self.flight.remove(0)
        };
        packet.tag = label.map_or(packet.tag, Tag);
        let ack = AckBatch {
            acked: &[packet],
            in_flight_before: before,
            in_flight: self.in_flight(),
            delivered: MSS,
            rtt: RttView::default(),
            rate: None,
            round_start: false,
            limited: LimitedBy::default(),
            in_recovery: false,
            advanced: true,
            source: Source::Wire,
            rtt_error: Span::ZERO,
            marked: Bytes::ZERO,
        };
        let mut cx = Cx {
            now: self.now,
            log: &mut self.log,
        };
        self.cc.on_ack(&mut cx, &ack);
    }

    pub(in super::super) fn lose(&mut self, label: u64) {
        if self.flight.is_empty() {
            self.send_one();
        }
        let mut packet = self.flight.remove(0);
        packet.tag = Tag(label);
        let loss = LossBatch {
            lost: &[packet],
            new_episode: true,
            in_flight: self.in_flight(),
            rtt: RttView::default(),
        };
        let mut cx = Cx {
            now: self.now,
            log: &mut self.log,
        };
        self.cc.on_loss(&mut cx, &loss);
    }

    /// The last loss was none.
    pub(in super::super) fn spurious(&mut self) {
        let mut cx = Cx {
            now: self.now,
            log: &mut self.log,
        };
        self.cc.on_spurious(&mut cx, Spurious::Loss);
    }

    pub(in super::super) fn at(&mut self, now: Time) {
        self.now = now;
        let mut cx = Cx {
            now,
            log: &mut self.log,
        };
        self.cc.on_timer(&mut cx);
    }

    pub(in super::super) fn gauge(&self, name: &str) -> f64 {
        let mut found = f64::NAN;
        self.cc.gauges(&mut |n, value| {
            if n == name {
                found = value;
            }
        });
        found
    }

    pub(in super::super) fn timeout(&mut self) {
        let rto = Rto {
            backoff: 1,
            oldest: self.flight[0],
            in_flight: self.in_flight(),
            silence: Span::from_millis(300),
        };
        let mut cx = Cx {
            now: self.now,
            log: &mut self.log,
        };
        self.cc.on_rto(&mut cx, &rto);
    }
}

pub(in super::super) fn ms(n: u64) -> Option<Span> {
    Some(Span::from_millis(n))
}
