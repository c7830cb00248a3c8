// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab bundle`: archives of a study with its traces and results.
use super::compare::{command_line, failed_runs, failure, processors};
use super::read_text;
use super::study::Study;
use crate::failure::{Failure, reason};
use crate::output::{Product, note, print, will_be_written};
use crate::progress::{Bar, stop_flag};
use alcc_cc::Registry;
use alcc_live::board::{self, Backend, Plan};
use alcc_live::{Link, PathDefaults, Results, Row, Side, input_files};
use alcc_results::scenario::{self, StudyOptions};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};

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
    // The same bytes for the same study.
    let constant = [
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ];
    let mut tar = Command::new("tar");
    tar.args(constant)
        .arg("-C")
        .arg(folder)
        .args(["-c", STUDY, RESULTS]);
    tar.args(
        ["traces", "up"]
            .iter()
            .filter(|name| folder.join(name).exists()),
    );
    let bytes = output(&mut tar, &format!("write {}", out.display()))?;
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
    let must_be_inside = |file: &Path| match is_inside(file, folder) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{STUDY}: {} is not in the archive: name a file in it by a relative path",
            file.display()
        ))),
    };
    // Before anything is read.
    let named = study.traces.iter().map(|(path, _)| path.as_path());
    let up = study.options.up.as_ref().map(|up| Path::new(&up.text));
    named
        .chain(up)
        .filter(|path| path.exists())
        .try_for_each(must_be_inside)?;
    let found = study.links()?;
    let files: Vec<PathBuf> = found
        .links
        .iter()
        .flat_map(|link| link.files.clone())
        .collect();
    files.iter().try_for_each(|file| must_be_inside(file))?;
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
    let file = File::open(&args.what).map_err(|e| wrong(reason(&e)))?;
    let about = file.metadata().map_err(|e| wrong(reason(&e)))?;
    if !about.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    let mut tar = Command::new("tar");
    // Compressed or with holes, a short archive could fill the disk: tar guesses no compression of its
    // standard input, and writes no file that is longer than the archive.
    tar.args(["--no-same-owner", "--no-same-permissions", "-xf", "-", "-C"])
        .arg(folder)
        .stdin(file);
    let most = about.len();
    // SAFETY: two system calls, which are allowed between fork and exec; no function is installed.
    unsafe {
        tar.pre_exec(move || {
            // So that tar says which file it is.
            signal(Signal::SIGXFSZ, SigHandler::SigIgn)?;
            Ok(setrlimit(Resource::RLIMIT_FSIZE, most, most)?)
        });
    }
    output(&mut tar, &format!("read {archive}"))?;
    only_files(folder).map_err(wrong)?;
    let text = read_text(&folder.join(RESULTS).join("results.json"))
        .map_err(|e| wrong(format!("{RESULTS}/results.json in it: {}", reason(&e))))?;
    let before: Results = serde_json::from_str(&text)
        .map_err(|e| wrong(format!("{RESULTS}/results.json in it: {e}")))?;
    if before.about.files.iter().all(|file| file.path != STUDY) {
        return Err(wrong(format!(
            "{RESULTS}/results.json in it does not say with which {STUDY} it was made"
        )));
    }
    for file in &before.about.files {
        let path = Path::new(&file.path);
        let inside = folder.join(path);
        if !is_inside(&inside, folder) || !inside.is_file() {
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
    let now = measure(args, folder)?;
    if now.about.build != before.about.build {
        note(format_args!(
            "alcc-lab: the results are of build {}, this is {}",
            before.about.build, now.about.build
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

/// True if a path leads into the folder, without a way out of it.
fn is_inside(path: &Path, folder: &Path) -> bool {
    let rest = path.strip_prefix(folder).map(Path::components);
    rest.is_ok_and(|mut rest| rest.all(|part| matches!(part, Component::Normal(_))))
}

/// Refuses archives with anything but files and folders: archives are untrusted, a link could lead out
/// of the folder, and reading a FIFO would block.
fn only_files(folder: &Path) -> Result<(), String> {
    let mut remaining = vec![folder.to_owned()];
    while let Some(folder) = remaining.pop() {
        for entry in fs::read_dir(&folder).map_err(|e| reason(&e))? {
            let entry = entry.map_err(|e| reason(&e))?;
            let kind = entry.file_type().map_err(|e| reason(&e))?;
            if kind.is_dir() {
                remaining.push(entry.path());
            } else if !kind.is_file() {
                let name = entry.file_name();
                return Err(format!(
                    "{} in it is neither a file nor a folder",
                    name.display()
                ));
            }
        }
    }
    Ok(())
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

/// Standard output of a program; `attempt` begins the error.
fn output(command: &mut Command, attempt: &str) -> Result<Vec<u8>, Failure> {
    let wrong = |why: &str| Failure::usage(format!("{attempt}: {why}"));
    let done = command.output().map_err(|e| match e.kind() {
        ErrorKind::NotFound => wrong("the program tar is missing: install it"),
        _ => wrong(&reason(&e)),
    })?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(wrong(said.lines().next().unwrap_or("tar failed")))
}
