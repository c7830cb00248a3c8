// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Emulated links in real time: two network namespaces, joined by a relay that runs the pure models
//! of `alcc-link`.
//!
//! Programs in the namespaces are ordinary programs with the kernel's own TCP; only the link
//! between them is emulated:
//!
//! ```text
//! outside namespace │ device ──► relay thread: alcc_link::Direction (down) ──► device │ inside namespace
//!   (servers)       │ device ◄── relay thread: alcc_link::Direction (up)   ◄── device │   (CMD, clients)
//! ```
//!
//! A run measures its own accuracy: the relay records the lateness of its deliveries, and the
//! report counts packets that were lost outside the model. It needs Linux, and no root if user
//! namespaces are permitted ([`prepare`]).
mod changing;
mod device;
mod ecn;
mod emulator;
mod error;
mod flow;
mod histogram;
mod namespace;
mod netlink;
mod offload;
mod packet_log;
mod packet_socket;
mod privilege;
mod relay;
mod report;
mod store;
mod subnet;
mod veth;
mod wakeup;

pub use alcc_link::Dir;
pub use emulator::{Control, Emulator, Observer, PathSpec, Silent};
pub use error::EmuError;
pub use flow::FlowKey;
pub use namespace::{Namespace, is_emulated};
pub use packet_log::{LogForm, LogSpec, PacketLog};
pub use privilege::{Privilege, available, drop_ambient_capabilities, prepare};
pub use report::{DirectionReport, EmuReport};
pub use subnet::Subnet;
pub use veth::veth;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
