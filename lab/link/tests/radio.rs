// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of radio links, computed by hand.
use alcc_link::{
    Dir, Direction, DirectionSpec, Ecn, Outcome, Packet, QueueSpec, RadioKind, RadioSpec, RateSpec,
};
use alcc_trace::Trace;
use alcc_units::{Bytes, Rate, Span, Time};

fn spec(rate: RateSpec, radio: &[&str]) -> DirectionSpec {
    DirectionSpec {
        rate,
        radio: RadioSpec::both([Vec::new(), Vec::new()], [radio, &[]]).unwrap()[0].clone(),
        queue: QueueSpec::infinite(),
        ..DirectionSpec::default()
    }
}

/// The delivery times, in ms, of packets of 1500 bytes that enter at these times (us).
fn delivered(spec: &DirectionSpec, seed: u64, at: impl IntoIterator<Item = u64>) -> Vec<f64> {
    let mut direction = Direction::new(spec, Dir::Down, seed);
    let mut out = Vec::new();
    for (id, us) in (0..).zip(at) {
        let packet = Packet {
            id,
            flow: 0,
            len: Bytes::new(1500),
            ecn: Ecn::NotEct,
        };
        direction.push(Time::ZERO + Span::from_micros(us), packet, &mut out);
    }
    while let Some(next) = direction.next_event() {
        direction.advance(next, &mut out);
    }
    let delivered = |o: &Outcome| match o {
        Outcome::Delivered { at, .. } | Outcome::Repeated { at, .. } => {
            Some(at.since(Time::ZERO).as_millis_f64())
        }
        _ => None,
    };
    out.iter().filter_map(delivered).collect()
}

/// The additional delay of each packet by the radio link, ms: one every 20 ms, so that no packet waits for the one
/// before.
fn added(radio: &str, packets: u64) -> Vec<f64> {
    let at: Vec<u64> = (0..packets).map(|n| n * 20_000).collect();
    let spec = spec(RateSpec::Unlimited, &[radio]);
    let delivered = delivered(&spec, 3, at.iter().copied());
    let pushed = at.iter().map(|us| *us as f64 / 1e3);
    delivered.iter().zip(pushed).map(|(d, p)| d - p).collect()
}

/// The number of packets out of `n` that this radio link loses, and the number of runs of losses.
fn lost(radio: &str, n: u64) -> (u64, u64) {
    let spec = spec(RateSpec::Unlimited, &[radio]);
    let at: Vec<u64> = (0..n).map(|n| n * 20_000).collect();
    let arrived = delivered(&spec, 3, at.iter().copied());
    let came: std::collections::BTreeSet<u64> = arrived.iter().map(|ms| *ms as u64 / 20).collect();
    let is_lost = |n: u64| !came.contains(&n);
    let runs = (1..n).filter(|n| is_lost(*n) && !is_lost(n - 1)).count();
    (n - arrived.len() as u64, runs as u64)
}

#[test]
fn losses_behind_the_bottleneck_have_their_share_and_length() {
    // Independent: 4000 of 40,000 within four standard deviations (60), 10 % of them behind another.
    let (all, runs) = lost("loss:p=0.1", 40_000);
    assert!(
        all.abs_diff(4_000) < 240 && runs.abs_diff(3_600) < 240,
        "{all} in {runs}"
    );
    // The same share in runs of 8: 500 of them, each with a standard deviation of 7.5.
    let (all, runs) = lost("loss:p=0.1,burst=8", 40_000);
    assert!(
        all.abs_diff(4_000) < 900 && runs.abs_diff(500) < 90,
        "{all} in {runs}"
    );
    // The bad state loses half of its packets, so runs are shorter and more.
    let (all, runs) = lost("loss:p=0.1,burst=8,bad=0.5", 40_000);
    assert!(all.abs_diff(4_000) < 900 && runs > 1_500, "{all} in {runs}");
    let error = "loss:p=0.1,burst=8,bad=0.1"
        .parse::<RadioSpec>()
        .unwrap_err();
    assert!(error.to_string().contains("more than p"), "{error}");
}

#[test]
fn packets_arrive_corrupt_or_twice_at_the_end_of_the_direction() {
    // 10 % of 10,000 within four standard deviations (30).
    let (gone, _) = lost("corrupt:p=0.1", 10_000);
    assert!(gone.abs_diff(1_000) < 120, "{gone}");
    for dir in Dir::BOTH {
        let mut spec = spec(RateSpec::Fixed(Rate::mbps(12)), &["duplicate:p=0.1"]);
        spec.delay = Span::from_millis(7);
        let mut direction = Direction::new(&spec, dir, 3);
        let mut out = Vec::new();
        for id in 0..10_000 {
            let packet = Packet {
                id,
                flow: 0,
                len: Bytes::new(1500),
                ecn: Ecn::NotEct,
            };
            direction.push(Time::from_millis(id), packet, &mut out);
        }
        direction.advance(Time::from_millis(20_000), &mut out);
        let of = |o: &Outcome| match *o {
            Outcome::Repeated { at, packet } => Some((at, packet.id, true)),
            Outcome::Delivered { at, packet, .. } => Some((at, packet.id, false)),
            _ => None,
        };
        let arrived: Vec<_> = out.iter().filter_map(of).collect();
        let twice = arrived.len() - 10_000;
        assert!(twice.abs_diff(1_000) < 120, "{dir:?}: {twice}");
        // The packet follows its copy at once, a millisecond after it came and the delay.
        for pair in arrived.windows(2).filter(|pair| pair[0].2) {
            let (at, id, _) = pair[0];
            assert_eq!((at, pair[1]), (Time::from_millis(id + 8), (at, id, false)));
        }
    }
}

#[test]
fn jitter_holds_each_packet_for_a_time_of_its_own() {
    let added = added("jitter:most=10ms", 1_000);
    assert!((mean(&added) - 5.0).abs() < 0.4, "{}", mean(&added));
    assert!(added.iter().all(|ms| (0.0..=10.0).contains(ms)));
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn every_one_has_a_seed_and_options_that_print_back() {
    for kind in RadioKind::all() {
        let spec: RadioSpec = kind.name.parse().unwrap();
        assert_eq!(spec.to_string(), kind.name);
        assert!(!kind.options.is_empty() && !kind.summary.is_empty());
        let run = |seed| {
            let spec = DirectionSpec {
                radio: vec![spec.clone()],
                ..spec_of_nothing()
            };
            delivered(&spec, seed, (0..5000).map(|n| n * 7_001))
        };
        assert_eq!(run(1), run(1), "{}", kind.name);
        assert_ne!(run(1), run(2), "{}", kind.name);
    }
    let error = "harq:errors=1".parse::<RadioSpec>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "radio harq: errors=1: expected a number from 0 to 0.9, or 0% to 90%"
    );
    for (text, is_taken) in [
        ("corrupt:p=5%", true),
        ("loss:p=5%,burst=3,bad=50%", true),
        ("corrupt:p=91%", false),
        ("corrupt:p=%", false),
    ] {
        assert_eq!(text.parse::<RadioSpec>().is_ok(), is_taken, "{text}");
    }
    let error = "hark".parse::<RadioSpec>().unwrap_err().to_string();
    assert!(error.contains("did you mean harq?"), "{error}");
}

fn spec_of_nothing() -> DirectionSpec {
    spec(RateSpec::Unlimited, &[])
}

#[test]
fn the_synthetic_scenarios_name_radio_links_that_exist() {
    for scenario in alcc_trace::SCENARIOS {
        let both = RadioSpec::both([Vec::new(), Vec::new()], scenario.radio);
        assert!(both.is_ok(), "{}: {both:?}", scenario.name);
    }
    let asked: RadioSpec = "leo".parse().unwrap();
    let both = |up: &[RadioSpec]| {
        let asked = [vec![asked.clone()], up.to_vec()];
        let [down, up] = RadioSpec::both(asked, [&["harq"], &[]]).unwrap();
        [down, up].map(|radio| radio.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(both(&[]), [["leo"], ["leo"]]);
    assert_eq!(both(&["rlc".parse().unwrap()]), [["leo"], ["rlc"]]);
}

#[test]
fn blocks_that_fail_come_again_and_the_last_time_succeeds() {
    let added = added("harq:errors=0.5,rtt=4ms,attempts=3", 4000);
    // 0, 1 or 2 times 4 ms: a half, a quarter, and the other quarter.
    for (times, share) in [(0.0, 0.5), (4.0, 0.25), (8.0, 0.25)] {
        let found = added.iter().filter(|a| (**a - times).abs() < 1e-6).count() as f64 / 4000.0;
        // Four standard errors of a share of a half.
        assert!((found - share).abs() < 4.0 * 0.008, "{times}: {found}");
    }
    assert!(added.iter().all(|a| *a < 8.1));
    // Of one block all have the same fate, and what follows waits.
    let spec = spec(RateSpec::Unlimited, &["harq:errors=0.5,rtt=40ms,slot=10ms"]);
    let packets: Vec<u64> = (0..200).map(|n| n * 1000).collect();
    let delivered = delivered(&spec, 5, packets);
    assert!(delivered.is_sorted());
    let late = |n: usize| delivered[n] - n as f64 > 1.0;
    assert!((0..200).any(late) && !(0..200).all(late));
    for n in (0..200).filter(|n| late(*n) && n % 10 == 0) {
        assert!((n..n + 10).all(late), "{n}");
    }
}

#[test]
fn what_rlc_repeats_comes_far_later() {
    let added = added("rlc:errors=0.1,delay=15ms", 4000);
    let late = added.iter().filter(|a| **a > 0.0).count() as f64 / 4000.0;
    assert!((late - 0.1).abs() < 4.0 * 0.0048, "{late}");
    assert!(added.iter().all(|a| *a == 0.0 || (*a - 15.0).abs() < 1e-6));
}

#[test]
fn after_silence_a_sender_asks_at_its_next_chance() {
    let spec = spec(
        RateSpec::Unlimited,
        &["grant:period=10ms,delay=8ms,keep=5ms"],
    );
    // The chances are at some phase p, p + 10, ...: asked by the first packet.
    let first = delivered(&spec, 9, [0])[0];
    let phase = first - 8.0;
    assert!((0.0..10.0).contains(&phase), "{phase}");
    // While it waits, others join it; within 5 ms after the last one no request is needed; then again.
    let found = delivered(&spec, 9, [0, 1000, 30_000, 34_000, 39_500]);
    let again = phase + 30.0 + 8.0;
    let expected = [first, first.max(1.0), again, again.max(34.0)];
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
    let last = if again + 5.0 >= 39.5 {
        again.max(39.5)
    } else {
        phase + 40.0 + 8.0
    };
    assert!((found[4] - last).abs() < 1e-6, "{} {last}", found[4]);
}

#[test]
fn what_waits_for_the_air_goes_together() {
    let radio = "aggregation:stations=2,airtime=5ms";
    let added = added(radio, 4000);
    // Even between nothing and two frames of 5 ms.
    assert!(added.iter().all(|a| (0.0..=10.0).contains(a)));
    assert!((mean(&added) - 5.0).abs() < 4.0 * 0.046, "{}", mean(&added));
    let spec = spec(RateSpec::Unlimited, &[radio]);
    let delivered = delivered(&spec, 5, (0..2000).map(|n| n * 100));
    let mut frames = delivered.clone();
    frames.dedup();
    assert!(
        (1000..2000).contains(&(delivered.len() - frames.len())),
        "{}",
        frames.len()
    );
}

#[test]
fn at_a_handover_nothing_passes() {
    let radio = ["handover:every=1s,length=100ms"];
    // 12 Mbit/s: a packet each ms, always busy.
    let spec = spec(RateSpec::Fixed(Rate::mbps(12)), &radio);
    let times = delivered(&spec, 4, (0..8000).map(|_| 0));
    let gaps: Vec<(f64, f64)> = (times.windows(2))
        .filter(|w| w[1] - w[0] > 1.5)
        .map(|w| (w[0], w[1] - w[0]))
        .collect();
    assert!((7..=9).contains(&gaps.len()), "{gaps:?}");
    for (n, (at, gap)) in gaps.iter().enumerate() {
        // The packet being carried is continued after it: 1 ms and 100 ms.
        assert!((gap - 101.0).abs() < 1e-3, "{gaps:?}");
        let within = at - 1000.0 * n as f64;
        assert!((249.0..=751.0).contains(&within), "{gaps:?}");
    }
    // All of it, and no more than was offered.
    let last = *times.last().unwrap();
    assert!(
        (last - 8000.0 - 100.0 * gaps.len() as f64).abs() < 1e-3,
        "{last}"
    );
    let direction = Direction::new(&spec, Dir::Down, 4);
    let end = Time::ZERO + Span::from_micros((last * 1e3) as u64);
    let offered = direction.opportunity_bytes(Time::ZERO, end).get();
    assert!(offered.abs_diff(8000 * 1500) < 1500, "{offered}");
}

#[test]
fn another_satellite_every_fifteen_seconds() {
    let trace = Trace::new((1..=1000).collect()).unwrap();
    let radio = ["leo:gap=50ms,spread=20ms,jitter=0s"];
    let spec = spec(RateSpec::Trace(trace), &radio);
    let times = delivered(&spec, 4, (0..50_000).map(|n| n * 1000));
    assert_eq!(times.len(), 50_000);
    // The way has a length of its own in each quarter of a minute; a queue of the gap stands after
    // it, since the link has just the rate that comes in.
    let way = |n: usize| times[n] - n as f64;
    let ways: Vec<f64> = [5_000, 20_000, 35_000].map(way).to_vec();
    assert!((way(1_000) - ways[0]).abs() < 1e-6);
    for (n, way) in ways.iter().enumerate() {
        let queue = 1.0 + 50.0 * n as f64;
        assert!((queue..=queue + 20.0).contains(way), "{ways:?}");
    }
    // No opportunity of the gap is used, and those at its begin and end are.
    let direction = Direction::new(&spec, Dir::Down, 4);
    let count = |from, to| {
        let at = |ms| Time::from_millis(ms);
        direction.opportunity_bytes(at(from), at(to)).get() / 1500
    };
    assert_eq!(count(0, 15_000), 15_000);
    assert_eq!(count(14_999, 15_051), 1 + 2);
    assert_eq!(count(15_000, 15_049), 0);
}
