// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `experiment.toml`: the question, the scenario, what is varied, and what is expected.
//!
//! ```
//! use alcc_experiment::Definition;
//!
//! let text = r#"
//! title = "Two flows of Copa share a link"
//! source = "Arun and Balakrishnan, NSDI 2018, section 5.2"
//! statement = "Copa flows share fairly."
//!
//! [scenario]
//! link = "12mbit"
//! flow = "2*{scheme}/stagger=103.3ms"
//! duration = "10s"
//!
//! [[sweep]]
//! key = "scheme"
//! values = ["copa", "cubic"]
//!
//! [[expect]]
//! says = "the flows of Copa are equal"
//! metric = "jain"
//! of = { scheme = "copa" }
//! at-least = 0.9
//! "#;
//! let definition = Definition::from_toml(text, "two.toml").unwrap();
//! assert_eq!(definition.sweep[0].choices.len(), 2);
//! ```
use crate::seconds::{SECOND_METRICS, THROUGHPUT};
use alcc_lab::applications;
use alcc_results::PROFILE_FIGURES;
use alcc_results::scenario::ScenarioOptions;
use alcc_units::nearest;
use serde::de::{IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use toml::de::DeTable;

/// Repetitions of each cell, unless the file says otherwise.
pub const DEFAULT_STARTS: u32 = 3;
/// Maximum number of runs of one experiment.
pub const MAX_RUNS: usize = 10_000;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Definition {
    /// One line: what it is about.
    pub title: String,
    /// Paper and place in it.
    pub source: String,
    /// The published statement.
    pub statement: String,
    /// Another experiment whose expectations show why this one differs from the source.
    pub explained_by: Option<String>,
    /// A missing requirement, and how to get it. If set, the experiment is not run.
    pub needs: Option<String>,
    /// Repetitions of each cell, with the seeds 1, 2 and so on.
    pub starts: u32,
    /// What is measured in each cell.
    pub subject: Subject,
    /// The scenario, with placeholders such as `{scheme}`. For a channel: only its link.
    pub scenario: ScenarioOptions,
    /// The axes in order; the first varies slowest.
    pub sweep: Vec<Axis>,
    /// The figures.
    pub report: Report,
    /// Expectations that must hold for the verdict `reproduced`.
    pub expect: Vec<Expectation>,
}

/// What is measured in each cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Subject {
    /// Flows over links: `[scenario]`.
    #[default]
    Flows,
    /// A trace alone: `[channel]`.
    Channel,
    /// The real application of this name, whose server sends as the one flow of `[scenario]` says.
    Application(&'static str),
}

/// An axis of the sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// Its name.
    pub key: String,
    /// Its values.
    pub choices: Vec<Choice>,
}

/// One value of an axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// Its name in pages and expectations.
    pub name: String,
    /// The text for each placeholder.
    pub set: BTreeMap<String, String>,
}

/// What the figures show: a point for each cell.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Report {
    /// Metric of the horizontal axis. None: the last axis of the sweep.
    pub x: Option<String>,
    /// Metrics of the vertical axis, a panel for each. None: throughput. Over time and in a density
    /// they are those of single seconds.
    pub y: Vec<String>,
    /// The horizontal axis is logarithmic.
    pub log_x: bool,
    /// Over time: metrics with a logarithmic axis.
    pub log_y: Vec<String>,
    /// Over time: the axis of a metric goes at least to this value.
    pub reach: BTreeMap<String, f64>,
    /// More metrics of the table.
    pub columns: Vec<String>,
    /// What is drawn of each cell. None: the median.
    #[serde(deserialize_with = "one_or_several")]
    pub form: Vec<Form>,
    /// How the flows of a run become one value. None: their mean; in a distribution each is a value
    /// of its own.
    pub flows: Option<Aggregate>,
    /// Learned delay profiles are drawn, too: those of the first flow and the first start.
    pub profile: Option<ProfileForm>,
}

/// What a figure shows of each cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The median over the starts, and their range.
    #[default]
    Median,
    /// The share of the flows that have at most so much, over the flows of all starts.
    Distribution,
    /// Quartiles of the flows of all starts.
    Boxes,
    /// Second by second, a line for each flow of the first start.
    Series,
    /// Density of the single seconds of all starts.
    Density,
    /// Outline through the quartiles of throughput and delay of the single seconds of all starts.
    Population,
}

impl Form {
    /// Whether it shows single seconds.
    pub(crate) fn has_seconds(self) -> bool {
        matches!(self, Self::Series | Self::Density | Self::Population)
    }
}

impl Report {
    /// The forms of its figures, at least one.
    pub(crate) fn forms(&self) -> &[Form] {
        match self.form.as_slice() {
            [] => &[Form::Median],
            some => some,
        }
    }

    /// Whether a figure shows single seconds.
    pub(crate) fn has_seconds(&self) -> bool {
        self.form.iter().any(|form| form.has_seconds())
    }

    /// Whether the figures show single seconds of this start.
    pub(crate) fn has_seconds_of(&self, repetition: u32) -> bool {
        let of = |form: &Form| form.has_seconds() && (repetition == 1 || *form != Form::Series);
        self.form.iter().any(of)
    }
}

/// A form, or a list of forms.
fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Form>, D::Error> {
    struct Forms;
    impl<'de> Visitor<'de> for Forms {
        type Value = Vec<Form>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a form, or a list of forms")
        }

        fn visit_str<E: serde::de::Error>(self, one: &str) -> Result<Self::Value, E> {
            Ok(vec![Form::deserialize(one.into_deserializer())?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
            let mut forms = Vec::new();
            while let Some(form) = all.next_element()? {
                forms.push(form);
            }
            Ok(forms)
        }
    }
    from.deserialize_any(Forms)
}

/// How learned delay profiles are drawn (Verus).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileForm {
    /// The points and the curve of the last second.
    Points,
    /// Every fifth curve, by the throughput of its second.
    Curves,
}

/// One statement about cells, with its bound.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Expectation {
    /// The statement in words.
    pub says: String,
    /// A field of a row, or `jain`, `jain_1s`; of a channel one of its own.
    pub metric: String,
    /// Only in this phase of the scenario, written as in the key `phase`.
    #[serde(default)]
    pub phase: Option<String>,
    /// The cells by axis and choice. The value is the mean over the axes that are not named.
    #[serde(default)]
    pub of: BTreeMap<String, String>,
    /// The cells that the value is divided by.
    #[serde(default)]
    pub over: Option<BTreeMap<String, String>>,
    /// Number of the flow that counts, from 1. None: all flows, aggregated by `flows`.
    #[serde(default)]
    pub flow: Option<usize>,
    /// Aggregation of the flows of a run to one value.
    #[serde(default)]
    pub flows: Aggregate,
    /// The published value.
    #[serde(default)]
    pub published: Option<f64>,
    /// Bound: maximum relative difference from the published value.
    #[serde(default)]
    pub within: Option<f64>,
    /// Bound.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Bound.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// Bound: the published value lies between the smallest and the largest of the starts.
    #[serde(default)]
    pub spans: bool,
}

/// Aggregation of the flows of a run to one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregate {
    /// Arithmetic mean.
    #[default]
    Mean,
    /// Sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Standard deviation.
    Sd,
}

/// The file. Its scenario is read by [`ScenarioOptions`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    title: String,
    source: String,
    statement: String,
    explained_by: Option<String>,
    needs: Option<String>,
    application: Option<String>,
    #[serde(default)]
    starts: Option<u32>,
    #[serde(default, rename = "scenario")]
    _scenario: toml::Table,
    #[serde(default, rename = "channel")]
    _channel: toml::Table,
    #[serde(default)]
    sweep: Vec<FileAxis>,
    #[serde(default)]
    report: Report,
    #[serde(default)]
    expect: Vec<Expectation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAxis {
    key: String,
    values: Vec<FileChoice>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a value is a text, a whole number, or a table of texts with a name, such as { name = \"Cubic\", scheme = \"cubic\" }"
)]
enum FileChoice {
    Text(String),
    Number(i64),
    /// `name`, and a value for each placeholder.
    Set(BTreeMap<String, String>),
}

impl Axis {
    fn of(file: FileAxis) -> Result<Self, String> {
        let key = file.key;
        let mut choices: Vec<Choice> = Vec::new();
        for value in file.values {
            let one = |name: String| Choice {
                set: BTreeMap::from([(key.clone(), name.clone())]),
                name,
            };
            let choice = match value {
                FileChoice::Text(text) => one(text),
                FileChoice::Number(n) => one(n.to_string()),
                FileChoice::Set(mut set) => {
                    let name = set.remove("name").ok_or_else(|| {
                        format!("sweep over '{key}': a table of values needs a name")
                    })?;
                    Choice { name, set }
                }
            };
            if choices.iter().any(|c| c.name == choice.name) {
                return Err(format!("sweep over '{key}': '{}' twice", choice.name));
            }
            choices.push(choice);
        }
        if choices.is_empty() {
            return Err(format!("sweep over '{key}': it has no values"));
        }
        Ok(Self { key, choices })
    }
}

/// The source of questions of our own.
const OWN: &str = "this project";

impl Definition {
    /// Whether it asks what users of a real application notice, which no paper has published.
    pub fn is_own_application(&self) -> bool {
        matches!(self.subject, Subject::Application(_)) && self.source == OWN
    }

    /// Reads `experiment.toml`. `name` is what errors call it.
    ///
    /// # Errors
    /// One line: the file, the line, what was found, what would be right.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, String> {
        let at = |from: usize| {
            let line = text[..from.min(text.len())].matches('\n').count() + 1;
            format!("{name}:{line}")
        };
        let file: File = toml::from_str(text).map_err(|e| {
            let place = at(e.span().map_or(0, |span| span.start));
            format!("{place}: {}", with_nearest(e.message()))
        })?;
        let table = DeTable::parse(text).map_err(|e| format!("{name}: {}", e.message()))?;
        let named = |key: &str| {
            let value = table.get_ref().get(key);
            value.and_then(|value| value.get_ref().as_table())
        };
        let (subject, scenario) = match (named("scenario"), named("channel")) {
            (Some(scenario), None) => {
                let options = ScenarioOptions::from_table(scenario, text, name)?;
                (Subject::Flows, options)
            }
            (None, Some(channel)) => (Subject::Channel, channel_of(channel, text, name)?),
            (None, None) if file.needs.is_some() => Default::default(),
            (None, None) => return Err(format!("{name}: it has no table [scenario]")),
            (Some(_), Some(_)) => {
                return Err(format!("{name}: it has [scenario] and [channel]: keep one"));
            }
        };
        let subject = match (subject, &file.application) {
            (subject, None) => subject,
            (Subject::Flows, Some(wanted)) => {
                let known = applications::APPLICATIONS.iter().map(|known| known.name);
                let found = applications::find(wanted).ok_or_else(|| {
                    format!("{name}: {}", unknown_name("application", wanted, known))
                })?;
                Subject::Application(found.name)
            }
            (_, Some(_)) => {
                return Err(format!("{name}: an application and [channel]: keep one"));
            }
        };
        let placed = |(path, why): Wrong| match offset(table.get_ref(), &path) {
            Some(from) => format!("{}: {why}", at(from)),
            None => format!("{name}: {why}"),
        };
        let axes = file.sweep.into_iter().enumerate().map(|(n, axis)| {
            let path = || path(["sweep", &n.to_string(), "values"]);
            Axis::of(axis).map_err(|why| (path(), why))
        });
        let definition = Self {
            title: file.title,
            source: file.source,
            statement: file.statement,
            explained_by: file.explained_by,
            needs: file.needs,
            // Repetitions of a trace would be equal.
            starts: file.starts.unwrap_or(match subject {
                Subject::Flows | Subject::Application(_) => DEFAULT_STARTS,
                Subject::Channel => 1,
            }),
            subject,
            scenario,
            sweep: axes.collect::<Result<_, _>>().map_err(placed)?,
            report: file.report,
            expect: file.expect,
        };
        definition.check().map_err(placed)?;
        Ok(definition)
    }

    /// Checks that the parts are consistent.
    pub(crate) fn check(&self) -> Result<(), Wrong> {
        if self.starts == 0 {
            let why = "starts: 0 repetitions measure nothing: say at least 1";
            return Err((path(["starts"]), why.to_owned()));
        }
        let cells = self
            .sweep
            .iter()
            .try_fold(1_usize, |cells, axis| cells.checked_mul(axis.choices.len()));
        let runs = cells.and_then(|cells| cells.checked_mul(self.starts as usize));
        if runs.is_none_or(|runs| runs > MAX_RUNS) {
            let why = format!("the sweep has more than {MAX_RUNS} runs: vary less");
            return Err((path(["sweep"]), why));
        }
        self.check_report()
            .map_err(|(key, why)| (path(["report", key]), format!("report: {why}")))?;
        for (number, expectation) in self.expect.iter().enumerate() {
            self.check_expectation(expectation).map_err(|(keys, why)| {
                let here = path(["expect", &number.to_string()]);
                let why = format!("expectation {}: {why}", number + 1);
                ([here, keys].concat(), why)
            })?;
        }
        Ok(())
    }

    /// The key with a mistake, and what is wrong.
    fn check_report(&self) -> Result<(), (&'static str, String)> {
        let report = &self.report;
        let metrics = crate::judge::metrics(self.subject);
        let known = |key, metric: &String, of: &[&str]| match of.contains(&metric.as_str()) {
            true => Ok(()),
            false => Err((key, unknown_name("metric", metric, of.iter().copied()))),
        };
        for (key, metric) in (report.x.iter().map(|metric| ("x", metric)))
            .chain(report.columns.iter().map(|metric| ("columns", metric)))
        {
            known(key, metric, &metrics)?;
        }
        let (what, y) = match report.has_seconds() {
            true => (" of single seconds", &SECOND_METRICS[..]),
            false => ("", &metrics[..]),
        };
        for metric in &report.y {
            known("y", metric, y).map_err(|_| {
                let what = format!("metric{what}");
                ("y", unknown_name(&what, metric, y.iter().copied()))
            })?;
        }
        if report.has_seconds() {
            if self.subject != Subject::Flows {
                let why = "only flows of [scenario] are known second by second: leave out form";
                return Err(("form", why.to_owned()));
            }
            if !report.form.iter().all(|form| form.has_seconds()) {
                let why = "form: only series, density and population go together";
                return Err(("form", why.to_owned()));
            }
            if report.x.is_some() {
                let why = "x: this form has its own horizontal axis: leave out x";
                return Err(("x", why.to_owned()));
            }
        }
        let standard = [THROUGHPUT.to_owned()];
        let drawn: Vec<&str> = match report.y.as_slice() {
            [] => &standard,
            some => some,
        }
        .iter()
        .map(String::as_str)
        .collect();
        let log_y = report.log_y.iter().map(|metric| ("log-y", metric));
        for (key, metric) in log_y.chain(report.reach.keys().map(|metric| ("reach", metric))) {
            if !report.form.contains(&Form::Series) {
                let why = format!("{key}: only form = \"series\" has it");
                return Err((key, why));
            }
            known(key, metric, &drawn)?;
        }
        if let Some(value) = report
            .reach
            .values()
            .find(|value| !value.is_finite() || **value <= 0.0)
        {
            return Err((
                "reach",
                format!("reach: {value} is no end of an axis: say more than 0"),
            ));
        }
        Ok(())
    }

    /// Whether a metric or a picture needs samples over time.
    pub(crate) fn wants_series(&self) -> bool {
        let of_samples = |metric: &str| metric == "below_tcp" || metric.starts_with("tcp_cwnd");
        self.report.has_seconds() || self.names(of_samples)
    }

    /// Whether a metric or a picture needs the learned delay profiles.
    pub(crate) fn wants_profiles(&self) -> bool {
        self.report.profile.is_some() || self.names(|metric| PROFILE_FIGURES.contains(&metric))
    }

    /// Whether it draws or expects such a metric.
    fn names(&self, is: impl Fn(&str) -> bool) -> bool {
        let report = &self.report;
        let metrics = report.y.iter().chain(&report.x).chain(&report.columns);
        let mut metrics = metrics.chain(self.expect.iter().map(|e| &e.metric));
        metrics.any(|metric| is(metric))
    }

    fn check_expectation(&self, expectation: &Expectation) -> Result<(), Wrong> {
        let e = expectation;
        let wrong = |key: &str, why: &str| Err((path([key]), why.to_owned()));
        if e.within.is_none() && e.at_least.is_none() && e.at_most.is_none() && !e.spans {
            let why = "it has no bound: say within, at-least, at-most or spans";
            return Err((Vec::new(), why.to_owned()));
        }
        if e.within
            .is_some_and(|within| within.is_nan() || within < 0.0)
        {
            return wrong("within", "no value is so near: say 0 or more, such as 0.1");
        }
        for (key, bound) in [("at-least", e.at_least), ("at-most", e.at_most)] {
            if bound.is_some_and(f64::is_nan) {
                return wrong(key, "it is no number, so no value is within it");
            }
        }
        if e.at_least
            .zip(e.at_most)
            .is_some_and(|(least, most)| least > most)
        {
            return wrong("at-most", "no value is between at-least and at-most");
        }
        if e.flow == Some(0) {
            return wrong("flow", "flow 0: flows are numbered from 1");
        }
        let metrics = crate::judge::metrics(self.subject);
        if !metrics.contains(&e.metric.as_str()) {
            let why = unknown_name("metric", &e.metric, metrics.into_iter());
            return Err((path(["metric"]), why));
        }
        if (e.within.is_some() || e.spans) && e.published.is_none() {
            let bound = if e.spans { "spans" } else { "within" };
            return wrong(bound, &format!("{bound}: of what? say published"));
        }
        if let Some(phase) = &e.phase {
            let phases = self.scenario.phase.iter().map(|phase| phase.text.as_str());
            if !phases.clone().any(|known| known == phase) {
                return Err((path(["phase"]), unknown_name("phase", phase, phases)));
            }
            if !crate::judge::PHASE_METRICS.contains(&e.metric.as_str()) {
                let known = crate::judge::PHASE_METRICS.iter().copied();
                let why = unknown_name("metric of a phase", &e.metric, known);
                return Err((path(["metric"]), why));
            }
        }
        let of = e.of.iter().map(|cell| ("of", cell));
        for (table, (key, choice)) in of.chain(e.over.iter().flatten().map(|c| ("over", c))) {
            let axis = self.sweep.iter().find(|axis| axis.key == *key);
            let keys = self.sweep.iter().map(|axis| axis.key.as_str());
            let wrong = |why| (path([table, key]), why);
            let axis = axis.ok_or_else(|| wrong(unknown_name("axis", key, keys)))?;
            let names = axis.choices.iter().map(|choice| choice.name.as_str());
            if !names.clone().any(|name| name == choice) {
                return Err(wrong(unknown_name(key, choice, names)));
            }
        }
        Ok(())
    }
}

/// The path to a mistake in the file, and what is wrong.
pub(crate) type Wrong = (Vec<String>, String);

fn path<const N: usize>(keys: [&str; N]) -> Vec<String> {
    keys.map(str::to_owned).to_vec()
}

/// Where the value or table is that `path` leads to; what the file does not have is where its table
/// is. Numbers lead into lists.
fn offset(table: &DeTable<'_>, path: &[String]) -> Option<usize> {
    let (key, rest) = path.split_first()?;
    let (found, value) = table.get_key_value(key.as_str())?;
    let (mut from, mut value, mut rest) = (found.span().start, value, rest);
    while let (Some(list), Some((number, more))) = (value.get_ref().as_array(), rest.split_first())
    {
        let Some(item) = number.parse().ok().and_then(|n: usize| list.get(n)) else {
            break;
        };
        (from, value, rest) = (item.span().start, item, more);
    }
    let deeper = value.get_ref().as_table();
    deeper.and_then(|table| offset(table, rest)).or(Some(from))
}

/// Reads `[channel]` as a scenario with this link.
fn channel_of(table: &DeTable<'_>, text: &str, name: &str) -> Result<ScenarioOptions, String> {
    let mut keys = table.iter().map(|(key, _)| key.get_ref().as_ref());
    if let Some(found) = keys.find(|key| *key != "link") {
        let from = offset(table, &path([found])).unwrap_or_default();
        let line = text[..from.min(text.len())].matches('\n').count() + 1;
        let why = unknown_name("key", found, std::iter::once("link"));
        return Err(format!("{name}:{line}: [channel]: {why}"));
    }
    ScenarioOptions::from_table(table, text, name)
}

/// The error for an unknown name, with the nearest name and all names.
pub(crate) fn unknown_name<'a>(
    what: &str,
    found: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let near = nearest(found, known.clone());
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    let all: Vec<&str> = known.collect();
    format!("no {what} '{found}'{near}: there are {}", all.join(", "))
}

/// The parser's message in the words of the file, with the nearest key or value.
fn with_nearest(message: &str) -> String {
    let line = message.replace('\n', "; ");
    for (parser, what) in [("unknown field ", "key"), ("unknown variant ", "value")] {
        if let Some(rest) = line.strip_prefix(parser) {
            let mut quoted = rest.split('`').skip(1).step_by(2);
            let found = quoted.next().unwrap_or_default();
            return unknown_name(what, found, quoted);
        }
    }
    line.replace("expected f64", "expected a number")
        .replace("expected u32", "expected a whole number")
        .replace("expected usize", "expected a whole number")
        .replace(
            "map, expected a sequence",
            "one table, expected a list: write its name as [[sweep]] or [[expect]]",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"title = "t"
source = "s"
statement = "x"
[scenario]
link = "12mbit"
flow = "{scheme}"
[[sweep]]
key = "scheme"
values = ["copa", { name = "Cubic", scheme = "cubic" }]
[[expect]]
says = "c"
metric = "throughput_mbps"
of = { scheme = "Cubic" }
at-least = 1.0
"#;

    fn wrong(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from));
        Definition::from_toml(&GOOD.replace(from, to), "e.toml").unwrap_err()
    }

    #[test]
    fn mistakes_name_the_line_and_the_nearest_word() {
        Definition::from_toml(GOOD, "e.toml").unwrap();
        for (from, to, says) in [
            (
                "title =",
                "application = \"fpt\"\ntitle =",
                "e.toml: no application 'fpt' (did you mean ftp?): there are ftp, page, processor, upload, video, vpn",
            ),
            (
                "title =",
                "tilte =",
                "e.toml:1: no key 'tilte' (did you mean title?)",
            ),
            (
                "link =",
                "lnik =",
                "e.toml:5: no key 'lnik' (did you mean link?)",
            ),
            (
                "metric =",
                "meric =",
                "no key 'meric' (did you mean metric?)",
            ),
            (
                "of = { scheme",
                "of = { sceme",
                "e.toml:13: expectation 1: no axis 'sceme' (did you mean scheme?)",
            ),
            (
                "\"Cubic\" }\n",
                "\"cubi\" }\n",
                "e.toml:13: expectation 1: no scheme 'cubi'",
            ),
            (
                "throughput_mbps",
                "troughput_mbps",
                "e.toml:12: expectation 1: no metric 'troughput_mbps' (did you mean throughput_mbps?)",
            ),
            (
                "at-least = 1.0",
                "",
                "e.toml:10: expectation 1: it has no bound",
            ),
            (
                "at-least = 1.0",
                "within = 0.1",
                "e.toml:14: expectation 1: within: of what? say published",
            ),
            (
                "at-least = 1.0",
                "within = -1",
                "e.toml:14: expectation 1: no value is so near",
            ),
            (
                "at-least = 1.0",
                "at-least = nan",
                "e.toml:14: expectation 1: it is no number",
            ),
            (
                "at-least = 1.0",
                "at-least = 1\nat-most = 0",
                "e.toml:15: expectation 1: no value is between",
            ),
            (
                "at-least = 1.0",
                "at-least = 1\nflow = 0",
                "e.toml:15: expectation 1: flow 0",
            ),
            (
                "at-least = 1.0",
                "at-least = \"x\"",
                "e.toml:14: invalid type: string \"x\", expected a number",
            ),
            (
                "at-least = 1.0",
                "at-least = 1\nflows = \"meen\"",
                "e.toml:15: no value 'meen' (did you mean mean?)",
            ),
            (
                "\"copa\"",
                "1.5",
                "e.toml:9: a value is a text, a whole number, or a table",
            ),
            (
                "\"copa\"",
                "\"Cubic\"",
                "e.toml:9: sweep over 'scheme': 'Cubic' twice",
            ),
            (
                "[[expect]]",
                "[report]\ny = [\"los\"]\n[[expect]]",
                "e.toml:11: report: no metric 'los' (did you mean loss?)",
            ),
            (
                "[[expect]]",
                "[report]\nform = \"serie\"\n[[expect]]",
                "e.toml:11: no value 'serie' (did you mean series?)",
            ),
            (
                "[[expect]]",
                "[report]\nform = [\"density\",\n\"serie\"]\n[[expect]]",
                "e.toml:12: no value 'serie' (did you mean series?)",
            ),
            (
                "[[expect]]",
                "[report]\nform = 1\n[[expect]]",
                "e.toml:11: invalid type: integer `1`, expected a form, or a list of forms",
            ),
            (
                "[[expect]]",
                "[report]\nform = [\"density\", \"boxes\"]\n[[expect]]",
                "e.toml:11: report: form: only series, density and population go together",
            ),
            (
                "[[expect]]",
                "[report]\nform = \"series\"\ny = [\"queue_delay_mean_ms\"]\n[[expect]]",
                "e.toml:12: report: no metric of single seconds 'queue_delay_mean_ms'",
            ),
            (
                "[[expect]]",
                "[report]\nform = \"density\"\nx = \"loss\"\n[[expect]]",
                "e.toml:12: report: x: this form has its own horizontal axis",
            ),
            (
                "[[expect]]",
                "[report]\nform = \"series\"\nlog-y = [\"queue_delay_ms\"]\n[[expect]]",
                "e.toml:12: report: no metric 'queue_delay_ms': there are throughput_mbps",
            ),
            (
                "[[expect]]",
                "[report]\nreach = { throughput_mbps = 9 }\n[[expect]]",
                "e.toml:11: report: reach: only form = \"series\" has it",
            ),
            (
                "[[expect]]",
                "[report]\nform = \"series\"\nreach = { throughput_mbps = 0 }\n[[expect]]",
                "e.toml:12: report: reach: 0 is no end of an axis",
            ),
            (
                "[[expect]]",
                "[report]\ncolumns = [\"los\"]\n[[expect]]",
                "e.toml:11: report: no metric 'los' (did you mean loss?)",
            ),
            (
                "[[expect]]",
                "[expect]",
                "e.toml:10: invalid type: one table, expected a list",
            ),
            (
                "[scenario]",
                "[channel]",
                "e.toml:6: [channel]: no key 'flow'",
            ),
            ("{ name = \"Cubic\", ", "{ ", "needs a name"),
            (
                "[scenario]",
                "starts = 0\n[scenario]",
                "e.toml:4: starts: 0 repetitions",
            ),
        ] {
            let said = wrong(from, to);
            assert!(said.contains(says), "{said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
