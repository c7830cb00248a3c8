// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::config::Share;
use crate::events::{Follower, log_folder};
use crate::failure::Failure;
use crate::kernel_limit;
use crate::library;
use crate::loader;
use crate::metrics::Metrics;
use crate::output::Product;
use crate::runs::enter;
use crate::service::Service;
use crate::summary::Summary;
use crate::supervise;
use crate::trial::{self, Plan, Source, Watch};
use crate::uncontrolled::{Search, Wanted};
use alcc_cc::{Registry, Spec};
use alcc_socket::{Deployment, Settings, Triple};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// Read by libuv from 1.45 on, and from 1.50 on only for files.
const LIBUV_IO_URING: &str = "UV_USE_IO_URING";

/// Run an unmodified server with another congestion control on the connections it accepts
///
/// The library libalcc_preload.so is put under CMD and the processes it starts. Writes on accepted
/// TCP connections then pass only as far as the algorithm allows. The clients need nothing.
/// Standard error gets a line at the start, and one for each kind of uncontrolled traffic. A
/// summary follows when CMD and all its processes have ended.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc run -- nginx\n  alcc run --cc verus:r=4 -- nginx\n  alcc run --cc copa --only 443 --json-out report.json -- nginx\n  alcc run --config alcc.toml -- nginx"
)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// Let connections to the same address share one allowance, as if they were one connection,
    /// across worker processes too. For algorithms with a window, such as budget or copa
    #[arg(long, value_name = "WITH")]
    share: Option<Share>,
}

// The server and what is done to it. No doc comment: it would become the command's help.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Server {
    #[command(flatten)]
    service: Service,
    /// The program and its arguments; whatever stands behind its name is for it
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    serve(&args.server, args.share, None)
}

/// Runs the program, maybe as a trial.
pub(crate) fn serve(
    args: &Server,
    share: Option<Share>,
    trial: Option<&trial::Options>,
) -> Result<ExitCode, Failure> {
    let service = &args.service;
    let mut settings = settings(service, share)?;
    let plan =
        trial.map(|options| Plan::divide(options, &mut settings.cc, &mut settings.selection.rules));
    let plan = plan.transpose()?;
    let triple = settings.triple();
    let library = library::find()?;
    library::check(&library)?;
    let json = Product::named(service.json.path())?;
    let log = log_folder(service.log.as_deref())?;
    settings.log = settings.log.filter(|_| log.is_some());
    let (entry, segment) = enter("run", &shell_line(&args.command))?;
    let segment = Arc::new(segment);
    settings.report = entry.file();
    let events = Follower::start(&segment, log.as_deref())?;
    let watch = plan
        .as_ref()
        .map(|plan| Watch::start(plan, Source::Ring(Arc::clone(&segment)), service.quiet))
        .transpose()?;
    let metrics = service.metrics.as_ref();
    let _metrics = metrics
        .map(|place| {
            let more = watch.as_ref().map(Watch::metrics);
            Metrics::start(place, Arc::clone(&segment), more)
        })
        .transpose()?;
    let mut command = prepared(&args.command, &settings, &library);
    if let Some(files) = service.choice.plugins.env_value() {
        command.env(alcc_plugin::ENV, files);
    }
    let summary = Summary {
        command: &args.command,
        settings: &settings,
        triple: &triple,
        quiet: service.quiet,
        library: &library,
        plan: plan.as_ref(),
    };
    let search = Search::start(Wanted {
        segment: Arc::clone(&segment),
        selection: settings.selection.clone(),
        shared: entry.file().unwrap_or_default(),
        library: library.clone(),
        quiet: service.quiet,
    });
    let ended = supervise::run(&mut command, || summary.begin())?;
    let missed = search.finish();
    if let Some(events) = events {
        events.finish();
    }
    let trial = watch.map(Watch::finish);
    summary.end(json, &segment, &missed, trial);
    Ok(ended)
}

fn settings(args: &Service, share: Option<Share>) -> Result<Settings, Failure> {
    let chosen = args.choice.chosen(share)?;
    let triple = Triple::choose(
        Deployment::Preloaded,
        chosen.cc.to_string(),
        (&chosen.feedback, &chosen.enforce),
        kernel_limit::available(chosen.under.as_deref()),
    )
    .map_err(Failure::usage)?;
    if !args.quiet {
        kernel_limit::note_if_refused(&chosen.enforce, chosen.under.as_deref());
    }
    let rules = chosen.selection.rules.iter();
    let others = rules.filter_map(|rule| rule.cc.as_ref());
    for cc in others.chain([&chosen.cc]) {
        check_pacing(&triple, &chosen.registry, cc)?;
    }
    Ok(Settings {
        cc: chosen.cc,
        feedback: triple.feedback,
        enforcement: triple.enforcement,
        under: chosen.under,
        share: chosen.share,
        selection: chosen.selection,
        report: None,
        log: args
            .log
            .clone()
            .map(|folder| std::path::absolute(&folder).unwrap_or(folder)),
        seed: args.seed,
        fault: args.fault,
    })
}

/// Pacing alone needs an algorithm that has a rate.
fn check_pacing(triple: &Triple, registry: &Registry, spec: &Spec) -> Result<(), Failure> {
    if triple.enforcement.gate || triple.enforcement.kernel || paces(registry, spec)? {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "enforcement '{}' needs an algorithm that has a pacing rate, and {} has only a window: use gate+pacing, or copa",
        triple.enforcement.name, spec.name
    )))
}

/// Whether the algorithm asks for pacing once it has seen an acknowledgement.
fn paces(registry: &Registry, spec: &Spec) -> Result<bool, Failure> {
    let cc = registry.build(spec).map_err(Failure::usage)?;
    Ok(cc.needs().paced)
}

/// The command as one line, for people.
fn shell_line(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    words.join(" ")
}

fn prepared(command: &[OsString], settings: &Settings, library: &Path) -> Command {
    let mut prepared = Command::new(&command[0]);
    prepared.args(&command[1..]);
    for (name, value) in settings.to_env() {
        match value {
            Some(value) => prepared.env(name, value),
            None => prepared.env_remove(name),
        };
    }
    prepared.envs(loader::environment(library));
    // libuv may register with epoll by io_uring, where no preloaded library sees it. Then its
    // connections cannot be held back. The library refuses that where it sees the call; this is for
    // the rest.
    if std::env::var_os(LIBUV_IO_URING).is_none() {
        prepared.env(LIBUV_IO_URING, "0");
    }
    prepared
}
