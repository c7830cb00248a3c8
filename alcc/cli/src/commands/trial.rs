// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::commands::run;
use crate::failure::Failure;
use crate::output::Product;
use crate::trial::{Options, percent, secret};
use alcc_observe::Share;
use alcc_units::{Span, positive};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a server with a share of its clients under an algorithm, and compare
///
/// The share is chosen by a hash of client addresses. The other clients have plain TCP, which is
/// measured but never limited. While CMD runs, standard error shows both groups with confidence
/// intervals. If the clients under the algorithm are clearly worse off, the trial ends: they have
/// plain TCP from then on, and CMD continues. All options of 'alcc run' except --or-plain and its
/// --share apply here, too.
#[derive(clap::Args)]
#[group(skip)]
#[command(
    after_help = "Examples:\n  alcc trial -- nginx\n  alcc trial --share 50% --cc copa --html trial.html -- nginx\n  alcc trial --worse 10% --metrics 127.0.0.1:9101 --json-out trial.json -- nginx"
)]
pub(crate) struct Args {
    /// Share of the clients under the algorithm
    ///
    /// IPv6 clients count by their first 64 bits. 10%@7 selects other clients than 10%.
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    share: Share,
    /// End the trial if these clients are worse off by more than this
    ///
    /// Applies to RTTs, transfer times and rates. For retransmissions it is always 2 percentage points.
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = percent)]
    worse: f64,
    /// Interval of the checks and of their reports on standard error
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive::<Span>)]
    interval: Span,
    /// Write the comparison to FILE at the end, as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write one line for each transfer to FILE, as CSV
    #[arg(long, value_name = "FILE")]
    transfers: Option<PathBuf>,
    #[command(flatten)]
    run: run::Server,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let options = Options {
        share: secret(args.share)?,
        worse: args.worse,
        interval: args.interval,
        html: args.html.clone(),
        transfers: args.transfers.clone(),
    };
    // Seen now, and not when the server ends.
    drop(Product::named(args.html.as_deref())?);
    run::serve(&args.run, None, Some(&options))
}
