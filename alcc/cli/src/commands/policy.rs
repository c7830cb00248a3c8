// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::bpf::{Show, failure};
use crate::failure::Failure;
use crate::output::{note, print};
use crate::policy;
use crate::wording::count;
use alcc_bpf::{
    BpfError, InForce, RULES, Rule, RuleInForce, Seen, Whose, policy as kernel, shortened,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Choose congestion controls by a file of rules, for all programs on the machine
///
/// A rule selects connections by local port, systemd unit or cgroup, network of peers, listening
/// program or a share of the clients, and names their algorithm. The narrowest rule wins; connections
/// that match no rule do not change. The kernel applies the rules to existing and future connections,
/// and no process keeps running. A congestion control that a program, a route or an administrator
/// has chosen for a socket is kept. Needs root.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Check a policy file for mistakes; changes nothing, and does not need root
    #[command(after_help = "Example:\n  alcc policy check")]
    Check(From),
    /// Put a policy in force and replace the current one
    ///
    /// If the file has a mistake, nothing changes.
    #[command(
        after_help = "Examples:\n  sudo alcc policy apply\n  sudo alcc policy apply canary.toml"
    )]
    Apply(From),
    /// Show the policy in force, its connections, and what new connections get on each port
    #[command(after_help = "Example:\n  sudo alcc policy show --json")]
    Show(Show),
    /// End the policy, and give each connection back the congestion control that it had before
    #[command(after_help = "Example:\n  sudo alcc policy rollback")]
    Rollback(Show),
}

#[derive(clap::Args)]
struct From {
    /// The policy file
    #[arg(value_name = "FILE", default_value = DEFAULT)]
    file: PathBuf,
    #[command(flatten)]
    show: Show,
}

const DEFAULT: &str = "/etc/alcc/policy.toml";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let text = match &args.what {
        What::Check(from) => check(from)?,
        What::Apply(from) => return apply(from),
        What::Show(show) => describe(show.json)?,
        What::Rollback(show) => return rollback(show.json),
    };
    print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn check(from: &From) -> Result<String, Failure> {
    let rules = policy::read(&from.file, false)?;
    if from.show.json {
        let rules: Vec<_> = rules.iter().map(rule_as_json).collect();
        return Ok(format!("{}\n", serde_json::json!({"rules": rules})));
    }
    let mut text = format!(
        "{}: {}, tried in this order:\n",
        from.file.display(),
        count(rules.len() as u64, "rule")
    );
    for rule in &rules {
        let _ = writeln!(text, "  line {}: {}", rule.line, rule.label());
    }
    Ok(text)
}

fn rule_as_json(rule: &Rule) -> serde_json::Value {
    let control = rule.control.as_ref().map(ToString::to_string);
    serde_json::json!({"line": rule.line, "rule": rule.label(), "control": control})
}

fn apply(from: &From) -> Result<ExitCode, Failure> {
    let file = std::path::absolute(&from.file)
        .map_err(|e| Failure::usage(format!("find {}: {e}", from.file.display())))?;
    let rules = policy::read(&file, true)?;
    load(&rules).map_err(failure)?;
    let before = kernel::in_force().map_err(failure)?;
    let walk = kernel::apply(&rules, &file).map_err(failure)?;
    let seen = walk.seen;
    let labels: Vec<_> = rules.iter().map(|rule| (rule.line, rule.label())).collect();
    log_rules(before.as_ref(), &labels, &file);
    for choice in alcc_bpf::futures() {
        note(format_args!(
            "alcc policy: before these rules, by 'alcc attach': {choice}"
        ));
    }
    log_changes(&seen, |rule| match rule {
        Some(at) => format!("{}:{}: {}", file.display(), labels[at].0, labels[at].1),
        None => "no rule names them any more".to_owned(),
    });
    note_unreached(walk.unreached);
    report(&seen, from.show.json, || {
        format!(
            "{}: {} in force",
            file.display(),
            count(rules.len() as u64, "rule")
        )
    })
}

/// Registers alcc's own controls with the kernel, if a rule names one that is not registered.
fn load(rules: &[Rule]) -> Result<(), BpfError> {
    let loaded = alcc_bpf::loaded();
    let is_missing = |rule: &Rule| {
        let mut ours = alcc_bpf::controls();
        let control = ours.find(|c| {
            rule.control
                .as_ref()
                .is_some_and(|chosen| chosen.control == c.name)
        });
        control.is_some_and(|control| !loaded.contains(&control))
    };
    if rules.iter().any(is_missing) {
        alcc_bpf::load(None)?;
    }
    Ok(())
}

/// Logs new and removed rules.
fn log_rules(before: Option<&InForce>, labels: &[(u32, String)], file: &Path) {
    let old: Vec<_> = before.map_or_else(Vec::new, |policy| {
        policy
            .rules
            .iter()
            .map(|rule| rule.label.as_str())
            .collect()
    });
    let same = |label: &str, old: &str| shortened(label) == old;
    for (line, label) in labels {
        if !old.iter().any(|old| same(label, old)) {
            note(format_args!(
                "alcc policy: new rule: {label} ({}:{line})",
                file.display()
            ));
        }
    }
    for old in old {
        if !labels.iter().any(|(_, label)| same(label, old)) {
            note(format_args!(
                "alcc policy: no longer a rule: {old} ({})",
                file.display()
            ));
        }
    }
}

/// Logs the changes of connections and the reasons.
fn log_changes(seen: &[Seen], why: impl Fn(Option<usize>) -> String) {
    let mut changes: BTreeMap<(Option<usize>, &str, &str), u64> = BTreeMap::new();
    let mut left: BTreeMap<(Whose, &str), u64> = BTreeMap::new();
    for s in seen.iter().filter(|s| s.error.is_none()) {
        match &s.now {
            Some(now) if *now != s.was || s.anew => {
                *changes.entry((s.rule, &s.was, now)).or_default() += 1;
            }
            None if s.rule.is_some() && s.whose != Whose::Policy => {
                *left.entry((s.whose, &s.was)).or_default() += 1;
            }
            _ => {}
        }
    }
    for ((rule, was, now), n) in changes {
        let n = count(n, "connection");
        let now = if was == now { "other options" } else { now };
        note(format_args!(
            "alcc policy: {n} from {was} to {now}: {}",
            why(rule)
        ));
    }
    for ((whose, was), n) in left {
        if let Some(why) = chosen_by(whose) {
            let n = count(n, "connection");
            note(format_args!("alcc policy: {n} left alone at {was}: {why}"));
        }
    }
}

/// The reason why the policy does not apply to a connection. `None`: it applies.
fn chosen_by(whose: Whose) -> Option<&'static str> {
    match whose {
        Whose::System | Whose::Policy => None,
        Whose::Since => Some("chosen after the policy, by the program or an administrator"),
        Whose::Own => Some("chosen by the program, or by TCPCongestion= of its socket unit"),
        Whose::Route => Some("chosen by a route (ip route ... congctl)"),
        Whose::Mptcp => Some("part of a Multipath TCP connection"),
        Whose::Attached => Some("chosen by 'alcc attach'"),
    }
}

/// The result, and the kernel's first refusal.
fn report(seen: &[Seen], json: bool, done: impl Fn() -> String) -> Result<ExitCode, Failure> {
    let changed = |s: &&Seen| {
        s.error.is_none() && (s.anew || s.now.as_ref().is_some_and(|now| *now != s.was))
    };
    let switched = seen.iter().filter(changed).count() as u64;
    let errors: Vec<_> = seen.iter().filter_map(|s| s.error.as_ref()).collect();
    if json {
        let left = |whose| {
            seen.iter()
                .filter(|s| s.whose == whose && s.rule.is_some())
                .count()
        };
        print(format_args!(
            "{}\n",
            serde_json::json!({
                "switched": switched, "errors": errors.len(),
                "left": {
                    "since": left(Whose::Since), "own": left(Whose::Own),
                    "route": left(Whose::Route), "mptcp": left(Whose::Mptcp),
                    "attach": left(Whose::Attached),
                },
            })
        ))?;
    } else {
        let n = count(switched, "connection");
        print(format_args!("{}; {n} switched\n", done()))?;
    }
    match errors.first() {
        Some(error) => Err(Failure::failed(format!(
            "switch {}: {error}",
            count(errors.len() as u64, "connection")
        ))),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn rollback(json: bool) -> Result<ExitCode, Failure> {
    match roll_back()? {
        Some(seen) => {
            let done = report(&seen, json, || "no policy is in force any more".to_owned());
            note_registered();
            done
        }
        None if json => report(&[], true, String::new),
        None => {
            print("no policy was in force\n")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Ends the policy, and logs the restored controls. `None`: there was none.
pub(crate) fn roll_back() -> Result<Option<Vec<Seen>>, Failure> {
    let Some(walk) = kernel::rollback().map_err(failure)? else {
        return Ok(None);
    };
    log_changes(&walk.seen, |_| {
        "given back at the end of the policy".to_owned()
    });
    note_unreached(walk.unreached);
    Ok(Some(walk.seen))
}

/// Notes that alcc's congestion controls are still registered with the kernel, and what removes them.
pub(crate) fn note_registered() {
    if !alcc_bpf::loaded().is_empty() {
        note(format_args!(
            "alcc: its congestion controls stay registered with the kernel: 'alcc bpf unload' removes them"
        ));
    }
}

/// Notes that connections may have been missed.
fn note_unreached(namespaces: usize) {
    if namespaces > 0 {
        note(format_args!(
            "alcc policy: {} could not be entered: its connections stay as they are; it takes CAP_SYS_ADMIN and CAP_SYS_PTRACE",
            count(namespaces as u64, "network namespace")
        ));
    }
}

/// The control of new connections that no rule names.
pub(crate) fn system_default() -> String {
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    name.map_or_else(
        |_| "the system's default".into(),
        |name| name.trim().to_owned(),
    )
}

fn describe(json: bool) -> Result<String, Failure> {
    let policy = kernel::in_force().map_err(failure)?;
    let walk = kernel::look().map_err(failure)?;
    note_unreached(walk.unreached);
    let seen = walk.seen;
    let futures = alcc_bpf::futures();
    let others = kernel::others();
    let default = system_default();
    let gone = policy
        .as_ref()
        .map_or_else(Vec::new, kernel::without_cgroup);
    let rules = policy.as_ref().map_or(&[][..], |policy| &policy.rules);
    // Another 'apply' may come between the two looks.
    let rule_of = |s: &Seen| s.rule.and_then(|at| rules.get(at));
    let controlled = |rule: &RuleInForce| {
        let is_under = |s: &&Seen| {
            s.peer.is_some() && s.whose == Whose::Policy && rule_of(s).is_some_and(|of| of == rule)
        };
        match rule.control {
            Some(_) => seen.iter().filter(is_under).count() as u64,
            None => 0,
        }
    };
    // Killed between the new rules and the connections that exist.
    let late = |s: &&Seen| {
        let wanted = rule_of(s).and_then(|rule| rule.control.as_ref());
        s.peer.is_some()
            && match s.whose {
                Whose::System => wanted.is_some_and(|wanted| *wanted != s.was),
                Whose::Policy => s.anew && !s.is_changed || wanted != Some(&s.was),
                _ => false,
            }
    };
    let late = seen.iter().filter(late).count() as u64;
    let own_options = seen.iter().filter(|s| s.is_changed).count() as u64;
    let attached = |s: &Seen| futures.get(s.rule?.checked_sub(RULES)?);
    let gets = |s: &Seen| match (s.whose, rule_of(s), attached(s)) {
        (_, _, Some(choice)) => (choice.control.control.clone(), "'alcc attach'".to_owned()),
        (Whose::System | Whose::Policy, Some(rule), _) => {
            let control = rule.control.as_ref();
            (
                control.unwrap_or(&s.was).clone(),
                format!("line {}", rule.line),
            )
        }
        (Whose::System, None, _) => (s.was.clone(), "the system's default".to_owned()),
        (whose, _, _) => {
            let why = chosen_by(whose).unwrap_or("given by an earlier policy");
            (s.was.clone(), why.to_owned())
        }
    };
    let mut listens: Vec<_> = seen.iter().filter(|s| s.peer.is_none()).collect();
    listens.sort_by_key(|s| (s.port, gets(s)));
    listens.dedup_by_key(|s| (s.port, gets(s)));
    let mut apart: BTreeMap<(Whose, &str), u64> = BTreeMap::new();
    for s in seen.iter().filter(|s| s.peer.is_some()) {
        if chosen_by(s.whose).is_some() {
            *apart.entry((s.whose, &s.was)).or_default() += 1;
        }
    }
    if json {
        let rules = rules.iter().enumerate().map(|(at, rule)| {
            serde_json::json!({
                "line": rule.line, "rule": rule.label, "control": rule.control,
                "connections": controlled(rule), "cgroup_exists": !gone.contains(&at),
            })
        });
        let rules: Vec<_> = rules.collect();
        let listening = listens.iter().map(|s| {
            let (control, why) = gets(s);
            serde_json::json!({"port": s.port, "new_connections_get": control, "why": why})
        });
        let listening: Vec<_> = listening.collect();
        let apart = apart.iter().map(|((whose, control), n)| {
            serde_json::json!({"control": control, "connections": n, "why": chosen_by(*whose)})
        });
        let apart: Vec<_> = apart.collect();
        let futures: Vec<_> = futures.iter().map(super::bpf::choice_as_json).collect();
        let all = serde_json::json!({
            "file": policy.as_ref().map(|p| &p.file),
            "applied": policy.as_ref().map(|p| humantime::format_rfc3339_seconds(p.applied).to_string()),
            "rules": rules, "listening": listening, "left_alone": apart, "not_yet": late, "own_options": own_options,
            "default": default, "future": futures, "other_versions": others,
        });
        return Ok(format!("{all}\n"));
    }
    let mut text = match &policy {
        Some(policy) => format!(
            "{}, applied {}\n",
            policy.file.display(),
            humantime::format_rfc3339_seconds(policy.applied)
        ),
        None => "no policy is in force\n".to_owned(),
    };
    for (at, rule) in rules.iter().enumerate() {
        let _ = write!(text, "  line {}: {}", rule.line, rule.label);
        let _ = match (&rule.control, gone.contains(&at)) {
            (_, true) => writeln!(text, " (no such cgroup now)"),
            (None, _) => writeln!(text),
            (Some(_), _) => writeln!(text, " ({})", count(controlled(rule), "connection")),
        };
    }
    if late > 0 {
        let _ = writeln!(
            text,
            "{} not as the policy says: 'alcc policy apply' or 'alcc policy rollback' was interrupted: repeat it",
            count(late, "connection")
        );
    }
    if own_options > 0 {
        let _ = writeln!(
            text,
            "{} with options that their program or an administrator has set since: 'alcc policy apply' sets the policy's",
            count(own_options, "connection")
        );
    }
    for ((whose, control), n) in apart {
        let why = chosen_by(whose).unwrap_or_default();
        let _ = writeln!(
            text,
            "left alone: {} with {control}: {why}",
            count(n, "connection")
        );
    }
    for s in listens {
        let (control, why) = gets(s);
        let _ = writeln!(
            text,
            "new connections to port {}: {control} ({why})",
            s.port
        );
    }
    for choice in &futures {
        let _ = writeln!(text, "by 'alcc attach', for future connections: {choice}");
    }
    if let Some(folder) = alcc_bpf::older() {
        let _ = writeln!(
            text,
            "an older alcc has its own in {}: 'alcc bpf unload' ends them",
            folder.display()
        );
    }
    for pin in &others {
        let _ = writeln!(
            text,
            "a policy of another version of alcc is in force ({}): 'alcc policy apply' replaces it",
            pin.display()
        );
    }
    let _ = writeln!(
        text,
        "everything else: {default} (net.ipv4.tcp_congestion_control)"
    );
    Ok(text)
}
