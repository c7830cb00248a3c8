// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/behaviour.md: every algorithm on every kind of link behind every kind of queue, as a
//! snapshot. Whoever changes an algorithm, a queue or the sender sees in its diff what that did to
//! all of them, and a reviewer reads it.
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

/// Random loss on a deep drop-tail queue.
const LOSSES: [f64; 3] = [0.001, 0.01, 0.03];

/// Starts and phases of several flows are a draw: so many of them.
const SEEDS: u64 = 3;
const SEVERAL: u64 = 4;
const SEVERAL_SECONDS: u64 = 40;

/// A cell of the page.
enum Work {
    /// One flow: what, rate, round trip in ms, queue, loss.
    One(String, RateSpec, u64, String, f64),
    /// Several of a kind: what, queue.
    Several(String, &'static str),
}

impl Work {
    fn cell(&self) -> String {
        match self {
            Self::One(flow, rate, rtt, queue, loss) => one(flow, rate, *rtt, queue, *loss),
            Self::Several(flow, queue) => several(flow, queue),
        }
    }
}

/// Utilization in %, mean and 95th percentile of the one-way delay in ms, loss in %.
fn one(flow: &str, rate: &RateSpec, rtt: u64, queue: &str, loss: f64) -> String {
    let mut scenario = common::scenario(rate.clone(), SECONDS, &[flow]);
    let link = &mut scenario.links[0];
    link.down.queue = queue.parse().unwrap();
    link.down.delay = Span::from_millis(rtt / 2);
    link.up.delay = Span::from_millis(rtt / 2);
    link.down.loss = loss;
    let flow = run(&scenario).unwrap().flows.remove(0);
    format!(
        "{:.0} % {:.0}/{:.0} ms {:.1} %",
        100.0 * flow.utilization.unwrap_or(0.0),
        flow.delay.mean.as_millis_f64(),
        flow.delay.p95.as_millis_f64(),
        100.0 * flow.dropped as f64 / flow.sent.max(1) as f64
    )
}

/// Mean of Jain's index of single seconds, smallest and largest share of a flow in % of an equal
/// one.
fn several(flow: &str, queue: &str) -> String {
    let flows = format!("{SEVERAL}*{flow}/stagger=1s");
    let (mut jain, mut shares) = (0.0, Vec::new());
    for seed in 1..=SEEDS {
        let rate = RateSpec::Fixed(Rate::mbps(20));
        let mut scenario = common::scenario(rate, SEVERAL_SECONDS, &[&flows]);
        scenario.links[0].down.queue = queue.parse().unwrap();
        scenario.seed = seed;
        let report = run(&scenario).unwrap();
        jain += report.jain_of_seconds(Span::from_secs(10)).unwrap_or(0.0) / SEEDS as f64;
        let all: f64 = report
            .flows
            .iter()
            .map(|f| f.throughput.as_mbps_f64())
            .sum();
        let share = |mbps: f64| 100.0 * mbps * SEVERAL as f64 / all;
        shares.extend(
            report
                .flows
                .iter()
                .map(|f| share(f.throughput.as_mbps_f64())),
        );
    }
    shares.sort_by(f64::total_cmp);
    format!(
        "{jain:.2} {:.0}..{:.0} %",
        shares[0],
        shares[shares.len() - 1]
    )
}

fn flows() -> Vec<String> {
    let registry = Registry::builtin();
    let own = registry.iter().map(|a| a.name.to_owned());
    let above = ABOVE_TCP.iter().map(|name| format!("{name}/over=cubic"));
    own.chain(above).collect()
}

/// All cells, in the order of the page. Each is computed by itself, so two threads give what one
/// would.
fn cells(work: &[Work]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let take = || next.fetch_add(1, Ordering::Relaxed);
        let mut done = Vec::new();
        while let (at, Some(one)) = {
            let at = take();
            (at, work.get(at))
        } {
            done.push((at, one.cell()));
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

/// A table: title, names of the columns, and for each flow a cell in each.
struct Table {
    title: String,
    columns: Vec<String>,
    work: Vec<Work>,
}

fn tables() -> Vec<Table> {
    let mut tables = Vec::new();
    for (name, rate, rtt, bdp) in links() {
        let one = |flow: &String| {
            let (flow, rate) = (flow.clone(), rate.clone());
            QUEUES.map(move |(_, queue)| {
                let queue = queue.replace("BDP", &bdp.to_string());
                Work::One(flow.clone(), rate.clone(), rtt, queue, 0.0)
            })
        };
        tables.push(Table {
            title: name.to_owned(),
            columns: QUEUES.map(|(name, _)| name.to_owned()).into(),
            work: flows().iter().flat_map(one).collect(),
        });
    }
    let lossy = |flow: &String| {
        let (rate, flow) = (RateSpec::Fixed(Rate::mbps(12)), flow.clone());
        LOSSES.map(move |loss| {
            let queue = QUEUES[0].1.to_owned();
            Work::One(flow.clone(), rate.clone(), 40, queue, loss)
        })
    };
    tables.push(Table {
        title: "Random loss: 12 Mbit/s, 40 ms, deep drop-tail".to_owned(),
        columns: LOSSES.map(|p| format!("{} %", 100.0 * p)).into(),
        work: flows().iter().flat_map(lossy).collect(),
    });
    let queues = [
        QUEUES[0],
        ("drop-tail of one BDP", "droptail:bytes=100000"),
        QUEUES[2],
    ];
    let several = |flow: &String| queues.map(|(_, queue)| Work::Several(flow.clone(), queue));
    tables.push(Table {
        title: "Several flows of one kind".to_owned(),
        columns: queues.map(|(name, _)| name.to_owned()).into(),
        work: flows().iter().flat_map(several).collect(),
    });
    tables
}

/// Before the last table.
const SEVERAL_TEXT: &str = "\
Four flows on 20 Mbit/s and 40 ms, each a second after the one before, 40 s, three seeds. A cell is the mean of Jain's index of single seconds
after 10 s, then the smallest and the largest share of a flow, of all seeds, in per cent of an equal one.

Flows of `sprout` starve each other: it was made for a queue of its own. Those of `copa`, `budget` and `verus` share, also in a deep
drop-tail queue. With unequal round trips those of `verus` do not: the longer path tolerates the longer queue.
";

fn page() -> String {
    let tables = tables();
    let mut all = Vec::new();
    let mut shapes = Vec::new();
    for table in tables {
        shapes.push((table.title, table.columns));
        all.extend(table.work);
    }
    let mut cells = cells(&all).into_iter();
    let mut page = format!(
        "# Behaviour of every algorithm\n\n\
         Simulated, the first {SECONDS} s of one flow with start-up; at the end several flows. A cell is utilization, mean/95th percentile \
         of the one-way delay (queueing and\npropagation), and loss. `/over=cubic` is ALCC above a simulated TCP. A change that moves a figure \
         changes this page: the test `behaviour_table`\ncompares it, and writes it anew with\n\n\
         ```console\n$ ALCC_BLESS=1 cargo test -p alcc-sim --test behaviour_table\n```\n"
    );
    let last = shapes.len() - 1;
    for (number, (title, columns)) in shapes.into_iter().enumerate() {
        write!(page, "\n## {title}\n\n").unwrap();
        if number == last {
            writeln!(page, "{SEVERAL_TEXT}").unwrap();
        }
        writeln!(page, "| algorithm | {} |", columns.join(" | ")).unwrap();
        writeln!(page, "|---{}|", "|---".repeat(columns.len())).unwrap();
        for flow in flows() {
            let row: Vec<String> = cells.by_ref().take(columns.len()).collect();
            writeln!(page, "| `{flow}` | {} |", row.join(" | ")).unwrap();
        }
    }
    page
}

#[test]
fn every_algorithm_behaves_as_reviewed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/behaviour.md");
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
