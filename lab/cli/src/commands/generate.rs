// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab generate`: man pages and shell completions.
use crate::failure::{Failure, reason};
use crate::output::{folder, note};
use crate::{LAB, command_line, completion, manual};
use alcc_cli::ALCC;
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Write man pages and shell completions of both programs, from the same definitions as the help
#[derive(clap::Args)]
#[command(after_help = "Example:\n  alcc-lab generate --out out/doc")]
pub(crate) struct Args {
    /// Folder to write into; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    folder(&args.out)?;
    write(args).map_err(|e| {
        Failure::usage(format!(
            "write man pages to {}: {}",
            args.out.display(),
            reason(&e)
        ))
    })?;
    note(format_args!(
        "man pages and completions written to {}",
        args.out.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn write(args: &Args) -> std::io::Result<()> {
    let programs = [
        (alcc_cli::command(), &ALCC, manual::PRODUCT),
        (command_line(), &LAB, manual::LABORATORY),
    ];
    for (command, of, environment) in &programs {
        manual::write(command, of, environment, &args.out, &date())?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            completion::write(shell, command, of, &args.out)?;
        }
    }
    Ok(())
}

/// The day of the pages, as `2026-11-23`. Builds that have to give the same bytes set
/// `SOURCE_DATE_EPOCH`, seconds (<https://reproducible-builds.org/specs/source-date-epoch/>).
fn date() -> String {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let epoch = epoch.and_then(|text| text.parse::<u32>().ok());
    let at = epoch.map_or_else(SystemTime::now, |seconds| {
        UNIX_EPOCH + Duration::from_secs(seconds.into())
    });
    let text = humantime::format_rfc3339_seconds(at).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}
