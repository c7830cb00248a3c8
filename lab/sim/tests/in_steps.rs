// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run in steps: the same as in one go, and what is seen of it in between.
mod common;

use alcc_link::RateSpec;
use alcc_sim::{Scenario, Simulation, run};
use alcc_units::{Bytes, Rate, Span, Time};
use common::scenario;

fn four_kinds() -> Scenario {
    let flows = [
        "cubic",
        "copa/over=reno@500ms-3s",
        "udp:rate=2mbit",
        "sprout/dir=both",
    ];
    let mut scenario = scenario(RateSpec::Fixed(Rate::mbps(8)), 40, &flows);
    scenario.duration = Span::from_secs(5);
    scenario.series = Some(Span::from_millis(100));
    scenario
}

#[test]
fn steps_of_any_length_change_nothing() {
    let whole = run(&four_kinds()).unwrap();
    for step in [
        Span::from_nanos(700_001),
        Span::from_millis(20),
        Span::from_secs(2),
    ] {
        let mut simulation = Simulation::new(&four_kinds()).unwrap();
        while !simulation.is_over() {
            let until = simulation.now() + step;
            simulation.run_until(until).unwrap();
            // Looking has no effect either.
            let _ = (simulation.flow(1), simulation.report());
            assert!(simulation.now() == until || simulation.is_over());
        }
        assert_eq!(simulation.now(), simulation.end());
        assert_eq!(simulation.report(), whole, "steps of {step}");
        simulation.run_until(Time::MAX).unwrap();
        simulation.run_until(Time::ZERO).unwrap();
        assert!(simulation.is_over());
        assert_eq!(simulation.report(), whole, "after its end");
    }
}

#[test]
fn what_is_seen_of_a_flow_in_between() {
    // Twenty packets per 40 ms on a link that is hardly busy.
    let flows = ["fixed:window=20"];
    let scenario = scenario(RateSpec::Fixed(Rate::mbps(100)), 40, &flows);
    let mut simulation = Simulation::new(&scenario).unwrap();
    assert_eq!(simulation.started(), None);
    let flow = simulation.flow(0).unwrap();
    assert_eq!(
        (flow.in_flight, flow.rtt, flow.sent),
        (Bytes::ZERO, None, 0)
    );
    assert_eq!(simulation.report().flows[0].throughput, Rate::ZERO);

    simulation.run_until(Time::from_millis(1)).unwrap();
    let flow = simulation.flow(0).unwrap();
    assert_eq!((flow.sent, flow.window), (20, Some(flow.in_flight)));
    assert_eq!((flow.rtt, flow.goodput_bytes), (None, Bytes::ZERO));

    simulation.run_until(Time::from_millis(1_000)).unwrap();
    let flow = simulation.flow(0).unwrap();
    let rtt = flow.rtt.unwrap().as_millis_f64();
    assert!((40.0..44.0).contains(&rtt), "{rtt}");
    assert_eq!((flow.dropped, flow.retransmits), (0, 0));
    assert!(flow.goodput_bytes < flow.delivered);
    // The window began at 20 ms, with the first of 25 bursts: 25 * 20 * 12,000 bit in 0.98 s.
    let report = simulation.report();
    assert_eq!(report.flows[0].delivered, flow.delivered);
    let mbps = report.flows[0].throughput.as_mbps_f64();
    assert!((mbps - 6.122).abs() < 0.001, "{mbps}");
    assert_eq!(report.started + report.duration, simulation.now());
    assert!(simulation.flow(1).is_none() && !simulation.is_over());
}
