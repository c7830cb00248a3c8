// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stored figures of real applications, and the page of them.
use crate::definition::{Definition, Subject};
use crate::judge::{Judgement, Verdict, metrics, number, range, value};
use crate::run::Run;
use crate::stored::{self, Stored};
use alcc_live::applications;
use alcc_results::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The file: `lab/notes/applications.json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Applications {
    /// Name and version of the program.
    pub by: String,
    /// Operating system and architecture.
    pub on: String,
    /// One entry for each experiment, by name.
    pub experiments: Vec<StoredApplication>,
}

/// The figures of one application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StoredApplication {
    /// Name of the experiment.
    pub id: String,
    /// SHA-256 of its `experiment.toml`.
    pub definition: String,
    /// One line: what it is about.
    pub title: String,
    /// The programs, server first.
    pub programs: String,
    /// The verdict in words.
    pub verdict: String,
    /// The statements that do not hold, the missing requirement, or that all statements hold.
    pub why: String,
    /// Repetitions of each cell.
    pub starts: u32,
    /// The build of the program, see [`stored::build`]; `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Names of the axes.
    pub axes: Vec<String>,
    /// The cells in order: the choices, and each figure over the repetitions.
    pub cells: Vec<(Vec<String>, BTreeMap<String, Spread>)>,
    /// Errors of runs, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

impl StoredApplication {
    /// The figures of these runs.
    pub fn new(definition: &Definition, hash: String, judged: &Judgement, runs: &[Run]) -> Self {
        let mut cells: Vec<(Vec<String>, Vec<&Run>)> = Vec::new();
        let mut errors: Vec<String> = Vec::new();
        for run in runs {
            match cells.iter_mut().find(|(cell, _)| *cell == run.cell) {
                Some((_, runs)) => runs.push(run),
                None => cells.push((run.cell.clone(), vec![run])),
            }
            errors.extend(run.error.clone().filter(|error| !errors.contains(error)));
        }
        let names = metrics(definition.subject);
        let figures = |runs: &[&Run]| {
            let of = |name: &&str| {
                let values = runs
                    .iter()
                    .filter_map(|run| value(run, name, None, Default::default()));
                let spread = Spread::of(&values.collect::<Vec<_>>())?;
                Some(((*name).to_owned(), spread))
            };
            names.iter().filter_map(of).collect()
        };
        let programs = match definition.subject {
            Subject::Application(name) => applications::find(name).map(|found| found.programs),
            Subject::Flows | Subject::Channel => None,
        };
        Self {
            id: judged.id.clone(),
            definition: hash,
            title: definition.title.clone(),
            programs: programs.unwrap_or_default().to_owned(),
            verdict: judged.verdict.name().to_owned(),
            why: judged.why.clone(),
            starts: definition.starts,
            by: None,
            axes: definition
                .sweep
                .iter()
                .map(|axis| axis.key.clone())
                .collect(),
            cells: cells
                .iter()
                .map(|(cell, runs)| (cell.clone(), figures(runs)))
                .collect(),
            errors,
        }
    }
}

impl Stored for StoredApplication {
    fn id(&self) -> &str {
        &self.id
    }

    fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    fn has_run(&self) -> bool {
        self.verdict != Verdict::NotRun.name()
    }
}

impl Applications {
    /// Reads the file.
    ///
    /// # Errors
    /// The error of the parser.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The error of the serializer.
    pub fn to_json(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        Ok(text + "\n")
    }

    /// Takes in the figures of experiments that have none here.
    pub fn keep(&mut self, before: Self) {
        stored::keep(&mut self.experiments, before.experiments);
    }

    /// Writes the page: `lab/notes/applications.md`.
    pub fn page(&self) -> String {
        let mut text = format!(
            "# Real applications\n\n\
             What users of unmodified programs notice: their servers run plainly, and under `alcc run`.\n\
             Generated from `applications.json` beside it. Do not edit: a test compares the two. The command is\n\n\
             ```\nalcc-lab reproduce --emu --full --jobs 1 --applications lab/notes\n```\n\n\
             The program was {} on {}, with emulated links of the model `lte`. Median of the starts, and\n\
             their range. Other work was done on the machine meanwhile, so small differences mean nothing.\n\n\
             [Decision 0225](../../docs/decisions/0225-define-experiments-as-files.md) says how each is measured.\n\
             {}\n",
            self.by,
            self.on,
            stored::builds(&self.experiments)
        );
        for one in &self.experiments {
            let _ = write!(
                text,
                "\n## {}\n\n`{}`: {}. {} starts. Verdict: {}.\n{}.\n\n",
                one.title,
                one.id,
                one.programs,
                one.starts,
                one.verdict,
                sentence(&one.why)
            );
            one.table(&mut text);
            for error in &one.errors {
                let _ = writeln!(text, "\nA run failed: {}.", sentence(error));
            }
        }
        text
    }
}

/// Begins with a capital.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

impl StoredApplication {
    fn table(&self, text: &mut String) {
        let mut names: Vec<&String> = Vec::new();
        for name in self.cells.iter().flat_map(|(_, figures)| figures.keys()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            return;
        }
        let heads = self.axes.iter().chain(names.iter().copied());
        let heads: Vec<String> = heads.map(|name| format!(" {name} |")).collect();
        let _ = writeln!(text, "|{}\n|{}", heads.concat(), "---|".repeat(heads.len()));
        for (cell, figures) in &self.cells {
            let cell = cell.iter().map(|choice| format!(" {choice} |"));
            let values = names.iter().map(|name| match figures.get(*name) {
                None => " – |".to_owned(),
                Some(spread) if spread.min == spread.max => format!(" {} |", number(spread.median)),
                Some(spread) => format!(" {} |", range(spread)),
            });
            let _ = writeln!(text, "|{}", cell.chain(values).collect::<String>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FTP: &str = r#"title = "Files"
source = "s"
statement = "x"
application = "ftp"
runs = 3
[scenario]
link = "12mbit"
flow = "{scheme}"
[[sweep]]
key = "scheme"
values = ["cubic", "reno"]
"#;

    #[test]
    fn the_page_has_medians_and_what_failed() {
        let definition = Definition::from_toml(FTP, "e.toml").unwrap();
        let run = |scheme: &str, seconds: Option<f64>| Run {
            cell: vec![scheme.to_owned()],
            repetition: 1,
            command: String::new(),
            version: String::new(),
            flows: Vec::new(),
            summary: None,
            channel: seconds
                .map(|s| ("large_file_s".to_owned(), s))
                .into_iter()
                .collect(),
            profiles: Vec::new(),
            seconds: Vec::new(),
            notes: Vec::new(),
            error: seconds.is_none().then(|| "it broke".to_owned()),
        };
        let mut runs = [2.0, 1.0, 4.0].map(|s| run("cubic", Some(s))).to_vec();
        runs.push(run("reno", None));
        let judged = definition.judge("app-ftp", crate::judge::Mode::Emulated, Ok(&runs), |_| {
            false
        });
        let stored = Applications {
            experiments: vec![StoredApplication::new(
                &definition,
                String::new(),
                &judged,
                &runs,
            )],
            ..Applications::default()
        };
        let page = stored.page();
        assert!(page.contains("| scheme | large_file_s |\n"), "{page}");
        assert!(
            page.contains("| cubic | 2 (1 to 4) |\n| reno | – |\n"),
            "{page}"
        );
        assert!(page.contains("A run failed: It broke."), "{page}");
        let again = Applications::from_json(&stored.to_json().unwrap()).unwrap();
        assert_eq!(again, stored);
    }
}
