// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::doctor::{Finding, State, machine, program, running};
use crate::failure::Failure;
use crate::output::print;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Check that this machine and a program are ready for alcc, and print the command that fixes each finding
///
/// Prints one line for each check: its state, the finding, and its effect on alcc. The command that
/// fixes it follows, if there is one. With CMD it also checks that program, without starting it. Exit
/// status 1: at least one finding (STOPS) prevents 'alcc run' from working.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc doctor\n  alcc doctor -- nginx\n  sudo alcc doctor --port 443\n  alcc doctor --json"
)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Also check the running server that listens on this port
    #[arg(long, value_name = "N", conflicts_with_all = ["pid", "command"], value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Also check this running process
    #[arg(long, value_name = "P", conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Also check this program; name it as you would for 'alcc run'
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut findings = machine::examine();
    findings.extend(program::examine(&args.command));
    findings.extend(args.port.into_iter().flat_map(running::at_port));
    findings.extend(args.pid.into_iter().flat_map(running::process));
    let stops = findings.iter().any(|f| f.state == State::Stops);
    print(if args.json {
        format!(
            "{}\n",
            serde_json::json!({"findings": findings, "ready": !stops})
        )
    } else {
        lines(&findings)
    })?;
    Ok(if stops {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn lines(findings: &[Finding]) -> String {
    let mut text = String::new();
    for f in findings {
        let state = f.state.name();
        let _ = writeln!(text, "{state:<5} {:<13} {}: {}", f.what, f.found, f.means);
        if let Some(command) = &f.command {
            let _ = writeln!(text, "{:<19} -> {command}", "");
        }
    }
    text
}
