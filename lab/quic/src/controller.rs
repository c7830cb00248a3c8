// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Implementation of the stack's controller trait, around [`Host`].
use crate::host::Host;
use crate::timed_runtime;
use noq::congestion::{Controller, ControllerMetrics};
use std::any::Any;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The rate that stands for "no pacing": no path reaches it (1 Tbit/s, in bytes). Without a rate,
/// the stack would pace by window and RTT.
const UNPACED: u64 = 125_000_000_000;

/// The stack reads window and rate through `&self`, and the algorithm's timers run at that moment.
/// So there is a lock, without any contention.
pub(crate) struct Adapter {
    host: Mutex<Host>,
}

impl Adapter {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host: Mutex::new(host),
        }
    }

    fn host(&mut self) -> &mut Host {
        self.host.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked(&self) -> MutexGuard<'_, Host> {
        alcc_sys::lock(&self.host)
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").finish_non_exhaustive()
    }
}

impl Controller for Adapter {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.host().sent(now, bytes.into(), pn);
    }

    fn on_cwnd_limited(&mut self) {
        let host = self.host();
        host.blocked();
        timed_runtime::request_wakeup(host.next_timer());
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        _bytes: u64,
        pn: u64,
        _app_limited: bool,
        _rtt: &noq_proto::RttEstimator,
    ) {
        self.host().acknowledged(now, sent, pn);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        self.host().end_acks(now, in_flight, app_limited);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.host().lost(now, lost_bytes.into(), pn);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        self.host()
            .on_congestion_event(now, is_persistent_congestion, is_ecn);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.host().spurious();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.host().mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.locked().window()
    }

    /// Called before each transmission.
    fn metrics(&self) -> ControllerMetrics {
        let mut host = self.locked();
        host.run(Some(Instant::now()));
        let next = if host.is_idle() {
            None
        } else {
            host.next_timer()
        };
        if timed_runtime::request_wakeup(next) {
            host.has_timers();
        }
        let allowance = host.allowance();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = host.window();
        metrics.pacing_rate = Some(match allowance.rate {
            Some(rate) => (rate.as_bps() / 8).clamp(1, UNPACED),
            None => UNPACED,
        });
        metrics.send_quantum = allowance.rate.map(|_| allowance.burst.get());
        metrics
    }

    /// For a path that replaces this one, because the peer's address changed. The algorithm keeps
    /// its state. Packets in flight are not reported any more.
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            host: Mutex::new(self.locked().clone_for_path()),
        })
    }

    fn initial_window(&self) -> u64 {
        self.locked().window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
