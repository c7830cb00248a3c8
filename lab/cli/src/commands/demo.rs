// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab demo`: plain nginx compared with nginx under alcc.
use crate::commands::emulate::processes::Processes;
use crate::commands::{compare, study};
use crate::failure::Failure;
use crate::output::{folder, note};
use alcc_live::board::{Backend, Interval, Plan};
use alcc_live::{Link, Scheme, Side, Tools};
use alcc_pipe::Controls;
use alcc_units::Span;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// `budget` in the kernel, with the limit of unsent data that `alcc attach` sets on such a link.
const RESIDENT: &str = "alcc_budget/lowat=16384B";

/// Compare plain TCP with alcc: nginx and curl over an emulated LTE link
///
/// Starts the distribution's nginx once per scheme, each behind its own emulated link, and downloads
/// from all of them with curl at the same time. Prints a table and writes a report for a browser. If
/// root runs it, alcc's congestion controls are loaded into the kernel until it ends.
#[derive(clap::Args)]
#[command(
    after_help = format!("Examples:\n  alcc-lab demo\n  alcc-lab demo --trace campus-walk --duration 60s\n  alcc-lab demo --schemes cubic,verus:r=2/over=cubic,verus:r=6/over=cubic\n\nDefault of --schemes: {RESIDENT} if it is loaded or can be loaded (by root), and\n{}", study::SCHEMES)
)]
pub(crate) struct Args {
    /// Link: a trace in Mahimahi's format or a synthetic scenario such as city-driving [default:
    /// synth:lte]
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Length of the measurement
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    duration: Span,
    /// Schemes to compare: FLOWs, see 'alcc-lab compare --help' [default: see below]
    ///
    /// A scheme is a congestion control of the kernel (cubic, alcc_budget) or an algorithm over TCP
    /// (verus:r=4/over=cubic, copa/over=reno).
    #[arg(long, value_name = "A,B")]
    schemes: Option<String>,
    /// Seed of the synthetic link
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for report.html, board.svg, results.json and the tables as CSV
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,
    /// Folder for the logs of 'alcc run' on every controlled connection, as CSV
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let tools = compare::tools()?;
    let alcc = tools.alcc.clone();
    let mut plan = plan(args, tools)?;
    // Programs in the kernel are there for the whole machine, so mistakes are found before.
    folder(&args.out)?;
    compare::check_emulated(&plan)?;
    let loaded = args.schemes.is_none() && add_kernel_row(&mut plan, &alcc)?;
    let guarded = Processes::guard();
    if matches!(guarded, Ok(None)) {
        return compare::carry_out(
            &plan,
            &[],
            &args.out,
            None,
            None,
            args.json,
            Interval::Range,
        );
    }
    // The parent process, after everything else has ended, however it ended.
    if loaded && let Err(why) = bpf(&alcc, "unload") {
        note(format!("alcc bpf unload: {why}"));
    }
    guarded.map(|exit| exit.unwrap_or(ExitCode::FAILURE))
}

/// Puts the kernel form of `budget` at the head of the schemes, if possible; true if the controls were loaded for this
/// run.
fn add_kernel_row(plan: &mut Plan, alcc: &Path) -> Result<bool, Failure> {
    let is_there = Controls::available().is_ok_and(|all| all.has("alcc_budget"));
    if !is_there && let Err(why) = bpf(alcc, "load") {
        note(format!("without budget in the kernel: {why}"));
        return Ok(false);
    }
    plan.schemes.splice(0..0, schemes(RESIDENT)?);
    Ok(!is_there)
}

fn schemes(list: &str) -> Result<Vec<Scheme>, Failure> {
    Scheme::list(list, &crate::algorithms(), &[Side::Emulated]).map_err(Failure::usage)
}

/// Runs `alcc bpf load` or `unload`; the error is the first line that it printed.
fn bpf(alcc: &Path, what: &str) -> Result<(), String> {
    let mut command = Command::new(alcc);
    let ended = command.args(["bpf", what]).stdin(Stdio::null()).output();
    let ended = ended.map_err(|e| e.to_string())?;
    if ended.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&ended.stderr);
    let line = printed.lines().next().unwrap_or("it printed no reason");
    Err(line.trim_start_matches("alcc: ").to_owned())
}

/// The comparison that this command runs; an error if a program that a scheme needs is missing.
fn plan(args: &Args, tools: Tools) -> Result<Plan, Failure> {
    let link = match &args.trace {
        Some(file) => Link::open(file, args.seed),
        None => Ok(Link::synthetic(args.seed)),
    };
    let link = link.map_err(Failure::usage)?;
    let schemes = schemes(args.schemes.as_deref().unwrap_or(study::SCHEMES))?;
    let checked = schemes.iter().try_for_each(|scheme| tools.check(scheme));
    checked.map_err(Failure::usage)?;
    Ok(Plan {
        links: vec![link],
        schemes,
        duration: study::in_hour(args.duration)
            .map_err(|e| Failure::usage(format!("--duration: {e}")))?,
        settle: Span::ZERO,
        runs: 1,
        backend: Backend::Emulated {
            tools,
            log: args.log.clone(),
            twin: None,
        },
        command: compare::command_line(),
        keep: None,
    })
}
