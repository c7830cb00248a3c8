// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runtime: one loop for all controlled TCP connections of a process. No thread per connection,
//! no spinning, no wake-up for an idle connection.
//!
//! ```text
//!   program's write ──► Conn::write ──► room? ──► real write ──► OverTcp::wrote
//!                            ▲                                       │
//!      gate opens: Waker ────┤                                       ▼ becomes active
//!                       Runtime thread ◄── deadline ── TCP_INFO ── OverTcp::progress
//! ```
//!
//! [`Settings`] is the configuration that `alcc run` passes to the processes it starts,
//! [`Segment`](alcc_observe::Segment) the state that they publish.

mod conn;
mod controlled;
mod event_loop;
pub mod others;
pub mod own;
mod plane;
mod runtime;
mod saved_options;
mod selection;
mod service_thread;
mod settings;
mod steering;
mod triple;
mod unsent_limit;

use alcc_sys as kernel;

pub use alcc_sys::{
    Flags, ReentrancyGuard, Socket, Table, TcpCounters, classify, errno, flags, lock, now,
    on_alternate_stack, send_timeout, set_errno, tcp_counters, variable, wake_writers,
};
pub use conn::{Conn, Inherited, Wait, Waker, Write};
pub use plane::can_share;
pub use runtime::{Attached, Runtime, note_streams};
pub use selection::{Rule, Selection};
pub use settings::{Settings, SettingsError};
pub use triple::{Deployment, Enforcement, Feedback, Kernel, Triple, TripleError, pairs};
pub use unsent_limit::is_own_unsent_limit;
