// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy in the kernel: rules that choose the control of each connection.
//!
//! One pinned link keeps it in force. The rules are one value of a map, which is replaced as a whole. If
//! the process is killed meanwhile, either the old policy or the new one is in force, and existing
//! connections follow at the next [`apply`].
use crate::RESIDENT;
use crate::attach::{self, program};
use crate::control::{self, BEFORE};
use crate::error::BpfError;
use crate::namespace::within;
use crate::options;
use crate::pins;
use crate::rule::{
    CGROUP_LEVELS, InForce, LABEL_LEN, RULES, Rule, Seen, Walk, Whose, hash_of, shortened,
};
use crate::selection::{all_cgroups, open_cgroup, other_namespaces};
use alcc_sys::{Chosen, Options};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, MapType, Object};
use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const OBJECT: &[u8] = include_bytes!("../objects/policy.bpf.o");
const FUTURE: &str = "alcc_policy";
const EXISTING: &str = "alcc_sockets";
const PROGRAMS: &str = "alcc_programs";
/// Names of the maps' pins, after [`THIS`].
const POLICIES: &str = "policies";
const PLACED: &str = "placed";
const LINK: &str = "link";
/// Prefix of the names of all policies' pins, and of those with this layout of the maps.
const ANY: &str = "policy-";
const THIS: &str = "policy-1-";

/// `struct rule`, `struct policy`, `struct seen` of `policy.bpf.c`.
const RULE_LEN: usize = 256;
const HEAD_LEN: usize = 128;
const FILE_LEN: usize = 112;
const LABEL_AT: usize = RULE_LEN - 1 - LABEL_LEN;
const POLICY_LEN: usize = HEAD_LEN + RULES * RULE_LEN;
const SEEN_LEN: usize = 64;
const NAME_LEN: usize = 16;
const LISTEN: u8 = 10;

/// The iterator's task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Look,
    Apply,
    RollBack,
}

/// Puts these rules in force: for future connections in one step, then for existing ones. `file` is
/// their source, which [`in_force`] returns.
///
/// # Errors
/// The machine lacks a requirement, or the kernel refuses. The old policy remains in force until then.
pub fn apply(rules: &[Rule], file: &Path) -> Result<Walk, BpfError> {
    control::able()?;
    let mut chosen = rules.iter().filter_map(|rule| rule.control.as_ref());
    chosen.try_for_each(options::check)?;
    pins::prepare()?;
    let root = all_cgroups().ok_or_else(|| BpfError::NoCgroup {
        path: "/sys/fs/cgroup".into(),
        error: std::io::Error::other("no cgroups of version 2 are mounted"),
    })?;
    let (root, _) = open_cgroup(&root)?;
    let _alone = alone()?;
    let object = load(Act::Apply, true)?;
    if rules.iter().any(|rule| rule.program.is_some()) {
        // Programs that are already listening.
        read(&object, PROGRAMS)?;
    }
    let failed = |e: libbpf_rs::Error| BpfError::kernel("put the policy in force", &e);
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let len = u32::try_from(POLICY_LEN).expect("a policy is small");
    let one =
        MapHandle::create(MapType::Array, Some("policy"), 4, len, 1, &options).map_err(failed)?;
    let first = 0u32.to_ne_bytes();
    one.update(&first, &encoded(rules, file), MapFlags::ANY)
        .map_err(failed)?;
    let policies = map(&object, POLICIES);
    // From here on the rules apply to each new connection.
    let number = one.as_fd().as_raw_fd().to_ne_bytes();
    policies
        .update(&first, &number, MapFlags::ANY)
        .map_err(failed)?;
    let pin = this(LINK);
    if pins::is_pin(&pin) {
        // The program may differ after an upgrade.
        let mut link = Link::open(&pin).map_err(failed)?;
        link.update_prog(&program(&object, FUTURE))
            .map_err(failed)?;
    } else {
        let mut link = program(&object, FUTURE)
            .attach_cgroup(root.as_raw_fd())
            .map_err(failed)?;
        link.pin(&pin).map_err(failed)?;
    }
    end_others()?;
    sockets(&object)
}

/// Ends the policy, and gives each connection its earlier control back. `None`: there was none.
///
/// # Errors
/// The kernel refuses.
pub fn rollback() -> Result<Option<Walk>, BpfError> {
    libbpf_rs::set_print(None);
    let others = !others().is_empty();
    // A process that was killed during a rollback has already ended the link.
    if !others && !pins::is_pin(&this(PLACED)) {
        return Ok(None);
    }
    control::able()?;
    let _alone = alone()?;
    let was_in_force = others || pins::is_pin(&this(LINK));
    end()?;
    if others {
        // The layout of their records may differ; all versions record earlier controls in the same way.
        attach::detach(&crate::Selection::default())?;
    }
    let found = sockets(&load(Act::RollBack, true)?)?;
    let changed = found.seen.iter().any(|seen| seen.now.is_some());
    Ok((was_in_force || changed).then_some(found))
}

/// Ends the choice for future connections. Existing ones do not change.
pub(crate) fn end() -> Result<bool, BpfError> {
    let was = in_force_by_a_pin();
    pins::end_link(&this(LINK))?;
    pins::remove(&this(POLICIES))?;
    end_others()?;
    Ok(was)
}

fn in_force_by_a_pin() -> bool {
    pins::is_pin(&this(LINK)) || !others().is_empty()
}

/// The policy in force. `None`: there is none.
///
/// # Errors
/// The kernel refuses, for example because this user is not root.
pub fn in_force() -> Result<Option<InForce>, BpfError> {
    libbpf_rs::set_print(None);
    if !pins::is_mounted() || !pins::is_pin(&this(LINK)) {
        return Ok(None);
    }
    let failed = |e: libbpf_rs::Error| BpfError::kernel("read the policy in force", &e);
    let policies = MapHandle::from_pinned_path(this(POLICIES)).map_err(failed)?;
    let first = 0u32.to_ne_bytes();
    let Some(id) = policies.lookup(&first, MapFlags::ANY).map_err(failed)? else {
        return Ok(None);
    };
    let id = u32::from_ne_bytes(id[..4].try_into().expect("four bytes"));
    let one = MapHandle::from_map_id(id).map_err(failed)?;
    let bytes = one.lookup(&first, MapFlags::ANY).map_err(failed)?;
    Ok(bytes.map(|bytes| decoded(&bytes)))
}

/// Pins of policies of another version of alcc: in force, but unreadable.
pub fn others() -> Vec<PathBuf> {
    let mut names = pins::names(ANY);
    names.retain(|name| !name.starts_with(THIS) && name.ends_with(LINK));
    names.iter().map(|name| pins::pin(name)).collect()
}

/// All sockets of all network namespaces, with the rule of each. Changes nothing.
///
/// # Errors
/// The kernel refuses.
pub fn look() -> Result<Walk, BpfError> {
    control::able()?;
    sockets(&load(Act::Look, in_force_by_a_pin())?)
}

/// Indices of the rules that name a cgroup or unit that does not exist now.
pub fn without_cgroup(policy: &InForce) -> Vec<usize> {
    let mut there = BTreeSet::new();
    if let Some(root) = all_cgroups() {
        note_cgroups(&root, hash_of(&[]).1, CGROUP_LEVELS, &mut there);
    }
    let gone = |at: &usize| {
        let cgroup = policy.rules[*at].cgroup;
        cgroup != 0 && !there.contains(&cgroup)
    };
    (0..policy.rules.len()).filter(gone).collect()
}

/// Adds the hashes of the names and paths of the cgroups below a folder: no rule matches those below
/// more `levels`, which users can make.
fn note_cgroups(folder: &Path, path: u64, levels: usize, there: &mut BTreeSet<u64>) {
    if levels == 0 {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name();
            let of_path = crate::rule::hashed(path, name.as_bytes());
            there.extend([hash_of(&[name.as_bytes()]).0, of_path]);
            note_cgroups(&entry.path(), of_path, levels - 1, there);
        }
    }
}

fn this(name: &str) -> PathBuf {
    pins::pin(&format!("{THIS}{name}"))
}

fn end_others() -> Result<(), BpfError> {
    for link in others() {
        pins::end_link(&link)?;
    }
    let mut rest = pins::names(ANY);
    rest.retain(|name| !name.starts_with(THIS));
    rest.iter()
        .try_for_each(|name| pins::remove(&pins::pin(name)))
}

fn alone() -> Result<Flock<File>, BpfError> {
    pins::lock("policy", FlockArg::LockExclusive)
}

fn map<'a>(object: &'a Object, name: &str) -> libbpf_rs::Map<'a> {
    let mut maps = object.maps();
    maps.find(|map| map.name() == name)
        .expect("the object has the map: a test opens it")
}

/// The programs, with the maps of the policy in force if they are pinned.
fn load(act: Act, pinned: bool) -> Result<Object, BpfError> {
    let failed = |e: libbpf_rs::Error| BpfError::kernel("open the BPF programs", &e);
    let mut open = control::open(OBJECT).map_err(failed)?;
    attach::configure(&mut open, &(act as u32).to_ne_bytes()).map_err(failed)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let pin = match &*name {
            BEFORE => pins::pin(BEFORE),
            // Only the controls create it.
            _ if name == options::MAP.0 && options::are_taken() => pins::pin(&name),
            POLICIES | PLACED => this(&name),
            _ => continue,
        };
        if pinned && (act != Act::RollBack || name != POLICIES) {
            map.set_pin_path(pin).map_err(failed)?;
        }
    }
    for mut program in open.progs_mut() {
        let needed = act == Act::Apply || program.name() == EXISTING;
        program.set_autoload(needed);
    }
    attach::load(open)
}

/// Runs an iterator in this thread's network namespace.
fn read(object: &Object, name: &str) -> Result<Vec<u8>, BpfError> {
    let attempt = "go through the TCP sockets";
    let link = (program(object, name).attach()).map_err(|e| BpfError::kernel(attempt, &e))?;
    read_link(&link)
}

fn read_link(link: &Link) -> Result<Vec<u8>, BpfError> {
    let attempt = "go through the TCP sockets";
    let mut records = Vec::new();
    Iter::new(link)
        .map_err(|e| BpfError::kernel(attempt, &e))?
        .read_to_end(&mut records)
        .map_err(|e| BpfError::Kernel {
            attempt: attempt.into(),
            error: e.to_string(),
        })?;
    Ok(records)
}

/// All sockets, in the network namespaces of all processes.
fn sockets(object: &Object) -> Result<Walk, BpfError> {
    let attempt = "go through the TCP sockets";
    let link = (program(object, EXISTING).attach()).map_err(|e| BpfError::kernel(attempt, &e))?;
    let mut walk = Walk {
        seen: seen_in(&read_link(&link)?),
        unreached: 0,
    };
    for pids in other_namespaces() {
        match within(&pids, || read_link(&link)) {
            Ok(records) => walk.seen.extend(seen_in(&records?)),
            // Its processes have ended, and their sockets with them.
            Err(gone) if gone.is_gone() => {}
            Err(_) => walk.unreached += 1,
        }
    }
    Ok(walk)
}

fn seen_in(records: &[u8]) -> Vec<Seen> {
    let records = records.chunks_exact(SEEN_LEN).map(seen);
    attach::corrected(records, |s| (s.port, s.peer), |s| s.error.is_some())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A text up to its first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A record: `struct seen`.
fn seen(record: &[u8]) -> Seen {
    let octets: [u8; 16] = record[16..32].try_into().expect("sixteen bytes");
    let address = if i32::from(half(record, 4)) == nix::libc::AF_INET {
        let v4: [u8; 4] = octets[..4].try_into().expect("four bytes");
        IpAddr::V4(Ipv4Addr::from(v4))
    } else {
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let error = i32::from(half(record, 8));
    let rule = word(record, 12) as usize;
    Seen {
        port: half(record, 0),
        peer: (record[6] != LISTEN).then(|| SocketAddr::new(address, half(record, 2))),
        whose: match record[7] {
            0 => Whose::System,
            1 => Whose::Policy,
            2 => Whose::Since,
            3 => Whose::Own,
            4 => Whose::Route,
            _ => Whose::Mptcp,
        },
        rule: rule.checked_sub(1),
        anew: half(record, 10) != 0,
        was: text(&record[32..32 + NAME_LEN]),
        now: Some(text(&record[48..48 + NAME_LEN])).filter(|now| !now.is_empty()),
        error: (error != 0).then(|| std::io::Error::from_raw_os_error(error).to_string()),
    }
}

/// `struct policy`, with the rules in the order in which they are tried.
fn encoded(rules: &[Rule], file: &Path) -> Vec<u8> {
    let mut bytes = vec![0; POLICY_LEN];
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let by_cgroup = u32::from(rules.iter().any(|rule| rule.place.is_some()));
    let by_program = u32::from(rules.iter().any(|rule| rule.program.is_some()));
    let len = u32::try_from(rules.len()).expect("at most RULES");
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes[4..8].copy_from_slice(&(by_cgroup | by_program << 1).to_ne_bytes());
    bytes[8..16].copy_from_slice(&now.map_or(0, |t| t.as_secs()).to_ne_bytes());
    put(&mut bytes[16..16 + FILE_LEN], file.as_os_str().as_bytes());
    for (rule, into) in rules
        .iter()
        .zip(bytes[HEAD_LEN..].chunks_exact_mut(RULE_LEN))
    {
        encode(rule, into);
    }
    bytes
}

/// `struct rule`.
fn encode(rule: &Rule, into: &mut [u8]) {
    let place = rule.place.as_ref().map_or(0, crate::Place::hash);
    into[..8].copy_from_slice(&place.to_ne_bytes());
    if let Some((family, words, len)) = rule.peer.as_ref().map(crate::Prefix::words) {
        into[16..32].copy_from_slice(&words);
        let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
        into[32..48].copy_from_slice(&mask.to_be_bytes());
        into[48..50].copy_from_slice(&family.to_ne_bytes());
    }
    into[50..52].copy_from_slice(&rule.port.unwrap_or(0).to_ne_bytes());
    if let Some(share) = rule.share {
        into[8..16].copy_from_slice(&share.salt().to_ne_bytes());
        into[52..54].copy_from_slice(&share.per_mille().to_ne_bytes());
    }
    put(
        &mut into[56..72],
        rule.program.as_deref().unwrap_or("").as_bytes(),
    );
    match &rule.control {
        Some(Chosen { control, options }) => {
            into[54] = RESIDENT.iter().any(|r| r.control.name == control).into();
            put(&mut into[72..72 + NAME_LEN], control.as_bytes());
            into[88..88 + Options::LEN].copy_from_slice(&options.bytes());
        }
        None => into[55] = 1,
    }
    into[100..104].copy_from_slice(&rule.line.to_ne_bytes());
    put(&mut into[LABEL_AT..], shortened(&rule.label()).as_bytes());
}

/// Copies as much of the text as fits before a final zero.
fn put(into: &mut [u8], text: &[u8]) {
    let len = text.len().min(into.len() - 1);
    into[..len].copy_from_slice(&text[..len]);
}

fn decoded(bytes: &[u8]) -> InForce {
    let rules = bytes[HEAD_LEN..].chunks_exact(RULE_LEN);
    let rules = rules.take(word(bytes, 0) as usize);
    let rule = |bytes: &[u8]| crate::RuleInForce {
        label: text(&bytes[LABEL_AT..]),
        line: word(bytes, 100),
        control: Some(text(&bytes[72..72 + NAME_LEN])).filter(|name| !name.is_empty()),
        cgroup: long(bytes, 0),
    };
    InForce {
        file: text(&bytes[16..16 + FILE_LEN]).into(),
        applied: UNIX_EPOCH + Duration::from_secs(long(bytes, 8)),
        rules: rules.map(rule).collect(),
    }
}
