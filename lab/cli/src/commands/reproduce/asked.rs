// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments that the options select.
use super::Args;
use crate::commands::read_text;
use crate::failure::{Failure, reason};
use alcc_experiment::catalogue::{self, Entry};
use alcc_experiment::page::Took;
use alcc_experiment::{Definition, Plan, Run};
use alcc_live::{LabError, parts};
use std::collections::BTreeSet;
use std::path::Path;

/// A requested experiment, or one that explains a requested one.
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) readme: String,
    /// The definition as it is written.
    pub(super) toml: String,
    /// SHA-256 of `experiment.toml`.
    pub(super) hash: String,
    pub(super) definition: Definition,
    pub(super) plan: Plan,
    pub(super) runs: Result<Vec<Run>, LabError>,
    /// Time of the runs, if none was stored before.
    pub(super) took: Option<Took>,
    /// True if it was not selected, but explains an experiment that was.
    pub(super) is_cause: bool,
}

impl Asked {
    /// `real`: in the form for real programs on emulated links, where there is one of its own.
    fn new(word: &str, real: bool) -> Result<Self, Failure> {
        let (id, definition, readme, toml) = if word.ends_with(".toml") {
            let path = Path::new(word);
            let text = read_text(path)
                .map_err(|e| Failure::usage(format!("read {word}: {}", reason(&e))))?;
            let readme = path.with_file_name("README.md");
            let readme = read_text(&readme).unwrap_or_default();
            let definition = Definition::from_toml(&text, word).map_err(Failure::usage)?;
            (name_of(path), definition, readme, text)
        } else {
            let entry = catalogue::find(word).map_err(Failure::usage)?;
            let (text, definition) = if real {
                (entry.real(), entry.real_definition())
            } else {
                (entry.toml, entry.definition())
            };
            let definition = definition.map_err(Failure::usage)?;
            let readme = entry.readme.to_owned();
            (word.to_owned(), definition, readme, text.to_owned())
        };
        let plan = Plan::new(&definition).map_err(Failure::usage)?;
        Ok(Self {
            id,
            readme,
            hash: alcc_live::hash_of_text(&toml),
            toml,
            definition,
            plan,
            runs: Ok(Vec::new()),
            took: None,
            is_cause: false,
        })
    }

    pub(super) fn holds(&self) -> bool {
        let outcomes = self
            .runs
            .as_ref()
            .map(|runs| self.definition.outcomes(runs));
        outcomes.is_ok_and(|outcomes| outcomes.iter().all(|outcome| outcome.holds))
    }
}

/// The name of a file's experiment, wherever it is named from: that of the folder, as in the
/// catalogue, or of the file if that says more.
fn name_of(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = whole.parent().and_then(Path::file_name);
    let name = match folder {
        Some(folder) if stem == "experiment" || stem == "emulated" => folder,
        _ => stem,
    };
    name.to_string_lossy().into_owned()
}

/// The requested experiments, and those that explain them.
pub(super) fn asked(args: &Args) -> Result<Vec<Asked>, Failure> {
    let mut words = args.experiments.clone();
    if args.all {
        let all = catalogue::all().filter(|entry| args.emu || !entry.is_application());
        words = all.map(|entry| entry.id.to_owned()).collect();
    } else if args.applications.is_some() && words.is_empty() {
        let all = catalogue::all().filter(Entry::is_application);
        words = all.map(|entry| entry.id.to_owned()).collect();
    }
    let mut all: Vec<Asked> = Vec::new();
    for word in &words {
        let one = Asked::new(word, args.emu)?;
        match all.iter().find(|other| other.id == one.id) {
            None => all.push(one),
            Some(other) if other.hash == one.hash => {}
            Some(_) => {
                return Err(Failure::usage(format!(
                    "{word}: another experiment is called {}, and would have the same files: rename one of the two",
                    one.id
                )));
            }
        }
    }
    // A cause may have a cause itself.
    let mut next = 0;
    while let Some(one) = all.get(next) {
        next += 1;
        let Some(cause) = one.definition.explained_by.clone() else {
            continue;
        };
        if all.iter().any(|other| other.id == cause) {
            continue;
        }
        let wrong = format!("{}: explained-by", one.id);
        let cause =
            Asked::new(&cause, args.emu).map_err(|e| Failure::usage(format!("{wrong}: {e}")))?;
        all.push(Asked {
            is_cause: true,
            ..cause
        });
    }
    Ok(all)
}

/// Leaves out the cells that `--cells` does not name.
pub(super) fn keep_cells(all: &mut [Asked], cells: &str) -> Result<(), Failure> {
    let wrong = |why: String| Failure::usage(format!("--cells {cells}: {why}"));
    let want = "write an axis and its choices, such as trace=highwayGold,rapidGold";
    let (key, names) = cells
        .split_once('=')
        .ok_or_else(|| wrong(want.to_owned()))?;
    let names = parts(names, "choice").map_err(wrong)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let axes = || all.iter().flat_map(|one| &one.plan.axes);
    if !axes().any(|axis| axis == key) {
        let known: BTreeSet<&String> = axes().collect();
        let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
        let known = known.join(", ");
        return Err(wrong(format!("no axis '{key}': there are {known}")));
    }
    for one in all {
        if !one.plan.keep_cells(key, &names) {
            return Err(wrong(format!("{} has none of these: {want}", one.id)));
        }
    }
    Ok(())
}
