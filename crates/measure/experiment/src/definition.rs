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
use alcc_lab::applications;
use alcc_results::PROFILE_FIGURES;
use alcc_results::scenario::ScenarioOptions;
use alcc_units::nearest;
use serde::{Deserialize, Serialize};
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
    /// Metrics of the vertical axis, a panel for each. None: throughput.
    pub y: Vec<String>,
    /// The horizontal axis is logarithmic.
    pub log_x: bool,
    /// Learned delay profiles are drawn, too: those of the first flow and the first start.
    pub profile: Option<ProfileForm>,
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
#[serde(untagged)]
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
        let axes = file.sweep.into_iter().map(Axis::of);
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
            sweep: axes
                .collect::<Result<_, _>>()
                .map_err(|e| format!("{name}: {e}"))?,
            report: file.report,
            expect: file.expect,
        };
        definition.check().map_err(|e| format!("{name}: {e}"))?;
        Ok(definition)
    }

    /// Checks that the parts are consistent.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.starts == 0 {
            return Err("starts: 0 repetitions measure nothing: say at least 1".to_owned());
        }
        let cells = self
            .sweep
            .iter()
            .try_fold(1_usize, |cells, axis| cells.checked_mul(axis.choices.len()));
        let runs = cells.and_then(|cells| cells.checked_mul(self.starts as usize));
        if runs.is_none_or(|runs| runs > MAX_RUNS) {
            return Err(format!(
                "the sweep has more than {MAX_RUNS} runs: vary less"
            ));
        }
        let metrics = crate::judge::metrics(self.subject);
        for metric in self.report.y.iter().chain(&self.report.x) {
            if !metrics.contains(&metric.as_str()) {
                return Err(format!(
                    "report: {}",
                    unknown_name("metric", metric, metrics.into_iter())
                ));
            }
        }
        for (number, expectation) in self.expect.iter().enumerate() {
            self.check_expectation(expectation)
                .map_err(|e| format!("expectation {}: {e}", number + 1))?;
        }
        Ok(())
    }

    /// Whether a metric needs samples over time.
    pub(crate) fn wants_series(&self) -> bool {
        self.names(|metric| metric == "below_tcp" || metric.starts_with("tcp_cwnd"))
    }

    /// Whether a metric or a picture needs the learned delay profiles.
    pub(crate) fn wants_profiles(&self) -> bool {
        self.report.profile.is_some() || self.names(|metric| PROFILE_FIGURES.contains(&metric))
    }

    /// Whether it draws or expects such a metric.
    fn names(&self, is: impl Fn(&str) -> bool) -> bool {
        let metrics = self.report.y.iter().chain(&self.report.x);
        let mut metrics = metrics.chain(self.expect.iter().map(|e| &e.metric));
        metrics.any(|metric| is(metric))
    }

    fn check_expectation(&self, expectation: &Expectation) -> Result<(), String> {
        let e = expectation;
        if e.within.is_none() && e.at_least.is_none() && e.at_most.is_none() && !e.spans {
            return Err("it has no bound: say within, at-least, at-most or spans".to_owned());
        }
        let metrics = crate::judge::metrics(self.subject);
        if !metrics.contains(&e.metric.as_str()) {
            return Err(unknown_name("metric", &e.metric, metrics.into_iter()));
        }
        if (e.within.is_some() || e.spans) && e.published.is_none() {
            let bound = if e.spans { "spans" } else { "within" };
            return Err(format!("{bound}: of what? say published"));
        }
        if let Some(phase) = &e.phase {
            let phases = self.scenario.phase.iter().map(|phase| phase.text.as_str());
            if !phases.clone().any(|known| known == phase) {
                return Err(unknown_name("phase", phase, phases));
            }
            if !crate::judge::PHASE_METRICS.contains(&e.metric.as_str()) {
                let known = crate::judge::PHASE_METRICS.iter().copied();
                return Err(unknown_name("metric of a phase", &e.metric, known));
            }
        }
        for (key, choice) in e.of.iter().chain(e.over.iter().flatten()) {
            let axis = self.sweep.iter().find(|axis| axis.key == *key);
            let keys = self.sweep.iter().map(|axis| axis.key.as_str());
            let axis = axis.ok_or_else(|| unknown_name("axis", key, keys))?;
            let names = axis.choices.iter().map(|choice| choice.name.as_str());
            if !names.clone().any(|name| name == choice) {
                return Err(unknown_name(key, choice, names));
            }
        }
        Ok(())
    }
}

/// Reads `[channel]` as a scenario with this link.
fn channel_of(table: &DeTable<'_>, text: &str, name: &str) -> Result<ScenarioOptions, String> {
    let mut keys = table.iter().map(|(key, _)| key.get_ref().as_ref());
    if let Some(found) = keys.find(|key| *key != "link") {
        return Err(format!(
            "{name}: [channel]: {}",
            unknown_name("key", found, std::iter::once("link"))
        ));
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

/// Puts the nearest key before the parser's list of keys.
fn with_nearest(message: &str) -> String {
    let line = message.replace('\n', "; ");
    let Some(rest) = line.strip_prefix("unknown field ") else {
        return line;
    };
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let found = quoted.next().unwrap_or_default();
    unknown_name("key", found, quoted)
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
                "no axis 'sceme' (did you mean scheme?)",
            ),
            ("\"Cubic\" }\n", "\"cubi\" }\n", "no scheme 'cubi'"),
            (
                "throughput_mbps",
                "troughput_mbps",
                "(did you mean throughput_mbps?)",
            ),
            ("at-least = 1.0", "", "expectation 1: it has no bound"),
            ("at-least = 1.0", "within = 0.1", "of what? say published"),
            ("{ name = \"Cubic\", ", "{ ", "needs a name"),
            ("[scenario]", "starts = 0\n[scenario]", "0 repetitions"),
        ] {
            let said = wrong(from, to);
            assert!(said.contains(says), "{said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
