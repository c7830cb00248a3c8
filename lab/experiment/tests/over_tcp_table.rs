// SPDX-License-Identifier: Apache-2.0 OR MIT
//! lab/notes/over-tcp.md: every algorithm above a TCP beside its native form. Those of three links are
//! measured and held to the bounds; with `ALCC_BLESS=1` all are, and the page is written anew
//! (`make over-tcp`).
mod support;

use alcc_experiment::Definition;
use alcc_files::ScenarioFolder;
use alcc_results::scenario::{Files, Value};
use alcc_results::{Row, Spread, Tolerance};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const DEFINITION: &str = include_str!("../board/over-tcp.toml");
/// The TCPs below.
const BELOW: [&str; 4] = ["cubic", "reno", "bbr", UNLIMITED];
/// One whose window never holds: the last.
const UNLIMITED: &str = "no window";
/// The links that the test measures: enough to see a change, and in seconds.
const WATCHED: [&str; 3] = ["12 Mbit/s", "48 Mbit/s", "rapidGold"];

/// Asked, in points and ms.
const UTILIZATION: Tolerance = Tolerance::absolute(3.0);
const QUEUEING: Tolerance = Tolerance::percent(30.0).or(10.0);

/// Results of one form on one link.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
struct Got {
    /// Per cent.
    utilization: f64,
    /// Mean queueing delay, ms.
    queueing: f64,
}

impl Got {
    fn is_near(&self, native: &Self) -> bool {
        (self.utilization - native.utilization).abs() <= UTILIZATION.absolute
            && (self.queueing - native.queueing).abs() <= QUEUEING.around(native.queueing)
    }

    /// The median of the starts, each figure by itself.
    fn of(rows: &[Row]) -> Self {
        let median = |figure: fn(&Row) -> Option<f64>| {
            let all: Vec<f64> = rows.iter().map(|r| figure(r).unwrap_or(0.0)).collect();
            Spread::of(&all).unwrap().median
        };
        Self {
            utilization: 100.0 * median(|row| row.utilization),
            queueing: median(|row| row.queue_delay_mean_ms),
        }
    }
}

/// Why a cell is out of the bounds.
fn cause(tcp: &str, got: &Got, above_unlimited: &Got) -> &'static str {
    match tcp {
        "bbr" => "B",
        UNLIMITED => "T",
        _ if got.is_near(above_unlimited) => "T",
        _ => "W",
    }
}

const HEAD: &str = "# Above TCP beside native

Every algorithm above a simulated TCP beside its native form, simulated: one flow, min RTT 40 ms, droptail 2,000,000 bytes, 30 s with
start-up, the median of three starts (on a recorded channel three stretches of it). A cell is utilization and mean queueing delay. The last
column stands above a TCP whose own window never holds: what differs there is the runtime's, what differs only to its left is the TCP's.

A cell is **bold** where utilization is off by more than 3 points, or the delay by more than 30 % and 10 ms. Its letter is the cause:

* **B**: the BBR below. It keeps two bandwidth-delay products in flight, four packets for 200 ms every ten seconds, and paces at what it
  measured of a flow that is not its own. Nobody above can send more than it lets out: an algorithm that wants a longer queue does not get it.
* **W**: the window of the TCP below. The smaller window holds. HyStart ends slow start early, a loss takes 30 % (Cubic) or half (Reno) away,
  and a window that was not full does not grow. Cubic's and Reno's growth after a loss is not the algorithm's.
* **T**: what is known, and when. Counters are read every 5 ms, and what has arrived waits for that before more is written: a window of 20
  segments has 8 % less. RTT samples between two readings are right on average only, which Vegas (two packets), LEDBAT, Vivace and the random
  walk of MDI turn into another window. Read every millisecond, `fixed`, `copa` and `ledbat` above Cubic and Reno are within the bounds on all
  links, but for one cell of `ledbat`; that takes five times as many wake-ups, and is not done. The send buffer of 4 MB ends the overshoot of Reno's slow
  start, and so decides whether a second loss follows.

`make over-tcp ALCC_TRACES=DIR` measures anew and writes this page. Without the recorded channels it writes the links of constant rate and leaves
the others as they are. The test `over_tcp_table` measures the cells of three links, too: each is
within the bounds of the native one, or, where this page shows a miss, of what the page shows.
";

/// For each link and algorithm: native, then above each TCP.
type Table = Vec<(String, Vec<(String, Vec<Got>)>)>;

fn definition() -> Definition {
    Definition::from_toml(DEFINITION, "over-tcp.toml").unwrap()
}

/// The links of the definition, and whether they are recorded.
fn links() -> impl Iterator<Item = (String, bool)> {
    let links = definition().sweep.swap_remove(0).choices.into_iter();
    links.map(|link| (link.name.clone(), link.set["link"] == link.name))
}

fn measured(all: bool) -> Table {
    let folder = std::env::var_os("ALCC_TRACES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        PathBuf::from,
    );
    let files = ScenarioFolder::in_folders([folder.join("alcc"), folder]);
    let (here, missing): (Vec<_>, Vec<_>) =
        links().partition(|(name, recorded)| !recorded || files.find(name).is_some());
    if !missing.is_empty() {
        println!("skipped: no recorded traces");
    }
    let is_asked = |link: &(String, bool)| all || WATCHED.contains(&&*link.0);
    let of = |(link, recorded): (String, bool)| {
        let mut definition = definition().with_schemes(1, &support::algorithms());
        definition.sweep[0].choices.retain(|c| c.name == link);
        // Another seed draws another stretch, but which one is said by the flow's start.
        definition.scenario.start = recorded.then(|| Value::option("start", "0s"));
        let runs = support::runs(&definition, &files);
        let rows = runs.into_iter().flat_map(|run| run.flows);
        let rows: Vec<Row> = rows.collect();
        let starts = definition.sweep[3].choices.len();
        let got: Vec<Got> = rows.chunks(starts).map(Got::of).collect();
        let got = got.chunks(1 + BELOW.len()).map(<[Got]>::to_vec);
        (link, support::algorithms().into_iter().zip(got).collect())
    };
    here.into_iter().filter(is_asked).map(of).collect()
}

/// The measured links, and as they were the others of the page.
fn page(table: &Table, reviewed: &str) -> String {
    let named = table.iter().map(|(link, _)| link.as_str());
    let others = links().filter(|(link, _)| named.clone().all(|l| l != link));
    let others = others.filter_map(|(link, _)| section(reviewed, &link).map(str::to_owned));
    let measured = table.iter().map(|(link, rows)| rendered(link, rows));
    let sections: String = measured.chain(others).collect();
    let real = sections.lines().filter(|line| line.starts_with("| `"));
    let real: Vec<&str> = real
        .flat_map(|row| row.split('|').skip(3).take(3))
        .collect();
    let near = real.iter().filter(|cell| !cell.contains("**")).count();
    let all = real.len();
    format!(
        "{HEAD}\n{near} of {all} cells above Cubic, Reno and BBR are within the bounds.\n{sections}"
    )
}

/// A link of the page, from its heading to the next.
fn section<'a>(page: &'a str, link: &str) -> Option<&'a str> {
    let from = page.find(&format!("\n## {link}\n"))?;
    let length = page[from + 1..].find("\n## ");
    Some(length.map_or(&page[from..], |length| &page[from..=from + length]))
}

fn rendered(link: &str, rows: &[(String, Vec<Got>)]) -> String {
    let mut text = String::new();
    write!(text, "\n## {link}\n\n| algorithm | native |").unwrap();
    for tcp in BELOW {
        write!(text, " above {tcp} |").unwrap();
    }
    text += "\n|---|---|---|---|---|---|\n";
    for (name, row) in rows {
        let native = &row[0];
        write!(text, "| `{name}` | {} |", cell(native)).unwrap();
        for (tcp, got) in BELOW.iter().zip(&row[1..]) {
            if got.is_near(native) {
                write!(text, " {} |", cell(got)).unwrap();
            } else {
                let why = cause(tcp, got, &row[BELOW.len()]);
                write!(text, " **{}** {why} |", cell(got)).unwrap();
            }
        }
        text += "\n";
    }
    text
}

fn cell(got: &Got) -> String {
    format!("{:.1} % {:.0} ms", got.utilization, got.queueing)
}

/// A cell as the page has it, and whether it is marked as a miss.
fn read_cell(text: &str) -> Option<(Got, bool)> {
    let mut words = text.split_whitespace().map(|w| w.trim_matches('*'));
    let utilization = words.next()?.parse().ok()?;
    let queueing = words.nth(1)?.parse().ok()?;
    let got = Got {
        utilization,
        queueing,
    };
    Some((got, text.contains("**")))
}

/// The row of an algorithm on a link as the page has it, without the native cell.
fn shown(page: &str, link: &str, name: &str) -> Option<Vec<(Got, bool)>> {
    let head = format!("| `{name}` |");
    let row = section(page, link)?
        .lines()
        .find(|l| l.starts_with(&head))?;
    row.split('|')
        .skip(3)
        .take(BELOW.len())
        .map(read_cell)
        .collect()
}

#[test]
fn who_has_no_recorded_channels_leaves_their_rows_alone() {
    let row = |utilization| {
        let got = Got {
            utilization,
            queueing: 5.0,
        };
        ("mine".to_owned(), vec![got; 1 + BELOW.len()])
    };
    let link = |name: &str, part| (name.to_owned(), vec![row(part)]);
    let whole = page(&vec![link("12 Mbit/s", 90.0), link("rapidGold", 80.0)], "");
    assert!(whole.contains("\n6 of 6 cells"), "{whole}");
    let part = page(&vec![link("12 Mbit/s", 50.0)], &whole);
    assert_eq!(part, whole.replace("90.0 %", "50.0 %"));
}

#[test]
fn above_tcp_every_algorithm_does_what_it_does_natively() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/notes/over-tcp.md");
    let bless = std::env::var_os("ALCC_BLESS").is_some();
    let table = measured(bless);
    let mut reviewed = std::fs::read_to_string(&path).unwrap();
    if bless {
        reviewed = page(&table, &reviewed);
        std::fs::write(&path, &reviewed).unwrap();
    }
    let mut wrong = Vec::new();
    for (link, rows) in &table {
        for (name, row) in rows {
            let Some(shown) = shown(&reviewed, link, name) else {
                wrong.push(format!(
                    "{link}, {name}: no row in lab/notes/over-tcp.md: 'make over-tcp' writes it"
                ));
                continue;
            };
            for ((tcp, got), (before, is_miss)) in BELOW.iter().zip(&row[1..]).zip(shown) {
                if !(got.is_near(&row[0]) || is_miss && got.is_near(&before)) {
                    let (got, native, before) = (cell(got), cell(&row[0]), cell(&before));
                    wrong.push(format!(
                        "{link}, {name} above {tcp}: {got}, native {native}, before {before}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
