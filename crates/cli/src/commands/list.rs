// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use alcc_cc::Registry;
use std::process::ExitCode;

/// Show the algorithms with their options
#[derive(clap::Args)]
#[command(after_help = "Example:\n  alcc list")]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let registry = Registry::builtin();
    if args.json {
        let algorithms: Vec<_> = registry
            .iter()
            .map(|a| {
                let options: Vec<_> = a
                    .options
                    .iter()
                    .map(|o| serde_json::json!({"name": o.name, "default": o.default, "help": o.help}))
                    .collect();
                serde_json::json!({"name": a.name, "summary": a.summary, "profiles": a.profiles, "options": options})
            })
            .collect();
        println!("{}", serde_json::json!({ "algorithms": algorithms }));
        return Ok(ExitCode::SUCCESS);
    }
    println!("Algorithms (--cc NAME:option=value,...)");
    for a in registry.iter() {
        println!("  {:<8} {}", a.name, a.summary);
        if !a.profiles.is_empty() {
            println!("           profile={}", a.profiles.join("|"));
        }
        for o in a.options {
            println!("           {}={}  {}", o.name, o.default, o.help);
        }
    }
    Ok(ExitCode::SUCCESS)
}
