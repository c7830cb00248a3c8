// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers worked out by hand.
use super::*;
use crate::testing::{Bench, MSS};
use crate::{Discard, LimitedBy};

const MS: Span = Span::from_millis(1);

/// Past slow start, with these RTTs known.
fn steady(s: Settings, window: f64, minimum: u64, standing: u64) -> Copa {
    let mut c = Copa::new(s);
    c.mss = MSS;
    c.window = window;
    c.slow_start = false;
    c.minimum.insert(Time::ZERO, MS * minimum, Span::MAX);
    c.standing.insert(Time::ZERO, MS * standing, Span::MAX);
    c.latest = MS * standing;
    c.srtt = (MS * standing).as_secs_f64();
    c.velocity = Velocity::new(Time::ZERO, window);
    c
}

fn step(c: &mut Copa) -> f64 {
    c.step(
        &mut Cx {
            now: Time::ZERO,
            log: &mut Discard,
        },
        true,
    );
    c.window
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn one_step_towards_the_target() {
    let paper = |w| step(&mut steady(Settings::PAPER, w, 50, 60));
    assert!(near(paper(10.0), 10.2));
    assert!(near(paper(14.0), 14.0 - 1.0 / 7.0));
    // Exactly at the target: up in the paper, down in genericCC.
    assert!(near(paper(12.0), 12.0 + 1.0 / 6.0));
    let original = step(&mut steady(Settings::ORIGINAL, 12.0, 50, 60));
    assert!(near(original, 12.0 - 1.0 / 6.0));
    assert!(near(
        steady(Settings::PAPER, 12.0, 50, 60).target_window(),
        12.0
    ));
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
    let mut c = steady(Settings::ORIGINAL, 20.0, 50, 50);
    (c.velocity.v, c.velocity.way) = (16.0, Some(Way::Up));
    assert!(near(step(&mut c), 20.8));
}

#[test]
fn velocity_doubles_after_the_hold() {
    let velocities = |s: Settings| {
        let mut v = Velocity::new(Time::ZERO, 10.0);
        [
            Way::Up,
            Way::Up,
            Way::Up,
            Way::Up,
            Way::Up,
            Way::Up,
            Way::Down,
        ]
        .map(|way| {
            if s.majority {
                v.vote(way);
                v.period_by_votes();
                v.restart_period(Time::ZERO, 10.0);
            } else {
                v.period(way, s.hold);
            }
            v.v
        })
    };
    assert_eq!(
        velocities(Settings::PAPER),
        [1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 1.0]
    );
    assert_eq!(
        velocities(Settings::ORIGINAL),
        [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1.0]
    );
}

#[test]
fn genericcc_turns_at_a_draw() {
    let mut v = Velocity::new(Time::ZERO, 10.0);
    let mut ways = Vec::new();
    for votes in [&[Way::Down][..], &[Way::Down], &[Way::Up, Way::Down], &[]] {
        votes.iter().for_each(|way| v.vote(*way));
        v.period_by_votes();
        v.restart_period(Time::ZERO, 10.0);
        ways.push((v.v, v.way.unwrap()));
    }
    let (up, down) = (Way::Up, Way::Down);
    assert_eq!(ways, [(1.0, down), (2.0, down), (1.0, up), (1.0, down)]);
}

/// delta after `adapt` at `ms`, with these extremes of the last four round trips.
fn adapted(c: &mut Copa, low: u64, high: u64, ms: u64) -> f64 {
    c.low.clear();
    c.high.clear();
    c.low.insert(Time::ZERO, MS * low, Span::MAX);
    c.high.insert(Time::ZERO, MS * high, Span::MAX);
    c.adapt(&mut Cx {
        now: Time::from_millis(ms),
        log: &mut Discard,
    });
    c.delta
}

#[test]
fn a_queue_never_nearly_empty_means_a_competitor() {
    let mut c = steady(Settings::PAPER, 10.0, 50, 60);
    adapted(&mut c, 58, 150, 10_000);
    assert!(!c.competitive);
    adapted(&mut c, 60, 150, 10_000);
    assert!(c.competitive);
}

#[test]
fn competitive_mode_adds_a_packet_per_round_and_halves_on_loss() {
    let mut c = steady(Settings::PAPER, 10.0, 50, 60);
    for (round, delta) in [(1, 1.0 / 3.0), (2, 0.25), (3, 0.2)] {
        assert!(near(adapted(&mut c, 100, 150, round * 100), delta));
    }
    c.lossy = true;
    assert!(near(adapted(&mut c, 100, 150, 400), 0.4));
    c.lossy = true;
    assert!(near(adapted(&mut c, 100, 150, 500), 0.5));
    assert!(near(adapted(&mut c, 50, 150, 510), 0.5) && !c.competitive);
}

/// A packet more per round must not make the flow deaf to a loss of the same round.
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
    // One millisecond after the packet more: 1/3 doubled, but no more than 0.5.
    assert!(near(lost(&mut c, 1001), 0.5));
    c.delta = 0.1;
    assert!(near(lost(&mut c, 1030), 0.1), "the standing RTT is 60 ms");
    assert!(near(lost(&mut c, 1061), 0.2));
}

#[test]
fn genericcc_waits_for_nineteen_acknowledgements() {
    let mut b = Bench::of("copa:profile=original");
    b.wait(MS * 100);
    for _ in 0..18 {
        b.ack(MS * 100);
    }
    assert_eq!(b.window(), 10.0);
    b.ack(MS * 100);
    assert_eq!(b.window(), 11.0);
    b.ack(MS * 100);
    assert_eq!(b.window(), 12.0);
}

#[test]
fn mvfst_doubles_once_per_smoothed_rtt() {
    let mut b = Bench::of("copa:profile=mvfst");
    b.wait(MS * 100);
    b.ack(MS * 100);
    b.wait(MS * 100);
    b.ack(MS * 100);
    assert_eq!(b.window(), 10.0);
    b.wait(MS);
    b.ack(MS * 100);
    assert_eq!(b.window(), 20.0);
    b.timeout(1);
    assert_eq!(b.window(), 2.0);
}

#[test]
fn only_heavy_loss_shrinks_the_window() {
    for (lost, factor) in [(6, 1.0), (7, 0.7)] {
        let mut c = steady(Settings::ORIGINAL, 100.0, 50, 60);
        (c.lost, c.seen) = (lost, 21);
        c.weigh_losses(&mut Cx {
            now: Time::from_millis(121),
            log: &mut Discard,
        });
        assert!(near(c.window, 100.0 * factor));
    }
}

#[test]
fn the_standing_rtt_looks_back_half_an_rtt() {
    let mut f = WindowedMin::new();
    let window = MS * 20;
    for (t, rtt) in [(0, 50), (10, 50), (20, 90), (30, 52)] {
        f.insert(Time::from_millis(t), MS * rtt, window);
    }
    assert_eq!(f.get(), Some(MS * 50));
    f.insert(Time::from_millis(31), MS * 53, window);
    assert_eq!(f.get(), Some(MS * 52));
}

#[test]
fn slow_start_leaves_without_the_queue_it_made() {
    let mut c = steady(Settings::TUNED, 40.0, 50, 100);
    c.slow_start = true;
    // 20 packets are queued; five are wanted: the window for that is 10.
    assert!(!c.slow_step(
        &mut Cx {
            now: Time::ZERO,
            log: &mut Discard
        },
        Way::Down
    ));
    assert!(near(c.window, 20.0));
}

#[test]
fn an_overload_drains_half_a_packet_per_packet() {
    let mut c = steady(Settings::TUNED, 100.0, 50, 100);
    assert!(near(step(&mut c), 99.5));
    assert!(c.loaded);
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
