// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of the relay.
use alcc_socket::own::Runtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// Maximum number of connections open at a time.
    pub peak: u64,
    /// Connections for which no address of the server answered.
    pub connect_failed: u64,
    /// Payload bytes from clients to the server, without the PROXY header.
    pub bytes_up: u64,
    /// Payload bytes from the server to clients.
    pub bytes_down: u64,
    /// Connections that ended by a reset, including ours.
    pub resets: u64,
    /// Connections closed because of silence, or because others needed the place.
    pub silent: u64,
    /// Connections refused because their client has its maximum number.
    pub turned_away: u64,
    /// Number of pauses of accepting because descriptors or memory had run out.
    pub accept_pauses: u64,
    /// Ends relayed as plain TCP, by the selection.
    pub left_alone: u64,
    /// Connections whose algorithm failed; they continued as plain TCP.
    pub failures: u64,
    /// Ends for which the kernel refused the requested congestion control.
    pub under_refused: u64,
    /// Counters of the runtimes. Their connections are the controlled ends: clients, and with
    /// [`outbound`](alcc_socket::Selection::outbound) servers.
    pub runtimes: alcc_observe::Totals,
}

#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) connections: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) peak: AtomicU64,
    pub(crate) connect_failed: AtomicU64,
    /// By direction: up, down.
    pub(crate) bytes: [AtomicU64; 2],
    pub(crate) resets: AtomicU64,
    pub(crate) silent: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) accept_pauses: AtomicU64,
    pub(crate) left_alone: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) under_refused: AtomicU64,
}

impl Stats {
    pub(crate) fn opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(open, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn one(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The totals, with the counters of the runtimes.
    pub(crate) fn totals(&self, runtimes: &[Arc<Runtime>]) -> Totals {
        let mut theirs = alcc_observe::Totals::default();
        runtimes.iter().for_each(|r| theirs += r.totals());
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            connections: get(&self.connections),
            open: get(&self.open),
            peak: get(&self.peak),
            connect_failed: get(&self.connect_failed),
            bytes_up: get(&self.bytes[0]),
            bytes_down: get(&self.bytes[1]),
            resets: get(&self.resets),
            silent: get(&self.silent),
            turned_away: get(&self.turned_away),
            accept_pauses: get(&self.accept_pauses),
            left_alone: get(&self.left_alone),
            failures: get(&self.failures),
            under_refused: get(&self.under_refused),
            runtimes: theirs,
        }
    }
}
