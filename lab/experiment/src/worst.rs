// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A search for the scenarios in which an algorithm is worse than every reference: drawn by number,
//! simulated, judged with fixed margins, and reduced to the parts that still show a fault.
mod draw;
mod mersenne;
mod table;

use crate::Run;
use crate::definition::Subject;
use crate::plan::{Plan, PlannedRun, command};
use alcc_results::scenario::{ScenarioOptions, Value};
use serde::Serialize;
use std::collections::BTreeMap;

pub use draw::{Drawn, crowd, single};
pub use table::{Cell, Check, Grid};

/// Algorithms with which the judged ones are compared.
pub const REFERENCES: [&str; 2] = ["bbr", "cubic"];
/// Simulated with the references, to show what is possible.
pub const BESIDE: &str = "bbr3";
/// Completion time of a transfer that did not end, ms.
const UNFINISHED_MS: f64 = 60_000.0;

/// A kind of fault: a metric in which an algorithm is worse than all references.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// Total goodput below 0.85 of the smallest.
    Goodput,
    /// p95 of the queueing delay above 1.2 times the largest and 20 ms.
    Delay,
    /// Loss above 1.5 times the largest and 1 point.
    Loss,
    /// A TCP flow beside it gets less than 0.8, UDP loses more than 1.5 times and 1 point, or short
    /// flows take more than 1.25 times.
    Harm,
    /// A transfer takes more than 1.15 times as long.
    Completion,
    /// Jain's index of single seconds below 0.85 of the smallest, for several flows.
    Jain,
    /// Smallest share below half of the smallest, for several flows.
    Least,
    /// It was not simulated to its end.
    Error,
}

impl Fault {
    /// All, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::Goodput,
        Self::Delay,
        Self::Loss,
        Self::Harm,
        Self::Completion,
        Self::Jain,
        Self::Least,
        Self::Error,
    ];

    /// The word in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Delay => "delay",
            Self::Loss => "loss",
            Self::Harm => "harm",
            Self::Completion => "completion",
            Self::Jain => "jain",
            Self::Least => "least",
            Self::Error => "error",
        }
    }
}

/// Harm to traffic beside the judged flow.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Neighbour {
    None,
    Tcp { mbps: f64 },
    Udp { loss: f64 },
    Short { ms: f64 },
}

/// Figures of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Figures {
    own: f64,
    total: f64,
    p95: f64,
    mean: f64,
    loss: f64,
    completion: f64,
    jain: f64,
    least: f64,
    neighbour: Neighbour,
}

impl Figures {
    fn of(drawn: &Drawn, run: &Run) -> Self {
        let known = Option::unwrap_or_default;
        let judged = match &drawn.cross {
            None => run.flows.len(),
            Some(_) => 1,
        };
        let (own, cross) = run.flows.split_at(judged.min(run.flows.len()));
        let goodputs = |rows: &[alcc_results::Row]| -> Vec<f64> {
            rows.iter().map(|row| known(row.goodput_mbps)).collect()
        };
        let mine = goodputs(own);
        let (sum, n) = (mine.iter().sum::<f64>(), own.len().max(1) as f64);
        let beside: f64 = goodputs(cross).iter().sum();
        let completion = |row: &alcc_results::Row| row.fct_ms.unwrap_or(UNFINISHED_MS);
        let neighbour = match &drawn.cross {
            None => Neighbour::None,
            Some(kind) if kind.starts_with("udp") => Neighbour::Udp {
                loss: cross.iter().map(|row| known(row.loss)).fold(0.0, f64::max),
            },
            Some(kind) if kind.contains("size") => Neighbour::Short {
                ms: cross.iter().map(completion).sum::<f64>() / cross.len().max(1) as f64,
            },
            Some(_) => Neighbour::Tcp { mbps: beside },
        };
        let smallest = mine.iter().copied().fold(f64::INFINITY, f64::min);
        Self {
            own: sum,
            total: sum + beside,
            p95: own
                .iter()
                .map(|row| known(row.queue_delay_p95_ms))
                .fold(0.0, f64::max),
            mean: own
                .iter()
                .map(|row| known(row.queue_delay_mean_ms))
                .sum::<f64>()
                / n,
            loss: own.iter().map(|row| known(row.loss)).sum::<f64>() / n,
            completion: own.first().map_or(UNFINISHED_MS, completion),
            jain: run
                .summary
                .as_ref()
                .and_then(|summary| summary.jain_1s)
                .unwrap_or(0.0),
            least: smallest * n / sum.max(1e-9),
            neighbour,
        }
    }
}

/// A scenario in which an algorithm is worse than all references.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// The metric that is worse.
    pub fault: Fault,
    /// Number of the scenario.
    pub number: u64,
    /// Kinds of its changes.
    pub kinds: Vec<&'static str>,
    /// Size of the fault: a ratio, for losses the difference.
    pub by: f64,
    /// The figure of the algorithm and of each reference.
    pub figures: BTreeMap<String, f64>,
    /// Reason why there are no results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The command that runs the same.
    pub command: String,
}

/// Without other traffic, and not of fixed size: the means over these scenarios.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Alone {
    /// Number of scenarios.
    pub scenarios: usize,
    /// Goodput over the largest of the references, mean.
    pub share_mean: f64,
    /// Its 5th percentile.
    pub share_p5: f64,
    /// Mean queueing delay, ms.
    pub queue_ms: f64,
    /// Mean loss, 0 to 1.
    pub loss: f64,
}

/// Findings about an algorithm.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// The algorithm.
    pub algorithm: String,
    /// Number of findings of each kind.
    pub counts: BTreeMap<&'static str, usize>,
    /// `None` for crowds.
    pub alone: Option<Alone>,
    /// For `A/over=X`: scenarios in which it has less than nine tenths of the lesser of A and X
    /// alone, and of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below_both: Option<(usize, usize)>,
    /// The findings, the worst of each kind first.
    pub found: Vec<Finding>,
}

/// The runs of all `algorithms` in all scenarios. A cell is the number and the algorithm.
pub fn plan(scenarios: &[Drawn], algorithms: &[String], seed: u64) -> Result<Plan, String> {
    let mut runs = Vec::new();
    for drawn in scenarios {
        for algorithm in algorithms {
            runs.push(planned(drawn, algorithm, seed)?);
        }
    }
    Ok(Plan {
        axes: vec!["scenario".to_owned(), "algorithm".to_owned()],
        needs: None,
        runs,
    })
}

fn planned(drawn: &Drawn, algorithm: &str, seed: u64) -> Result<PlannedRun, String> {
    let mut scenario = ScenarioOptions::default();
    let mut add = |key: &str, text: String| scenario.add(key, Value::option(key, text));
    for (key, value) in &drawn.options {
        add(key, value.clone())?;
    }
    for flow in &drawn.flows {
        add("flow", flow.replace('W', algorithm))?;
    }
    if let Some(flow) = &drawn.cross {
        add("flow", flow.clone())?;
    }
    add("seed", seed.to_string())?;
    if is_crowd(drawn) {
        add("settle", "10s".to_owned())?;
    }
    Ok(PlannedRun {
        cell: vec![drawn.number.to_string(), algorithm.to_owned()],
        repetition: 1,
        subject: Subject::Flows,
        command: command(&mut scenario, "alcc-lab sim"),
        scenario,
        series: false,
        seconds: false,
        profiles: false,
    })
}

fn is_crowd(drawn: &Drawn) -> bool {
    drawn.flows.len() > 1 || drawn.flows.iter().any(|flow| flow.contains("*W"))
}

/// Judges `algorithms` by their `runs`, which contain those of the references.
pub fn judge(scenarios: &[Drawn], runs: &[Run], algorithms: &[String]) -> Vec<Judged> {
    let by_cell: BTreeMap<&[String], &Run> =
        runs.iter().map(|run| (run.cell.as_slice(), run)).collect();
    let run = |drawn: &Drawn, algorithm: &str| {
        let cell = [drawn.number.to_string(), algorithm.to_owned()];
        by_cell.get(&cell[..]).copied()
    };
    let judged = |algorithm: &String| {
        let references: Vec<&str> = (REFERENCES.iter().copied())
            .filter(|r| r != algorithm)
            .collect();
        let (mut found, mut shares) = (Vec::new(), Vec::new());
        let (mut queue, mut loss) = (0.0, 0.0);
        let (mut below, mut above) = (0, 0);
        for drawn in scenarios {
            let Some(mine) = run(drawn, algorithm) else {
                continue;
            };
            let others: Vec<(&str, &Run)> = (references.iter())
                .filter_map(|name| Some((*name, run(drawn, name)?)))
                .collect();
            let all = std::iter::once((algorithm.as_str(), mine)).chain(others.iter().copied());
            let failed = all
                .clone()
                .find_map(|(name, run)| Some(format!("{name}: {}", run.error.as_ref()?)));
            if failed.is_some() {
                found.push(Finding {
                    fault: Fault::Error,
                    number: drawn.number,
                    kinds: drawn.kinds.clone(),
                    by: 1.0,
                    figures: BTreeMap::new(),
                    error: failed,
                    command: mine.command.clone(),
                });
                continue;
            }
            let figures: Vec<(&str, Figures)> = all
                .map(|(name, run)| (name, Figures::of(drawn, run)))
                .collect();
            found.extend(
                faults(drawn, &figures)
                    .into_iter()
                    .map(|(fault, by, figures)| Finding {
                        fault,
                        number: drawn.number,
                        kinds: drawn.kinds.clone(),
                        by,
                        figures,
                        error: None,
                        command: mine.command.clone(),
                    }),
            );
            let own = figures[0].1;
            let best = |name: &str| {
                let run = run(drawn, name).filter(|run| run.error.is_none())?;
                Some(Figures::of(drawn, run).own)
            };
            if drawn.cross.is_none() && !drawn.sized && !is_crowd(drawn) {
                let best = REFERENCES
                    .iter()
                    .filter_map(|name| best(name))
                    .fold(0.0, f64::max);
                shares.push(own.own / best.max(1e-9));
                queue += own.mean;
                loss += own.loss;
            }
            if let Some((name, under)) = algorithm.split_once("/over=")
                && !drawn.sized
                && let (Some(native), Some(under)) = (best(name), best(under))
            {
                above += 1;
                below += usize::from(own.own < 0.9 * native.min(under));
            }
        }
        found.sort_by(|a, b| a.fault.cmp(&b.fault).then(b.by.total_cmp(&a.by)));
        let count = |fault: Fault| found.iter().filter(|f| f.fault == fault).count();
        shares.sort_by(f64::total_cmp);
        let n = shares.len() as f64;
        Judged {
            algorithm: algorithm.clone(),
            counts: Fault::ALL
                .iter()
                .map(|fault| (fault.name(), count(*fault)))
                .collect(),
            alone: (!shares.is_empty()).then(|| Alone {
                scenarios: shares.len(),
                share_mean: shares.iter().sum::<f64>() / n,
                share_p5: shares[shares.len() / 20],
                queue_ms: queue / n,
                loss: loss / n,
            }),
            below_both: (above > 0).then_some((below, above)),
            found,
        }
    };
    algorithms.iter().map(judged).collect()
}

type Found = (Fault, f64, BTreeMap<String, f64>);

/// The first of `all` is judged, the others are the references.
fn faults(drawn: &Drawn, all: &[(&str, Figures)]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut check =
        |fault, figure: &dyn Fn(&Figures) -> f64, judge: fn(f64, &[f64]) -> Option<f64>| {
            let values: Vec<f64> = all.iter().map(|(_, figures)| figure(figures)).collect();
            if let Some(by) = judge(values[0], &values[1..]) {
                let named = all.iter().zip(&values);
                let named = named.map(|((name, _), value)| ((*name).to_owned(), *value));
                found.push((fault, by, named.collect()));
            }
        };
    if drawn.sized {
        check(Fault::Completion, &|f| f.completion, |own, others| {
            let most = largest(others);
            (own > 1.15 * most).then_some(own / most)
        });
    } else {
        check(Fault::Goodput, &|f| f.total, |own, others| {
            let least = smallest(others);
            (own < 0.85 * least).then_some(least / own.max(1e-6))
        });
    }
    check(Fault::Delay, &|f| f.p95, |own, others| {
        let most = largest(others);
        (own > 1.2 * most + 20.0).then_some(own / most.max(1.0))
    });
    check(Fault::Loss, &|f| f.loss, |own, others| {
        let most = largest(others);
        (own > 1.5 * most + 0.01).then_some(own - most)
    });
    match all[0].1.neighbour {
        Neighbour::None => {}
        Neighbour::Tcp { .. } => check(Fault::Harm, &beside, |own, others| {
            let least = smallest(others);
            (own < 0.8 * least).then_some(least / own.max(1e-6))
        }),
        Neighbour::Udp { .. } => check(Fault::Harm, &beside, |own, others| {
            let most = largest(others);
            (own > 1.5 * most + 0.01).then_some(own / most.max(0.01))
        }),
        Neighbour::Short { .. } => check(Fault::Harm, &beside, |own, others| {
            let most = largest(others);
            (own > 1.25 * most).then_some(own / most)
        }),
    }
    if is_crowd(drawn) {
        check(Fault::Jain, &|f| f.jain, |own, others| {
            let least = smallest(others);
            (own < 0.85 * least).then_some(least / own.max(1e-6))
        });
        check(Fault::Least, &|f| f.least, |own, others| {
            let least = smallest(others);
            (own < 0.5 * least).then_some(least / own.max(1e-3))
        });
    }
    found
}

fn beside(figures: &Figures) -> f64 {
    match figures.neighbour {
        Neighbour::None => 0.0,
        Neighbour::Tcp { mbps } => mbps,
        Neighbour::Udp { loss } => loss,
        Neighbour::Short { ms } => ms,
    }
}

fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

impl Drawn {
    /// The same with one part less, the largest parts first: other traffic, half of the flows, a
    /// change, an option.
    pub fn simpler(&self) -> Vec<Self> {
        let mut all = Vec::new();
        if self.cross.is_some() {
            all.push(Self {
                cross: None,
                ..self.clone()
            });
        }
        if self.flows.len() > 2 {
            let mut fewer = self.clone();
            fewer.flows.truncate(self.flows.len().div_ceil(2));
            all.push(fewer);
        }
        if let [flow] = &self.flows[..]
            && let Some((count, rest)) = flow.split_once('*')
            && let Ok(count) = count.parse::<u32>()
            && count > 2
        {
            let flows = vec![format!("{}*{rest}", count.div_ceil(2))];
            all.push(Self {
                flows,
                ..self.clone()
            });
        }
        for (i, (key, value)) in self.options.iter().enumerate() {
            let mut less = self.clone();
            match *key {
                "step" | "radio" | "up" => drop(less.options.remove(i)),
                // With it goes the loss of acknowledgements.
                "loss" => less.options.retain(|(key, _)| !key.starts_with("loss")),
                "queue" if !value.starts_with("droptail") => drop(less.options.remove(i)),
                _ => continue,
            }
            all.push(less);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_results::Row;

    fn row(mbps: f64, loss: f64) -> Row {
        Row {
            goodput_mbps: Some(mbps),
            loss: Some(loss),
            queue_delay_p95_ms: Some(10.0),
            queue_delay_mean_ms: Some(5.0),
            ..Row::default()
        }
    }

    fn runs(drawn: &Drawn, of: &[(&str, Vec<Row>)]) -> Vec<Run> {
        let run = |(name, flows): &(&str, Vec<Row>)| Run {
            cell: vec![drawn.number.to_string(), (*name).to_owned()],
            flows: flows.clone(),
            ..Run::default()
        };
        of.iter().map(run).collect()
    }

    fn found(drawn: &Drawn, of: &[(&str, Vec<Row>)]) -> Vec<Fault> {
        let all = judge(
            std::slice::from_ref(drawn),
            &runs(drawn, of),
            &["budget".to_owned()],
        );
        all[0].found.iter().map(|finding| finding.fault).collect()
    }

    fn alone() -> Drawn {
        Drawn {
            number: 7,
            kinds: Vec::new(),
            options: vec![("link", "12mbit".to_owned()), ("up", "1mbit".to_owned())],
            flows: vec!["W".to_owned()],
            cross: None,
            sized: false,
        }
    }

    #[test]
    fn is_worse_only_if_it_is_worse_than_every_reference() {
        let one = |mbps, loss| vec![row(mbps, loss)];
        let others = |own| {
            [
                ("budget", own),
                ("bbr", one(10.0, 0.02)),
                ("cubic", one(8.0, 0.0)),
            ]
        };
        // 0.85 of the smaller, 8, is 6.8; 1.5 times the larger loss and 1 point is 4 %.
        assert_eq!(found(&alone(), &others(one(6.9, 0.039))), []);
        assert_eq!(
            found(&alone(), &others(one(6.7, 0.041))),
            [Fault::Goodput, Fault::Loss]
        );
    }

    #[test]
    fn harm_is_what_the_neighbour_suffers() {
        for (cross, hurt, unhurt) in [
            ("cubic@1.0s-9.0s", row(3.1, 0.0), row(3.3, 0.0)),
            ("udp:rate=4mbit", row(4.0, 0.02), row(4.0, 0.009)),
        ] {
            let drawn = Drawn {
                cross: Some(cross.to_owned()),
                ..alone()
            };
            let with = |own: &Row| {
                let reference = || vec![row(9.0, 0.0), row(4.0, 0.0)];
                let own = vec![row(9.0, 0.0), own.clone()];
                found(
                    &drawn,
                    &[
                        ("budget", own),
                        ("bbr", reference()),
                        ("cubic", reference()),
                    ],
                )
            };
            assert_eq!(
                (with(&hurt), with(&unhurt)),
                (vec![Fault::Harm], vec![]),
                "{cross}"
            );
        }
    }

    #[test]
    fn an_error_is_a_finding() {
        let drawn = alone();
        let one = || vec![row(1.0, 0.0)];
        let mut all = runs(
            &drawn,
            &[("budget", one()), ("bbr", one()), ("cubic", one())],
        );
        all[1].error = Some("too many events".to_owned());
        let judged = judge(&[drawn], &all, &["budget".to_owned()]);
        assert_eq!(judged[0].counts["error"], 1);
        assert_eq!(
            judged[0].found[0].error.as_deref(),
            Some("bbr: too many events")
        );
    }

    #[test]
    fn simpler_scenarios_have_one_part_less() {
        let mut drawn = alone();
        drawn.cross = Some("cubic".to_owned());
        let simpler = drawn.simpler();
        assert_eq!(simpler.len(), 2);
        assert!(simpler[0].cross.is_none());
        assert_eq!(simpler[1].options, [("link", "12mbit".to_owned())]);
        let crowd = Drawn {
            flows: vec!["5*W/stagger=0ms".to_owned()],
            ..alone()
        };
        assert_eq!(crowd.simpler()[0].flows, ["3*W/stagger=0ms"]);
    }
}
