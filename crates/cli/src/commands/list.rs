// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use alcc_cc::Registry;
use alcc_link::QueueKind;
use alcc_units::OptionDoc;
use std::process::ExitCode;

/// Show the algorithms and queues with their options
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
                serde_json::json!({"name": a.name, "summary": a.summary, "profiles": a.profiles, "options": json(a.options)})
            })
            .collect();
        let queues: Vec<_> = QueueKind::all()
            .map(|q| {
                serde_json::json!({"name": q.name, "summary": q.summary, "options": json(q.options)})
            })
            .collect();
        println!(
            "{}",
            serde_json::json!({ "algorithms": algorithms, "queues": queues })
        );
        return Ok(ExitCode::SUCCESS);
    }
    println!("Algorithms (--cc NAME:option=value,...)");
    for a in registry.iter() {
        println!("  {:<8} {}", a.name, a.summary);
        if !a.profiles.is_empty() {
            println!("           profile={}", a.profiles.join("|"));
        }
        print_options(a.options);
    }
    println!("\nQueues (--queue NAME:option=value,...)");
    for q in QueueKind::all() {
        println!("  {:<8} {}", q.name, q.summary);
        print_options(q.options);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_options(options: &[OptionDoc]) {
    for o in options {
        println!("           {}={}  {}", o.name, o.default, o.help);
    }
}

fn json(options: &[OptionDoc]) -> Vec<serde_json::Value> {
    options
        .iter()
        .map(|o| serde_json::json!({"name": o.name, "default": o.default, "help": o.help}))
        .collect()
}
