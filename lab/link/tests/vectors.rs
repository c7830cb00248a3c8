// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vectors worked out by hand from what the models promise, not from what they do.
mod support;

use alcc_link::{
    Changes, Dir, Direction, DirectionSpec, DropReason, Ecn, Outcome, Packet, QueueSpec, RateSpec,
};
use alcc_units::{Bytes, Rate, Span, Time};
use support::{link, trace};

fn packet(id: u64, len: u64) -> Packet {
    Packet {
        id,
        flow: 0,
        len: Bytes::new(len),
        ecn: Ecn::NotEct,
    }
}

fn us(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

/// (packet, delivered at, queueing delay), in ns.
fn delivered(out: &[Outcome]) -> Vec<(u64, u64, u64)> {
    out.iter()
        .filter_map(|o| match o {
            Outcome::Delivered {
                at,
                packet,
                queue_delay,
                ..
            } => Some((packet.id, at.as_nanos(), queue_delay.as_nanos())),
            _ => None,
        })
        .collect()
}

fn dropped(out: &[Outcome]) -> Vec<(u64, u64, DropReason)> {
    out.iter()
        .filter_map(|o| match o {
            Outcome::Dropped { at, packet, why } => Some((packet.id, at.as_nanos(), *why)),
            _ => None,
        })
        .collect()
}

fn run(mut link: Direction, pushes: &[(Time, u64, u64)]) -> Vec<Outcome> {
    let mut out = Vec::new();
    for &(at, id, len) in pushes {
        link.push(at, packet(id, len), &mut out);
    }
    while let Some(at) = link.next_event() {
        link.advance(at, &mut out);
    }
    assert_eq!(link.inside(), 0);
    out
}

// ---- trace-driven: one opportunity of 1500 bytes per ms is 12 Mbit/s ----

#[test]
fn a_full_packet_takes_the_next_opportunity() {
    let out = run(link(trace(&[1]), "droptail"), &[(us(300), 1, 1500)]);
    assert_eq!(delivered(&out), [(1, 1_000_000, 700_000)]);
}

#[test]
fn small_packets_share_an_opportunity() {
    let pushes = [(us(100), 1, 750), (us(200), 2, 750), (us(300), 3, 40)];
    let out = run(link(trace(&[1]), "droptail"), &pushes);
    assert_eq!(
        delivered(&out),
        [
            (1, 1_000_000, 900_000),
            (2, 1_000_000, 800_000),
            (3, 2_000_000, 1_700_000)
        ]
    );
}

#[test]
fn what_is_left_of_a_packet_goes_on_in_the_next_opportunity() {
    // 1000 + 1000: the second has 500 in the first opportunity and 500 in the next, where 1000
    // remain for the third.
    let pushes = [(us(0), 1, 1000), (us(0), 2, 1000), (us(0), 3, 1000)];
    let out = run(link(trace(&[1]), "droptail"), &pushes);
    let at: Vec<_> = delivered(&out).iter().map(|d| d.1 / 1_000_000).collect();
    assert_eq!(at, [1, 2, 2]);
    // 4000 bytes need three opportunities, and what the third has over is lost: the next packet
    // comes after
    let out = run(
        link(trace(&[1]), "droptail"),
        &[(us(0), 1, 4000), (us(3000), 2, 500)],
    );
    let at: Vec<_> = delivered(&out).iter().map(|d| d.1 / 1_000_000).collect();
    assert_eq!(at, [3, 4]);
}

#[test]
fn a_packet_that_arrives_at_the_moment_of_an_opportunity_has_missed_it() {
    let out = run(link(trace(&[1]), "droptail"), &[(us(1000), 1, 1500)]);
    assert_eq!(delivered(&out), [(1, 2_000_000, 1_000_000)]);
}

#[test]
fn opportunities_in_one_millisecond_serve_as_many_packets() {
    let pushes: Vec<_> = (0..4).map(|id| (us(10), id, 1500)).collect();
    // period 5 ms: 3 at 2 ms, 1 at 5 ms
    let out = run(link(trace(&[2, 2, 2, 5]), "droptail"), &pushes);
    let at: Vec<_> = delivered(&out).iter().map(|d| d.1 / 1_000_000).collect();
    assert_eq!(at, [2, 2, 2, 5]);
}

#[test]
fn a_trace_repeats_and_an_hour_of_silence_is_one_leap() {
    // period 10 ms, opportunities at 3 and 10. 3,600,001 ms: next is 3,600,003.
    let mut link = link(trace(&[3, 10]), "droptail");
    assert_eq!(link.next_event(), None);
    let mut out = Vec::new();
    link.push(Time::from_millis(3_600_001), packet(1, 1500), &mut out);
    assert_eq!(link.next_event(), Some(Time::from_millis(3_600_003)));
    link.advance(Time::from_millis(7_200_000), &mut out);
    link.push(Time::from_millis(7_200_004), packet(2, 1500), &mut out);
    assert_eq!(link.next_event(), Some(Time::from_millis(7_200_010)));
    // a hundred years in: an iteration over the opportunities would not come back
    let far = Time::from_millis(3_155_760_000_000);
    link.advance(far, &mut out);
    link.push(far, packet(3, 1500), &mut out);
    assert_eq!(link.next_event(), Some(far + Span::from_millis(3)));
}

#[test]
fn opportunities_of_a_window_exclude_its_begin_and_include_its_end() {
    let link = link(trace(&[3, 10]), "droptail");
    let bytes = |from, to| {
        link.opportunity_bytes(Time::from_millis(from), Time::from_millis(to))
            .get()
    };
    assert_eq!(bytes(0, 10), 3000);
    assert_eq!(bytes(3, 10), 1500);
    assert_eq!(bytes(3, 13), 3000);
    assert_eq!(bytes(0, 1000), 200 * 1500);
    assert_eq!(bytes(13, 3), 0);
}

// ---- fixed rate ----

#[test]
fn twelve_megabit_serialise_a_full_packet_in_a_millisecond() {
    let pushes = [(us(300), 1, 1500), (us(300), 2, 1500), (us(5000), 3, 750)];
    let out = run(link(RateSpec::Fixed(Rate::mbps(12)), "droptail"), &pushes);
    assert_eq!(
        delivered(&out),
        [
            (1, 1_300_000, 1_000_000),
            (2, 2_300_000, 2_000_000),
            (3, 5_500_000, 500_000)
        ]
    );
}

#[test]
fn back_to_back_packets_do_not_drift() {
    // 100 bytes at 7 Mbit/s: 800/7 us = 114,285 + 5/7 ns each. 7,000 of them take 800 ms to the
    // nanosecond, where rounding each one up would add 2 us.
    let pushes: Vec<_> = (0..7000).map(|id| (us(0), id, 100)).collect();
    let out = delivered(&run(
        link(RateSpec::Fixed(Rate::mbps(7)), "droptail"),
        &pushes,
    ));
    assert_eq!(out[0].1, 114_286);
    assert_eq!(out[1].1, 228_572);
    assert_eq!(out[6].1, 800_000);
    assert_eq!(out[6999].1, 800_000_000);
}

#[test]
fn a_link_at_standstill_never_delivers() {
    let mut link = link(RateSpec::Fixed(Rate::ZERO), "droptail");
    let mut out = Vec::new();
    link.push(us(0), packet(1, 40), &mut out);
    link.advance(Time::MAX, &mut out);
    assert_eq!((link.next_event(), link.inside()), (None, 1));
    assert!(delivered(&out).is_empty());
}

// ---- delay, loss, order ----

#[test]
fn both_orders_add_delay_and_queueing() {
    let spec = DirectionSpec {
        rate: trace(&[1]),
        queue: QueueSpec::infinite(),
        delay: Span::from_micros(20_300),
        ..DirectionSpec::default()
    };
    // down: at the bottleneck at 20.4 ms, through at 21; up: through the bottleneck at 1 ms, there
    // at 21.3
    let down = run(Direction::new(&spec, Dir::Down, 1), &[(us(100), 1, 1500)]);
    assert_eq!(delivered(&down), [(1, 21_000_000, 600_000)]);
    let up = run(Direction::new(&spec, Dir::Up, 1), &[(us(100), 1, 1500)]);
    assert_eq!(delivered(&up), [(1, 21_300_000, 900_000)]);
    assert!(matches!(up[1], Outcome::Departed { at, .. } if at == us(1000)));
}

#[test]
fn without_a_bottleneck_only_the_delay_remains() {
    let spec = DirectionSpec {
        delay: Span::from_millis(20),
        ..DirectionSpec::default()
    };
    for order in [Dir::Down, Dir::Up] {
        let out = run(
            Direction::new(&spec, order, 1),
            &[(us(5), 1, 9000), (us(6), 2, 1)],
        );
        assert_eq!(delivered(&out), [(1, 20_005_000, 0), (2, 20_006_000, 0)]);
    }
}

#[test]
fn loss_is_as_frequent_as_asked_and_repeats_with_the_seed() {
    let spec = DirectionSpec {
        loss: 0.02,
        ..DirectionSpec::default()
    };
    let pushes: Vec<_> = (0..100_000).map(|id| (us(id), id, 1500)).collect();
    for order in [Dir::Down, Dir::Up] {
        let lost = |seed| dropped(&run(Direction::new(&spec, order, seed), &pushes));
        let first = lost(7);
        // binomial: 2000, standard deviation 44
        assert!((1_800..2_200).contains(&first.len()), "{}", first.len());
        assert!(first.iter().all(|d| d.2 == DropReason::Loss));
        assert_eq!(first, lost(7));
        assert_ne!(first, lost(8));
    }
    let all = DirectionSpec { loss: 1.0, ..spec };
    let out = run(Direction::new(&all, Dir::Down, 1), &pushes[..100]);
    assert_eq!(dropped(&out).len(), 100);
}

// ---- changes ----

fn changing(rate: RateSpec, delay_ms: u64, steps: &[&str]) -> DirectionSpec {
    DirectionSpec {
        rate,
        queue: QueueSpec::infinite(),
        delay: Span::from_millis(delay_ms),
        changes: Changes::of(steps.iter().map(|s| s.parse().unwrap()).collect()),
        ..DirectionSpec::default()
    }
}

#[test]
fn a_rate_that_changes_under_a_packet_carries_what_is_left_of_it() {
    // 12 Mbit/s: 1 ms each. From 1.25 ms on 3 Mbit/s: the second has a quarter done and needs 3 ms
    // for the rest; the third 4 ms. At 6 ms the rate becomes zero, when 1.75 of those 4 ms are
    // done; from 10 ms on 6 Mbit/s: 2.25 ms become 1.125.
    let steps = ["1250us:rate=3mbit", "6ms:rate=0bit", "10ms:rate=6mbit"];
    let spec = changing(RateSpec::Fixed(Rate::mbps(12)), 0, &steps);
    let pushes = [(us(0), 1, 1500), (us(0), 2, 1500), (us(0), 3, 1500)];
    let link = Direction::new(&spec, Dir::Down, 1);
    let offered = |from, to| link.opportunity_bytes(us(from), us(to)).get();
    // 1.25 ms of 1500 bytes, 4.75 ms of 375, nothing, 1.125 ms of 750: 1875 + 1781.25 + 843.75
    // bytes
    assert_eq!(offered(0, 11_125), 4500);
    assert_eq!(offered(6_000, 10_000), 0);
    let out = delivered(&run(link, &pushes));
    let at: Vec<_> = out.iter().map(|d| d.1 / 1000).collect();
    assert_eq!(at, [1000, 4250, 11_125]);
}

#[test]
fn steps_at_the_moment_of_a_packet_come_before_it_and_after_what_ends_then() {
    // The first ends at 1 ms as the rate becomes 1.2 Mbit/s; the second begins then and takes 10
    // ms. The packet of 30 ms finds 12 Mbit/s again, although the bottleneck was idle at the change
    // at 20 ms.
    let steps = ["1ms:rate=1200kbit", "20ms:rate=12mbit"];
    let spec = changing(RateSpec::Fixed(Rate::mbps(12)), 0, &steps);
    let pushes = [(us(0), 1, 1500), (us(0), 2, 1500), (us(30_000), 3, 1500)];
    let out = delivered(&run(Direction::new(&spec, Dir::Up, 1), &pushes));
    let at: Vec<_> = out.iter().map(|d| d.1 / 1000).collect();
    assert_eq!(at, [1000, 11_000, 31_000]);
}

#[test]
fn a_rate_after_a_trace_and_after_none() {
    // 1 ms: 1500 of 2000 bytes; from 1.5 ms on 4 Mbit/s: 500 bytes in 1 ms
    let spec = changing(trace(&[1]), 0, &["1500us:rate=4mbit"]);
    let out = delivered(&run(
        Direction::new(&spec, Dir::Down, 1),
        &[(us(0), 1, 2000)],
    ));
    assert_eq!(out, [(1, 2_500_000, 2_500_000)]);
    // nothing waits until 5 ms, then 12 Mbit/s
    let spec = changing(RateSpec::Unlimited, 0, &["5ms:rate=12mbit"]);
    let link = Direction::new(&spec, Dir::Down, 1);
    assert_eq!(link.opportunity_bytes(us(5_000), us(6_000)).get(), 1500);
    let out = run(link, &[(us(0), 1, 1500), (us(5_000), 2, 1500)]);
    assert_eq!(delivered(&out), [(1, 0, 0), (2, 6_000_000, 1_000_000)]);
}

#[test]
fn a_delay_that_shrinks_overtakes_only_if_asked() {
    // 50 ms, from 10 ms on 20, from 20 ms on 30. Sent at 5, 10, 15 and 20: due at 55, 30, 35
    // and 50.
    let mut spec = changing(
        RateSpec::Unlimited,
        50,
        &["10ms:delay=20ms", "20ms:delay=30ms"],
    );
    let pushes = [5, 10, 15, 20].map(|ms| (us(ms * 1000), ms, 1500));
    for (reorder, want) in [
        (false, [(5, 55), (10, 55), (15, 55), (20, 55)]),
        (true, [(10, 30), (15, 35), (20, 50), (5, 55)]),
    ] {
        spec.changes.reorder = reorder;
        for order in [Dir::Down, Dir::Up] {
            let out = delivered(&run(Direction::new(&spec, order, 1), &pushes));
            let at: Vec<_> = out.iter().map(|d| (d.0, d.1 / 1_000_000)).collect();
            assert_eq!(at, want);
        }
    }
}

#[test]
fn loss_changes_and_comes_back() {
    // none, all from 100 to 200 ms, again each 300 ms
    let mut spec = changing(RateSpec::Unlimited, 1, &["100ms:loss=1", "200ms:loss=0"]);
    spec.changes.repeat = Some(Span::from_millis(300));
    let pushes: Vec<_> = (0..900).map(|ms| (us(ms * 1000), ms, 40)).collect();
    // Down: loss is met after the delay of 1 ms, up before it
    for (order, first) in [(Dir::Down, 99), (Dir::Up, 100)] {
        let lost: Vec<_> = dropped(&run(Direction::new(&spec, order, 1), &pushes));
        let lost: Vec<_> = lost.iter().map(|d| d.0).collect();
        let want: Vec<_> = [0, 300, 600]
            .iter()
            .flat_map(|r| r + first..r + first + 100)
            .collect();
        assert_eq!(lost, want);
    }
}

// ---- drop-tail ----

#[test]
fn an_opportunity_makes_room_for_a_packet_that_arrives_at_its_moment() {
    // Down, delay 1 ms, room for one. The first is there at 1.5 ms; the second arrives at 2 ms,
    // when the first leaves: it finds the queue empty and has missed that opportunity.
    let spec = DirectionSpec {
        rate: trace(&[1]),
        queue: "droptail:packets=1".parse().unwrap(),
        delay: Span::from_millis(1),
        ..DirectionSpec::default()
    };
    let pushes = [(us(500), 1, 1500), (us(1000), 2, 1500)];
    let out = run(Direction::new(&spec, Dir::Down, 1), &pushes);
    assert_eq!(
        delivered(&out),
        [(1, 2_000_000, 500_000), (2, 3_000_000, 1_000_000)]
    );
}

#[test]
fn droptail_of_two_million_bytes_holds_1333_full_packets() {
    // 1333 * 1500 = 1,999,500: 500 bytes remain for a small packet, not for a full one. The first
    // is waiting, too, because on a trace no packet leaves the queue before an opportunity.
    let mut pushes: Vec<_> = (1..=1335).map(|id| (us(10), id, 1500)).collect();
    pushes.push((us(20), 1336, 500));
    pushes.push((us(30), 1337, 1));
    let out = run(link(trace(&[1]), "droptail:bytes=2000000"), &pushes);
    let gone: Vec<_> = dropped(&out).iter().map(|d| d.0).collect();
    assert_eq!(gone, [1334, 1335, 1337]);
    assert!(dropped(&out).iter().all(|d| d.2 == DropReason::Overflow));
}

#[test]
fn on_a_fixed_link_the_packet_in_service_has_left_the_queue() {
    let pushes: Vec<_> = (1..=4).map(|id| (us(0), id, 1500)).collect();
    let out = run(
        link(RateSpec::Fixed(Rate::mbps(12)), "droptail:packets=2"),
        &pushes,
    );
    assert_eq!(delivered(&out).len(), 3);
    assert_eq!(dropped(&out), [(4, 0, DropReason::Overflow)]);
}

// ---- CoDel (RFC 8289) ----

#[test]
fn codel_drops_at_the_times_of_its_control_law() {
    // 1000 packets at once, one leaves per ms: the k-th millisecond finds a wait of k ms. It
    // reaches the target at 5 ms, has been there for an interval at 105. Then 105 + 100 = 205, +
    // 100/sqrt(2) = 275.71, + 100/sqrt(3) = 333.45, + 50 = 383.45,
    // + 100/sqrt(5) = 428.17, + 100/sqrt(6) = 468.99; each takes effect at the next millisecond.
    let pushes: Vec<_> = (1..=1000).map(|id| (us(0), id, 1500)).collect();
    let out = run(link(trace(&[1]), "codel"), &pushes);
    let at: Vec<_> = dropped(&out).iter().map(|d| d.1 / 1_000_000).collect();
    assert_eq!(at[..7], [105, 205, 276, 334, 384, 429, 469]);
    assert!(dropped(&out).iter().all(|d| d.2 == DropReason::Aqm));
    // From the head: the packet that would have departed then.
    assert_eq!(dropped(&out)[0].0, 105);
    assert_eq!(dropped(&out)[1].0, 206);
}

#[test]
fn codel_lets_a_burst_pass_that_is_gone_within_an_interval() {
    let pushes: Vec<_> = (1..=100).map(|id| (us(0), id, 1500)).collect();
    let out = run(link(trace(&[1]), "codel"), &pushes);
    assert_eq!((delivered(&out).len(), dropped(&out).len()), (100, 0));
}

#[test]
fn codel_never_drops_the_last_packet() {
    // one packet waits 400 ms for each opportunity, far above target, but never another behind it
    let pushes: Vec<_> = (0..20).map(|id| (us(id * 400_000), id, 1500)).collect();
    let out = run(link(trace(&[400]), "codel"), &pushes);
    assert_eq!(dropped(&out).len(), 0);
}
