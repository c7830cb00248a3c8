// SPDX-License-Identifier: Apache-2.0 OR MIT
//! lab/notes/behaviour.md: every algorithm on every kind of link behind every kind of queue, as a
//! snapshot. Whoever changes an algorithm, a queue or the sender sees in its diff what that did to
//! all of them, and a reviewer reads it.
#[path = "../../sim/tests/common/mod.rs"]
mod common;
#[path = "../../sim/tests/common/unsteady.rs"]
mod paths;
mod support;

use alcc_experiment::{Definition, Run};
use alcc_link::{Changes, RateSpec};
use alcc_live::parallel;
use alcc_results::{Row, Spread, simulated, sum};
use alcc_units::{Rate, Span};
use std::fmt::Write as _;
use std::path::Path;

/// Definitions of the runs.
const DEFINITIONS: [(&str, &str); 2] = [
    ("behaviour.toml", include_str!("../board/behaviour.toml")),
    (
        "behaviour-several.toml",
        include_str!("../board/behaviour-several.toml"),
    ),
];

const SECONDS: u64 = 20;

/// Algorithms that also run above a simulated Cubic.
const ABOVE_TCP: [&str; 4] = ["verus", "copa", "budget", "sprout"];

/// Only on the way to the receiver, as no scenario says it: delays are drawn so often, and lie so
/// far apart.
const JITTER: &str = "every=10ms,delay=15ms..25ms";

/// The table before that of jitter.
const BEFORE_JITTER: &str = "Short and long round trips: 12 Mbit/s, deep drop-tail";

/// Cell of one flow: utilization in %, mean and 95th percentile of the one-way delay in ms, loss in %.
fn one(row: &Row) -> String {
    let [utilization, mean, p95, loss] = [
        row.utilization,
        row.delay_mean_ms,
        row.delay_p95_ms,
        row.loss,
    ]
    .map(|value| value.unwrap_or(0.0));
    let (utilization, loss) = (100.0 * utilization, 100.0 * loss);
    format!("{utilization:.0} % {mean:.0}/{p95:.0} ms {loss:.1} %")
}

/// Cell of a flow beside another: its share in %, smallest and largest of the seeds, and the mean
/// queueing of the packets of both in ms. Of several of a kind: the mean of Jain's index of single
/// seconds, smallest and largest share of a flow in % of an equal one.
fn several(runs: &[Run]) -> String {
    let flows = runs[0].flows.len();
    let mbps = |row: &Row| row.throughput_mbps.unwrap();
    let all = |run: &Run| sum(run.flows.iter().map(mbps));
    let mean = |of: &dyn Fn(&Run) -> f64| sum(runs.iter().map(of)) / runs.len() as f64;
    let (is_counted, equal) = if flows == 2 { (1, 1) } else { (0, flows) };
    let shares = runs.iter().flat_map(|run| {
        let counted = run.flows[is_counted..].iter();
        counted.map(|row| 100.0 * mbps(row) * equal as f64 / all(run))
    });
    let Spread { min, max, .. } = Spread::of(&shares.collect::<Vec<f64>>()).unwrap();
    if flows == 2 {
        let weighed = |row: &Row| row.queue_delay_mean_ms.unwrap_or(0.0) * mbps(row);
        let queueing = mean(&|run| sum(run.flows.iter().map(weighed)) / all(run));
        return format!("{min:.0}..{max:.0} % {queueing:.0} ms");
    }
    let jain = |run: &Run| run.summary.as_ref().unwrap().jain_1s.unwrap_or(0.0);
    format!("{:.2} {min:.0}..{max:.0} %", mean(&jain))
}

/// The same as [`one`] where the delay changes.
fn jitter(flow: &str, reorder: bool) -> String {
    let rate = RateSpec::Fixed(Rate::mbps(12));
    let mut scenario = common::scenario(rate, SECONDS, &[flow]);
    let changes = Changes::random(JITTER, Span::from_secs(2 * SECONDS), 1).unwrap();
    scenario.links[0].down.changes = Changes { reorder, ..changes };
    let report = alcc_sim::run(&scenario).unwrap();
    one(&simulated::rows("", &scenario, &report)[0])
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
    let above = ABOVE_TCP.iter().map(|name| format!("{name}/over=cubic"));
    support::algorithms().into_iter().chain(above).collect()
}

/// A table: names of the columns, and for each flow a cell in each.
struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of cells that no experiment has.
    fn of(title: &str, columns: &[&str], cell: impl Fn(&str, usize) -> String + Sync) -> Self {
        let flows = flows();
        let places = (0..flows.len() * columns.len()).collect::<Vec<usize>>();
        let mut cells = vec![String::new(); places.len()];
        let work = |at: &usize| cell(&flows[at / columns.len()], at % columns.len());
        let done = |at: &usize, text| {
            cells[*at] = text;
            Ok::<(), ()>(())
        };
        parallel::each(&places, 2, work, done).unwrap();
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: cells.chunks(columns.len()).map(<[_]>::to_vec).collect(),
        }
    }

    /// Those of an experiment.
    fn all(definition: Definition) -> Vec<Self> {
        let flows = flows();
        let definition = definition.with_schemes(1, &flows);
        let runs = support::runs(&definition, &());
        let columns = &definition.sweep[2].choices;
        let cells = runs.chunks(definition.starts as usize);
        let cells: Vec<String> = cells
            .map(|runs| match &runs[0].flows[..] {
                [row] => one(row),
                _ => several(runs),
            })
            .collect();
        let mut tables: Vec<Self> = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let (title, name) = column.name.split_once(" | ").unwrap();
            if tables.last().is_none_or(|table| table.title != title) {
                tables.push(Self {
                    title: title.to_owned(),
                    columns: Vec::new(),
                    rows: vec![Vec::new(); flows.len()],
                });
            }
            let table = tables.last_mut().unwrap();
            table.columns.push(name.to_owned());
            for (row, cells) in table.rows.iter_mut().zip(cells.chunks(columns.len())) {
                row.push(cells[at].clone());
            }
        }
        tables
    }
}

fn tables() -> Vec<Table> {
    let read = |(name, text)| Definition::from_toml(text, name).unwrap();
    let mut tables: Vec<Table> = DEFINITIONS
        .map(|file| Table::all(read(file)))
        .into_iter()
        .flatten()
        .collect();
    let before = tables.iter().position(|table| table.title == BEFORE_JITTER);
    let title = "Jitter: 12 Mbit/s, 40 ms, deep drop-tail";
    let of_jitter = Table::of(title, &["in order", "with reordering"], |flow, at| {
        jitter(flow, at == 1)
    });
    tables.insert(before.unwrap() + 1, of_jitter);
    let paths = paths::paths();
    let names: Vec<&str> = paths.iter().map(|path| path.name).collect();
    let title = "After a path was unsteady: 20 Mbit/s, drop-tail of 200 kB";
    tables.push(Table::of(title, &names, |flow, at| {
        unsteady(flow, &paths[at])
    }));
    tables
}

/// Text before the table whose title begins with the key.
const TEXTS: [(&str, &str); 8] = [
    ("Jitter", JITTER_TEXT),
    ("Radio", RADIO_TEXT),
    ("A policer", POLICER_TEXT),
    ("A shaper", SHAPER_TEXT),
    ("Several", SEVERAL_TEXT),
    ("Thirty", CROWD_TEXT),
    ("Beside", BESIDE_TEXT),
    ("After", UNSTEADY_TEXT),
];

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
    let mut page = format!(
        "# Behaviour of every algorithm\n\n\
         Simulated, the first {SECONDS} s of one flow with start-up; at the end several flows. A cell is utilization, mean/95th percentile \
         of the one-way delay (queueing and\npropagation), and loss. `/over=cubic` is ALCC above a simulated TCP. A change that moves a figure \
         changes this page: the test `behaviour_table`\ncompares it, and writes it anew with\n\n\
         ```console\n$ ALCC_BLESS=1 cargo test -p alcc-experiment --test behaviour_table\n```\n"
    );
    for table in tables() {
        let Table {
            title,
            columns,
            rows,
        } = table;
        write!(page, "\n## {title}\n\n").unwrap();
        if let Some((_, text)) = TEXTS.iter().find(|(begin, _)| title.starts_with(begin)) {
            writeln!(page, "{text}").unwrap();
        }
        writeln!(page, "| algorithm | {} |", columns.join(" | ")).unwrap();
        writeln!(page, "|---{}|", "|---".repeat(columns.len())).unwrap();
        for (flow, row) in flows().iter().zip(rows) {
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
        "lab/notes/behaviour.md differs; if that is wanted: ALCC_BLESS=1 cargo test -p alcc-experiment --test behaviour_table, and review its diff\n{}",
        changed.join("\n")
    );
}
