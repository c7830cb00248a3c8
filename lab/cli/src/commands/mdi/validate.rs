// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab mdi validate`: a learned table compared with its teacher.
use super::{World, seeds};
use crate::failure::Failure;
use crate::output::print;
use crate::plugin_arg::Plugins;
use crate::progress::Bar;
use alcc_files::ScenarioFolder;
use alcc_live::board::aligned;
use alcc_live::mdi::{self, Compared, Within};
use alcc_results::scenario::Value;
use std::process::ExitCode;

/// Compare the walk with its teacher on links with other seeds
///
/// The exit status is 1 if the walk differs by more than --within, on a link or in the mean over
/// the links.
#[derive(clap::Args)]
#[command(
    after_help = "Example:
  alcc-lab mdi validate --walk mdi:matrix=table.csv",
    after_long_help = "Examples:
  alcc-lab mdi validate
  alcc-lab mdi validate --walk mdi:matrix=table.csv --link lte --seeds 101..110 --json

Columns: Mbit/s is the throughput of the bottleneck, delay the mean one-way delay per packet, distance
the Kolmogorov distance over all epochs, 0 to 1."
)]
pub(super) struct Args {
    #[command(flatten)]
    world: World,
    /// Flow to validate
    #[arg(long, value_name = "FLOW", default_value = "mdi")]
    walk: Value,
    /// Seeds for each link, other than those of the training
    #[arg(long, value_name = "FIRST..LAST", default_value = "101..103", value_parser = seeds)]
    seeds: (u64, u64),
    /// Length of each simulation
    #[arg(long, value_name = "T", default_value = "60s")]
    duration: String,
    /// Queue of the bottleneck
    #[arg(long, value_name = "Q", default_value = "droptail:bytes=2000000")]
    queue: String,
    /// Permitted differences of throughput and delay, per cent
    ///
    /// They apply to each link and to the mean over the links.
    #[arg(long, value_name = "T,D", default_value = "5,20", value_parser = within)]
    within: Within,
    #[command(flatten)]
    plugins: Plugins,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

fn within(text: &str) -> Result<Within, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| *n >= 0.0);
    let read = text.split_once(',');
    read.and_then(|(t, d)| Some(Within(number(t)?, number(d)?)))
        .ok_or_else(|| "write per cent of throughput and of delay, such as 5,20".to_owned())
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let world = &args.world;
    let lessons = world.lessons(args.seeds, &args.duration, &args.queue)?;
    let registry = args.plugins.registry(crate::algorithms())?;
    let files = ScenarioFolder::default();
    let (mut bar, all) = (Bar::new(), lessons.all().len());
    let rows = mdi::validate(
        &lessons,
        [&world.teacher, &args.walk],
        (&registry, &files),
        world.workers(),
        |done| bar.show(done as f64 / all.max(1) as f64, "comparing"),
    );
    drop(bar);
    let rows = rows.map_err(Failure::usage)?;
    let mean = mdi::mean("mean", &rows.iter().collect::<Vec<_>>());
    let off: Vec<&str> = (rows.iter().chain([&mean]))
        .filter(|row| !args.within.holds(row))
        .map(|row| &*row.link)
        .collect();
    if args.json {
        let json = serde_json::json!({
            "links": rows,
            "summary": {
                "teacher": world.teacher.text, "walk": args.walk.text, "mean": mean, "holds": off.is_empty(),
                "off": off, "within_percent": [args.within.0, args.within.1],
            },
        });
        print(format_args!("{json}\n"))?;
    } else {
        print(table(&rows, &mean, args.within))?;
    }
    if off.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(format!(
        "validate {}: off by more than {} % in throughput or {} % in delay on {} of {} links and means: {}",
        args.walk.text,
        args.within.0,
        args.within.1,
        off.len(),
        rows.len() + 1,
        off.join(", ")
    )))
}

fn table(rows: &[Compared], mean: &Compared, within: Within) -> String {
    let heading = [
        "link",
        "teacher Mbit/s",
        "walk",
        "off %",
        "teacher delay ms",
        "walk",
        "off %",
        "distance of RTTs",
        "of windows",
        "near",
    ];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for row in rows.iter().chain([mean]) {
        let [throughput, delay] = row.off().map(|off| alcc_results::signed(off * 100.0, 1));
        lines.push(vec![
            row.link.clone(),
            format!("{:.2}", row.teacher_mbps),
            format!("{:.2}", row.walk_mbps),
            throughput,
            format!("{:.1}", row.teacher_delay_ms),
            format!("{:.1}", row.walk_delay_ms),
            delay,
            format!("{:.2}", row.rtt_distance),
            format!("{:.2}", row.window_distance),
            if within.holds(row) { "yes" } else { "no" }.to_owned(),
        ]);
    }
    aligned(&lines, 1)
}
