// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::config::Config;
use crate::failure::Failure;
use crate::loader;
use crate::metrics::{Metrics, Place};
use crate::output::{Product, folder, note};
use crate::plugin_arg::Plugins;
use crate::runs::Entry;
use crate::supervise;
use crate::uncontrolled::{NotControlled, Search};
use alcc_cc::{Registry, Spec};
use alcc_socket::{Pattern, Selection, Settings, Totals, Triple};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// What the project's own comparison recommends (docs/measurements.md).
pub(super) const RECOMMENDED: &str = "verus";

/// Read by libuv from 1.45 on, and from 1.50 on only for files.
const LIBUV_IO_URING: &str = "UV_USE_IO_URING";

/// Run an unmodified server with another congestion control on the connections it accepts
///
/// The library libalcc_preload.so is put under CMD and the processes it starts. Writes on accepted TCP connections then pass
/// only as far as the algorithm allows. The clients need nothing. When CMD and all its processes have ended, a line on
/// standard error says how many connections were controlled.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc run -- nginx -g 'daemon off;'\n  alcc run --cc verus:r=4 -- nginx -g 'daemon off;'\n  alcc run --cc copa --only 443 --json=report.json -- nginx\n  alcc run --config alcc.toml -- nginx"
)]
pub(crate) struct Args {
    /// The algorithm with its options, see 'alcc list' [default: verus]
    #[arg(long, value_name = "A")]
    cc: Option<Spec>,
    /// Read options and algorithms by port from a TOML file, see docs/operating.md; options given here go first
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    plugins: Plugins,
    /// The kernel's congestion control below, such as cubic, reno or bbr [default: what the system uses]
    #[arg(long, value_name = "TCPCC")]
    under: Option<String>,
    /// How acknowledgements are learned, see 'alcc list' [default: auto]
    #[arg(long, value_name = "F")]
    feedback: Option<String>,
    /// How the limit is kept, see 'alcc list' [default: auto]
    #[arg(long, value_name = "E")]
    enforce: Option<String>,
    /// Only connections to this port of ours or from this address range; may be repeated
    #[arg(long, value_name = "PORT|CIDR")]
    only: Vec<Pattern>,
    /// Not these; may be repeated
    #[arg(long, value_name = "PORT|CIDR")]
    except: Vec<Pattern>,
    /// Also connections from this machine itself
    #[arg(long)]
    loopback: bool,
    /// Also connections that the program opens itself
    #[arg(long)]
    outbound: bool,
    /// Seed of the algorithms' generators
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write a CSV file per process into this folder: one line per reading of a connection's counters
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Write the report to FILE as one JSON object
    #[arg(long, value_name = "FILE", require_equals = true)]
    json: Option<PathBuf>,
    /// Serve counters and histograms in Prometheus' text format here: 127.0.0.1:9101, :9101 or a path
    #[arg(long, value_name = "ADDRESS|PATH")]
    metrics: Option<Place>,
    /// For tests: let the runtime of each process fail after so many readings
    #[arg(long, value_name = "N", hide = true)]
    fault: Option<u64>,
    /// Say nothing at exit
    #[arg(long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut settings = settings(args)?;
    let triple = settings.triple();
    let library = library()?;
    let json = Product::named(args.json.as_deref())?;
    if let Some(path) = &args.log {
        folder(path)?;
    }
    let (entry, report) = Entry::new("run", &shell_line(&args.command))?;
    let report = Arc::new(report);
    settings.report = Some(entry.report());
    let metrics = args.metrics.as_ref();
    let _metrics = metrics
        .map(|place| Metrics::start(place, Arc::clone(&report)))
        .transpose()?;
    let mut command = prepared(&args.command, &settings, &library);
    if let Some(files) = args.plugins.env_value() {
        command.env(alcc_plugin::ENV, files);
    }
    let search = Search::start(
        Arc::clone(&report),
        settings.selection.clone(),
        entry.report(),
        library,
    );
    if !args.quiet {
        loader::objection(&args.command[0])
            .into_iter()
            .for_each(note);
    }
    let ended = supervise::run(&mut command)?;
    let missed = search.finish();
    conclude(args, json, &settings, &triple, &report.totals(), &missed);
    Ok(ended)
}

/// What the options say, and where they say nothing the file.
fn settings(args: &Args) -> Result<Settings, Failure> {
    let registry = args.plugins.registry()?;
    let file = match &args.config {
        Some(path) => Config::read(path, &registry)?,
        None => Config::default(),
    };
    let or_file = |option: &Option<String>, file: Option<String>| option.clone().or(file);
    let cc = args.cc.clone().or(file.cc);
    let cc = cc.unwrap_or_else(|| Spec::named(RECOMMENDED));
    registry.build(&cc).map_err(Failure::usage)?;
    let auto = |value: Option<String>| value.unwrap_or_else(|| "auto".to_owned());
    let triple = Triple::choose(
        cc.to_string(),
        &auto(or_file(&args.feedback, file.feedback)),
        &auto(or_file(&args.enforce, file.enforce)),
    )
    .map_err(Failure::usage)?;
    let others = file.rules.iter().filter_map(|rule| rule.cc.as_ref());
    for cc in others.chain([&cc]) {
        check_pacing(&triple, &registry, cc)?;
    }
    let under = or_file(&args.under, file.under);
    if let Some(under) = &under {
        check_under(under)?;
    }
    Ok(Settings {
        cc,
        feedback: triple.feedback,
        enforcement: triple.enforcement,
        under,
        selection: Selection {
            loopback: args.loopback || file.loopback,
            outbound: args.outbound || file.outbound,
            only: [args.only.clone(), file.only].concat(),
            except: [args.except.clone(), file.except].concat(),
            rules: file.rules,
        },
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
    if triple.enforcement.gate || paces(registry, spec)? {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "enforcement '{}' needs an algorithm that has a pacing rate, and {} has only a window: use gate+pacing, or copa",
        triple.enforcement.name, spec.name
    )))
}

/// Does the algorithm ask for pacing once it has seen an acknowledgement?
fn paces(registry: &Registry, spec: &Spec) -> Result<bool, Failure> {
    let cc = registry.build(spec).map_err(Failure::usage)?;
    Ok(cc.needs().paced)
}

pub(crate) fn check_under(name: &str) -> Result<(), Failure> {
    let list = |file: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/{file}")).unwrap_or_default()
    };
    let available = list("tcp_available_congestion_control");
    if available.is_empty() || available.split_whitespace().any(|a| a == name) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "congestion control '{name}': this kernel has {}; another may need its module loaded",
        available.trim()
    )))
}

/// The library to preload: named by ALCC_PRELOAD, beside the program, or where `make install` puts it.
fn library() -> Result<PathBuf, Failure> {
    const NAME: &str = "libalcc_preload.so";
    if let Some(named) = std::env::var_os("ALCC_PRELOAD").map(PathBuf::from) {
        return if named.is_file() {
            Ok(named)
        } else {
            Err(Failure::usage(format!(
                "ALCC_PRELOAD names {}, which is not there",
                named.display()
            )))
        };
    }
    let program = std::env::current_exe()
        .map_err(|e| Failure::usage(format!("find our own program: {e}")))?;
    let beside = program.parent().unwrap_or_else(|| Path::new("/"));
    let places = [
        beside.join(NAME),
        beside.join("../lib/alcc").join(NAME),
        beside.join("../lib").join(NAME),
    ];
    places.iter().find(|p| p.is_file()).cloned().ok_or_else(|| {
        Failure::usage(format!("{NAME} is not beside {} nor in ../lib/alcc: build it with 'make build', or name it in ALCC_PRELOAD", program.display()))
    })
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
    // libuv may register with epoll by io_uring, where no preloaded library sees it, and then its connections cannot be held
    // back. The library refuses that where it can tell libuv; this is for libuv inside something else (uvloop).
    if std::env::var_os(LIBUV_IO_URING).is_none() {
        prepared.env(LIBUV_IO_URING, "0");
    }
    prepared
}

/// Says how it went. The exit status is CMD's whatever happens here.
fn conclude(
    args: &Args,
    json: Option<Product>,
    settings: &Settings,
    triple: &Triple,
    totals: &Totals,
    missed: &[NotControlled],
) {
    if let Some(file) = json {
        let report = serde_json::json!({
            "algorithm": settings.cc.name,
            "options": settings.cc.options_text(),
            "feedback": triple.feedback.name,
            "enforcement": triple.enforcement.name,
            "under": settings.under,
            "processes": totals.processes,
            "connections": totals.connections,
            "left_alone": totals.left_alone,
            "gate_closed": totals.gate_closed,
            "bytes": totals.bytes,
            "readings": totals.readings,
            "runtime_cpu_s": totals.runtime_cpu_ns as f64 / 1e9,
            "failures": totals.failures,
            "under_refused": totals.under_refused,
            "not_controlled": missed.iter().map(|m| serde_json::json!({
                "program": m.program, "pid": m.pid, "why": m.why, "connections": m.connections, "bytes": m.bytes,
                "example": m.example.to_string(),
            })).collect::<Vec<_>>(),
        });
        file.report(format_args!("{report}"));
    }
    if args.quiet {
        return;
    }
    for m in missed {
        note(format_args!(
            "alcc: at least {} connections of {} (process {}, e.g. to {}) passed uncontrolled with {:.1} MB: {}",
            m.connections,
            m.program,
            m.pid,
            m.example,
            m.bytes as f64 / 1e6,
            m.why
        ));
    }
    if totals.processes == 0 {
        note(format_args!(
            "alcc: nothing was controlled: {} did not load the library (a static or set-user-id program?)",
            args.command[0].to_string_lossy()
        ));
        return;
    }
    note(format_args!(
        "alcc: {} connections controlled by {triple}; the gate closed {} times; {:.1} MB passed; {} left alone; runtime {:.3} CPU s",
        totals.connections,
        totals.gate_closed,
        totals.bytes as f64 / 1e6,
        totals.left_alone,
        totals.runtime_cpu_ns as f64 / 1e9,
    ));
    if totals.failures > 0 {
        note(format_args!(
            "alcc: the runtime failed in {} processes, whose connections went on as plain TCP; the reason stands where each of them logs errors",
            totals.failures
        ));
    }
    if totals.under_refused > 0 {
        note(format_args!(
            "alcc: {} connections kept the kernel's own congestion control: --under {} was refused (not in net.ipv4.tcp_allowed_congestion_control?)",
            totals.under_refused,
            settings.under.as_deref().unwrap_or("of its rule")
        ));
    }
}
