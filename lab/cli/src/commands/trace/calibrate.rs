// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab trace calibrate`: synthetic traces compared with recordings.
use crate::failure::Failure;
use crate::output::{note, print};
use crate::trace_arg::{find_scenario, is_folder, load_link_trace};
use alcc_live::board::aligned;
use alcc_trace::{Figure, SCENARIOS, Scenario, compare};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare the statistics of recorded and synthetic traces
///
/// The exit status is 1 if a bound is exceeded. Scenarios without a recording are skipped and
/// named.
#[derive(clap::Args)]
#[command(after_help = "Example:
  alcc-lab trace calibrate city-driving waterfront --traces recordings/")]
pub(crate) struct Args {
    /// Scenarios to compare [default: all that have a recording]
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Folder of the recorded traces
    #[arg(long, env = "ALCC_TRACES", value_name = "DIR")]
    traces: PathBuf,
    /// Seed of the synthetic traces
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    is_folder(&args.traces)?;
    let chosen: Vec<&Scenario> = if args.scenarios.is_empty() {
        SCENARIOS.iter().filter(|s| s.recording.is_some()).collect()
    } else {
        let find = |name: &String| find_scenario(name);
        args.scenarios.iter().map(find).collect::<Result<_, _>>()?
    };
    let (mut compared, mut text, mut rows) = (0, String::new(), Vec::new());
    let (mut exceeded, mut skipped) = (Vec::new(), Vec::new());
    for scenario in chosen {
        let Some((recording, figures)) = figures(scenario, &args.traces, args.seed)? else {
            skipped.push(scenario.name);
            continue;
        };
        compared += 1;
        text += &side_by_side(scenario.name, recording, &figures);
        rows.push(to_json(scenario.name, recording, &figures));
        let outside = figures.iter().filter(|f| !f.agrees());
        exceeded.extend(outside.map(|f| format!("{}: {}", scenario.name, f.name)));
    }
    if compared == 0 {
        return Err(Failure::usage(format!(
            "recorded traces in {}: no recording found ('alcc-lab trace synth' lists their names)",
            args.traces.display()
        )));
    }
    for name in skipped {
        note(format_args!("skipped: {name}: no recording"));
    }
    if args.json {
        text = format!("{}\n", json!({ "seed": args.seed, "scenarios": rows }));
    }
    print(text)?;
    if exceeded.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(format!(
        "calibration: beyond the bound: {}",
        exceeded.join(", ")
    )))
}

fn figures(
    scenario: &Scenario,
    folder: &Path,
    seed: u64,
) -> Result<Option<(&'static str, Vec<Figure>)>, Failure> {
    let Some(recording) = scenario.recording else {
        return Ok(None);
    };
    let path = folder.join(recording);
    if !path.exists() {
        return Ok(None);
    }
    let recorded = load_link_trace(&path, seed)?.trace.stats();
    let synthetic = scenario.generate(seed, Scenario::LENGTH).stats();
    Ok(Some((recording, compare(&recorded, &synthetic))))
}

fn side_by_side(name: &str, recording: &str, figures: &[Figure]) -> String {
    let head = ["figure", recording, "synthetic", "ratio", "bound", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for f in figures {
        let number = |x: f64| {
            format!("{x:.2}")
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned()
        };
        let mut bound = format!("x{}", f.bound.factor);
        if f.bound.within > 0.0 {
            bound += &format!(" or +-{}", f.bound.within);
        }
        rows.push(vec![
            f.name.to_owned(),
            number(f.recorded),
            number(f.synthetic),
            if f.ratio().is_finite() {
                format!("{:.2}", f.ratio())
            } else {
                "-".to_owned()
            },
            bound,
            if f.agrees() { "" } else { "EXCEEDED" }.to_owned(),
        ]);
    }
    format!("{name}\n{}\n", aligned(&rows, 1))
}

fn to_json(name: &str, recording: &str, figures: &[Figure]) -> Value {
    let figures: Vec<_> = figures
        .iter()
        .map(|f| {
            json!({
                "figure": f.name,
                "recorded": f.recorded,
                "synthetic": f.synthetic,
                "bound_factor": f.bound.factor,
                "bound_within": f.bound.within,
                "agrees": f.agrees(),
            })
        })
        .collect();
    json!({"scenario": name, "recording": recording, "figures": figures})
}
