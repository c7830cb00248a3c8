// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that select a control for sockets, and the walk over those that exist.
use crate::control::{self, BEFORE};
use crate::encoded::{self, RULE_LEN};
use crate::error::BpfError;
use crate::namespace::within;
use crate::options;
use crate::pins;
use crate::rule::{Rule, Seen, Walk, Whose};
use crate::selection::{Sockets, other_namespaces};
use alcc_sys::Options;
use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

const OBJECT: &[u8] = include_bytes!("../objects/policy.bpf.o");
/// The program for future connections.
pub(crate) const FUTURE: &str = "alcc_policy";
/// The iterator over existing sockets.
pub(crate) const EXISTING: &str = "alcc_sockets";
/// The iterator that finds the programs of listening sockets.
pub(crate) const PROGRAMS: &str = "alcc_programs";
/// Maps: the rules; the work on each socket; the sockets of the named processes.
pub(crate) const POLICIES: &str = "policies";
pub(crate) const PLACED: &str = "placed";
const INODES: &str = "inodes";
const OPTIONS: &str = options::MAP.0;
/// Maps whose memory only a trial needs: the ends of transfers, and the number of those that did not fit.
pub(crate) const ENDS_MAPS: [&str; 2] = ["ends", "ends_lost"];
/// Prefix of the names of pins with this layout of the maps.
pub(crate) const THIS: &str = "policy-2-";

/// `wanted` and `struct seen` of `policy.bpf.c`.
const WANTED_LEN: usize = 8 + RULE_LEN;
const SEEN_LEN: usize = 76;
const NAME_LEN: usize = 16;
/// A listening socket, as the kernel numbers its states.
const LISTEN: u8 = 10;
const WALK: &str = "go through the TCP sockets";

/// The iterator's task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Look,
    /// Puts existing connections under the rules of the file.
    Apply,
    /// Gives back what those rules took.
    RollBack,
    /// Selects the control of [`Wanted::rule`].
    Attach,
    /// Ends that: for the rules of the file, otherwise for the earlier control.
    Detach,
}

/// Task of the programs, and the sockets that it is about.
pub(crate) struct Wanted<'a> {
    pub(crate) act: Act,
    /// Only sockets that match it.
    pub(crate) rule: Rule,
    /// Only sockets of these processes.
    pub(crate) sockets: Option<&'a [Sockets]>,
    /// Only listening sockets.
    pub(crate) listening: bool,
    /// For a trial: the rules are its own, and matching connections are recorded.
    pub(crate) watch: bool,
}

impl Wanted<'_> {
    /// All sockets.
    pub(crate) fn all(act: Act) -> Self {
        Wanted {
            act,
            rule: Rule::default(),
            sockets: None,
            listening: false,
            watch: false,
        }
    }

    fn rodata(&self) -> [u8; WANTED_LEN] {
        let mut bytes = [0; WANTED_LEN];
        bytes[..4].copy_from_slice(&(self.act as u32).to_ne_bytes());
        bytes[4] = self.sockets.is_some().into();
        bytes[5] = self.listening.into();
        bytes[6] = self.watch.into();
        bytes[8..].copy_from_slice(&encoded::rule(&self.rule, 0));
        bytes
    }

    /// True if the map's pin is used: an existing one, or one that is created. A look creates none.
    fn shares(&self, map: &str) -> bool {
        let creates = match map {
            POLICIES if self.watch => return false,
            POLICIES => self.act == Act::Apply,
            // Only the controls create it: otherwise those of an older version would seem to take options.
            OPTIONS => false,
            _ => !matches!(self.act, Act::Look | Act::Detach),
        };
        creates || pins::is_pin(&pin(map))
    }

    /// The object with some of its programs.
    pub(crate) fn load(&self, programs: &[&str]) -> Result<Object, BpfError> {
        let failed = |e: libbpf_rs::Error| BpfError::kernel("open the BPF programs", &e);
        let mut open = control::open(OBJECT).map_err(failed)?;
        let inodes: BTreeSet<u64> = (self.sockets.unwrap_or_default().iter())
            .flat_map(|sockets| sockets.inodes.iter().copied())
            .collect();
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            match &*name {
                INODES => {
                    let most = u32::try_from(inodes.len().max(1)).unwrap_or(u32::MAX);
                    map.set_max_entries(most).map_err(failed)?;
                }
                BEFORE | PLACED | POLICIES | OPTIONS if self.shares(&name) => {
                    map.set_pin_path(pin(&name)).map_err(failed)?;
                }
                _ if ENDS_MAPS.contains(&&*name) => {
                    map.set_autocreate(self.watch).map_err(failed)?;
                }
                _ if name.ends_with(".rodata") => {
                    map.set_initial_value(&self.rodata()).map_err(failed)?;
                }
                _ => {}
            }
        }
        for mut program in open.progs_mut() {
            let load = programs.iter().any(|name| program.name() == *name);
            program.set_autoload(load);
        }
        let attempt = "load the BPF programs that select sockets";
        let object = open.load().map_err(|e| BpfError::kernel(attempt, &e))?;
        for inode in inodes {
            map(&object, INODES)
                .update(&inode.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(|e| BpfError::kernel(WALK, &e))?;
        }
        Ok(object)
    }
}

/// The pin of a map. That of earlier controls is the same in all versions.
pub(crate) fn pin(map: &str) -> PathBuf {
    match map {
        PLACED | POLICIES => pins::pin(&format!("{THIS}{map}")),
        _ => pins::pin(map),
    }
}

pub(crate) fn map<'a>(object: &'a Object, name: &str) -> libbpf_rs::Map<'a> {
    let mut maps = object.maps();
    maps.find(|map| map.name() == name)
        .expect("the object has the map: a test opens it")
}

pub(crate) fn program<'a>(object: &'a Object, name: &str) -> libbpf_rs::ProgramMut<'a> {
    let mut programs = object.progs_mut();
    programs
        .find(|program| program.name() == name)
        .expect("the object has the programs: a test opens it")
}

/// Runs an iterator in this thread's network namespace.
pub(crate) fn read(object: &Object, name: &str) -> Result<(), BpfError> {
    read_link(&link(object, name)?).map(drop)
}

/// Attaches an iterator.
pub(crate) fn link(object: &Object, name: &str) -> Result<Link, BpfError> {
    let attached = program(object, name).attach();
    attached.map_err(|e| BpfError::kernel(WALK, &e))
}

/// The records of an iterator.
pub(crate) fn read_link(link: &Link) -> Result<Vec<u8>, BpfError> {
    let mut records = Vec::new();
    Iter::new(link)
        .map_err(|e| BpfError::kernel(WALK, &e))?
        .read_to_end(&mut records)
        .map_err(|e| BpfError::Kernel {
            attempt: WALK.into(),
            error: e.to_string(),
        })?;
    Ok(records)
}

/// The sockets of this thread's network namespace.
pub(crate) fn here(object: &Object) -> Result<Vec<Seen>, BpfError> {
    Ok(seen_in(&read_link(&link(object, EXISTING)?)?))
}

/// The sockets of these network namespaces.
pub(crate) fn within_each(
    object: &Object,
    namespaces: &[Sockets],
    is_skipped: impl Fn(&BpfError) -> bool,
) -> Result<Vec<Seen>, BpfError> {
    let link = link(object, EXISTING)?;
    let mut all = Vec::new();
    for sockets in namespaces {
        // The iterator shows the namespace of the thread that reads it.
        match within(&sockets.pids, || read_link(&link)) {
            Err(why) if is_skipped(&why) => {}
            records => all.extend(seen_in(&records??)),
        }
    }
    Ok(all)
}

/// The sockets of the network namespaces of all processes.
pub(crate) fn everywhere(object: &Object) -> Result<Walk, BpfError> {
    let link = link(object, EXISTING)?;
    let mut walk = Walk {
        seen: seen_in(&read_link(&link)?),
        unreached: 0,
    };
    for pids in other_namespaces().into_values() {
        match within(&pids, || read_link(&link)) {
            Ok(records) => walk.seen.extend(seen_in(&records?)),
            // Its processes have ended, and their sockets with them.
            Err(gone) if gone.is_gone() => {}
            Err(_) => walk.unreached += 1,
        }
    }
    Ok(walk)
}

/// A failure with a socket is in a second record of that socket, which replaces the first.
fn seen_in(records: &[u8]) -> Vec<Seen> {
    let mut all = Vec::<Seen>::new();
    for record in records.chunks_exact(SEEN_LEN).map(seen) {
        match all.last_mut() {
            Some(last)
                if record.error.is_some()
                    && (last.port, last.peer) == (record.port, record.peer) =>
            {
                *last = record;
            }
            _ => all.push(record),
        }
    }
    all
}

fn seen(record: &[u8]) -> Seen {
    use encoded::{half, text, word};
    let octets: [u8; 16] = record[16..32].try_into().expect("sixteen bytes");
    let address = if i32::from(half(record, 4)) == nix::libc::AF_INET {
        let v4: [u8; 4] = octets[..4].try_into().expect("four bytes");
        IpAddr::V4(Ipv4Addr::from(v4))
    } else {
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let error = i32::from(half(record, 8));
    let rule = word(record, 12) as usize;
    let had = record[64..][..Options::LEN].try_into();
    Seen {
        port: half(record, 0),
        peer: (record[6] != LISTEN).then(|| SocketAddr::new(address, half(record, 2))),
        whose: match record[7] {
            0 => Whose::System,
            1 => Whose::Policy,
            2 => Whose::Since,
            3 => Whose::Own,
            4 => Whose::Route,
            5 => Whose::Mptcp,
            _ => Whose::Attached,
        },
        rule: rule.checked_sub(1),
        anew: half(record, 10) != 0,
        is_changed: half(record, 10) == 2,
        was: text(&record[32..32 + NAME_LEN]),
        had: Options::read(had.expect("twelve bytes")),
        now: Some(text(&record[48..48 + NAME_LEN])).filter(|now| !now.is_empty()),
        error: (error != 0).then(|| std::io::Error::from_raw_os_error(error).to_string()),
    }
}
