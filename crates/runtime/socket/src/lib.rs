// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runtime: one loop for all controlled TCP connections of a process. No thread per connection, no spinning, no
//! wake-up for an idle connection.
//!
//! ```text
//!   program's write ──► Conn::write ──► room? ──► real write ──► OverTcp::wrote
//!                            ▲                                       │
//!      gate opens: Waker ────┤                                       ▼ becomes active
//!                       Runtime thread ◄── deadline ── TCP_INFO ── OverTcp::progress
//! ```
//!
//! [`Settings`] is what `alcc run` passes to the processes it starts, [`Report`] what they tell back.

mod accounts;
mod borrowed;
mod bypass;
mod conn;
mod control;
mod groups;
mod keeper;
mod log;
mod missed;
pub mod own;
mod report;
mod runtime;
mod selection;
mod settings;
mod shared;
mod shown;
mod status;
mod trail;
mod triple;
mod turns;

use alcc_sys as kernel;

pub use accounts::Unseen;
pub use alcc_sys::{
    Flags, Inside, Peer, Socket, Table, TcpCounters, errno, flags, look, now, on_alternate_stack,
    send_timeout, set_errno, tcp_counters,
};
pub use bypass::{ByReason, Bypass};
pub use conn::{Conn, Inherited, Wait, Waker, Write};
pub use control::{Change, Order, Orders};
pub use groups::{BOUNDS_US, Group, GroupTotals, Histogram};
pub use missed::{Missed, MissedCount};
pub use report::{Report, Totals};
pub use runtime::{Attached, Runtime};
pub use selection::{Pattern, Rule, Selection};
pub use settings::{Settings, SettingsError};
pub use status::{Identity, Record, State, Status};
pub use trail::{Passed, Trail};
pub use triple::{Enforcement, Feedback, Host, Triple, TripleError};
