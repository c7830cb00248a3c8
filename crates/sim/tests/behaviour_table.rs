// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/behaviour.md: every algorithm on every kind of link behind every kind of queue, as a snapshot. Whoever changes an algorithm, a
//! queue or the sender sees in its diff what that did to all of them, and a reviewer reads it.
mod common;

use alcc_cc::Registry;
use alcc_link::RateSpec;
use alcc_sim::run;
use alcc_trace::scenario as synthetic;
use alcc_units::{Rate, Span};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

const SECONDS: u64 = 20;

/// What is carried over a simulated Cubic besides running by itself.
const ABOVE_TCP: [&str; 4] = ["verus", "copa", "budget", "sprout"];

/// Name, rate, round trip in ms, one bandwidth-delay product in bytes.
fn links() -> Vec<(&'static str, RateSpec, u64, u64)> {
    let lte = synthetic("lte").unwrap();
    let trace = lte.generate(1, Span::from_secs(60));
    vec![
        (
            "12 Mbit/s, 40 ms",
            RateSpec::Fixed(Rate::mbps(12)),
            40,
            60_000,
        ),
        (
            "1 Mbit/s, 200 ms",
            RateSpec::Fixed(Rate::mbps(1)),
            200,
            25_000,
        ),
        (
            "synthetic trace lte, 40 ms",
            RateSpec::Trace(trace),
            40,
            90_000,
        ),
    ]
}

/// Name and text; `BDP` stands for the link's.
const QUEUES: [(&str, &str); 4] = [
    ("deep drop-tail (2 MB)", "droptail:bytes=2000000"),
    ("drop-tail of one BDP", "droptail:bytes=BDP"),
    ("CoDel", "codel"),
    ("PIE", "pie"),
];

/// Utilization in %, mean and 95th percentile of the one-way delay in ms, loss in %.
fn cell(flow: &str, rate: &RateSpec, rtt: u64, queue: &str) -> String {
    let mut scenario = common::scenario(rate.clone(), SECONDS, &[flow]);
    let link = &mut scenario.links[0];
    link.down.queue = queue.parse().unwrap();
    link.down.delay = Span::from_millis(rtt / 2);
    link.up.delay = Span::from_millis(rtt / 2);
    let flow = run(&scenario).unwrap().flows.remove(0);
    format!(
        "{:.0} % {:.0}/{:.0} ms {:.1} %",
        100.0 * flow.utilization.unwrap_or(0.0),
        flow.delay.mean.as_millis_f64(),
        flow.delay.p95.as_millis_f64(),
        100.0 * flow.dropped as f64 / flow.sent.max(1) as f64
    )
}

fn flows() -> Vec<String> {
    let registry = Registry::builtin();
    let own = registry.iter().map(|a| a.name.to_owned());
    let above = ABOVE_TCP.iter().map(|name| format!("{name}/over=cubic"));
    own.chain(above).collect()
}

/// All cells, in the order of the page. Each is computed by itself, so two threads give what one would.
fn cells(work: &[(String, RateSpec, u64, String)]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let take = || work.get(next.fetch_add(1, Ordering::Relaxed));
        let mut done = Vec::new();
        while let Some(one) = take() {
            let at = work.iter().position(|w| std::ptr::eq(w, one)).unwrap();
            done.push((at, cell(&one.0, &one.1, one.2, &one.3)));
        }
        done
    };
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
        let results = threads.into_iter().map(|t| t.join().unwrap());
        results.flatten().collect::<Vec<_>>()
    });
    all.sort();
    all.into_iter().map(|(_, cell)| cell).collect()
}

fn page() -> String {
    let mut work = Vec::new();
    for (_, rate, rtt, bdp) in links() {
        for flow in flows() {
            for (_, queue) in QUEUES {
                let queue = queue.replace("BDP", &bdp.to_string());
                work.push((flow.clone(), rate.clone(), rtt, queue));
            }
        }
    }
    let mut cells = cells(&work).into_iter();
    let mut page = format!(
        "# Behaviour of every algorithm\n\n\
         Simulated, one flow, the first {SECONDS} s with start-up. A cell is utilization, mean/95th percentile of the one-way delay \
         (queueing and\npropagation), and loss. `/over=cubic` is ALCC above a simulated TCP. A change that moves a figure changes this page: \
         the test `behaviour_table`\ncompares it, and writes it anew with\n\n\
         ```console\n$ ALCC_BLESS=1 cargo test -p alcc-sim --test behaviour_table\n```\n"
    );
    for (name, ..) in links() {
        write!(page, "\n## {name}\n\n| algorithm |").unwrap();
        for (queue, _) in QUEUES {
            write!(page, " {queue} |").unwrap();
        }
        page += "\n|---|---|---|---|---|\n";
        for flow in flows() {
            write!(page, "| `{flow}` |").unwrap();
            for cell in cells.by_ref().take(QUEUES.len()) {
                write!(page, " {cell} |").unwrap();
            }
            page += "\n";
        }
    }
    page
}

#[test]
fn every_algorithm_behaves_as_reviewed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/behaviour.md");
    let now = page();
    if std::env::var_os("ALCC_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<String> = (now.lines())
        .zip(reviewed.lines().chain(std::iter::repeat("")))
        .filter(|(now, reviewed)| now != reviewed)
        .map(|(now, reviewed)| format!("- {reviewed}\n+ {now}"))
        .collect();
    assert!(
        now == reviewed,
        "docs/behaviour.md differs; if that is wanted: ALCC_BLESS=1 cargo test -p alcc-sim --test behaviour_table, and review its diff\n{}",
        changed.join("\n")
    );
}
