// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both ends of a recording over the link models, in virtual time: nothing here waits, and every run is the same.
mod world;

use alcc_record::session::{End, Phase};
use alcc_record::{Load, Mode};
use alcc_trace::Trace;
use alcc_units::{Rate, Span, Time};
use world::{World, link, per_second, plan};

/// Prints, for looking at it: `ALCC_TRACES=folder cargo test -p alcc-record --test virtual_time -- --ignored --nocapture`.
#[test]
#[ignore = "a study: takes recorded traces and minutes"]
fn study() {
    let dir = std::env::var("ALCC_TRACES").unwrap();
    let load = |name: &str| Trace::parse(&std::fs::read(format!("{dir}/{name}")).unwrap()).unwrap();
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
        let traces = [load(down), load(up)];
        let mut world = World::new(plan(Mode::Saturate, 60), link(&traces[0]), link(&traces[1]));
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
        // 4 s; what does not fill an opportunity is left.
        let bits = recorded.len() as f64 * 12e3;
        assert!((bits - 4e6 * mbps).abs() < 30e3, "{dir}: {bits}");
    }
    let fit = world.client.clock().unwrap();
    // 20 ms each way and up to half a millisecond until the next opportunity: the clocks agree to within that.
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
