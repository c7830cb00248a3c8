// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion controls that live in the kernel by BPF, and the selection of sockets for them.
//!
//! Root loads the controls once ([`load`]). From then on every user may choose them like any other
//! control of the kernel; the window of [`WINDOW`] is for root and a group. [`attach`] selects one for connections that exist, and [`Future`] for
//! those to come. Nothing of this crate runs afterwards: the kernel keeps all of it alive by the
//! files below [`PINS`].
//!
//! The BPF programs are committed as objects, compiled once for all kernels from 6.1 on. `make
//! bpf` compiles them again.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "loader"),
    allow(dead_code, reason = "only the loader looks for sockets")
)]

#[cfg(not(feature = "loader"))]
mod absent;
#[cfg(feature = "loader")]
mod attach;
#[cfg(feature = "loader")]
mod control;
#[cfg(feature = "loader")]
mod door;
mod error;
mod namespace;
mod options;
#[cfg(feature = "loader")]
mod pins;
#[cfg(feature = "loader")]
pub mod policy;
mod rule;
mod selection;
#[cfg(feature = "loader")]
mod trial;

#[cfg(not(feature = "loader"))]
pub use absent::policy;
#[cfg(not(feature = "loader"))]
pub use absent::{
    Trial, attach, check_door, detach, door_cost, doors, end_doors, end_futures, futures, load,
    loaded, older, open_door, survey, unload, window_group,
};
pub use alcc_sys::{Chosen, Options};
#[cfg(feature = "loader")]
pub use attach::{attach, detach, end_futures, futures, survey};
#[cfg(feature = "loader")]
pub use control::{load, loaded, older, unload, window_group};
#[cfg(feature = "loader")]
pub use door::{check_door, door_cost, doors, end_doors, open_door};
pub use error::BpfError;
pub use namespace::{namespace_of, within};
pub use rule::{
    CGROUP_LEN, CGROUP_LEVELS, InForce, PROGRAM_LEN, Place, RULES, Rule, RuleInForce, Seen, Walk,
    Whose, below_all_cgroups,
};
pub use selection::{
    Attached, Choice, Counters, Found, Future, Prefix, Selection, Sockets, TransferEnd,
    all_cgroups, cgroup_of,
};
use std::collections::BTreeMap;
use std::time::Duration;
#[cfg(feature = "loader")]
pub use trial::Trial;

/// The folder of the pins: a BPF file system of its own, because systemd's is closed to users.
pub const PINS: &str = alcc_sys::PINS;

/// A control that is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// Which.
    pub control: &'static Control,
    /// Registered just now, and not by an earlier call.
    pub new: bool,
}

/// What [`unload`] has ended, and what it could not.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The registrations.
    pub controls: Vec<&'static Control>,
    /// The choices for connections to come.
    pub futures: Vec<Choice>,
    /// A policy was in force.
    pub policy: bool,
    /// Listening sockets of this network namespace that have again what they had.
    pub given_back: usize,
    /// Others here that still hand out one of the controls, by its name: nobody knows what they had.
    pub listening: BTreeMap<String, usize>,
}

/// What a socket option costs on a socket of a cgroup with a door, and on another. Each per call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// `setsockopt` without the door.
    pub set_without: Duration,
    /// `setsockopt` with it.
    pub set_with: Duration,
    /// `getsockopt` without the door.
    pub get_without: Duration,
    /// `getsockopt` with it.
    pub get_with: Duration,
}

/// A congestion control that the kernel gets from here.
#[derive(PartialEq, Eq, Debug)]
pub struct Control {
    /// Its name, as `TCP_CONGESTION` takes it.
    pub name: &'static str,
    /// What it does, for people.
    pub does: &'static str,
    /// The compiled programs.
    pub object: &'static [u8],
    /// Maps that are pinned beside it by their own names, and with which rights.
    pub maps: &'static [(&'static str, u32)],
}

/// An algorithm that lives in the kernel.
#[derive(PartialEq, Eq, Debug)]
pub struct Resident {
    /// What a user calls it: the name in `alcc list`.
    pub algorithm: &'static str,
    /// The form of the algorithm in `cc` that it follows.
    pub follows: &'static str,
    /// The control that it is.
    pub control: Control,
}

/// One entry: the algorithm's name, what it follows, the control's name, the object, and its maps.
const fn resident(
    algorithm: &'static str,
    follows: &'static str,
    name: &'static str,
    object: &'static [u8],
    maps: &'static [(&'static str, u32)],
) -> Resident {
    Resident {
        algorithm,
        follows,
        control: Control {
            name,
            does: follows,
            object,
            maps,
        },
    }
}

/// All algorithms that live in the kernel.
pub const RESIDENT: &[Resident] = &[
    resident(
        "copa",
        "copa:profile=tuned",
        "alcc_copa",
        include_bytes!("../objects/copa.bpf.o"),
        &[options::MAP],
    ),
    resident(
        "verus",
        "verus:profile=tuned",
        "alcc_verus",
        include_bytes!("../objects/verus.bpf.o"),
        &[options::MAP],
    ),
    resident(
        "budget",
        "budget",
        "alcc_budget",
        include_bytes!("../objects/budget.bpf.o"),
        &[options::MAP],
    ),
    resident(
        "vegas",
        "vegas",
        "alcc_vegas",
        include_bytes!("../objects/vegas.bpf.o"),
        &[],
    ),
    resident(
        "bic",
        "bic:profile=linux",
        "alcc_bic",
        include_bytes!("../objects/bic.bpf.o"),
        &[],
    ),
    resident(
        "westwood",
        "westwood:profile=linux",
        "alcc_westwood",
        include_bytes!("../objects/westwood.bpf.o"),
        &[],
    ),
];

/// The control whose window and rate programs set for their own sockets: [`alcc_sys::Steered`].
pub const WINDOW: Control = Control {
    name: alcc_sys::WINDOW_CONTROL,
    does: "window and rate set by a program",
    object: include_bytes!("../objects/window.bpf.o"),
    // Who may, writes and reads what belongs to a socket of their own: no other can be named.
    maps: &[("knobs", 0o660), ("feed", 0o440), ("before", 0o600)],
};

/// All controls.
pub fn controls() -> impl Iterator<Item = &'static Control> {
    RESIDENT.iter().map(|r| &r.control).chain([&WINDOW])
}
