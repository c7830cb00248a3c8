// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The door for containers: access to the maps of `alcc_window` by socket options, for the sockets of a
//! cgroup.
use crate::control::{self, is_loaded};
use crate::error::BpfError;
use crate::selection::{cgroups_of, open_cgroup};
use crate::{Cost, WINDOW, allowed, pins};
use libbpf_rs::Link;
use nix::sys::socket::sockopt::TcpNoDelay;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{getsockopt, setsockopt, socket};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const OBJECT: &[u8] = include_bytes!("../objects/door.bpf.o");
/// The programs, and the names of their pins.
const PROGRAMS: [(&str, &str); 2] = [("alcc_door_set", "set"), ("alcc_door_get", "get")];
const PREFIX: &str = "door-";

/// Checks that a door can be opened there, so that nothing is loaded for a wrong name.
///
/// # Errors
/// There is no such cgroup, or it cannot be read.
pub fn check_door(cgroup: &Path) -> Result<(), BpfError> {
    open_cgroup(cgroup).map(drop)
}

/// Opens a door in a cgroup, until [`crate::unload`], [`end_doors`] or a restart of the machine.
/// Programs in it and below it set the window of their own sockets by socket options. Sockets that were created
/// earlier in another cgroup cannot use it. Returns `false` if it was already open.
///
/// # Errors
/// The controls are not loaded, there is no such cgroup, or the kernel refuses.
pub fn open_door(cgroup: &Path) -> Result<bool, BpfError> {
    control::able()?;
    let attempt = format!("open a door in the cgroup {}", cgroup.display());
    let failed = |e: &libbpf_rs::Error| BpfError::kernel(attempt.clone(), e);
    if !is_loaded(&WINDOW) {
        return Err(BpfError::Kernel {
            attempt,
            error: format!("{} is not loaded: run 'alcc bpf load'", WINDOW.name),
        });
    }
    let (folder, number) = open_cgroup(cgroup)?;
    let name = |which: &str| format!("{PREFIX}{number}-{which}");
    if PROGRAMS
        .iter()
        .all(|(_, w)| pins::is_pin(&pins::pin(&name(w))))
    {
        return Ok(false);
    }
    let mut open = control::open(OBJECT).map_err(|e| failed(&e))?;
    for mut map in open.maps_mut() {
        if let Some((name, _)) = WINDOW.maps.iter().find(|(name, _)| map.name() == *name) {
            // The pinned map of the control.
            map.set_pin_path(pins::pin(name)).map_err(|e| failed(&e))?;
        }
    }
    let object = open.load().map_err(|e| failed(&e))?;
    let mut links: Vec<(String, Link)> = Vec::new();
    for (program, which) in PROGRAMS {
        let name = name(which);
        // Remains of an interrupted call.
        pins::end_link(&pins::pin(&name))?;
        let link = crate::sockets::program(&object, program)
            .attach_cgroup(folder.as_raw_fd())
            .map_err(|e| failed(&e))?;
        links.push((name, link));
    }
    for (name, link) in &mut links {
        link.pin(pins::pin(name)).map_err(|e| failed(&e))?;
    }
    allowed::allow_window(true)?;
    Ok(true)
}

/// The numbers of the cgroups with a door.
fn numbers() -> Vec<u64> {
    let which = |name: &String| {
        name.strip_prefix(PREFIX)?
            .strip_suffix("-set")?
            .parse()
            .ok()
    };
    pins::names(PREFIX).iter().filter_map(which).collect()
}

/// The cgroups with a door. One whose folder cannot be found is shown by its number.
pub fn doors() -> Vec<PathBuf> {
    let numbers = numbers();
    let found = cgroups_of(numbers.iter().copied());
    let named = |number: &u64| found.get(number).cloned();
    let gone = |number: &u64| PathBuf::from(format!("cgroup {number}"));
    let mut all: Vec<_> = (numbers.iter())
        .map(|number| named(number).unwrap_or_else(|| gone(number)))
        .collect();
    all.sort();
    all
}

/// Closes all doors. The kernel takes back the sockets whose window was set through one.
///
/// # Errors
/// A pin cannot be removed, or the kernel refuses.
pub fn end_doors() -> Result<(), BpfError> {
    (pins::names(PREFIX).iter()).try_for_each(|name| pins::end_link(&pins::pin(name)))?;
    allowed::allow_window(control::window_group().is_some())
}

/// Number of batches, and of calls in each.
const BATCHES: usize = 9;
const CALLS: u32 = 1000;

/// Measures the time of a socket option in the cgroup. This process enters it briefly to create a
/// socket. `None` if it cannot enter, for example because the cgroup distributes memory among
/// those below it.
pub fn door_cost(cgroup: &Path) -> Option<Cost> {
    let own = crate::cgroup_of(std::process::id())?;
    let make = || {
        let kind = SockType::Stream;
        let protocol = SockProtocol::Tcp;
        socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, protocol).ok()
    };
    let go = |to: &Path| fs::write(to.join("cgroup.procs"), std::process::id().to_string());
    // A socket stays in the cgroup in which it was created.
    let without = make()?;
    go(cgroup).ok()?;
    let with = make();
    go(&own).ok()?;
    let with = with?;
    let set = |s: &OwnedFd| setsockopt(s, TcpNoDelay, &true).is_ok();
    let get = |s: &OwnedFd| getsockopt(s, TcpNoDelay).is_ok();
    let [set_without, set_with] = compare([&without, &with], set)?;
    let [get_without, get_with] = compare([&without, &with], get)?;
    Some(Cost {
        set_without,
        set_with,
        get_without,
        get_with,
    })
}

/// Calls the option on both sockets in turns. Returns the median of the batches for each.
fn compare(sockets: [&OwnedFd; 2], call: impl Fn(&OwnedFd) -> bool) -> Option<[Duration; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..BATCHES {
        for (times, socket) in times.iter_mut().zip(sockets) {
            let began = Instant::now();
            for _ in 0..CALLS {
                call(socket).then_some(())?;
            }
            times.push(began.elapsed() / CALLS);
        }
    }
    Some(times.map(|mut times| {
        times.sort();
        times[BATCHES / 2]
    }))
}
