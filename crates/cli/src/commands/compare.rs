// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use crate::plugin_arg::Plugins;
use crate::progress::{Bar, stop_flag};
use alcc_lab::board::{self, Plan};
use alcc_lab::{LabError, Link, Scheme, Tools};
use alcc_units::Span;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare schemes on recorded traces: each trace, all schemes beside each other, several times
///
/// Prints, per trace and scheme, the median of the repetitions with the smallest and largest; writes a report, a CSV file
/// with every run, and the JSON object.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  alcc compare --emu --traces traces/alcc --schemes cubic,bbr,alcc-verus,alcc-copa --duration 60s --runs 3"
)]
pub(crate) struct Args {
    /// In the emulator, with real programs and the kernel's TCP
    #[arg(long, required = true)]
    emu: bool,
    /// Trace files in Mahimahi's format, folders of them, or synthetic scenarios (synth:city-driving); may be repeated
    #[arg(long, value_name = "DIR|FILE", required = true, num_args = 1.., env = "ALCC_TRACES")]
    traces: Vec<PathBuf>,
    /// What to compare: the kernel's (cubic) and ours above it (alcc-verus:r=4, alcc-copa/over=reno)
    #[arg(
        long,
        value_name = "A,B",
        default_value = "cubic,bbr,alcc-verus,alcc-copa"
    )]
    schemes: String,
    #[command(flatten)]
    plugins: Plugins,
    /// Length of each measurement
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    duration: Span,
    /// Repetitions of each trace
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Seed of everything random on the links
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for report.html, results.json and flows.csv
    #[arg(long, value_name = "DIR", default_value = "out/compare")]
    out: PathBuf,
    /// Folder for the runtime's readings of every controlled connection, as CSV
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let plan = Plan {
        links: Link::open_all(&args.traces, args.seed).map_err(Failure::usage)?,
        schemes: Scheme::list(&args.schemes, &args.plugins.registry()?).map_err(Failure::usage)?,
        duration: checked(args.duration)?,
        runs: args.runs,
        tools: Tools {
            plugins: args.plugins.files().to_vec(),
            ..tools()?
        },
        log: args.log.clone(),
        command: command_line(),
    };
    carry_out(&plan, &args.out, args.json)
}

/// Measures, writes the files, prints. Before any thread is started it gets the right to make namespaces.
pub(crate) fn carry_out(plan: &Plan, out: &Path, json: bool) -> Result<ExitCode, Failure> {
    alcc_emu::prepare().map_err(Failure::usage)?;
    let stop = stop_flag()?;
    let bar = Bar::new();
    let measured = board::compare(plan, &stop, &mut |part, what| bar.show(part, what));
    drop(bar);
    let results = measured.map_err(failure)?;
    let page = board::write(&results, out).map_err(failure)?;
    if json {
        println!(
            "{}",
            serde_json::to_string(&results).map_err(Failure::failed)?
        );
        eprintln!("report: {}", page.display());
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", board::table(&results));
    println!("\nreport: {}", page.display());
    for note in &results.notes {
        println!("note: {note}");
    }
    if !results.summary.sentence.is_empty() {
        println!("{}", results.summary.sentence);
    }
    Ok(ExitCode::SUCCESS)
}

fn failure(error: LabError) -> Failure {
    if error.is_environment() {
        Failure::usage(error)
    } else {
        Failure::failed(error)
    }
}

/// Anything from a second to the hour that delays are measured to.
pub(crate) fn checked(duration: Span) -> Result<Span, Failure> {
    if (Span::from_secs(1)..=Span::from_secs(3_600)).contains(&duration) {
        Ok(duration)
    } else {
        Err(Failure::usage(format!(
            "--duration {duration}: want 1s to 3600s"
        )))
    }
}

pub(crate) fn tools() -> Result<Tools, Failure> {
    let alcc = std::env::current_exe()
        .map_err(|e| Failure::usage(format!("find our own program: {e}")))?;
    Tools::find(alcc).map_err(Failure::usage)
}

pub(crate) fn command_line() -> String {
    let mut words: Vec<String> = std::env::args().collect();
    if let Some(first) = words.first_mut() {
        *first = "alcc".to_owned();
    }
    words.join(" ")
}
