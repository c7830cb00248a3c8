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

#[cfg(feature = "loader")]
mod attach;
#[cfg(feature = "loader")]
mod control;
#[cfg(feature = "loader")]
mod error;
#[cfg(feature = "loader")]
mod pins;
#[cfg(feature = "loader")]
mod selection;

#[cfg(feature = "loader")]
pub use attach::{Attached, Found, attach, detach, survey};
#[cfg(feature = "loader")]
pub use attach::{Future, end_futures, futures};
#[cfg(feature = "loader")]
pub use control::{Loaded, load, loaded, unload};
#[cfg(feature = "loader")]
pub use error::BpfError;
#[cfg(feature = "loader")]
pub use pins::PINS;
#[cfg(feature = "loader")]
pub use selection::{Prefix, Selection, cgroup_of};

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
