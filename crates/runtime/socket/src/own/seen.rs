// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a stream shows to `alcc top` and `alcc log`, and what `alcc ctl` wants of it.
use super::Runtime;
use crate::Socket;
use crate::kernel;
use crate::triple::Enforcement;
use alcc_cc::Spec;
use alcc_observe::{Identity, Peer, Published, State};
use alcc_units::Time;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of a stream within the process, whichever runtime has it.
static NUMBER: AtomicU64 = AtomicU64::new(1);

pub(super) struct Seen {
    pub(super) published: Published,
    peer: Peer,
    /// The algorithm that it has without orders.
    first: Spec,
    /// The last order that was followed.
    pub(super) order: u64,
    /// By such an order plain TCP.
    off: bool,
    /// Whether it had time stamps before that.
    pub(super) stamped: bool,
}

/// What an order makes of a stream.
pub(super) enum Wish {
    /// This algorithm, from the present counters.
    Restart(Spec),
    /// Plain TCP.
    Off,
    /// As it is.
    Same,
}

impl Seen {
    /// `None` if nobody looks, or the socket is none.
    pub(super) fn new(
        runtime: &Runtime,
        fd: RawFd,
        spec: &Spec,
        feedback: &'static str,
        enforcement: Enforcement,
    ) -> Option<Box<Self>> {
        let segment = runtime.segment()?;
        let Socket::Connected(peer) = kernel::look(fd, None) else {
            return None;
        };
        let who = Identity {
            pid: std::process::id(),
            id: NUMBER.fetch_add(1, Ordering::Relaxed),
            cookie: kernel::cookie(fd)?,
            started: kernel::now(),
            local: kernel::local_of(fd)?,
            remote: peer.remote,
            outbound: peer.outbound,
            algorithm: spec.to_string(),
            feedback: feedback.to_owned(),
            enforcement: enforcement.name.to_owned(),
        };
        Some(Box::new(Self {
            published: Published::new(Some(segment), &who, &kernel::read(fd)?.progress),
            peer,
            first: spec.clone(),
            order: 0,
            off: false,
            stamped: false,
        }))
    }

    /// What was ordered since the last time; `None`: nothing. `now` is the algorithm in charge.
    pub(super) fn ordered(&mut self, runtime: &Runtime, now: &str) -> Option<Wish> {
        let orders = runtime.orders(self.order)?;
        self.order = orders.generation;
        let spec = orders.algorithm(&self.peer).unwrap_or(&self.first);
        Some(match (orders.on(&self.peer), self.off) {
            (true, off) if off || spec.to_string() != now => {
                self.off = false;
                Wish::Restart(spec.clone())
            }
            (false, false) => {
                self.off = true;
                Wish::Off
            }
            _ => Wish::Same,
        })
    }

    /// Shows that the order is followed.
    pub(super) fn followed(&mut self, now: Time) {
        let state = if self.off {
            State::Off
        } else {
            State::Controlled
        };
        self.published.state(now, state, self.order);
    }

    /// Shows that the algorithm has failed.
    pub(super) fn failed(&mut self, now: Time) {
        self.published.state(now, State::Failed, self.order);
    }
}
