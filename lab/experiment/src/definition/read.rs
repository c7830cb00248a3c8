// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parser of `experiment.toml`: a [`Definition`], or the line of each mistake.
use super::check::{Wrong, path, unknown_name};
use super::{Axis, Choice, DEFAULT_RUNS, Definition, Expectation, Report, Subject};
use alcc_live::applications;
use alcc_results::scenario::ScenarioOptions;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::de::DeTable;

/// The file. Its scenario is read by [`ScenarioOptions`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    title: String,
    source: String,
    statement: String,
    in_part: Option<String>,
    explained_by: Option<String>,
    needs: Option<String>,
    application: Option<String>,
    #[serde(default)]
    runs: Option<u32>,
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

impl Definition {
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
            in_part: file.in_part,
            explained_by: file.explained_by,
            needs: file.needs,
            // Repetitions of a trace would be equal.
            starts: file.runs.unwrap_or(match subject {
                Subject::Flows | Subject::Application(_) => DEFAULT_RUNS,
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
}

/// The offset of the value or table that `path` leads to. For what the file does not have, it is
/// that of its table. Numbers lead into lists.
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

/// Keys of earlier versions, and what they are called today.
const RENAMED: [(&str, &str); 2] = [("starts", "runs"), ("every-start", "every-run")];

/// The parser's message in the words of the file, with the nearest key or value.
fn with_nearest(message: &str) -> String {
    let line = message.replace('\n', "; ");
    for (parser, what) in [("unknown field ", "key"), ("unknown variant ", "value")] {
        if let Some(rest) = line.strip_prefix(parser) {
            let mut quoted = rest.split('`').skip(1).step_by(2);
            let found = quoted.next().unwrap_or_default();
            if let Some((_, now)) = RENAMED.iter().find(|(old, _)| *old == found) {
                return format!("the key '{found}' is now called '{now}'");
            }
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
                "starts = 3\ntitle =",
                "e.toml:1: the key 'starts' is now called 'runs'",
            ),
            (
                "at-least = 1.0",
                "at-least = 1.0\nevery-start = true",
                "e.toml:15: the key 'every-start' is now called 'every-run'",
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
                "e.toml:14: expectation 1: it must be a number",
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
                "[report]\nform = \"cells\"\n[[expect]]",
                "e.toml:11: report: form: cells: of which expectation? say each = true there",
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
                "e.toml:12: report: reach: 0 is not an end of an axis",
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
                "runs = 0\n[scenario]",
                "e.toml:4: runs: 0 repetitions",
            ),
        ] {
            let said = wrong(from, to);
            assert!(said.contains(says), "{said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
