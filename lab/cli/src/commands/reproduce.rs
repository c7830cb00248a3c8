// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab reproduce`: published experiments and the score table.
mod asked;
mod board;
mod origin;
mod written;

use self::asked::{Asked, asked, keep_cells};
pub(super) use self::origin::{origin, program};
pub(super) use self::written::{about, write, write_table};
use self::written::{store, stored, table, write_pages};
use super::compare::failure;
use crate::commands::emulate::processes::Processes;
use crate::failure::Failure;
use crate::output::{alone_in, folder, note, print, will_be_written};
use crate::plugin_arg::Plugins;
use crate::progress::{Bar, stop_flag};
use crate::trace_arg::is_folder;
use alcc_experiment::applications::Applications;
use alcc_experiment::definition::Subject;
use alcc_experiment::judge::{Mode, Verdict};
use alcc_experiment::page::Took;
use alcc_experiment::results::Results;
use alcc_experiment::run::{Runner, Side};
use alcc_experiment::table::Table;
use alcc_experiment::{Judgement, Plan, Run};
use alcc_files::ScenarioFolder;
use alcc_live::parallel::processors;
use alcc_live::{LabError, Tools};
use alcc_results::{About, InputFile, SIMULATED};
use alcc_sys::process_cpu;
use alcc_units::Span;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Run published experiments again and compare the results with the published figures
///
/// An experiment is a scenario, parameters to vary, and published statements about the results: see
/// docs/reproducing.md. A cell is one combination of the parameters' values. Statements are judged,
/// that is, compared with the results: they hold or they do not. If the command is interrupted, the
/// same command continues it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:
  alcc-lab reproduce verus-fig11a
  alcc-lab reproduce --all --traces DIR --out site",
    after_long_help = "Examples:
  alcc-lab reproduce verus-fig11a
  alcc-lab reproduce --all --traces DIR --out site      # then open site/index.html
  alcc-lab reproduce my-experiment/experiment.toml --json
  alcc-lab reproduce --emu alcc-fig9 --traces DIR       # real programs, shortened; --full for hours
  alcc-lab reproduce --board lab/notes --traces DIR      # the score table, board.md"
)]
pub(crate) struct Args {
    /// Experiments by name, see 'alcc-lab list', or your own files
    #[arg(value_name = "ID|EXPERIMENT.toml", required_unless_present_any = ["all", "board", "applications"])]
    experiments: Vec<String>,
    /// Run all built-in experiments
    #[arg(long, conflicts_with = "experiments")]
    all: bool,
    /// Folder of the recorded traces, see docs/traces.md
    #[arg(long, value_name = "DIR", env = "ALCC_TRACES")]
    traces: Option<PathBuf>,
    /// Folder for pages, tables and results
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,
    /// Use the simulator; this is the default
    #[arg(long)]
    sim: bool,
    /// Use real programs on emulated links, with shortened runs and without verdicts
    ///
    /// Each cell is run once, for 10 s from the start of its last flow. With --emu --full, statements
    /// are judged.
    #[arg(long, conflicts_with_all = ["sim", "board"])]
    emu: bool,
    /// With --emu: all repetitions, whole runs, with verdicts; takes hours
    #[arg(long, requires = "emu")]
    full: bool,
    /// With --emu: only these cells, such as trace=highwayGold,rapidGold
    ///
    /// AXIS is a parameter that the experiment varies, NAME one of its values. With --emu --full:
    /// statements about other cells are not judged.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "AXIS=NAME,...",
        requires = "emu"
    )]
    cells: Option<String>,
    /// Number of parallel runs [default: number of cores]
    ///
    /// The default is twice as many for shortened runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write results.json and the page results.md into this folder
    ///
    /// results.json has the checksums of all inputs. With --emu --full the files are emulated.json
    /// and emulated.md.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// With --emu --full: run FTP, a browser, video and a VPN
    ///
    /// Unless experiments are named, only these are run. Writes applications.json and the page
    /// applications.md into this folder.
    #[arg(long, hide_short_help = true, value_name = "DIR", requires = "full", conflicts_with_all = ["results", "all"])]
    applications: Option<PathBuf>,
    /// Instead, run all algorithms against each other and write the score table into DIR
    ///
    /// Every algorithm runs alone, with flows of its own kind, and with flows of other algorithms.
    /// The files are board.json and the page board.md, which also names the algorithm with the best
    /// score; no default changes.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["experiments", "all", "results", "json"])]
    board: Option<PathBuf>,
    /// With --board: results.json of its part with real programs
    ///
    /// 'alcc-lab compare --emu' writes it, with the schemes bbr and A/over=cubic for A of verus,
    /// copa, budget and sprout.
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "board")]
    live: Option<PathBuf>,
    #[command(flatten)]
    plugins: Plugins,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    fn mode(&self) -> Mode {
        match (self.emu, self.full) {
            (false, _) => Mode::Simulated,
            (true, false) => Mode::Shortened,
            (true, true) => Mode::Emulated,
        }
    }
}

/// Endings of the files of one experiment.
pub(super) const PAGE_FILES: [&str; 4] = ["html", "csv", "csv-metadata.json", "parquet"];

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.emu
        && let Some(exit) = Processes::guard()?
    {
        return Ok(exit);
    }
    let mut all = asked(args)?;
    check(args, &mut all)?;
    let _alone = alone_in(&args.out)?;
    let registry = args.plugins.registry(crate::algorithms())?;
    // The folder of a user's experiment comes first, as with scenarios.
    let own = args
        .experiments
        .iter()
        .filter(|word| word.ends_with(".toml"));
    let own = own.filter_map(|word| Path::new(word).parent().map(Path::to_owned));
    let files = ScenarioFolder::in_folders(own.chain(args.traces.clone()));
    let mode = args.mode();
    // If a program or a privilege is missing, experiments with real flows are not run and report
    // the reason; all others continue.
    let (tools, missing) = match mode {
        Mode::Simulated => (None, None),
        Mode::Emulated | Mode::Shortened => match real_tools(args) {
            Ok(tools) => (Some(tools), None),
            Err(why) => (None, Some(why)),
        },
    };
    let workers = processors() * if mode == Mode::Shortened { 2 } else { 1 };
    let stop = stop_flag()?;
    let runner = Runner {
        registry: &registry,
        files: &files,
        version: &program(&args.plugins)?,
        workers: args.jobs.map_or(workers, usize::from),
        stop: &stop,
        side: tools.as_ref().map_or(Side::Simulated, Side::Emulated),
    };
    // Read before the first run, because its date is the start of the runs.
    let side = match mode {
        Mode::Simulated => About {
            mode: SIMULATED.to_owned(),
            ..About::default()
        },
        Mode::Emulated | Mode::Shortened => alcc_live::board::emulated_now(),
    };
    if mode != Mode::Simulated {
        become_real(&mut all, mode, &runner, &files);
    }
    if let Some(into) = &args.board {
        let live = args.live.as_deref().map(board::live).transpose()?;
        return board::run(&runner, &files, &args.out, live, into);
    }
    run_all(&mut all, &runner, missing.as_deref(), &args.out)?;
    let holds: BTreeMap<&str, bool> = all.iter().map(|a| (a.id.as_str(), a.holds())).collect();
    let explained = |id: &str| holds.get(id).copied().unwrap_or(false);
    let judged: Vec<Judgement> = all
        .iter()
        .map(|one| {
            let runs = one.runs.as_deref();
            one.definition.judge(&one.id, mode, runs, explained)
        })
        .collect();
    let of_plan = |one: &Asked| {
        let mut about = about(&one.plan.runs, side.clone(), &files, args.plugins.files());
        about.files.push(InputFile {
            path: format!("{}/experiment.toml", one.id),
            sha256: one.hash.clone(),
        });
        about
    };
    let provenance = origin(args.traces.as_deref())?;
    write_pages(&all, &judged, &args.out, &provenance, &of_plan)?;
    store(args, &all, &judged, &files)?;
    if args.json {
        let flows: Vec<_> = all.iter().flat_map(rows).collect();
        let about: Vec<About> = all.iter().map(of_plan).collect();
        let json = serde_json::json!({
            "about": about, "experiments": judged, "flows": flows, "summary": {}
        });
        print(format_args!("{json}\n"))?;
    } else {
        print(table(&judged, &args.out))?;
    }
    if !args.experiments.is_empty() {
        any_ran(&all, &judged)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows of an experiment's table, with its name.
fn rows(one: &Asked) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let runs = one.runs.as_deref().unwrap_or_default();
    let name = || ("experiment".to_owned(), one.id.clone().into());
    let table = Table::new(&one.definition, runs);
    let named = |row| std::iter::once(name()).chain(row).collect();
    table.json().map(named).collect()
}

/// Fails if experiments were named and none of them could be run.
fn any_ran(all: &[Asked], judged: &[Judgement]) -> Result<(), Failure> {
    let named = all.iter().zip(judged).filter(|(one, _)| !one.is_cause);
    let named: Vec<&Judgement> = named.map(|(_, judged)| judged).collect();
    if named.iter().any(|one| one.verdict != Verdict::NotRun) {
        return Ok(());
    }
    Err(Failure::usage(match named[..] {
        [] => return Ok(()),
        [one] => format!("{}: not run: {}", one.id, one.why),
        [first, ..] => format!(
            "none of the {} experiments could run; {}: {}",
            named.len(),
            first.id,
            first.why
        ),
    }))
}

/// Sees that the options go together and that there is a place for everything that is written.
fn check(args: &Args, all: &mut [Asked]) -> Result<(), Failure> {
    if args.results.is_some() && args.mode() == Mode::Shortened {
        return Err(Failure::usage(
            "--results --emu: shortened runs have no verdict: add --full, or omit --results",
        ));
    }
    if let Some(cells) = &args.cells {
        keep_cells(all, cells)?;
    }
    args.traces.as_deref().map_or(Ok(()), is_folder)?;
    folder(&args.out)?;
    for one in &*all {
        for end in PAGE_FILES {
            will_be_written(&args.out.join(format!("{}.{end}", one.id)))?;
        }
    }
    will_be_written(&args.out.join("index.html"))?;
    let generated = [&args.results, &args.board, &args.applications];
    for into in generated.into_iter().flatten() {
        folder(into)?;
    }
    if let Some(into) = &args.results {
        let name = match args.mode() {
            Mode::Emulated => "emulated.json",
            Mode::Simulated | Mode::Shortened => "results.json",
        };
        stored(&into.join(name), Results::from_json)?;
    }
    if let Some(into) = &args.applications {
        stored(&into.join("applications.json"), Applications::from_json)?;
    }
    Ok(())
}

/// Replaces the plans by those for real programs, and prints their duration.
fn become_real(all: &mut [Asked], mode: Mode, runner: &Runner<'_>, files: &ScenarioFolder) {
    for one in &mut *all {
        let plan = std::mem::take(&mut one.plan).emulated();
        one.plan = match mode {
            Mode::Shortened => plan.shortened(runner.registry, files),
            Mode::Emulated | Mode::Simulated => plan,
        };
    }
    let real_time = (all.iter().map(|a| a.plan.real_time(runner.registry, files)))
        .fold(Span::ZERO, |all, one| all + one);
    let minutes = real_time.as_secs_f64() / runner.workers.max(1) as f64 / 60.0;
    note(format_args!(
        "emulation in real time: about {minutes:.0} minutes"
    ));
}

/// Runs them one after the other. `missing`: why no flow can be real.
fn run_all(
    all: &mut [Asked],
    runner: &Runner<'_>,
    missing: Option<&str>,
    out: &Path,
) -> Result<(), Failure> {
    let total: usize = all.iter().map(|one| one.plan.runs.len()).sum();
    let mut bar = Bar::new();
    let mut before = 0;
    for one in all {
        let (began, cpu) = (Instant::now(), process_cpu());
        let mut stored = None;
        one.runs = match missing.filter(|_| one.definition.subject != Subject::Channel) {
            Some(why) => Err(LabError::Needs(why.to_owned())),
            None => simulate(runner, &one.id, &one.plan, out, &mut |done, first| {
                if first {
                    stored = Some(done);
                    bar.skip(done as f64 / total.max(1) as f64);
                }
                bar.show((before + done) as f64 / total.max(1) as f64, &one.id);
            })?,
        };
        before += one.plan.runs.len();
        if stored == Some(0) {
            let tenths = |time: Duration| (time.as_secs_f64() * 10.0).round() / 10.0;
            let took = Took {
                seconds: tenths(began.elapsed()),
                cpu_seconds: tenths(process_cpu().saturating_sub(cpu).into()),
            };
            bar.say(&format!("{}: {took}", one.id));
            one.took = Some(took);
        }
    }
    Ok(())
}

/// The programs of `--emu`, or what is missing for them and what helps.
fn real_tools(args: &Args) -> Result<Tools, String> {
    let needs = |why: String| format!("real programs: {why}");
    alcc_emu::prepare().map_err(|e| needs(e.to_string()))?;
    let tools = super::compare::tools().map_err(|e| needs(e.to_string()))?;
    let web = tools.nginx().and_then(|_| tools.curl());
    web.map_err(|e| needs(e.to_string()))?;
    let plugins = args.plugins.files();
    Ok(Tools { plugins, ..tools })
}

/// The stored and new runs of one experiment, or what is missing for them. `progress` is told how
/// many there are, and whether it is the first time: those are of an earlier command.
pub(super) fn simulate(
    runner: &Runner<'_>,
    id: &str,
    plan: &Plan,
    out: &Path,
    progress: &mut dyn FnMut(usize, bool),
) -> Result<Result<Vec<Run>, LabError>, Failure> {
    let old = out.join(format!("{id}.runs.jsonl"));
    if old.exists() {
        return Err(Failure::usage(format!(
            "{}: stored runs of an earlier version: delete the file, they are now in {id}.runs/",
            old.display()
        )));
    }
    let keep = out.join(format!("{id}.runs"));
    let mut first = true;
    let runs = runner.run(plan, Some(&keep), &mut |done| {
        progress(done, std::mem::take(&mut first));
    });
    match runs {
        Err(LabError::Stopped) => Err(Failure::failed(format!(
            "{id}: stopped: the same command continues it"
        ))),
        Ok(_) | Err(LabError::Needs(_) | LabError::NoTrace(_)) => Ok(runs),
        Err(wrong) => Err(failure(wrong)),
    }
}
