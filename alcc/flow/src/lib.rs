// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender around an algorithm, without I/O, for the simulator and the TCP runtime.
//!
//! * [`OverTcp`] drives a [`Controller`](alcc_cc::Controller) above an ordinary TCP connection.
//! * [`Sender`] and [`Receiver`] are the two ends of a flow whose packets this project sends
//!   itself. [`Rules`] selects a TCP or datagrams.
#![forbid(unsafe_code)]

mod late;
mod ledger;
mod over_tcp;
mod pacer;
mod ranges;
mod rate_reduction;
mod receiver;
mod rto;
mod rtt;
pub mod rules;
mod scoreboard;
mod send_rule;
mod sender;
mod share;
mod transmissions;
mod unreported;
mod wire;

pub use ledger::AckStamp;
pub use over_tcp::{Counters, Limit, OverTcp, Repair, Room, TcpProgress};
pub use pacer::Pacer;
pub use ranges::Range;
pub use receiver::Receiver;
pub use rtt::RttEstimator;
pub use rules::Rules;
pub use send_rule::room;
pub use sender::{FoundLost, LossSign, Sender, SenderStats};
pub use share::{Elsewhere, Share, Shares, Tally};
pub use transmissions::AckSample;
pub use wire::{Ack, AckError, Arrival, RANGES, Transmit};

use alcc_units::Time;

/// The earlier of two times; `None` means never.
#[inline]
fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
