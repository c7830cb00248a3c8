// SPDX-License-Identifier: Apache-2.0 OR MIT
mod matching;
mod momentary;
mod steer;
mod trial;

use super::bpf::failure;
use crate::failure::Failure;
use crate::http::Place;
use crate::output::{note, print};
use crate::plugin_arg::Plugins;
use alcc_bpf::{BpfError, Choice, Chosen, Found, Future, Options, Prefix, RESIDENT, Selection};
use alcc_cc::{Registry, Spec};
use alcc_units::{Span, positive};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Switch the connections of a running server to another congestion control
///
/// Works with every program: static binaries, Go, io_uring, containers. The congestion control is one
/// of the kernel's (bbr, cubic, ...) or one that 'alcc bpf load' has registered; then no process
/// keeps running. Any other algorithm of 'alcc list', or of a plug-in, runs in this process until
/// Ctrl-C; the kernel enforces its window, and takes over if this process dies. Only connections
/// that match all given options are switched. Needs root. Without BPF it can switch existing
/// connections only, and without root only those of the user's own processes.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  sudo alcc bpf load && sudo alcc attach --port 443 --cc copa --future\n  \
                  sudo alcc attach --pid 4711 --cc copa --dry-run\n  sudo alcc detach --port 443\n  \
                  sudo alcc attach --port 443 --cc sprout --future\n  \
                  sudo alcc attach --port 443 --cc copa --trial 10%"
)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Algorithm with its options, see 'alcc list', or any congestion control of the kernel
    #[arg(long = "cc", value_name = "A", default_value = alcc_cc::DEFAULT)]
    algorithm: Spec,
    #[command(flatten)]
    plugins: Plugins,
    /// Also future connections that match --port and --prefix. --cgroup limits them to that cgroup, --pid to the whole cgroup of the process; without either, they may be of any process
    ///
    /// --port and --prefix apply to them, too.
    #[arg(long, conflicts_with = "trial")]
    future: bool,
    /// Show what would be switched, and change nothing
    #[arg(long, conflicts_with = "trial")]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trial: crate::trial::Args,
    /// With --trial: end it after this time; Ctrl-C ends it earlier [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", requires = "trial", value_parser = positive::<Span>)]
    duration: Option<Span>,
    /// With --trial: serve Prometheus metrics of both groups at this address or Unix socket
    ///
    /// Such as 127.0.0.1:9101, :9101 or /run/alcc.sock.
    #[arg(long, value_name = "ADDRESS|PATH", requires = "trial")]
    metrics: Option<Place>,
}

/// Give connections back the congestion control that they had before 'alcc attach'
///
/// Takes the same options as 'alcc attach' to select connections. It also ends 'alcc attach --future'
/// for that selection, in the named cgroup or, without one, in all. Without options it restores all
/// connections, in every network namespace.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  sudo alcc detach --port 443\n  sudo alcc detach")]
pub(crate) struct DetachArgs {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Which {
    /// Connections with this local port
    ///
    /// Separate several by commas, or repeat the option.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Connections of this process
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Connections of the processes in this cgroup, a folder below /sys/fs/cgroup
    #[arg(long, value_name = "C")]
    cgroup: Option<PathBuf>,
    /// Connections with peers in this network, such as 192.0.2.0/24
    #[arg(long, value_name = "NET")]
    prefix: Option<Prefix>,
}

impl Which {
    /// One selection for each port.
    fn selections(&self) -> Vec<Selection> {
        let selection = |port| Selection {
            port,
            prefix: self.prefix,
            pid: self.pid,
            cgroup: self.cgroup.clone(),
            share: None,
        };
        if self.port.is_empty() {
            return vec![selection(None)];
        }
        self.port
            .iter()
            .map(|port| selection(Some(*port)))
            .collect()
    }

    /// The selection, for `what`, which takes one port only.
    fn selection(&self, what: &str) -> Result<Selection, Failure> {
        match <[Selection; 1]>::try_from(self.selections()) {
            Ok([selection]) => Ok(selection),
            Err(_) => Err(Failure::usage(format!(
                "attach: {what} takes one --port: start one for each port"
            ))),
        }
    }

    /// The cgroup whose future connections are also switched.
    fn cgroup(&self) -> Result<PathBuf, Failure> {
        if let Some(cgroup) = &self.cgroup {
            return Ok(cgroup.clone());
        }
        let Some(pid) = self.pid else {
            return alcc_bpf::all_cgroups().ok_or_else(|| {
                Failure::usage(
                    "find the cgroups: none of version 2 are mounted: mount them, or name one by --cgroup",
                )
            });
        };
        alcc_bpf::cgroup_of(pid).ok_or_else(|| {
            Failure::usage(format!(
                "find the cgroup of process {pid}: it has none of version 2: mount one, or name it by --cgroup"
            ))
        })
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let selections = args.which.selections();
    if selections == [Selection::default()] {
        return Err(Failure::usage(
            "attach: which connections? Give --port, --pid, --cgroup or --prefix",
        ));
    }
    let options = args.trial.options()?;
    outlives_its_unit(args, options.is_some())?;
    let registry = args.plugins.registry(Registry::builtin())?;
    let control = control(&args.algorithm, &registry)?;
    if let Some(options) = options {
        let control = control.ok_or_else(|| {
            Failure::usage(format!(
                "attach --trial: {} runs in user space: a trial of a running server needs an algorithm in the kernel ({})",
                args.algorithm,
                resident()
            ))
        })?;
        return trial::run(args, &control, &options);
    }
    let Some(control) = control else {
        let selection = args
            .which
            .selection(&format!("{} in this process", args.algorithm))?;
        if args.dry_run {
            let mut found = look(&selection).map_err(failure)?;
            // Listening sockets do not change: this process takes over accepted connections.
            found.retain(|f| f.peer.is_some());
            return done(
                args,
                &found,
                &format!("would be controlled by {}", args.algorithm),
                None,
            );
        }
        return steer::run(args, registry, &selection);
    };
    let mut found = Vec::new();
    for selection in &selections {
        found.extend(switch(args, selection, &control)?);
    }
    let verb = if args.dry_run {
        "would become"
    } else {
        "switched to"
    };
    let lasts = args.future && !args.dry_run && !args.json;
    if !(lasts && found.is_empty()) {
        done(args, &found, &format!("{verb} {control}"), Some(&control))?;
    }
    if lasts {
        print(format_args!(
            "from now on: {}\n",
            what(args, &control.to_string())
        ))?;
    }
    if let Some(error) = found.iter().find_map(|f| f.error.as_ref()) {
        return Err(Failure::failed(format!(
            "switch connections to {control}: {error}"
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// The unit, scope or container to which a cgroup belongs, and the first folder above that belongs to none.
/// systemd removes the cgroup of a unit when the unit stops, and the selection for it silently ends.
/// `None` if this process runs within the unit, because it then runs at each start.
pub(crate) fn unit_of(cgroup: &Path) -> Option<(&Path, &Path)> {
    let is_unit = |folder: &&Path| {
        let kind = folder.extension();
        kind.is_some_and(|kind| kind == "service" || kind == "scope")
    };
    let unit = cgroup.ancestors().find(is_unit)?;
    let own = alcc_bpf::cgroup_of(std::process::id());
    if own.is_some_and(|own| own.starts_with(unit)) {
        return None;
    }
    let outermost = cgroup.ancestors().filter(is_unit).last()?;
    Some((unit, outermost.parent().unwrap_or(outermost)))
}

/// Refuses a selection for future connections that would end with the next restart of the unit.
fn outlives_its_unit(args: &Args, trial: bool) -> Result<(), Failure> {
    let which = &args.which;
    let what = match (args.future, trial) {
        (true, _) => "--future",
        (_, true) => "--trial",
        _ => return Ok(()),
    };
    if which.pid.is_none() && which.cgroup.is_none() {
        return Ok(());
    }
    let cgroup = which.cgroup()?;
    let Some((unit, above)) = unit_of(&cgroup) else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "attach {what}: {} goes with each restart, and the choice with it: run this command in the unit (ExecStartPost=), or name the port and --cgroup {}",
        unit.display(),
        above.display()
    )))
}

/// Switches the selected connections and returns them; with `--dry-run` only returns them.
fn switch(args: &Args, selection: &Selection, control: &Chosen) -> Result<Vec<Found>, Failure> {
    if args.dry_run {
        return look(selection).map_err(failure);
    }
    if args.future {
        // First, so that no connection slips through between the two.
        let cgroup = args.which.cgroup()?;
        let future = Future {
            selection,
            cgroup: &cgroup,
        };
        future.begin(control).map_err(failure)?;
    }
    (alcc_bpf::attach(selection, control))
        .or_else(|why| without_bpf(selection, control, why))
        .map_err(failure)
}

const NO_MATCH: &str = "attach: no TCP socket matches: compare with 'ss -tlnp' (for another network namespace give --pid)";

fn done(
    args: &Args,
    found: &[Found],
    did: &str,
    now: Option<&Chosen>,
) -> Result<ExitCode, Failure> {
    show(found, did, now, args.json)?;
    if found.is_empty() && !args.future {
        return Err(Failure::failed(NO_MATCH));
    }
    Ok(ExitCode::SUCCESS)
}

/// The matching connections and their controls.
fn look(selection: &Selection) -> Result<Vec<Found>, BpfError> {
    alcc_bpf::survey(selection).or_else(|why| match momentary::attach(selection, None) {
        Ok(found) if momentary::is_worth_a_try(&why) && !found.is_empty() => Ok(found),
        _ => Err(why),
    })
}

/// Switches each socket by a descriptor, if BPF is not available for the reason `why`. Returns that
/// reason if no socket was switched.
fn without_bpf(
    selection: &Selection,
    control: &Chosen,
    why: BpfError,
) -> Result<Vec<Found>, BpfError> {
    // A descriptor of a socket has no way to the options.
    if !momentary::is_worth_a_try(&why) || control.options != Options::default() {
        return Err(why);
    }
    match momentary::attach(selection, Some(&control.control)) {
        Ok(found) if found.iter().any(|f| f.error.is_none()) => {
            note(format_args!(
                "alcc: done without BPF, for what exists now; 'alcc detach' will not know what it had ({why})"
            ));
            Ok(found)
        }
        _ => Err(why),
    }
}

/// The selection in words, for `alcc top` and messages.
fn what(args: &Args, verb: &str) -> String {
    let which = &args.which;
    let ports: Vec<_> = which.port.iter().map(u16::to_string).collect();
    let parts = [
        (!ports.is_empty()).then(|| format!("port {}", ports.join(", "))),
        which.pid.map(|pid| format!("process {pid}")),
        which.cgroup.as_ref().map(|c| c.display().to_string()),
        which.prefix.map(|prefix| prefix.to_string()),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!("{verb} on {}", parts.join(", "))
}

pub(crate) fn detach(args: &DetachArgs) -> Result<ExitCode, Failure> {
    let selections = args.which.selections();
    let (mut ended, mut found) = (Vec::new(), Vec::new());
    for selection in &selections {
        let is_all = *selection == Selection::default();
        // A cgroup may be gone, and what was chosen for it still be there.
        let cgroup = match (&selection.cgroup, selection.pid) {
            (None, None) => None,
            _ => args.which.cgroup().ok(),
        };
        let is_meant = |choice: &Choice| {
            let is_there = match &cgroup {
                // Also what was chosen for a cgroup in its place, which is gone.
                Some(cgroup) => choice.cgroup.is_none() || choice.is_in(cgroup),
                None => true,
            };
            is_all || choice.is_of(selection) && is_there
        };
        let over = alcc_bpf::end_futures(is_meant).map_err(failure)?;
        found.extend(match alcc_bpf::detach(selection) {
            // Of what is gone, nothing is connected.
            Err(why) if why.is_gone() && !over.is_empty() => Vec::new(),
            found => found.map_err(failure)?,
        });
        ended.extend(over);
    }
    let mut stay = alcc_bpf::futures();
    stay.retain(|choice| selections.iter().any(|selection| choice.meets(selection)));
    if args.json {
        let choices =
            |all: &[Choice]| -> Vec<_> { all.iter().map(super::bpf::choice_as_json).collect() };
        print(format_args!(
            "{}\n",
            serde_json::json!({
                "sockets": as_json(&found),
                "future_ended": choices(&ended), "future_left": choices(&stay),
            })
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for choice in &ended {
        let _ = writeln!(text, "ended for future connections: {choice}");
    }
    for choice in &stay {
        let _ = writeln!(text, "still for future connections: {choice}");
    }
    if alcc_bpf::policy::in_force().is_ok_and(|policy| policy.is_some()) {
        text.push_str("the policy stays in force: 'alcc policy rollback' ends it\n");
    }
    print(summary(&found, "given back", None) + &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Gives all sockets their earlier control back. Returns their number.
pub(crate) fn give_all_back() -> Result<usize, Failure> {
    let found = alcc_bpf::detach(&Selection::default()).map_err(failure)?;
    match found.iter().find_map(|f| f.error.as_ref()) {
        Some(error) => Err(Failure::failed(format!("give a socket back: {error}"))),
        None => Ok(found.len()),
    }
}

fn resident() -> String {
    let names: Vec<_> = RESIDENT.iter().map(|r| r.algorithm).collect();
    names.join(", ")
}

/// The control of the kernel for the chosen algorithm; `None`: it runs in this process.
fn control(algorithm: &Spec, registry: &Registry) -> Result<Option<Chosen>, Failure> {
    if !algorithm.options.is_empty() {
        registry.build(algorithm).map_err(Failure::usage)?;
    }
    let Some(chosen) = Chosen::of(algorithm) else {
        return in_the_kernel(algorithm, registry);
    };
    if alcc_bpf::loaded().iter().any(|c| c.name == chosen.control) {
        return Ok(Some(chosen));
    }
    Err(Failure::usage(format!(
        "attach --cc {algorithm}: the kernel has no {}: run 'alcc bpf load' first",
        chosen.control
    )))
}

/// Checks that the kernel has the control, or that this process can run the algorithm. BPF programs
/// cannot load kernel modules.
fn in_the_kernel(algorithm: &Spec, registry: &Registry) -> Result<Option<Chosen>, Failure> {
    let there = alcc_pipe::Controls::available().map_err(Failure::usage)?;
    let name = algorithm.to_string();
    if name == alcc_bpf::WINDOW.name {
        return Err(Failure::usage(format!(
            "attach --cc {name}: it is not an algorithm: a program sets its window: say --cc with one of 'alcc list'"
        )));
    }
    if there.has(&name) {
        return Ok(Some(name.as_str().into()));
    }
    if registry.build(algorithm).is_ok() {
        return Ok(None);
    }
    Err(Failure::usage(format!(
        "attach --cc {name}: no such congestion control: this kernel has {there}, alcc can add {}, and runs those of 'alcc list' itself",
        resident()
    )))
}

fn as_json(found: &[Found]) -> Vec<serde_json::Value> {
    let socket = |f: &Found| {
        serde_json::json!({
            "port": f.port, "peer": f.peer.map(|p| p.to_string()),
            "was": f.chosen().to_string(), "error": f.error,
        })
    };
    found.iter().map(socket).collect()
}

fn show(found: &[Found], did: &str, now: Option<&Chosen>, json: bool) -> Result<(), Failure> {
    if json {
        let all = serde_json::json!({"sockets": as_json(found)});
        print(format_args!("{all}\n"))?;
        return Ok(());
    }
    print(summary(found, did, now))?;
    Ok(())
}

/// Number of sockets of each kind, in words. `now`: the control that they have now.
fn summary(found: &[Found], did: &str, now: Option<&Chosen>) -> String {
    let mut kinds: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for f in found.iter().filter(|f| f.error.is_none()) {
        *kinds
            .entry((f.chosen().to_string(), f.peer.is_none()))
            .or_default() += 1;
    }
    let mut text = String::new();
    for ((was, listens), n) in kinds {
        let what = match (listens, n) {
            (true, 1) => "listening socket",
            (true, _) => "listening sockets",
            (false, 1) => "connection",
            (false, _) => "connections",
        };
        let _ = match now.is_some_and(|now| now.to_string() == was) {
            true => writeln!(text, "{n} {what} had {was} already"),
            false => writeln!(text, "{n} {what} {did} (was {was})"),
        };
    }
    if text.is_empty() {
        text = "0 sockets\n".to_owned();
    }
    text
}
