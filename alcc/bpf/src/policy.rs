// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules in the kernel that choose the control of each connection: those of a policy's file, and those
//! of [`crate::Future`], which come first.
//!
//! One pinned link keeps them in force. They are one value of a map, which is replaced as a whole. If the
//! process is killed meanwhile, either the old rules or the new ones are in force, and existing
//! connections follow at the next [`apply`].
use crate::control;
use crate::encoded::{POLICY_LEN, Rules};
use crate::error::BpfError;
use crate::options;
use crate::pins;
use crate::rule::{CGROUP_LEVELS, InForce, RULES, Rule, Walk, hash_of};
use crate::selection::{Choice, all_cgroups, open_cgroup};
use crate::sockets::{
    self, Act, EXISTING, FUTURE, PLACED, POLICIES, PROGRAMS, THIS, Wanted, map, program,
};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Object};
use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const LINK: &str = "link";
/// Prefix of the names of the pins of all versions.
const ANY: &str = "policy-";
/// Prefix of the names of links of versions in which each choice of `alcc attach` had one.
const OLD: &str = "future-";

/// Puts these rules in force: for future connections in one step, then for existing ones. `file` is
/// their source, which [`in_force`] returns. What `alcc attach` has chosen stays before them.
///
/// # Errors
/// The machine lacks a requirement, or the kernel refuses. The old policy remains in force until then.
pub fn apply(rules: &[Rule], file: &Path) -> Result<Walk, BpfError> {
    let (root, _alone) = ready(rules)?;
    let object = Wanted::all(Act::Apply).load(&[FUTURE, EXISTING, PROGRAMS])?;
    if rules.iter().any(|rule| rule.program.is_some()) {
        // Programs that are already listening.
        sockets::read(&object, PROGRAMS)?;
    }
    let mut all = in_kernel()?;
    all.set_file(rules, file, secret()?);
    put_in_force(&object, &root, &all)?;
    end_others()?;
    sockets::everywhere(&object)
}

/// Puts a rule of `alcc attach` before all others, for future connections.
pub(crate) fn add(rule: &Rule) -> Result<(), BpfError> {
    let (root, _alone) = ready(std::slice::from_ref(rule))?;
    let object = Wanted::all(Act::Apply).load(&[FUTURE])?;
    let mut all = in_kernel()?;
    if !all.attach(rule) {
        return Err(BpfError::Kernel {
            attempt: "select future connections".into(),
            error: format!("there are {RULES} such selections: end some by 'alcc detach'"),
        });
    }
    put_in_force(&object, &root, &all)
}

/// Checks what a change of the rules needs. Returns the root cgroup, and the lock.
fn ready(rules: &[Rule]) -> Result<(File, Flock<File>), BpfError> {
    control::able()?;
    let mut chosen = rules.iter().filter_map(|rule| rule.control.as_ref());
    chosen.try_for_each(options::check)?;
    pins::prepare()?;
    let root = all_cgroups().ok_or_else(|| BpfError::NoCgroup {
        path: "/sys/fs/cgroup".into(),
        error: std::io::Error::other("no cgroups of version 2 are mounted"),
    })?;
    let (root, _) = open_cgroup(&root)?;
    Ok((root, alone()?))
}

fn put_in_force(object: &Object, root: &File, rules: &Rules) -> Result<(), BpfError> {
    let failed = |e: libbpf_rs::Error| BpfError::kernel("put the rules in force", &e);
    // From here on they apply to each new connection.
    exchange(&map(object, POLICIES), rules)?;
    let pin = this(LINK);
    if pins::is_pin(&pin) {
        // The program may differ after an upgrade.
        let mut link = Link::open(&pin).map_err(failed)?;
        return link.update_prog(&program(object, FUTURE)).map_err(failed);
    }
    let mut link = program(object, FUTURE)
        .attach_cgroup(root.as_raw_fd())
        .map_err(failed)?;
    link.pin(&pin).map_err(failed)
}

/// Replaces all rules in one step.
pub(crate) fn exchange(policies: &impl MapCore, rules: &Rules) -> Result<(), BpfError> {
    let failed = |e: libbpf_rs::Error| BpfError::kernel("put the rules in force", &e);
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let len = u32::try_from(POLICY_LEN).expect("the rules are few");
    let one =
        MapHandle::create(MapType::Array, Some("policy"), 4, len, 1, &options).map_err(failed)?;
    let first = 0u32.to_ne_bytes();
    one.update(&first, &rules.encode(), MapFlags::ANY)
        .map_err(failed)?;
    let number = one.as_fd().as_raw_fd().to_ne_bytes();
    policies
        .update(&first, &number, MapFlags::ANY)
        .map_err(failed)
}

/// Ends the rules that `end` removes, and the link with the last of them.
fn remove<T>(end: impl FnOnce(&mut Rules) -> T) -> Result<T, BpfError> {
    let mut rules = in_kernel()?;
    let ended = end(&mut rules);
    if rules.is_empty() {
        pins::end_link(&this(LINK))?;
        pins::remove(&sockets::pin(POLICIES))?;
    } else {
        let policies = MapHandle::from_pinned_path(sockets::pin(POLICIES));
        let policies = policies.map_err(|e| BpfError::kernel("open the rules in force", &e))?;
        exchange(&policies, &rules)?;
    }
    Ok(ended)
}

/// Ends the policy, and gives each connection its earlier control back. `None`: there was none. What
/// `alcc attach` has chosen stays.
///
/// # Errors
/// The kernel refuses.
pub fn rollback() -> Result<Option<Walk>, BpfError> {
    libbpf_rs::set_print(None);
    let others = !others().is_empty();
    // A process that was killed during a rollback has already ended the rules.
    if !others && !pins::is_pin(&sockets::pin(PLACED)) {
        return Ok(None);
    }
    control::able()?;
    let _alone = alone()?;
    let was_in_force = others || in_force()?.is_some();
    remove(|rules| rules.set_file(&[], Path::new(""), 0))?;
    end_others()?;
    let found = sockets::everywhere(&Wanted::all(Act::RollBack).load(&[EXISTING])?)?;
    let changed = found.seen.iter().any(|seen| seen.now.is_some());
    Ok((was_in_force || changed).then_some(found))
}

/// Ends all rules. Existing connections do not change. Returns whether a policy was in force.
pub(crate) fn end() -> Result<bool, BpfError> {
    if !pins::is_mounted() {
        return Ok(false);
    }
    let _alone = alone()?;
    let was = in_force()?.is_some() || !others().is_empty();
    remove(|rules| *rules = Rules::default())?;
    end_others()?;
    Ok(was)
}

/// The policy in force. `None`: there is none.
///
/// # Errors
/// The kernel refuses, for example because this user is not root.
pub fn in_force() -> Result<Option<InForce>, BpfError> {
    Ok(in_kernel()?.in_force())
}

/// All choices for future connections, newest first. Empty if this user may not read them.
pub fn futures() -> Vec<Choice> {
    in_kernel().map_or_else(|_| Vec::new(), |rules| rules.choices())
}

/// Ends the matching choices of [`futures`] and returns them.
///
/// # Errors
/// The kernel refuses.
pub fn end_futures(is_meant: impl Fn(&Choice) -> bool) -> Result<Vec<Choice>, BpfError> {
    if !is_in_force() {
        return Ok(Vec::new());
    }
    let _alone = alone()?;
    remove(|rules| rules.detach(is_meant))
}

fn is_in_force() -> bool {
    pins::is_mounted() && pins::is_pin(&this(LINK)) && pins::is_pin(&sockets::pin(POLICIES))
}

/// All rules in force.
fn in_kernel() -> Result<Rules, BpfError> {
    libbpf_rs::set_print(None);
    if !is_in_force() {
        return Ok(Rules::default());
    }
    let failed = |e: libbpf_rs::Error| BpfError::kernel("read the rules in force", &e);
    let policies = MapHandle::from_pinned_path(sockets::pin(POLICIES)).map_err(failed)?;
    let first = 0u32.to_ne_bytes();
    let Some(id) = policies.lookup(&first, MapFlags::ANY).map_err(failed)? else {
        return Ok(Rules::default());
    };
    let id = u32::from_ne_bytes(id[..4].try_into().expect("four bytes"));
    let one = MapHandle::from_map_id(id).map_err(failed)?;
    let bytes = one.lookup(&first, MapFlags::ANY).map_err(failed)?;
    Ok(bytes.map_or_else(Rules::default, |bytes| Rules::decode(&bytes)))
}

/// Links of another version of alcc: in force, but unreadable.
pub fn others() -> Vec<PathBuf> {
    let of_policies = pins::names(ANY).into_iter();
    let of_policies = of_policies.filter(|name| !name.starts_with(THIS) && name.ends_with(LINK));
    let names = of_policies.chain(pins::names(OLD));
    names.map(|name| pins::pin(&name)).collect()
}

/// All sockets of all network namespaces, with the rule of each. Changes nothing.
///
/// # Errors
/// The kernel refuses.
pub fn look() -> Result<Walk, BpfError> {
    control::able()?;
    sockets::everywhere(&Wanted::all(Act::Look).load(&[EXISTING])?)
}

/// Indices of the rules that name a cgroup or unit that does not exist now.
pub fn without_cgroup(policy: &InForce) -> Vec<usize> {
    let mut there = BTreeSet::new();
    if let Some(root) = all_cgroups() {
        let secret = policy.secret;
        let none = hash_of(secret, &[]).1;
        note_cgroups(&root, secret, none, CGROUP_LEVELS, &mut there);
    }
    let gone = |at: &usize| {
        let cgroup = policy.rules[*at].cgroup;
        cgroup != 0 && !there.contains(&cgroup)
    };
    (0..policy.rules.len()).filter(gone).collect()
}

/// Adds the hashes of the names and paths of the cgroups below a folder: no rule matches those below
/// more `levels`, which users can make.
fn note_cgroups(folder: &Path, secret: u64, path: u64, levels: usize, there: &mut BTreeSet<u64>) {
    if levels == 0 {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name();
            let of_path = crate::rule::hashed(path, name.as_bytes());
            there.extend([hash_of(secret, &[name.as_bytes()]).0, of_path]);
            note_cgroups(&entry.path(), secret, of_path, levels - 1, there);
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

/// Lock for one change of the rules and of their pins at a time.
pub(crate) fn alone() -> Result<Flock<File>, BpfError> {
    pins::lock("policy", FlockArg::LockExclusive)
}

/// A number that only root can read, in the map of the rules. Without it, a user could make a cgroup with
/// the hash of another's.
fn secret() -> Result<u64, BpfError> {
    let bytes = alcc_sys::random().map_err(|e| BpfError::Kernel {
        attempt: "read /dev/urandom".into(),
        error: e.to_string(),
    })?;
    Ok(u64::from_ne_bytes(bytes))
}
