// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::policy::system_default;
use crate::failure::Failure;
use crate::output::print;
use crate::wording::count;
use alcc_bpf::{BpfError, Choice, Control, Cost, PINS, RESIDENT, Selection};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Put alcc's own congestion controls into the kernel, without a kernel module
///
/// Root registers them once. From then on every program can select them by TCP_CONGESTION, and 'alcc
/// attach' selects them for programs that are already running. One of them, alcc_window, has no
/// algorithm: a program sets its window, if it runs as root or in a group that root names. The
/// controls remain registered until 'alcc bpf unload' or a restart of the machine; no process keeps
/// running.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Register the congestion controls with the kernel
    #[command(
        after_help = "Examples:\n  sudo alcc bpf load\n  sudo alcc bpf load --group www-data\n  \
                      sudo alcc bpf load --users root\n  \
                      sudo alcc bpf load --door /sys/fs/cgroup/system.slice/docker.service"
    )]
    Load(Load),
    /// Show the registered congestion controls and the number of sockets that use each
    #[command(after_help = "Example:\n  sudo alcc bpf status --json")]
    Status(Show),
    /// Unregister the congestion controls; end the policy and 'alcc attach --future'
    ///
    /// Containers that 'alcc bpf load --door' has admitted can no longer set a window. Connections keep
    /// the congestion control that they have. Listening sockets get back the one that they had before.
    #[command(after_help = "Example:\n  sudo alcc bpf unload")]
    Unload(Show),
}

#[derive(clap::Args)]
struct Load {
    #[command(flatten)]
    show: Show,
    /// Let users of this group use alcc_window, the control whose window a program sets
    ///
    /// They can do so for their own sockets, and 'alcc run' then uses it, too. By default only root
    /// may choose alcc_window; 'root' restores that. With a group every user may choose it, but the
    /// permissions of /run/alcc-bpf/knobs let only members set a window; the sockets of others return
    /// to their earlier congestion control.
    #[arg(long, value_name = "G", value_parser = group)]
    group: Option<u32>,
    /// Users who may choose the other controls: all, or root alone
    ///
    /// The kernel enforces it: without CAP_NET_ADMIN, TCP_CONGESTION then fails with EPERM. Root may
    /// still choose them for everybody, by 'alcc attach' or a policy. By default all users may.
    #[arg(long, value_name = "WHO")]
    users: Option<Users>,
    /// Let programs in this cgroup (containers) use alcc_window, too, by socket options
    ///
    /// The cgroup is a folder below /sys/fs/cgroup. Containers cannot open alcc's files, so their
    /// programs set the window of their own sockets by setsockopt().
    /// Every call that sets or reads a socket option takes slightly longer there; 'alcc bpf status'
    /// measures the difference. May be repeated.
    #[arg(long, value_name = "CGROUP")]
    door: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Users {
    All,
    Root,
}

/// The number of a group.
fn group(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => Err("no such group: make it by 'groupadd', or see 'getent group'".into()),
    }
}

/// The name of a group, or else its number.
fn group_name(number: u32) -> String {
    match nix::unistd::Group::from_gid(number.into()) {
        Ok(Some(group)) => group.name,
        _ => format!("number {number}"),
    }
}

#[derive(clap::Args)]
pub(crate) struct Show {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
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
        | BpfError::Older { .. }
        | BpfError::NotOwn { .. }
        | BpfError::File { .. }
        | BpfError::List { .. }
        | BpfError::NoCgroup { .. } => Failure::usage(error),
        BpfError::NameTaken { .. } | BpfError::Kernel { .. } => Failure::failed(error),
    }
}

/// The algorithm of this control, if it is one.
fn algorithm(control: &Control) -> Option<&'static str> {
    let resident = RESIDENT.iter().find(|r| r.control == *control);
    resident.map(|r| r.algorithm)
}

fn load(args: &Load) -> Result<String, BpfError> {
    args.door
        .iter()
        .try_for_each(|cgroup| alcc_bpf::check_door(cgroup))?;
    let loaded = alcc_bpf::load(args.group)?;
    if let Some(users) = args.users {
        alcc_bpf::allow_users(users == Users::All)?;
    }
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
    let is_set = args.group.is_some() || args.users.is_some();
    let any_new = loaded.iter().any(|l| l.new) || doors.iter().any(|(_, new)| *new) || is_set;
    let mut text = String::new();
    for l in loaded {
        let word = if l.new { "loaded" } else { "is loaded already" };
        let _ = writeln!(text, "{} {word} ({})", l.control.name, l.control.does);
    }
    for (cgroup, new) in doors {
        let word = if new { "opened" } else { "is open already" };
        let _ = writeln!(text, "door in {} {word}", cgroup.display());
    }
    if let Some(group) = args.group {
        let _ = writeln!(text, "{}: {}", alcc_bpf::WINDOW.name, for_whom(group));
    }
    if let Some(users) = args.users {
        let _ = writeln!(
            text,
            "the other controls: {}",
            for_users(users == Users::All)
        );
    }
    let done = if any_new {
        "pinned"
    } else {
        "nothing to do: all is pinned"
    };
    let is_root = nix::unistd::geteuid().is_root();
    let root = if is_root { "" } else { "sudo " };
    let _ = writeln!(
        text,
        "{done} in {PINS}; choose it for a running server: {root}alcc attach --port N --cc copa"
    );
    Ok(text)
}

/// The users who may choose a control, in words.
fn for_users(all: bool) -> &'static str {
    match all {
        true => "every user may choose them",
        false => "root alone may choose them",
    }
}

/// The users who can set the window, in words.
fn for_whom(group: u32) -> String {
    match group {
        0 => "its window is root's alone".to_owned(),
        group => format!("its window is for root and group {}", group_name(group)),
    }
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
    let group = alcc_bpf::window_group();
    let doors = alcc_bpf::doors().into_iter();
    let doors = doors.map(|cgroup| (alcc_bpf::door_cost(&cgroup), cgroup));
    let doors: Vec<_> = doors.collect();
    if json {
        let controls: Vec<_> = alcc_bpf::controls()
            .map(|c| {
                serde_json::json!({
                    "algorithm": algorithm(c), "control": c.name,
                    "loaded": loaded.contains(&c), "connections": used(c.name),
                    "users": if alcc_bpf::is_for_users(c) { "all" } else { "root" },
                })
            })
            .collect();
        let doors: Vec<_> = doors.iter().map(door_as_json).collect();
        let futures: Vec<_> = futures.iter().map(choice_as_json).collect();
        let all = serde_json::json!({
            "controls": controls, "connections": users, "future": futures, "doors": doors,
            "window_group": group.map(group_name),
        });
        return Ok(format!("{all}\n"));
    }
    let mut text = String::new();
    for c in alcc_bpf::controls() {
        let state = match loaded.contains(&c) {
            false => "not loaded",
            // A line of its own says for whom it is.
            true if *c == alcc_bpf::WINDOW || alcc_bpf::is_for_users(c) => "loaded",
            true => "loaded for root alone",
        };
        let _ = match used(c.name) {
            1 => writeln!(text, "{}: {state}, 1 connection here uses it", c.name),
            n => writeln!(text, "{}: {state}, {n} connections here use it", c.name),
        };
    }
    if loaded.contains(&&alcc_bpf::WINDOW) {
        let _ = writeln!(
            text,
            "{}: {}",
            alcc_bpf::WINDOW.name,
            for_whom(group.unwrap_or(0))
        );
    }
    if let Some(folder) = alcc_bpf::older() {
        let _ = writeln!(
            text,
            "an older alcc has its own in {}: 'alcc bpf unload' ends them",
            folder.display()
        );
    }
    for choice in futures {
        let _ = writeln!(text, "for future connections: {choice}");
    }
    if let Some(policy) = alcc_bpf::policy::in_force()? {
        let _ = writeln!(
            text,
            "a policy of {}: see 'alcc policy show'",
            count(policy.rules.len() as u64, "rule")
        );
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

/// A choice for future connections, as JSON.
pub(crate) fn choice_as_json(choice: &Choice) -> serde_json::Value {
    serde_json::json!({
        "name": choice.name(), "cgroup": choice.cgroup, "control": choice.control.to_string(),
    })
}

fn unload(json: bool) -> Result<String, BpfError> {
    let ended = alcc_bpf::unload()?;
    let names: Vec<_> = ended.controls.iter().map(|c| c.name).collect();
    // The kernel keeps for it what is no longer registered.
    let default = Some(system_default()).filter(|default| names.contains(&&**default));
    if json {
        let futures: Vec<_> = ended.futures.iter().map(choice_as_json).collect();
        let all = serde_json::json!({
            "unloaded": names, "future": futures, "policy": ended.policy,
            "listening_given_back": ended.given_back, "listening": ended.listening, "default": default,
        });
        return Ok(format!("{all}\n"));
    }
    if ended == alcc_bpf::Ended::default() {
        return Ok("nothing was loaded\n".to_owned());
    }
    let mut text = String::new();
    for name in names {
        let _ = writeln!(text, "{name} ended; connections that use it keep it");
    }
    for choice in ended.futures {
        let _ = writeln!(text, "ended for future connections: {choice}");
    }
    if ended.policy {
        text.push_str(
            "the policy is no longer in force; 'alcc policy rollback' gives connections back what they had\n",
        );
    }
    if ended.given_back > 0 {
        let sockets = count(ended.given_back as u64, "listening socket");
        let _ = writeln!(text, "{sockets} given back");
    }
    for (control, n) in ended.listening {
        let sockets = count(n as u64, "listening socket");
        let _ = writeln!(
            text,
            "{sockets} here keeps handing out {control}, which 'alcc attach' did not choose: restart what listens"
        );
    }
    if let Some(default) = default {
        let _ = writeln!(
            text,
            "new connections here still get {default}: set net.ipv4.tcp_congestion_control to another"
        );
    }
    Ok(text)
}
