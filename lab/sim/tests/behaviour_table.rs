// SPDX-License-Identifier: Apache-2.0 OR MIT
//! lab/notes/behaviour.md: every algorithm on every kind of link behind every kind of queue, as a
//! snapshot. Whoever changes an algorithm, a queue or the sender sees in its diff what that did to
//! all of them, and a reviewer reads it.
mod common;
#[path = "common/unsteady.rs"]
mod paths;

use alcc_link::{Changes, RadioSpec, RateSpec};
use alcc_sim::{FlowReport, Scenario, run};
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

/// The same of acknowledgements.
const ACK_LOSSES: [f64; 2] = [0.01, 0.1];

/// Parts of a bandwidth-delay product.
const SHORT: [(&str, u64); 2] = [("a quarter of a BDP", 15_000), ("half a BDP", 30_000)];

/// Milliseconds.
const ROUND_TRIPS: [u64; 3] = [5, 100, 300];

/// What an application has to send: parts of a flow.
const SOURCES: [(&str, &str); 2] = [
    ("2 Mbit/s, every 20 ms", "/app=2mbit"),
    ("1 s of every 3 s", "/on=1s,off=2s"),
];

/// Delays are drawn so often, and lie so far apart.
const JITTER: &str = "every=10ms,delay=15ms..25ms";

/// Name and queue: token buckets that let nobody wait.
const POLICERS: [(&str, &str); 2] = [
    ("bursts of 250 kB", "policer:rate=8000000,burst=250000"),
    ("bursts of 20 kB", "policer:rate=8000000,burst=20000"),
];

/// Name and queue: token buckets in which packets wait.
const SHAPERS: [(&str, &str); 2] = [
    (
        "bursts of 250 kB",
        "shaper:rate=8000000,burst=250000,bytes=2000000",
    ),
    (
        "bursts of 20 kB",
        "shaper:rate=8000000,burst=20000,bytes=2000000",
    ),
];

/// Name, and what the radio link adds in both directions.
const RADIOS: [(&str, &[&str]); 4] = [
    ("HARQ and RLC", &["harq", "rlc"]),
    (
        "handovers, 200 ms every 5 s",
        &["handover:every=5s,length=200ms"],
    ),
    ("Wi-Fi aggregation", &["aggregation"]),
    ("LEO", &["leo:every=5s"]),
];

/// Who is there before, and how much the queue holds: BDP of 20 Mbit/s and 40 ms.
const NEIGHBOURS: [(&str, &str, u64); 6] = [
    ("Cubic, one BDP", "cubic", 100_000),
    ("Cubic, two", "cubic", 200_000),
    ("Cubic, five", "cubic", 500_000),
    ("BBR, one BDP", "bbr", 100_000),
    ("BBR, two", "bbr", 200_000),
    ("BBR, five", "bbr", 500_000),
];

/// Starts and phases of several flows are a draw: so many of them.
const SEEDS: u64 = 3;
const SEVERAL: u64 = 4;
const CROWD: u64 = 30;
const SEVERAL_SECONDS: u64 = 40;

/// The way of one flow.
#[derive(Clone)]
struct Way {
    rate: RateSpec,
    /// Round trip, ms.
    rtt: u64,
    queue: String,
    loss: f64,
    ack_loss: f64,
    changes: Changes,
    radio: Vec<RadioSpec>,
}

impl Way {
    /// A deep drop-tail queue, and nothing else in the way.
    fn new(rate: RateSpec, rtt: u64) -> Self {
        Self {
            rate,
            rtt,
            queue: QUEUES[0].1.to_owned(),
            loss: 0.0,
            ack_loss: 0.0,
            changes: Changes::default(),
            radio: Vec::new(),
        }
    }

    /// 12 Mbit/s, 40 ms.
    fn plain() -> Self {
        Self::new(RateSpec::Fixed(Rate::mbps(12)), 40)
    }
}

/// A cell of the page.
enum Work {
    /// One flow.
    One(String, Box<Way>),
    /// Several of a kind: what, how many, how far apart, queue.
    Several(String, u64, &'static str, &'static str),
    /// Who, beside whom, how much the queue holds.
    Beside(String, &'static str, u64),
    /// Which of the unsteady paths.
    Unsteady(String, usize),
}

impl Work {
    fn cell(&self) -> String {
        match self {
            Self::One(flow, way) => one(flow, way),
            Self::Several(flow, count, apart, queue) => several(flow, *count, apart, queue),
            Self::Beside(flow, neighbour, bytes) => beside(flow, neighbour, *bytes),
            Self::Unsteady(flow, path) => unsteady(flow, &paths::paths()[*path]),
        }
    }
}

/// Utilization in %, mean and 95th percentile of the one-way delay in ms, loss in %.
fn one(flow: &str, way: &Way) -> String {
    let mut scenario = common::scenario(way.rate.clone(), SECONDS, &[flow]);
    let link = &mut scenario.links[0];
    link.down.queue = way.queue.parse().unwrap();
    link.down.delay = Span::from_millis(way.rtt) / 2;
    link.up.delay = Span::from_millis(way.rtt) / 2;
    link.down.loss = way.loss;
    link.up.loss = way.ack_loss;
    link.down.changes = way.changes.clone();
    link.down.radio = way.radio.clone();
    link.up.radio = way.radio.clone();
    let flow = run(&scenario).unwrap().flows.remove(0);
    format!(
        "{:.0} % {:.0}/{:.0} ms {:.1} %",
        100.0 * flow.utilization.unwrap_or(0.0),
        flow.delay.mean.as_millis_f64(),
        flow.delay.p95.as_millis_f64(),
        100.0 * flow.dropped as f64 / flow.sent.max(1) as f64
    )
}

/// 20 Mbit/s, 40 ms, all seeds.
fn seeded(flows: &[&str], queue: &str) -> impl Iterator<Item = Scenario> {
    (1..=SEEDS).map(move |seed| {
        let rate = RateSpec::Fixed(Rate::mbps(20));
        let mut scenario = common::scenario(rate, SEVERAL_SECONDS, flows);
        scenario.links[0].down.queue = queue.parse().unwrap();
        scenario.seed = seed;
        scenario
    })
}

/// The share of the second flow in %, smallest and largest of the seeds, and the mean queueing of
/// the packets of both in ms.
fn beside(flow: &str, neighbour: &str, bytes: u64) -> String {
    let (mut shares, mut queueing) = (Vec::new(), 0.0);
    for scenario in seeded(&[neighbour, flow], &format!("droptail:bytes={bytes}")) {
        let flows = run(&scenario).unwrap().flows;
        let bytes: Vec<f64> = flows.iter().map(|f| f.delivered.get() as f64).collect();
        let all: f64 = bytes.iter().sum();
        shares.push(100.0 * bytes[1] / all);
        let mean = |f: &FlowReport| f.queue_delay.mean.as_millis_f64();
        let weighed = flows.iter().zip(&bytes).map(|(f, bytes)| mean(f) * bytes);
        queueing += weighed.sum::<f64>() / all / SEEDS as f64;
    }
    shares.sort_by(f64::total_cmp);
    let (least, most) = (shares[0], shares[shares.len() - 1]);
    format!("{least:.0}..{most:.0} % {queueing:.0} ms")
}

/// Mean of Jain's index of single seconds, smallest and largest share of a flow in % of an equal
/// one.
fn several(flow: &str, count: u64, apart: &str, queue: &str) -> String {
    let flows = format!("{count}*{flow}/stagger={apart}");
    let (mut jain, mut shares) = (0.0, Vec::new());
    for scenario in seeded(&[&flows], queue) {
        let report = run(&scenario).unwrap();
        jain += report.jain_of_seconds(Span::from_secs(10)).unwrap_or(0.0) / SEEDS as f64;
        let all: f64 = report
            .flows
            .iter()
            .map(|f| f.throughput.as_mbps_f64())
            .sum();
        let share = |mbps: f64| 100.0 * mbps * count as f64 / all;
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

/// Seconds with less than half of the link, and the most that was sent in one, in links.
fn unsteady(flow: &str, path: &paths::Unsteady) -> String {
    let seen = path.run(flow);
    let mark = if seen.starved > path.bound() {
        "**"
    } else {
        ""
    };
    let starved = seen.starved.as_secs_f64();
    format!("{mark}{starved:.1} s{mark} {:.1}", seen.most)
}

fn flows() -> Vec<String> {
    let registry = alcc_zoo::registry();
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

/// A table: title, what is said before it, names of the columns, and for each flow a cell in each.
struct Table {
    title: &'static str,
    text: &'static str,
    columns: Vec<String>,
    work: Vec<Work>,
}

/// A table of one flow on ways of these names.
fn alone(title: &'static str, text: &'static str, ways: &[(String, Way)]) -> Table {
    let row = |flow: String| {
        let work = |(_, way): &(String, Way)| Work::One(flow.clone(), Box::new(way.clone()));
        ways.iter().map(work).collect::<Vec<_>>()
    };
    Table {
        title,
        text,
        columns: ways.iter().map(|(name, _)| name.clone()).collect(),
        work: flows().into_iter().flat_map(row).collect(),
    }
}

fn tables() -> Vec<Table> {
    let mut tables = Vec::new();
    for (name, rate, rtt, bdp) in links() {
        let ways = QUEUES.map(|(name, queue)| {
            let queue = queue.replace("BDP", &bdp.to_string());
            let way = Way::new(rate.clone(), rtt);
            (name.to_owned(), Way { queue, ..way })
        });
        tables.push(alone(name, "", &ways));
    }
    let ways = LOSSES.map(|loss| {
        let way = Way::plain();
        (format!("{} %", 100.0 * loss), Way { loss, ..way })
    });
    tables.push(alone(
        "Random loss: 12 Mbit/s, 40 ms, deep drop-tail",
        "",
        &ways,
    ));
    let ways = ACK_LOSSES.map(|ack_loss| {
        let way = Way::plain();
        (format!("{} %", 100.0 * ack_loss), Way { ack_loss, ..way })
    });
    let title = "Random loss of acknowledgements: 12 Mbit/s, 40 ms, deep drop-tail";
    tables.push(alone(title, "", &ways));
    let ways = SHORT.map(|(name, bytes)| {
        let queue = format!("droptail:bytes={bytes}");
        let way = Way::plain();
        (name.to_owned(), Way { queue, ..way })
    });
    tables.push(alone("Short buffers: 12 Mbit/s, 40 ms", "", &ways));
    let ways = ROUND_TRIPS.map(|rtt| {
        let way = Way::plain();
        (format!("{rtt} ms"), Way { rtt, ..way })
    });
    let title = "Short and long round trips: 12 Mbit/s, deep drop-tail";
    tables.push(alone(title, "", &ways));
    let jitter = Changes::random(JITTER, Span::from_secs(2 * SECONDS), 1).unwrap();
    let ways = [("in order", false), ("with reordering", true)].map(|(name, reorder)| {
        let changes = Changes {
            reorder,
            ..jitter.clone()
        };
        let way = Way::plain();
        (name.to_owned(), Way { changes, ..way })
    });
    tables.push(alone(
        "Jitter: 12 Mbit/s, 40 ms, deep drop-tail",
        JITTER_TEXT,
        &ways,
    ));
    let ways = RADIOS.map(|(name, radio)| {
        let radio = radio.iter().map(|text| text.parse().unwrap()).collect();
        let way = Way::plain();
        (name.to_owned(), Way { radio, ..way })
    });
    let title = "Radio links: 12 Mbit/s, 40 ms, deep drop-tail";
    tables.push(alone(title, RADIO_TEXT, &ways));
    let ways = POLICERS.map(|(name, queue)| {
        let queue = queue.to_owned();
        let way = Way::plain();
        (name.to_owned(), Way { queue, ..way })
    });
    let title = "A policer of 8 Mbit/s before 12 Mbit/s, 40 ms";
    tables.push(alone(title, POLICER_TEXT, &ways));
    let ways = SHAPERS.map(|(name, queue)| {
        let queue = queue.to_owned();
        let way = Way::plain();
        (name.to_owned(), Way { queue, ..way })
    });
    let title = "A shaper of 8 Mbit/s before 12 Mbit/s, 40 ms";
    tables.push(alone(title, SHAPER_TEXT, &ways));
    let sources = |flow: String| {
        SOURCES.map(|(_, part)| Work::One(format!("{flow}{part}"), Box::new(Way::plain())))
    };
    tables.push(Table {
        title: "Applications that do not always send: 12 Mbit/s, 40 ms, deep drop-tail",
        text: "",
        columns: SOURCES.map(|(name, _)| name.to_owned()).into(),
        work: flows().into_iter().flat_map(sources).collect(),
    });
    let queues = [
        QUEUES[0],
        ("drop-tail of one BDP", "droptail:bytes=100000"),
        QUEUES[2],
    ];
    let several =
        |flow: &String| queues.map(|(_, queue)| Work::Several(flow.clone(), SEVERAL, "1s", queue));
    tables.push(Table {
        title: "Several flows of one kind",
        text: SEVERAL_TEXT,
        columns: queues.map(|(name, _)| name.to_owned()).into(),
        work: flows().iter().flat_map(several).collect(),
    });
    let crowd = |flow: &String| Work::Several(flow.clone(), CROWD, "103.3ms", QUEUES[0].1);
    tables.push(Table {
        title: "Thirty flows of one kind",
        text: CROWD_TEXT,
        columns: vec![QUEUES[0].0.to_owned()],
        work: flows().iter().map(crowd).collect(),
    });
    let beside = |flow: &String| {
        NEIGHBOURS.map(|(_, neighbour, bytes)| Work::Beside(flow.clone(), neighbour, bytes))
    };
    tables.push(Table {
        title: "Beside Cubic and BBR",
        text: BESIDE_TEXT,
        columns: NEIGHBOURS.map(|(name, ..)| name.to_owned()).into(),
        work: flows().iter().flat_map(beside).collect(),
    });
    let paths = paths::paths();
    let of = |flow: &String| {
        let work = |path| Work::Unsteady(flow.clone(), path);
        (0..paths.len()).map(work).collect::<Vec<_>>()
    };
    tables.push(Table {
        title: "After a path was unsteady: 20 Mbit/s, drop-tail of 200 kB",
        text: UNSTEADY_TEXT,
        columns: paths.iter().map(|path| path.name.to_owned()).collect(),
        work: flows().iter().flat_map(of).collect(),
    });
    tables
}

const JITTER_TEXT: &str = "\
Every 10 ms the one-way delay to the receiver is drawn from 15 to 25 ms. Packets keep their order, or overtake each other.
";

const UNSTEADY_TEXT: &str = "\
From 10 to 20 s the path changes each second between 40 and 140 ms (in the third column also between 20 and 5 Mbit/s), or loses 30 % in every
second one. In an outage from 10 to 12 s, from 9 to 11 s with 5 % of loss, or in the start it becomes 100 ms longer (in the start: from 40 to
240 ms, and back). Then it stands still until 45 s. A cell is the longest time from then on with less than half of the link, bold beyond 3 s
and ten round trips, and the most that was sent in a second after the first three, in what the link carries in one.
";

const SEVERAL_TEXT: &str = "\
Four flows on 20 Mbit/s and 40 ms, each a second after the one before, 40 s, three seeds. A cell is the mean of Jain's index of single seconds
after 10 s, then the smallest and the largest share of a flow, of all seeds, in per cent of an equal one.

Flows of `sprout` starve each other: it was made for a queue of its own. Those of `copa`, `budget` and `verus` share, also in a deep
drop-tail queue.
";

const CROWD_TEXT: &str = "\
The same of thirty flows, each 103.3 ms after the one before.
";

const BESIDE_TEXT: &str = "\
One flow, and one of Cubic or BBR that began up to 20 ms earlier: 20 Mbit/s, 40 ms, drop-tail, 40 s, three seeds. A cell is the smallest and
the largest share of the flow in per cent (an equal share is 50 %), and the mean queueing of both.
";

const RADIO_TEXT: &str = "\
What the radio link adds behind the bottleneck, in both directions, with the defaults of `alcc list` but for what the column says. The delay
of a cell has it in it.
";

const POLICER_TEXT: &str = "\
A token bucket of 8 Mbit/s: two thirds of the link, so 67 % is all there is. What is beyond it is dropped, and nobody waits.
";

const SHAPER_TEXT: &str = "\
A token bucket of 8 Mbit/s before which packets wait in a drop-tail queue of 2 MB. After a pause a burst passes at 12 Mbit/s.
";

/// At the end.
const MISSING: &str = "\
## What is missing

A handover here takes nobody to another cell with another rate.
";

fn page() -> String {
    let tables = tables();
    let mut all = Vec::new();
    let mut shapes = Vec::new();
    for table in tables {
        shapes.push((table.title, table.text, table.columns));
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
    for (title, text, columns) in shapes {
        write!(page, "\n## {title}\n\n").unwrap();
        if !text.is_empty() {
            writeln!(page, "{text}").unwrap();
        }
        writeln!(page, "| algorithm | {} |", columns.join(" | ")).unwrap();
        writeln!(page, "|---{}|", "|---".repeat(columns.len())).unwrap();
        for flow in flows() {
            let row: Vec<String> = cells.by_ref().take(columns.len()).collect();
            writeln!(page, "| `{flow}` | {} |", row.join(" | ")).unwrap();
        }
    }
    page + "\n" + MISSING
}

#[test]
fn every_algorithm_behaves_as_reviewed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/notes/behaviour.md");
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
        "lab/notes/behaviour.md differs; if that is wanted: ALCC_BLESS=1 cargo test -p alcc-sim --test behaviour_table, and review its diff\n{}",
        changed.join("\n")
    );
}
