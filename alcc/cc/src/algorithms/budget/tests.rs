// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::testing::Bench;

/// A packet every millisecond.
fn acks(b: &mut Bench, count: u64, rtt: u64) {
    for _ in 0..count {
        b.wait(Span::from_millis(1));
        b.ack(Span::from_millis(rtt));
    }
}

#[test]
fn the_window_is_what_the_path_may_deliver() {
    let mut b = Bench::of("budget:delay=50ms");
    acks(&mut b, 100, 100);
    assert_eq!(b.window(), 110.0, "start: a packet more for each");
    // A queue of more than 25 ms ends the start. A path that never varies: 1000/s * (100 + 25) ms,
    // and two packets.
    acks(&mut b, 1010, 130);
    assert!((b.window() - 127.0).abs() < 2.0, "{}", b.window());
    assert_eq!(b.gauge("queue_ms"), 30.0);
    // Paced over the smallest RTT of the last second.
    let rate = b.cc.allowance().rate.unwrap().as_bps() as f64;
    assert!(
        (rate / (127.0 * 8000.0 / 0.130) - 1.0).abs() < 0.02,
        "{rate}"
    );
}

#[test]
fn a_path_that_delivers_in_bunches_gets_them_whole() {
    let mut b = Bench::of("budget:delay=50ms");
    acks(&mut b, 100, 100);
    // 150 packets every 150 ms, so 1500/s in the 100 ms around a bunch; each bunch found the queue
    // empty, so 1.3 times; for (100 + 10) ms.
    for _ in 0..10 {
        b.wait(Span::from_millis(149));
        acks(&mut b, 1, 180);
        for _ in 0..149 {
            b.ack(Span::from_millis(180));
        }
    }
    assert!((b.window() - (214.5 + 2.0)).abs() < 1.0, "{}", b.window());
}

#[test]
fn a_drain_lasts_until_a_packet_sent_in_it_is_back() {
    let mut b = Bench::of("budget:delay=50ms");
    acks(&mut b, 100, 100);
    acks(&mut b, 2899, 130);
    assert!((b.window() - 127.0).abs() < 2.0, "{}", b.window());
    // At 3 s of the clock: 1000/s * (100 - 50) ms.
    acks(&mut b, 129, 130);
    assert!((b.window() - 50.0).abs() < 2.0, "{}", b.window());
    acks(&mut b, 3, 130);
    assert!((b.window() - 127.0).abs() < 2.0, "{}", b.window());
    // A drain in which a new smallest RTT is seen goes on from there.
    acks(&mut b, 6000 - 3131 + 50, 130);
    assert!((b.window() - 50.0).abs() < 2.0, "{}", b.window());
    acks(&mut b, 60, 60);
    assert!(b.window() < 15.0, "{}", b.window());
    assert_eq!(b.gauge("rtt_min_ms"), 60.0);
    acks(&mut b, 400, 60);
    // Nothing waits any more: 1.3 * 1000/s * (60 + 10) ms, and two packets.
    assert!((b.window() - 93.0).abs() < 4.0, "{}", b.window());
}

#[test]
fn a_drain_of_which_nothing_comes_back_sends_two_more() {
    let mut b = Bench::of("budget:delay=100ms");
    acks(&mut b, 100, 100);
    acks(&mut b, 2929, 160);
    assert_eq!(b.window(), 2.0);
    // Nothing more comes: two RTTs, then four.
    let at = b.cc.next_timer().unwrap();
    assert_eq!(at, b.now + Span::from_millis(320));
    b.timer();
    assert_eq!(b.window(), 2.0, "early");
    b.wait(Span::from_millis(320));
    b.timer();
    assert_eq!(b.window(), 4.0);
    assert_eq!(b.cc.next_timer(), Some(at + Span::from_millis(640)));
    // Two of them are back.
    b.wait(Span::from_millis(100));
    acks(&mut b, 1, 100);
    assert!(b.window() > 100.0, "{}", b.window());
    assert_eq!(b.cc.next_timer(), None);
}

#[test]
fn losses_reported_in_a_drain_leave_the_window_after_it() {
    let mut b = Bench::of("budget:delay=100ms");
    acks(&mut b, 100, 100);
    acks(&mut b, 2929, 160);
    assert_eq!(b.window(), 2.0);
    b.lose(10, true);
    b.recovered();
    acks(&mut b, 160, 100);
    // 1000/s * 100 ms: no queue, until the test has attributed the losses.
    assert!((b.window() - 100.0).abs() < 3.0, "{}", b.window());
}

/// From 100 ms on others keep 60 ms of queue, which no drain lowers.
fn beside_others(until: u64) -> Bench {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    acks(&mut b, until - 100, 160);
    b
}

#[test]
fn four_drains_that_lower_nothing_begin_a_competition() {
    let mut b = beside_others(12_150);
    acks(&mut b, 1850, 160);
    // 1000/s * 160 ms, and a packet more in each 160 ms from 350 ms after the fourth drain.
    assert!((160.0..173.0).contains(&b.window()), "{}", b.window());
    let from = b.window();
    acks(&mut b, 1600, 160);
    let grown = b.window() - from;
    assert!((8.5..10.5).contains(&grown), "{grown}");
    assert_eq!(b.gauge("rtt_min_ms"), 100.0, "others are no longer path");
}

#[test]
fn three_drains_that_lower_nothing_do_not() {
    let b = beside_others(11_900);
    // 1000/s * (100 + 20) ms, and two packets.
    assert!((b.window() - 122.0).abs() < 2.0, "{}", b.window());
}

#[test]
fn a_queue_that_did_not_stand_before_the_drains_is_none_of_others() {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    acks(&mut b, 2900, 125);
    for refilled in [1800, 1800, 1800, 1000] {
        acks(&mut b, 400, 160);
        acks(&mut b, 800, 100);
        acks(&mut b, refilled, 125);
    }
    // 1000/s * (100 + 20) ms, and two packets. A window that competes begins with 160.
    assert!((b.window() - 122.0).abs() < 2.0, "{}", b.window());
}

#[test]
fn while_it_competes_a_loss_takes_a_third_once_and_drains_are_fewer() {
    let mut b = beside_others(14_000);
    let window = b.window();
    b.lose(2, true);
    b.recovered();
    acks(&mut b, 1, 160);
    let kept = b.window() / window;
    assert!((0.68..0.80).contains(&kept), "{kept}");
    let (mut least, mut at) = (f64::MAX, 0);
    for ms in 14_002..24_500 {
        acks(&mut b, 1, 160);
        if b.window() < least {
            (least, at) = (b.window(), ms);
        }
    }
    assert!((24_000..24_400).contains(&at), "{at}");
}

/// A packet sent at this time is lost.
fn lose_one_sent_at(b: &mut Bench, sent_at: Time) {
    let lost = [b.packet(sent_at, None)];
    let loss = LossBatch {
        lost: &lost,
        new_episode: true,
        in_flight: Bytes::ZERO,
        rtt: b.view(),
    };
    let (now, log) = (b.now, &mut crate::Discard);
    b.cc.on_loss(&mut Cx { now, log }, &loss);
}

/// The growth of the window in the next 200 ms, packets per round trip.
fn growth(b: &mut Bench) -> f64 {
    let from = b.window();
    acks(b, 200, 160);
    (b.window() - from) * (b.window() + from) / 2.0 / 200.0
}

/// The state after the loss of a packet sent `sent_after` after the competition began at 12.16 s.
fn first_loss(sent_after: i64) -> Bench {
    let mut b = beside_others(15_000);
    let sent_at = Time::from_millis(12_160_u64.strict_add_signed(sent_after));
    lose_one_sent_at(&mut b, sent_at);
    acks(&mut b, 1, 160);
    b
}

#[test]
fn after_its_first_loss_the_window_that_competes_grows_by_time() {
    let mut b = first_loss(2_000);
    // A packet and one per second since the loss, but at most 3 % of the window.
    for (after, by_time) in [(1_000, 2.1), (3_800, 6.1), (1_800, 8.1), (800, 9.1)] {
        acks(&mut b, after - 1, 160);
        let from = b.window();
        let grown = growth(&mut b);
        let want = f64::min(by_time, from * 0.03);
        assert!((grown - want).abs() < 0.1, "{grown} {want}");
        acks(&mut b, 1, 160);
    }
    lose_one_sent_at(&mut b, Time::from_millis(22_900));
    acks(&mut b, 1, 160);
    let grown = growth(&mut b);
    assert!((grown - 1.1).abs() < 0.1, "from the last cut: {grown}");
}

#[test]
fn before_a_first_loss_it_grows_by_a_packet_however_long() {
    let mut b = beside_others(13_000);
    for _ in 0..10 {
        let grown = growth(&mut b);
        assert!((grown - 1.0).abs() < 0.05, "{grown}");
        acks(&mut b, 800, 160);
    }
}

#[test]
fn a_loss_of_packets_sent_before_the_competition_does_not_cut() {
    let window = beside_others(15_000).window();
    let mut b = first_loss(-100);
    assert!((b.window() - window).abs() < 0.1, "{}", b.window());
    acks(&mut b, 2_000, 160);
    let grown = growth(&mut b);
    assert!((grown - 1.0).abs() < 0.05, "{grown}");
    let cut = first_loss(100).window() / window;
    assert!((cut - 0.7).abs() < 0.01, "{cut}");
}

#[test]
fn a_drain_that_empties_the_path_ends_the_competition() {
    let mut b = beside_others(14_000);
    acks(&mut b, 9_900, 160);
    assert!(b.window() > 200.0, "{}", b.window());
    acks(&mut b, 800, 100);
    assert!(b.window() < 170.0, "{}", b.window());
}

/// The RTT is `rtt` ms instead of 100. After a first drain a packet comes each `every` ms. In the
/// second drain the RTT is `drained`. The smallest RTT after it.
fn rtt_min_after_two_drains(rtt: u64, every: u64, drained: u64) -> f64 {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    acks(&mut b, 3_300, rtt);
    while b.now < Time::from_millis(6_400) {
        let draining = b.now >= Time::from_millis(6_000);
        b.wait(Span::from_millis(every - 1));
        acks(&mut b, 1, if draining { drained } else { rtt });
    }
    b.gauge("rtt_min_ms")
}

#[test]
fn a_longer_route_is_seen_after_a_drain() {
    assert_eq!(rtt_min_after_two_drains(112, 2, 112), 112.0);
    assert_eq!(rtt_min_after_two_drains(112, 1, 112), 100.0, "rate held");
}

/// Half of the packets come after the first drain. The RTTs of the second are known to 2 ms, those of
/// the third to 1 ms.
#[test]
fn the_rate_has_fallen_since_the_last_drain_however_well_its_rtts_were_known() {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    acks(&mut b, 3_300, 112);
    while b.now < Time::from_millis(9_400) {
        let middle = (6_000..6_400).contains(&(b.now.as_nanos() / 1_000_000));
        b.rtt_error = Span::from_millis(if middle { 2 } else { 1 });
        b.wait(Span::from_millis(1));
        acks(&mut b, 1, 112);
    }
    assert_eq!(b.gauge("rtt_min_ms"), 100.0);
}

#[test]
fn an_rtt_that_changes_in_the_drain_is_no_longer_route() {
    assert_eq!(rtt_min_after_two_drains(120, 2, 112), 100.0, "lowered");
    assert_eq!(rtt_min_after_two_drains(112, 2, 118), 100.0, "filled");
}

#[test]
fn what_siblings_and_others_leave_is_no_longer_route() {
    // 250 packets a second: five are 20 ms.
    assert_eq!(rtt_min_after_two_drains(112, 4, 112), 100.0, "siblings");
    assert_eq!(rtt_min_after_two_drains(131, 2, 131), 100.0, "others");
    assert_eq!(rtt_min_after_two_drains(130, 2, 130), 130.0);
}

/// A route is longer in both directions. Acknowledgements show half of it at once, packets the rest half a round trip
/// later, when the smallest RTT of a second is still that of the first half.
#[test]
fn a_route_that_gets_longer_in_two_steps_is_drained_after_the_second() {
    let mut b = Bench::of("budget");
    acks(&mut b, 300, 300);
    acks(&mut b, 3_700, 310);
    acks(&mut b, 200, 400);
    acks(&mut b, 1_090, 500);
    assert_eq!(b.gauge("rtt_min_ms"), 300.0);
    acks(&mut b, 600, 500);
    assert_eq!(b.gauge("rtt_min_ms"), 500.0);
}

/// The rate falls as the route gets longer, so the first drain removes a queue of 40 ms. A packet comes each `every` ms.
/// The smallest RTT before a second drain, and after it.
fn rtt_min_around_a_second_drain(every: u64) -> (f64, f64) {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    let mut before = 0.0;
    for (until, rtt) in [(3_500, 115), (4_650, 210), (5_950, 170), (6_550, 170)] {
        before = b.gauge("rtt_min_ms");
        while b.now < Time::from_millis(until) {
            b.wait(Span::from_millis(every - 1));
            acks(&mut b, 1, rtt);
        }
    }
    (before, b.gauge("rtt_min_ms"))
}

#[test]
fn a_drain_that_removes_a_queue_but_not_the_jump_is_repeated() {
    assert_eq!(rtt_min_around_a_second_drain(1), (100.0, 170.0));
    // 200 packets a second: five are 25 ms, so there may be many siblings.
    assert_eq!(rtt_min_around_a_second_drain(5), (100.0, 100.0));
}

/// Others keep a queue; before the fourth drain the rate is half. The window after it.
fn halved_beside_others(queue: u64) -> f64 {
    let mut b = Bench::of("budget");
    let rtt = 100 + queue;
    acks(&mut b, 100, 100);
    acks(&mut b, 9_000 + rtt - 100, rtt);
    while b.now < Time::from_millis(12_000 + rtt + 10) {
        b.wait(Span::from_millis(1));
        acks(&mut b, 1, rtt);
    }
    b.window()
}

#[test]
fn in_a_deep_buffer_a_competition_begins_with_the_best_rate() {
    // 750/s * 160 ms: from 1.5 budgets on the buffer is deep.
    let shallow = halved_beside_others(60);
    assert!((shallow - 120.0).abs() < 2.0, "{shallow}");
    // 1000/s * 161 ms.
    let deep = halved_beside_others(61);
    assert!((deep - 161.0).abs() < 2.0, "{deep}");
}

#[test]
fn cuts_are_two_seconds_apart() {
    // At 15 s.
    let mut b = first_loss(2_000);
    acks(&mut b, 1_990, 160);
    let window = b.window();
    let sent_at = Time::from_millis(15_500);
    lose_one_sent_at(&mut b, sent_at);
    acks(&mut b, 1, 160);
    assert!((b.window() - window).abs() < 0.1, "{}", b.window());
    acks(&mut b, 10, 160);
    let window = b.window();
    lose_one_sent_at(&mut b, sent_at);
    acks(&mut b, 1, 160);
    // To what it has alone.
    let after = b.window();
    assert!((120.0..126.0).contains(&after) && window > 145.0, "{after}");
}

/// A packet every `every` ms; drains leave a queue of `after` ms. Returns whether that is taken for a longer path after
/// 16 s.
fn slow_beside_others(every: u64, queueing: u64) -> bool {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    for _ in 0..15_900 / every {
        b.wait(Span::from_millis(every - 1));
        acks(&mut b, 1, 100 + queueing);
    }
    b.gauge("rtt_min_ms") == (100 + queueing) as f64
}

#[test]
fn the_residual_queue_of_siblings_is_not_counted_as_others() {
    // 71 packets a second: five are 70 ms.
    assert!(slow_beside_others(14, 60));
    assert!(!slow_beside_others(14, 90));
}

#[test]
fn slow_flows_do_not_distinguish_others_from_siblings() {
    // 50 packets a second: five are 100 ms, more than two budgets.
    assert!(slow_beside_others(20, 150));
}

#[test]
fn a_drain_and_the_refill_after_it_are_not_measured() {
    let mut b = Bench::of("budget:delay=50ms");
    acks(&mut b, 100, 100);
    acks(&mut b, 2900, 130);
    let rates = |b: &mut Bench| (b.gauge("rate_high_mbps"), b.gauge("rate_mean_mbps"));
    let before = rates(&mut b);
    // From 3 s on: 130 ms of draining, 200 ms of filling. The others are still away, so four times
    // as much comes.
    for _ in 0..325 {
        b.wait(Span::from_millis(1));
        for _ in 0..4 {
            b.ack(Span::from_millis(130));
        }
    }
    assert_eq!(rates(&mut b), before);
    // Later arrivals count again.
    acks(&mut b, 10, 130);
    for _ in 0..300 {
        b.wait(Span::from_millis(1));
        for _ in 0..4 {
            b.ack(Span::from_millis(130));
        }
    }
    assert!(rates(&mut b).0 > 2.0 * before.0);
}

/// The window after 2.9 s with `packets` acknowledged each 5 ms and a queue of 25 ms.
fn of_rate(packets: u64) -> f64 {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    for _ in 0..560 {
        b.wait(Span::from_millis(5));
        for _ in 0..packets {
            b.ack(Span::from_millis(125));
        }
    }
    b.window()
}

#[test]
fn where_the_mean_decides_a_flow_yields_a_twentieth_of_the_budget_per_doubling() {
    // Neutral at 1600/s: 20 ms of queue, and two packets.
    let neutral = of_rate(8);
    assert!((neutral - 194.0).abs() < 0.01, "{neutral}");
    // Two doublings: a tenth of 40 ms less.
    let fast = of_rate(32);
    assert!((fast - (6400.0 * 0.116 + 2.0)).abs() < 0.01, "{fast}");
}

#[test]
fn where_the_quantile_decides_it_yields_a_fortieth_from_1000_packets_a_second_on() {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    // 400 packets each 100 ms, and each bunch found the queue empty.
    for _ in 0..25 {
        b.wait(Span::from_millis(100));
        for _ in 0..400 {
            b.ack(Span::from_millis(180));
        }
    }
    let want = 1.3 * 4000.0 * 0.108 - 4000.0 * 0.040 * 2.0 / 40.0 + 2.0;
    assert!((b.window() - want).abs() < 1.0, "{} {want}", b.window());
}

/// The least and the largest window of the next 50 ms.
fn windows(b: &mut Bench) -> (f64, f64) {
    (0..50).fold((f64::MAX, 0.0), |(least, most), _| {
        acks(b, 1, 130);
        (least.min(b.window()), most.max(b.window()))
    })
}

#[test]
fn a_part_of_a_packet_is_in_flight_for_that_part_of_the_acks() {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 104);
    let mut whole = 0.0;
    for turn in 0..590 {
        b.wait(Span::from_millis(9));
        acks(&mut b, 1, 130);
        if turn >= 390 {
            whole += b.window().floor();
        }
    }
    // 100/s * (104 + 20 ms, and a twentieth of 40 ms for each halving from 1600/s to 1000).
    let want = 100.0 * (0.124 + 0.002 * 1.6_f64.log2()) + 2.0;
    let mean = whole / 200.0;
    assert!((mean - want).abs() < 0.05, "{mean} {want}");
}

#[test]
fn large_windows_and_drains_have_no_phase() {
    let mut b = Bench::of("budget:delay=50ms");
    acks(&mut b, 100, 100);
    acks(&mut b, 2_800, 130);
    let (least, most) = windows(&mut b);
    assert!(least > 100.0 && most - least < 0.1, "{least} {most}");
    acks(&mut b, 60, 130);
    let (least, most) = windows(&mut b);
    assert!(most < 60.0 && most - least < 0.1, "{least} {most}");
}

#[test]
fn losses_that_end_when_less_is_sent_leave_less() {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    acks(&mut b, 600, 125);
    let window = b.window();
    b.lose_one();
    b.recovered();
    assert!((b.window() - window).abs() < 2.0, "{}", b.window());
    b.lose(10, true);
    b.recovered();
    // 1000/s * 100 ms, and two packets.
    assert!((b.window() - 102.0).abs() < 2.0, "{}", b.window());
    acks(&mut b, 300, 100);
    assert!((b.window() - 102.0).abs() < 2.0, "held: {}", b.window());
    // Then two packets more in each 100 ms.
    acks(&mut b, 400, 100);
    let returned = b.window();
    assert!((103.0..114.0).contains(&returned), "{returned}");
}

#[test]
fn packets_that_were_only_late_leave_the_window() {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    acks(&mut b, 600, 125);
    let window = b.window();
    b.lose(10, true);
    assert!((b.window() - 102.0).abs() < 2.0, "{}", b.window());
    b.spurious();
    acks(&mut b, 1, 125);
    assert!((b.window() - window).abs() < 2.0, "{window} {}", b.window());
}

#[test]
fn losses_that_go_on_when_less_is_sent_change_nothing() {
    let mut b = Bench::of("budget");
    acks(&mut b, 100, 100);
    acks(&mut b, 600, 125);
    let window = b.window();
    b.lose(10, true);
    b.recovered();
    assert!(b.window() < 0.9 * window);
    for _ in 0..5 {
        acks(&mut b, 20, 100);
        b.lose_one();
        b.recovered();
    }
    acks(&mut b, 1, 100);
    assert!((b.window() - window).abs() < 3.0, "{window} {}", b.window());
}
