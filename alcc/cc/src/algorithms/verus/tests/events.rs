// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tuned controller, event by event.
use super::super::Verus;
use super::super::settings::Settings;
use super::bench::{Bench, MSS, ms};
use crate::{Controller, Cx};
use alcc_units::{Span, Time};
use proptest::prelude::*;

fn bench(settings: Settings) -> Bench<Verus> {
    Bench::new(Verus::new(settings))
}

/// Out of slow start, at this window.
fn steady(settings: Settings, window: f64) -> Bench<Verus> {
    let mut bench = bench(settings);
    bench.cc.slow_start = false;
    bench.cc.window = window;
    bench.cc.refit_at = Time::from_millis(1_000_000);
    bench
}

#[test]
fn the_papers_slow_start_ends_at_fifteen_times_the_smallest_delay() {
    let mut bench = bench(Settings::PAPER);
    bench.ack(ms(20), None);
    bench.ack(ms(300), Some(10));
    assert!(bench.cc.slow_start);
    bench.ack(ms(301), Some(10));
    assert!(!bench.cc.slow_start);
}

#[test]
fn our_loss_phase_waits_for_a_packet_sent_after_the_loss() {
    let mut bench = steady(Settings::TUNED, 50.0);
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

#[test]
fn what_an_epoch_releases_is_paced_at_twice_the_window_in_the_delay_aimed_at() {
    let rate = |settings| {
        let mut bench = steady(settings, 50.0);
        bench.ack(ms(100), None);
        bench.cc.estimator.d_est = 80.0;
        let of = |bench: &Bench<Verus>| bench.cc.allowance().rate.map(|rate| rate.as_mbps_f64());
        let first = of(&bench);
        // An outage makes the RTT long, while the meaning of the window stays.
        bench.ack(ms(2000), None);
        assert_eq!(of(&bench), first);
        bench.cc.slow_start = true;
        assert_eq!(of(&bench), None);
        first
    };
    assert_eq!(rate(Settings::TUNED), Some(10.0));
    assert_eq!(rate(Settings::PAPER), None);
}

#[test]
fn after_a_loss_unlike_windows_may_grow_alike_and_faster_with_time() {
    let grown = |label: u64| {
        let mut bench = steady(Settings::TUNED, label as f64);
        bench.cc.estimator.sample(40.0);
        for _ in 0..label + 1 {
            bench.send_one();
        }
        bench.flight.swap(0, label as usize);
        bench.lose(label);
        let ceiling = |bench: &Bench<Verus>| bench.cc.ceiling.map_or(0.0, |c| c.window);
        let mut seen = vec![ceiling(&bench)];
        for second in 1..=3 {
            while bench.now < Time::from_millis(1000 * second) {
                bench.at(bench.now + Span::from_millis(10));
            }
            seen.push(ceiling(&bench));
        }
        seen.windows(2)
            .map(|two| two[1] - two[0])
            .collect::<Vec<_>>()
    };
    let (small, large) = (grown(40), grown(400));
    for (small, large) in small.iter().zip(&large) {
        assert!((small - large).abs() < 1e-6, "{small} {large}");
    }
    // 25 round trips a second: one packet in each, then up to 11, then up to 21.
    assert!((24.0..=26.0).contains(&small[0]), "{small:?}");
    assert!((140.0..=160.0).contains(&small[1]), "{small:?}");
    assert!((390.0..=410.0).contains(&small[2]), "{small:?}");
}

/// Packets that overtake each other are taken for lost, again and again.
#[test]
fn a_loss_that_was_none_leaves_no_ceiling() {
    for settings in [Settings::TUNED, Settings::PAPER] {
        let mut bench = steady(settings, 50.0);
        for _ in 0..51 {
            bench.send_one();
        }
        let was = bench.cc.window;
        bench.lose(50);
        let reduced = bench.cc.window;
        assert!(reduced < was);
        bench.spurious();
        let tuned = settings.company;
        assert_eq!(bench.cc.window, if tuned { was } else { reduced });
        assert!(bench.cc.repair.is_none() && bench.cc.ceiling.is_none());
        // Once only.
        bench.cc.window = reduced;
        bench.spurious();
        assert_eq!(bench.cc.window, reduced);
    }
}

/// A reduction before it was for packets that were lost.
#[test]
fn a_loss_that_was_none_and_did_not_count_gives_nothing_back() {
    let mut bench = steady(Settings::TUNED, 50.0);
    for _ in 0..51 {
        bench.send_one();
    }
    bench.lose(50);
    let reduced = bench.cc.window;
    let ceiling = bench.cc.ceiling.map(|ceiling| ceiling.window);
    // While the first one is repaired none counts.
    bench.lose(50);
    bench.spurious();
    assert_eq!(bench.cc.window, reduced);
    assert_eq!(bench.cc.ceiling.map(|ceiling| ceiling.window), ceiling);
}

#[test]
fn an_idle_flow_wants_no_wake_up_and_winds_itself_up_again() {
    let mut bench = bench(Settings::TUNED);
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

#[test]
fn a_loss_that_ends_slow_start_leaves_the_count_to_the_host() {
    let mut bench = bench(Settings::TUNED);
    for _ in 0..3 {
        bench.send_one();
    }
    bench.lose(40);
    assert_eq!(bench.cc.packets(bench.cc.in_flight), 2);
}

#[test]
fn impossible_delays_and_ambiguous_ones_are_no_samples() {
    let mut bench = bench(Settings::TUNED);
    bench.ack(ms(50), None);
    for bad in [Some(Span::ZERO), ms(70_000), None] {
        bench.ack(bad, None);
    }
    assert_eq!((bench.gauge("d_min"), bench.cc.points.count()), (50.0, 1));
    assert!(bench.cc.slow_start);
}

proptest! {
    /// After any events: finite numbers, a window of at least a packet, a timer in the future,
    /// bounded memory.
    #[test]
    fn any_sequence_of_events_is_survived(
        which in 0..2_usize,
        steps in proptest::collection::vec((0..6_u8, 1..100_000_u64, 0..60_000_u64), 1..200),
    ) {
        let settings = [Settings::PAPER, Settings::TUNED][which];
        let mut bench = bench(settings);
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
