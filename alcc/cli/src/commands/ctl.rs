// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::config;
use crate::failure::Failure;
use crate::output::{note, print};
use crate::plugin_arg::Plugins;
use crate::running::Running;
use crate::runs::Which;
use crate::wording::count;
use alcc_cc::{Registry, Spec};
use alcc_observe::{Action, Command, Commands, Pattern, Peer, Segment, StatusRecord};
use alcc_socket::{Deployment, Enforcement};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Switch a run of alcc off and on, or change its algorithm or how its window is enforced
///
/// A run is an 'alcc run', an 'alcc proxy' or a program that uses the C library. 'off' and 'on'
/// apply to all runs of this user. The other commands need exactly one run; if there are several,
/// choose one with --run. The command takes effect within some 5 ms on connections with data in
/// flight, at the next write on idle ones and on those whose algorithm runs in the kernel, and from
/// the start on new ones. The program neither restarts nor notices it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Print a JSON object for each run, one per line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Stop controlling: plain TCP
    #[command(after_help = "Examples:\n  alcc ctl off\n  alcc ctl off --run 4711 --port 8080")]
    Off(Scope),
    /// Control the connections again; algorithms start afresh
    #[command(after_help = "Example:\n  alcc ctl on")]
    On(Scope),
    /// Reload the configuration file of 'alcc run --config'
    ///
    /// Replaces the algorithms, sections and lists by those of the file, and cancels all earlier
    /// commands of 'alcc ctl', at once. If the file has a mistake, nothing changes. 'only' and
    /// 'except' can exclude more than at the start, not less. All other settings apply at the next
    /// start.
    #[command(after_help = "Example:\n  alcc ctl reload /etc/alcc.toml")]
    Reload(Reload),
    /// Change the algorithm
    #[command(after_help = "Examples:\n  alcc ctl cc copa\n  alcc ctl cc verus:r=4 --port 443")]
    Cc(Cc),
    /// Change the enforcement: kernel, bpf or gate+pacing, see 'alcc list'
    ///
    /// kernel: the algorithm runs in the kernel. bpf: it runs in the program, and the kernel enforces
    /// its window (alcc_window). gate+pacing: the library holds writes back and paces.
    /// Connections that do not support it use the next best, which 'alcc top --json' shows. 'auto'
    /// returns to the enforcement that the run began with.
    #[command(
        after_help = "Examples:\n  alcc ctl enforce kernel\n  alcc ctl enforce gate+pacing --port 443"
    )]
    Enforce(Enforce),
}

#[derive(clap::Args)]
struct Enforce {
    /// Enforcement
    #[arg(value_name = "E")]
    enforcement: String,
    #[command(flatten)]
    scope: Scope,
}

#[derive(clap::Args)]
struct Reload {
    /// The configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    plugins: Plugins,
}

#[derive(clap::Args)]
struct Cc {
    /// Algorithm with its options, see 'alcc list'
    #[arg(value_name = "A")]
    algorithm: Spec,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    plugins: Plugins,
}

#[derive(clap::Args)]
struct Scope {
    /// Only connections with these local ports
    ///
    /// For connections that the program opened, the peer's port counts. Separate several by commas,
    /// or repeat the option.
    #[arg(long, value_name = "N", conflicts_with = "peer", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Only clients in this network, or this share of the clients (10%)
    #[arg(long, value_name = "CIDR", value_parser = range)]
    peer: Option<Pattern>,
}

fn range(text: &str) -> Result<Pattern, String> {
    match text.parse()? {
        Pattern::Port(_) => Err(format!(
            "'{text}' is not an address range: use --port for a port"
        )),
        range @ (Pattern::Cidr(..) | Pattern::Share(_)) => Ok(range),
    }
}

/// Time for sending connections to follow the command: several of the longest intervals between
/// readings.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// Time for a program that has just been started to load the library.
const MAX_START: Duration = Duration::from_secs(2);

/// A command to the processes of a run.
enum Order {
    More(Vec<Command>),
    /// Commands that replace all earlier ones.
    File(PathBuf, Vec<Command>),
}

impl Order {
    fn of(what: &What) -> Result<Self, Failure> {
        let (scope, action) = match what {
            What::Off(scope) => (scope, Action::Off),
            What::On(scope) => (scope, Action::On),
            What::Reload(Reload { file, plugins }) => {
                let orders = config::orders(file, &plugins.registry(Registry::builtin())?)?;
                return Ok(Self::File(file.clone(), orders));
            }
            What::Cc(cc) => {
                let registry = cc.plugins.registry(Registry::builtin())?;
                registry.build(&cc.algorithm).map_err(Failure::usage)?;
                (&cc.scope, Action::Algorithm(cc.algorithm.clone()))
            }
            What::Enforce(Enforce { enforcement, scope }) => {
                Enforcement::choose(Deployment::Preloaded, enforcement).map_err(Failure::usage)?;
                (scope, Action::Enforcement(enforcement.clone()))
            }
        };
        let patterns = match scope.port[..] {
            [] => vec![scope.peer],
            ref ports => ports
                .iter()
                .map(|port| Some(Pattern::Port(*port)))
                .collect(),
        };
        let command = |pattern| Command {
            pattern,
            action: action.clone(),
        };
        Ok(Self::More(patterns.into_iter().map(command).collect()))
    }

    fn give(&self, segment: &Segment) -> io::Result<Commands> {
        match self {
            Self::More(commands) => segment.add_commands(commands.iter().cloned()),
            Self::File(_, list) => segment.replace(list.iter().cloned()),
        }
    }

    /// True if the command applies to this connection.
    fn covers(&self, peer: &Peer) -> bool {
        match self {
            Self::More(commands) => commands.iter().any(|command| command.covers(peer)),
            Self::File(..) => true,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::More(commands) => {
                let all: Vec<_> = commands.iter().map(Command::to_string).collect();
                f.write_str(&all.join(", "))
            }
            Self::File(file, _) => write!(f, "reload {}", file.display()),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let order = Order::of(&args.what)?;
    // The way back to plain TCP must not depend on how many runs there are, nor on what other users
    // pretend to run.
    let runs = match &args.what {
        What::Off(_) | What::On(_) => args.which.own()?,
        What::Reload(_) | What::Cc(_) | What::Enforce(_) => vec![args.which.one()?],
    };
    send(&order, &runs, false, args.json)
}

/// `everybody`: all users' runs have to follow. Otherwise those of others may refuse, if there are several.
fn send(order: &Order, runs: &[Running], everybody: bool, json: bool) -> Result<ExitCode, Failure> {
    // To all of them before anything is waited for.
    let given = runs.iter().map(|run| (run, give(order, run)));
    let given: Vec<_> = given.collect();
    let (deadline, started) = (Instant::now() + MAX_WAIT, Instant::now() + MAX_START);
    let (user, mut sent) = (nix::unistd::geteuid().as_raw(), 0);
    let mut failed = None;
    let mut fail = |why| {
        if let Some(earlier) = failed.replace(why) {
            note(format_args!("alcc: {earlier}"));
        }
    };
    for (run, given) in given {
        match given {
            Ok(given) => {
                // A process that loads the library later finds the order, and nobody may delay 'alcc off'.
                if !everybody && let Some(why) = unloaded(order, run, started) {
                    fail(why);
                    continue;
                }
                sent += 1;
                let followed = wait(run, order, given.generation, deadline);
                report(order, run, followed, json)?;
            }
            Err(why) if !everybody && run.owner != user && runs.len() > 1 => {
                note(format_args!("alcc: {why}"));
            }
            Err(why) => fail(why),
        }
    }
    match failed {
        Some(why) => Err(why),
        None if sent == 0 => Err(Failure::failed(format!(
            "send '{order}': no run accepted it"
        ))),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Switches off all runs, if there are any: of this user; for root, of all users.
pub(crate) fn off() -> Result<(), Failure> {
    // Each run keeps a file open until all have the order.
    drop(alcc_sys::raise_descriptor_limit());
    let runs = crate::runs::everywhere();
    if runs.is_empty() {
        return Ok(());
    }
    let everything = Scope {
        port: Vec::new(),
        peer: None,
    };
    send(&Order::of(&What::Off(everything))?, &runs, true, false).map(drop)
}

/// Error if the command was given but none of the run's processes has the library, so that none follows. A
/// program that has just been started gets time to load it.
fn unloaded(order: &Order, run: &Running, until: Instant) -> Option<Failure> {
    let is_loaded = || run.kind != "run" || run.segment.totals().processes > 0;
    while !is_loaded() {
        if Instant::now() > until {
            return Some(Failure::failed(format!(
                "send '{order}' to run {}: none of its processes loaded the library ({})",
                run.title(),
                run.what
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Gives the command to one run.
fn give(order: &Order, run: &Running) -> Result<Commands, Failure> {
    order
        .give(&run.segment)
        .map_err(|e| Failure::failed(format!("send '{order}' to run {}: {e}", run.title())))
}

fn report(
    order: &Order,
    run: &Running,
    (followed, idle): (usize, usize),
    json: bool,
) -> Result<(), Failure> {
    let told = if json {
        serde_json::json!({"run": run.id, "order": order.to_string(), "followed": followed, "idle": idle})
            .to_string()
    } else {
        format!(
            "run {}: {order}: {} switched, {idle} to switch at the next write, new connections included",
            run.title(),
            count(followed as u64, "connection"),
        )
    };
    print(format_args!("{told}\n"))?;
    Ok(())
}

/// Number of connections that have followed, and of idle ones that will follow later.
fn wait(run: &Running, order: &Order, generation: u64, deadline: Instant) -> (usize, usize) {
    loop {
        let meant: Vec<StatusRecord> = run
            .segment
            .connections()
            .into_iter()
            .filter(|c| order.covers(&peer(c)))
            .collect();
        let followed = meant
            .iter()
            .filter(|c| c.now.generation >= generation)
            .count();
        let waiting = meant.len() - followed;
        let sending = meant
            .iter()
            .any(|c| c.now.generation < generation && !c.now.resting);
        if !sending || Instant::now() > deadline {
            return (followed, waiting);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn peer(c: &StatusRecord) -> Peer {
    Peer {
        remote: c.who.remote,
        local_port: c.who.local.port(),
        outbound: c.who.outbound,
    }
}
