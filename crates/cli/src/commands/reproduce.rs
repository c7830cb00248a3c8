// SPDX-License-Identifier: Apache-2.0 OR MIT
mod origin;

use self::origin::{build, provenance};
pub(super) use self::origin::{origin, program};
use crate::failure::{Failure, reason};
use crate::output::{alone_in, folder, note, print, will_be_written};
use crate::plugin_arg::Plugins;
use crate::progress::{Bar, stop_flag};
use alcc_experiment::applications::{Applications, StoredApplication};
use alcc_experiment::board::{self, Board, Kind};
use alcc_experiment::catalogue::Entry;
use alcc_experiment::definition::Subject;
use alcc_experiment::judge::{Mode, Verdict};
use alcc_experiment::page::{self, ExperimentView, Provenance, Took};
use alcc_experiment::plan::PlannedRun;
use alcc_experiment::results::{Entry as StoredResult, Results};
use alcc_experiment::run::{RunError, Runner, Side};
use alcc_experiment::table::Table;
use alcc_experiment::{Definition, Judgement, Plan, Run, StoredRuns, catalogue};
use alcc_files::ScenarioFolder;
use alcc_lab::Tools;
use alcc_results::Row;
use alcc_results::scenario::Files as _;
use alcc_units::Span;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Run published experiments again and show them beside the published figures
#[derive(clap::Args)]
#[command(after_help = "Examples:
  alcc reproduce verus-fig11a
  alcc reproduce --all --traces DIR --out site      # then open site/index.html
  alcc reproduce my-experiment/experiment.toml --json
  alcc reproduce --emu alcc-fig9 --traces DIR       # real programs, shortened; --full for hours
  alcc reproduce --board docs --traces DIR      # every algorithm everywhere: board.md, and the default that follows

An experiment is a scenario, what is varied, and what is expected: see docs/reproducing.md. An interrupted
command goes on where it was if it is given again. 'alcc list' shows the experiments.")]
pub(crate) struct Args {
    /// Experiments by name, or files of one's own
    #[arg(value_name = "ID|EXPERIMENT.toml", required_unless_present_any = ["all", "board", "applications"])]
    experiments: Vec<String>,
    /// All experiments that the program carries
    #[arg(long, conflicts_with = "experiments")]
    all: bool,
    /// The folder of the recorded traces, see docs/traces.md
    #[arg(long, value_name = "DIR", env = "ALCC_TRACES")]
    traces: Option<PathBuf>,
    /// Where pages, tables and results are written
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,
    /// In the simulator, which is the default
    #[arg(long)]
    sim: bool,
    /// With real programs on emulated links: each cell once, for 10 s from when its last flow
    /// starts, which judges nothing
    #[arg(long, conflicts_with_all = ["sim", "board"])]
    emu: bool,
    /// All starts and whole windows in emulation: hours
    #[arg(long, requires = "emu")]
    full: bool,
    /// With --emu: only the cells with these choices on an axis of the experiment, such as
    /// trace=highwayGold,rapidGold; statements about others are not judged
    #[arg(long, value_name = "AXIS=NAME,...", requires = "emu")]
    cells: Option<String>,
    /// Runs at a time [default: as many as there are cores; shortened runs twice as many]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write results.json, with the checksums of all inputs, and the page results.md into this
    /// folder; with --emu --full emulated.json and emulated.md
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// With --emu --full: FTP, a browser, video and a VPN, unless experiments are named; write
    /// applications.json and the page applications.md into this folder
    #[arg(long, value_name = "DIR", requires = "full", conflicts_with_all = ["results", "all"])]
    applications: Option<PathBuf>,
    /// Instead of experiments: every algorithm alone, among its like and beside others, and the
    /// default of 'alcc run' that follows; write board.json and the page board.md into this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["experiments", "all", "results", "json"])]
    board: Option<PathBuf>,
    /// With --board: its live part, the results.json of 'alcc compare --emu' with the schemes
    /// bbr,alcc-verus,alcc-copa,alcc-budget,alcc-sprout
    #[arg(long, value_name = "FILE", requires = "board")]
    live: Option<PathBuf>,
    #[command(flatten)]
    plugins: Plugins,
    /// Print one JSON object
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
pub(super) const PAGE_FILES: [&str; 4] = ["html", "csv", "parquet", "runs.jsonl"];

/// A requested experiment, or one that explains a requested one.
struct Asked {
    id: String,
    readme: String,
    /// SHA-256 of `experiment.toml`.
    hash: String,
    definition: Definition,
    plan: Plan,
    runs: Result<Vec<Run>, RunError>,
    /// If no run was stored before.
    took: Option<Took>,
    /// Nobody asked for it, but it explains one that was asked for.
    is_cause: bool,
}

impl Asked {
    /// `real`: in the form for real programs on emulated links, where there is one of its own.
    fn new(word: &str, real: bool) -> Result<Self, Failure> {
        let (id, definition, readme, hash) = if word.ends_with(".toml") {
            let path = Path::new(word);
            let text = fs::read_to_string(path)
                .map_err(|e| Failure::usage(format!("read {word}: {}", reason(&e))))?;
            let readme = path.with_file_name("README.md");
            let readme = fs::read_to_string(readme).unwrap_or_default();
            // The name of the folder, as in the catalogue.
            let folder = path.parent().and_then(Path::file_name);
            let id = folder.or_else(|| path.file_stem()).unwrap_or_default();
            let definition = Definition::from_toml(&text, word).map_err(Failure::usage)?;
            let hash = alcc_lab::hash_of_text(&text);
            (id.to_string_lossy().into_owned(), definition, readme, hash)
        } else {
            let entry = catalogue::find(word).map_err(Failure::usage)?;
            let (text, definition) = if real {
                (entry.real(), entry.real_definition())
            } else {
                (entry.toml, entry.definition())
            };
            let definition = definition.map_err(Failure::usage)?;
            let hash = alcc_lab::hash_of_text(text);
            (word.to_owned(), definition, entry.readme.to_owned(), hash)
        };
        let plan = Plan::new(&definition).map_err(Failure::usage)?;
        Ok(Self {
            id,
            readme,
            hash,
            definition,
            plan,
            runs: Ok(Vec::new()),
            took: None,
            is_cause: false,
        })
    }

    fn holds(&self) -> bool {
        let outcomes = self
            .runs
            .as_ref()
            .map(|runs| self.definition.outcomes(runs));
        outcomes.is_ok_and(|outcomes| outcomes.iter().all(|outcome| outcome.holds))
    }
}

/// The requested experiments, and those that explain them.
fn asked(args: &Args) -> Result<Vec<Asked>, Failure> {
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
        if all.iter().all(|other| other.id != one.id) {
            all.push(one);
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

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut all = asked(args)?;
    check(args, &mut all)?;
    let _alone = alone_in(&args.out)?;
    let registry = args.plugins.registry()?;
    let files = ScenarioFolder::in_folder(args.traces.as_deref());
    let mode = args.mode();
    // Without a program or a privilege no flow can be real: then none is run, each says why, and
    // what needs neither goes on.
    let (tools, missing) = match mode {
        Mode::Simulated => (None, None),
        Mode::Emulated | Mode::Shortened => match real_tools(args) {
            Ok(tools) => (Some(tools), None),
            Err(why) => (None, Some(why)),
        },
    };
    let workers = super::compare::processors() * if mode == Mode::Shortened { 2 } else { 1 };
    let stop = stop_flag()?;
    let runner = Runner {
        registry: &registry,
        files: &files,
        version: &program(&args.plugins)?,
        workers: args.jobs.map_or(workers, usize::from),
        stop: &stop,
        side: tools.as_ref().map_or(Side::Simulated, Side::Emulated),
    };
    if mode != Mode::Simulated {
        become_real(&mut all, mode, &runner, &files);
    }
    if let Some(into) = &args.board {
        let live = args.live.as_deref().map(live).transpose()?;
        return board(&runner, &files, &args.out, live, into);
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
    write_pages(&all, &judged, &args.out, &origin(args.traces.as_deref())?)?;
    store(args, &all, &judged, &files)?;
    if args.json {
        let runs = all.iter().filter_map(|one| one.runs.as_ref().ok());
        let flows: Vec<_> = runs.flatten().flat_map(|run| &run.flows).collect();
        let json = serde_json::json!({ "experiments": judged, "flows": flows, "summary": {} });
        print(format_args!("{json}\n"))?;
    } else {
        print(table(&judged, &args.out))?;
    }
    if !args.experiments.is_empty() {
        any_ran(&all, &judged)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whoever names experiments wants them run: it is a failure if none of them could be.
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
            "--results --emu: shortened runs judge nothing: add --full, or leave --results out",
        ));
    }
    if let Some(cells) = &args.cells {
        keep_cells(all, cells)?;
    }
    if let Some(traces) = args.traces.as_deref().filter(|path| !path.is_dir()) {
        return Err(Failure::usage(format!(
            "--traces {}: there is no such folder: docs/traces.md says where the traces are",
            traces.display()
        )));
    }
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
    Ok(())
}

/// The plans of real programs, and says how long they take.
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
        let (began, cpu) = (Instant::now(), cpu_time());
        let mut stored = None;
        one.runs = match missing.filter(|_| one.definition.subject != Subject::Channel) {
            Some(why) => Err(RunError::MissingRequirement(why.to_owned())),
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
                cpu_seconds: tenths(cpu_time().saturating_sub(cpu)),
            };
            bar.say(&format!("{}: {took}", one.id));
            one.took = Some(took);
        }
    }
    Ok(())
}

/// Writes what the options want kept beside the pages.
fn store(
    args: &Args,
    all: &[Asked],
    judged: &[Judgement],
    files: &ScenarioFolder,
) -> Result<(), Failure> {
    if let Some(folder) = &args.results {
        let mut results = results(all, judged, files, &build()?);
        let name = results.name();
        let before = fs::read_to_string(folder.join(format!("{name}.json")));
        let before = before.ok().and_then(|text| Results::from_json(&text).ok());
        if let Some(before) = before {
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
        let mut stored = applications(all, judged, &build()?);
        // Those that were not asked for stay.
        let before = fs::read_to_string(folder.join("applications.json"));
        if let Some(before) = before
            .ok()
            .and_then(|text| Applications::from_json(&text).ok())
        {
            stored.keep(before);
        }
        let json = stored.to_json().map_err(Failure::failed)?;
        write(folder, "applications.json", json)?;
        write(folder, "applications.md", stored.page())?;
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
    let plugins = args.plugins.files().to_vec();
    Ok(Tools { plugins, ..tools })
}

/// CPU time of this process, all threads.
fn cpu_time() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Into::into)
}

/// Leaves out the cells that `--cells` does not name.
fn keep_cells(all: &mut [Asked], cells: &str) -> Result<(), Failure> {
    let wrong = |why: String| Failure::usage(format!("--cells {cells}: {why}"));
    let want = "write an axis and its choices, such as trace=highwayGold,rapidGold";
    let (key, names) = cells
        .split_once('=')
        .ok_or_else(|| wrong(want.to_owned()))?;
    let names: Vec<&str> = names.split(',').collect();
    let axes = || all.iter().flat_map(|one| &one.plan.axes);
    if !axes().any(|axis| axis == key) {
        let known: std::collections::BTreeSet<&String> = axes().collect();
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

/// The rows that a comparison measured.
fn live(file: &Path) -> Result<Vec<Row>, Failure> {
    #[derive(serde::Deserialize)]
    struct Compared {
        flows: Vec<Row>,
    }
    let wrong = |why: String| {
        Failure::usage(format!(
            "--live {}: {why}: give the results.json that 'alcc compare --emu' wrote",
            file.display()
        ))
    };
    let text = fs::read_to_string(file).map_err(|e| wrong(reason(&e)))?;
    let compared: Compared = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    Ok(compared.flows)
}

/// Runs the board, and writes it into a folder.
fn board(
    runner: &Runner<'_>,
    files: &ScenarioFolder,
    out: &Path,
    live: Option<Vec<Row>>,
    into: &Path,
) -> Result<ExitCode, Failure> {
    let schemes = board::schemes(runner.registry);
    let mut bar = Bar::new();
    let provenance = provenance();
    let mut board = Board {
        by: provenance.by,
        on: provenance.on,
        ..Board::default()
    };
    for (number, kind) in Kind::SIMULATED.into_iter().enumerate() {
        let definition = kind.definition(&schemes).map_err(Failure::usage)?;
        let plan = Plan::new(&definition).map_err(Failure::usage)?;
        let id = format!("board-{}", kind.name());
        let part = |done: usize| number as f64 + done as f64 / plan.runs.len().max(1) as f64;
        let runs = simulate(runner, &id, &plan, out, &mut |done, first| {
            if first {
                bar.skip((part(done) - part(0)) / Kind::SIMULATED.len() as f64);
            }
            bar.show(part(done) / Kind::SIMULATED.len() as f64, &id);
        })?;
        let runs = runs.map_err(|error| match error {
            RunError::MissingTrace(what) => Failure::usage(format!(
                "the board needs the trace {what}: give --traces; docs/traces.md says where the traces are"
            )),
            other => Failure::usage(format!("the board: {other:?}")),
        })?;
        board.starts = definition.starts;
        board.traces.extend(traces(plan.runs.iter(), files));
        if let Some(text) = kind.toml() {
            let hash = alcc_lab::hash_of_text(text);
            board.definitions.insert(kind.name().to_owned(), hash);
        }
        board.cells.extend(board::cells(kind, &runs));
    }
    drop(bar);
    match live {
        Some(live) => board.cells.extend(board::live(&live)),
        // It takes a quiet machine: what is stored stays.
        None => {
            let stored = fs::read_to_string(into.join("board.json"));
            if let Some(stored) = stored.ok().and_then(|text| Board::from_json(&text).ok()) {
                board.keep_live(stored);
            }
        }
    }
    write(
        into,
        "board.json",
        &board.to_json().map_err(Failure::failed)?,
    )?;
    let page = board.page().map_err(Failure::failed)?;
    write(into, "board.md", &page)?;
    print(format_args!(
        "The default that follows: {}\nThe page: {}\n",
        board.default_algorithm().unwrap_or("none"),
        into.join("board.md").display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The stored and new runs of one experiment, or what is missing for them. `progress` is told how
/// many there are, and whether it is the first time: those are of an earlier command.
pub(super) fn simulate(
    runner: &Runner<'_>,
    id: &str,
    plan: &Plan,
    out: &Path,
    progress: &mut dyn FnMut(usize, bool),
) -> Result<Result<Vec<Run>, RunError>, Failure> {
    let path = out.join(format!("{id}.runs.jsonl"));
    let wrong =
        |e: std::io::Error| Failure::usage(format!("write {}: {}", path.display(), reason(&e)));
    let stored = match File::open(&path) {
        Ok(file) => StoredRuns::read(file, runner.version).map_err(wrong)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => StoredRuns::default(),
        Err(e) => return Err(wrong(e)),
    };
    let options = OpenOptions::new().create(true).append(true).open(&path);
    let mut store = options.map_err(wrong)?;
    let mut first = true;
    let runs = runner.run(plan, stored, &mut store, &mut |done, _| {
        progress(done, std::mem::take(&mut first));
    });
    match runs {
        Err(RunError::Interrupted) => Err(Failure::failed(format!(
            "{id}: stopped: the same command goes on where it was"
        ))),
        Err(RunError::InvalidExperiment(why)) => Err(Failure::usage(why)),
        Err(RunError::Storage(why)) => Err(Failure::failed(format!(
            "write into {}: {why}",
            out.display()
        ))),
        runs => Ok(runs),
    }
}

/// The recorded traces that runs are over: name and SHA-256.
fn traces<'a>(
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
                let hash = alcc_lab::hash_of_files([path.as_path()]);
                traces.insert(value.text.clone(), hash);
            }
        });
    }
    traces
}

/// What is stored of all of them.
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
pub(super) fn write(out: &Path, name: &str, text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let path = out.join(name);
    fs::write(&path, text.as_ref())
        .map_err(|e| Failure::failed(format!("write {}: {}", path.display(), reason(&e))))
}

/// Writes the data of an experiment beside its page.
pub(super) fn write_table(
    out: &Path,
    id: &str,
    definition: &Definition,
    runs: &[Run],
) -> Result<(), Failure> {
    let table = Table::new(definition, runs);
    write(out, &format!("{id}.csv"), table.csv())?;
    let parquet = table.parquet().map_err(Failure::failed)?;
    write(out, &format!("{id}.parquet"), parquet)
}

fn write_pages(
    all: &[Asked],
    judged: &[Judgement],
    out: &Path,
    provenance: &Provenance,
) -> Result<(), Failure> {
    let write = |name: &str, text: &str| write(out, name, text);
    let none = Vec::new();
    let pages: Vec<ExperimentView<'_>> = all
        .iter()
        .zip(judged)
        .map(|(one, judged)| ExperimentView {
            definition: &one.definition,
            readme: &one.readme,
            judged,
            runs: one.runs.as_ref().unwrap_or(&none),
            took: one.took,
        })
        .collect();
    for shown in &pages {
        let id = &shown.judged.id;
        let html = page::experiment(shown, provenance).map_err(Failure::failed)?;
        write(&format!("{id}.html"), &html)?;
        write_table(out, id, shown.definition, shown.runs)?;
    }
    write("index.html", &page::index(&pages, provenance))
}

fn table(judged: &[Judgement], out: &Path) -> String {
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
        "{:<width$} {:<17} {:>9} {:>9}  why",
        "experiment", "verdict", "published", "here"
    );
    for one in judged {
        let _ = writeln!(
            text,
            "{:<width$} {:<17} {:>9} {:>9}  {}",
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
