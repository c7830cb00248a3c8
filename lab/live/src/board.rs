// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A comparison from beginning to end: links times schemes times repetitions, then table, sentence
//! and files. The same for emulated links and for the simulator.
mod files;
mod real_programs;
mod table;

use crate::cells::{Cells, Store};
use crate::link::Link;
use crate::live::Measured;
use crate::parallel::processors;
use crate::result_cache;
use crate::scheme::Scheme;
use crate::simulated::{self, GoOn, Simulation};
use crate::tools::Tools;
use crate::{LabError, pairs, twin};
use alcc_cc::Registry;
use alcc_results::{About, EMULATED, Results, SIMULATED, summary, twins};
use alcc_units::Span;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use real_programs::RealPrograms;

pub use files::{NATIVE, is_written, write, write_about, write_file};
pub use table::{Interval, aligned, csv, statistics, table};

/// A comparison: links, schemes and repetitions.
pub struct Plan {
    /// The links, at least one.
    pub links: Vec<Link>,
    /// The schemes, at least one. On emulated links all of them run at the same time. If native
    /// forms are among them, only those of one algorithm do, and then the others. Every other
    /// repetition has the reverse order.
    pub schemes: Vec<Scheme>,
    /// Length of each window.
    pub duration: Span,
    /// Time from the start of the window that the fairness of several flows excludes.
    pub settle: Span,
    /// Repetitions of each link, at least 1. Each has the next seed, in the emulator as in the
    /// simulator: other losses, another synthetic channel, another place in a recorded one.
    pub runs: u32,
    /// Backend of the runs.
    pub backend: Backend,
    /// The command line, for the report.
    pub command: String,
    /// Folder for finished runs: what an interrupted comparison finds there it does not do again.
    pub keep: Option<PathBuf>,
}

/// Backend of a comparison.
pub enum Backend {
    /// Real programs on emulated links; the schemes of a link run at the same time.
    /// [`alcc_emu::prepare`] must have succeeded.
    Emulated {
        /// The programs.
        tools: Tools,
        /// Folder for the runtime's logs: LINK/RUN/SCHEME/PROCESS.csv in it.
        log: Option<PathBuf>,
        /// Also the simulated counterpart of every run, with these algorithms.
        twin: Option<Registry>,
    },
    /// The simulator; every scheme alone.
    Simulated {
        /// The algorithms.
        registry: Registry,
        /// Files with algorithms in it that are not our own.
        plugins: Vec<PathBuf>,
        /// Number of parallel runs; the results do not depend on it.
        workers: usize,
        /// Offset in the trace at which every run begins.
        start: Span,
    },
}

/// Progress of a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress<'a> {
    /// Runs finished, those of an earlier attempt included.
    pub done: usize,
    /// Number of all runs, finished or not.
    pub of: usize,
    /// Part of the whole, 0 to 1.
    pub part: f64,
    /// Name of the run that was begun last.
    pub what: &'a str,
}

/// A run: what is done at once and kept as one.
pub(crate) struct Run<'a> {
    pub(crate) link: &'a Link,
    /// One in the simulator, several on emulated links.
    pub(crate) schemes: Vec<Scheme>,
    pub(crate) number: u32,
}

/// Carries out the plan. A run that fails is a row with its error, and the other runs continue.
///
/// # Errors
/// [`LabError::Stopped`], and what the machine cannot do. What was finished before is kept if the
/// plan says where, and nothing is left running.
pub fn compare(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Results, LabError> {
    let store = plan.keep.as_ref().map(|folder| {
        Ok::<_, LabError>(Store {
            folder: folder.join("runs"),
            program: program(&plan.backend)?,
        })
    });
    let store = store.transpose()?;
    let links = plan.links.iter().map(|link| seeded(plan, link, stop));
    let links: Vec<Vec<Link>> = links.collect::<Result<_, _>>()?;
    let runs: Vec<Run<'_>> = links.iter().flat_map(|l| runs(plan, l)).collect();
    let mut cells = Cells::find(store, runs.len(), |i| key(plan, &runs[i]))?;
    let missing = cells.missing().len();
    let progress = &mut |done, part, i: usize| {
        progress(Progress {
            done,
            of: runs.len(),
            part,
            what: &runs.get(i).map_or_else(String::new, |run| name(plan, run)),
        });
    };
    let measured = match &plan.backend {
        Backend::Emulated { tools, log, twin } => {
            let real = RealPrograms {
                plan,
                tools,
                log: log.as_deref(),
                stop,
                others_ran: AtomicBool::new(missing < runs.len()),
            };
            real.check()?;
            // One after the other: they would disturb each other.
            let run = |i: usize, go_on: GoOn<'_>| real.run(&runs[i], go_on);
            let mut measured = cells.run(1, stop, run, progress)?;
            if let Some(registry) = twin {
                twin::add(plan, &runs, &mut measured, registry, stop, &mut |part| {
                    progress(runs.len(), part, 0);
                })?;
            }
            // A simulated run would only give the same again.
            cells.forget();
            measured
        }
        Backend::Simulated {
            registry,
            workers,
            start,
            ..
        } => {
            let simulate = |i: usize, go_on: GoOn<'_>| {
                let run = &runs[i];
                let simulation = Simulation {
                    link: run.link,
                    scheme: &run.schemes[0],
                    registry,
                    duration: plan.duration,
                    start: *start,
                    settle: plan.settle,
                    run: run.number,
                };
                simulated::run(&simulation, go_on)
            };
            cells.run(*workers, stop, simulate, progress)?
        }
    };
    Ok(gather(plan, &runs, measured))
}

/// The link of each repetition. A thousand synthetic channels take a while.
fn seeded(plan: &Plan, link: &Link, stop: &AtomicBool) -> Result<Vec<Link>, LabError> {
    let seed = |n: u32| link.path.seed.wrapping_add(u64::from(n));
    let link_of = |n| match stop.load(Ordering::Relaxed) {
        true => Err(LabError::Stopped),
        false => Ok(link.reseeded(seed(n))),
    };
    (0..plan.runs).map(link_of).collect()
}

fn runs<'a>(plan: &'a Plan, links: &'a [Link]) -> Vec<Run<'a>> {
    let groups = match plan.backend {
        Backend::Emulated { .. } => groups(&plan.schemes),
        Backend::Simulated { .. } => plan.schemes.iter().map(|s| vec![s.clone()]).collect(),
    };
    let mut runs = Vec::new();
    for (number, link) in (1..).zip(links) {
        for schemes in &groups {
            let mut schemes = schemes.clone();
            if number % 2 == 0 {
                schemes.reverse();
            }
            runs.push(Run {
                link,
                schemes,
                number,
            });
        }
    }
    runs
}

/// The schemes that run at the same time. A native form and the forms of the same algorithm are a
/// group of their own; all others are one. Too many would disturb each other, and what is compared
/// needs the same conditions.
fn groups(schemes: &[Scheme]) -> Vec<Vec<Scheme>> {
    let mut groups: Vec<Vec<Scheme>> = Vec::new();
    let mut others = Vec::new();
    for scheme in schemes {
        let has_native = schemes
            .iter()
            .any(|s| s.is_native() && s.same_algorithm(scheme));
        let group = groups.iter_mut().find(|g| g[0].same_algorithm(scheme));
        match group {
            Some(group) => group.push(scheme.clone()),
            // Its flows have a link to themselves.
            None if has_native || scheme.is_crowd => groups.push(vec![scheme.clone()]),
            None => others.push(scheme.clone()),
        }
    }
    groups.extend(Some(others).filter(|others| !others.is_empty()));
    groups
}

fn name(plan: &Plan, run: &Run<'_>) -> String {
    let mut text = run.link.name.clone();
    if (run.schemes.len() == 1 || run.schemes.len() < plan.schemes.len())
        && let Some(scheme) = run.schemes.iter().min_by_key(|s| s.name.len())
    {
        let _ = write!(text, " {}", scheme.name);
        if run.schemes.len() > 1 {
            let _ = write!(text, " and {} beside it", run.schemes.len() - 1);
        }
    }
    if plan.runs > 1 {
        let _ = write!(text, " run {} of {}", run.number, plan.runs);
    }
    text
}

/// Our own bytes, and those of whatever else has a part in every result.
fn program(backend: &Backend) -> Result<String, LabError> {
    let own = std::env::current_exe().map_err(LabError::os(
        "find the program of alcc itself, to know its results",
    ))?;
    let mut files = vec![own];
    let mut more = String::new();
    match backend {
        Backend::Simulated { plugins, .. } => files.extend(plugins.iter().cloned()),
        Backend::Emulated { tools, .. } => {
            files.extend(tools.files());
            more = read("/proc/sys/kernel/osrelease");
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    let hash = result_cache::hash_of_files(files.iter().map(PathBuf::as_path));
    Ok(format!("alcc {version} {hash} {more}"))
}

/// Everything else that decides the result of a run.
fn key(plan: &Plan, run: &Run<'_>) -> String {
    let path = result_cache::hash_of_path(&run.link.path);
    let mut text = format!(
        "link={} path={path} duration={} run={} seed={}",
        run.link.name, plan.duration, run.number, run.link.path.seed
    );
    let side = match &plan.backend {
        Backend::Emulated { .. } => EMULATED.to_owned(),
        Backend::Simulated { start, .. } => format!("simulated start={start}"),
    };
    let _ = write!(text, " {side}");
    for scheme in &run.schemes {
        let flows = scheme.flows.join(" ");
        let _ = write!(text, " scheme={} flow={flows}", scheme.name);
        if scheme.is_crowd {
            let _ = write!(text, " settle={}", plan.settle);
        }
        if !scheme.files.is_empty() {
            let files = scheme.files.iter().map(PathBuf::as_path);
            let _ = write!(text, " files={}", result_cache::hash_of_files(files));
        }
    }
    text
}

fn gather(plan: &Plan, runs: &[Run<'_>], all: Vec<Measured>) -> Results {
    let mut results = Results {
        about: about(plan),
        ..Results::default()
    };
    let (mut spoiled, of) = (0, runs.len());
    for (run, measured) in runs.iter().zip(all) {
        spoiled += usize::from(measured.is_spoiled());
        results.flows.extend(measured.rows);
        results.series.extend(measured.series);
        let notes = measured.notes.into_iter();
        let what = name(plan, run);
        results
            .notes
            .extend(notes.map(|note| format!("{what}: {note}")));
    }
    results.notes.extend(twins::mismatches(&results.flows));
    results.summary = summary(&results.flows);
    let sentence = &mut results.summary.sentence;
    if spoiled > 0 && !sentence.is_empty() {
        // Whoever reads nothing else reads this.
        *sentence = format!(
            "Not to be trusted, as this machine was too busy in {spoiled} of {of} runs (see the notes): {sentence}"
        );
    }
    results.summary.pairs = alcc_results::pairs::pairs(&results.flows, &results.series);
    results
}

fn read(file: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim().to_owned()
}

fn about(plan: &Plan) -> About {
    let link = match &plan.links[..] {
        [one] => one.describe(),
        many => format!(
            "{} links, {} of {}{}",
            many.len(),
            pairs::count(plan.runs, "run"),
            plan.duration,
            if plan.runs == 1 { "" } else { " each" }
        ),
    };
    let plugins = match &plan.backend {
        Backend::Simulated { plugins, .. } => plugins,
        Backend::Emulated { tools, .. } => &tools.plugins,
    };
    let named = plan.schemes.iter().flat_map(|scheme| &scheme.files);
    let traces = plan.links.iter().flat_map(|link| &link.files);
    let side = match &plan.backend {
        Backend::Emulated { twin, .. } => About {
            mode: match twin {
                Some(_) => format!("{EMULATED}+{SIMULATED}"),
                None => EMULATED.to_owned(),
            },
            ..emulated_now()
        },
        // Nothing that differs between two runs of the same command.
        Backend::Simulated { .. } => About {
            mode: SIMULATED.to_owned(),
            ..About::default()
        },
    };
    About {
        program: format!("alcc {}", env!("CARGO_PKG_VERSION")),
        build: crate::build(),
        files: result_cache::input_files(traces.chain(named).chain(plugins).cloned()),
        command: plan.command.clone(),
        link,
        seed: plan.links.first().map_or(0, |l| l.path.seed),
        ..side
    }
}

/// Everything besides the command that results of real programs depend on: date, kernel and
/// processors.
pub fn emulated_now() -> About {
    About {
        mode: EMULATED.to_owned(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpus: processors(),
        ..About::default()
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use alcc_results::Row;

    /// A row for tests, with only the main fields.
    pub(crate) fn sample(link: &str, scheme: &str, mbps: f64, ms: f64) -> Row {
        Row {
            link: link.to_owned(),
            scheme: scheme.to_owned(),
            throughput_mbps: Some(mbps),
            delay_mean_ms: Some(ms),
            ..Row::default()
        }
    }

    /// A row of a run that failed.
    pub(crate) fn failed(link: &str, scheme: &str) -> Row {
        Row {
            error: Some("it broke".to_owned()),
            throughput_mbps: None,
            delay_mean_ms: None,
            ..sample(link, scheme, 0.0, 0.0)
        }
    }
}

#[cfg(test)]
mod tests;
