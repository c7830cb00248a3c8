// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab mdi train`: a table learned from an algorithm.
use super::{World, page, read, seeds};
use crate::failure::Failure;
use crate::output::{Product, note, will_be_written};
use crate::plugin_arg::Plugins;
use crate::progress::Bar;
use alcc_files::ScenarioFolder;
use alcc_live::{hash_of_text, mdi};
use alcc_zoo::model_driven::{Axis, Bounds, Counting, Counts, Grid, Shape};
use std::path::PathBuf;
use std::process::ExitCode;

/// Learn a table of window changes from an algorithm
///
/// Every link is simulated with every seed. Every 5 ms from the end of slow start, the largest RTT
/// and the window are compared with those of the previous epoch, as in the original program. The
/// table has the distribution of the window's change for each change of delay and window before it.
#[derive(clap::Args)]
#[command(
    after_help = "Example:
  alcc-lab mdi train --output table.csv                  # for mdi:matrix=table.csv",
    after_long_help = "Examples:
  alcc-lab mdi train --output table.csv                  # for mdi:matrix=table.csv
  alcc-lab mdi train --levels none --counting nearest --cut 0.02 --output original.csv    # as the original
  alcc-lab mdi train --teacher copa --link lte --link recorded.trace --seeds 1..5 --output table.csv
  alcc-lab mdi train --form counts --seeds 1..2 --output a.counts   # on one machine, and on another:
  alcc-lab mdi train --form counts --seeds 3..4 --output b.counts
  alcc-lab mdi train --add a.counts --add b.counts --output table.csv"
)]
pub(super) struct Args {
    #[command(flatten)]
    world: World,
    /// Seeds for each link
    #[arg(long, value_name = "FIRST..LAST", default_value = "1..2", value_parser = seeds)]
    seeds: (u64, u64),
    /// Length of each simulation
    #[arg(long, value_name = "T", default_value = "300s")]
    duration: String,
    /// Queue of the bottleneck
    #[arg(long, value_name = "Q", default_value = "droptail:bytes=1000000000")]
    queue: String,
    /// Upper ends of delay levels, in multiples of the smallest delay
    ///
    /// There is a table for each level. 'none' is one table, as in the original.
    #[arg(long, value_name = "RATIOS", default_value = "1.5,3,4.5,6,7.5", value_parser = levels)]
    levels: Bounds,
    /// Bins, first, last and step of the window's changes, then of the delay's
    ///
    /// [default: 11,-20,20,4,11,-10,10,2; without levels 21,-20,20,2,11,-10,10,2 as in the
    /// original]
    #[arg(long, hide_short_help = true, value_name = "8 NUMBERS", value_parser = grid)]
    grid: Option<Grid>,
    /// Divide a change between two bins among both (mean), or count it in the nearer one (nearest)
    ///
    /// 'mean' divides changes of the window, which preserves their mean. The original program uses
    /// 'nearest'.
    #[arg(long, hide_short_help = true, value_name = "HOW", default_value = "mean", value_parser = ["mean", "nearest"])]
    counting: String,
    /// Leave out steps that are rarer than this, 0 to 1
    ///
    /// The original has 0.02.
    #[arg(long, hide_short_help = true, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    cut: f64,
    /// Add this many pairs to each observed step (Laplace)
    #[arg(long, hide_short_help = true, value_name = "PAIRS", default_value_t = 0.0, value_parser = pairs)]
    smoothing: f64,
    /// Leave out states observed less often than this
    #[arg(
        long,
        hide_short_help = true,
        value_name = "PAIRS",
        default_value_t = 50
    )]
    least: u64,
    /// Add a file of 'train --form counts'; may be repeated
    ///
    /// Nothing is simulated then, unless --link is given.
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,
    /// Format of the output
    ///
    /// published: that of the original, once for each level, for mdi:matrix=. counts: pairs of
    /// states, for --add. compact: as the built-in table.
    #[arg(long, value_name = "FORM", default_value = "published", value_parser = ["published", "counts", "compact"])]
    form: String,
    /// Write an HTML page with the distributions of the changes
    ///
    /// It helps to choose a grid.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    plugins: Plugins,
}

fn levels(text: &str) -> Result<Bounds, String> {
    if text == "none" {
        return Ok(Bounds::default());
    }
    Bounds::parse(text)
}

fn grid(text: &str) -> Result<Grid, String> {
    let want = || {
        "write bins,first,last,step twice with last = first + step * (bins - 1), and at most 2048 states"
            .to_owned()
    };
    let numbers: Vec<i32> = text
        .split(',')
        .filter_map(|n| n.trim().parse().ok())
        .collect();
    // What is not a number is missing.
    let whole = text.split(',').count() == numbers.len();
    let text: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let counts = Counts::parse(&text.join(",")).ok().filter(|_| whole);
    let grid = counts.map(|counts| *counts.grid()).ok_or_else(want)?;
    let holds = |axis: &Axis| axis.min <= 0 && axis.max() >= 0.0;
    if !holds(&grid.window) || !holds(&grid.delay) {
        return Err("no change, 0, must lie within both ranges".to_owned());
    }
    Ok(grid)
}

fn probability(text: &str) -> Result<f64, String> {
    let p = text.parse().ok().filter(|p| (0.0..1.0).contains(p));
    p.ok_or_else(|| "write a number from 0 to less than 1".to_owned())
}

fn pairs(text: &str) -> Result<f64, String> {
    let n = text.parse().ok().filter(|n| (0.0..1e6).contains(n));
    n.ok_or_else(|| "write a number from 0 to 1000000".to_owned())
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    for file in args.output.iter().chain(&args.page) {
        will_be_written(file)?;
    }
    let grid = grid_of(args)?;
    let mut counts = Counts::new(grid, args.levels.clone());
    for path in &args.add {
        let wrong = |why: String| Failure::usage(format!("--add {}: {why}", path.display()));
        let text = read(path)?;
        is_whole(&text).map_err(wrong)?;
        let other = Counts::parse(&text).map_err(|e| wrong(e.to_string()))?;
        counts.add(&other).map_err(wrong)?;
    }
    let simulates = args.add.is_empty() || !args.world.link.is_empty();
    if args.page.is_some() && !simulates {
        return Err(Failure::usage(
            "--page with --add alone: counts have no distributions; name a --link",
        ));
    }
    if simulates {
        let learned = learn(args, grid)?;
        counts.add(&learned.counts).map_err(Failure::failed)?;
        if let Some(path) = &args.page {
            let html = page::distributions(&learned.changes, &grid).map_err(Failure::failed)?;
            Product::open(Some(path))?.fill(|to| to.write_all(html.as_bytes()))?;
        }
    }
    if counts.total() == 0 {
        return Err(Failure::failed(
            "learn: no pair of epochs: the teacher did not leave slow start, or --duration is too short",
        ));
    }
    let text = written(args, &counts);
    Product::open(args.output.as_deref())?.fill(|to| to.write_all(text.as_bytes()))?;
    note(format_args!("alcc-lab: {} pairs of epochs", counts.total()));
    Ok(ExitCode::SUCCESS)
}

/// Text before the hash in a header.
const HASH: &str = "SHA-256 of what follows the comments: ";

/// Checks the file against the hash in its header; a file without one is accepted.
fn is_whole(text: &str) -> Result<(), String> {
    let mut comments = text.lines().take_while(|line| line.starts_with('#'));
    let length: usize = comments.clone().map(|line| line.len() + 1).sum();
    let told = comments.find_map(|line| line.split_once(HASH));
    let Some((_, hash)) = told else {
        return Ok(());
    };
    if hash_of_text(text.get(length..).unwrap_or("")) == hash {
        return Ok(());
    }
    Err("SHA-256: not the one in its header: the file was truncated or changed".to_owned())
}

/// The authors', or a coarser one, so that each state of each level is seen often.
fn grid_of(args: &Args) -> Result<Grid, Failure> {
    let levels = args.levels.levels();
    let grid = args.grid.unwrap_or(if levels == 1 {
        Grid::TRAINING
    } else {
        Grid::LEVELLED
    });
    if grid.states() * levels > Grid::MOST {
        return Err(Failure::usage(format!(
            "--levels: {levels} of {} states each: at most {} together; take fewer, or a coarser --grid",
            grid.states(),
            Grid::MOST
        )));
    }
    Ok(grid)
}

fn learn(args: &Args, grid: Grid) -> Result<mdi::Learned, Failure> {
    let world = &args.world;
    let lessons = world.lessons(args.seeds, &args.duration, &args.queue)?;
    let registry = args.plugins.registry(crate::algorithms())?;
    let files = ScenarioFolder::default();
    let counting = match args.counting.as_str() {
        "nearest" => Counting::Nearest,
        _ => Counting::MeanPreserving,
    };
    let (mut bar, all) = (Bar::new(), lessons.all().len());
    let learned = mdi::train(
        &lessons,
        &world.teacher,
        (grid, &args.levels),
        counting,
        (&registry, &files),
        world.workers(),
        |done| bar.show(done as f64 / all.max(1) as f64, "learning"),
    );
    learned.map_err(Failure::usage)
}

fn written(args: &Args, counts: &Counts) -> String {
    let shape = Shape {
        cut: args.cut,
        smoothing: args.smoothing,
        least: args.least,
    };
    let body = match args.form.as_str() {
        // The authors' programs know no comments.
        "published" => return counts.published(shape),
        "counts" => counts.text(),
        _ => counts.compact(shape),
    };
    // The destination of the file is not part of its metadata.
    let mut words: Vec<String> = Vec::new();
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        match word.as_str() {
            "-o" | "--output" | "--page" | "--jobs" => drop(given.next()),
            _ => words.push(word),
        }
    }
    let meaning = if args.form == "counts" {
        "Levels, if any, and grid as in a table; then level * states + state, next state, thousandths of pairs."
    } else {
        "Levels, if any, and grid as in a table; then block ((level * states + state) * bins of the new change of delay), bins of the window's change with thousandths."
    };
    format!(
        "# SPDX-License-Identifier: Apache-2.0 OR MIT\n# Written by: alcc-lab {}\n# alcc {}; {} pairs of epochs; {HASH}{}\n# {meaning}\n{body}",
        words.join(" "),
        env!("CARGO_PKG_VERSION"),
        counts.total(),
        hash_of_text(&body),
    )
}
