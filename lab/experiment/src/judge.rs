// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of cells, the expectations, and the verdict.
use crate::bounds::{describe_bound, is_within};
use crate::definition::{Aggregate, Definition, Expectation, Subject};
use crate::each::Each;
use crate::run::Run;
use alcc_live::{LabError, applications};
use alcc_results::{PROFILE_FIGURES, Row, Spread};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The verdict of an experiment on the published statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every expectation holds.
    Reproduced,
    /// Every expectation that is judged holds, but they are fewer than what is stated.
    ReproducedInPart,
    /// An expectation does not hold, and another experiment shows why.
    DiffersExplained,
    /// An expectation does not hold.
    Differs,
    /// A requirement is missing.
    NotRun,
    /// Shortened runs show figures but judge nothing.
    Short,
}

/// Form of the runs: simulated or with real programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Simulated.
    Simulated,
    /// Real programs.
    Emulated,
    /// Real programs, each cell once and for a short time.
    Shortened,
}

impl Mode {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "sim",
            Self::Emulated | Self::Shortened => "emu",
        }
    }
}

impl Verdict {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::ReproducedInPart => "reproduced-in-part",
            Self::DiffersExplained => "differs-explained",
            Self::Differs => "differs",
            Self::NotRun => "not-run",
            Self::Short => "short",
        }
    }
}

/// An expectation and the measured value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The statement in words.
    pub says: String,
    /// The published value.
    pub published: Option<f64>,
    /// The measured value over the repetitions; `None` if a run failed. About each cell: the medians
    /// of the cells.
    pub ours: Option<Spread>,
    /// About each cell: how many there are, and which are outside the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<Each>,
    /// The bound in words.
    pub bound: String,
    /// True if it is within the bound.
    pub holds: bool,
}

/// The result of an experiment: one entry of `experiments` in `alcc-lab reproduce --json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// The experiment.
    pub id: String,
    /// `sim` or `emu`.
    pub mode: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Published value of the first outcome that does not hold, or else of the first outcome.
    pub published: Option<f64>,
    /// This program's median of the same outcome.
    pub ours: Option<f64>,
    /// The bound of the same outcome.
    pub bound: String,
    /// The statement that does not hold, what is missing, or that all hold.
    pub why: String,
    /// One outcome for each expectation.
    pub outcomes: Vec<Outcome>,
}

/// Metrics of a run that are not fields of a row, because they are of all its flows.
pub const OF_ALL_FLOWS: [&str; 4] = ["jain", "jain_1s", "worst_share_10s", "fair_after_s"];
/// A flow's part of the throughput of all flows of its run.
const SHARE: &str = "share";

/// Metrics that are available for a phase.
pub const PHASE_METRICS: [&str; 2] = ["throughput_mbps", "jain"];

/// The value of `metric` in one run, aggregated over its flows.
pub fn value(run: &Run, metric: &str, flow: Option<usize>, flows: Aggregate) -> Option<f64> {
    if let Some(value) = run.channel.get(metric) {
        return Some(*value);
    }
    let summary = run.summary.as_ref()?;
    match metric {
        "jain" => return summary.jain,
        "jain_1s" => return summary.jain_1s,
        "worst_share_10s" => return summary.worst_share_10s,
        "fair_after_s" => return summary.fair_after_s,
        _ => {}
    }
    let all = || run.flows.iter().map(|row| row.throughput_mbps).sum();
    let all: Option<f64> = (metric == SHARE).then(all).flatten();
    let number = |row: &Row| match metric {
        SHARE => Some(row.throughput_mbps? / all.filter(|all| *all > 0.0)?),
        _ => row.numbers().get(metric).copied(),
    };
    if let Some(flow) = flow {
        return number(run.flows.get(flow.checked_sub(1)?)?);
    }
    let values: Option<Vec<f64>> = run.flows.iter().map(number).collect();
    aggregate(&values?, flows)
}

/// The value of `metric` in a phase of a run.
fn phase_value(
    run: &Run,
    phase: &str,
    metric: &str,
    flow: Option<usize>,
    flows: Aggregate,
) -> Option<f64> {
    let phases = &run.summary.as_ref()?.phases;
    let phase = phases.iter().find(|known| known.phase == phase)?;
    if metric == "jain" {
        return phase.jain;
    }
    match flow {
        Some(flow) => phase.throughput_mbps.get(flow.checked_sub(1)?).copied(),
        None => aggregate(&phase.throughput_mbps, flows),
    }
}

/// Aggregates values; `None` without values.
fn aggregate(values: &[f64], flows: Aggregate) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let sum: f64 = values.iter().sum();
    Some(match flows {
        Aggregate::Mean => sum / n,
        Aggregate::Sum => sum,
        Aggregate::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        Aggregate::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Aggregate::Sd => {
            let mean = sum / n;
            (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
        }
    })
}

/// Names of the metrics of [`value`].
pub fn metrics(subject: Subject) -> Vec<&'static str> {
    match subject {
        Subject::Flows => {}
        Subject::Channel => return crate::channel::METRICS.to_vec(),
        Subject::Application(name) => {
            let own = applications::find(name).map_or(&[][..], |found| found.metrics);
            return own
                .iter()
                .chain(&applications::OF_THE_LINK)
                .copied()
                .collect();
        }
    }
    let of_flows = Row::MEASURED.iter().chain(Row::DISTRIBUTION).copied();
    let of_flows = of_flows.chain(["power", SHARE]).chain(OF_ALL_FLOWS);
    of_flows.chain(PROFILE_FIGURES.iter().copied()).collect()
}

impl Definition {
    /// Compares each expectation with these runs.
    pub fn outcomes(&self, runs: &[Run]) -> Vec<Outcome> {
        let outcome = |e: &Expectation| {
            let (ours, each) = if e.each {
                self.each(e, runs).unzip()
            } else {
                (self.spread_over_starts(e, &e.of, runs), None)
            };
            let holds = match (&each, &ours) {
                (Some(each), _) => each.outside.is_empty(),
                (None, Some(ours)) => is_within(e, ours),
                (None, None) => false,
            };
            Outcome {
                says: e.says.clone(),
                published: e.published,
                ours,
                each,
                bound: describe_bound(e),
                holds,
            }
        };
        self.expect.iter().map(outcome).collect()
    }

    /// The value of an expectation over the repetitions, of the cells that `of` selects; `None` if
    /// it is missing in a run.
    pub(crate) fn spread_over_starts(
        &self,
        e: &Expectation,
        of: &BTreeMap<String, String>,
        runs: &[Run],
    ) -> Option<Spread> {
        let over = e.over.as_ref();
        let mut values = Vec::new();
        let starts = runs.iter().map(|run| run.repetition).max()?;
        for repetition in 1..=starts {
            let of = self.mean(e, of, repetition, runs)?;
            let over = match over {
                None => 1.0,
                Some(over) => self.mean(e, over, repetition, runs)?,
            };
            values.push(of / over);
        }
        Spread::of(&values)
    }

    /// The mean over the cells that `of` selects.
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
            Some(phase) => phase_value(run, phase, &e.metric, e.flow, e.flows),
            None => value(run, &e.metric, e.flow, e.flows),
        });
        let values: Option<Vec<f64>> = values.collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The verdict from these runs, or from the reason why there are none. `explained` tells
    /// whether the expectations of another experiment hold. Real programs cannot do all that the
    /// simulator can: what they do not show is said, and is not judged.
    pub fn judge(
        &self,
        id: &str,
        mode: Mode,
        runs: Result<&[Run], &LabError>,
        explained: impl FnOnce(&str) -> bool,
    ) -> Judgement {
        let (outcomes, not_run) = match runs {
            Ok(runs) => (self.outcomes(runs), None),
            Err(not_run) => (Vec::new(), Some(not_run.to_string())),
        };
        let is_judged = |outcome: &&Outcome| mode == Mode::Simulated || outcome.ours.is_some();
        let judged = outcomes.iter().filter(is_judged).count();
        let omitted = (judged < outcomes.len()).then(|| {
            let failed = runs.iter().flat_map(|runs| runs.iter());
            let why = failed.filter_map(|run| run.error.as_deref()).next();
            why.unwrap_or("real programs do not show it").to_owned()
        });
        let not_run = not_run.or_else(|| omitted.clone().filter(|_| judged == 0));
        let mut all_failing = outcomes.iter().filter(is_judged).filter(|o| !o.holds);
        let failing = all_failing.next();
        let more = match all_failing.count() {
            0 => String::new(),
            n => format!(", and {n} more of {judged}"),
        };
        let first = failing.or_else(|| outcomes.iter().find(is_judged));
        let verdict = match (&not_run, failing) {
            (Some(_), _) => Verdict::NotRun,
            _ if mode == Mode::Shortened => Verdict::Short,
            (None, None) if self.in_part.is_some() || omitted.is_some() => {
                Verdict::ReproducedInPart
            }
            (None, None) => Verdict::Reproduced,
            (None, Some(_)) => match &self.explained_by {
                Some(other) if explained(other) => Verdict::DiffersExplained,
                _ => Verdict::Differs,
            },
        };
        let mut why = match (&not_run, failing, &self.explained_by) {
            (Some(not_run), ..) => not_run.clone(),
            (None, None, _) => match judged {
                1 => "its expectation holds".to_owned(),
                n => format!("all {n} expectations hold"),
            },
            (None, Some(outcome), Some(other)) if verdict == Verdict::DiffersExplained => {
                format!(
                    "does not hold: {}{more}; {other} shows why",
                    statement(outcome)
                )
            }
            (None, Some(outcome), _) => match outcome.ours {
                Some(_) => format!("does not hold: {}{more}", statement(outcome)),
                None => format!("a run failed or has no such value: {}", outcome.says),
            },
        };
        if let Some(left_out) = &self.in_part
            && verdict == Verdict::ReproducedInPart
        {
            why += &format!("; in part: {left_out}");
        }
        if let Some(omitted) = omitted.filter(|_| not_run.is_none()) {
            why += &format!(
                "; {} of {} are not judged: {omitted}",
                outcomes.len() - judged,
                outcomes.len()
            );
        }
        if let Some(doubts) = runs.ok().and_then(doubts) {
            why += &format!("; {doubts}");
        }
        Judgement {
            id: id.to_owned(),
            mode: mode.name().to_owned(),
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

/// The note beside the figures of these runs: the first one, and how many runs have any.
fn doubts(runs: &[Run]) -> Option<String> {
    let mut noted = runs.iter().filter_map(|run| run.notes.first());
    let first = noted.next()?;
    let others = noted.count();
    Some(match others {
        0 => format!("of one run: {first}"),
        n => format!("of {} of {} runs, one: {first}", n + 1, runs.len()),
    })
}

/// The statement in words, and how many cells hold.
fn statement(outcome: &Outcome) -> String {
    match &outcome.each {
        Some(each) => format!("{} ({})", outcome.says, each.count()),
        None => outcome.says.clone(),
    }
}

/// The measured value: a median with its range, and how many cells hold.
pub fn measured(outcome: &Outcome) -> Option<String> {
    let ours = range(&outcome.ours?);
    Some(match &outcome.each {
        Some(each) => format!("{}; {ours}", each.count()),
        None => ours,
    })
}

/// A median with its range.
pub fn range(spread: &Spread) -> String {
    spread.text(number)
}

/// Formats a number with four digits.
pub fn number(value: f64) -> String {
    rounded(value, 6)
}

/// Formats a number with four digits, and at most `decimals` decimals.
pub(crate) fn rounded(value: f64, decimals: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, decimals) as usize);
    if text.contains('.') {
        match text.trim_end_matches('0').trim_end_matches('.') {
            "-0" => "0".to_owned(),
            number => number.to_owned(),
        }
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
            flows: mbps.iter().map(row).collect(),
            summary: Some(alcc_results::simulated::Summary::default()),
            ..Run::default()
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
            d.judge("id", Mode::Simulated, Ok(&runs), |other| {
                other == "other" && explained
            })
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
        // A failed run is not a success.
        let d = definition(&format!("{of}at-least = 0.0"));
        let mut broken = runs.clone();
        broken[0].summary = None;
        assert_eq!(
            d.judge("id", Mode::Simulated, Ok(&broken), |_| false)
                .verdict,
            Verdict::Differs
        );
        let missing = LabError::NoTrace("a/b".to_owned());
        let judged = d.judge("id", Mode::Simulated, Err(&missing), |_| true);
        assert_eq!(judged.verdict, Verdict::NotRun);
        assert!(judged.why.contains("--traces"), "{}", judged.why);
    }

    #[test]
    fn a_share_is_of_what_all_flows_have() {
        let mut one = run("copa", 1, &[6.0, 3.0, 1.0]);
        let share = |one: &Run, flow| value(one, "share", flow, Aggregate::Min);
        assert_eq!(share(&one, Some(2)), Some(0.3));
        assert_eq!(share(&one, None), Some(0.1));
        one.flows[0].throughput_mbps = None;
        assert_eq!(share(&one, Some(2)), None);
        assert_eq!(share(&run("copa", 1, &[0.0, 0.0]), Some(1)), None);
    }

    #[test]
    fn what_makes_runs_doubtful_stands_beside_the_verdict() {
        let d = definition("of = { scheme = 'copa' }\nat-least = 1.0");
        let mut runs = [run("copa", 1, &[2.0]), run("copa", 2, &[2.0])];
        let why = |runs: &[Run]| d.judge("id", Mode::Emulated, Ok(runs), |_| false).why;
        assert_eq!(why(&runs), "its expectation holds");
        runs[1].notes = vec!["copa: late".to_owned(), "copa: and more".to_owned()];
        assert_eq!(why(&runs), "its expectation holds; of one run: copa: late");
        runs[0].notes = vec!["copa: later".to_owned()];
        assert!(why(&runs).ends_with("; of 2 of 2 runs, one: copa: later"));
    }

    #[test]
    fn what_does_not_hold_is_the_first_and_how_many_more() {
        let more = |says: &str, most: f64| {
            format!(
                "[[expect]]\nsays = '{says}'\nmetric = 'throughput_mbps'\nof = {{}}\nat-most = {most}\n"
            )
        };
        let fails = "of = {}\nat-most = 1.0\n";
        let why = |rest: &str, explained: bool| {
            let d = definition(&format!("{fails}{rest}"));
            let runs = [run("copa", 1, &[2.0])];
            d.judge("id", Mode::Simulated, Ok(&runs), |_| explained).why
        };
        let holds = more("d", 3.0);
        assert_eq!(why(&holds, false), "does not hold: c");
        let two = holds + &more("e", 1.0);
        assert_eq!(why(&two, false), "does not hold: c, and 1 more of 3");
        let said = "does not hold: c, and 1 more of 3; other shows why";
        assert_eq!(why(&two, true), said);
    }

    #[test]
    fn in_emulation_only_what_was_measured_is_judged_and_short_runs_judge_nothing() {
        let expect = |scheme: &str| {
            format!(
                "says = '{scheme}'\nmetric = 'throughput_mbps'\nof = {{ scheme = '{scheme}' }}\nat-least = 2.0\n"
            )
        };
        let d = definition(&format!(
            "of = {{ scheme = 'copa' }}\nat-least = 2.0\n[[expect]]\n{}",
            expect("cubic")
        ));
        let failed = Run {
            flows: Vec::new(),
            summary: None,
            error: Some("emulate a chain of 2 links: give one --link".to_owned()),
            ..run("cubic", 1, &[])
        };
        let judge = |mode, mbps| {
            let runs = [run("copa", 1, &[mbps]), failed.clone()];
            let judged = d.judge("id", mode, Ok(&runs), |_| false);
            (judged.verdict, judged.why)
        };
        let (verdict, why) = judge(Mode::Emulated, 3.0);
        assert_eq!(verdict, Verdict::ReproducedInPart);
        assert!(
            why.contains("1 of 2 are not judged: emulate a chain"),
            "{why}"
        );
        assert_eq!(judge(Mode::Emulated, 1.0).0, Verdict::Differs);
        assert_eq!(judge(Mode::Shortened, 3.0).0, Verdict::Short);
        // In the simulator a failed run is a failure.
        assert_eq!(judge(Mode::Simulated, 3.0).0, Verdict::Differs);
        let nothing = [failed.clone()];
        let judged = d.judge("id", Mode::Emulated, Ok(&nothing), |_| false);
        assert_eq!(judged.verdict, Verdict::NotRun);
        assert!(judged.why.starts_with("emulate a chain"), "{}", judged.why);
    }

    #[test]
    fn a_definition_that_leaves_something_out_is_reproduced_in_part_at_best() {
        let judge = |at_least: f64| {
            let mut d = definition(&format!("of = {{}}\nat-least = {at_least}"));
            d.in_part = Some("not judged: d".to_owned());
            let runs = [run("copa", 1, &[2.0])];
            let judged = d.judge("id", Mode::Simulated, Ok(&runs), |_| true);
            (judged.verdict.name(), judged.why)
        };
        let said = "its expectation holds; in part: not judged: d".to_owned();
        assert_eq!(judge(1.0), ("reproduced-in-part", said));
        let said = "does not hold: c; other shows why".to_owned();
        assert_eq!(judge(3.0), ("differs-explained", said));
    }

    #[test]
    fn flows_become_one_value_as_asked() {
        let run = run("copa", 1, &[1.0, 2.0, 6.0]);
        let of = |flows| value(&run, "throughput_mbps", None, flows).unwrap();
        assert_eq!(
            [
                of(Aggregate::Mean),
                of(Aggregate::Sum),
                of(Aggregate::Min),
                of(Aggregate::Max)
            ],
            [3.0, 9.0, 1.0, 6.0]
        );
        // ((2^2 + 1 + 3^2) / 3)^0.5
        assert!((of(Aggregate::Sd) - (14.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(
            value(&run, "throughput_mbps", Some(3), Aggregate::Mean),
            Some(6.0)
        );
        assert_eq!(
            value(&run, "throughput_mbps", Some(4), Aggregate::Mean),
            None
        );
    }

    #[test]
    fn numbers_have_four_digits() {
        let said: Vec<String> = [0.0, 1.0, 12.345, 0.012_345, 12_345.6, 100.0]
            .map(number)
            .into();
        assert_eq!(said, ["0", "1", "12.35", "0.01235", "12346", "100"]);
    }
}
