// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::config::Share;
use crate::events::{Follower, log_folder};
use crate::failure::Failure;
use crate::kernel_limit;
use crate::library;
use crate::loader;
use crate::metrics::Metrics;
use crate::output::{Product, note};
use crate::runs::{describe, enter};
use crate::service::Service;
use crate::summary::Summary;
use crate::supervise;
use crate::trial::{self, Plan, Source, Watch};
use crate::uncontrolled::{Search, Wanted};
use alcc_cc::{Registry, Spec};
use alcc_observe::{Entry, Segment};
use alcc_socket::{Deployment, Kernel, Settings, Triple};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// Variable that libuv reads from 1.45 on, and from 1.50 on only for files.
const LIBUV_IO_URING: &str = "UV_USE_IO_URING";

/// Run an unmodified server with another congestion control on the connections it accepts
///
/// The library libalcc_preload.so is preloaded into CMD and the processes it starts. It controls
/// accepted TCP connections. After 'alcc bpf load', the kernel runs the algorithm or enforces its
/// window, if this user may use that; otherwise the library holds back writes. Clients need no
/// change. Standard error shows one line at the start, one for each kind of uncontrolled traffic,
/// and a summary when CMD and all its processes have ended.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc run -- nginx\n  alcc run --cc verus:r=4 -- nginx\n  alcc run --cc copa --only 443 --json-out report.json -- nginx\n  alcc run --config alcc.toml -- nginx"
)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// "host": all connections to one address are one flow with one window
    ///
    /// This holds across the worker processes, too. For algorithms with a window, such as budget or
    /// copa.
    #[arg(long, value_name = "host")]
    share: Option<Share>,
    /// If alcc cannot start its control, warn in one line and run CMD without it
    ///
    /// Possible reasons are a mistake in the file of --config or a missing library. If only --metrics
    /// cannot listen, CMD runs under control without metrics.
    #[arg(long)]
    or_plain: bool,
}

// The server and its options. No doc comment: it would become the command's help.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Server {
    #[command(flatten)]
    service: Service,
    /// The program; everything after its name is passed to it
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.or_plain {
        or_plain(&args.server, args.share)
    } else {
        serve(&args.server, args.share, None)
    }
}

/// Runs the program, without control if nothing else is possible.
fn or_plain(args: &Server, share: Option<Share>) -> Result<ExitCode, Failure> {
    let settings =
        check_command(&args.command).and_then(|()| settings(&args.service, share, false));
    let prepared = settings.and_then(|(settings, why)| {
        let library = library::find()?;
        library::check(&library)?;
        Prepared::new(args, settings, None, library, true).map(|prepared| (prepared, why))
    });
    match prepared {
        Ok((prepared, why)) => prepared.run(args, None, why),
        Err(why) => {
            note(format_args!(
                "alcc: {why}; --or-plain: {} runs without control",
                args.command[0].to_string_lossy()
            ));
            // As its parent: a server that goes into the background must not end the service.
            let mut command = Command::new(&args.command[0]);
            supervise::run(command.args(&args.command[1..]), || ())
        }
    }
}

/// Runs the program, maybe as a trial.
pub(crate) fn serve(
    args: &Server,
    share: Option<Share>,
    trial: Option<&trial::Options>,
) -> Result<ExitCode, Failure> {
    check_command(&args.command)?;
    let service = &args.service;
    let (mut settings, why) = settings(service, share, trial.is_some())?;
    let plan = trial.map(|options| {
        Plan::divide(
            options,
            &mut settings.cc,
            settings.under.as_deref(),
            &mut settings.selection.rules,
        )
    });
    let plan = plan.transpose()?;
    let library = library::find()?;
    library::check(&library)?;
    Prepared::new(args, settings, plan.as_ref(), library, false)?.run(args, plan.as_ref(), why)
}

/// All that can fail before the program starts.
struct Prepared {
    settings: Settings,
    triple: Triple,
    library: PathBuf,
    json: Option<Product>,
    entry: Entry,
    segment: Arc<Segment>,
    events: Option<Follower>,
    watch: Option<Watch>,
    metrics: Option<Metrics>,
}

impl Prepared {
    fn new(
        args: &Server,
        mut settings: Settings,
        plan: Option<&Plan<'_>>,
        library: PathBuf,
        or_without_metrics: bool,
    ) -> Result<Self, Failure> {
        let service = &args.service;
        let triple = settings.triple();
        let json = Product::named(service.json.path())?;
        let log = log_folder(service.log.as_deref())?;
        settings.log = settings.log.filter(|_| log.is_some());
        let (entry, segment) = enter("run", &shell_line(&args.command))?;
        let segment = Arc::new(segment);
        settings.report = entry.file();
        let events = Follower::start(&segment, log.as_deref());
        let watch = plan
            .map(|plan| Watch::start(plan, Source::Ring(Arc::clone(&segment)), service.quiet))
            .transpose()?;
        let metrics = service.metrics.as_ref().map(|place| {
            let more = watch.as_ref().map(Watch::metrics);
            Metrics::start(place, Arc::clone(&segment), more)
        });
        let metrics = match metrics.transpose() {
            Err(why) if or_without_metrics => {
                note(format_args!(
                    "alcc: {why}; --or-plain: there are no metrics"
                ));
                None
            }
            metrics => metrics?,
        };
        Ok(Self {
            settings,
            triple,
            library,
            json,
            entry,
            segment,
            events,
            watch,
            metrics,
        })
    }

    fn run(
        self,
        args: &Server,
        plan: Option<&Plan<'_>>,
        why: Option<String>,
    ) -> Result<ExitCode, Failure> {
        let service = &args.service;
        let mut command = prepared(&args.command, &self.settings, &self.library);
        if let Some(files) = service.choice.plugins.env_value() {
            command.env(alcc_plugin::ENV, files);
        }
        let summary = Summary {
            command: &args.command,
            settings: &self.settings,
            triple: &self.triple,
            quiet: service.quiet,
            library: &self.library,
            plan,
            why,
        };
        describe(
            &self.segment,
            "run",
            &shell_line(&args.command),
            &summary.chosen(),
        );
        let search = Search::start(Wanted {
            segment: Arc::clone(&self.segment),
            selection: self.settings.selection.clone(),
            shared: self.entry.file().unwrap_or_default(),
            library: self.library.clone(),
            quiet: service.quiet,
        });
        let ended = supervise::run(&mut command, || summary.begin())?;
        let missed = search.finish();
        if let Some(events) = self.events {
            events.finish();
        }
        let trial = self.watch.map(Watch::finish);
        summary.end(self.json, &self.segment, &missed, trial);
        drop(self.metrics);
        Ok(ended)
    }
}

fn check_command(command: &[OsString]) -> Result<(), Failure> {
    loader::started_elsewhere(command).map_or(Ok(()), |why| {
        Err(Failure::usage(format!(
            "run {}: {why}",
            command[0].to_string_lossy()
        )))
    })
}

/// The settings, and the reason why the algorithm does not run in the kernel, unless the user chose that.
fn settings(
    args: &Service,
    share: Option<Share>,
    trial: bool,
) -> Result<(Settings, Option<String>), Failure> {
    let chosen = args.choice.chosen(share)?;
    let asks = [
        (trial, "trial"),
        (args.metrics.is_some(), "--metrics"),
        (args.log.is_some(), "--log"),
        (chosen.share, "--share"),
        (args.fault.is_some(), "--fault"),
    ];
    // Possible, but not what is meant: a report has few figures of what the kernel does.
    let auto = (&*chosen.feedback, &*chosen.enforce) == ("auto", "auto") && chosen.under.is_none();
    let asks_auto = [
        (args.json.path().is_some(), "--json-out"),
        (!args.choice.plugins.is_empty(), "--plugin"),
    ];
    let asks_auto = asks_auto.iter().filter(|_| auto);
    let asks = (asks.iter().chain(asks_auto)).find(|(asked, _)| *asked);
    let asks = asks.map(|(_, name)| *name);
    let algorithm = kernel_limit::runs(&chosen.cc, chosen.under.as_deref(), asks);
    let why = algorithm.as_ref().err().filter(|_| auto).cloned();
    let triple = Triple::choose(
        Deployment::Preloaded,
        chosen.cc.to_string(),
        (&chosen.feedback, &chosen.enforce),
        Kernel {
            algorithm,
            window: kernel_limit::available(chosen.under.as_deref()),
        },
    )
    .map_err(Failure::usage)?;
    if !args.quiet && !triple.enforcement.resident {
        kernel_limit::note_if_refused(&chosen.enforce, chosen.under.as_deref());
    }
    let rules = chosen.selection.rules.iter();
    let others = rules.filter_map(|rule| rule.cc.as_ref());
    for cc in others.chain([&chosen.cc]) {
        check_pacing(&triple, &chosen.registry, cc)?;
    }
    let settings = Settings {
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
    };
    Ok((settings, why))
}

/// Refuses pacing alone for an algorithm without a rate.
fn check_pacing(triple: &Triple, registry: &Registry, spec: &Spec) -> Result<(), Failure> {
    if triple.enforcement.gate || triple.enforcement.is_the_kernels() || paces(registry, spec)? {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "enforcement '{}' needs an algorithm that has a pacing rate, and {} has only a window: use gate+pacing, or copa",
        triple.enforcement.name, spec.name
    )))
}

/// True if the algorithm requests pacing after its first acknowledgement.
fn paces(registry: &Registry, spec: &Spec) -> Result<bool, Failure> {
    let cc = registry.build(spec).map_err(Failure::usage)?;
    Ok(cc.needs().paced)
}

/// The command as one line of text.
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
    // connections cannot be held back. The library refuses that where it sees the call; this covers the
    // other cases.
    if std::env::var_os(LIBUV_IO_URING).is_none() {
        prepared.env(LIBUV_IO_URING, "0");
    }
    prepared
}
