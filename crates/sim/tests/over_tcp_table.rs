// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/over-tcp.md: every algorithm above a TCP beside its native form. `ALCC_BLESS=1` measures all and writes the page
//! (`make over-tcp`); otherwise a part of the cells is measured and held to the bounds.
#![expect(clippy::disallowed_macros, reason = "a skipped test says so")]
mod common;

use alcc_cc::Registry;
use alcc_link::RateSpec;
use alcc_sim::run;
use alcc_trace::Trace;
use alcc_units::Rate;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The TCPs below.
const BELOW: [&str; 4] = ["cubic", "reno", "bbr", "fixed:window=60000"];
const RECORDED: [&str; 5] = [
    "CampusWalk",
    "CityDrive",
    "Corniche",
    "highwayGold",
    "rapidGold",
];
/// When the flow starts, and the seed of that run: on a recorded channel a start is another stretch of it.
const STARTS: [(&str, u64); 3] = [("0s", 1), ("7.3s", 2), ("19.7s", 3)];
const SECONDS: u64 = 30;

/// Asked: utilization within so many points, mean queueing delay within this part or so many ms.
const POINTS: f64 = 3.0;
const PART: f64 = 0.3;
const MS: f64 = 10.0;

/// What one form gave on one link.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd)]
struct Got {
    /// Per cent.
    utilization: f64,
    /// Mean queueing delay, ms.
    queueing: f64,
}

impl Got {
    fn is_near(&self, native: &Self) -> bool {
        (self.utilization - native.utilization).abs() <= POINTS
            && (self.queueing - native.queueing).abs() <= MS.max(PART * native.queueing)
    }
}

fn algorithms() -> Vec<String> {
    let only = std::env::var("ALCC_ALGORITHMS").unwrap_or_default();
    let only: Vec<&str> = only.split(',').filter(|n| !n.is_empty()).collect();
    let registry = Registry::builtin();
    let names = registry.iter().map(|a| a.name.to_owned());
    names
        .filter(|n| only.is_empty() || only.contains(&n.as_str()))
        .collect()
}

fn plain() -> Vec<(String, RateSpec)> {
    [12, 48]
        .map(|mbps| (format!("{mbps} Mbit/s"), RateSpec::Fixed(Rate::mbps(mbps))))
        .into()
}

/// The recorded channels that are there.
fn recorded() -> Vec<(String, RateSpec)> {
    let folder = std::env::var_os("ALCC_TRACES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        PathBuf::from,
    );
    let read = |name: &&str| {
        let places = [folder.join("alcc").join(name), folder.join(name)];
        let bytes = places.iter().find_map(|place| std::fs::read(place).ok())?;
        let trace = Trace::parse(&bytes).unwrap();
        Some(((*name).to_owned(), RateSpec::Trace(trace)))
    };
    let found: Vec<_> = RECORDED.iter().filter_map(read).collect();
    if found.len() < RECORDED.len() {
        println!("skipped: no recorded traces");
    }
    found
}

fn once(link: &RateSpec, flow: &str, seconds: u64, start: (&str, u64)) -> Got {
    let flow = format!("{flow}@{}", start.0);
    let mut scenario = common::scenario(link.clone(), seconds, &[&flow]);
    scenario.seed = start.1;
    let flow = run(&scenario).unwrap().flows.remove(0);
    Got {
        utilization: 100.0 * flow.utilization.unwrap_or(0.0),
        queueing: flow.queue_delay.mean.as_millis_f64(),
    }
}

/// The median of the starts, each figure by itself.
fn median(runs: &[Got]) -> Got {
    let of = |figure: fn(&Got) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Got {
        utilization: of(|g| g.utilization),
        queueing: of(|g| g.queueing),
    }
}

/// All runs on two threads; each is computed by itself, so their order does not matter.
fn measure(work: &[(RateSpec, String, u64, (&str, u64))]) -> Vec<Got> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((link, flow, seconds, start)) = work.get(at) else {
                return done;
            };
            done.push((at, once(link, flow, *seconds, *start)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
        let results = threads.into_iter().map(|t| t.join().unwrap());
        results.flatten().collect::<Vec<_>>()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, got)| got).collect()
}

/// For each link and algorithm: native, then above each TCP.
fn table(
    links: &[(String, RateSpec)],
    algorithms: &[String],
    below: &[&str],
    seconds: u64,
    starts: &[(&'static str, u64)],
) -> Vec<Vec<Got>> {
    let mut work = Vec::new();
    for (_, link) in links {
        for name in algorithms {
            let above = below.iter().map(|tcp| format!("{name}/over={tcp}"));
            for flow in std::iter::once(name.clone()).chain(above) {
                let runs = starts.iter();
                work.extend(runs.map(|start| (link.clone(), flow.clone(), seconds, *start)));
            }
        }
    }
    let got = measure(&work);
    let cells: Vec<Got> = got.chunks(starts.len()).map(median).collect();
    cells.chunks(1 + below.len()).map(<[Got]>::to_vec).collect()
}

fn page() -> String {
    let links = [plain(), recorded()].concat();
    let algorithms = algorithms();
    let rows = table(&links, &algorithms, &BELOW, SECONDS, &STARTS);
    let mut page = String::new();
    let (mut near, mut all) = (0, 0);
    let mut rows = rows.into_iter();
    for (link, _) in &links {
        write!(page, "\n## {link}\n\n| algorithm | native |").unwrap();
        for tcp in BELOW {
            write!(page, " above {tcp} |").unwrap();
        }
        page += "\n|---|---|---|---|---|---|\n";
        for name in &algorithms {
            let row = rows.next().unwrap();
            write!(page, "| `{name}` |").unwrap();
            for got in &row {
                let far = !got.is_near(&row[0]);
                let mark = if far { "**" } else { "" };
                write!(
                    page,
                    " {mark}{:.1} % {:.0} ms{mark} |",
                    got.utilization, got.queueing
                )
                .unwrap();
            }
            all += BELOW.len();
            near += row[1..].iter().filter(|got| got.is_near(&row[0])).count();
            page += "\n";
        }
    }
    format!("{near} of {all} cells are within the bounds.\n{page}")
}

#[test]
fn above_tcp_as_native() {
    if std::env::var_os("ALCC_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/over-tcp.md");
        std::fs::write(&path, page()).unwrap();
    }
}
