// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab sweep`: a scenario with every combination of parameter values.
use super::reproduce::{PAGE_FILES, about, origin, program, simulate, write, write_table};
use crate::failure::Failure;
use crate::interval_arg;
use crate::output::{alone_in, folder, print, will_be_written};
use crate::plugin_arg::Plugins;
use crate::progress::{Bar, stop_flag};
use alcc_experiment::definition::{Aggregate, DEFAULT_RUNS, Report};
use alcc_experiment::judge::{number, value};
use alcc_experiment::run::{Runner, Side};
use alcc_experiment::table::Table;
use alcc_experiment::{Definition, Plan, Run, page, sweep};
use alcc_live::LabError;
use alcc_live::board::{Interval, aligned, statistics};
use alcc_live::parallel::processors;
use alcc_results::scenario::ScenarioOptions;
use alcc_results::{About, Row, SIMULATED};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Name of the page, the table and the stored runs.
const NAME: &str = "sweep";
const THROUGHPUT: &str = "throughput_mbps";
const GOODPUT: &str = "goodput_mbps";
const DELAY: &str = "queue_delay_mean_ms";

/// Simulate a scenario with every combination of parameter values
///
/// The results are drawn as figures and written as a table. If a sweep is interrupted, the same
/// command continues it: see docs/reproducing.md.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:
  alcc-lab sweep --link lte --flow 'budget:delay={delay}' --vary delay=10ms..100ms
  alcc-lab sweep --link lte --flow budget,copa --rtt 20ms,80ms --out swept

A list in an option is varied, too. See --help for all options and the syntax of VALUES.",
    after_long_help = "Examples:
  alcc-lab sweep --link lte --flow 'budget:delay={delay}' --vary delay=10ms..100ms
  alcc-lab sweep --link lte --flow budget,copa,verus:r=2 --rtt 20ms,80ms --x queue_delay_mean_ms
  alcc-lab sweep --link '{rate}' --flow cubic --flow budget --vary rate=1mbit..64mbit*2 --y jain --runs 5

A list in an option is varied, as in --rtt 20ms,80ms. A comma begins the next value unless
option=value follows it.
--vary NAME=VALUES replaces {NAME} in the scenario by each value, or sets key NAME if it is absent.
VALUES are a list (separated by commas, or by semicolons), FROM..TO (ten values), FROM..TO/STEP or
FROM..TO*FACTOR. Lists vary slowest, then the first --vary."
)]
pub(crate) struct Args {
    /// Scenario file; command-line options override it
    #[arg(value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    options: ScenarioOptions,
    /// Parameter and its values, such as delay=10ms..100ms; may be repeated
    #[arg(long, value_name = "NAME=VALUES")]
    vary: Vec<String>,
    /// Repetitions of each combination
    ///
    /// The first has --seed, each further one the next seed.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RUNS)]
    runs: u32,
    #[command(flatten)]
    statistics: interval_arg::Interval,
    /// Horizontal axis: a field of the results [default: the last --vary]
    #[arg(long, value_name = "METRIC")]
    x: Option<String>,
    /// Vertical axis: a field of the results, or jain; may be repeated [default: throughput, delay]
    ///
    /// docs/formats.md lists the fields. Also share, jain_1s, worst_share_10s and fair_after_s.
    /// Each is a figure.
    #[arg(long, value_name = "METRIC")]
    y: Vec<String>,
    /// Folder for page, table and results
    #[arg(long, value_name = "DIR", default_value = "swept")]
    out: PathBuf,
    /// Number of parallel simulations [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    plugins: Plugins,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    fn report(&self) -> Report {
        let standard = match self.x.as_deref() {
            Some(DELAY) => vec![THROUGHPUT.to_owned()],
            _ => vec![THROUGHPUT.to_owned(), DELAY.to_owned()],
        };
        Report {
            x: self.x.clone(),
            y: if self.y.is_empty() {
                standard
            } else {
                self.y.clone()
            },
            ..Report::default()
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (file, files) = match &args.scenario {
        None => Default::default(),
        Some(path) => alcc_files::read(path).map_err(Failure::usage)?,
    };
    let options = file.overridden_by(args.options.clone());
    let definition = sweep::definition(options, &args.vary, args.runs, args.report());
    let mut definition = definition.map_err(Failure::usage)?;
    let plan = Plan::new(&definition).map_err(Failure::usage)?;
    let registry = args.plugins.registry(crate::algorithms())?;
    if let Some(idle) = plan.idle(&registry, &files).into_iter().next() {
        return Err(Failure::usage(idle));
    }
    folder(&args.out)?;
    for end in PAGE_FILES {
        will_be_written(&args.out.join(format!("{NAME}.{end}")))?;
    }
    let _alone = alone_in(&args.out)?;
    let stop = stop_flag()?;
    let runner = Runner {
        registry: &registry,
        files: &files,
        version: &program(&args.plugins)?,
        workers: args.jobs.map_or_else(processors, usize::from),
        stop: &stop,
        side: Side::Simulated,
    };
    let mut bar = Bar::new();
    let runs = simulate(&runner, NAME, &plan, &args.out, &mut |done, first| {
        let part = done as f64 / plan.runs.len().max(1) as f64;
        if first {
            bar.skip(part);
        }
        bar.show(part, NAME);
    })?;
    drop(bar);
    let mut runs = runs.map_err(|unable| match unable {
        LabError::NoTrace(name) => Failure::usage(format!(
            "open the trace {name}: no such file beside the scenario or here, and no synthetic one: see 'alcc-lab list'"
        )),
        unable => Failure::usage(unable),
    })?;
    let given = args.scenario.iter().cloned().chain(args.plugins.files());
    let side = About {
        mode: SIMULATED.to_owned(),
        ..About::default()
    };
    let about = about(&plan.runs, side, &files, given);
    write_table(&args.out, NAME, &definition, &runs, &about)?;
    let json = args.json.then(|| {
        let flows: Vec<_> = Table::new(&definition, &runs).json().collect();
        serde_json::json!({ "about": about, "flows": flows, "sweep": runs, "summary": {} })
    });
    sweep::label(&mut definition, &mut runs);
    let folder = args.scenario.as_deref().and_then(Path::parent);
    let provenance = origin(folder)?;
    let html = page::sweep(&definition, &runs, NAME, &provenance).map_err(Failure::failed)?;
    write(&args.out, &format!("{NAME}.html"), &html)?;
    if let Some(json) = json {
        print(format_args!("{json}\n"))?;
    } else {
        let page = args.out.join(format!("{NAME}.html"));
        print(format!(
            "{}The page: {}\n",
            table(&definition, &plan, &runs, args.statistics.interval),
            page.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each cell: figures over its starts, and their number.
fn table(definition: &Definition, plan: &Plan, runs: &[Run], interval: Interval) -> String {
    let mut metrics: Vec<&str> = definition.report.x.iter().map(String::as_str).collect();
    metrics.extend(definition.report.y.iter().map(String::as_str));
    // A radio link may lose packets behind the bottleneck, which throughput counts.
    let mut rows = runs.iter().flat_map(|run| &run.flows);
    if rows.any(|row| row.radio.is_some() || row.radio_up.is_some()) {
        let at = metrics.iter().position(|metric| *metric == THROUGHPUT);
        if let Some(at) = at.filter(|_| !metrics.contains(&GOODPUT)) {
            metrics.insert(at + 1, GOODPUT);
        }
    }
    let several = definition.starts > 1;
    let mut lines = vec![
        plan.axes
            .iter()
            .map(String::as_str)
            .chain(several.then_some("n"))
            .chain(metrics.iter().copied())
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    ];
    for cell in runs.chunk_by(|a, b| a.cell == b.cell) {
        // Where nothing is drawn at random, repetitions are equal copies of one run.
        let figures = |run: &Run| run.flows.iter().map(Row::numbers).collect();
        let figures: Vec<Vec<_>> = cell.iter().map(figures).collect();
        let distinct: Vec<&Run> = (0..cell.len())
            .filter(|&i| !figures[..i].contains(&figures[i]))
            .map(|i| &cell[i])
            .collect();
        let figure = |metric: &&str| {
            let values = distinct
                .iter()
                .filter_map(|run| value(run, metric, None, Aggregate::Mean));
            statistics(&values.collect::<Vec<_>>(), interval, number)
        };
        lines.push(
            cell[0]
                .cell
                .iter()
                .cloned()
                .chain(several.then(|| distinct.len().to_string()))
                .chain(metrics.iter().map(figure))
                .collect(),
        );
    }
    aligned(&lines, plan.axes.len())
}
