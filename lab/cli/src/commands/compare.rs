// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::study::Study;
use crate::commands::emulate::processes::Processes;
use crate::commands::read_text;
use crate::failure::{Failure, reason};
use crate::figure_arg::Figure;
use crate::output::{alone_in, folder, note, print, will_be_written};
use crate::plugin_arg::Plugins;
use crate::progress::{Bar, stop_flag};
use alcc_cc::Registry;
use alcc_experiment::plan::shell_word;
use alcc_live::board::{self, Backend, Plan};
use alcc_live::truth::{self, Reference, Runner, Traces};
use alcc_live::{LabError, Results, Scheme, Side, Tools, pairs, parts, twin};
use alcc_results::scenario::StudyOptions;
use alcc_sim::FLOW_HELP;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  alcc-lab compare --sim --traces traces --schemes cubic,verus:r=4,profile=paper,copa/over=cubic --runs 3
  alcc-lab compare --sim --traces synth:lte,synth:rapid 12mbit --schemes bbr,budget:delay=40ms/over=cubic --csv out.csv
  alcc-lab compare --sim --traces lte --schemes cubic,budget --rtt 20ms,80ms --queue droptail:packets=100,codel --runs 5
  alcc-lab compare study.toml --runs 5      # options overrule the file
  alcc-lab compare --emu --traces traces/alcc --schemes cubic,bbr,verus/over=cubic,copa/over=cubic --runs 3
  alcc-lab compare --sim --traces 20mbit --schemes 6*cubic/stagger=103.3ms,6*budget/stagger=103.3ms,budget+cubic,budget+bbr@10s --runs 5
  alcc-lab compare --sim --traces 60mbit --schemes budget/rtt=40ms+budget/rtt=50ms+budget/rtt=100ms --rtt 40ms --runs 5
  alcc-lab compare --sim --traces lte --schemes cubic,bbr,budget/over=cubic --runs 5 --figure lte.svg --panels plane,distribution
  alcc-lab compare --sim --traces traces --reference lab/notes/truth.csv
  alcc-lab compare --sim --emu --traces traces/alcc/CampusWalk --schemes cubic,reno,verus/over=cubic,copa/over=cubic
  alcc-lab compare --emu --traces traces/alcc --schemes verus/transport=udp,verus/over=cubic,cubic --runs 5
  alcc-lab compare --emu --native --traces traces/alcc/highwayGold traces/alcc/rapidGold --runs 5

A STUDY.toml has the names of the options as keys, and lists; traces are looked for beside it first. Without --emu it runs in the simulator:
  traces = [\"walk.down\", \"12mbit\"]
  schemes = [\"cubic\", \"verus:r=4/over=cubic\"]
  rtt = [\"20ms\", \"80ms\"]
  cross = \"2*cubic@10s\"

Of several flows the row is of all of them, and says how they shared: Jain's index of single seconds and the smallest share that one had over 10 s (both after --settle), and after what time the slowest had 80 % of an equal share. results.json gives each flow's throughput for every phase, that is, between two starts or stops. A flow's own rtt= must be at least --rtt.

With --emu A/over=CC is nginx under alcc run, and a transport= is between alcc send and alcc recv. All flows of a scheme are on one emulated link: their round trip is the link's, and they have data without end.
All schemes of a trace run at the same time on links of their own. With native ones (A/transport=udp) only the forms of one algorithm do, and a table says how far each is from its native form, run by run, and whether that is near enough (median throughput 3 %, median queueing delay 5 % or 2 ms). native.md has the tables.

--out keeps every finished run in its folder runs/: an interrupted comparison, started again with the same arguments, goes on where it was.
Simulated runs stay there and are done again only when the arguments or the program change.";

/// Compare schemes on traces: each trace, all schemes, several times, in the simulator or with real
/// TCP in the emulator
///
/// Prints a table per trace and one over all: utilization, throughput, delay, power and the
/// application's delay. The values are medians of the repetitions, with the smallest and largest. A
/// mark says who is on the Pareto front. Writes a report, CSV and JSON files.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{FLOW_HELP}"), group = clap::ArgGroup::new("place").required(true).multiple(true).args(["sim", "emu", "study"]))]
pub(crate) struct Args {
    /// What to compare; options overrule it
    #[arg(value_name = "STUDY.toml")]
    study: Option<PathBuf>,
    /// In the simulator, several runs at a time; the results do not depend on the machine
    #[arg(long)]
    sim: bool,
    /// In the emulator, with real programs and the kernel's TCP. All schemes of a trace run beside
    /// each other. With --sim too: also the simulated twin of every run, and how far the two are
    /// apart
    #[arg(long)]
    emu: bool,
    /// Trace files in Mahimahi's format, folders of them and of folders, synthetic scenarios
    /// (synth:city-driving), rates (12mbit); may be repeated
    #[arg(long, visible_alias = "link", value_name = "DIR|FILE", required_unless_present = "study", num_args = 1.., env = "ALCC_TRACES")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    options: StudyOptions,
    /// With --emu: instead of SCHEMES, these algorithms' native forms and beside them those above
    /// TCP: A/transport=udp, A/over=CC, and that with transport=in-band, plain and with carrier=tls
    #[arg(long, value_name = "A,B", num_args = 0..=1, require_equals = true, default_missing_value = "verus,copa,sprout",
        requires = "emu", conflicts_with_all = ["schemes", "reference", "tuned"])]
    native: Option<String>,
    /// With --native: the kernel's congestion control below
    #[arg(
        long,
        value_name = "TCPCC",
        default_value = "cubic",
        requires = "native"
    )]
    under: String,
    #[command(flatten)]
    plugins: Plugins,
    /// With --sim: runs at the same time [default: one per processor]
    #[arg(long, value_name = "N", conflicts_with = "emu", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Folder for finished runs and the report: report.html, results.json, flows.csv (every run),
    /// board.csv (the table), board.svg (the picture), native.md (native forms and those beside
    /// them)
    #[arg(long, value_name = "DIR", default_value = "out/compare")]
    out: PathBuf,
    /// Also write every run as a line of this CSV file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    figure: Figure,
    /// With --emu: folder for the runtime's readings of every controlled connection, as CSV
    #[arg(long, value_name = "DIR", requires = "emu")]
    log: Option<PathBuf>,
    /// With --sim: instead of comparing schemes, compare the simulator with the published figures
    /// of this file (lab/notes/truth.csv). The file says which scenarios, --traces where their traces
    /// are
    #[arg(long, value_name = "FILE", conflicts_with_all = ["emu", "schemes", "csv", "figure", "json"])]
    reference: Option<PathBuf>,
    /// With --sim: instead of comparing schemes, set each of these algorithms' tuned profile beside
    /// its original one on every trace
    #[arg(long, value_name = "A,B", conflicts_with_all = ["emu", "schemes", "csv", "figure", "json", "reference"])]
    tuned: Option<String>,
    /// With --reference: only lines whose set, link or flow contains this
    #[arg(
        long,
        value_name = "TEXT",
        requires = "reference",
        conflicts_with = "schemes"
    )]
    only: Option<String>,
    /// With several repetitions show the median with its range, or the mean with its 95 % confidence
    /// interval: range or ci95
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "range",
        conflicts_with = "json"
    )]
    interval: board::Interval,
    /// Print one JSON object instead of the tables
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
        args.interval,
    )
}

/// The simulator beside published figures: tables on standard output.
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

/// Tuned profiles beside the original ones: a table on standard output.
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
        progress: &mut |done, of| {
            let text = format!("{done} of {of} scenarios");
            bar.show(done as f64 / of as f64, &text);
        },
    };
    run(runner).map_err(failure)
}

pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Measures, writes the files, prints. Before any thread is started it gets the right to make
/// namespaces, if that is needed.
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
    if let Backend::Emulated { log, .. } = &plan.backend {
        log.as_deref().map_or(Ok(()), folder)?;
        for scheme in &plan.schemes {
            scheme.kernel().map_or(Ok(()), alcc_pipe::check_under)?;
        }
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

/// For people, who have been `told` the first notes already.
fn text(
    results: &Results,
    interval: board::Interval,
    told: usize,
    out: &Path,
    page: &Path,
) -> String {
    let mut text = board::table(results, interval);
    if !results.summary.twins.is_empty() {
        let _ = writeln!(text, "\n{}", twin::table(&results.summary.twins));
    }
    if !results.summary.pairs.is_empty() {
        let _ = writeln!(text, "\n{}", pairs::table(&results.summary.pairs));
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

/// Status 1 and one line if any run failed.
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

/// The program `alcc`, for servers under an algorithm: beside this one, else on the PATH.
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

/// The command line, without what says only how fast to work and where to put the result.
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
