// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab compare`: schemes on traces, simulated or emulated.
use super::study::{SCHEMES, Study};
use crate::commands::emulate::processes::Processes;
use crate::commands::read_text;
use crate::failure::{Failure, reason};
use crate::figure_arg::Figure;
use crate::interval_arg::Interval;
use crate::output::{alone_in, folder, note, print, will_be_written};
use crate::plugin_arg::Plugins;
use crate::progress::{Bar, stop_flag};
use alcc_cc::Registry;
use alcc_experiment::plan::shell_word;
use alcc_live::board::{self, Backend, Plan};
use alcc_live::parallel::processors;
use alcc_live::truth::{self, Reference, Runner, Traces};
use alcc_live::{LabError, Results, Scheme, Side, Tools, pairs, parts, twin};
use alcc_results::scenario::StudyOptions;
use alcc_sim::FLOW_HELP;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SHORT: &str = "Examples:
  alcc-lab compare --sim --traces lte 12mbit --schemes bbr,budget:delay=40ms/over=cubic
  alcc-lab compare --emu --traces lte --schemes cubic,budget/over=cubic --runs 3";

const EXAMPLES: &str = "Examples:
  alcc-lab compare --sim --traces traces --schemes cubic,verus:r=4,profile=paper,copa/over=cubic --runs 3
  alcc-lab compare --sim --traces synth:lte,synth:rapid 12mbit --schemes bbr,budget:delay=40ms/over=cubic --csv out.csv
  alcc-lab compare --sim --traces lte --schemes cubic,budget --rtt 20ms,80ms --queue droptail:packets=100,codel --runs 5
  alcc-lab compare study.toml --runs 5      # options override the file
  alcc-lab compare --emu --traces traces/alcc --schemes cubic,bbr,verus/over=cubic,copa/over=cubic --runs 3
  alcc-lab compare --sim --traces 20mbit --schemes 6*cubic/stagger=103.3ms,6*budget/stagger=103.3ms,budget+cubic,budget+bbr@10s --runs 5
  alcc-lab compare --sim --traces 60mbit --schemes budget/rtt=40ms+budget/rtt=50ms+budget/rtt=100ms --rtt 40ms --runs 5
  alcc-lab compare --sim --traces lte --schemes cubic,bbr,budget/over=cubic --runs 5 --figure lte.svg --panels plane,distribution
  alcc-lab compare --sim --traces traces --reference lab/notes/truth.csv
  alcc-lab compare --sim --emu --traces traces/alcc/CampusWalk --schemes cubic,reno,verus/over=cubic,copa/over=cubic
  alcc-lab compare --emu --traces traces/alcc --schemes verus/transport=udp,verus/over=cubic,cubic --runs 5
  alcc-lab compare --emu --native --traces traces/alcc/highwayGold traces/alcc/rapidGold --runs 5

The keys of a STUDY.toml are the names of the options; a value may be a list. Traces are searched for in the file's folder first. Without --emu, the study is simulated:
  traces = [\"walk.down\", \"12mbit\"]
  schemes = [\"cubic\", \"verus:r=4/over=cubic\"]
  rtt = [\"20ms\", \"80ms\"]
  cross = \"2*cubic@10s\"

A row of several flows is of all of them together. It shows their fairness: Jain's index of single seconds, the smallest share of a flow over 10 s (both after --settle), and the time until the slowest flow has 80 % of an equal share. results.json has each flow's throughput in every phase (between two starts or stops). A flow's own rtt= must be at least --rtt.

With --emu, A/over=CC is nginx under alcc run, and a transport= is between alcc send and alcc recv. All flows of a scheme share one emulated link: they have the link's round-trip time, and data without end.
All schemes of a trace run at the same time, each on its own link. With native algorithms (A/transport=udp, without a TCP below), only the forms of one algorithm run at the same time, and a table shows each run's distance from the native form and whether it is within the bounds (median throughput 3 %, median queueing delay 5 % or 2 ms). native.md has the tables.

--out keeps every finished run in its folder runs/: the same command continues an interrupted comparison.
Simulated runs stay there and are repeated only if the arguments or the program change.";

/// Default schemes and a pointer to the long help, after the short help's examples.
fn short_help() -> String {
    format!(
        "{SHORT}\n\nDefault of --schemes: {SCHEMES}\nSee --help for all options, the syntax of FLOW and STUDY.toml."
    )
}

/// Examples, default schemes and the syntax of FLOW.
fn long_help() -> String {
    format!("{EXAMPLES}\n\nDefault of --schemes: {SCHEMES}\n\n{FLOW_HELP}")
}

/// Compare congestion control on traces, simulated or with real programs
///
/// Runs each trace with all schemes, several times. Prints a table per trace and one over all:
/// utilization, throughput, delay, power (throughput / mean delay, Mbit/s per s) and the
/// application's delay. Values are medians of the repetitions, with the smallest and largest. A star
/// marks schemes on the Pareto front. Writes a report, CSV and JSON files.
#[derive(clap::Args)]
#[command(after_help = short_help(), after_long_help = long_help(), group = clap::ArgGroup::new("place").required(true).multiple(true).args(["sim", "emu", "study"]))]
pub(crate) struct Args {
    /// Study file; command-line options override it
    #[arg(value_name = "STUDY.toml")]
    study: Option<PathBuf>,
    /// Use the simulator; the results do not depend on the machine
    #[arg(long)]
    sim: bool,
    /// Use real programs and the kernel's TCP on emulated links
    ///
    /// All schemes of a trace run at the same time, each on its own link. With --sim too, every run
    /// is also simulated, and the differences are printed.
    #[arg(long)]
    emu: bool,
    /// Trace files or folders, synthetic scenarios, rates; may be repeated
    ///
    /// Trace files are in Mahimahi's format. Folders are searched with their subfolders. A synthetic
    /// scenario is a name such as city-driving or synth:city-driving, a rate is such as 12mbit.
    #[arg(long, visible_alias = "link", value_name = "DIR|FILE", required_unless_present = "study", num_args = 1.., env = "ALCC_TRACES")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    options: StudyOptions,
    /// Compare native algorithms, without a TCP below, with the same over TCP (with --emu)
    ///
    /// Instead of --schemes: for each algorithm its native form and all forms over TCP, that is,
    /// A/transport=udp, A/over=CC, and A/over=CC with transport=in-band, without and with
    /// carrier=tls.
    #[arg(long, hide_short_help = true, value_name = "A,B", num_args = 0..=1, require_equals = true, default_missing_value = "verus,copa,sprout",
        requires = "emu", conflicts_with_all = ["schemes", "reference", "tuned"])]
    native: Option<String>,
    /// With --native: the kernel's congestion control below the algorithms
    #[arg(
        long,
        hide_short_help = true,
        value_name = "TCPCC",
        default_value = "cubic",
        requires = "native"
    )]
    under: String,
    #[command(flatten)]
    plugins: Plugins,
    /// With --sim: number of parallel runs [default: number of cores]
    #[arg(long, value_name = "N", conflicts_with = "emu", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Folder for finished runs and the report
    ///
    /// Files of the report: report.html, results.json, flows.csv (every run), board.csv (the
    /// table), board.svg (the picture), and with --native native.md.
    #[arg(long, value_name = "DIR", default_value = "out/compare")]
    out: PathBuf,
    /// Also write a CSV file with one line per run
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    figure: Figure,
    /// With --emu: folder for the logs of 'alcc run' on every controlled connection, as CSV
    #[arg(long, hide_short_help = true, value_name = "DIR", requires = "emu")]
    log: Option<PathBuf>,
    /// With --sim: compare the simulator with the published figures in this file
    ///
    /// This is done instead of comparing schemes. The file (lab/notes/truth.csv) names the
    /// scenarios; --traces is the folder of their traces.
    #[arg(long, hide_short_help = true, value_name = "FILE", conflicts_with_all = ["emu", "schemes", "csv", "figure", "json"])]
    reference: Option<PathBuf>,
    /// With --sim: compare the tuned profile of these algorithms with the original one
    ///
    /// This is done on every trace, instead of comparing schemes.
    #[arg(long, hide_short_help = true, value_name = "A,B", conflicts_with_all = ["emu", "schemes", "csv", "figure", "json", "reference"])]
    tuned: Option<String>,
    /// With --reference: only lines whose set, link or flow contains this text
    #[arg(
        long,
        hide_short_help = true,
        value_name = "TEXT",
        requires = "reference",
        conflicts_with = "schemes"
    )]
    only: Option<String>,
    #[command(flatten)]
    statistics: Interval,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.emu
        && let Some(exit) = Processes::guard()?
    {
        return Ok(exit);
    }
    if let Some(file) = &args.reference {
        return beside_figures(args, file);
    }
    if let Some(algorithms) = &args.tuned {
        return beside_originals(args, algorithms);
    }
    let study = Study::of(args.study.as_deref(), &args.traces, &args.options)?;
    let found = study.links()?;
    let registry = args.plugins.registry(crate::algorithms())?;
    let sides: &[Side] = match (args.sim, args.emu) {
        (true, true) => &[Side::Emulated, Side::Simulated],
        (false, true) => &[Side::Emulated],
        (_, false) => &[Side::Simulated],
    };
    let native = args.native.as_deref();
    let schemes = match native {
        Some(algorithms) => {
            let algorithms = listed("--native", algorithms)?;
            let forms = Scheme::forms(algorithms.iter().map(String::as_str), &args.under);
            Scheme::list(&forms, &registry, sides).map_err(Failure::usage)?
        }
        None => study.schemes(&registry, sides)?,
    };
    let plugins = args.plugins.files();
    let backend = if !args.emu {
        Backend::Simulated {
            registry,
            plugins,
            workers: args.jobs.map_or_else(processors, usize::from),
            start: study.start.unwrap_or_default(),
        }
    } else if study.start.is_some() {
        return Err(Failure::usage(
            "start: real flows begin with the link: leave it out with --emu",
        ));
    } else {
        Backend::Emulated {
            tools: Tools {
                plugins,
                registry: registry.clone(),
                ..tools()?
            },
            log: args.log.clone(),
            twin: args.sim.then_some(registry),
        }
    };
    let notes = found.notes();
    let plan = Plan {
        links: found.links,
        schemes,
        duration: study.duration,
        settle: study.settle,
        runs: study.runs.unwrap_or(match (args.emu, native) {
            (_, Some(_)) => 5,
            (true, None) => 3,
            (false, None) => 1,
        }),
        backend,
        command: command_line(),
        keep: Some(args.out.clone()),
    };
    for said in &notes {
        note(format_args!("alcc-lab: {said}"));
    }
    carry_out(
        &plan,
        &notes,
        &args.out,
        args.csv.as_deref(),
        Some(&args.figure),
        args.json,
        args.statistics.interval,
    )
}

/// Prints tables that compare the simulator with published figures.
fn beside_figures(args: &Args, file: &Path) -> Result<ExitCode, Failure> {
    let wrong = |why: String| Failure::usage(format!("read {}: {why}", file.display()));
    let text = read_text(file).map_err(|e| wrong(reason(&e)))?;
    let mut references = Reference::read(&text).map_err(wrong)?;
    if let Some(only) = &args.only {
        references.retain(|r| [&r.set, &r.link, &r.flow].iter().any(|t| t.contains(only)));
    }
    let registry = args.plugins.registry(crate::algorithms())?;
    let cells = from_starts(args, &registry, |runner| runner.measure(references))?;
    print(truth::markdown(&cells))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a table that compares tuned profiles with the original ones.
fn beside_originals(args: &Args, algorithms: &str) -> Result<ExitCode, Failure> {
    let algorithms = listed("--tuned", algorithms)?;
    let registry = args.plugins.registry(crate::algorithms())?;
    for algorithm in &algorithms {
        for form in [algorithm.clone(), format!("{algorithm}:profile=original")] {
            registry
                .build(&form.parse().map_err(Failure::usage)?)
                .map_err(Failure::usage)?;
        }
    }
    let found = from_starts(args, &registry, |runner| runner.pairs(&algorithms))?;
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "--traces {}: there is no trace in it: name a folder of recorded traces",
            args.traces[0].display()
        )));
    }
    print(truth::markdown_of_pairs(&found))?;
    Ok(ExitCode::SUCCESS)
}

/// The algorithms that an option lists.
fn listed(option: &str, algorithms: &str) -> Result<Vec<String>, Failure> {
    parts(algorithms, "name")
        .map_err(|why| Failure::usage(format!("{option} '{algorithms}': {why}")))
}

/// Scenarios from several starts, on the traces of one folder.
fn from_starts<T>(
    args: &Args,
    registry: &Registry,
    run: impl FnOnce(Runner<'_>) -> Result<T, LabError>,
) -> Result<T, Failure> {
    let [folder] = &args.traces[..] else {
        return Err(Failure::usage(
            "compare with figures or originals: --traces names several things: name one folder of traces",
        ));
    };
    let mut bar = Bar::new();
    let runner = Runner {
        traces: &Traces::below(folder).map_err(Failure::usage)?,
        registry,
        workers: args.jobs.map_or_else(processors, usize::from),
        stop: &*stop_flag()?,
        progress: &mut |done, of, part| bar.show(part, &format!("{done} of {of} runs")),
    };
    run(runner).map_err(failure)
}

/// Measures, writes the files, prints. For emulated links it first acquires the privilege to make
/// namespaces, which must be done before any thread starts.
pub(crate) fn carry_out(
    plan: &Plan,
    notes: &[String],
    out: &Path,
    csv: Option<&Path>,
    figure: Option<&Figure>,
    json: bool,
    interval: board::Interval,
) -> Result<ExitCode, Failure> {
    folder(out)?;
    let _alone = alone_in(out)?;
    csv.map_or(Ok(()), will_be_written)?;
    figure.map_or(Ok(()), Figure::check)?;
    let named = [("--csv", csv), ("--figure", figure.and_then(Figure::file))];
    for (option, file) in named {
        if let Some(file) = file.filter(|file| board::is_written(file, out)) {
            return Err(Failure::usage(format!(
                "{option} {}: the report in --out has a file of this name, and one of the two would be overwritten: choose another name",
                file.display()
            )));
        }
    }
    if let Backend::Emulated { .. } = &plan.backend {
        check_emulated(plan)?;
        alcc_emu::prepare().map_err(Failure::usage)?;
    }
    let stop = stop_flag()?;
    let mut bar = Bar::new();
    let mut done = 0;
    let mut of = 0;
    let measured = board::compare(plan, &stop, &mut |p| {
        (done, of) = (p.done, p.of);
        bar.show(
            p.part,
            &format!("run {} of {}  {}", (p.done + 1).min(p.of), p.of, p.what),
        );
    });
    drop(bar);
    let mut results = match measured {
        Err(LabError::Stopped) if plan.keep.is_some() && done > 0 => {
            return Err(Failure::failed(format!(
                "stopped: {done} of {of} runs are finished and kept in {}; the same command goes on from there",
                out.join("runs").display()
            )));
        }
        other => other.map_err(failure)?,
    };
    results.notes.splice(0..0, notes.iter().cloned());
    let page = board::write(&results, out).map_err(Failure::failed)?;
    if let Some(file) = csv {
        board::write_file(file, &alcc_results::csv(&results.flows)).map_err(Failure::failed)?;
        board::write_about(file, &results.about).map_err(Failure::failed)?;
    }
    figure.map_or(Ok(()), |figure| figure.write(&results))?;
    if json {
        let text = serde_json::to_string(&results).map_err(Failure::failed)?;
        print(format_args!("{text}\n"))?;
        note(format_args!("report: {}", page.display()));
    } else {
        print(text(&results, interval, notes.len(), out, &page))?;
    }
    failed_runs(&results)
}

/// Checks what emulated runs of this plan need before the first begins.
pub(crate) fn check_emulated(plan: &Plan) -> Result<(), Failure> {
    if let Backend::Emulated { log, .. } = &plan.backend {
        log.as_deref().map_or(Ok(()), folder)?;
    }
    let mut controls = plan.schemes.iter().filter_map(Scheme::kernel);
    controls.try_for_each(alcc_pipe::check_under)
}

/// The tables and notes for people. The first `told` notes have already been printed.
fn text(
    results: &Results,
    interval: board::Interval,
    told: usize,
    out: &Path,
    page: &Path,
) -> String {
    let mut text = board::table(results, interval);
    if !results.summary.twins.is_empty() {
        let _ = writeln!(text, "\n{}", twin::table(results));
    }
    if !results.summary.pairs.is_empty() {
        let _ = writeln!(text, "\n{}", pairs::table(results));
        let page = out.join(board::NATIVE);
        let _ = writeln!(text, "for the documentation: {}", page.display());
    }
    let _ = writeln!(text, "report: {}", page.display());
    for note in results.notes.iter().skip(told) {
        let _ = writeln!(text, "note: {note}");
    }
    if !results.summary.sentence.is_empty() {
        let _ = writeln!(text, "{}", results.summary.sentence);
    }
    text
}

/// Exit status 0, or an error of one line (status 1) if any run failed.
pub(crate) fn failed_runs(results: &Results) -> Result<ExitCode, Failure> {
    let failed: Vec<_> = results.flows.iter().filter(|f| f.error.is_some()).collect();
    let Some(first) = failed.first() else {
        return Ok(ExitCode::SUCCESS);
    };
    Err(Failure::failed(format!(
        "{} of {} runs failed; the first: {} on {}, run {}: {}",
        failed.len(),
        results.flows.len(),
        first.scheme,
        first.link,
        first.run,
        first.error.as_deref().unwrap_or_default()
    )))
}

pub(crate) fn failure(error: LabError) -> Failure {
    if error.is_environment() {
        Failure::usage(error)
    } else {
        Failure::failed(error)
    }
}

pub(crate) fn tools() -> Result<Tools, Failure> {
    Ok(Tools::new(product()?))
}

/// Path of the program `alcc`, which runs servers under an algorithm: in this program's folder, else
/// on the PATH.
fn product() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|e| {
        Failure::usage(format!(
            "find the folder of alcc-lab, where alcc is, too: {e}"
        ))
    })?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = own.parent().map(Path::to_owned);
    let mut places = beside.into_iter().chain(std::env::split_paths(&path));
    let found = places.find_map(|folder| Some(folder.join("alcc")).filter(|file| file.is_file()));
    found.ok_or_else(|| {
        Failure::usage(format!(
            "find the program 'alcc': it is neither beside {} nor on the PATH: install it, or run 'make build'",
            own.display()
        ))
    })
}

/// The command line, without options for parallelism and output files.
pub(crate) fn command_line() -> String {
    let mut words = vec!["alcc-lab".to_owned()];
    let given = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut given = given.skip(1);
    while let Some(word) = given.next() {
        let about_output = [
            "--jobs",
            "--out",
            "--csv",
            "--figure",
            "--panels",
            "--series",
            "--pcap",
            "--qlog",
            "--qlog-version",
            "--profile",
        ];
        if about_output.contains(&word.as_str()) {
            given.next();
        } else if word != "--json"
            && !about_output
                .iter()
                .any(|o| word.starts_with(&format!("{o}=")))
        {
            words.push(shell_word(&word));
        }
    }
    words.join(" ")
}
