// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each algorithm does on a plain link what its kind does: loss-based ones fill a deep buffer,
//! those by delay do not, models of the path do not mind random loss, and all use what there is.
//! Bounds are of the kind, not of a run.
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FlowReport, FlowSpec, Scenario, Timing, run};
use alcc_units::{Rate, Span};
use std::ops::RangeInclusive;

struct Path {
    mbps: u64,
    rtt: u64,
    buffer: &'static str,
    loss: f64,
    seconds: u64,
}

fn over(path: &Path, flow: &str) -> FlowReport {
    let queue: QueueSpec = format!("droptail:bytes={}", path.buffer).parse().unwrap();
    let link = RateSpec::Fixed(Rate::mbps(path.mbps));
    let mut scenario = Scenario::dumbbell(link, Span::from_millis(path.rtt), queue);
    scenario.links[0].down.loss = path.loss;
    scenario.duration = Span::from_secs(path.seconds);
    scenario.flows = FlowSpec::parse(flow, &alcc_zoo::registry(), Timing::default()).unwrap();
    run(&scenario).unwrap().flows.remove(0)
}

/// All that are out of bounds, so that one run tells everything: utilization in per cent and mean
/// queueing delay in ms.
fn check(path: &Path, rows: &[(&str, RangeInclusive<f64>, RangeInclusive<f64>)]) {
    let mut wrong = Vec::new();
    for (flow, share, delay) in rows {
        let got = over(path, flow);
        let u = got.utilization.unwrap() * 100.0;
        let d = got.queue_delay.mean.as_millis_f64();
        if !share.contains(&u) || !delay.contains(&d) {
            wrong.push(format!(
                "{flow}: {u:.1} % and {d:.1} ms, not {share:?} and {delay:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const ALL: RangeInclusive<f64> = 95.0..=100.0;
const MOST: RangeInclusive<f64> = 80.0..=100.0;

/// 60 kB fit into the path, 2 MB into the buffer: 1.3 s.
#[test]
fn a_deep_buffer() {
    let path = Path {
        mbps: 12,
        rtt: 40,
        buffer: "2M",
        loss: 0.0,
        seconds: 20,
    };
    let full = 300.0..=1400.0;
    let rows: Vec<_> = [
        ("reno", ALL, full.clone()),
        ("cubic", ALL, full.clone()),
        ("cubic:profile=linux-3.16", ALL, full.clone()),
        ("cubic:profile=rfc9438", ALL, full.clone()),
        ("bic", ALL, full),
        ("westwood", ALL, 20.0..=1000.0),
        ("vegas", ALL, 1.0..=100.0),
        ("ledbat", 60.0..=100.0, 0.0..=65.0),
        ("bbr", ALL, 0.0..=30.0),
        ("bbr3", ALL, 0.0..=30.0),
        ("bbr3:profile=draft", ALL, 0.0..=30.0),
        ("copa", ALL, 0.0..=40.0),
        ("copa:mode=auto", ALL, 0.0..=40.0),
        ("vivace", 90.0..=100.0, 0.0..=40.0),
        ("vivace:profile=paper", 90.0..=100.0, 0.0..=40.0),
        ("mdi", MOST, 0.0..=200.0),
    ]
    .into();
    check(&path, &rows);
}

/// Half of what fits into the path.
#[test]
fn a_shallow_buffer() {
    let path = Path {
        mbps: 12,
        rtt: 40,
        buffer: "30000",
        loss: 0.0,
        seconds: 20,
    };
    let any = 0.0..=21.0;
    let names = [
        "reno", "cubic", "bic", "westwood", "vegas", "bbr", "bbr3", "copa", "vivace", "mdi",
    ];
    let rows: Vec<_> = names.map(|name| (name, MOST, any.clone())).into();
    check(&path, &rows);
}

/// 1.22 packets per RTT over the root of one per cent are 3.5 Mbit/s: a third of the link for Reno
/// and its like. The closed form is for a long run without timeouts.
#[test]
fn random_loss() {
    let path = Path {
        mbps: 12,
        rtt: 40,
        buffer: "2M",
        loss: 0.01,
        seconds: 30,
    };
    let (third, low) = (18.0..=40.0, 0.0..=10.0);
    let rows = [
        ("reno", third.clone(), low.clone()),
        ("cubic", third.clone(), low.clone()),
        ("bic", third.clone(), low.clone()),
        ("vegas", third, low.clone()),
        ("westwood", 35.0..=100.0, low.clone()),
        ("bbr", 90.0..=100.0, 0.0..=30.0),
        ("bbr3", 70.0..=100.0, 0.0..=30.0),
        ("copa", 90.0..=100.0, 0.0..=40.0),
        ("vivace", 80.0..=100.0, low),
    ];
    check(&path, &rows);
    let fast = Path { mbps: 100, ..path };
    // Three rounds of startup, not all of the time: losses are no reason to begin the search for
    // the full pipe again.
    let rows = [
        ("bbr", 70.0..=100.0, 0.0..=10.0),
        ("bbr3", 70.0..=100.0, 0.0..=10.0),
    ];
    check(&fast, &rows);
}

#[test]
fn an_intercontinental_path() {
    let path = Path {
        mbps: 12,
        rtt: 300,
        buffer: "2M",
        loss: 0.0,
        seconds: 40,
    };
    let any = 0.0..=1400.0;
    let rows: Vec<_> = [
        ("reno", MOST, any.clone()),
        ("cubic", MOST, any.clone()),
        ("bic", MOST, any.clone()),
        ("vegas", MOST, any.clone()),
        ("bbr", MOST, any.clone()),
        ("bbr3", MOST, any.clone()),
        ("copa", 60.0..=100.0, any.clone()),
        ("vivace", MOST, any.clone()),
        ("mdi", 60.0..=100.0, any),
    ]
    .into();
    check(&path, &rows);
}

#[test]
fn a_fast_link() {
    let path = Path {
        mbps: 100,
        rtt: 40,
        buffer: "2M",
        loss: 0.0,
        seconds: 10,
    };
    let rows: Vec<_> = [
        ("reno", MOST, 0.0..=170.0),
        ("cubic", MOST, 0.0..=170.0),
        ("bic", MOST, 0.0..=170.0),
        ("bbr", 90.0..=100.0, 0.0..=20.0),
        ("bbr3", 90.0..=100.0, 0.0..=20.0),
        ("vivace", 75.0..=100.0, 0.0..=20.0),
    ]
    .into();
    check(&path, &rows);
}

/// Every algorithm of `alcc-lab list` sends, in each of its profiles, without further files, and
/// gives the same result twice.
#[test]
fn every_algorithm_in_every_profile() {
    let path = Path {
        mbps: 6,
        rtt: 40,
        buffer: "100k",
        loss: 0.0,
        seconds: 5,
    };
    for algorithm in alcc_zoo::registry().iter() {
        let named = |profile: &&str| format!("{}:profile={profile}", algorithm.name);
        let mut flows: Vec<String> = algorithm.profiles.iter().map(named).collect();
        if flows.is_empty() {
            flows.push(algorithm.name.to_owned());
        }
        for flow in flows {
            let (first, again) = (over(&path, &flow), over(&path, &flow));
            let rate = first.throughput.as_mbps_f64();
            assert!(rate > 0.4, "{flow}: {rate} Mbit/s");
            assert_eq!(first.throughput, again.throughput, "{flow}");
            assert_eq!(first.delay.mean, again.delay.mean, "{flow}");
        }
    }
}

/// Three flows of the text's Verus begin ten seconds apart on a path of 300 kB with 750 kB of
/// buffer. Until the loss phase ends only acknowledgements move the window, so what M took is not
/// back within a few epochs. They lose 28, 35 and 23 %, because the text's timer finds a loss three
/// delays late (20 to 28 % if three later packets show it). With equation 4 in the loss phase it was
/// 81 to 99 %, and 47, 26 and 58 % with timers that grew with the delay after they were set.
#[test]
fn the_loss_phase_of_verus_as_published() {
    let queue: QueueSpec = "droptail:bytes=750000".parse().unwrap();
    let link = RateSpec::Fixed(Rate::mbps(60));
    let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), queue);
    for at in ["0s", "10s", "20s"] {
        let flow = format!("verus:profile=paper@{at}");
        scenario = scenario.with(&flow).unwrap();
    }
    for flow in run(&scenario).unwrap().flows {
        assert!((0.18..0.38).contains(&flow.loss()), "{}", flow.loss());
    }
}
