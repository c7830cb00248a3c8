// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event loop of everything that runs inside a program.
//!
//! ```text
//!   Driver      many items, each due at a time or when its descriptor is ready; one thread at a time
//!   Shared      one engine that the threads waiting for it run themselves: one sleeps for all
//!   Background  a Driver with a thread, for engines without a waiting thread
//! ```
//!
//! A [`Driver`] serves the connections of a runtime above the kernel's TCP. In-band streams and UDP
//! sockets are [`Shared`], each kind with one [`Background`] thread in a process.
mod background;
mod driver;
mod shared;

pub use background::{Background, BackgroundTask, next_id, thread};
pub use driver::{Activity, Driver, LATE, Next, TimerSlack, Visit};
pub use shared::{Engine, Shared, State};
