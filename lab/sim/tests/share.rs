// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows that share one allowance, beside one flow of another host.
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FlowSpec, Scenario, Timing, run};
use alcc_units::{Rate, Span};

/// Throughputs in Mbit/s of these flows on 20 Mbit/s and 40 ms.
fn throughputs(flows: &[&str]) -> Vec<f64> {
    throughputs_with(flows, Timing::default())
}

fn throughputs_with(flows: &[&str], timing: Timing) -> Vec<f64> {
    let link = RateSpec::Fixed(Rate::mbps(20));
    let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), QueueSpec::default());
    scenario.duration = Span::from_secs(20);
    let registry = alcc_zoo::registry();
    let parse = |flow: &&str| FlowSpec::parse(flow, &registry, timing).unwrap();
    scenario.flows = flows.iter().flat_map(parse).collect();
    let report = run(&scenario).unwrap();
    let mbps = |flow: &alcc_sim::FlowReport| flow.throughput.as_mbps_f64();
    report.flows.iter().map(mbps).collect()
}

#[test]
fn six_that_share_take_the_part_of_one() {
    for algorithm in ["budget", "copa"] {
        let one = format!("{algorithm}/over=cubic");
        let alone = throughputs(&[&format!("6*{one}"), &one]);
        let sharing = throughputs(&[&format!("6*{one}/share=host"), &one]);
        let (before, after) = (alone[6], sharing[6]);
        assert!(before < 6.0, "{algorithm}: {alone:?}");
        assert!((7.0..14.0).contains(&after), "{algorithm}: {sharing:?}");
        let least = sharing.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least > 0.7, "{algorithm}: {sharing:?}");
    }
}

/// Workers of a server: each has a copy of the algorithm, and sees little.
#[test]
fn six_in_several_processes_take_the_part_of_one() {
    for algorithm in ["budget", "copa", "cubic"] {
        for processes in [
            ["a", "a", "b", "b", "c", "d"],
            ["a", "a", "a", "a", "a", "b"],
        ] {
            let one = format!("{algorithm}/over=cubic");
            let workers = processes.map(|process| format!("{one}/share=host:{process}"));
            let six: Vec<&str> = workers.iter().map(String::as_str).collect();
            let beside = throughputs(&[&six[..], &[&one]].concat());
            let all = format!("{algorithm}, {processes:?}: {beside:?}");
            assert!((7.0..14.0).contains(&beside[6]), "{all}");
            let least = beside.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(least > 0.7, "{all}");
            let alone = throughputs(&six);
            assert!(alone.iter().sum::<f64>() > 17.0, "{all}; {alone:?}");
        }
    }
}

/// On a busy machine a program writes some time after it was told that it may. The other host is as
/// busy.
#[test]
fn six_programs_that_wake_late_take_the_part_of_one() {
    let late = |ms| Timing {
        wake: Span::from_millis(ms),
        ..Timing::default()
    };
    for (algorithm, ms) in [("budget", 5), ("budget", 20), ("copa", 5), ("copa", 20)] {
        let one = format!("{algorithm}/over=cubic");
        let sharing = throughputs_with(&[&format!("6*{one}/share=host"), &one], late(ms));
        let all: f64 = sharing.iter().sum();
        assert!(
            (0.3..0.7).contains(&(sharing[6] / all)),
            "{algorithm}, {ms} ms: {sharing:?}"
        );
    }
}

#[test]
fn those_that_share_fill_a_link_of_their_own() {
    for flow in [
        "budget",
        "copa",
        "reno",
        "budget/over=cubic",
        "copa/over=cubic",
        "bbr/over=cubic",
    ] {
        let flows = format!("6*{flow}/share=host");
        let mbps = throughputs(&[&flows]);
        let all: f64 = mbps.iter().sum();
        assert!(all > 17.0, "{flows}: {mbps:?}");
        assert!(mbps.iter().all(|one| *one > 2.0), "{flows}: {mbps:?}");
    }
}

#[test]
fn what_has_a_quota_or_a_receiver_module_cannot_share() {
    for algorithm in ["sprout", "verus", "mdi"] {
        let flow = format!("{algorithm}/over=cubic/share=host");
        let parsed = FlowSpec::parse(&flow, &alcc_zoo::registry(), Timing::default());
        let error = parsed.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("cannot share: an algorithm"), "{error}");
    }
}
