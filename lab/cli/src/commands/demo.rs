// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::commands::emulate::processes::Processes;
use crate::commands::{compare, study};
use crate::failure::Failure;
use alcc_live::board::{Backend, Interval, Plan};
use alcc_live::{Link, Scheme, Side};
use alcc_units::Span;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare plain TCP with alcc: nginx and curl over an emulated LTE link
///
/// Starts the distribution's nginx once per scheme, each behind an emulated link of its own.
/// Downloads with curl from all of them at the same time. Prints a table and writes a report to
/// open in a browser.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc-lab demo\n  alcc-lab demo --trace CampusWalk --duration 60s\n  alcc-lab demo --schemes cubic,verus:r=2/over=cubic,verus:r=6/over=cubic"
)]
pub(crate) struct Args {
    /// The link: a recorded trace in Mahimahi's format, or a synthetic scenario such as
    /// city-driving [default: synth:lte]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Length of the measurement
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    duration: Span,
    /// What to compare: the kernel's (cubic) and alcc's above it (verus:r=4/over=cubic,
    /// copa/over=reno)
    #[arg(long, value_name = "A,B", default_value = study::SCHEMES)]
    schemes: String,
    /// Seed of the synthetic link
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for report.html, board.svg, results.json and the tables as CSV
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,
    /// Folder for the runtime's readings of every controlled connection, as CSV
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(exit) = Processes::guard()? {
        return Ok(exit);
    }
    let link = match &args.trace {
        Some(file) => Link::open(file, args.seed),
        None => Ok(Link::synthetic(args.seed)),
    };
    let plan = Plan {
        links: vec![link.map_err(Failure::usage)?],
        schemes: Scheme::list(&args.schemes, &crate::algorithms(), &[Side::Emulated])
            .map_err(Failure::usage)?,
        duration: study::in_hour(args.duration)
            .map_err(|e| Failure::usage(format!("--duration: {e}")))?,
        settle: Span::ZERO,
        runs: 1,
        backend: Backend::Emulated {
            tools: compare::tools()?,
            log: args.log.clone(),
            twin: None,
        },
        command: compare::command_line(),
        keep: None,
    };
    compare::carry_out(
        &plan,
        &[],
        &args.out,
        None,
        None,
        args.json,
        Interval::Range,
    )
}
