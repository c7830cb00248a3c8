// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::scheme::Side;
use crate::server::RuntimeReport;
use alcc_results::Row;
use std::path::Path;

#[test]
fn a_native_form_and_its_kin_run_beside_each_other() {
    let names = |text: &str| -> Vec<Vec<String>> {
        let schemes = Scheme::list(text, &alcc_zoo::registry(), &[Side::Emulated]).unwrap();
        let name = |s: Scheme| s.name;
        let group = |g: Vec<Scheme>| g.into_iter().map(name).collect();
        groups(&schemes).into_iter().map(group).collect()
    };
    assert_eq!(
        names(
            "cubic,verus/transport=udp,copa/transport=udp,verus/over=cubic,copa/over=cubic,sprout/over=cubic,verus:r=4/over=cubic,verus/over=reno/transport=in-band"
        ),
        [
            vec!["verus-udp", "alcc-verus", "alcc-verus-inband/over=reno"],
            vec!["copa-udp", "alcc-copa"],
            vec!["cubic", "alcc-sprout", "alcc-verus:r=4"],
        ]
    );
    // As ever: all at the same time.
    assert_eq!(names("cubic,verus/over=cubic,copa/over=cubic").len(), 1);
}

/// Two runs of these schemes on 12 Mbit/s.
fn two_runs(schemes: Vec<Scheme>) -> Plan {
    Plan {
        links: vec![Link::open(Path::new("12mbit"), 1).unwrap()],
        schemes,
        duration: Span::from_secs(5),
        settle: Span::from_secs(1),
        runs: 2,
        backend: Backend::Simulated {
            registry: alcc_zoo::registry(),
            plugins: Vec::new(),
            workers: 1,
            start: Span::ZERO,
        },
        command: String::new(),
        keep: None,
    }
}

#[test]
fn progress_begins_before_the_first_run_ends() {
    let schemes = Scheme::list("cubic,copa", &alcc_zoo::registry(), &[Side::Simulated]);
    let plan = two_runs(schemes.unwrap());
    let mut seen = Vec::new();
    let stop = AtomicBool::new(false);
    compare(&plan, &stop, &mut |p| seen.push((p.done, p.of, p.part))).unwrap();
    assert_eq!(seen.first(), Some(&(0, 4, 0.0)));
    assert_eq!(seen.last(), Some(&(4, 4, 1.0)));
    assert!(seen.is_sorted_by(|a, b| a.2 <= b.2), "{seen:?}");
}

/// The losses of the second run of real programs are not those of the first.
#[test]
fn repetitions_have_the_next_seeds_on_both_sides() {
    let schemes = Scheme::list("cubic,reno", &alcc_zoo::registry(), &[Side::Emulated]).unwrap();
    let mut plan = two_runs(schemes);
    plan.links[0].path.seed = 7;
    let emulated = Backend::Emulated {
        tools: Tools::new("alcc".into()),
        log: None,
        twin: None,
    };
    let seeds = |plan: &Plan| {
        let links = seeded(plan, &plan.links[0], &AtomicBool::new(false)).unwrap();
        let seeds = |run: Run<'_>| (run.number, run.link.path.seed);
        let seeds = runs(plan, &links).into_iter().map(seeds);
        seeds.collect::<Vec<_>>()
    };
    assert_eq!(seeds(&plan), [(1, 7), (1, 7), (2, 8), (2, 8)]);
    plan.backend = emulated;
    assert_eq!(seeds(&plan), [(1, 7), (2, 8)]);
}

/// A thousand synthetic channels take half a minute to make.
#[test]
fn links_are_not_made_for_who_has_stopped() {
    let plan = two_runs(Vec::new());
    let made = seeded(&plan, &plan.links[0], &AtomicBool::new(true));
    assert!(matches!(made, Err(LabError::Stopped)), "{made:?}");
}

/// A published algorithm in this project's own form is not called by the bare name.
#[test]
fn every_table_says_tuned() {
    let row = |scheme: &str, profile: &str, delay| Row {
        link: "l".to_owned(),
        scheme: scheme.to_owned(),
        profile: Some(profile.to_owned()),
        throughput_mbps: Some(10.0),
        delay_mean_ms: Some(delay),
        ..Row::default()
    };
    let flows = vec![
        row("cubic", "kernel", 200.0),
        row("copa", "tuned", 20.0),
        row("alcc-copa", "tuned", 30.0),
    ];
    let mut results = Results {
        summary: summary(&flows),
        flows,
        ..Results::default()
    };
    let named = |scheme: &str| alcc_results::Twin {
        scheme: scheme.to_owned(),
        ..Default::default()
    };
    results.summary.twins = vec![named("copa"), named("alcc-copa")];
    results.summary.pairs = vec![alcc_results::Pair {
        native: "copa".to_owned(),
        scheme: "alcc-copa".to_owned(),
        ..Default::default()
    }];
    for text in [
        table(&results, Interval::Range),
        results.summary.sentence.clone(),
        twin::table(&results),
        pairs::table(&results),
        pairs::markdown(&results),
        crate::picture::svg(&results).unwrap(),
    ] {
        assert!(text.contains("copa (tuned)"), "{text}");
        let rest = text.replace("copa (tuned)", "").replace("alcc-", "");
        assert!(!rest.contains("copa") && !rest.contains("tuned"), "{text}");
    }
    let csv = csv(&results);
    assert!(csv.starts_with("link,scheme,") && csv.contains(",profile\n"));
    assert_eq!(csv.matches(",tuned\n").count(), 2, "{csv}");
}

/// Its page and its table begin with the headline, the notes come last.
#[test]
fn the_headline_of_a_full_machine_says_so() {
    let plan = two_runs(Vec::new());
    let run = |number| Run {
        link: &plan.links[0],
        schemes: Vec::new(),
        number,
    };
    let report = |late_wakeups| RuntimeReport {
        connections: 1,
        wakeups: 100,
        late_wakeups,
        ..RuntimeReport::default()
    };
    let measured = |late_wakeups| {
        let row = |scheme: &str, delay| Row {
            scheme: scheme.to_owned(),
            throughput_mbps: Some(10.0),
            delay_mean_ms: Some(delay),
            ..Row::default()
        };
        Measured {
            rows: vec![row("cubic", 200.0), row("alcc-copa", 20.0)],
            notes: report(late_wakeups).notes().unwrap(),
            ..Measured::default()
        }
    };
    let sentence = |late: [u64; 2]| {
        let all = late.map(measured).to_vec();
        gather(&plan, &[run(1), run(2)], all).summary.sentence
    };
    assert!(sentence([0, 5]).starts_with("In the median of 2 runs, alcc-copa has 100 %"));
    let full = sentence([60, 0]);
    assert!(
        full.starts_with("Not to be trusted, as this machine was too busy in 1 of 2 runs"),
        "{full}"
    );
}
