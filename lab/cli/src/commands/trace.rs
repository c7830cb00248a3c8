// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces: record, measure, convert, combine, generate, compare, draw.
mod calibrate;
mod combine;
mod convert;
mod output;
mod plot;
mod record;
mod stats;
mod synth;

use crate::failure::Failure;
use std::process::ExitCode;

/// Record, measure, convert, combine, generate and draw traces of links
#[derive(clap::Args)]
#[command(after_help = crate::trace_arg::TRACE_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Stats(stats::Args),
    Convert(convert::Args),
    Combine(combine::Args),
    Synth(synth::Args),
    Calibrate(calibrate::Args),
    Plot(plot::Args),
    Record(record::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Stats(args) => stats::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Combine(args) => combine::run(args),
        Command::Synth(args) => synth::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Record(args) => record::run(args),
    }
}
