// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows inside a TCP flow.
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FlowSpec, Report, Scenario, Timing, run};
use alcc_units::{Bytes, Rate, Span};

/// 1448 of 1500 bytes of the 10 Mbit/s that a TCP carries are its stream, and of 1526 in that 1500 are
/// a packet inside it.
const INSIDE: f64 = 10.0 * 1448.0 / 1526.0;

/// These flows on 10 Mbit/s and 40 ms, with this loss on the way of the data.
fn scenario(flows: &[&str], loss: f64) -> Scenario {
    let link = RateSpec::Fixed(Rate::mbps(10));
    let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), QueueSpec::default());
    scenario.links[0].down.loss = loss;
    scenario.duration = Span::from_secs(20);
    let registry = alcc_zoo::registry();
    let parse = |flow: &&str| FlowSpec::parse(flow, &registry, Timing::default()).unwrap();
    scenario.flows = flows.iter().flat_map(parse).collect();
    scenario
}

fn report(flows: &[&str], loss: f64) -> Report {
    run(&scenario(flows, loss)).unwrap()
}

fn mbps(report: &Report, flow: usize) -> f64 {
    report.flows[flow].throughput.as_mbps_f64()
}

#[test]
fn datagrams_below_the_capacity_come_through_whole() {
    let report = report(&["cubic/name=vpn", "udp:rate=5mbit/tunnel=vpn@1s"], 0.0);
    let udp = &report.flows[1];
    assert_eq!(udp.dropped, 0);
    assert!(udp.in_network < 100, "{}", udp.in_network);
    assert!(
        (mbps(&report, 1) - 5.0).abs() < 0.02,
        "{}",
        mbps(&report, 1)
    );
    // The stream carries them with 26 bytes each, and its segments have headers.
    assert!(mbps(&report, 0) > mbps(&report, 1) * 1.04);
    // Nothing stands in a queue.
    assert!(udp.delay.median < Span::from_millis(25), "{:?}", udp.delay);
}

#[test]
fn datagrams_beyond_the_capacity_are_lost_at_the_device_and_not_in_the_stream() {
    let report = report(&["reno/name=vpn", "udp:rate=20mbit/tunnel=vpn"], 0.0);
    let udp = &report.flows[1];
    assert!(
        (mbps(&report, 1) / INSIDE - 1.0).abs() < 0.03,
        "{}",
        mbps(&report, 1)
    );
    assert!(udp.loss() > 0.4, "{}", udp.loss());
    // Five hundred packets wait for the program: 0.6 s at this rate, and the stream's own buffer.
    assert!(
        udp.queue_delay.median > Span::from_millis(600),
        "{:?}",
        udp.queue_delay
    );
    assert!(report.flows[0].loss() < 0.02, "{}", report.flows[0].loss());
}

#[test]
fn a_short_device_is_a_short_queue() {
    let of = |outer: &str| report(&[outer, "udp:rate=20mbit/tunnel=vpn"], 0.0).flows[1].clone();
    let (long, short) = (of("reno/name=vpn"), of("reno/name=vpn/txqueuelen=100"));
    // Four hundred packets of 1526 bytes take 0.51 s.
    let less = long
        .queue_delay
        .median
        .saturating_sub(short.queue_delay.median);
    assert!((less.as_millis_f64() - 514.0).abs() < 60.0, "{less:?}");
}

#[test]
fn a_loss_of_the_outer_tcp_is_a_delay_inside() {
    // Its window does not fill the device.
    let inner = "cubic/rwnd=64kB/tunnel=vpn@1s";
    let report = report(&["cubic/dir=both/name=vpn", inner], 0.01);
    let [outer, _, inner] = &report.flows[..] else {
        panic!("{} flows", report.flows.len());
    };
    assert!(outer.retransmits > 40, "{}", outer.retransmits);
    assert_eq!(inner.dropped, 0);
    assert!(
        inner.retransmits < outer.retransmits / 5,
        "{}",
        inner.retransmits
    );
    assert!(
        inner.goodput_bytes > Bytes::new(4_000_000),
        "{:?}",
        inner.goodput_bytes
    );
    // Whatever is behind a loss waits for its repair, a round trip.
    let waits = inner.queue_delay.p95;
    assert!(waits > Span::from_millis(40), "{waits:?}");
}

#[test]
fn two_inside_share_the_stream_and_the_carrier_is_none_of_them() {
    let flows = ["cubic/name=vpn", "2*reno/tunnel=vpn@1s"];
    let report = report(&flows, 0.0);
    let both = mbps(&report, 1) + mbps(&report, 2);
    assert!((both / INSIDE - 1.0).abs() < 0.1, "{both}");
    let jain = report.jain().unwrap();
    assert!(jain > 0.8, "{jain}");
    assert_eq!(report, run(&scenario(&flows, 0.0)).unwrap());
}

#[test]
fn acknowledgements_come_back_in_the_stream_of_the_other_direction_if_there_is_one() {
    let forth = report(&["cubic/name=vpn", "reno/tunnel=vpn"], 0.0);
    let both = report(&["cubic/dir=both/name=vpn", "reno/tunnel=vpn"], 0.0);
    let inside = |report: &Report| report.flows[1].goodput_bytes;
    assert!(forth.flows[0].goodput_bytes > Bytes::new(20_000_000));
    // The way back has data of its own: the acknowledgements, and records around them.
    assert!(inside(&both) > Bytes::new(200_000), "{:?}", inside(&both));
    let ratio = mbps(&both, 2) / mbps(&forth, 1);
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn an_algorithm_above_tcp_may_carry_and_be_carried() {
    let flows = [
        "budget/over=cubic/name=vpn",
        "copa/over=cubic/tunnel=vpn@1s",
    ];
    let report = report(&flows, 0.0);
    assert!(mbps(&report, 1) > 0.7 * INSIDE, "{}", mbps(&report, 1));
    assert!(report.flows[1].rtt.count > 0);
}

#[test]
fn what_cannot_carry_is_said() {
    for (flows, why) in [
        (
            &["cubic", "reno/tunnel=vpn"][..],
            "no flow with that name carries data this way",
        ),
        (
            &["cubic/name=vpn", "reno/tunnel=vpn/dir=up"],
            "carries data this way",
        ),
        (
            &["copa/name=vpn", "reno/tunnel=vpn"],
            "only the stream of a TCP",
        ),
        (
            &["udp:rate=1mbit/name=vpn", "reno/tunnel=vpn"],
            "only the stream of a TCP",
        ),
        (
            &["cubic/name=vpn@0s-5s", "reno/tunnel=vpn"],
            "omit its size=",
        ),
        (
            &["cubic/name=vpn/size=1MB", "reno/tunnel=vpn"],
            "omit its size=",
        ),
        (
            &["cubic/name=a", "cubic/tunnel=a/name=b", "reno/tunnel=b"],
            "no flow with that name",
        ),
        (
            &["cubic/name=vpn", "reno/tunnel=vpn/rtt=10ms"],
            "less than the 40ms of its links",
        ),
        (
            &["cubic/txqueuelen=9/name=a@0s-5s", "reno/tunnel=a"],
            "omit its size=",
        ),
    ] {
        let error = run(&scenario(flows, 0.0)).unwrap_err().to_string();
        assert!(error.contains(why), "{flows:?}: {error}");
        assert!(error.starts_with("simulate flow "), "{error}");
        assert!(!error.contains('\n'));
    }
    let links = FlowSpec::parse(
        "reno/tunnel=vpn/links=1",
        &alcc_zoo::registry(),
        Timing::default(),
    );
    let error = links.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("'links=': in a tunnel"), "{error}");
}
