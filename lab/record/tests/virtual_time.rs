// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both ends of a recording over the link models, in virtual time: nothing here waits, and every
//! run is the same.
mod world;

use alcc_record::arrivals::Arrival;
use alcc_record::session::{End, Phase};
use alcc_record::{Load, Mode};
use alcc_trace::{Trace, scenario};
use alcc_units::{Rate, Span, Time};
use world::{World, link, per_second, plan};

/// Prints, for looking at it: `ALCC_TRACES=folder cargo test -p alcc-record --test virtual_time --
/// --ignored --nocapture`.
#[test]
#[ignore = "a study: takes recorded traces and minutes"]
fn study() {
    let dir = std::env::var("ALCC_TRACES").unwrap();
    let load = |name: &str| Trace::parse(&std::fs::read(format!("{dir}/{name}")).unwrap()).unwrap();
    let from: u64 = std::env::var("FROM").map_or(0, |n| n.parse().unwrap());
    for (down, up) in [
        ("alcc/highwayGold", "alcc/highwayGold"),
        ("alcc/rapidGold", "alcc/rapidGold"),
        ("alcc/CampusWalk", "alcc/CampusWalk"),
        ("alcc/highwayGold", "alcc/rapidGold"),
        ("verus-paper/HighWay.down", "verus-paper/HighWay.up"),
        (
            "verus-paper/Campus_Pedestrian.down",
            "verus-paper/Campus_Pedestrian.up",
        ),
        (
            "mahimahi/ATT-LTE-driving-2016.down",
            "mahimahi/ATT-LTE-driving-2016.up",
        ),
        (
            "mahimahi/TMobile-LTE-short.down",
            "mahimahi/TMobile-LTE-short.up",
        ),
        (
            "mahimahi/Verizon-LTE-short.down",
            "mahimahi/Verizon-LTE-short.up",
        ),
    ] {
        let traces = [load(down), load(up)]
            .map(|t| t.cut(Span::from_secs(from), Span::from_secs(110)).unwrap());
        let mut plan = plan(Mode::Saturate, 60);
        plan.warm_up = Span::from_secs(10);
        let mut world = World::new(plan, link(&traces[0]), link(&traces[1]));
        world.run(Span::from_secs(120));
        for (name, dir) in [("down", 0), ("up", 1)] {
            let (recorded, zero) = world.recorded(dir);
            let zero_ms = zero.as_nanos() / 1_000_000;
            // The propagation of the up direction comes after its bottleneck.
            let zero = Time::from_nanos(zero.as_nanos() - dir as u64 * 20_000_000);
            let rows = per_second(&traces[dir], zero, &recorded, 60);
            let share = |&(want, got): &(u64, u64)| (got as f64 / want as f64 - 1.0) * 100.0;
            let worst = rows.iter().map(|r| share(r).abs()).fold(0.0, f64::max);
            let mean = rows.iter().map(|r| share(r).abs()).sum::<f64>() / 60.0;
            let bad: Vec<_> = rows
                .iter()
                .enumerate()
                .filter(|(_, r)| share(r).abs() > 2.0 && r.0.abs_diff(r.1) > 1)
                .map(|(n, r)| (n, *r))
                .collect();
            println!(
                "{down:40} {name:4} zero {zero_ms} sent {:?} worst {worst:.2} % mean {mean:.3} % beyond {bad:?}",
                world.sent(dir)
            );
        }
    }
}

#[test]
fn a_constant_load_arrives_with_its_delay() {
    let mut plan = plan(Mode::Constant, 4);
    plan.size = 1400;
    plan.down = Load::at_rate(Rate::mbps(5), plan.ip_len());
    plan.up = Load::at_rate(Rate::bps(2_500_000), plan.ip_len());
    let fast = Trace::constant(Rate::mbps(24)).unwrap();
    let mut world = World::new(plan, link(&fast), link(&fast));
    world.clocks(3_600_000_000_000, 80.0);
    world.run(Span::from_secs(40));
    assert_eq!(world.client.phase(), Phase::Done(End::Complete));
    for (dir, mbps) in [(0, 5.0), (1, 2.5)] {
        let (recorded, _) = world.recorded(dir);
        // 4 s; data that does not fill an opportunity is left over.
        let bits = recorded.len() as f64 * 12e3;
        assert!((bits - 4e6 * mbps).abs() < 30e3, "{dir}: {bits}");
    }
    let fit = world.client.clock().unwrap();
    // 20 ms each way and up to half a millisecond until the next opportunity: the clocks agree to
    // within that.
    let ours = world.client_clock(world.now()).as_nanos();
    let theirs = world.listener_clock(world.now()).as_nanos();
    let off = fit.offset_ns(ours) - theirs.wrapping_sub(ours).cast_signed() as f64;
    assert!(off.abs() < 1e6, "{off}");
    assert!((39e6..42e6).contains(&fit.round_trip_ns), "{fit:?}");
    assert!(
        (fit.skew() * 1e6 - 80.0).abs() < 60.0,
        "{}",
        fit.skew() * 1e6
    );
    for arrival in &world.client.recorded().arrivals {
        let sent = fit.to_ours(arrival.sent.as_nanos());
        let delay = Time::as_millis_f64(arrival.received) - sent as f64 / 1e6;
        assert!((19.0..22.0).contains(&delay), "{delay}");
    }
}

/// The 2 % that is asked for, over a fast and a slow channel at once: what comes back is the trace.
#[test]
fn the_saturator_gives_the_trace_back() {
    let down = scenario("rapid").unwrap().generate(3, Span::from_secs(60));
    let up = scenario("city-driving")
        .unwrap()
        .generate(4, Span::from_secs(60))
        .scale(0.3)
        .unwrap();
    let mut plan = plan(Mode::Saturate, 40);
    // Long enough to have met what the channel can do.
    plan.warm_up = Span::from_secs(10);
    let mut world = World::new(plan, link(&down), link(&up));
    world.clocks(5_000_000_000, 40.0);
    world.run(Span::from_secs(120));
    assert_eq!(world.client.phase(), Phase::Done(End::Complete));
    assert_eq!(world.listener.phase(), Phase::Done(End::Complete));
    assert_eq!(world.client.fetched(), Some(world.listener.recorded()));
    for (dir, trace) in [(0, &down), (1, &up)] {
        let (recorded, zero) = world.recorded(dir);
        // The propagation of the up direction comes after its bottleneck.
        let zero = Time::from_nanos(zero.as_nanos() - dir as u64 * 20_000_000);
        for (second, (want, got)) in per_second(trace, zero, &recorded, 40)
            .into_iter()
            .enumerate()
        {
            // A second's edge falls between milliseconds: what stands there may be on either side.
            let off = want.abs_diff(got) as f64;
            assert!(
                off <= 0.02 * want as f64 + 6.0,
                "{dir}, second {second}: {want} became {got}"
            );
        }
        let share = recorded.len() as f64 / (trace.mean_rate().as_bps() as f64 * 40.0 / 12e3);
        assert!((0.7..1.3).contains(&share), "{share}");
    }
}

/// An unlimited queue has no loss as a sign of being full, but its length stays within bounds.
#[test]
fn a_deep_queue_is_not_filled_without_end() {
    let steady = Trace::constant(Rate::mbps(12)).unwrap();
    let mut deep = link(&steady);
    deep.queue = "droptail:bytes=1000000000".parse().unwrap();
    let mut world = World::new(plan(Mode::Saturate, 20), deep.clone(), deep);
    world.run(Span::from_secs(60));
    assert_eq!(world.client.phase(), Phase::Done(End::Complete));
    for dir in 0..2 {
        let (recorded, _) = world.recorded(dir);
        assert!(
            (19_950..=20_000).contains(&recorded.len()),
            "{}",
            recorded.len()
        );
    }
    // Own queue: delay above the smallest one. 3 s are aimed at; the report of it is as old as the
    // round trip.
    for recorded in [world.client.recorded(), world.listener.recorded()] {
        let delay = |a: &Arrival| a.received.since(a.sent).as_secs_f64();
        let longest = recorded.arrivals.iter().map(delay).fold(0.0, f64::max);
        assert!((0.4..12.0).contains(&longest), "{longest} s");
    }
}

#[test]
fn an_outage_of_a_minute_is_recorded_and_survived() {
    let mut all: Vec<u32> = (0..20_000).collect();
    all.extend(80_000..110_000);
    let broken = Trace::new(all).unwrap();
    let mut world = World::new(plan(Mode::Saturate, 90), link(&broken), link(&broken));
    world.run(Span::from_secs(180));
    assert_eq!(world.client.phase(), Phase::Done(End::Complete));
    for dir in 0..2 {
        let (recorded, _) = world.recorded(dir);
        assert_eq!(recorded.stats().gaps.max, 60_001);
        // 90 s of which 60 were none; a few milliseconds at the edges.
        assert!(
            (29_500..=30_010).contains(&recorded.len()),
            "{dir}: {}",
            recorded.len()
        );
    }
}

#[test]
fn a_listener_that_dies_leaves_what_had_come() {
    let steady = Trace::constant(Rate::mbps(12)).unwrap();
    let mut world = World::new(plan(Mode::Saturate, 10), link(&steady), link(&steady));
    world.run(Span::from_secs(8));
    world.silence(1);
    world.run(Span::from_secs(90));
    let Phase::Done(End::Silent(_)) = world.client.phase() else {
        panic!("{:?}", world.client.phase());
    };
    let (recorded, _) = world.recorded(0);
    // From 3.9 s on, and what was in the queue at 8 s.
    assert!(
        (3_900..6_000).contains(&recorded.len()),
        "{}",
        recorded.len()
    );
    assert_eq!(world.client.fetched(), None);
}

#[test]
fn a_client_that_dies_is_let_go() {
    let steady = Trace::constant(Rate::mbps(12)).unwrap();
    let mut world = World::new(plan(Mode::Saturate, 10), link(&steady), link(&steady));
    world.run(Span::from_secs(8));
    let sent = world.sent(0);
    world.silence(0);
    world.run(Span::from_secs(90));
    assert!(matches!(
        world.listener.phase(),
        Phase::Done(End::Silent(_))
    ));
    assert!(world.recorded(1).0.len() > 3_900);
    // It does not continue at full rate forever: less than ten seconds, then the minimum rate.
    assert!(world.sent(0) - sent < 20_000, "{}", world.sent(0) - sent);
}

#[test]
fn a_peer_that_leaves_says_so() {
    let steady = Trace::constant(Rate::mbps(12)).unwrap();
    let mut world = World::new(plan(Mode::Constant, 10), link(&steady), link(&steady));
    world.run(Span::from_secs(5));
    world.client.stop();
    world.run(Span::from_secs(9));
    assert_eq!(world.client.phase(), Phase::Done(End::Stopped));
    assert_eq!(world.listener.phase(), Phase::Done(End::Left));
    assert!(!world.listener.recorded().arrivals.is_empty());
}

/// One direction alone: the other one carries reports only.
#[test]
fn one_direction_alone() {
    let steady = Trace::constant(Rate::mbps(12)).unwrap();
    let slow = Trace::constant(Rate::mbps(1)).unwrap();
    let mut plan = plan(Mode::Saturate, 5);
    plan.up = Load::Nothing;
    let mut world = World::new(plan, link(&steady), link(&slow));
    world.run(Span::from_secs(60));
    assert_eq!(world.client.phase(), Phase::Done(End::Complete));
    assert!((4_990..=5_010).contains(&world.recorded(0).0.len()));
    assert_eq!(world.sent(1), 0);
}

/// A tenth of the packets is lost and none is duplicated: all parts of the result still come.
#[test]
fn what_the_listener_recorded_comes_through_loss() {
    let steady = Trace::constant(Rate::mbps(12)).unwrap();
    let mut lossy = link(&steady);
    lossy.loss = 0.1;
    let mut plan = plan(Mode::Constant, 5);
    plan.down = Load::at_rate(Rate::mbps(5), plan.ip_len());
    plan.up = Load::at_rate(Rate::mbps(2), plan.ip_len());
    let mut world = World::new(plan, lossy.clone(), lossy);
    world.run(Span::from_secs(60));
    assert_eq!(world.client.phase(), Phase::Done(End::Complete));
    assert_eq!(world.client.fetched(), Some(world.listener.recorded()));
}
