// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Test vectors that were worked out by hand.
use super::*;
use crate::testing::{Bench, MSS};
use crate::{Discard, LimitedBy, Packet};

const MS: Span = Span::from_millis(1);

/// A flow past slow start, with these RTTs known.
fn steady(s: Settings, window: f64, minimum: u64, standing: u64) -> Copa {
    let mut c = Copa::new(s);
    c.mss = MSS;
    c.window = window;
    c.slow_start = false;
    c.rtts = Rtts::known(minimum, standing);
    c.velocity = Velocity::new(Time::ZERO, window);
    c
}

fn step(c: &mut Copa) -> f64 {
    steps(c, [1])
}

fn steps(c: &mut Copa, of: impl IntoIterator<Item = u64>) -> f64 {
    let (now, log) = (Time::ZERO, &mut Discard);
    let cx = &mut Cx { now, log };
    of.into_iter().for_each(|n| c.step(cx, n, true));
    c.window
}

/// The window moves up, down, and around the target of 1200 packets.
#[test]
fn a_record_of_many_segments_moves_the_window_as_they_do() {
    for window in [600.0, 2400.0, 1199.9] {
        for n in [64, 65, 170, 600, 100_000] {
            assert_eq!(portions(n).sum::<u64>(), n);
            let start = steady(Settings::PAPER, window, 50, 51);
            let single = steps(&mut start.clone(), (0..n).map(|_| 1));
            let together = steps(&mut start.clone(), portions(n));
            let moved = (single - window).abs().max(together - window).max(2.0);
            let off = (together - single).abs();
            assert!(off < 0.1 * moved, "{window}, {n}: {single}, {together}");
        }
    }
    assert_eq!(portions(64).count(), 64);
    assert_eq!(portions(65).count(), 8);
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn one_step_towards_the_target() {
    let paper = |w| step(&mut steady(Settings::PAPER, w, 50, 60));
    assert!(near(paper(10.0), 10.2));
    assert!(near(paper(14.0), 14.0 - 1.0 / 7.0));
    // Exactly at the target the window goes up.
    assert!(near(paper(12.0), 12.0 + 1.0 / 6.0));
    assert!(near(Rtts::known(50, 60).target_window(0.5), 12.0));
}

/// 16 packets, smallest RTT 1 ms, floor 0.5 ms.
#[test]
fn a_difference_below_the_floor_does_not_count_as_queueing() {
    for (standing, queued) in [
        (1400, 0.0),
        (1500, 0.0),
        // In this range the delay is twice the excess over the floor: 0.2 ms of 1.6.
        (1600, 2.0),
        (2000, 8.0),
        (4000, 12.0),
    ] {
        let mut rtts = Rtts {
            floor: Span::from_micros(500),
            ..Rtts::known(1, 1)
        };
        rtts.standing.clear();
        let standing = Span::from_micros(standing);
        rtts.standing.insert(Time::ZERO, standing, Span::MAX);
        assert!(near(rtts.queue(16.0, standing), queued), "{standing:?}");
    }
}

#[test]
fn an_empty_queue_says_up_whatever_the_window() {
    for w in [2.0, 1e3, 1e8] {
        assert!(step(&mut steady(Settings::PAPER, w, 50, 50)) > w);
    }
}

#[test]
fn pacing_at_twice_the_window_per_standing_rtt() {
    let mut c = steady(Settings::PAPER, 20.0, 50, 60);
    assert_eq!(c.allowance().rate, None);
    c.updated = true;
    // 666.67 packets of 1000 bytes per second.
    assert_eq!(c.allowance().rate.unwrap().as_bps(), 5_333_333);
}

#[test]
fn velocity_is_held_to_a_packet_per_packet() {
    let mut c = steady(Settings::PAPER, 20.0, 50, 50);
    (c.velocity.v, c.velocity.way) = (16.0, Some(Way::Up));
    assert!(near(step(&mut c), 21.0));
}

#[test]
fn velocity_doubles_after_the_hold() {
    let mut v = Velocity::new(Time::ZERO, 10.0);
    let (up, down) = (Way::Up, Way::Down);
    let velocities = [up, up, up, up, up, up, down].map(|way| {
        v.period(way, HOLD);
        v.v
    });
    assert_eq!(velocities, [1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 1.0]);
}

/// delta after `adapt` at `ms`, with these extremes of the last four round trips.
fn adapted(c: &mut Copa, low: u64, high: u64, ms: u64) -> f64 {
    c.mode.forget_delays();
    c.mode.low.insert(Time::ZERO, MS * low, Span::MAX);
    c.mode.high.insert(Time::ZERO, MS * high, Span::MAX);
    c.mode.adapt(Time::from_millis(ms), &c.rtts);
    c.mode.delta
}

#[test]
fn a_queue_never_nearly_empty_means_a_competitor() {
    let mut c = steady(Settings::PAPER, 10.0, 50, 60);
    adapted(&mut c, 58, 150, 10_000);
    assert!(!c.mode.competitive);
    adapted(&mut c, 60, 150, 10_000);
    assert!(c.mode.competitive);
}

#[test]
fn competitive_mode_adds_a_packet_per_round_and_halves_on_loss() {
    let mut c = steady(Settings::PAPER, 10.0, 50, 60);
    for (round, delta) in [(1, 1.0 / 3.0), (2, 0.25), (3, 0.2)] {
        assert!(near(adapted(&mut c, 100, 150, round * 100), delta));
    }
    c.mode.lossy = true;
    assert!(near(adapted(&mut c, 100, 150, 400), 0.4));
    c.mode.lossy = true;
    assert!(near(adapted(&mut c, 100, 150, 500), 0.5));
    assert!(near(adapted(&mut c, 50, 150, 510), 0.5) && !c.mode.competitive);
}

/// The growth by a packet per round must not hide a loss in the same round.
#[test]
fn in_competitive_mode_a_loss_counts_once_per_round_whatever_grew_before() {
    let mut c = steady(Settings::PAPER, 10.0, 50, 60);
    assert!(near(adapted(&mut c, 100, 150, 1000), 1.0 / 3.0));
    let lost = |c: &mut Copa, ms| {
        let packet = Packet {
            pn: 1,
            len: Bytes::new(1000),
            sent_at: Time::ZERO,
            tag: crate::Tag(0),
            stamp: crate::Stamp::default(),
            rtt: None,
            kind: crate::Kind::New,
        };
        let loss = LossBatch {
            lost: &[packet],
            new_episode: true,
            in_flight: Bytes::ZERO,
            rtt: crate::RttView::default(),
        };
        let now = Time::from_millis(ms);
        c.on_loss(
            &mut Cx {
                now,
                log: &mut Discard,
            },
            &loss,
        );
        adapted(c, 100, 150, ms)
    };
    // One millisecond after the growth: 1/3 doubled, but no more than 0.5.
    assert!(near(lost(&mut c, 1001), 0.5));
    c.mode.delta = 0.1;
    assert!(near(lost(&mut c, 1030), 0.1), "the standing RTT is 60 ms");
    assert!(near(lost(&mut c, 1061), 0.2));
}

#[test]
fn the_standing_rtt_looks_back_half_an_rtt() {
    let mut f = crate::parts::WindowedMin::new();
    let window = MS * 20;
    for (t, rtt) in [(0, 50), (10, 50), (20, 90), (30, 52)] {
        f.insert(Time::from_millis(t), MS * rtt, window);
    }
    assert_eq!(f.get(), Some(MS * 50));
    f.insert(Time::from_millis(31), MS * 53, window);
    assert_eq!(f.get(), Some(MS * 52));
}

#[test]
fn slow_start_leaves_what_filled_the_path_a_round_trip_ago() {
    let mut c = steady(Settings::TUNED, 40.0, 50, 100);
    c.slow_start = true;
    // 20 of 40 packets are queued, so half of the 20 others were in flight a round trip ago.
    let mut log = Discard;
    let mut cx = Cx {
        now: Time::ZERO,
        log: &mut log,
    };
    c.leave_slow_start(&mut cx, "queue above target");
    assert!(near(c.window, 10.0));
}

#[test]
fn an_overload_drains_half_a_packet_per_packet_and_no_more_than_the_queue() {
    let mut c = steady(Settings::TUNED, 100.0, 50, 100);
    assert!(near(step(&mut c), 99.5));
    // 50 packets are queued, the target is 5.6. Until a round trip has passed nothing more is removed.
    for _ in 0..90 {
        step(&mut c);
    }
    let to = 50.0 + 1.0 / 0.18;
    // The tolerance is a step of the velocity, 1/18 packet or so.
    assert!((to - 1.0..=to + 0.1).contains(&c.window), "{}", c.window);
}

#[test]
fn a_loss_ends_slow_start() {
    let mut b = Bench::of("copa");
    b.wait(MS * 100);
    for _ in 0..30 {
        b.ack(MS * 50);
    }
    assert_eq!((b.window(), b.gauge("slow_start")), (40.0, 1.0));
    b.lose_one();
    assert_eq!((b.window(), b.gauge("slow_start")), (20.0, 0.0));
}

#[test]
fn a_standing_queue_is_no_longer_path() {
    let mut b = Bench::of("copa");
    b.wait(MS * 100);
    b.ack(MS * 50);
    // Other flows keep a queue of 50 ms for 20 s, except in drains. It fills at the rate of the link, so no RTT jumps.
    for _ in 0..20_000 {
        b.wait(MS);
        let drained = b.now.as_nanos() / 1_000_000 % 3000;
        b.ack(MS * (50 + drained.saturating_sub(100).min(50)));
    }
    assert_eq!(b.gauge("rtt_min_ms"), 50.0);
}

#[test]
fn a_record_of_ten_segments_is_ten_steps() {
    let limited = LimitedBy {
        window: true,
        ..LimitedBy::default()
    };
    let (mut one, mut ten) = (Bench::of("copa"), Bench::of("copa"));
    for b in [&mut one, &mut ten] {
        b.wait(MS * 100);
    }
    let sent = one.now - MS * 100;
    let mut record = ten.packet(sent, Some(MS * 100));
    record.len = MSS * 10;
    ten.ack_batch(&[record], limited);
    let singles: Vec<_> = (0..10).map(|_| one.packet(sent, Some(MS * 100))).collect();
    one.ack_batch(&singles, limited);
    assert_eq!(one.window(), 20.0);
    assert_eq!(ten.window(), 20.0);
}

/// The assumption with which `on_ack` takes a record of many segments in one step.
#[test]
fn steps_that_leave_the_window_change_nothing_more_at_that_moment() {
    let mut unchanged = 0;
    for (window, standing, v, slow_start, hold) in (0..480).map(|n: u32| {
        (
            [2.0, 2.5, 9.0, 400.0, 1e9][(n % 5) as usize],
            [50, 51, 55, 90][(n / 5 % 4) as usize],
            [1.0, 8.0, 1e6][(n / 20 % 3) as usize],
            n / 60 % 2 == 1,
            n / 120,
        )
    }) {
        let mut c = steady(Settings::TUNED, window, 50, standing);
        c.slow_start = slow_start;
        c.velocity.v = v;
        c.velocity.way = [None, Some(Way::Up), Some(Way::Down)][(hold % 3) as usize];
        c.velocity.same = hold;
        let state = |c: &Copa| {
            let overload = c.overload;
            format!(
                "{} {:?} {} {overload:?} {:?}",
                c.window,
                c.velocity,
                c.slow_start,
                c.allowance()
            )
        };
        let mut cx = Cx {
            now: Time::from_millis(u64::from(hold) * 40),
            log: &mut Discard,
        };
        c.step(&mut cx, 1, false);
        if c.window != window {
            continue;
        }
        unchanged += 1;
        let after = state(&c);
        for _ in 0..50 {
            c.step(&mut cx, 1, false);
        }
        assert_eq!(state(&c), after);
    }
    assert!(unchanged > 100, "{unchanged} cases");
}

#[test]
fn a_record_of_segments_is_their_steps_also_where_the_window_is_not_used() {
    let limited = LimitedBy {
        app: true,
        ..LimitedBy::default()
    };
    let (mut one, mut many) = (Bench::of("copa"), Bench::of("copa"));
    for b in [&mut one, &mut many] {
        b.wait(MS * 200);
    }
    for n in 0..400u64 {
        let rtt = MS * (50 + n * n % 71);
        for b in [&mut one, &mut many] {
            b.wait(MS * 7);
        }
        let sent = one.now - rtt;
        let limited = if n % 90 < 40 {
            LimitedBy::default()
        } else {
            limited
        };
        let mut singles: Vec<_> = (0..20).map(|_| one.packet(sent, None)).collect();
        singles.push(one.packet(sent, Some(rtt)));
        one.ack_batch(&singles, limited);
        let mut record = many.packet(sent, None);
        record.len = MSS * 20;
        let newest = many.packet(sent, Some(rtt));
        many.ack_batch(&[record, newest], limited);
        assert_eq!(one.window(), many.window(), "batch {n}");
        assert_eq!(
            one.cc.allowance().rate,
            many.cc.allowance().rate,
            "batch {n}"
        );
    }
}
