// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab worst`: a search for the scenarios in which an algorithm is worst.
use super::compare::{command_line, failure};
use super::reproduce::{program, simulate};
use crate::about::about;
use crate::failure::Failure;
use crate::output::{alone_in, folder, print};
use crate::plugin_arg::Plugins;
use crate::progress::{Bar, stop_flag};
use alcc_experiment::run::{Runner, Side};
use alcc_experiment::worst::{self, Cell, Drawn, Fault, Grid, Judged};
use alcc_experiment::{Plan, Run};
use alcc_files::ScenarioFolder;
use alcc_live::board::aligned;
use alcc_live::parallel::processors;
use alcc_results::{About, SIMULATED};
use alcc_sim::{FlowSpec, Timing};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

/// Names of the stored runs: of the references, and of the judged algorithms.
const REFERENCES: &str = "references";
const JUDGED: &str = "judged";

/// Search random scenarios for those in which an algorithm is worse than both BBR and Cubic
#[derive(clap::Args)]
#[command(
    after_help = "Examples:
  alcc-lab worst 0..499
  alcc-lab worst 0..199 --crowd --cc budget --cc copa --out searched
  alcc-lab worst 17 --shrink 1

The same number always gives the same scenario. See --help for the bounds of 'worse'.",
    after_long_help = "Examples:
  alcc-lab worst 0..499
  alcc-lab worst 0..199 --crowd --cc budget --cc copa --out searched
  alcc-lab worst 17 --shrink 1
  alcc-lab worst --table route,persistent --out bounds

The same number always gives the same scenario. With --out, the same command continues an
interrupted search. Runs of BBR and Cubic are kept there for later versions of the program: delete
the folder references.runs if anything besides the judged algorithms has changed.

An algorithm is worse if, compared with both BBR and Cubic (x), one of these holds:
  goodput of all flows < 0.85 x, p95 of the queueing delay > 1.2 x + 20 ms,
  loss > 1.5 x + 1 point, completion time > 1.15 x;
  harm to other traffic: goodput of a TCP flow < 0.8 x, loss of UDP > 1.5 x + 1 point,
  completion time of short flows > 1.25 x;
  with --crowd: Jain's index < 0.85 x, smallest share < 0.5 x."
)]
pub(crate) struct Args {
    /// Numbers of the scenarios, both ends included
    #[arg(value_name = "FROM..TO", required_unless_present = "table")]
    numbers: Option<Numbers>,
    /// Run fixed grids of scenarios around known faults instead, each with a bound
    #[arg(
        long,
        value_name = "GRID",
        value_delimiter = ',',
        value_parser = worst::Grid::ALL.map(|(name, _)| name),
        conflicts_with_all = ["numbers", "crowd", "shrink"]
    )]
    table: Vec<String>,
    /// Scenarios with 2 to 20 flows of the algorithm and no other traffic
    #[arg(long)]
    crowd: bool,
    /// Algorithm to judge; may be repeated [default: budget]
    #[arg(long, value_name = "ALGORITHM")]
    cc: Vec<String>,
    /// Seed of the simulations; the scenarios stay the same
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of findings of each kind to list
    #[arg(long, value_name = "N", default_value_t = 12)]
    list: usize,
    /// Number of findings of each kind to reduce to the fewest parts that still show the fault
    #[arg(long, value_name = "N", default_value_t = 0)]
    shrink: usize,
    /// Folder that keeps the finished runs, to continue from
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of parallel simulations [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    plugins: Plugins,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// `FROM..TO` or one number.
#[derive(Clone, Copy)]
struct Numbers {
    from: u64,
    to: u64,
}

/// Maximum number of scenarios of one search.
const MAX_SCENARIOS: u64 = 100_000;

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
        match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to && to - from < MAX_SCENARIOS => {
                Ok(Self { from, to })
            }
            _ => Err(format!(
                "want one number or two, the smaller first, such as 0..499, at most {MAX_SCENARIOS} scenarios"
            )),
        }
    }
}

/// A finding, reduced to fewer parts.
#[derive(serde::Serialize)]
struct Shrunk {
    algorithm: String,
    fault: Fault,
    number: u64,
    command: String,
}

/// Runs plans with a progress bar.
struct Search<'a> {
    runner: Runner<'a>,
    bar: Bar,
}

impl Search<'_> {
    fn all(&mut self, plan: &Plan, args: &Args, name: &str) -> Result<Vec<Run>, Failure> {
        let (runner, bar) = (&self.runner, &mut self.bar);
        let mut show = |done: usize| {
            bar.show(done as f64 / plan.runs.len().max(1) as f64, name);
        };
        let runs = match &args.out {
            Some(out) => simulate(runner, name, plan, out, &mut |done, _| show(done))?,
            None => runner.run(plan, None, &mut show),
        };
        runs.map_err(failure)
    }

    /// Removes parts of `drawn` as long as `algorithm` still shows `fault`.
    fn shrink(
        &self,
        mut drawn: Drawn,
        algorithm: &str,
        fault: Fault,
        seed: u64,
    ) -> Result<Drawn, Failure> {
        let judged = [algorithm.to_owned()];
        let all = with_references(&judged);
        loop {
            let mut simpler = None;
            for less in drawn.simpler() {
                let plan = worst::plan(std::slice::from_ref(&less), &all, seed);
                let plan = plan.map_err(Failure::usage)?;
                let runs = self.runner.run(&plan, None, &mut |_| {}).map_err(failure)?;
                let judged = worst::judge(std::slice::from_ref(&less), &runs, &judged);
                if judged[0].found.iter().any(|finding| finding.fault == fault) {
                    simpler = Some(less);
                    break;
                }
            }
            match simpler {
                Some(less) => drawn = less,
                None => return Ok(drawn),
            }
        }
    }
}

fn references() -> Vec<String> {
    let all = worst::REFERENCES.iter().chain([&worst::BESIDE]);
    all.map(|name| (*name).to_owned()).collect()
}

/// The judged algorithms and those that they are compared with.
fn with_references(judged: &[String]) -> Vec<String> {
    let compared = worst::REFERENCES.iter().map(|name| (*name).to_owned());
    let more = compared.filter(|name| !judged.contains(name));
    judged.iter().cloned().chain(more).collect()
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let draw = if args.crowd {
        worst::crowd
    } else {
        worst::single
    };
    let mut grids = Vec::new();
    let mut scenarios = match args.numbers {
        Some(numbers) => (numbers.from..=numbers.to).map(draw).collect(),
        None => Vec::new(),
    };
    for (_, grid) in Grid::ALL
        .iter()
        .filter(|(name, _)| args.table.iter().any(|n| n == name))
    {
        let cells = grid.scenarios(scenarios.len() as u64);
        scenarios.extend(cells.iter().cloned());
        grids.push((*grid, cells));
    }
    let mut judged = args.cc.clone();
    if judged.is_empty() {
        judged.push("budget".to_owned());
    }
    let references = references();
    let mut seen = Vec::new();
    judged.retain(|name| {
        let is_new = !seen.contains(name) && !references.contains(name);
        seen.push(name.clone());
        is_new
    });
    let registry = args.plugins.registry(crate::algorithms())?;
    for name in &judged {
        FlowSpec::parse(name, &registry, Timing::default())
            .map_err(|why| Failure::usage(format!("--cc: {why}")))?;
    }
    let plan = |names: &[String]| worst::plan(&scenarios, names, args.seed).map_err(Failure::usage);
    let (judged_plan, reference_plan) = (plan(&judged)?, plan(&references)?);
    let _alone = match &args.out {
        None => None,
        Some(out) => {
            folder(out)?;
            Some(alone_in(out)?)
        }
    };
    let stop = stop_flag()?;
    let mut search = Search {
        runner: Runner {
            registry: &registry,
            files: &ScenarioFolder::default(),
            version: &program(&args.plugins)?,
            workers: (args.jobs).map_or_else(processors, usize::from),
            stop: &stop,
            side: Side::Simulated,
        },
        bar: Bar::new(),
    };
    let mut runs = search.all(&judged_plan, args, JUDGED)?;
    // Not the bytes of the program: they change with each judged algorithm.
    let version = search.runner.version;
    search.runner.version = concat!("alcc ", env!("CARGO_PKG_VERSION"), " ", "references");
    runs.extend(search.all(&reference_plan, args, REFERENCES)?);
    search.runner.version = version;
    if !grids.is_empty() {
        drop(search);
        let cells = grids.iter().flat_map(|(grid, cells)| {
            let of = |name: &String| grid.judge(cells, &runs, name);
            judged.iter().flat_map(of).collect::<Vec<_>>()
        });
        return bounds(&cells.collect::<Vec<_>>(), args, scenarios.len());
    }
    judged.extend(references);
    let all = worst::judge(&scenarios, &runs, &judged);
    let mut shrunk = Vec::new();
    // Those that were asked for: the references are not.
    for judged in all.iter().filter(|judged| seen.contains(&judged.algorithm)) {
        for same in judged.found.chunk_by(|a, b| a.fault == b.fault) {
            for finding in same.iter().take(args.shrink) {
                let fewest = search.shrink(
                    draw(finding.number),
                    &judged.algorithm,
                    finding.fault,
                    args.seed,
                )?;
                let one = [judged.algorithm.clone()];
                let plan = worst::plan(&[fewest], &one, args.seed).map_err(Failure::usage)?;
                shrunk.push(Shrunk {
                    algorithm: judged.algorithm.clone(),
                    fault: finding.fault,
                    number: finding.number,
                    command: plan.runs[0].command.clone(),
                });
            }
        }
    }
    drop(search);
    if args.json {
        let json = serde_json::json!({
            "about": metadata(args, scenarios.len()),
            "scenarios": scenarios.len(),
            "from": args.numbers.map(|numbers| numbers.from),
            "crowd": args.crowd,
            "seed": args.seed,
            "algorithms": all,
            "shrunk": shrunk,
        });
        print(format_args!("{json}\n"))?;
    } else {
        print(text(&all, &shrunk, &seen, args, scenarios.len()))?;
    }
    let failed = all
        .iter()
        .any(|judged| judged.counts[Fault::Error.name()] > 0);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn metadata(args: &Args, scenarios: usize) -> About {
    let side = About {
        mode: SIMULATED.to_owned(),
        link: format!("{scenarios} scenarios"),
        seed: args.seed,
        ..About::default()
    };
    about(command_line(), side, args.plugins.files())
}

/// Prints the grids: how many bounds hold, and the scenarios that miss one.
fn bounds(cells: &[Cell], args: &Args, scenarios: usize) -> Result<ExitCode, Failure> {
    if args.json {
        let about = metadata(args, scenarios);
        let json = serde_json::json!({ "about": about, "table": cells });
        print(format_args!("{json}\n"))?;
    } else {
        let mut text = String::new();
        for same in cells.chunk_by(|a, b| (a.grid, &a.algorithm) == (b.grid, &b.algorithm)) {
            let missed = || same.iter().filter(|cell| !cell.holds());
            let named = Grid::ALL.iter().find(|(_, grid)| *grid == same[0].grid);
            let name = named.map_or("", |(name, _)| name);
            let (n, of) = (missed().count(), same.len());
            let _ = writeln!(
                text,
                "{name}: {}: {n} of {of} miss a bound",
                same[0].algorithm
            );
            for cell in missed() {
                for check in cell.checks.iter().filter(|check| !check.holds) {
                    let _ = writeln!(
                        text,
                        "  {} {:.2}, bound {:.2}",
                        check.what, check.value, check.bound
                    );
                }
                if let Some(why) = &cell.error {
                    let _ = writeln!(text, "  {why}");
                }
                let _ = writeln!(text, "    {}", cell.command);
            }
        }
        print(text)?;
    }
    let failed = cells.iter().any(|cell| cell.error.is_some());
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn text(all: &[Judged], shrunk: &[Shrunk], asked: &[String], args: &Args, n: usize) -> String {
    let single = [Fault::Jain, Fault::Least];
    let crowd = [Fault::Harm, Fault::Completion];
    let hidden = if args.crowd { crowd } else { single };
    let shown = || Fault::ALL.iter().filter(|fault| !hidden.contains(fault));
    let mut head = vec![format!("worse than both, of {n}")];
    head.extend(shown().map(|fault| fault.name().to_owned()));
    let mut lines = vec![head];
    for judged in all {
        let counts = shown().map(|fault| judged.counts[fault.name()].to_string());
        lines.push(
            std::iter::once(judged.algorithm.clone())
                .chain(counts)
                .collect(),
        );
    }
    let mut text = aligned(&lines, 1);
    if let Some(first) = all.iter().find_map(|judged| judged.alone.as_ref()) {
        let head = [
            format!("alone, {}", first.scenarios),
            "goodput of the best".to_owned(),
            "5th percentile".to_owned(),
            "queue ms".to_owned(),
            "loss %".to_owned(),
        ];
        let mut lines = vec![head.to_vec()];
        for judged in all {
            let Some(alone) = &judged.alone else { continue };
            lines.push(vec![
                judged.algorithm.clone(),
                format!("{:.3}", alone.share_mean),
                format!("{:.2}", alone.share_p5),
                format!("{:.1}", alone.queue_ms),
                format!("{:.2}", 100.0 * alone.loss),
            ]);
        }
        text.push('\n');
        text += &aligned(&lines, 1);
    }
    for judged in all {
        if let Some((below, of)) = judged.below_both {
            let _ = writeln!(
                text,
                "\n{}: below nine tenths of the lesser of both alone in {below} of {of}",
                judged.algorithm
            );
        }
    }
    for judged in all
        .iter()
        .filter(|judged| asked.contains(&judged.algorithm))
    {
        for same in judged.found.chunk_by(|a, b| a.fault == b.fault) {
            let fault = same[0].fault.name();
            let _ = writeln!(text, "\n{}: {fault}, {}", judged.algorithm, same.len());
            // An error is never left out.
            let most = if same[0].error.is_some() {
                same.len()
            } else {
                args.list
            };
            for finding in same.iter().take(most) {
                let figures = finding.figures.iter();
                let figures: Vec<String> = figures
                    .map(|(name, value)| format!("{name} {value:.3}"))
                    .collect();
                let what = finding.error.clone().unwrap_or_else(|| figures.join(", "));
                let kinds = finding.kinds.join(",");
                let _ = writeln!(
                    text,
                    "  {:.2} #{} [{kinds}] {what}\n    {}",
                    finding.by, finding.number, finding.command
                );
            }
        }
    }
    if !shrunk.is_empty() {
        text += "\nThe fewest parts that still show it:\n";
    }
    for one in shrunk {
        let fault = one.fault.name();
        let _ = writeln!(
            text,
            "  {}: {fault} #{}\n    {}",
            one.algorithm, one.number, one.command
        );
    }
    text
}
