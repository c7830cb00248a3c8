// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every sender needs around an algorithm, without I/O: used by the simulator and the TCP runtime alike.
//!
//! [`OverTcp`] drives a [`Controller`](alcc_cc::Controller) above an ordinary TCP connection: start reading there.
#![forbid(unsafe_code)]

mod ledger;
mod near_half;
mod over_tcp;
mod rtt;
mod send_rule;

pub use ledger::{AckStamp, Ledger};
pub use over_tcp::{Counters, OverTcp, TcpProgress};
pub use rtt::RttEstimator;
pub use send_rule::room;
