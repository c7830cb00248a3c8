// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of cells, expectations, and the verdict.
use crate::definition::{Definition, Expectation, Over, Subject};
use crate::run::{Run, Unable};
use alcc_results::{Row, Spread};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an experiment says of the source's statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every expectation holds.
    Reproduced,
    /// One does not, and another experiment shows why.
    DiffersExplained,
    /// One does not.
    Differs,
    /// It needs something that is not there.
    NotRun,
}

impl Verdict {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::DiffersExplained => "differs-explained",
            Self::Differs => "differs",
            Self::NotRun => "not-run",
        }
    }
}

/// An expectation beside what was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The statement in words.
    pub says: String,
    /// The published value.
    pub published: Option<f64>,
    /// Over the repetitions; `None` if a run failed.
    pub ours: Option<Spread>,
    /// The bound in words.
    pub bound: String,
    /// The median is within the bound.
    pub holds: bool,
}

/// An experiment beside its source: one entry of `experiments` in `alcc reproduce --json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// The experiment.
    pub id: String,
    /// `sim`.
    pub mode: String,
    /// What follows from the outcomes.
    pub verdict: Verdict,
    /// Of the first outcome that does not hold, or of the first.
    pub published: Option<f64>,
    /// The same of our median.
    pub ours: Option<f64>,
    /// The same of the bound.
    pub bound: String,
    /// The statement that does not hold, what is missing, or that all hold.
    pub why: String,
    /// One for each expectation.
    pub outcomes: Vec<Outcome>,
}

/// Metrics that a phase of a scenario has.
pub const OF_PHASES: [&str; 2] = ["throughput_mbps", "jain"];

/// The value of `metric` in one run, over its flows.
pub fn value(run: &Run, metric: &str, flow: Option<usize>, flows: Over) -> Option<f64> {
    if let Some(value) = run.channel.get(metric) {
        return Some(*value);
    }
    let summary = run.summary.as_ref()?;
    match metric {
        "jain" => return summary.jain,
        "jain_1s" => return summary.jain_1s,
        _ => {}
    }
    let number = |row: &Row| row.numbers().get(metric).copied();
    if let Some(flow) = flow {
        return number(run.flows.get(flow.checked_sub(1)?)?);
    }
    let values: Option<Vec<f64>> = run.flows.iter().map(number).collect();
    over(&values?, flows)
}

/// The same in a phase.
fn value_in(run: &Run, phase: &str, metric: &str, flow: Option<usize>, flows: Over) -> Option<f64> {
    let phases = &run.summary.as_ref()?.phases;
    let phase = phases.iter().find(|known| known.phase == phase)?;
    if metric == "jain" {
        return phase.jain;
    }
    match flow {
        Some(flow) => phase.throughput_mbps.get(flow.checked_sub(1)?).copied(),
        None => over(&phase.throughput_mbps, flows),
    }
}

/// One value of several.
fn over(values: &[f64], flows: Over) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let sum: f64 = values.iter().sum();
    Some(match flows {
        Over::Mean => sum / n,
        Over::Sum => sum,
        Over::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        Over::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Over::Sd => {
            let mean = sum / n;
            (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
        }
    })
}

/// Names that [`value`] knows.
pub fn metrics(subject: Subject) -> Vec<&'static str> {
    if subject == Subject::Channel {
        return crate::channel::METRICS.to_vec();
    }
    let of_flows = Row::MEASURED.iter().chain(Row::SHAPE).copied();
    of_flows.chain(["power", "jain", "jain_1s"]).collect()
}

impl Definition {
    /// Each expectation beside these runs.
    pub fn outcomes(&self, runs: &[Run]) -> Vec<Outcome> {
        let outcome = |e: &Expectation| {
            let ours = self.measured(e, runs);
            let low = e.published.zip(e.within).map(|(p, w)| p - p.abs() * w);
            let high = e.published.zip(e.within).map(|(p, w)| p + p.abs() * w);
            let holds = ours.is_some_and(|ours| {
                let value = ours.median;
                let mut least = [low, e.at_least].into_iter().flatten();
                let mut most = [high, e.at_most].into_iter().flatten();
                let spanned = e
                    .published
                    .is_some_and(|p| (ours.min..=ours.max).contains(&p));
                least.all(|bound| value >= bound)
                    && most.all(|bound| value <= bound)
                    && (spanned || !e.spans)
            });
            Outcome {
                says: e.says.clone(),
                published: e.published,
                ours,
                bound: bound(e),
                holds,
            }
        };
        self.expect.iter().map(outcome).collect()
    }

    /// The value of an expectation over the repetitions; `None` if a run has none.
    fn measured(&self, e: &Expectation, runs: &[Run]) -> Option<Spread> {
        let over = e.over.as_ref();
        let mut values = Vec::new();
        for repetition in 1..=self.starts {
            let of = self.mean(e, &e.of, repetition, runs)?;
            let over = match over {
                None => 1.0,
                Some(over) => self.mean(e, over, repetition, runs)?,
            };
            values.push(of / over);
        }
        Spread::of(&values)
    }

    /// The mean over the cells that `of` names.
    fn mean(
        &self,
        e: &Expectation,
        of: &BTreeMap<String, String>,
        repetition: u32,
        runs: &[Run],
    ) -> Option<f64> {
        let named = |run: &&Run| {
            let mut cell = self.sweep.iter().zip(&run.cell);
            run.repetition == repetition
                && cell.all(|(axis, choice)| of.get(&axis.key).is_none_or(|name| name == choice))
        };
        let values = runs.iter().filter(named);
        let values = values.map(|run| match &e.phase {
            Some(phase) => value_in(run, phase, &e.metric, e.flow, e.flows),
            None => value(run, &e.metric, e.flow, e.flows),
        });
        let values: Option<Vec<f64>> = values.collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The verdict from these runs, or from why there are none. `explained` says whether the
    /// expectations of another experiment hold.
    pub fn judge(
        &self,
        id: &str,
        runs: Result<&[Run], &Unable>,
        explained: impl FnOnce(&str) -> bool,
    ) -> Judged {
        let (outcomes, unable) = match runs {
            Ok(runs) => (self.outcomes(runs), None),
            Err(unable) => (Vec::new(), Some(unable.to_string())),
        };
        let failing = outcomes.iter().find(|outcome| !outcome.holds);
        let first = failing.or_else(|| outcomes.first());
        let verdict = match (&unable, failing) {
            (Some(_), _) => Verdict::NotRun,
            (None, None) => Verdict::Reproduced,
            (None, Some(_)) => match &self.explained_by {
                Some(other) if explained(other) => Verdict::DiffersExplained,
                _ => Verdict::Differs,
            },
        };
        let why = match (unable, failing, &self.explained_by) {
            (Some(unable), ..) => unable,
            (None, None, _) => match outcomes.len() {
                1 => "its expectation holds".to_owned(),
                n => format!("all {n} expectations hold"),
            },
            (None, Some(outcome), Some(other)) if verdict == Verdict::DiffersExplained => {
                format!("does not hold: {}; {other} shows why", outcome.says)
            }
            (None, Some(outcome), _) => match outcome.ours {
                Some(_) => format!("does not hold: {}", outcome.says),
                None => format!("a run failed or has no such value: {}", outcome.says),
            },
        };
        Judged {
            id: id.to_owned(),
            mode: "sim".to_owned(),
            verdict,
            published: first.and_then(|outcome| outcome.published),
            ours: first
                .and_then(|outcome| outcome.ours)
                .map(|ours| ours.median),
            bound: first.map_or_else(String::new, |outcome| outcome.bound.clone()),
            why,
            outcomes,
        }
    }
}

impl std::fmt::Display for Unable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Needs(trace) => write!(
                f,
                "needs the recorded trace {trace}: name the folder of the traces with --traces (docs/traces.md)"
            ),
            Self::Lacks(what) => write!(f, "needs {what}"),
            Self::Wrong(why) => f.write_str(why),
            Self::Store(why) => write!(f, "store the results: {why}"),
            Self::Stopped => f.write_str("stopped before its end: the same command goes on"),
        }
    }
}

fn bound(e: &Expectation) -> String {
    let mut parts = Vec::new();
    if let Some(within) = e.within {
        parts.push(format!("within {} % of it", number(100.0 * within)));
    }
    if let Some(least) = e.at_least {
        parts.push(format!("at least {}", number(least)));
    }
    if let Some(most) = e.at_most {
        parts.push(format!("at most {}", number(most)));
    }
    if e.spans {
        parts.push("between the smallest and the largest start".to_owned());
    }
    parts.join(", ")
}

/// A median with its range.
pub fn range(spread: &Spread) -> String {
    let Spread { min, median, max } = *spread;
    format!("{} ({} to {})", number(median), number(min), number(max))
}

/// Four digits, as people write it.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 6) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheme: &str, repetition: u32, mbps: &[f64]) -> Run {
        let row = |mbps: &f64| Row {
            throughput_mbps: Some(*mbps),
            ..Row::default()
        };
        Run {
            cell: vec![scheme.to_owned()],
            repetition,
            command: String::new(),
            version: String::new(),
            flows: mbps.iter().map(row).collect(),
            summary: Some(alcc_results::simulated::Summary::default()),
            channel: BTreeMap::new(),
            error: None,
        }
    }

    fn definition(expect: &str) -> Definition {
        let text = format!(
            "title = 't'\nsource = 's'\nstatement = 'x'\nexplained-by = 'other'\n[scenario]\nflow = '{{scheme}}'\n\
             [[sweep]]\nkey = 'scheme'\nvalues = ['copa', 'cubic']\n[[expect]]\nsays = 'c'\nmetric = 'throughput_mbps'\n{expect}"
        );
        Definition::from_toml(&text, "e.toml").unwrap()
    }

    #[test]
    fn a_quotient_is_taken_in_each_repetition_and_its_median_is_judged() {
        // 4/2, 9/3, 8/8: quotients 2, 3, 1.
        let runs: Vec<Run> = [(1, 4.0, 2.0), (2, 9.0, 3.0), (3, 8.0, 8.0)]
            .into_iter()
            .flat_map(|(n, a, b)| [run("copa", n, &[a, a]), run("cubic", n, &[b])])
            .collect();
        let of = "of = { scheme = 'copa' }\nover = { scheme = 'cubic' }\n";
        let judge = |bound: &str, explained: bool| {
            let d = definition(&format!("{of}{bound}"));
            d.judge("id", Ok(&runs), |other| other == "other" && explained)
        };
        let judged = judge("at-least = 2.0\nat-most = 2.0", false);
        assert_eq!(judged.verdict, Verdict::Reproduced);
        let spread = judged.outcomes[0].ours.unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        assert_eq!(
            judge("published = 2.5\nwithin = 0.2", false).verdict,
            Verdict::Reproduced
        );
        assert_eq!(
            judge("published = 2.5\nwithin = 0.1", false).verdict,
            Verdict::Differs
        );
        assert_eq!(
            judge("at-least = 2.1", true).verdict,
            Verdict::DiffersExplained
        );
        assert_eq!(judge("at-most = 1.9", false).verdict, Verdict::Differs);
        // A run that failed is no success.
        let d = definition(&format!("{of}at-least = 0.0"));
        let mut broken = runs.clone();
        broken[0].summary = None;
        assert_eq!(
            d.judge("id", Ok(&broken), |_| false).verdict,
            Verdict::Differs
        );
        let missing = Unable::Needs("a/b".to_owned());
        let judged = d.judge("id", Err(&missing), |_| true);
        assert_eq!(judged.verdict, Verdict::NotRun);
        assert!(judged.why.contains("--traces"), "{}", judged.why);
    }

    #[test]
    fn flows_become_one_value_as_asked() {
        let run = run("copa", 1, &[1.0, 2.0, 6.0]);
        let of = |flows| value(&run, "throughput_mbps", None, flows).unwrap();
        assert_eq!(
            [of(Over::Mean), of(Over::Sum), of(Over::Min), of(Over::Max)],
            [3.0, 9.0, 1.0, 6.0]
        );
        // ((2^2 + 1 + 3^2) / 3)^0.5
        assert!((of(Over::Sd) - (14.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(
            value(&run, "throughput_mbps", Some(3), Over::Mean),
            Some(6.0)
        );
        assert_eq!(value(&run, "throughput_mbps", Some(4), Over::Mean), None);
    }

    #[test]
    fn numbers_have_four_digits() {
        let said: Vec<String> = [0.0, 1.0, 12.345, 0.012_345, 12_345.6, 100.0]
            .map(number)
            .into();
        assert_eq!(said, ["0", "1", "12.35", "0.01235", "12346", "100"]);
    }
}
