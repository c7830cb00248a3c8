// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selecting a congestion control for the sockets of running programs.
use crate::RESIDENT;
use crate::control::{self, BEFORE};
use crate::error::BpfError;
use crate::namespace::within;
use crate::options;
use crate::pins;
use crate::selection::{
    Attached, Choice, Found, Future, PREFIX, Prefix, Selection, Sockets, cgroups_of,
    other_namespaces,
};
use crate::trial::{CLOSED, ENDS_MAPS};
use alcc_sys::{Chosen, Options};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object, OpenObject};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

const OBJECT: &[u8] = include_bytes!("../objects/attach.bpf.o");
const EXISTING: &str = "alcc_attach";
pub(crate) const FUTURE: &str = "alcc_future";
const NAME_LEN: usize = 16;
const FOUND_LEN: usize = 64;
/// A listening socket, as the kernel numbers its states.
const LISTEN: u8 = 10;

/// The program's action on matching sockets.
pub(crate) enum Act<'a> {
    Select(&'a Chosen),
    /// Selects, and records all matching sockets, in the share or not.
    Watch(&'a Chosen),
    Restore,
    /// Restores listening sockets only.
    RestoreListening,
    Look,
}

impl Act<'_> {
    /// True if there is nothing to do unless something is loaded, so that nothing is created for it.
    fn only_looks(&self) -> bool {
        !matches!(self, Self::Select(_) | Self::Watch(_))
    }
}

/// Selects the control for existing sockets.
///
/// Looks in the network namespace of the selected process, or if none is selected, in the
/// caller's.
pub fn attach(selection: &Selection, control: impl Into<Chosen>) -> Result<Attached, BpfError> {
    let control = control.into();
    options::check(&control)?;
    all(selection, &Act::Select(&control))
}

/// Gives the sockets back the control that they had before [`attach`]; an empty selection means all
/// sockets, in every network namespace.
pub fn detach(selection: &Selection) -> Result<Attached, BpfError> {
    if *selection == Selection::default() {
        return everywhere(&Act::Restore);
    }
    all(selection, &Act::Restore)
}

/// Gives listening sockets their earlier control back. Returns the control that each had until now.
pub(crate) fn detach_listening() -> Result<Attached, BpfError> {
    everywhere(&Act::RestoreListening)
}

/// The controls of all sockets.
pub(crate) fn survey_everywhere() -> Result<Attached, BpfError> {
    everywhere(&Act::Look)
}

/// Acts on all sockets, in the network namespaces of all processes that this user can inspect.
fn everywhere(act: &Act<'_>) -> Result<Attached, BpfError> {
    let all_of = Selection::default();
    let mut found = all(&all_of, act)?;
    for pids in other_namespaces() {
        // Its processes have ended, or this user must not enter it.
        if let Ok(others) = within(&pids, || pass(&all_of, None, act)) {
            found.extend(others?);
        }
    }
    Ok(found)
}

/// The matching sockets and their controls. Changes nothing.
pub fn survey(selection: &Selection) -> Result<Attached, BpfError> {
    all(selection, &Act::Look)
}

fn all(selection: &Selection, act: &Act<'_>) -> Result<Attached, BpfError> {
    control::able()?;
    if !act.only_looks() {
        pins::prepare()?;
    }
    let Some(namespaces) = selection.sockets()? else {
        return pass(selection, None, act);
    };
    let mut found = Vec::new();
    for sockets in namespaces {
        // The iterator shows the namespace of the thread that reads it.
        match within(&sockets.pids, || pass(selection, Some(&sockets), act)) {
            // Its processes have ended, and their sockets with them.
            Err(gone) if gone.is_gone() && selection.pid.is_none() => {}
            one => found.extend(one??),
        }
    }
    Ok(found)
}

/// One pass over the sockets of this thread's network namespace.
fn pass(
    selection: &Selection,
    sockets: Option<&Sockets>,
    act: &Act<'_>,
) -> Result<Attached, BpfError> {
    let failed = |e: libbpf_rs::Error| BpfError::kernel("go through the TCP sockets", &e);
    let mut open = open(&[EXISTING])?;
    configure(&mut open, &rodata(selection, sockets.is_some(), act)).map_err(failed)?;
    let none = std::collections::BTreeSet::new();
    let inodes = sockets.map_or(&none, |s| &s.inodes);
    for mut map in open.maps_mut().filter(|map| map.name() == "inodes") {
        let most = u32::try_from(inodes.len().max(1)).unwrap_or(u32::MAX);
        map.set_max_entries(most).map_err(failed)?;
    }
    let object = load(open)?;
    for map in object.maps().filter(|map| map.name() == "inodes") {
        for inode in inodes {
            map.update(&inode.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(failed)?;
        }
    }
    let link = program(&object, EXISTING).attach().map_err(failed)?;
    let mut records = Vec::new();
    Iter::new(&link)
        .map_err(failed)?
        .read_to_end(&mut records)
        .map_err(|e| BpfError::Kernel {
            attempt: "go through the TCP sockets".into(),
            error: e.to_string(),
        })?;
    Ok(found_in(&records))
}

fn found_in(records: &[u8]) -> Vec<Found> {
    let records = records.chunks_exact(FOUND_LEN).map(found);
    corrected(records, |f| (f.port, f.peer), |f| f.error.is_some())
}

/// The records of an iterator over sockets. A failure with a socket is in a second record of that
/// socket, which replaces the first.
pub(crate) fn corrected<T, S: PartialEq>(
    records: impl Iterator<Item = T>,
    socket: impl Fn(&T) -> S,
    has_failed: impl Fn(&T) -> bool,
) -> Vec<T> {
    let mut all = Vec::<T>::new();
    for record in records {
        match all.last_mut() {
            Some(last) if has_failed(&record) && socket(last) == socket(&record) => *last = record,
            _ => all.push(record),
        }
    }
    all
}

/// A record of the iterator: `struct found` of `attach.bpf.c`.
fn found(record: &[u8]) -> Found {
    let half = |at: usize| u16::from_ne_bytes([record[at], record[at + 1]]);
    let error = i32::from_ne_bytes(record[8..12].try_into().expect("four bytes"));
    let octets: [u8; 16] = record[20..36].try_into().expect("sixteen bytes");
    let address = if i32::from(half(16)) == nix::libc::AF_INET {
        let v4: [u8; 4] = octets[..4].try_into().expect("four bytes");
        IpAddr::V4(Ipv4Addr::from(v4))
    } else {
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let name = &record[36..36 + NAME_LEN];
    let end = name.iter().position(|b| *b == 0).unwrap_or(NAME_LEN);
    Found {
        port: half(12),
        peer: (record[18] != LISTEN).then(|| SocketAddr::new(address, half(14))),
        control: String::from_utf8_lossy(&name[..end]).into_owned(),
        options: Options::read(
            record[52..][..Options::LEN]
                .try_into()
                .expect("twelve bytes"),
        ),
        error: (error != 0).then(|| std::io::Error::from_raw_os_error(error).to_string()),
    }
}

/// `struct selection` of `attach.bpf.c`.
pub(crate) fn rodata(selection: &Selection, by_inode: bool, act: &Act<'_>) -> [u8; 72] {
    let mut bytes = [0; 72];
    if let Act::Select(Chosen { control, options }) | Act::Watch(Chosen { control, options }) = act
    {
        bytes[56..][..Options::LEN].copy_from_slice(&options.bytes());
        // One byte stays zero: the name's end.
        let name = &control.as_bytes()[..control.len().min(NAME_LEN - 1)];
        bytes[..name.len()].copy_from_slice(name);
        let bounds = RESIDENT.iter().any(|r| r.control.name == control);
        bytes[46] = bounds.into();
    }
    bytes[16..18].copy_from_slice(&selection.port.unwrap_or(0).to_ne_bytes());
    if let Some((family, words, len)) = selection.prefix.as_ref().map(Prefix::words) {
        bytes[18..20].copy_from_slice(&family.to_ne_bytes());
        bytes[20..24].copy_from_slice(&len.to_ne_bytes());
        bytes[24..40].copy_from_slice(&words);
    }
    bytes[40] = by_inode.into();
    bytes[41] = matches!(act, Act::Restore | Act::RestoreListening).into();
    bytes[42] = matches!(act, Act::Look).into();
    bytes[43] = matches!(act, Act::Watch(_)).into();
    bytes[47] = matches!(act, Act::RestoreListening).into();
    if let Some(share) = selection.share {
        bytes[44..46].copy_from_slice(&share.per_mille().to_ne_bytes());
        bytes[48..56].copy_from_slice(&share.salt().to_ne_bytes());
    }
    bytes
}

/// The object with some of its programs, and with the shared map of earlier controls.
pub(crate) fn open(programs: &[&str]) -> Result<OpenObject, BpfError> {
    let failed = |e: libbpf_rs::Error| BpfError::kernel("open the BPF programs", &e);
    let mut open = control::open(OBJECT).map_err(failed)?;
    for mut other in open.progs_mut() {
        let load = programs.iter().any(|program| other.name() == *program);
        other.set_autoload(load);
    }
    for mut map in open.maps_mut() {
        if ENDS_MAPS.iter().any(|name| map.name() == *name) {
            // Only a trial needs their memory.
            (map.set_autocreate(programs.contains(&CLOSED))).map_err(failed)?;
        }
    }
    // A survey of a machine on which nothing is loaded changes nothing. Only the controls create the map of
    // their options: otherwise controls of a version without options would seem to take some.
    let shared = [
        (BEFORE, pins::is_mounted()),
        (options::MAP.0, options::are_taken()),
    ];
    for (name, _) in shared.iter().filter(|(_, is_shared)| *is_shared) {
        for mut map in open.maps_mut().filter(|map| map.name() == *name) {
            // An existing pin is reused, otherwise one is created.
            map.set_pin_path(pins::pin(name)).map_err(failed)?;
        }
    }
    Ok(open)
}

pub(crate) fn configure(open: &mut OpenObject, rodata: &[u8]) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata") {
            map.set_initial_value(rodata)?;
        }
    }
    Ok(())
}

pub(crate) fn load(open: OpenObject) -> Result<Object, BpfError> {
    open.load()
        .map_err(|e| BpfError::kernel("load the BPF programs that select sockets", &e))
}

pub(crate) fn program<'a>(object: &'a Object, name: &str) -> libbpf_rs::ProgramMut<'a> {
    object
        .progs_mut()
        .find(|program| program.name() == name)
        .expect("the object has the programs: a test opens it")
}

impl Future<'_> {
    /// Selects the control for future connections until [`end_futures`], [`crate::unload`] or a restart
    /// of the machine.
    ///
    /// # Errors
    /// There is no such cgroup, or the kernel refuses.
    pub fn begin(&self, control: impl Into<Chosen>) -> Result<(), BpfError> {
        control::able()?;
        let control = control.into();
        options::check(&control)?;
        pins::prepare()?;
        let failed = |e: libbpf_rs::Error| {
            BpfError::kernel(
                format!("attach to the cgroup {}", self.cgroup.display()),
                &e,
            )
        };
        let (cgroup, name) = self.open()?;
        let mut open = open(&[FUTURE])?;
        let bytes = rodata(self.selection, false, &Act::Select(&control));
        configure(&mut open, &bytes).map_err(failed)?;
        let object = load(open)?;
        let mut link: Link = program(&object, FUTURE)
            .attach_cgroup(cgroup.as_raw_fd())
            .map_err(failed)?;
        // The new choice is in force before the old one ends.
        pins::end_link(&pins::pin(&name))?;
        link.pin(pins::pin(&name)).map_err(failed)
    }
}

/// All choices for future connections.
pub fn futures() -> Vec<Choice> {
    let names = pins::names(PREFIX);
    let cgroups = cgroups_of(names.iter().filter_map(|name| number_of(name)));
    let choice = |name: String| {
        let cgroup = number_of(&name).and_then(|number| cgroups.get(&number).cloned());
        Choice { name, cgroup }
    };
    names.into_iter().map(choice).collect()
}

/// The number of the cgroup at the end of a pin's name.
fn number_of(name: &str) -> Option<u64> {
    name.rsplit('-').next()?.parse().ok()
}

/// Ends the matching choices of [`futures`] and returns them.
///
/// # Errors
/// A pin cannot be removed.
pub fn end_futures(meant: impl Fn(&Choice) -> bool) -> Result<Vec<Choice>, BpfError> {
    let mut ended = futures();
    ended.retain(meant);
    (ended.iter()).try_for_each(|choice| pins::end_link(&pins::pin(&choice.name)))?;
    Ok(ended)
}
