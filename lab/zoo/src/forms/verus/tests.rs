// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program's vectors, event by event, and its queue over one bottleneck.
#[path = "../../../../../alcc/cc/src/algorithms/verus/tests/bench.rs"]
#[allow(dead_code, reason = "other forms use the rest")]
mod bench;
#[path = "../../../../../alcc/cc/src/algorithms/verus/tests/bottleneck.rs"]
mod bottleneck;

use super::Original;
use alcc_cc::parts::verus::Asked;
use alcc_cc::{Controller, Event, Instance, Spec};
use alcc_units::{Rate, Rng, Span, Time};
use bench::{Bench, ms};
use bottleneck::{Outcome, PATH, Setup, constant, opportunities, run, told};
use proptest::prelude::*;

fn bench() -> Bench<Original> {
    Bench::new(Original::new(Asked::PUBLISHED))
}

/// Out of slow start, at this window.
fn steady(window: f64) -> Bench<Original> {
    let mut bench = bench();
    bench.cc.slow_start = false;
    bench.cc.window = window;
    bench.cc.refit_at = Time::from_millis(1_000_000);
    bench
}

/// The number of packets that the controller assumes to be in flight.
fn counted(bench: &Bench<Original>) -> u64 {
    bench.cc.packets(bench.cc.in_flight)
}

#[test]
fn slow_start_adds_one_per_packet_and_doubles_per_round_trip() {
    let mut bench = bench();
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
    let mut bench = bench();
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
fn equation_6_multiplies_the_label_of_the_lost_packet() {
    for (window, label, want) in [(50.0, 40, 28.0), (20.0, 40, 20.0), (50.0, 1, 1.0)] {
        let mut bench = steady(window);
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
    let mut bench = steady(50.0);
    bench.lose(40);
    bench.ack(ms(60), Some(45));
    assert!((bench.gauge("window") - (28.0 + 1.0 / 28.0)).abs() < 1e-9);
    assert_eq!(bench.cc.points.count(), 0);
    bench.ack(ms(60), Some(28));
    assert!(bench.cc.repair.is_none());
    assert_eq!(bench.cc.points.at(28), Some(60.0));
}

#[test]
fn a_timeout_in_slow_start_ends_it_and_what_is_under_way_still_counts() {
    let mut bench = bench();
    bench.ack(ms(40), None);
    bench.send();
    assert_eq!((bench.gauge("window"), counted(&bench)), (2.0, 2));
    bench.timeout();
    assert!(!bench.cc.slow_start && bench.cc.repair.is_none());
    assert_eq!((bench.gauge("window"), counted(&bench)), (2.0, 2));
    bench.ack(ms(400), None);
    assert_eq!((counted(&bench), bench.cc.points.at(2)), (1, Some(400.0)));
}

#[test]
fn the_programs_timeout_forgets_what_is_under_way() {
    let mut bench = steady(50.0);
    bench.ack(ms(60), Some(7));
    for _ in 0..3 {
        bench.send_one();
    }
    bench.cc.estimator.d_est = 200.0;
    bench.timeout();
    assert_eq!((counted(&bench), bench.gauge("d_est")), (0, 60.0));
    // Neither an acknowledgement nor a loss of the forgotten is noticed; but a small label ends the
    // loss phase.
    bench.ack(ms(900), Some(60));
    bench.lose(40);
    assert_eq!((counted(&bench), bench.gauge("window")), (0, 50.0));
    assert!(bench.cc.repair.is_some());
    bench.ack(ms(900), Some(9));
    assert!(bench.cc.repair.is_none());
    assert_eq!(bench.cc.points.count(), 1);
    bench.send_one();
    assert_eq!(counted(&bench), 1);
}

#[test]
fn a_loss_that_ends_slow_start_forgets_what_is_under_way() {
    let mut bench = bench();
    bench.cc.window = 50.0;
    for _ in 0..3 {
        bench.send_one();
    }
    bench.lose(40);
    assert!(!bench.cc.slow_start);
    assert_eq!((counted(&bench), bench.gauge("window")), (0, 28.0));
}

#[test]
fn impossible_delays_and_ambiguous_ones_are_no_samples() {
    let mut bench = bench();
    bench.ack(ms(50), None);
    for bad in [Some(Span::ZERO), ms(70_000), None] {
        bench.ack(bad, None);
    }
    assert_eq!((bench.gauge("d_min"), bench.cc.points.count()), (50.0, 1));
    assert!(bench.cc.slow_start);
}

#[test]
fn late_epochs_count_once_and_return_to_the_grid() {
    let mut bench = bench();
    bench.send();
    assert_eq!(bench.cc.next_timer(), Some(Time::from_millis(5)));
    bench.at(Time::from_millis(23));
    assert_eq!(bench.cc.next_timer(), Some(Time::from_millis(25)));
}

#[test]
fn the_quota_of_an_epoch_replaces_the_last_ones() {
    let mut bench = steady(10.0);
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

proptest! {
    /// After any events: finite numbers, a window of at least a packet, a timer in the future,
    /// bounded memory.
    #[test]
    fn any_sequence_of_events_is_survived(
        steps in proptest::collection::vec((0..6_u8, 1..100_000_u64, 0..60_000_u64), 1..200),
    ) {
        let mut bench = bench();
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
            prop_assert!(bench.cc.allowance().window > alcc_units::Bytes::ZERO);
        }
    }
}

#[test]
fn the_programs_queue_settles_just_below_the_ratio() {
    for ratio in [2.0, 6.0] {
        let limit = 40.0 * ratio;
        let settings = Asked {
            ratio,
            ..Asked::PUBLISHED
        };
        let outcome = constant(Original::new(settings), PATH, 12);
        let mean = outcome.mean(5.0);
        assert!(
            mean > 0.75 * limit && mean < 1.05 * limit,
            "R={ratio}: {mean} ms"
        );
        assert!(
            outcome.utilization > 0.97,
            "R={ratio}: {}",
            outcome.utilization
        );
        // The fault that tuned must not have.
        assert!(
            outcome.peak(3.0) > 800.0,
            "R={ratio}: {}",
            outcome.peak(3.0)
        );
    }
}

/// The first four seconds on 12 Mbit/s, in whole packets.
#[test]
fn stories() {
    assert_eq!(
        told(Original::new(Asked::PUBLISHED)),
        [
            "1224 slow start ends by delay at 350",
            "1225 fitted up to 501",
            "2225 fitted up to 501",
            "3225 fitted up to 501",
        ]
    );
}

/// A rate of 2 to 20 Mbit/s, drawn every second, over kernel TCP: acknowledgements are read at a
/// tick.
fn varying(cc: Instance) -> Outcome {
    let over_tcp = Setup {
        tick: Some(Span::from_micros(2500)),
        ..PATH
    };
    let rate = |second| Rate::mbps(2 + Rng::new(second).below(19));
    run(cc, over_tcp, opportunities(rate))
}

#[test]
fn tuned_on_a_varying_link_keeps_the_throughput_at_less_delay() {
    let original = varying(Instance::new(Original::new(Asked::PUBLISHED)));
    let tuned = crate::registry().build(&Spec::named("verus"));
    let tuned = varying(tuned.unwrap());
    assert!(tuned.utilization > 0.95, "{}", tuned.utilization);
    assert!(
        tuned.mean(0.0) < original.mean(0.0),
        "{} {}",
        tuned.mean(0.0),
        original.mean(0.0)
    );
    let (ours, theirs) = (tuned.quantile(0.0, 0.95), original.quantile(0.0, 0.95));
    assert!(ours < 0.75 * theirs, "{ours} {theirs}");
}
