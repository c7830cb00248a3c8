// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paths, sources and times, with results that can be worked out by hand.
mod common;

use alcc_link::{Dir, DirectionSpec, QueueSpec, RateSpec};
use alcc_sim::{
    FlowReport, LinkSpec, PacketContent, PacketEvent, PacketStep, Probe, Scenario, SimError,
    Simulation, run, run_with,
};
use alcc_units::{Bytes, Rate, Span, Time};
use common::scenario;

fn fixed(mbps: u64) -> RateSpec {
    RateSpec::Fixed(Rate::mbps(mbps))
}

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn at(n: u64) -> Time {
    Time::from_millis(n)
}

fn flows(scenario: &Scenario) -> Vec<FlowReport> {
    run(scenario).unwrap().flows
}

fn link(mbps: u64, delay_ms: u64) -> LinkSpec {
    let down = DirectionSpec {
        rate: fixed(mbps),
        queue: QueueSpec::droptail(Bytes::new(60_000)),
        delay: ms(delay_ms),
        ..DirectionSpec::default()
    };
    LinkSpec {
        up: down.clone(),
        down,
    }
}

fn near(got: f64, want: f64, share: f64) -> bool {
    (got - want).abs() <= want * share
}

#[test]
fn a_buffer_that_is_set_limits_a_tcp() {
    // 64 kB per 100 ms are 5.12 Mbit/s of payload. A send buffer of 100 kB is 200 kB to the kernel:
    // of segments of 1448 + 640 bytes it holds 95, which are 11 Mbit/s.
    let all = flows(&scenario(
        fixed(1000),
        20,
        &[
            "cubic/rwnd=64kB/rtt=100ms",
            "cubic/sndbuf=100kB/rtt=100ms",
            "cubic/rtt=100ms",
        ],
    ));
    let mbps: Vec<f64> = all.iter().map(|f| f.throughput.as_mbps_f64()).collect();
    assert!(near(mbps[0], 5.12 * 1.04, 0.1), "{mbps:?}");
    assert!(near(mbps[1], 11.0 * 1.04, 0.1), "{mbps:?}");
    assert!(mbps[2] > 50.0, "{mbps:?}");
}

#[test]
fn a_round_trip_of_its_own() {
    // Ten packets per round trip on a link that is never busy: 10 * 12,000 bit / 80 ms = 1.5 Mbit/s
    // against 3 Mbit/s, but for the 1 ms that the bursts of two take to serialise.
    let all = flows(&scenario(
        fixed(1000),
        20,
        &["fixed:window=10", "fixed:window=10/rtt=80ms"],
    ));
    assert!(near(all[0].throughput.as_mbps_f64(), 3.0, 0.01));
    assert!(near(all[1].throughput.as_mbps_f64(), 1.5, 0.01));
    assert!(near(all[1].rtt.mean.as_millis_f64(), 80.0, 0.01));
    // 20 ms of the link and half of the 40 ms beyond it.
    assert!(near(all[1].delay.median.as_millis_f64(), 40.0, 0.01));
}

#[test]
fn both_directions_are_independent() {
    // Acknowledgements of the one flow share the way back with the datagrams of the other, which
    // fill half of it.
    let both = &["fixed:window=60", "udp:rate=6mbit/dir=up"];
    let mut both = scenario(fixed(12), 20, both);
    both.links[0] = link(12, 20);
    let all = flows(&both);
    assert!(
        near(all[0].utilization.unwrap(), 1.0, 0.002),
        "{:?}",
        all[0].utilization
    );
    assert!(
        near(all[1].utilization.unwrap(), 0.5, 0.002),
        "{:?}",
        all[1].utilization
    );
    // The way up: bottleneck first, then 20 ms.
    assert!(
        (ms(21)..ms(22)).contains(&all[1].delay.median),
        "{}",
        all[1].delay.median
    );
    let report = run(&both).unwrap();
    let acks = report.links[0].up.bytes - all[1].delivered;
    // 52 bytes for every second packet of 1500, 1000 a second.
    assert!(near(acks.get() as f64, 52.0 * 10_000.0, 0.01), "{acks}");
}

#[test]
fn a_chain_is_as_fast_as_its_slowest_link() {
    let mut chain = scenario(
        fixed(1),
        30,
        &[
            "fixed:window=100",
            "fixed:window=30/links=1",
            "fixed:window=30/links=3",
        ],
    );
    chain.links = vec![link(20, 5), link(8, 10), link(10, 5)];
    let report = run(&chain).unwrap();
    let mbps: Vec<f64> = report
        .flows
        .iter()
        .map(|f| f.throughput.as_mbps_f64())
        .collect();
    // The first flow crosses all; the last link is shared by it and the third.
    assert!(mbps[0] > 1.0 && mbps[0] < 8.0, "{mbps:?}");
    assert!(near(mbps[0] + mbps[2], 10.0, 0.02), "{mbps:?}");
    let first = &report.flows[0];
    assert!(near(first.utilization.unwrap(), mbps[0] / 8.0, 0.01));
    // 20 ms of propagation, and at least three serialisations of 1500 bytes: 0.6 + 1.5 + 1.2 ms.
    assert!(first.delay.median >= ms(23), "{}", first.delay.median);
    assert!(report.flows[1].delay.mean < report.flows[0].delay.mean);
    // Conservation on every link.
    for link in &report.links {
        assert!(link.down.arrived >= link.down.departed + link.down.dropped);
    }
    // What the first link passed on of the first flow came to the second or is on its way.
    assert_eq!(first.sent, first.packets + first.dropped + first.in_network);
}

#[test]
fn flows_start_and_stop() {
    let mut times = scenario(
        fixed(12),
        30,
        &["fixed:window=60", "fixed:window=60@10s-20s"],
    );
    times.duration = Span::from_secs(30);
    let all = flows(&times);
    let mbit = |flow: &FlowReport, second: usize| {
        flow.seconds.get(second).map_or(0.0, |b| *b as f64 * 8e-6)
    };
    for second in [5, 25] {
        assert!(near(mbit(&all[0], second), 12.0, 0.02));
        assert!(mbit(&all[1], second) < 0.01);
    }
    assert!(near(mbit(&all[0], 15), 6.0, 0.05));
    assert!(near(mbit(&all[1], 15), 6.0, 0.05));
    let report = run(&times).unwrap();
    // Both are there in ten of thirty seconds, less those at which one of them is not whole; then
    // they are equal.
    assert!(report.jain_of_seconds(Span::ZERO).unwrap() > 0.99);
    assert!(near(
        report.jain().unwrap(),
        25.0 * 25.0 / (2.0 * (25.0 * 25.0 * 0.64 + 25.0 * 25.0 * 0.04)),
        0.2
    ));
    assert_eq!(report.jain_of_seconds(Span::from_secs(25)), None);
}

/// Cubic alone for 20 s on 12 Mbit/s, 40 ms, with this at the end of both directions.
fn with_radio(text: &str) -> FlowReport {
    let mut it = scenario(fixed(12), 20, &["cubic"]);
    let LinkSpec { down, up } = &mut it.links[0];
    for direction in [down, up] {
        direction.queue = "droptail:packets=100".parse().unwrap();
        direction.radio = vec![text.parse().unwrap()];
    }
    flows(&it).remove(0)
}

#[test]
fn duplicates_are_neither_goodput_nor_losses() {
    // A duplicate is acknowledged by DSACK, and an acknowledgement that comes again says nothing new:
    // what is repeated was dropped. DSACK may undo a reduction, as in the kernel, which adds drops.
    let (plain, twice) = (with_radio("jitter:most=0s"), with_radio("duplicate:p=0.3"));
    assert!(twice.retransmits <= twice.dropped, "{twice:?}");
    let (one, other) = (plain.goodput_bytes.get(), twice.goodput_bytes.get());
    assert!(near(other as f64, one as f64, 0.02), "{one} {other}");
    assert!(twice.goodput_bytes < twice.delivered);
}

#[test]
fn what_arrives_corrupt_is_lost_and_repaired() {
    let (corrupt, lost) = (with_radio("corrupt:p=0.02"), with_radio("loss:p=0.02"));
    let share = (corrupt.dropped + corrupt.lost_behind) as f64 / corrupt.sent as f64;
    // The same share of the packets; which ones differs.
    assert!((share - 0.02).abs() < 0.012, "{}", share);
    let (ours, theirs) = (corrupt.delivered.get() as f64, lost.delivered.get() as f64);
    assert!(near(ours, theirs, 0.2), "{ours} {theirs}");
    assert!(corrupt.retransmits > 50);
}

#[test]
fn a_transfer_has_a_completion_time() {
    // 100 segments of 1472 bytes; the window of 1000 sends them at once: 20 ms, then 1 ms each.
    let flow = flows(&scenario(
        fixed(12),
        5,
        &["fixed:window=1000/size=147200@1s"],
    ))
    .remove(0);
    assert_eq!(flow.completion, Some(ms(120)));
    assert_eq!(flow.goodput_bytes, Bytes::new(147_200));
    // Above TCP the first window is ten segments, so it takes some round trips more.
    let over = flows(&scenario(
        fixed(12),
        5,
        &["fixed:window=1000/over=cubic/size=147200"],
    ))
    .remove(0);
    assert_eq!(over.goodput_bytes, Bytes::new(147_200));
    assert!(
        (ms(121)..ms(400)).contains(&over.completion.unwrap()),
        "{:?}",
        over.completion
    );
    let long = flows(&scenario(fixed(12), 5, &["fixed:window=1000/size=100MB"])).remove(0);
    assert_eq!(long.completion, None);
}

#[test]
fn a_transfer_is_repaired_to_its_last_byte() {
    for flow in [
        "fixed:window=20/size=1000000",
        "fixed:window=20/over=reno/size=1000000",
    ] {
        let mut lossy = scenario(fixed(12), 60, &[flow]);
        lossy.links[0].down.loss = 0.05;
        let flow = flows(&lossy).remove(0);
        assert_eq!(flow.goodput_bytes, Bytes::new(1_000_000));
        assert!(flow.completion.is_some() && flow.retransmits > 10);
    }
}

#[test]
fn an_application_that_writes_two_megabits_gets_them_through() {
    for flow in [
        "fixed:window=1000/app=2mbit",
        "fixed:window=1000/over=cubic/app=2mbit",
    ] {
        let flow = flows(&scenario(fixed(12), 20, &[flow])).remove(0);
        let mbps = flow.goodput_bytes.get() as f64 * 8e-6 / 20.0;
        assert!(near(mbps, 2.0, 0.01), "{mbps}");
        // 5000 bytes at once: up to four packets of 1 ms, and 20 ms of propagation.
        assert!(
            (ms(20)..ms(26)).contains(&flow.app_delay.median),
            "{}",
            flow.app_delay.median
        );
    }
}

#[test]
fn on_and_off() {
    let flow = flows(&scenario(fixed(12), 20, &["fixed:window=60/on=1s,off=3s"])).remove(0);
    // A second of four, and then the 20 packets that stood in the queue.
    assert!(
        near(flow.utilization.unwrap(), 1.02 / 4.0, 0.005),
        "{:?}",
        flow.utilization
    );
    assert!(flow.seconds[0] > 1_400_000 && flow.seconds.get(2).is_none_or(|b| *b == 0));
}

#[test]
fn a_constant_rate_is_constant() {
    let all = flows(&scenario(
        fixed(12),
        20,
        &["udp:rate=5mbit", "udp:rate=2mbit,bytes=500,on=1s,off=1s"],
    ));
    assert!(
        near(all[0].throughput.as_mbps_f64(), 5.0, 0.002),
        "{}",
        all[0].throughput
    );
    assert!(
        near(all[1].throughput.as_mbps_f64(), 1.0, 0.002),
        "{}",
        all[1].throughput
    );
    // 5 Mbit/s: a packet each 2.4 ms, 1472 of 1500 bytes are payload.
    assert!(near(
        all[0].goodput_bytes.get() as f64,
        12_500_000.0 * 1472.0 / 1500.0,
        0.002
    ));
    assert!(all[0].app_delay.median >= ms(21));
    // Beyond capacity it does not care.
    let flood = flows(&scenario(fixed(12), 20, &["udp:rate=24mbit"])).remove(0);
    assert!(near(flood.utilization.unwrap(), 1.0, 0.001));
    assert!(flood.loss() > 0.4);
}

#[test]
fn ten_thousand_flows() {
    let mut many = scenario(fixed(100), 3, &["10000*fixed:window=2/stagger=100us"]);
    many.links[0].down.queue = "droptail:packets=333".parse().unwrap();
    let report = run(&many).unwrap();
    assert_eq!(report.flows.len(), 10_000);
    let delivered: Bytes = report.flows.iter().map(|f| f.delivered).sum();
    assert!(delivered > Bytes::new(36_000_000), "{delivered}");
    assert!(report.flows.iter().all(|f| f.sent > 0));
}

#[test]
fn what_never_sends_a_full_packet_ends_too() {
    let report = run(&scenario(fixed(12), 7, &["fixed/app=8kbit@3s"])).unwrap();
    assert_eq!(report.started, at(3_000));
    assert!(report.flows[0].goodput_bytes >= Bytes::new(6_900));
    let silent = run(&scenario(fixed(12), 7, &["fixed/size=10"])).unwrap();
    assert_eq!(silent.flows[0].completion.unwrap().as_micros(), 20_025);
    assert!(silent.events < 20, "{}", silent.events);
}

#[test]
fn what_would_never_end_is_an_error() {
    let mut endless = scenario(RateSpec::Unlimited, 1, &["fixed:window=5"]);
    endless.links[0] = LinkSpec::default();
    let error = run(&endless).unwrap_err();
    assert!(matches!(error, SimError::Standstill { .. }), "{error}");
    let mut large = scenario(fixed(12), 60, &["fixed:window=100"]);
    large.max_events = 1_000;
    let error = run(&large).unwrap_err();
    assert!(
        matches!(error, SimError::Events { events: 1_001, .. }),
        "{error}"
    );
}

#[derive(Default)]
struct Count(u64);

impl Probe for Count {
    fn packet(&mut self, event: &PacketEvent) {
        self.0 += u64::from(event.what == PacketStep::Sent);
    }
}

/// Packets that a full queue refuses leave no events behind: these three flows, with one phase,
/// offer millions of segments to a link of 5,000 a second.
#[test]
fn a_storm_of_losses_is_bounded_too() {
    let mut storm = scenario(fixed(60), 20, &["3*fixed:window=30000/phase=0s"]);
    storm.links[0].down.queue = QueueSpec::droptail(Bytes::new(375_000));
    storm.max_events = 500_000;
    let mut sent = Count::default();
    let error = run_with(&storm, &mut sent).unwrap_err();
    assert!(matches!(error, SimError::Events { .. }), "{error}");
    // Their first windows are sent in one go.
    assert!(sent.0 <= 600_000, "{} sent", sent.0);
}

#[test]
fn what_cannot_be_is_said() {
    let error = |flow: &str| {
        let error = run(&scenario(fixed(12), 1, &[flow]))
            .unwrap_err()
            .to_string();
        assert!(!error.contains('\n'));
        error
    };
    assert!(error("fixed/links=2").contains("links 2 to 2 of 1"));
    assert!(error("fixed/rtt=10ms").contains("rtt of 10ms is less than the 40ms of its links"));
    let empty = Scenario::dumbbell(fixed(12), ms(40), QueueSpec::default());
    assert_eq!(run(&empty), Err(SimError::Flows { found: 0 }));
    let mut no_time = scenario(fixed(12), 1, &["fixed"]);
    no_time.duration = Span::ZERO;
    assert_eq!(run(&no_time), Err(SimError::NoWindow));
    no_time.links.clear();
    assert_eq!(run(&no_time), Err(SimError::NoLink));
}

#[derive(Default)]
struct Seen {
    steps: Vec<(u64, &'static str, bool)>,
    senders: u64,
    progress: u64,
    stop: bool,
}

impl Probe for Seen {
    fn packet(&mut self, event: &PacketEvent) {
        let step = match event.what {
            PacketStep::Sent => "sent",
            PacketStep::Arrived(_) => "arrived",
            PacketStep::Departed(_) => "departed",
            PacketStep::Dropped(..) => "dropped",
            PacketStep::Received => "received",
        };
        if let PacketStep::Arrived(link) = event.what {
            let data = matches!(event.content, PacketContent::Data { .. });
            assert_eq!(link.dir == Dir::Down, data);
        }
        let data = matches!(event.content, PacketContent::Data { .. });
        self.steps
            .push((event.at.as_nanos() / 1_000_000, step, data));
    }

    fn flow(&mut self, state: &alcc_sim::FlowState<'_>) {
        self.senders += 1;
        assert_eq!(state.flow, 0);
    }

    fn progress(&mut self, now: Time, end: Time) -> bool {
        assert!(now <= end);
        self.progress += 1;
        !self.stop
    }
}

#[test]
fn a_probe_sees_every_step() {
    let one = scenario(fixed(12), 1, &["fixed/size=1472"]);
    let mut seen = Seen::default();
    let report = run_with(&one, &mut seen).unwrap();
    let want = [
        (0, "sent", true),
        (20, "arrived", true),
        (21, "departed", true),
        (21, "received", true),
        (21, "sent", false),
        (21, "arrived", false),
        (21, "departed", false),
        (41, "received", false),
    ];
    assert_eq!(seen.steps, want);
    assert!(seen.senders >= 2);
    // To be watched changes nothing.
    assert_eq!(report, run(&one).unwrap());
    let mut stop = Seen {
        stop: true,
        ..Seen::default()
    };
    let long = scenario(fixed(100), 60, &["fixed:window=1000"]);
    let error = run_with(&long, &mut stop).unwrap_err();
    assert!(matches!(error, SimError::Stopped { .. }), "{error}");
}

/// FNV-1a over everything that is counted.
fn fingerprint(report: &alcc_sim::Report) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut mix = |value: u64| {
        for byte in value.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    mix(report.events);
    for flow in &report.flows {
        mix(flow.sent);
        mix(flow.packets);
        mix(flow.dropped);
        mix(flow.goodput_bytes.get());
        for delays in [flow.delay, flow.queue_delay, flow.app_delay] {
            mix(delays.mean.as_nanos());
            mix(delays.p95.as_nanos());
        }
        flow.seconds.iter().copied().for_each(&mut mix);
    }
    hash
}

#[test]
fn the_same_on_every_machine() {
    // Of links, queues, sources and the engine alone; algorithms and senders change more often. A
    // change of this number is a change of results: say in CHANGELOG why.
    let flows = &[
        "udp:rate=6mbit",
        "udp:rate=4mbit,bytes=500,on=170ms,off=130ms@200ms",
        "7*udp:rate=1mbit,on=30ms,off=70ms/stagger=11ms/rtt=95ms@1s-8s",
        "udp:rate=3mbit/dir=up/links=2",
    ];
    let mut mixed = scenario(fixed(10), 10, flows);
    mixed.links = vec![link(20, 5), link(8, 10)];
    mixed.links[0].down.loss = 0.03;
    mixed.links[0].down.queue = "red:min=5000,max=30000".parse().unwrap();
    mixed.links[1].down.queue = "codel".parse().unwrap();
    let report = run(&mixed).unwrap();
    assert!(report.links[1].down.dropped > 100, "{:?}", report.links);
    let found = fingerprint(&report);
    assert_eq!(found, 0xcffb_e7b3_7aa6_e041, "{found:#x}");
}

#[test]
fn a_simulation_goes_from_thread_to_thread() {
    let whole = scenario(fixed(10), 2, &["cubic", "verus/over=reno"]);
    let mut simulation = Simulation::new(&whole).unwrap();
    simulation.run_until(Time::from_millis(700)).unwrap();
    let rest = std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            simulation.run_until(Time::MAX).unwrap();
            simulation.report()
        });
        other.join().unwrap()
    });
    assert_eq!(rest, run(&whole).unwrap());
}
