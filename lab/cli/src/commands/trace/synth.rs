// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab trace synth`: synthetic traces.
use super::output::Output;
use crate::failure::Failure;
use crate::output::print;
use crate::trace_arg::find_scenario;
use alcc_live::board::aligned;
use alcc_trace::{MAX_LENGTH, SCENARIOS, Scenario};
use alcc_units::{Span, positive};
use serde_json::json;
use std::process::ExitCode;

/// Write a synthetic trace; without a name, list the scenarios
///
/// The same scenario, seed and length give the same bytes, on every machine.
#[derive(clap::Args)]
#[command(after_help = "Example:
  alcc-lab trace synth city-driving --seed 7 --length 60s --output city.trace")]
pub(crate) struct Args {
    /// Scenario of the trace
    #[arg(value_name = "SCENARIO")]
    scenario: Option<String>,
    /// Seed; each gives another trace with the same statistics
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of the trace, at most an hour
    #[arg(long, default_value_t = Scenario::LENGTH, value_name = "TIME", value_parser = positive::<Span>)]
    length: Span,
    #[command(flatten)]
    output: Output,
    /// List the scenarios as a JSON object
    #[arg(long, conflicts_with = "scenario")]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let Some(name) = &args.scenario else {
        print(list(args.json))?;
        return Ok(ExitCode::SUCCESS);
    };
    let scenario = find_scenario(name.strip_prefix("synth:").unwrap_or(name))?;
    if args.length < Span::from_millis(1) || args.length > MAX_LENGTH {
        return Err(Failure::usage(format!(
            "synthetic trace of {}: the length must be from 1ms to {MAX_LENGTH}",
            args.length
        )));
    }
    let trace = scenario.generate(args.seed, args.length);
    args.output.write(|to| trace.write(to))?;
    Ok(ExitCode::SUCCESS)
}

fn list(as_json: bool) -> String {
    if as_json {
        let rows: Vec<_> = SCENARIOS
            .iter()
            .map(|s| {
                json!({"name": s.name, "about": s.about, "mean_mbps": s.model.mean_mbps, "recording": s.recording})
            })
            .collect();
        return format!("{}\n", json!({ "scenarios": rows }));
    }
    let mut rows = vec![vec!["scenario".to_owned(), "Mbit/s".to_owned()]];
    rows.extend(
        SCENARIOS
            .iter()
            .map(|s| vec![s.name.to_owned(), format!("{:.1}", s.model.mean_mbps)]),
    );
    let about = std::iter::once("description (recording it was fitted to)".to_owned());
    let about = about.chain(SCENARIOS.iter().map(|s| match s.recording {
        Some(recording) => format!("{} ({recording})", s.about),
        None => s.about.to_owned(),
    }));
    aligned(&rows, 1)
        .lines()
        .zip(about)
        .map(|(left, about)| format!("{left}  {about}\n"))
        .collect()
}
