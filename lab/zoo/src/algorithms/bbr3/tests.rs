// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::bounds::in_flight_at_loss;
use super::cycle::AckPhase;
use super::*;
use crate::testing::Bench;
use alcc_cc::conformance::{Scenario, run};
use alcc_cc::parts::ProbeRttTimer;
use alcc_cc::{Discard, Kind, Packet, Stamp};
use alcc_units::Rate;

const MSS: Bytes = Bytes::new(1000);

/// 12 Mbit/s are 1500 packets per second; with 40 ms the path holds 60.
fn cruising() -> Bbr3 {
    let mut b = Bbr3::new(Settings::LINUX);
    b.mss = MSS;
    (b.rates, b.rate, b.full_pipe_reached) = ([1500.0, 0.0], 1500.0, true);
    b.min_rtt.rtt = Some(Span::from_millis(40));
    b.state = State::Cruise;
    b.window = 120.0;
    b
}

fn with_cx(at: u64, f: impl FnOnce(&mut Cx<'_>)) {
    let now = Time::from_millis(at);
    f(&mut Cx {
        now,
        log: &mut Discard,
    });
}

fn lost(pn: u64, in_flight: u64, lost_before: u64) -> Packet {
    Packet {
        pn,
        len: MSS,
        sent_at: Time::ZERO,
        tag: Tag(lost_before * MSS.get()),
        stamp: Stamp {
            in_flight: MSS * in_flight,
            ..Stamp::default()
        },
        rtt: None,
        kind: Kind::New,
    }
}

#[test]
fn gains_of_the_states() {
    use State::{Cruise, Down, Drain, ProbeRtt, Refill, Startup, Up};
    let probe_rtt = ProbeRtt(ProbeRttTimer::default());
    let states = [Startup, Drain, Down, Cruise, Refill, Up, probe_rtt];
    let pacing = |s| states.map(|state| state.pacing_gain(&s));
    assert_eq!(
        pacing(Settings::LINUX),
        [2.773, 0.34375, 0.90625, 1.0, 1.0, 1.25, 1.0]
    );
    assert_eq!(
        pacing(Settings::DRAFT),
        [2.77, 0.5, 0.9, 1.0, 1.0, 1.25, 1.0]
    );
    assert_eq!(
        states.map(State::window_gain),
        [2.0, 2.0, 2.0, 2.0, 2.0, 2.25, 0.5]
    );
}

#[test]
fn in_flight_where_the_losses_passed_two_percent() {
    // 100 before, one of them lost: (2 - 1) / 0.98 more may be lost.
    assert!((in_flight_at_loss(101.0, 2.0, 1.0) - 101.0204).abs() < 1e-4);
    // A burst of ten, all lost, after 100 of which none was: 2 / 0.98.
    assert!((in_flight_at_loss(110.0, 10.0, 10.0) - 102.0408).abs() < 1e-4);
    // Too many were lost before: the packet does not count.
    assert_eq!(in_flight_at_loss(100.0, 4.0, 1.0), 99.0);
}

#[test]
fn headroom_is_fifteen_percent_and_at_least_a_packet() {
    let of = |inflight| Bounds {
        inflight_hi: inflight,
        ..Bounds::NONE
    };
    assert_eq!(of(100.0).with_headroom(), 85.0);
    assert_eq!(of(5.5).with_headroom(), 4.5);
    assert_eq!(of(4.5).with_headroom(), MIN_CWND);
    assert_eq!(Bounds::NONE.with_headroom(), NONE);
}

#[test]
fn the_window_is_twice_the_product_within_the_bounds_of_the_state() {
    let mut b = cruising();
    b.set_window();
    assert_eq!(b.window, 120.0);
    b.bounds.inflight_hi = 100.0;
    b.set_window();
    assert_eq!(b.window, 85.0, "cruising: 15 % are left for others");
    b.state = State::Refill;
    b.sample.acked = 20.0;
    b.set_window();
    assert_eq!(b.window, 100.0);
    b.bounds.inflight_lo = 50.0;
    b.set_window();
    assert_eq!(b.window, 50.0);
    // The empty path is looked for with half of the product.
    b.bounds = Bounds::NONE;
    b.state = State::ProbeRtt(ProbeRttTimer::default());
    b.probe_rtt_window = b.bdp(b.rate, PROBE_RTT_GAIN);
    b.set_window();
    assert_eq!(b.window, 30.0);
}

#[test]
fn a_round_with_loss_takes_the_bounds_to_what_was_delivered_or_seven_tenths() {
    let mut b = cruising();
    with_cx(0, |cx| b.note_lost(cx, &lost(1, 60, 0)));
    assert_eq!(
        b.bounds,
        Bounds::NONE,
        "the answer waits for the end of the round"
    );
    b.sample = Sample {
        rate: 1400.0,
        delivered: 40.0,
        ..Sample::default()
    };
    b.begin_latest();
    b.adapt_to_losses();
    // max(1400, 0.7 * 1500) and max(40, 0.7 * 120).
    assert_eq!((b.bounds.bw_lo, b.bounds.inflight_lo), (1400.0, 84.0));
    // A round without loss changes nothing; the next probe forgets it all.
    b.begin_latest();
    b.adapt_to_losses();
    assert_eq!(b.bounds.bw_lo, 1400.0);
    with_cx(0, |cx| b.enter_refill(cx));
    assert_eq!(b.bounds, Bounds::NONE);
}

#[test]
fn a_loss_repaired_by_a_probe_counts_without_an_episode() {
    let mut b = Bench::of("bbr3");
    (0..6).for_each(|_| b.round());
    // Not a new episode, not in recovery: what a probe after silence finds.
    let before = b.gauge("inflight_lately");
    b.lose_more();
    b.recovered();
    assert_eq!(before, MAX_CWND);
    let mut b = cruising();
    b.probe_sample = true;
    // 60 in flight, the second loss among them is more than 2 %.
    with_cx(0, |cx| {
        let loss = [lost(7, 60, 0), lost(8, 60, 0)];
        b.on_loss(
            cx,
            &LossBatch {
                lost: &loss,
                new_episode: false,
                in_flight: MSS * 58,
                rtt: alcc_cc::RttView::default(),
            },
        );
    });
    // 59 before, one of them lost: (1.18 - 1) / 0.98 = 0.18 more.
    assert!(
        (b.bounds.inflight_hi - 59.1837).abs() < 1e-4,
        "{:?}",
        b.bounds
    );
    assert!(b.too_high && !b.probe_sample && b.latest.holes == 1);
}

#[test]
fn a_probe_that_loses_goes_down_and_a_mistake_brings_it_back() {
    let mut b = cruising();
    (b.state, b.probe_sample) = (State::Up, true);
    with_cx(0, |cx| b.note_lost(cx, &lost(1, 20, 0)));
    b.lost = MSS;
    with_cx(0, |cx| b.note_lost(cx, &lost(2, 20, 0)));
    assert_eq!(b.state, State::Down);
    // Beta: never below seven tenths of the product.
    assert_eq!(b.bounds.inflight_hi, 42.0);
    with_cx(10, |cx| b.on_spurious(cx, Spurious::Loss));
    assert_eq!((b.state, b.bounds), (State::Refill, Bounds::NONE));
}

#[test]
fn the_bound_rises_twice_as_fast_in_every_round() {
    let mut b = cruising();
    (b.state, b.bounds.inflight_hi, b.window) = (State::Up, 100.0, 100.0);
    b.raise_slope();
    let mut rise = |round_start| {
        b.round_start = round_start;
        b.sample.acked = b.window;
        b.window_limited = b.round;
        b.window = b.bounds.inflight_hi;
        b.raise_bound();
        b.bounds.inflight_hi
    };
    // One packet for a window acknowledged; then the slope doubles.
    assert_eq!(rise(true), 101.0);
    assert_eq!(rise(true), 103.0);
    assert!((rise(false) - 107.0).abs() <= 1.0);
}

#[test]
fn the_rate_is_remembered_for_this_cycle_and_the_last() {
    let mut b = cruising();
    for (rate, expected) in [(1200.0, 1500.0), (1200.0, 1200.0), (900.0, 1200.0)] {
        (b.ack_phase, b.round_start, b.state) = (AckPhase::ProbeStopping, true, State::Down);
        with_cx(0, |cx| {
            b.adapt_bound(cx);
        });
        b.sample.rate = rate;
        b.measure();
        assert_eq!(b.max_rate(), expected);
    }
}

#[test]
fn between_probes_two_to_three_seconds_or_as_many_rounds_as_renos() {
    let mut b = cruising();
    for seed in 0..50 {
        b.rng = Rng::new(seed);
        with_cx(0, |cx| b.enter_down(cx));
        assert!(b.wait >= Span::from_secs(2) && b.wait <= Span::from_secs(3));
        assert!(b.rounds_since_up < 2);
    }
    with_cx(1_999, |cx| {
        b.rounds_since_up = 59;
        assert!(!b.is_time_to_probe(cx), "the product is 60");
        b.rounds_since_up = 60;
        assert!(b.is_time_to_probe(cx));
    });
    with_cx(3_001, |cx| {
        b.rounds_since_up = 0;
        assert!(b.is_time_to_probe(cx));
    });
}

/// The model must outlive a timeout. Otherwise a long path never comes back, as in a program
/// shipped elsewhere.
#[test]
fn an_intercontinental_path_recovers_from_an_outage() {
    for profile in ["linux", "draft"] {
        let mut s = Scenario::constant(Rate::mbps(12), Span::from_millis(300), Span::from_secs(40));
        let second = |n: u64| Time::from_millis(n * 1000);
        s.outage = Some((second(15), second(18)));
        let spec = format!("bbr3:profile={profile}");
        let cc = || crate::registry().build(&spec.parse().unwrap()).unwrap();
        let result = run(&s, vec![cc()]).remove(0);
        let between = |from, to| result.packets(second(from)) - result.packets(second(to));
        let (before, after) = (between(10, 15), between(25, 40));
        // 1000 packets per second are all of it.
        assert!(before > 4000, "{profile}: {before} in 5 s before");
        assert!(after > 12_500, "{profile}: {after} in 15 s after");
    }
}
