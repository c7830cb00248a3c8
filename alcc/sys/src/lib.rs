// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only crate with system calls, for every crate that runs inside a program or transports data.
//!
//! Functions take raw descriptors, because most of these belong to the program that hosts us. No
//! function waits unless its name says so, and none allocates on the path of a packet.
mod clock;
mod environment;
mod error;
mod files;
mod io;
mod limits;
mod owned;
mod peer;
mod process;
mod random;
mod reentrancy;
mod resident;
mod signals;
mod sock_diag;
mod socket;
mod stamps;
mod steered;
mod table;
mod target;
mod tcp_info;
mod threads;

pub use clock::{Wall, now, process_cpu, sleep_for, thread_cpu};
pub use environment::{installed, is_privileged, variable};
pub use error::{errno, is_socket_error, set_errno};
pub use files::{Folder, Inode, PathListener, create, create_folders, overwrite_own};
pub use io::{Epoll, Waker, receive, send, wait, wait_writable};
pub use limits::raise_descriptor_limit;
pub use owned::{Sticky, create_owned, open_owned, path_of};
pub use peer::{Peer, Socket, classify, client_of, local_of};
pub use process::Process;
pub use random::random;
pub use reentrancy::ReentrancyGuard;
pub use resident::{Chosen, Options, OptionsMap};
pub use signals::{SignalWait, on_alternate_stack};
pub use sock_diag::{Ended, Name, Remains, Sockets, TcpSocket};
pub use socket::{
    Flags, cookie, duplicate, flags, get_option, has_failed, is_same_socket, pacing, queued,
    reset_on_close, send_timeout, set_option, set_pacing, set_under, set_unsent_limit,
    shutdown_write, under, unsent, unsent_limit, wake_writers,
};
pub use stamps::{Stamps, stamp_arrivals};
pub use steered::{AckSamples, Before, PINS, Steered, WINDOW_CONTROL};
pub use table::Table;
pub use target::Target;
pub use tcp_info::{Reading, TcpCounters, read, tcp_counters};
pub use threads::{
    Changed, Flag, exact_timers, has_thread, lock, lock_within, spawn, threads, within,
};
