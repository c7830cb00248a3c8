// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion controls that live in the kernel by BPF, and the selection of sockets for them.
//!
//! Root loads the controls once ([`load`]); from then on every user may choose them like any
//! other control of the kernel. [`attach`] selects one for connections that exist, and
//! [`Future`] for those to come. Nothing of this crate runs afterwards: the kernel keeps all of
//! it alive by the files below [`PINS`].
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
mod error;
#[cfg(feature = "loader")]
mod pins;
mod selection;

#[cfg(not(feature = "loader"))]
pub use absent::{attach, detach, end_futures, futures, load, loaded, survey, unload};
#[cfg(feature = "loader")]
pub use attach::{attach, detach, end_futures, futures, survey};
#[cfg(feature = "loader")]
pub use control::{load, loaded, unload};
pub use error::BpfError;
pub use selection::{Attached, Found, Future, Prefix, Selection, cgroup_of};

/// The folder of the pins: a BPF file system of its own, because systemd's is closed to users.
pub const PINS: &str = "/run/alcc/bpf";

/// A control that is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// Which.
    pub resident: &'static Resident,
    /// Registered just now, and not by an earlier call.
    pub new: bool,
}

/// An algorithm that lives in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resident {
    /// What a user calls it: the name in `alcc list`.
    pub algorithm: &'static str,
    /// The name of its congestion control, as `TCP_CONGESTION` takes it.
    pub control: &'static str,
    /// The form of the algorithm in `cc` that it follows.
    pub follows: &'static str,
    /// The compiled programs.
    pub object: &'static [u8],
}

/// All algorithms that live in the kernel.
pub const RESIDENT: &[Resident] = &[Resident {
    algorithm: "copa",
    control: "alcc_copa",
    follows: "copa:profile=paper,mode=default",
    object: include_bytes!("../objects/copa.bpf.o"),
}];
