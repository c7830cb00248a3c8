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
mod check;
mod read;

use alcc_results::PROFILE_FIGURES;
use alcc_results::scenario::ScenarioOptions;
pub(crate) use check::unknown_name;
use serde::de::{IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// Default number of repetitions of each cell.
pub const DEFAULT_RUNS: u32 = 3;
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
    /// The part of the statement without expectations, and why. If set, the verdict is at best
    /// `reproduced-in-part`.
    pub in_part: Option<String>,
    /// Another experiment whose expectations show why this one differs from the source.
    pub explained_by: Option<String>,
    /// A missing requirement, and how to get it. If set, the experiment is not run.
    pub needs: Option<String>,
    /// Repetitions of each cell, with the seeds 1, 2 and so on.
    pub starts: u32,
    /// Subject of the measurement in each cell.
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

/// Subject of the measurement in each cell.
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
    /// The axis' name: a parameter of the scenario.
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

/// Figures of an experiment: a point for each cell.
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
    /// Metrics with a logarithmic axis in figures over time.
    pub log_y: Vec<String>,
    /// Least upper end of a metric's axis in figures over time.
    pub reach: BTreeMap<String, f64>,
    /// More metrics of the table.
    pub columns: Vec<String>,
    /// Forms of a cell in the figures. None: the median.
    #[serde(deserialize_with = "one_or_several")]
    pub form: Vec<Form>,
    /// Aggregate of the flows of a run. None: their mean; in a distribution each is a value
    /// of its own.
    pub flows: Option<Aggregate>,
    /// Learned delay profiles are drawn, too: those of the first flow and the first start.
    pub profile: Option<ProfileForm>,
}

/// Form of a cell in a figure.
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
    /// No figure: only the tables of the expectations about each cell.
    Cells,
}

impl Form {
    /// True if it shows single seconds.
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

    /// True if a figure shows single seconds.
    pub(crate) fn has_seconds(&self) -> bool {
        self.form.iter().any(|form| form.has_seconds())
    }

    /// True if the figures show single seconds of this start.
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

/// Form in which learned delay profiles are drawn (Verus).
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
    /// A field of a row, or one of [`crate::judge::OF_ALL_FLOWS`], or `share`; of a channel one of
    /// its own.
    pub metric: String,
    /// Only in this phase of the scenario, written as in the key `phase`.
    #[serde(default)]
    pub phase: Option<String>,
    /// The cells by axis and choice. The value is the mean over the axes that are not named.
    #[serde(default)]
    pub of: BTreeMap<String, String>,
    /// Each of these cells must be within the bound, instead of their mean.
    #[serde(default)]
    pub each: bool,
    /// The cells that the value is divided by.
    #[serde(default)]
    pub over: Option<BTreeMap<String, String>>,
    /// The bound holds for every start, not only for their median.
    #[serde(default, rename = "every-run")]
    pub every_start: bool,
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

/// The source of questions of our own.
const OWN: &str = "this project";

impl Definition {
    /// The same in the cells of these schemes, an axis at this place: the first varies slowest.
    #[must_use]
    pub fn with_schemes(mut self, place: usize, schemes: &[String]) -> Self {
        let choice = |scheme: &String| Choice {
            name: scheme.clone(),
            set: BTreeMap::from([("scheme".to_owned(), scheme.clone())]),
        };
        let axis = Axis {
            key: "scheme".to_owned(),
            choices: schemes.iter().map(choice).collect(),
        };
        self.sweep.insert(place, axis);
        self
    }

    /// True if the experiment measures what users of a real application notice, which no paper has
    /// published.
    pub fn is_own_application(&self) -> bool {
        matches!(self.subject, Subject::Application(_)) && self.source == OWN
    }

    /// True if a metric or a picture needs samples over time.
    pub(crate) fn wants_series(&self) -> bool {
        let of_samples = |metric: &str| metric == "below_tcp" || metric.starts_with("tcp_cwnd");
        self.report.has_seconds() || self.names(of_samples)
    }

    /// True if a metric or a picture needs the learned delay profiles.
    pub(crate) fn wants_profiles(&self) -> bool {
        self.report.profile.is_some() || self.names(|metric| PROFILE_FIGURES.contains(&metric))
    }

    /// True if it draws or expects such a metric.
    fn names(&self, is: impl Fn(&str) -> bool) -> bool {
        let report = &self.report;
        let metrics = report.y.iter().chain(&report.x).chain(&report.columns);
        let mut metrics = metrics.chain(self.expect.iter().map(|e| &e.metric));
        metrics.any(|metric| is(metric))
    }
}
