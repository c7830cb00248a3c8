// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion controls in the kernel, as BPF programs, and the selection of sockets for them.
//!
//! *Control* is short for congestion control here. A *door* is access to [`WINDOW`], the control whose window
//! a program sets, by socket options, for the programs of a cgroup.
//!
//! Root loads the controls once ([`load`]). From then on every user can select them like any other
//! control of the kernel; only root and one group can set the window of [`WINDOW`]. [`attach`]
//! selects a control for existing connections, and [`Future`] for future ones. No process has to
//! keep running: the kernel keeps the programs alive by the files below [`PINS`].
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
mod allowed;
#[cfg(feature = "loader")]
mod attach;
#[cfg(feature = "loader")]
mod control;
#[cfg(feature = "loader")]
mod door;
#[cfg(feature = "loader")]
mod encoded;
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
mod sockets;
#[cfg(feature = "loader")]
mod trial;

#[cfg(not(feature = "loader"))]
pub use absent::policy;
#[cfg(not(feature = "loader"))]
pub use absent::{
    Trial, allow_users, attach, check_door, detach, door_cost, doors, end_doors, end_futures,
    futures, is_for_users, load, loaded, older, open_door, survey, unload, window_group,
};
pub use alcc_sys::{Chosen, Options};
#[cfg(feature = "loader")]
pub use allowed::{allow_users, is_for_users};
#[cfg(feature = "loader")]
pub use attach::{attach, detach, survey};
#[cfg(feature = "loader")]
pub use control::{load, loaded, older, unload, window_group};
#[cfg(feature = "loader")]
pub use door::{check_door, door_cost, doors, end_doors, open_door};
pub use error::BpfError;
pub use namespace::{namespace_of, within};
#[cfg(feature = "loader")]
pub use policy::{end_futures, futures};
pub use rule::{
    CGROUP_LEN, CGROUP_LEVELS, InForce, PROGRAM_LEN, Place, RULES, Rule, RuleInForce, Seen, Walk,
    Whose, below_all_cgroups, shortened,
};
pub use selection::{
    Attached, Choice, Counters, Found, Future, Prefix, Selection, Sockets, TransferEnd,
    all_cgroups, cgroup_of,
};
use std::collections::BTreeMap;
use std::time::Duration;
#[cfg(feature = "loader")]
pub use trial::Trial;

/// The folder of the pins: a separate BPF file system, because users cannot read systemd's.
pub const PINS: &str = alcc_sys::PINS;

/// A registered control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// The control.
    pub control: &'static Control,
    /// True if this call registered it, and not an earlier one.
    pub new: bool,
}

/// The result of [`unload`]: everything that it ended, and what remains.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The controls that are no longer registered.
    pub controls: Vec<&'static Control>,
    /// The choices for future connections.
    pub futures: Vec<Choice>,
    /// True if a policy was in force.
    pub policy: bool,
    /// Listening sockets of this network namespace that got their earlier congestion control back.
    pub given_back: usize,
    /// Other listening sockets here that still pass on one of the controls, by its name: their earlier
    /// control is unknown.
    pub listening: BTreeMap<String, usize>,
}

/// Time per call of a socket option, for a socket of a cgroup with a [door](crate::open_door) (access
/// to `alcc_window` by socket options) and for one of a cgroup without a door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// `setsockopt` without the door.
    pub set_without: Duration,
    /// `setsockopt` with the door.
    pub set_with: Duration,
    /// `getsockopt` without the door.
    pub get_without: Duration,
    /// `getsockopt` with the door.
    pub get_with: Duration,
}

/// A congestion control that this crate loads into the kernel.
#[derive(PartialEq, Eq, Debug)]
pub struct Control {
    /// Its name for `TCP_CONGESTION`.
    pub name: &'static str,
    /// Description for people.
    pub does: &'static str,
    /// The compiled programs.
    pub object: &'static [u8],
    /// Maps that are pinned beside it under their own names, and the mode of each pin.
    pub maps: &'static [(&'static str, u32)],
}

/// An algorithm that runs in the kernel.
#[derive(PartialEq, Eq, Debug)]
pub struct Resident {
    /// Its name in `alcc list`.
    pub algorithm: &'static str,
    /// The form of the algorithm in `cc` that it reproduces.
    pub follows: &'static str,
    /// Its control in the kernel.
    pub control: Control,
}

/// One entry: the names of the algorithm, of its form in `cc` and of the control, the object, and its maps.
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

/// All algorithms that run in the kernel.
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

/// The control whose window and rate are set by programs for their own sockets: [`alcc_sys::Steered`].
pub const WINDOW: Control = Control {
    name: alcc_sys::WINDOW_CONTROL,
    does: "window and rate set by a program",
    object: include_bytes!("../objects/window.bpf.o"),
    // Permitted users access only the entries of their own sockets: no other can be named.
    maps: &[("knobs", 0o660), ("feed", 0o440), ("before", 0o600)],
};

/// All controls.
pub fn controls() -> impl Iterator<Item = &'static Control> {
    RESIDENT.iter().map(|r| &r.control).chain([&WINDOW])
}
