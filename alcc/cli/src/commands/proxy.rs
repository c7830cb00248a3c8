// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::chosen::Chosen;
use crate::config::Share;
use crate::config::rule_orders;
use crate::events::{Follower, log_folder};
use crate::failure::Failure;
use crate::kernel_limit;
use crate::metrics::Metrics;
use crate::output::{Product, note};
use crate::runs::enter;
use crate::service::Service;
use crate::trial::{self, Plan, Source, Watch};
use crate::wording::{count, gate, megabytes, note_refused};
use alcc_proxy::{Config, Listen, Proxy, ProxyProtocol, StartError, Stopper, Target, Totals};
use alcc_socket::Kernel;
use alcc_socket::own::Settings;
use alcc_socket::{Deployment, Selection, Triple};
use alcc_units::{Bytes, Span, positive};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::io::ErrorKind;
use std::num::{NonZeroU64, NonZeroUsize};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Relay TCP connections to a server, with another congestion control towards clients
///
/// For servers that 'alcc run' cannot reach: static programs, servers in containers or on other
/// machines. The algorithm limits the data that is sent to clients. The server can learn the
/// client's address from a PROXY protocol header. On SIGTERM or SIGINT, the proxy accepts no new
/// connections and waits for the open ones; a second signal closes those, too.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc proxy --listen :8443 --to 127.0.0.1:443\n  alcc proxy --listen :80 --listen :443 --to [2001:db8::5]:8443 --proxy-protocol v2\n  alcc proxy --listen :8443 --to app.internal:443 --cc copa --json-out report.json\n  alcc proxy --listen :8443 --to 127.0.0.1:443 --config alcc.toml",
    mut_arg("outbound", |arg| arg.help("Also control the data that is sent to the server"))
)]
pub(crate) struct Args {
    /// Listen on :PORT, ADDRESS:PORT or [IPV6]:PORT; may be repeated
    ///
    /// :PORT listens on every address.
    #[arg(long, value_name = "ADDRESS", required = true)]
    listen: Vec<Listen>,
    /// Address of the server
    ///
    /// A name is resolved at the start, and again when none of its addresses answers.
    #[arg(long, value_name = "HOST:PORT")]
    to: Target,
    /// Send the client's address to the server: v1 (text) or v2 (binary)
    ///
    /// The server must be configured to expect the PROXY protocol header.
    #[arg(long, value_name = "v1|v2")]
    proxy_protocol: Option<ProxyProtocol>,
    /// Number of worker threads [default: one per core]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Listen backlog; the kernel's net.core.somaxconn limits it
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(i32).range(1..))]
    backlog: i32,
    /// Time limit for connecting to each address of the server
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5s", value_parser = positive::<Span>)]
    connect_timeout: Span,
    /// Close connections without traffic for this time
    ///
    /// Traffic in either direction counts. Before the first byte the limit is at most one minute.
    /// When the maximum number of connections is reached, those that have been idle longest are
    /// closed in favour of new ones.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = positive::<Span>)]
    idle: Span,
    /// Maximum number of connections per client [default: half of all]
    ///
    /// A client is an IPv4 address or an IPv6 /64 network. Its connection that has been idle
    /// longest is closed in favour of a new one.
    #[arg(long, hide_short_help = true, value_name = "N")]
    per_client: Option<NonZeroU64>,
    /// Time that open connections may take to finish after SIGTERM
    #[arg(
        long,
        hide_short_help = true,
        value_name = "TIME",
        default_value = "30s"
    )]
    grace: Span,
    #[command(flatten)]
    service: Service,
    /// Treat all connections to one client as one flow: they get one window together
    ///
    /// They are then limited as if they were one connection. For algorithms with a window, such as
    /// budget or copa.
    #[arg(long, value_name = "host")]
    share: Option<Share>,
    /// Maximum number of bytes that wait for the algorithm, per connection
    #[arg(long, hide_short_help = true, value_name = "BYTES", default_value = "131072", value_parser = positive::<Bytes>)]
    queue: Bytes,
    #[command(flatten)]
    trial: trial::Args,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut chosen = args.service.choice.chosen(args.share)?;
    let options = args.trial.options()?;
    let plan = options.as_ref().map(|options| {
        Plan::divide(
            options,
            &mut chosen.cc,
            chosen.under.as_deref(),
            &mut chosen.selection.rules,
        )
    });
    let plan = plan.transpose()?;
    let triple = triple(&chosen)?;
    let rules = rule_orders(&chosen.selection.rules);
    if chosen.selection.rules.iter().any(|r| r.under.is_some()) {
        return Err(Failure::usage(
            "'under' in a section [[port]] or [[peer]] is only for 'alcc run': the proxy has one 'under' for all connections",
        ));
    }
    let log = log_folder(args.service.log.as_deref())?;
    let json = Product::named(args.service.json.path())?;
    let (_entry, segment) = enter("proxy", &what(args))?;
    // Before the first thread: all of them leave these signals to us.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .map_err(|e| Failure::usage(format!("block signals: {e}")))?;
    let segment = Arc::new(segment);
    let crowded = |e| Failure::usage(format!("apply the sections of the file: {e}"));
    segment.replace(rules).map_err(crowded)?;
    let events = Follower::start(&segment, log.as_deref());
    let watch = plan.as_ref();
    let watch = watch
        .map(|plan| Watch::start(plan, Source::Ring(Arc::clone(&segment)), args.service.quiet));
    let watch = watch.transpose()?;
    let proxy = Proxy::start(
        &config(args, &chosen),
        Settings {
            log,
            ..settings(args, &chosen, &triple)
        },
        &chosen.registry,
        Some(&segment),
    )
    .map_err(|e| start_failure(args, &e))?;
    let metrics = args.service.metrics.as_ref();
    let _metrics = metrics
        .map(|place| {
            let more = watch.as_ref().map(Watch::metrics);
            Metrics::start(place, Arc::clone(&segment), more)
        })
        .transpose()?;
    if !args.service.quiet {
        let at: Vec<_> = proxy.addresses().iter().map(ToString::to_string).collect();
        note(format_args!(
            "alcc: relaying {} to {}, {}; at most {} connections at a time",
            at.join(" and "),
            args.to,
            plan.as_ref()
                .map_or_else(|| format!("controlled by {triple}"), ToString::to_string),
            proxy.max_connections(),
        ));
    }
    stop_at_signals(signals, proxy.stopper(), args.grace, args.service.quiet);
    let totals = proxy.join().map_err(Failure::failed)?;
    if let Some(events) = events {
        events.finish();
    }
    let trial = watch.map(Watch::finish);
    conclude(args, &chosen, json, &triple, &totals, trial);
    Ok(ExitCode::SUCCESS)
}

/// The first signal lets connections finish within `grace`, the second one ends them.
fn stop_at_signals(signals: SigSet, stopper: Arc<Stopper>, grace: Span, quiet: bool) {
    std::thread::spawn(move || {
        while signals.wait().is_err() {}
        stopper.stop(Duration::from_nanos(grace.as_nanos()));
        let open = stopper.open();
        if open > 0 && !quiet {
            note(format_args!(
                "alcc: waiting up to {grace} for {} to finish; a second signal closes them",
                count(open, "connection")
            ));
        }
        while signals.wait().is_err() {}
        stopper.stop(Duration::ZERO);
    });
}

/// Description for `alcc top` and messages.
fn what(args: &Args) -> String {
    let at: Vec<_> = args.listen.iter().map(ToString::to_string).collect();
    format!("{} to {}", at.join(" and "), args.to)
}

fn config(args: &Args, chosen: &Chosen) -> Config {
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Config {
        listen: args.listen.clone(),
        to: args.to.clone(),
        proxy_protocol: args.proxy_protocol,
        threads: args
            .threads
            .and_then(|n| NonZeroUsize::new(n.into()))
            .unwrap_or(cores),
        backlog: args.backlog,
        connect_timeout: Duration::from_nanos(args.connect_timeout.as_nanos()),
        idle: Duration::from_nanos(args.idle.as_nanos()),
        per_client: args.per_client,
        // What the sections of the file say is given as orders.
        selection: Selection {
            rules: Vec::new(),
            ..chosen.selection.clone()
        },
    }
}

/// Time stamps would wake our own loops, so `auto` does not use them.
const AUTO_FEEDBACK: &str = "tcp-info";

fn triple(chosen: &Chosen) -> Result<Triple, Failure> {
    kernel_limit::note_if_refused(&chosen.enforce, chosen.under.as_deref());
    let kernel = Kernel {
        // Refused by name: a proxy's sockets are its own.
        algorithm: Err(String::new()),
        window: kernel_limit::available(chosen.under.as_deref()),
    };
    let kernel_keeps = kernel.window.is_ok() && chosen.enforce == "auto" || chosen.enforce == "bpf";
    let feedback = match chosen.feedback.as_str() {
        "auto" if !kernel_keeps => AUTO_FEEDBACK,
        name => name,
    };
    let asked = (feedback, chosen.enforce.as_str());
    Triple::choose(Deployment::Own, chosen.cc.to_string(), asked, kernel).map_err(Failure::usage)
}

fn settings(args: &Args, chosen: &Chosen, triple: &Triple) -> Settings {
    Settings {
        feedback: Some(triple.feedback),
        enforcement: triple.enforcement,
        under: chosen.under.clone(),
        share: chosen.share,
        queue: usize::try_from(args.queue.get()).unwrap_or(usize::MAX),
        seed: args.service.seed,
        fault: args.service.fault,
        ..Settings::new(chosen.cc.clone())
    }
}

fn start_failure(args: &Args, error: &StartError) -> Failure {
    Failure::usage(match error {
        StartError::Listen(_, e) => match e.kind() {
            ErrorKind::AddrInUse => {
                format!("{error}: stop the program that listens there, or choose another port")
            }
            ErrorKind::AddrNotAvailable => format!("{error}: not an address of this machine"),
            ErrorKind::PermissionDenied => format!(
                "{error}: ports below 1024 need privileges; choose another, or give the program CAP_NET_BIND_SERVICE"
            ),
            _ => error.to_string(),
        },
        StartError::Resolve(..) => format!(
            "{error}: check the name in --to {}, or give its address",
            args.to
        ),
        StartError::Itself(_) => {
            format!("{error}: give --to the server's address, or --listen another port")
        }
        StartError::System(_) => error.to_string(),
    })
}

fn conclude(
    args: &Args,
    chosen: &Chosen,
    json: Option<Product>,
    triple: &Triple,
    totals: &Totals,
    trial: Option<serde_json::Value>,
) {
    let runtimes = &totals.runtimes;
    let cpu = alcc_sys::process_cpu().as_secs_f64();
    if let Some(file) = json {
        let mut report = serde_json::json!({
            "algorithm": chosen.cc.name,
            "options": chosen.cc.options_text(),
            "feedback": triple.feedback.name,
            "enforcement": triple.enforcement.name,
            "under": chosen.under,
            "connections": totals.connections,
            "open": totals.open,
            "peak": totals.peak,
            "connect_failed": totals.connect_failed,
            "resets": totals.resets,
            "silent": totals.silent,
            "turned_away": totals.turned_away,
            "accept_pauses": totals.accept_pauses,
            "bytes_up": totals.bytes_up,
            "bytes_down": totals.bytes_down,
            "controlled": runtimes.connections,
            "left_alone": totals.left_alone,
            "gate_closed": runtimes.gate_closed,
            "controlled_bytes": runtimes.bytes,
            "readings": runtimes.readings,
            "cpu_s": cpu,
            "runtime_cpu_s": runtimes.runtime_cpu_ns as f64 / 1e9,
            "wakeups": runtimes.wakeups,
            "late_wakeups": runtimes.late_wakeups,
            "failures": totals.failures,
            "under_refused": totals.under_refused,
        });
        if let Some(trial) = trial {
            report["trial"] = trial;
        }
        file.report(format_args!("{report}"));
    }
    if args.service.quiet {
        return;
    }
    note(format_args!(
        "alcc: {} relayed, {} down, {} up; {} controlled by {triple}{}; {cpu:.3} CPU s",
        count(totals.connections, "connection"),
        megabytes(totals.bytes_down),
        megabytes(totals.bytes_up),
        runtimes.connections,
        gate(&triple.enforcement, runtimes.gate_closed),
    ));
    if totals.failures > 0 {
        note(format_args!(
            "alcc: the algorithm failed on {}, which continued as plain TCP",
            count(totals.failures, "connection")
        ));
    }
    if totals.connect_failed > 0 {
        note(format_args!(
            "alcc: {} failed: {} did not answer",
            count(totals.connect_failed, "connection"),
            args.to
        ));
    }
    note_refused(
        totals.under_refused,
        chosen.under.as_deref().unwrap_or_default(),
    );
}
