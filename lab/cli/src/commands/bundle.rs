// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab bundle`: archives of a study with its traces and results.
use super::compare::{command_line, failed_runs, failure};
use super::read_text;
use super::study::Study;
use crate::failure::{Failure, reason};
use crate::output::{Product, note, print, will_be_written};
use crate::progress::{Bar, stop_flag};
use alcc_cc::Registry;
use alcc_live::board::{self, Backend, Plan};
use alcc_live::parallel::processors;
use alcc_live::{Link, PathDefaults, Results, Row, Side, input_files};
use alcc_results::scenario::{self, StudyOptions};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Error, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

/// Names in an archive: the study, and the folder of its results.
const STUDY: &str = "study.toml";
const RESULTS: &str = "results";

/// Simulate a study and write an archive with its traces and results, or re-run such an archive and
/// check it (--check)
///
/// The archive contains the study, every trace that it names, their SHA-256, the build of this
/// program and the results. --check simulates the study again, on any machine. It prints "equal", or
/// the rows that differ, and then the exit status is 1.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc-lab bundle study.toml --out study.tar\n  alcc-lab bundle --check study.tar\n\nThe archive is a tar file. It contains study.toml for 'alcc-lab compare' and results/report.html for a browser."
)]
pub(crate) struct Args {
    /// With --check the archive, otherwise a study file of 'alcc-lab compare'
    #[arg(value_name = "STUDY.toml|FILE.tar")]
    what: PathBuf,
    /// Archive to write
    #[arg(
        long,
        value_name = "FILE.tar",
        required_unless_present = "check",
        conflicts_with = "check"
    )]
    out: Option<PathBuf>,
    /// Simulate the study of an archive again, and compare the results with those in it
    #[arg(long)]
    check: bool,
    /// Number of parallel runs [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let folder = tempfile::tempdir().map_err(|e| {
        Failure::usage(format!(
            "make a folder for the archive's files: {}",
            reason(&e)
        ))
    })?;
    match &args.out {
        Some(out) => make(args, folder.path(), out),
        None => check(args, folder.path()),
    }
}

fn make(args: &Args, folder: &Path, out: &Path) -> Result<ExitCode, Failure> {
    will_be_written(out)?;
    // Errors name the file of the user, not the copy.
    let study = Study::of(Some(&args.what), &[], &StudyOptions::default())?;
    study.schemes(&algorithms(), &[Side::Simulated])?;
    collect(study, folder)?;
    let mut results = measure(args, folder)?;
    let inside = |file: &Path| file.strip_prefix(folder).map(Path::to_owned);
    for file in &mut results.about.files {
        if let Ok(name) = inside(Path::new(&file.path)) {
            file.path = name.display().to_string();
        }
    }
    board::write(&results, &folder.join(RESULTS)).map_err(Failure::failed)?;
    failed_runs(&results)?;
    let bytes =
        packed(folder).map_err(|why| Failure::usage(format!("pack {}: {why}", out.display())))?;
    let rows = results.flows.len();
    Product::open(Some(out))?.fill(|to| to.write_all(&bytes))?;
    print(format!(
        "{}: {rows} rows, build {}\n",
        out.display(),
        results.about.build
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The algorithms, without those that read files, because an archive does not contain such files.
fn algorithms() -> Registry {
    crate::algorithms().reading(|_| {
        Err("an archive carries no file of an algorithm: leave the option out, or send the study and the file to 'alcc-lab compare'".to_owned())
    })
}

/// Copies the study and its traces into `folder`, with relative paths.
fn collect(study: Study, folder: &Path) -> Result<(), Failure> {
    let Study {
        traces, options, ..
    } = study;
    let copy = |from: &Path, to: &Path| {
        let to = folder.join(to);
        let above = to.parent().unwrap_or(folder);
        let copied = fs::create_dir_all(above).and_then(|()| fs::copy(from, &to));
        let why = |e| format!("copy {}: {}", from.display(), reason(&e));
        copied.map(drop).map_err(|e| Failure::usage(why(e)))
    };
    let mut inside = scenario::Study {
        options,
        ..scenario::Study::default()
    };
    let up = inside.options.up.as_mut();
    let defaults = PathDefaults {
        up: match &up {
            Some(value) => value.parse().map_err(Failure::usage)?,
            None => PathDefaults::default().up,
        },
        ..PathDefaults::default()
    };
    for (n, (path, value)) in traces.into_iter().enumerate() {
        let Some(mut value) = value else { continue };
        let own = Path::new("traces").join(n.to_string());
        let found = Link::open_all(std::slice::from_ref(&path), &defaults);
        let found = found.map_err(|e| Failure::usage(value.error(e)))?;
        for file in found.links.iter().flat_map(|link| &link.files) {
            // A trace, or its partner beside it.
            let root = if path.is_dir() {
                Some(&*path)
            } else {
                path.parent()
            };
            if let Some(Ok(name)) = root.map(|root| file.strip_prefix(root)) {
                copy(file, &own.join(name))?;
            }
        }
        if path.is_dir() {
            value.text = own.display().to_string();
        } else if let Some(name) = path.file_name().filter(|_| path.exists()) {
            value.text = own.join(name).display().to_string();
        }
        inside.traces.push(value);
    }
    if let Some(value) = up
        && let Some(name) = Path::new(&value.text).file_name()
        && Path::new(&value.text).is_file()
    {
        let to = Path::new("up").join(name);
        copy(Path::new(&value.text), &to)?;
        value.text = to.display().to_string();
    }
    let text = inside.to_toml();
    fs::write(folder.join(STUDY), text).map_err(|e| Failure::usage(reason(&e)))
}

/// Simulates the study in `folder`.
fn measure(args: &Args, folder: &Path) -> Result<Results, Failure> {
    let registry = algorithms();
    let study = Study::of(Some(&folder.join(STUDY)), &[], &StudyOptions::default())?;
    let found = study.links()?;
    let files: Vec<PathBuf> = found
        .links
        .iter()
        .flat_map(|link| link.files.clone())
        .collect();
    if let Some(file) = files.iter().find(|file| !file.starts_with(folder)) {
        return Err(Failure::usage(format!(
            "{STUDY}: {} is not in the archive: name a file in it by a relative path",
            file.display()
        )));
    }
    let plan = Plan {
        links: found.links,
        schemes: study.schemes(&registry, &[Side::Simulated])?,
        duration: study.duration,
        settle: study.settle,
        runs: study.runs.unwrap_or(1),
        backend: Backend::Simulated {
            registry,
            plugins: Vec::new(),
            workers: args.jobs.map_or_else(processors, usize::from),
            start: study.start.unwrap_or_default(),
        },
        command: command_line(),
        keep: None,
    };
    let stop = stop_flag()?;
    let mut bar = Bar::new();
    let measured = board::compare(&plan, &stop, &mut |p| bar.show(p.part, p.what));
    drop(bar);
    let mut results = measured.map_err(failure)?;
    results.about.files = input_files(files.into_iter().chain([folder.join(STUDY)]));
    Ok(results)
}

fn check(args: &Args, folder: &Path) -> Result<ExitCode, Failure> {
    let archive = args.what.display();
    let wrong = |why: String| Failure::usage(format!("read {archive}: {why}"));
    unpack(&args.what, folder).map_err(wrong)?;
    let text = read_text(&folder.join(RESULTS).join("results.json"))
        .map_err(|e| wrong(format!("{RESULTS}/results.json in it: {}", reason(&e))))?;
    let before = Results::read(&text)
        .map_err(|why| wrong(format!("{RESULTS}/results.json in it: {why}")))?;
    if before.about.files.iter().all(|file| file.path != STUDY) {
        return Err(wrong(format!(
            "{RESULTS}/results.json in it does not say with which {STUDY} it was made"
        )));
    }
    for file in &before.about.files {
        let path = Path::new(&file.path);
        let inside = folder.join(path);
        if !is_inside(path) || !inside.is_file() {
            return Err(wrong(format!("{} is not in it", file.path)));
        }
        if (input_files([inside]).iter()).all(|here| here.sha256 != file.sha256) {
            let why = "it is not the file with which the results were made (SHA-256)";
            return Err(Failure::failed(format!(
                "check {archive}: {}: {why}",
                file.path
            )));
        }
    }
    // Errors of the study name the archive, not the copy.
    let now = measure(args, folder).map_err(|failure| match failure {
        Failure::Usage(why) => wrong(why.replace(&format!("{}/", folder.display()), "")),
        failed @ Failure::Failed(_) => failed,
    })?;
    if now.about.build != before.about.build {
        let build = match &*before.about.build {
            "" => "an unknown build",
            build => &format!("build {build}"),
        };
        note(format_args!(
            "alcc-lab: the results are of {build}, this is {}",
            now.about.build
        ));
    }
    let mut differ = differences(&before.flows, &now.flows)?;
    let (all, again) = (before.flows.len(), now.flows.len());
    if differ.is_empty() && all != again {
        differ.push(format!("{all} rows are there, {again} were made now"));
    }
    if differ.is_empty() {
        print(format!("equal: {all} rows\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines: String = differ.iter().map(|line| format!("{line}\n")).collect();
    print(lines)?;
    let count = differ.len();
    Err(Failure::failed(format!(
        "{count} of {all} rows differ from those in {archive}"
    )))
}

/// The archive of the files in `folder`: the same bytes for the same files.
fn packed(folder: &Path) -> Result<Vec<u8>, String> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|e| reason(&e))? {
            let path = entry.map_err(|e| reason(&e))?.path();
            let of_its_kind = if path.is_dir() {
                &mut folders
            } else {
                &mut files
            };
            of_its_kind.push(path);
        }
    }
    files.sort();
    let mut archive = tar::Builder::new(Vec::new());
    archive.mode(tar::HeaderMode::Deterministic);
    for file in &files {
        let name = file.strip_prefix(folder).unwrap_or(file);
        let added = archive.append_path_with_name(file, name);
        added.map_err(|e| format!("{}: {}", name.display(), reason(&e)))?;
    }
    archive.into_inner().map_err(|e| reason(&e))
}

/// Writes the files of an archive into `folder`. Archives are untrusted: only plain files and folders are taken, and
/// none whose name leads out of the folder. So the files are never larger than the archive: compressed archives are not
/// read, and a file with holes is of another kind.
fn unpack(archive: &Path, folder: &Path) -> Result<(), String> {
    let no_archive = |e: &Error| match e.kind() {
        ErrorKind::Other | ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
            "it is not a whole, uncompressed tar archive".to_owned()
        }
        _ => reason(e),
    };
    // Nothing waits for the writer of a FIFO.
    if !fs::metadata(archive).map_err(|e| reason(&e))?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut archive = tar::Archive::new(File::open(archive).map_err(|e| reason(&e))?);
    for entry in archive.entries().map_err(|e| no_archive(&e))? {
        let mut entry = entry.map_err(|e| no_archive(&e))?;
        let name = entry.path().map_err(|e| no_archive(&e))?.into_owned();
        let wrong = |why: &str| format!("{} in it {why}", name.display());
        let kind = entry.header().entry_type();
        if !kind.is_file() && !kind.is_dir() {
            return Err(wrong("is neither a file nor a folder"));
        }
        if !is_inside(&name) {
            return Err(wrong("is not below its folder"));
        }
        let to = folder.join(&name);
        if kind.is_file() && to.exists() {
            return Err(wrong("is there twice"));
        }
        let above = if kind.is_dir() {
            Some(&*to)
        } else {
            to.parent()
        };
        let made = above.map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            if kind.is_dir() {
                return Ok(0);
            }
            io::copy(&mut entry, &mut File::create_new(&to)?)
        });
        let written = made.map_err(|e| wrong(&format!("cannot be written: {}", reason(&e))))?;
        if kind.is_file() && written < entry.size() {
            return Err(wrong("is cut off"));
        }
    }
    Ok(())
}

/// True for a relative path that does not leave its folder.
fn is_inside(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// One line for each row that differs.
fn differences(before: &[Row], now: &[Row]) -> Result<Vec<String>, Failure> {
    // Both through the same text, so that numbers are equal if their digits are.
    let read = |row: &Row| -> Result<Value, Failure> {
        let text = serde_json::to_string(row).map_err(Failure::failed)?;
        serde_json::from_str(&text).map_err(Failure::failed)
    };
    let same = |a: &Row, b: &Row| (&a.link, &a.scheme, a.run) == (&b.link, &b.scheme, b.run);
    let name = |row: &Row| format!("{}, {}, run {}", row.link, row.scheme, row.run);
    let mut lines = Vec::new();
    for row in before {
        let Some(other) = now.iter().find(|other| same(row, other)) else {
            lines.push(format!("{}: it is not there now", name(row)));
            continue;
        };
        let (old, new) = (read(row)?, read(other)?);
        let mut line = String::new();
        for (key, value) in new.as_object().into_iter().flatten() {
            let old = old.get(key).unwrap_or(&Value::Null);
            if old != value {
                let comma = if line.is_empty() { ": " } else { ", " };
                let _ = write!(line, "{comma}{key} {old}, now {value}");
            }
        }
        if !line.is_empty() {
            lines.push(format!("{}{line}", name(row)));
        }
    }
    let new = now
        .iter()
        .filter(|row| !before.iter().any(|other| same(row, other)));
    lines.extend(new.map(|row| format!("{}: it was not there before", name(row))));
    Ok(lines)
}
