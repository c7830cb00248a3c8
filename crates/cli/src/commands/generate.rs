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
    for entry in std::fs::read_dir(&args.out)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "1") {
            std::fs::write(&path, finished(&std::fs::read_to_string(&path)?))?;
        }
    }
    for shell in [
        clap_complete::Shell::Bash,
        clap_complete::Shell::Zsh,
        clap_complete::Shell::Fish,
    ] {
        clap_complete::generate_to(shell, &mut command, "alcc", &args.out)?;
    }
    Ok(())
}

/// A page as clap writes it, with its examples as they are typed, and with what each page ends
/// with. Filled, an example would be hyphenated, and could not be copied.
fn finished(page: &str) -> String {
    const EXTRA: &str = "\n.SH EXTRA\n";
    const SECTION: &str = "\n.SH ";
    let (page, extra) = page.split_once(EXTRA).unwrap_or((page, ""));
    // The version may follow.
    let (extra, rest) = extra.split_once(SECTION).unwrap_or((extra, ""));
    let rest = if rest.is_empty() {
        String::new()
    } else {
        format!("{SECTION}{}", rest.trim_end())
    };
    let mut text = page.trim_end().to_owned();
    if !extra.is_empty() {
        text = format!("{text}\n.SH EXAMPLES\n.nf\n{}\n.fi", extra.trim_end());
    }
    format!(
        "{text}{rest}\n.SH EXIT STATUS\n0 done, 1 a check or transfer failed, 2 bad usage or the machine \
         cannot do it. Commands that run a program return its status.\n\
         .SH ENVIRONMENT\nNO_COLOR, XDG_RUNTIME_DIR, ALCC_PLUGIN, ALCC_PRELOAD, ALCC_TRACES\n\
         .SH SEE ALSO\n.BR alcc (1)\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_not_filled() {
        let page = ".TH a 1\n.SH OPTIONS\nx\n.SH EXTRA\nExample:\n  alcc run \\-\\- nginx\n";
        let found = finished(page);
        assert!(
            found.contains("\n.SH EXAMPLES\n.nf\nExample:\n  alcc run \\-\\- nginx\n.fi\n"),
            "{found}"
        );
        assert!(!found.contains("EXTRA") && found.contains(".SH SEE ALSO"));
        assert!(!finished(".TH a 1\n").contains("EXAMPLES"));
        let versioned = finished(".TH a 1\n.SH EXTRA\nx\n.SH VERSION\nv1\n");
        assert!(versioned.contains("x\n.fi\n.SH VERSION\nv1\n.SH EXIT STATUS"));
    }
}
