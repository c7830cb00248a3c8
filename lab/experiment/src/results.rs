// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stored results of experiments with the checksums of their inputs, and the page of them.
use crate::judge::{Judgement, Mode, Outcome, Verdict, measured, number};
use crate::page::{Took, figures_of, is_published};
use crate::stored::{self, Stored};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The file: `lab/notes/results.json`, or `lab/notes/emulated.json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Name and version of the program.
    pub by: String,
    /// Operating system and architecture.
    pub on: String,
    /// One entry for each experiment, by name.
    pub experiments: Vec<Entry>,
    /// The recorded traces that were used: name and SHA-256.
    pub traces: BTreeMap<String, String>,
}

/// The stored result of one experiment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// SHA-256 of its `experiment.toml`.
    pub definition: String,
    /// Paper and place in it.
    pub source: String,
    /// Number of runs.
    pub runs: usize,
    /// The build of the program, see [`stored::build`]; `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Time of the runs on the machine of `on`; `None` if they were stored before, so that it is
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<Took>,
    /// The verdict and its values.
    pub judged: Judgement,
}

impl Stored for Entry {
    fn id(&self) -> &str {
        &self.judged.id
    }

    fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    fn has_run(&self) -> bool {
        self.judged.verdict != Verdict::NotRun
    }
}

impl Results {
    /// Reads the file.
    ///
    /// # Errors
    /// The error of the parser.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    /// Writes the file. Each experiment is one line, so that a changed experiment is a changed
    /// line.
    ///
    /// # Errors
    /// The error of the serializer.
    pub fn to_json(&self) -> Result<String, String> {
        let json = |value: serde_json::Result<String>| value.map_err(|e| e.to_string());
        let mut text = format!(
            "{{\"by\":{},\n\"on\":{},\n\"experiments\":[\n",
            json(serde_json::to_string(&self.by))?,
            json(serde_json::to_string(&self.on))?
        );
        for (i, entry) in self.experiments.iter().enumerate() {
            let comma = if i + 1 < self.experiments.len() {
                ","
            } else {
                ""
            };
            let _ = writeln!(text, "{}{comma}", json(serde_json::to_string(entry))?);
        }
        let traces = json(serde_json::to_string_pretty(&self.traces))?;
        let _ = writeln!(text, "],\n\"traces\":{traces}}}");
        Ok(text)
    }

    /// Keeps what was stored before of experiments that were not run now.
    pub fn keep(&mut self, before: Self) {
        stored::keep(&mut self.experiments, before.experiments);
        for (name, hash) in before.traces {
            self.traces.entry(name).or_insert(hash);
        }
    }

    /// Runs that are stored take no time: what they took before, by this build, still holds.
    pub fn keep_times(&mut self, before: &Self) {
        for entry in self.experiments.iter_mut().filter(|e| e.took.is_none()) {
            let same = |old: &&Entry| {
                (old.id(), &old.definition, &old.by) == (entry.id(), &entry.definition, &entry.by)
            };
            entry.took = (before.experiments.iter().find(same)).and_then(|old| old.took);
        }
    }

    /// Time of the stored runs, all together and the longest; empty if no time is stored.
    fn times(&self) -> String {
        let took = |entry: &'_ Entry| entry.took.map(|took| (took, entry.id().to_owned()));
        let all: Vec<(Took, String)> = self.experiments.iter().filter_map(took).collect();
        let seconds = |(took, _): &(Took, String)| took.cpu_seconds;
        let Some(longest) = all.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b))) else {
            return String::new();
        };
        format!(
            "Simulating {} of them took {:.0} s of CPU time. The longest: {}, {:.1} s of CPU time, {:.1} s by the clock.\n",
            all.len(),
            all.iter().map(seconds).sum::<f64>(),
            longest.1,
            longest.0.cpu_seconds,
            longest.0.seconds,
        )
    }

    /// A row of a table: how many of these sources there are, and with which verdicts.
    fn counts(&self, what: &str, is_one: impl Fn(&str) -> bool) -> String {
        let of = self
            .experiments
            .iter()
            .filter(|entry| is_one(&entry.source));
        let count = |verdict: Verdict| of.clone().filter(|e| e.judged.verdict == verdict).count();
        format!(
            "| {what} | {} | {} | {} | {} | {} | {} |\n",
            of.clone().count(),
            count(Verdict::Reproduced),
            count(Verdict::ReproducedInPart),
            count(Verdict::DiffersExplained),
            count(Verdict::Differs),
            count(Verdict::NotRun),
        )
    }

    /// True if they are of real programs on emulated links.
    fn is_emulated(&self) -> bool {
        let emulated = |entry: &Entry| entry.judged.mode == Mode::Emulated.name();
        !self.experiments.is_empty() && self.experiments.iter().all(emulated)
    }

    /// Names of the file and of the page, without what follows the dot.
    pub fn name(&self) -> &'static str {
        if self.is_emulated() {
            "emulated"
        } else {
            "results"
        }
    }

    /// Writes the page: `lab/notes/results.md`, or `lab/notes/emulated.md`.
    pub fn page(&self) -> String {
        let name = self.name();
        let (title, command, how) = if self.is_emulated() {
            (
                "Results of published experiments with real programs",
                "alcc-lab reproduce --emu --full ID... --traces DIR --results lab/notes",
                "on emulated links",
            )
        } else {
            (
                "Results of the published experiments",
                "alcc-lab reproduce --all --traces DIR --results lab/notes",
                "simulated",
            )
        };
        let mut text = format!(
            "# {title}\n\n\
             Generated from `{name}.json` beside it. Do not edit: a test compares the two. The command is\n\n\
             ```\n{command}\n```\n\n\
             | [verdicts](../../docs/reproducing.md#verdicts) | all | reproduced | in part | differ, cause shown | differ | not run |\n\
             |---|---|---|---|---|---|---|\n{}{}\n\
             The program was {} on {}, {how}.\n\
             {}\n{}\n\n",
            self.counts("experiments", |_| true),
            self.counts("published figures and tables", is_published),
            self.by,
            self.on,
            self.times(),
            stored::builds(&self.experiments)
        );
        text += "| experiment | source | verdict | published | here | runs | why |\n|---|---|---|---|---|---|---|\n";
        for Entry {
            judged,
            source,
            runs,
            ..
        } in &self.experiments
        {
            let value = |value: Option<f64>| value.map_or_else(String::new, number);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {runs} | {} |",
                judged.id,
                cell(source),
                judged.verdict.name(),
                value(judged.published),
                value(judged.ours),
                cell(&why(judged))
            );
        }
        text += "\n## What does not hold\n\n";
        text += "Median of the starts, and their range.";
        let mut outcomes = self.experiments.iter().flat_map(|e| &e.judged.outcomes);
        if outcomes.any(|outcome| outcome.each.is_some()) {
            text += " Where each cell is judged, it is that of the cells, and the three are\nnamed that are farthest outside.";
        }
        text += "\n\n";
        text += "| experiment | statement | published | here | bound |\n|---|---|---|---|---|\n";
        for Entry { judged, .. } in &self.experiments {
            // Real programs do not show everything: what they do not show is not judged.
            let fails = |outcome: &&Outcome| {
                !outcome.holds && (name == "results" || outcome.ours.is_some())
            };
            for outcome in judged.outcomes.iter().filter(fails) {
                let _ = writeln!(text, "{}", line(&judged.id, outcome));
            }
        }
        let _ = write!(
            text,
            "\n## Inputs\n\nSHA-256, the first 16 digits; `{name}.json` has all of them, and those of the definitions.\n\n"
        );
        text += "| trace | checksum |\n|---|---|\n";
        for (name, sum) in &self.traces {
            let _ = writeln!(text, "| {name} | `{}` |", &sum[..sum.len().min(16)]);
        }
        text
    }
}

/// The reason of the verdict, and whose figures stand beside it unless it names them.
fn why(judged: &Judgement) -> String {
    let why = &judged.why;
    figures_of(judged).map_or_else(|| why.clone(), |says| format!("{why}; figures: {says}"))
}

fn line(id: &str, outcome: &Outcome) -> String {
    let mut ours = measured(outcome).unwrap_or_else(|| "none".to_owned());
    if let Some(each) = &outcome.each {
        ours += &format!("; {}", each.farthest());
    }
    let published = outcome.published.map_or_else(String::new, number);
    let (says, ours, bound) = (cell(&outcome.says), cell(&ours), &outcome.bound);
    format!("| {id} | {says} | {published} | {ours} | {bound} |")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(mode: Mode) -> Results {
        let outcome = |says: &str, ours| Outcome {
            says: says.to_owned(),
            published: None,
            ours,
            each: None,
            bound: String::new(),
            holds: false,
        };
        let spread = alcc_results::Spread {
            min: 1.0,
            median: 2.0,
            max: 3.0,
        };
        let judged = Judgement {
            id: "alcc-fig5".to_owned(),
            mode: mode.name().to_owned(),
            verdict: Verdict::Differs,
            published: None,
            ours: None,
            bound: String::new(),
            why: String::new(),
            outcomes: vec![
                outcome("what is seen", Some(spread)),
                outcome("what is not", None),
            ],
        };
        Results {
            experiments: vec![Entry {
                definition: String::new(),
                source: String::new(),
                runs: 1,
                by: None,
                took: None,
                judged,
            }],
            ..Results::default()
        }
    }

    #[test]
    fn traces_of_what_is_kept_are_kept() {
        let (mut before, mut now) = (stored(Mode::Emulated), stored(Mode::Emulated));
        before.traces = [("a", "old"), ("b", "old")]
            .map(|(a, b)| (a.into(), b.into()))
            .into();
        now.traces.insert("a".to_owned(), "new".to_owned());
        now.keep(before);
        assert_eq!(now.experiments.len(), 1);
        assert_eq!((&*now.traces["a"], &*now.traces["b"]), ("new", "old"));
    }

    #[test]
    fn the_page_names_the_longest_by_cpu_time() {
        let mut results = stored(Mode::Simulated);
        assert!(!results.page().contains("longest"), "no time is stored");
        let quick = results.experiments[0].clone();
        let took = |seconds, cpu_seconds| {
            Some(Took {
                seconds,
                cpu_seconds,
            })
        };
        let mut slow = quick.clone();
        slow.judged.id = "slow".to_owned();
        slow.took = took(30.04, 51.06);
        results.experiments[0].took = took(99.0, 2.0);
        results.experiments.push(slow);
        results.experiments.push(quick);
        let page = results.page();
        let said = "Simulating 2 of them took 53 s of CPU time. \
                    The longest: slow, 51.1 s of CPU time, 30.0 s by the clock.\n\nRows";
        assert!(page.contains(said), "{page}");
    }

    #[test]
    fn stored_runs_took_what_they_took_unless_something_changed() {
        let took = Some(Took {
            seconds: 1.0,
            cpu_seconds: 2.0,
        });
        let mut before = stored(Mode::Simulated);
        before.experiments[0].took = took;
        let mut now = stored(Mode::Simulated);
        now.keep_times(&before);
        assert_eq!(now.experiments[0].took, took);
        for change in [
            |entry: &mut Entry| entry.by = Some("another".to_owned()),
            |entry: &mut Entry| entry.definition = "another".to_owned(),
        ] {
            let mut now = stored(Mode::Simulated);
            change(&mut now.experiments[0]);
            now.keep_times(&before);
            assert_eq!(now.experiments[0].took, None);
        }
    }

    #[test]
    fn what_real_programs_do_not_show_is_no_failure_of_theirs() {
        let (sim, emulated) = (stored(Mode::Simulated), stored(Mode::Emulated));
        assert_eq!((sim.name(), emulated.name()), ("results", "emulated"));
        let page = emulated.page();
        assert!(
            page.contains("`emulated.json`") && page.contains("--emu --full"),
            "{page}"
        );
        assert!(
            page.contains("what is seen") && !page.contains("what is not"),
            "{page}"
        );
        assert!(sim.page().contains("what is not"));
    }
}
