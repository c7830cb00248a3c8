// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The score table: every algorithm alone on every channel, on harder paths, with flows of its own
//! kind and with flows of other algorithms. Also the default algorithm of `alcc run` that follows
//! from it.
//!
//! The runs are defined by files of the folder `board`, which are experiments without expectations.
mod page;

use crate::definition::Definition;
use crate::run::Run;
use alcc_cc::Registry;
use alcc_results::{Row, Spread};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Algorithms that run above the kernel's Cubic: candidates for the default of `alcc run`.
pub const CONTENDERS: [&str; 4] = ["verus", "copa", "budget", "sprout"];

/// Minimum share of a flow, as a part of an equal share; in crowds over 10 s.
const LEAST_SHARE: f64 = 1.0 / 3.0;
/// Minimum Jain's index of flows of one kind.
const LEAST_JAIN: f64 = 0.9;
/// Bounds of the share of a flow beside a flow of another algorithm.
const SHARES: std::ops::RangeInclusive<f64> = 0.25..=0.75;
/// Difference of utilization that is neglected.
const POINT: f64 = 0.01;
/// Relative difference of delay that is neglected.
const DELAY: f64 = 0.1;
/// Absolute difference of delay that is neglected, ms.
const DELAY_MS: f64 = 1.0;

/// A part of the score table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One flow, a link that varies.
    Channels,
    /// One flow, a link of constant rate.
    Paths,
    /// Flows of one kind.
    Crowds,
    /// Flows of one kind whose round trips differ.
    Mixes,
    /// One flow beside another.
    Neighbours,
    /// Kernel TCP in the emulator, one flow, a link that varies. Not simulated: see [`live`].
    Live,
}

/// The parts of the score: the kinds whose situations count together.
const PARTS: [(&str, &[Kind]); 5] = [
    ("channels", &[Kind::Channels]),
    ("paths", &[Kind::Paths]),
    ("crowds", &[Kind::Crowds, Kind::Mixes]),
    ("neighbours", &[Kind::Neighbours]),
    ("live", &[Kind::Live]),
];

impl Kind {
    /// Those that are simulated, in the order of the page.
    pub const SIMULATED: [Self; 5] = [
        Self::Channels,
        Self::Paths,
        Self::Crowds,
        Self::Mixes,
        Self::Neighbours,
    ];

    /// Name in JSON and in the names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Channels => "channels",
            Self::Paths => "paths",
            Self::Crowds => "crowds",
            Self::Mixes => "mixes",
            Self::Neighbours => "neighbours",
            Self::Live => "live",
        }
    }

    /// Its definition, without the algorithms; none of what is not simulated.
    pub fn toml(self) -> Option<&'static str> {
        Some(match self {
            Self::Channels => include_str!("../board/channels.toml"),
            Self::Paths => include_str!("../board/paths.toml"),
            Self::Crowds => include_str!("../board/crowds.toml"),
            Self::Mixes => include_str!("../board/mixes.toml"),
            Self::Neighbours => include_str!("../board/neighbours.toml"),
            Self::Live => return None,
        })
    }

    /// The experiment that runs these schemes in every situation.
    ///
    /// # Errors
    /// See [`Definition::from_toml`].
    pub fn definition(self, schemes: &[String]) -> Result<Definition, String> {
        let name = format!("board/{}.toml", self.name());
        let text = self.toml();
        let text = text.ok_or_else(|| format!("{name}: the part is not simulated"))?;
        let definition = Definition::from_toml(text, &name)?;
        let last = definition.sweep.len();
        Ok(definition.with_schemes(last, schemes))
    }
}

/// Scheme that new users should try first: kernel TCP with two lines of `sysctl`
/// (lab/notes/measurements.md).
const LITTLE_UNSENT: &str = "bbr/lowat=16384B";

/// Every algorithm of the registry, BBR with little unsent, and the contenders over TCP.
pub fn schemes(registry: &Registry) -> Vec<String> {
    let own = registry.iter().map(|a| a.name.to_owned());
    own.chain([LITTLE_UNSENT.to_owned()])
        .chain(CONTENDERS.map(above_tcp))
        .collect()
}

fn above_tcp(algorithm: &str) -> String {
    format!("{algorithm}/over=cubic")
}

/// Runs and results of the score table: the file `lab/notes/board.json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Board {
    /// Name and version of the program that wrote the file.
    pub by: String,
    /// Operating system and architecture.
    pub on: String,
    /// Starts of each cell.
    pub starts: u32,
    /// SHA-256 of each definition, by kind.
    pub definitions: BTreeMap<String, String>,
    /// The recorded traces that were used: name and SHA-256.
    pub traces: BTreeMap<String, String>,
    /// Everything that was measured.
    pub cells: Vec<Cell>,
}

/// One scheme in one situation: medians of the starts, with smallest and largest.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The part of the score table.
    pub kind: Kind,
    /// The situation.
    pub situation: String,
    /// The scheme.
    pub scheme: String,
    /// Delivered by the bottleneck / what it offered, of all flows, 0 to 1.
    pub utilization: Option<Spread>,
    /// Mean queueing of the packets of all flows, ms.
    pub queue_ms: Option<Spread>,
    /// The largest of the flows' 95th percentiles of queueing, ms.
    pub queue_p95_ms: Option<Spread>,
    /// Delay from an application's write to the other's read, median of a run, of one flow, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_ms: Option<Spread>,
    /// Jain's index of single seconds, for several flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain_1s: Option<Spread>,
    /// Smallest share over 10 s, for several flows; 1 is an equal share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_share: Option<Spread>,
    /// Time until the slowest flow has 80 % of an equal share, for several flows, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_after_s: Option<Spread>,
    /// Share of what both have, beside another algorithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Spread>,
    /// Reason why a start has no results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The figures of one run.
fn figures(kind: Kind, run: &Run) -> Option<[Option<f64>; 8]> {
    let summary = run.summary.as_ref()?;
    let link = &summary.links.first()?.down;
    let mbps = |row: &Row| row.throughput_mbps.unwrap_or(0.0);
    let all: f64 = run.flows.iter().map(mbps).sum();
    let weighed = |row: &Row| Some(row.queue_delay_mean_ms? * mbps(row));
    let queue: f64 = run.flows.iter().filter_map(weighed).sum();
    let p95 = run.flows.iter().filter_map(|row| row.queue_delay_p95_ms);
    let beside = (kind == Kind::Neighbours).then(|| run.flows.get(1).map(mbps));
    let app = match &run.flows[..] {
        [one] => one.app_delay_median_ms,
        _ => None,
    };
    let several = |value: Option<f64>| value.filter(|_| run.flows.len() > 1);
    Some([
        link.utilization,
        (all > 0.0).then(|| queue / all),
        p95.max_by(f64::total_cmp),
        several(summary.jain_1s),
        summary.worst_share_10s,
        summary.fair_after_s,
        beside.flatten().filter(|_| all > 0.0).map(|own| own / all),
        app,
    ])
}

/// The cells of a part, from all its runs.
pub fn cells(kind: Kind, runs: &[Run]) -> Vec<Cell> {
    let mut cells: Vec<(&[String], Vec<&Run>)> = Vec::new();
    for run in runs {
        match cells.last_mut() {
            Some((cell, runs)) if *cell == run.cell.as_slice() => runs.push(run),
            _ => cells.push((&run.cell, vec![run])),
        }
    }
    let one = |(cell, runs): (&[String], Vec<&Run>)| {
        let all: Vec<_> = runs.iter().filter_map(|run| figures(kind, run)).collect();
        let spread = |at: usize| {
            let values: Option<Vec<f64>> = all.iter().map(|figures| figures[at]).collect();
            Spread::of(&values?).filter(|_| all.len() == runs.len())
        };
        Cell {
            kind,
            situation: cell.first().cloned().unwrap_or_default(),
            scheme: cell.last().cloned().unwrap_or_default(),
            utilization: spread(0),
            queue_ms: spread(1),
            queue_p95_ms: spread(2),
            app_ms: spread(7),
            jain_1s: spread(3),
            worst_share: spread(4),
            fair_after_s: spread(5),
            share: spread(6),
            error: runs.iter().find_map(|run| run.error.clone()),
        }
    };
    cells.into_iter().map(one).collect()
}

/// The cells of kernel TCP in the emulator. They are rows of `alcc-lab compare --emu`, with several
/// runs of each scheme on each link. Above the kernel's Cubic a scheme is called as in the
/// simulator.
pub fn live(rows: &[Row]) -> Vec<Cell> {
    let scheme = |row: &Row| match &row.under {
        Some(under) => format!("{}/over={under}", row.algorithm),
        None => row.algorithm.clone(),
    };
    let mut cells: Vec<((String, String), Vec<&Row>)> = Vec::new();
    for row in rows {
        let name = (row.link.clone(), scheme(row));
        match cells.iter_mut().find(|(cell, _)| *cell == name) {
            Some((_, rows)) => rows.push(row),
            None => cells.push((name, vec![row])),
        }
    }
    let one = |((situation, scheme), rows): ((String, String), Vec<&Row>)| {
        let spread = |value: fn(&Row) -> Option<f64>| {
            let values: Option<Vec<f64>> = rows.iter().map(|row| value(row)).collect();
            Spread::of(&values?)
        };
        Cell {
            kind: Kind::Live,
            situation,
            scheme,
            utilization: spread(|row| row.utilization),
            queue_ms: spread(|row| row.queue_delay_mean_ms),
            queue_p95_ms: spread(|row| row.queue_delay_p95_ms),
            app_ms: spread(|row| row.app_delay_median_ms),
            jain_1s: None,
            worst_share: None,
            fair_after_s: None,
            share: None,
            error: None,
        }
    };
    cells.into_iter().map(one).collect()
}

fn median(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| spread.median)
}

impl Cell {
    /// Utilization and mean queueing, medians.
    fn point(&self) -> Option<[f64; 2]> {
        Some([median(self.utilization)?, median(self.queue_ms)?])
    }

    /// The other has at least as much with no more queueing, and more than a negligible difference
    /// in one of them.
    fn is_below(&self, other: &Self) -> bool {
        if self.kind == Kind::Neighbours {
            let fair = |cell: &Self| median(cell.share).is_some_and(|s| s >= *SHARES.start());
            return !fair(self) && fair(other);
        }
        let Some([own, own_ms]) = self.point() else {
            return true;
        };
        other.point().is_some_and(|[more, ms]| {
            more >= own
                && ms <= own_ms
                && (more > own + POINT || ms < own_ms - DELAY_MS.max(DELAY * own_ms))
        })
    }
}

impl Board {
    /// Reads the file.
    ///
    /// # Errors
    /// The error of the parser.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    /// The file: a cell is a line.
    ///
    /// # Errors
    /// The error of the serializer.
    pub fn to_json(&self) -> Result<String, String> {
        let json = |value: serde_json::Result<String>| value.map_err(|e| e.to_string());
        let cells: Result<Vec<String>, String> = self
            .cells
            .iter()
            .map(|cell| json(serde_json::to_string(cell)))
            .collect();
        let head = Self {
            cells: Vec::new(),
            ..self.clone()
        };
        let head = json(serde_json::to_string_pretty(&head))?;
        Ok(head.replace(
            "\"cells\": []",
            &format!("\"cells\": [\n{}\n  ]", cells?.join(",\n")),
        ) + "\n")
    }

    /// Takes over the part with real programs of another score table.
    pub fn keep_live(&mut self, stored: Self) {
        let live = stored
            .cells
            .into_iter()
            .filter(|cell| cell.kind == Kind::Live);
        self.cells.extend(live);
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.kind == kind)
    }

    fn cell(&self, like: &Cell, scheme: &str) -> Option<&Cell> {
        self.of(like.kind)
            .find(|cell| cell.situation == like.situation && cell.scheme == scheme)
    }

    /// The situations of a part, in order.
    fn situations(&self, kind: Kind) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in self.of(kind) {
            if !names.contains(&cell.situation.as_str()) {
                names.push(&cell.situation);
            }
        }
        names
    }

    /// All schemes, in order.
    fn schemes(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.scheme.as_str()) {
                names.push(&cell.scheme);
            }
        }
        names
    }

    /// The rule for one cell: see the page.
    fn holds(&self, cell: &Cell) -> bool {
        match cell.kind {
            Kind::Channels | Kind::Paths | Kind::Live => {
                let bbr = self.cell(cell, "bbr").and_then(Cell::point);
                cell.point()
                    .zip(bbr)
                    .is_some_and(|(own, bbr)| own[0] >= bbr[0] - POINT && own[1] <= bbr[1])
            }
            Kind::Crowds | Kind::Mixes => {
                median(cell.jain_1s).is_some_and(|jain| jain >= LEAST_JAIN)
                    && median(cell.worst_share).is_some_and(|share| share >= LEAST_SHARE)
            }
            Kind::Neighbours => median(cell.share).is_some_and(|share| SHARES.contains(&share)),
        }
    }

    /// Number of situations of these kinds in which the scheme meets the rule, and number of all.
    fn held(&self, kinds: &[Kind], scheme: &str) -> [usize; 2] {
        let is_of = |cell: &&Cell| kinds.contains(&cell.kind) && cell.scheme == scheme;
        let own: Vec<_> = self.cells.iter().filter(is_of).collect();
        [
            own.iter().filter(|cell| self.holds(cell)).count(),
            own.len(),
        ]
    }

    /// The mean of the parts of the situations held, over the parts in which the scheme was.
    fn score(&self, scheme: &str) -> f64 {
        let held = PARTS.map(|(_, kinds)| self.held(kinds, scheme));
        let parts: Vec<f64> = held
            .into_iter()
            .filter(|[_, of]| *of > 0)
            .map(|[held, of]| held as f64 / of as f64)
            .collect();
        alcc_results::sum(parts.iter().copied()) / parts.len().max(1) as f64
    }

    /// Mean over the channels of a median.
    fn mean(&self, scheme: &str, value: impl Fn(&Cell) -> Option<f64>) -> Option<f64> {
        let own = self.of(Kind::Channels).filter(|cell| cell.scheme == scheme);
        let values: Vec<f64> = own.map(value).collect::<Option<_>>()?;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The default of `alcc run` by the rule: the contender with the largest score. Of equal ones
    /// it is the one with the least queueing over the channels. `None` of an empty board.
    pub fn default_algorithm(&self) -> Option<&'static str> {
        let queueing = |name: &str| {
            let mean = self.mean(&above_tcp(name), |cell| median(cell.queue_ms));
            mean.unwrap_or(f64::INFINITY)
        };
        let standing = |name: &str| (self.score(&above_tcp(name)), -queueing(name));
        let there = CONTENDERS
            .into_iter()
            .filter(|name| self.score(&above_tcp(name)) > 0.0);
        there.max_by(|a, b| {
            let (a, b) = (standing(a), standing(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    }

    /// Schemes on the Pareto front of utilization and mean queueing delay in a situation.
    fn front(&self, kind: Kind, situation: &str) -> Vec<&Cell> {
        let here: Vec<&Cell> = self.of(kind).filter(|c| c.situation == situation).collect();
        let beaten = |cell: &&Cell| {
            let own = cell.point()?;
            let better = |other: [f64; 2]| other[0] >= own[0] && other[1] <= own[1] && other != own;
            let others = here.iter().filter_map(|other| other.point());
            Some(others.into_iter().any(better))
        };
        let mut front: Vec<&Cell> = here
            .iter()
            .copied()
            .filter(|c| beaten(c) == Some(false))
            .collect();
        front.sort_by(|a, b| {
            a.point()
                .map(|p| p[1])
                .partial_cmp(&b.point().map(|p| p[1]))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        front
    }

    /// Cells of the project's own algorithms that are below a plain Cubic or BBR in the same
    /// situation, with the one above.
    fn below(&self) -> Vec<(&Cell, Vec<&'static str>)> {
        let own = |cell: &&Cell| {
            let name = cell.scheme.strip_suffix("/over=cubic");
            CONTENDERS.contains(&name.unwrap_or(&cell.scheme))
        };
        let found = self.cells.iter().filter(own).map(|cell| {
            let above = |plain: &&str| {
                self.cell(cell, plain)
                    .is_some_and(|other| cell.is_below(other))
            };
            (
                cell,
                ["cubic", "bbr"]
                    .into_iter()
                    .filter(above)
                    .collect::<Vec<_>>(),
            )
        });
        found.filter(|(_, above)| !above.is_empty()).collect()
    }
}
