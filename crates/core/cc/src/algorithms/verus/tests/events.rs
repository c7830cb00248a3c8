// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller, event by event.
use super::super::Verus;
use super::super::settings::Settings;
use crate::{
    AckBatch, Controller, Cx, Event, Kind, LimitedBy, LossBatch, Packet, Path, Rto, RttView, Sent,
    Source, Stamp, Tag,
};
use alcc_units::{Bytes, Span, Time};
use proptest::prelude::*;

const MSS: Bytes = Bytes::new(1000);

/// A host without a network: it sends what is allowed, the test says what arrives.
struct Bench {
    cc: Verus,
    now: Time,
    flight: Vec<Packet>,
    pn: u64,
    log: Vec<(Time, Event)>,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let mut bench = Self {
            cc: Verus::new(settings),
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

    fn in_flight(&self) -> Bytes {
        MSS * self.flight.len() as u64
    }

    /// Sends all that may leave; the labels.
    fn send(&mut self) -> Vec<u64> {
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

    fn send_one(&mut self) -> u64 {
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
    fn ack(&mut self, rtt: Option<Span>, label: Option<u64>) {
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
        };
        let mut cx = Cx {
            now: self.now,
            log: &mut self.log,
        };
        self.cc.on_ack(&mut cx, &ack);
    }

    fn lose(&mut self, label: u64) {
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

    fn at(&mut self, now: Time) {
        self.now = now;
        let mut cx = Cx {
            now,
            log: &mut self.log,
        };
        self.cc.on_timer(&mut cx);
    }

    fn gauge(&self, name: &str) -> f64 {
        let mut found = f64::NAN;
        self.cc.gauges(&mut |n, value| {
            if n == name {
                found = value;
            }
        });
        found
    }

    /// Out of slow start, at this window.
    fn steady(settings: Settings, window: f64) -> Self {
        let mut bench = Self::new(settings);
        bench.cc.slow_start = false;
        bench.cc.window = window;
        bench.cc.refit_at = Time::from_millis(1_000_000);
        bench
    }
}

fn ms(n: u64) -> Option<Span> {
    Some(Span::from_millis(n))
}

#[test]
fn slow_start_adds_one_per_packet_and_doubles_per_round_trip() {
    let mut bench = Bench::new(Settings::ORIGINAL);
    let (mut labels, mut flights) = (bench.send(), Vec::new());
    for _ in 0..4 {
        let flight = bench.flight.len();
        flights.push(flight);
        for _ in 0..flight {
            bench.ack(ms(40), None);
            labels.extend(bench.send());
        }
    }
    assert_eq!(flights, [1, 2, 4, 8]);
    assert_eq!(labels[..9], [1, 2, 2, 3, 3, 4, 4, 5, 5]);
    assert_eq!(bench.gauge("window"), 16.0);
}

#[test]
fn the_programs_slow_start_ends_at_half_a_second() {
    let mut bench = Bench::new(Settings::ORIGINAL);
    bench.ack(ms(500), Some(39));
    assert!(bench.cc.slow_start);
    bench.ack(ms(501), Some(40));
    let exit = Event::SlowStartExit {
        why: "delay",
        window: 28.0,
    };
    assert_eq!(bench.log, [(Time::ZERO, exit)]);
    let repair = bench.cc.repair.unwrap();
    assert!(repair.frozen);
    // One acknowledgement in the loss phase had its 1/W.
    assert!((bench.gauge("window") - (28.0 + 1.0 / 28.0)).abs() < 1e-9);
}

#[test]
fn the_papers_slow_start_ends_at_fifteen_times_the_smallest_delay() {
    let mut bench = Bench::new(Settings::PAPER);
    bench.ack(ms(20), None);
    bench.ack(ms(300), Some(10));
    assert!(bench.cc.slow_start);
    bench.ack(ms(301), Some(10));
    assert!(!bench.cc.slow_start);
}

#[test]
fn equation_6_multiplies_the_label_of_the_lost_packet() {
    for (window, label, want) in [(50.0, 40, 28.0), (20.0, 40, 20.0), (50.0, 1, 1.0)] {
        let mut bench = Bench::steady(Settings::ORIGINAL, window);
        bench.lose(label);
        assert_eq!(bench.gauge("window"), want);
        let event = Event::Decrease {
            why: "loss",
            from: window,
            to: want,
        };
        assert_eq!(bench.log, [(Time::ZERO, event)]);
        bench.lose(2);
        assert_eq!(bench.log.len(), 1, "once per loss phase");
    }
}

#[test]
fn the_loss_phase_freezes_the_profile_until_a_packet_of_the_smaller_window() {
    let mut bench = Bench::steady(Settings::ORIGINAL, 50.0);
    bench.lose(40);
    bench.ack(ms(60), Some(45));
    assert!((bench.gauge("window") - (28.0 + 1.0 / 28.0)).abs() < 1e-9);
    assert_eq!(bench.cc.points.len(), 0);
    bench.ack(ms(60), Some(28));
    assert!(bench.cc.repair.is_none());
    assert_eq!(bench.cc.points.at(28), Some(60.0));
}

#[test]
fn our_loss_phase_waits_for_a_packet_sent_after_the_loss() {
    let mut bench = Bench::steady(Settings::TUNED, 50.0);
    for _ in 0..3 {
        bench.send_one();
    }
    bench.lose(40);
    bench.ack(ms(60), Some(1));
    bench.ack(ms(60), Some(1));
    assert!(bench.cc.repair.is_some());
    bench.ack(ms(60), Some(1));
    assert!(bench.cc.repair.is_none());
}

impl Bench {
    fn timeout(&mut self) {
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

    /// What the controller takes to be in flight, packets.
    fn counted(&self) -> u64 {
        self.cc.packets(self.cc.in_flight)
    }
}

#[test]
fn a_timeout_in_slow_start_ends_it_and_what_is_under_way_still_counts() {
    let mut bench = Bench::new(Settings::ORIGINAL);
    bench.ack(ms(40), None);
    bench.send();
    assert_eq!((bench.gauge("window"), bench.counted()), (2.0, 2));
    bench.timeout();
    assert!(!bench.cc.slow_start && bench.cc.repair.is_none());
    assert_eq!((bench.gauge("window"), bench.counted()), (2.0, 2));
    bench.ack(ms(400), None);
    assert_eq!((bench.counted(), bench.cc.points.at(2)), (1, Some(400.0)));
}

#[test]
fn the_programs_timeout_forgets_what_is_under_way() {
    let mut bench = Bench::steady(Settings::ORIGINAL, 50.0);
    bench.ack(ms(60), Some(7));
    for _ in 0..3 {
        bench.send_one();
    }
    bench.cc.estimator.d_est = 200.0;
    bench.timeout();
    assert_eq!((bench.counted(), bench.gauge("d_est")), (0, 60.0));
    // Neither an acknowledgement nor a loss of the forgotten is noticed; but a small label ends the loss phase.
    bench.ack(ms(900), Some(60));
    bench.lose(40);
    assert_eq!((bench.counted(), bench.gauge("window")), (0, 50.0));
    assert!(bench.cc.repair.is_some());
    bench.ack(ms(900), Some(9));
    assert!(bench.cc.repair.is_none());
    assert_eq!(bench.cc.points.len(), 1);
    bench.send_one();
    assert_eq!(bench.counted(), 1);
}

#[test]
fn a_loss_that_ends_slow_start_forgets_what_is_under_way() {
    let mut bench = Bench::new(Settings::ORIGINAL);
    bench.cc.window = 50.0;
    for _ in 0..3 {
        bench.send_one();
    }
    bench.lose(40);
    assert!(!bench.cc.slow_start);
    assert_eq!((bench.counted(), bench.gauge("window")), (0, 28.0));
    // Ours keeps to the host's count.
    let mut bench = Bench::new(Settings::TUNED);
    for _ in 0..3 {
        bench.send_one();
    }
    bench.lose(40);
    assert_eq!(bench.counted(), 2);
}

#[test]
fn impossible_delays_and_ambiguous_ones_are_no_samples() {
    let mut bench = Bench::new(Settings::ORIGINAL);
    bench.ack(ms(50), None);
    for bad in [Some(Span::ZERO), ms(70_000), None] {
        bench.ack(bad, None);
    }
    assert_eq!((bench.gauge("d_min"), bench.cc.points.len()), (50.0, 1));
    assert!(bench.cc.slow_start);
}

#[test]
fn late_epochs_count_once_and_return_to_the_grid() {
    let mut bench = Bench::new(Settings::ORIGINAL);
    bench.send();
    assert_eq!(bench.cc.next_timer(), Some(Time::from_millis(5)));
    bench.at(Time::from_millis(23));
    assert_eq!(bench.cc.next_timer(), Some(Time::from_millis(25)));
}

#[test]
fn the_quota_of_an_epoch_replaces_the_last_ones() {
    let mut bench = Bench::steady(Settings::ORIGINAL, 10.0);
    (1..=40).for_each(|w| bench.cc.points.update(w, 40.0 + f64::from(w), 0.875));
    bench.cc.estimator.d_min = 40.0;
    bench.cc.estimator.d_est = 60.0;
    bench.cc.estimator.d_max = Some(60.0);
    bench.send_one();
    for k in 1..=20 {
        bench.at(Time::from_millis(5 * k));
        let packets = bench.gauge("quota");
        assert!(packets <= bench.gauge("window"), "{packets} at epoch {k}");
    }
}

#[test]
fn an_idle_flow_wants_no_wake_up_and_winds_itself_up_again() {
    let mut bench = Bench::new(Settings::TUNED);
    assert_eq!(bench.cc.next_timer(), None);
    bench.now = Time::from_millis(1003);
    let mut cx = Cx {
        now: bench.now,
        log: &mut bench.log,
    };
    bench.cc.on_idle_restart(&mut cx, Span::from_millis(1003));
    bench.send_one();
    assert_eq!(bench.cc.next_timer(), Some(Time::from_millis(1010)));
}

proptest! {
    /// Whatever happens: finite numbers, a window of at least a packet, a timer in the future, bounded memory.
    #[test]
    fn any_sequence_of_events_is_survived(
        which in 0..3_usize,
        steps in proptest::collection::vec((0..6_u8, 1..100_000_u64, 0..60_000_u64), 1..200),
    ) {
        let settings = [Settings::ORIGINAL, Settings::PAPER, Settings::TUNED][which];
        let mut bench = Bench::new(settings);
        for (what, micros, label) in steps {
            bench.now += Span::from_micros(micros);
            match what {
                0 => drop(bench.send()),
                1 => bench.ack(Some(Span::from_micros(micros)), Some(label)),
                2 => bench.ack(Some(Span::from_micros(40_000 + micros)), None),
                3 => bench.lose(label),
                4 => {
                    bench.send_one();
                }
                _ => {
                    bench.at(bench.now);
                    prop_assert!(bench.cc.next_timer().is_none_or(|at| at > bench.now));
                }
            }
            let mut finite = true;
            bench.cc.gauges(&mut |_, value| finite &= value.is_finite());
            prop_assert!(finite);
            prop_assert!(bench.cc.window >= 1.0 && bench.cc.window <= 1e5);
            prop_assert!(bench.cc.allowance().window >= MSS);
        }
    }
}
