// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables for the algorithm `mdi`: learned in the simulator, and tried on other links.
mod page;
mod train;
mod validate;

use crate::commands::read_text;
use crate::failure::{Failure, reason};
use alcc_live::mdi::Lessons;
use alcc_live::parallel::processors;
use alcc_results::scenario::{ScenarioOptions, Value};
use alcc_trace::SCENARIOS;
use std::path::Path;
use std::process::ExitCode;

/// Learn a table for the algorithm mdi from another algorithm, and validate it
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Train(train::Args),
    Validate(validate::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Train(args) => train::run(args),
        Command::Validate(args) => validate::run(args),
    }
}

/// Options of the simulations of both commands.
#[derive(clap::Args)]
struct World {
    /// Algorithm to learn from
    #[arg(long, value_name = "FLOW", default_value = "verus:profile=original")]
    teacher: Value,
    /// Trace or rate; may be repeated [default: every synthetic channel]
    #[arg(long, value_name = "TRACE|RATE")]
    link: Vec<String>,
    /// Round-trip time without queueing
    #[arg(long, value_name = "T", default_value = "40ms")]
    rtt: String,
    /// Number of parallel simulations [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

impl World {
    fn lessons(&self, seeds: (u64, u64), duration: &str, queue: &str) -> Result<Lessons, Failure> {
        let mut options = ScenarioOptions::default();
        for (key, text) in [
            ("rtt", &*self.rtt),
            ("duration", duration),
            ("queue", queue),
        ] {
            let value = Value::option(key, text);
            options.add(key, value).map_err(Failure::usage)?;
        }
        let links = if self.link.is_empty() {
            SCENARIOS.iter().map(|s| s.name.to_owned()).collect()
        } else {
            self.link.clone()
        };
        Ok(Lessons {
            links,
            seeds,
            options,
        })
    }

    fn workers(&self) -> usize {
        self.jobs.map_or_else(processors, usize::from)
    }
}

/// Reads `3` or `101..103`.
fn seeds(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let read = match text.split_once("..") {
        None => number(text).map(|seed| (seed, seed)),
        Some((first, last)) => number(first).zip(number(last)),
    };
    read.filter(|(first, last)| first <= last && last - first < 10_000)
        .ok_or_else(|| "write a seed or FIRST..LAST, such as 1..2".to_owned())
}

fn read(path: &Path) -> Result<String, Failure> {
    read_text(path).map_err(|e| Failure::usage(format!("read {}: {}", path.display(), reason(&e))))
}
