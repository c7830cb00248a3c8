// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output of `reproduce`: pages, tables, and stored results.
use super::Args;
use super::asked::Asked;
use super::origin::{build, provenance};
use crate::commands::compare::command_line;
use crate::commands::read_text;
use crate::failure::{Failure, reason};
use alcc_experiment::applications::{Applications, StoredApplication};
use alcc_experiment::judge::Mode;
use alcc_experiment::page::{self, ExperimentView, Provenance};
use alcc_experiment::plan::PlannedRun;
use alcc_experiment::results::{Entry as StoredResult, Results};
use alcc_experiment::table::Table;
use alcc_experiment::{Definition, Judgement, Run};
use alcc_files::ScenarioFolder;
use alcc_results::scenario::Files as _;
use alcc_results::{About, metadata_of_csv};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Reads stored results of an earlier command, parts of which stay; `None` without such a file.
pub(super) fn stored<T>(
    file: &Path,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    let text = match read_text(file) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|e| {
            Failure::usage(format!(
                "{}: cannot read the stored results: {}",
                file.display(),
                reason(&e)
            ))
        })?,
    };
    let wrong = |why| {
        Failure::usage(format!(
            "{}: stored results of another version ({why}): move the file away, or name another folder",
            file.display()
        ))
    };
    read(&text).map(Some).map_err(wrong)
}

/// Writes what the options want kept beside the pages.
pub(super) fn store(
    args: &Args,
    all: &[Asked],
    judged: &[Judgement],
    files: &ScenarioFolder,
) -> Result<(), Failure> {
    if let Some(folder) = &args.results {
        let mut results = results(all, judged, files, &build()?);
        let name = results.name();
        let file = folder.join(format!("{name}.json"));
        if let Some(before) = stored(&file, Results::from_json)? {
            results.keep_times(&before);
            // Those that were not asked for stay.
            if !args.all {
                results.keep(before);
            }
        }
        let json = results.to_json().map_err(Failure::failed)?;
        write(folder, &format!("{name}.json"), json)?;
        write(folder, &format!("{name}.md"), results.page())?;
    }
    if let Some(folder) = &args.applications {
        let mut figures = applications(all, judged, &build()?);
        // Those that were not asked for stay.
        let before = stored(&folder.join("applications.json"), Applications::from_json)?;
        before.into_iter().for_each(|before| figures.keep(before));
        let json = figures.to_json().map_err(Failure::failed)?;
        write(folder, "applications.json", json)?;
        write(folder, "applications.md", figures.page())?;
    }
    Ok(())
}

/// The recorded traces that runs are over: name and SHA-256.
pub(super) fn traces<'a>(
    runs: impl Iterator<Item = &'a PlannedRun>,
    files: &ScenarioFolder,
) -> BTreeMap<String, String> {
    let mut traces = BTreeMap::new();
    for planned in runs {
        planned.scenario.clone().for_each(&mut |key, value| {
            if matches!(key, "link" | "up")
                && !traces.contains_key(&value.text)
                && let Some(path) = files.find(&value.text)
            {
                let hash = alcc_live::hash_of_files([path.as_path()]);
                traces.insert(value.text.clone(), hash);
            }
        });
    }
    traces
}

/// The results of all experiments, as they are stored.
fn results(all: &[Asked], judged: &[Judgement], files: &ScenarioFolder, build: &str) -> Results {
    let traces = traces(all.iter().flat_map(|one| &one.plan.runs), files);
    // Emulation takes the time that it shows, and what did not run takes none.
    let timed =
        |one: &Asked, judged: &Judgement| one.runs.is_ok() && judged.mode == Mode::Simulated.name();
    let entries = all.iter().zip(judged).map(|(one, judged)| StoredResult {
        definition: one.hash.clone(),
        source: one.definition.source.clone(),
        runs: one.runs.as_ref().map_or(0, Vec::len),
        by: Some(build.to_owned()),
        took: one.took.filter(|_| timed(one, judged)),
        judged: judged.clone(),
    });
    let provenance = provenance();
    Results {
        by: provenance.by,
        on: provenance.on,
        experiments: entries.collect(),
        traces,
    }
}

/// The figures of those that are about applications.
fn applications(all: &[Asked], judged: &[Judgement], build: &str) -> Applications {
    let asked = all.iter().zip(judged);
    let asked = asked.filter(|(one, _)| one.definition.is_own_application());
    let entries = asked.map(|(one, judged)| {
        let runs = one.runs.as_deref().unwrap_or_default();
        StoredApplication {
            by: Some(build.to_owned()),
            ..StoredApplication::new(&one.definition, one.hash.clone(), judged, runs)
        }
    });
    let provenance = provenance();
    Applications {
        by: provenance.by,
        on: provenance.on,
        experiments: entries.collect(),
    }
}

/// Writes a file of the site.
pub(in crate::commands) fn write(
    out: &Path,
    name: &str,
    text: impl AsRef<[u8]>,
) -> Result<(), Failure> {
    let path = out.join(name);
    alcc_sys::create(&path)
        .and_then(|mut file| file.write_all(text.as_ref()))
        .map_err(|e| Failure::failed(format!("write {}: {}", path.display(), reason(&e))))
}

/// Writes the data of an experiment beside its page.
pub(in crate::commands) fn write_table(
    out: &Path,
    id: &str,
    definition: &Definition,
    runs: &[Run],
    about: &About,
) -> Result<(), Failure> {
    let table = Table::new(definition, runs);
    let csv = format!("{id}.csv");
    write(out, &csv, table.csv())?;
    let beside = format!("{}\n", about.of_csv(&csv));
    write(out, &metadata_of_csv(&csv), beside)?;
    let parquet = table.parquet(about).map_err(Failure::failed)?;
    write(out, &format!("{id}.parquet"), parquet)
}

/// Metadata of the runs of a plan. `given` are files beside those that their scenarios name;
/// `side` has the mode, and what only real programs depend on.
pub(in crate::commands) fn about(
    runs: &[PlannedRun],
    side: About,
    files: &ScenarioFolder,
    given: impl IntoIterator<Item = PathBuf>,
) -> About {
    let (mut links, mut seed) = (BTreeSet::new(), None);
    let mut read: Vec<PathBuf> = given.into_iter().collect();
    for planned in runs {
        let mut own = None;
        planned.scenario.clone().for_each(&mut |key, value| {
            match key {
                "link" => _ = links.insert(value.text.clone()),
                "seed" => own = value.text.parse().ok(),
                _ => {}
            }
            if matches!(key, "link" | "up" | "steps") {
                read.extend(files.find(&value.text));
            }
        });
        seed = seed.or(own);
    }
    read.sort();
    read.dedup();
    let side = About {
        link: match links.len() {
            0 | 1 => links.into_iter().collect(),
            many => format!("{many} links"),
        },
        seed: seed.unwrap_or(1),
        ..side
    };
    crate::about::about(command_line(), side, read)
}

pub(super) fn write_pages(
    all: &[Asked],
    judged: &[Judgement],
    out: &Path,
    provenance: &Provenance,
    about: &dyn Fn(&Asked) -> About,
) -> Result<(), Failure> {
    let write = |name: &str, text: &str| write(out, name, text);
    let none = Vec::new();
    let pages: Vec<ExperimentView<'_>> = all
        .iter()
        .zip(judged)
        .map(|(one, judged)| ExperimentView {
            definition: &one.definition,
            readme: &one.readme,
            toml: &one.toml,
            judged,
            runs: one.runs.as_ref().unwrap_or(&none),
            took: one.took,
        })
        .collect();
    for (shown, one) in pages.iter().zip(all) {
        let id = &shown.judged.id;
        let html = page::experiment(shown, provenance).map_err(Failure::failed)?;
        write(&format!("{id}.html"), &html)?;
        write_table(out, id, shown.definition, shown.runs, &about(one))?;
    }
    write("index.html", &page::index(&pages, provenance))
}

/// A line for each experiment.
pub(super) fn table(judged: &[Judgement], out: &Path) -> String {
    let mut text = String::new();
    let width = judged
        .iter()
        .map(|one| one.id.len())
        .max()
        .unwrap_or(0)
        .max(10);
    let said =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), alcc_experiment::judge::number);
    let _ = writeln!(
        text,
        "{:<width$} {:<18} {:>9} {:>9}  why",
        "experiment", "verdict", "published", "here"
    );
    for one in judged {
        let _ = writeln!(
            text,
            "{:<width$} {:<18} {:>9} {:>9}  {}",
            one.id,
            one.verdict.name(),
            said(one.published),
            said(one.ours),
            one.why
        );
    }
    let _ = writeln!(text, "The pages: {}", out.join("index.html").display());
    text
}
