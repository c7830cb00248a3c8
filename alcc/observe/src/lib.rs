// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reports of the processes of a run, and the commands to them. Both are in a [`Segment`] of
//! shared memory, which `alcc run`, the programs below it, `alcc top`, `ctl`, `log` and the metrics
//! map.
//!
//! ```text
//!   a connection ──► Event ──┬──► counters, groups ──► --metrics, summaries
//!        ▲                   ├──► status table ──────► alcc top, the search for uncontrolled ones
//!        │                   ├──► trace ring ────────► alcc log, alcc trial
//!        │                   ├──► event ring ────────► alcc log, alcc run --log
//!        │                   └──► Log ───────────────► the CSV files of alcc run --log
//!    CommandCache ◄────────────── commands ◄────────── alcc ctl
//!    Sharing ◄──────► places ◄──► Sharing of another process
//! ```
//!
//! Nothing in this crate controls a connection, or queries the kernel about one. Accounts and the
//! places of `Sharing` are not reports: other processes base decisions on them.

mod accounts;
mod bypass;
mod commands;
mod entry;
mod event;
mod events;
mod futex;
mod groups;
mod guard;
mod log;
mod map;
mod missed;
mod pattern;
mod published;
mod ring;
mod segment;
mod share;
mod sharing;
mod status;
mod totals;
mod trace;
pub mod trial;

pub use accounts::Unseen;
pub use alcc_sys::Peer;
pub use bypass::{ByReason, Bypass};
pub use commands::{Action, Command, CommandCache, Commands};
pub use entry::{Entry, MAX_FILE_WAIT, lock, own_directories, run_directories};
pub use event::{Event, Named, Passed, Reading, Subscriber};
pub use events::{EventEntry, EventReader};
pub use groups::{BOUNDS_US, Group, GroupTotals, Histogram};
pub use log::Log;
pub use missed::{Missed, MissedCount, Uncontrolled};
pub use pattern::Pattern;
pub use published::Published;
pub use segment::Segment;
pub use share::{Share, client_of};
pub use sharing::Sharing;
pub use status::{Identity, State, Status, StatusRecord};
pub use totals::{AtomicTotals, Totals};
pub use trace::{LeftBell, LeftEntry, TraceEntry, TraceReader, Traced};
