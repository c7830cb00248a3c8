// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::{Failure, reason};
use crate::output::{folder, note};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write man pages and shell completions, from the same definition as the help
#[derive(clap::Args)]
#[command(after_help = "Example:\n  alcc generate --out out/doc")]
pub(crate) struct Args {
    /// Folder to write into; made if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args, command: clap::Command) -> Result<ExitCode, Failure> {
    folder(&args.out)?;
    write(args, command).map_err(|e| {
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

fn write(args: &Args, mut command: clap::Command) -> std::io::Result<()> {
    clap_mangen::generate_to(command.clone(), &args.out)?;
    for shell in [
        clap_complete::Shell::Bash,
        clap_complete::Shell::Zsh,
        clap_complete::Shell::Fish,
    ] {
        clap_complete::generate_to(shell, &mut command, "alcc", &args.out)?;
    }
    Ok(())
}
