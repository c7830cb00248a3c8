// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::commands::run;
use crate::failure::Failure;
use crate::output::Product;
use crate::trial::{Options, percent, secret};
use alcc_observe::Share;
use alcc_units::{Span, positive};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a server with some of its clients under an algorithm, and compare them with the others
///
/// A share of the clients, chosen by a hash of their addresses, is under the algorithm. The others
/// have plain TCP, which is measured and never held back. Standard error shows both groups while
/// CMD runs, with confidence intervals. If the clients under the algorithm are clearly worse off,
/// the trial ends by itself. They have plain TCP from then on, and CMD goes on. All options of
/// 'alcc run' except --share work here, too.
#[derive(clap::Args)]
#[group(skip)]
#[command(
    after_help = "Examples:\n  alcc trial -- nginx\n  alcc trial --share 50% --cc copa --html trial.html -- nginx\n  alcc trial --worse 10% --metrics 127.0.0.1:9101 --json-out trial.json -- nginx"
)]
pub(crate) struct Args {
    /// The share of the clients under the algorithm, such as 10%; IPv6 clients count by their first
    /// 64 bits. 10%@7 chooses other clients than 10%
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    share: Share,
    /// End the trial when these clients' RTT or transfer times are clearly longer, or their rates
    /// lower, by more than this
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = percent)]
    worse: f64,
    /// Time from line to line on standard error
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive::<Span>)]
    interval: Span,
    /// Write the comparison to FILE at the end, as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a line for each transfer to FILE, as CSV
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
