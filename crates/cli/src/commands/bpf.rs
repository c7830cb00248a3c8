// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use crate::output::print;
use alcc_bpf::{BpfError, Control, Cost, PINS, RESIDENT, Selection};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Put alcc's own congestion controls into the kernel, without a kernel module
///
/// Root does it once. From then on every program may choose them by TCP_CONGESTION, and 'alcc
/// attach' chooses them for programs that run already. They stay until 'alcc bpf unload' or a
/// restart of the machine; no process of alcc is needed for that.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Register the congestion controls with the kernel
    #[command(
        after_help = "Examples:\n  sudo alcc bpf load\n  sudo alcc bpf load --door /sys/fs/cgroup/system.slice/docker.service"
    )]
    Load(Load),
    /// Which are registered, and how many sockets use them
    #[command(after_help = "Example:\n  sudo alcc bpf status --json")]
    Status(Show),
    /// End the registrations and close the doors; connections that use a control keep it
    #[command(after_help = "Example:\n  sudo alcc bpf unload")]
    Unload(Show),
}

#[derive(clap::Args)]
struct Load {
    #[command(flatten)]
    show: Show,
    /// Let the programs in this folder below /sys/fs/cgroup steer their own sockets by socket
    /// options. For containers, which cannot open alcc's files. Every socket option costs a little
    /// more there; 'alcc bpf status' measures how much. May be given several times
    #[arg(long, value_name = "CGROUP")]
    door: Vec<PathBuf>,
}

#[derive(clap::Args)]
struct Show {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let text = match &args.what {
        What::Load(args) => load(args),
        What::Status(show) => status(show.json),
        What::Unload(show) => unload(show.json),
    };
    print(text.map_err(failure)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Exit status 2 if the machine or the user's rights do not allow it.
pub(crate) fn failure(error: BpfError) -> Failure {
    match error {
        BpfError::NotBuilt
        | BpfError::Forbidden { .. }
        | BpfError::NoBtf
        | BpfError::NoJit
        | BpfError::Busy
        | BpfError::File { .. }
        | BpfError::NoCgroup { .. } => Failure::usage(error),
        BpfError::NameTaken { .. } | BpfError::Kernel { .. } => Failure::failed(error),
    }
}

/// The algorithm that this control is, if it is one.
fn algorithm(control: &Control) -> Option<&'static str> {
    let resident = RESIDENT.iter().find(|r| r.control == *control);
    resident.map(|r| r.algorithm)
}

fn load(args: &Load) -> Result<String, BpfError> {
    args.door
        .iter()
        .try_for_each(|cgroup| alcc_bpf::check_door(cgroup))?;
    let loaded = alcc_bpf::load()?;
    let doors = args.door.iter();
    let doors = doors.map(|cgroup| Ok((cgroup, alcc_bpf::open_door(cgroup)?)));
    let doors = doors.collect::<Result<Vec<_>, BpfError>>()?;
    if args.show.json {
        let controls: Vec<_> = loaded
            .iter()
            .map(|l| {
                serde_json::json!({
                    "algorithm": algorithm(l.control), "control": l.control.name, "new": l.new,
                })
            })
            .collect();
        let doors = doors.iter();
        let doors: Vec<_> = doors
            .map(|(cgroup, new)| serde_json::json!({"cgroup": cgroup, "new": new}))
            .collect();
        let all = serde_json::json!({"loaded": controls, "doors": doors});
        return Ok(format!("{all}\n"));
    }
    let any_new = loaded.iter().any(|l| l.new) || doors.iter().any(|(_, new)| *new);
    let mut text = String::new();
    for l in loaded {
        let word = if l.new { "loaded" } else { "is loaded already" };
        let _ = writeln!(text, "{} {word} ({})", l.control.name, l.control.does);
    }
    for (cgroup, new) in doors {
        let word = if new { "opened" } else { "is open already" };
        let _ = writeln!(text, "door in {} {word}", cgroup.display());
    }
    let done = if any_new {
        "pinned"
    } else {
        "nothing was to do: all is pinned"
    };
    let is_root = nix::unistd::geteuid().is_root();
    let root = if is_root { "" } else { "sudo " };
    let _ = writeln!(
        text,
        "{done} in {PINS}; choose it for a running server: {root}alcc attach --port N --cc copa"
    );
    Ok(text)
}

fn status(json: bool) -> Result<String, BpfError> {
    let loaded = alcc_bpf::loaded();
    let mut users: BTreeMap<String, usize> = BTreeMap::new();
    for found in alcc_bpf::survey(&Selection::default())? {
        if found.peer.is_some() {
            *users.entry(found.control).or_default() += 1;
        }
    }
    let used = |control: &str| users.get(control).copied().unwrap_or(0);
    let futures = alcc_bpf::futures();
    let doors = alcc_bpf::doors().into_iter();
    let doors = doors.map(|cgroup| (alcc_bpf::door_cost(&cgroup), cgroup));
    let doors: Vec<_> = doors.collect();
    if json {
        let controls: Vec<_> = alcc_bpf::controls()
            .map(|c| {
                serde_json::json!({
                    "algorithm": algorithm(c), "control": c.name,
                    "loaded": loaded.contains(&c), "connections": used(c.name),
                })
            })
            .collect();
        let doors: Vec<_> = doors.iter().map(door_as_json).collect();
        let all = serde_json::json!({
            "controls": controls, "connections": users, "future": futures, "doors": doors,
        });
        return Ok(format!("{all}\n"));
    }
    let mut text = String::new();
    for c in alcc_bpf::controls() {
        let state = if loaded.contains(&c) {
            "loaded"
        } else {
            "not loaded"
        };
        let _ = match used(c.name) {
            1 => writeln!(text, "{}: {state}, 1 connection here uses it", c.name),
            n => writeln!(text, "{}: {state}, {n} connections here use it", c.name),
        };
    }
    for name in futures {
        let _ = writeln!(text, "for connections to come: {name}");
    }
    for (cost, cgroup) in doors {
        let _ = writeln!(
            text,
            "door in {}: {}",
            cgroup.display(),
            what_it_costs(cost)
        );
    }
    Ok(text)
}

fn door_as_json((cost, cgroup): &(Option<Cost>, PathBuf)) -> serde_json::Value {
    let ns = |of: fn(&Cost) -> Duration| cost.as_ref().map(|cost| of(cost).as_nanos());
    serde_json::json!({
        "cgroup": cgroup,
        "setsockopt_ns": ns(|c| c.set_with), "setsockopt_without_ns": ns(|c| c.set_without),
        "getsockopt_ns": ns(|c| c.get_with), "getsockopt_without_ns": ns(|c| c.get_without),
    })
}

fn what_it_costs(cost: Option<Cost>) -> String {
    let Some(cost) = cost else {
        return "what it costs cannot be measured from here".to_owned();
    };
    format!(
        "a setsockopt there takes {} ns (elsewhere {}), a getsockopt {} ns ({})",
        cost.set_with.as_nanos(),
        cost.set_without.as_nanos(),
        cost.get_with.as_nanos(),
        cost.get_without.as_nanos()
    )
}

fn unload(json: bool) -> Result<String, BpfError> {
    let ended = alcc_bpf::unload()?;
    if json {
        let names: Vec<_> = ended.iter().map(|c| c.name).collect();
        return Ok(format!("{}\n", serde_json::json!({"unloaded": names})));
    }
    if ended.is_empty() {
        return Ok("nothing was loaded\n".to_owned());
    }
    let line = |c: &&Control| format!("{} ended; connections that use it keep it\n", c.name);
    Ok(ended.iter().map(line).collect())
}
