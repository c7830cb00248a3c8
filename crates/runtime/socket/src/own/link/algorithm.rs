// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The algorithm of a stream: what it learns, how it is exchanged, how it is left.
use super::{Inner, Named};
use crate::kernel;
use crate::own::Runtime;
use crate::own::seen::Wish;
use alcc_flow::{Counters, OverTcp};
use alcc_observe::Log;
use alcc_sys::Stamps;
use alcc_units::Time;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Inner {
    pub(in crate::own) fn set_cc(&mut self, (cc, controller, seed): Named) {
        let Some(reading) = self.raw().and_then(kernel::read) else {
            return;
        };
        let now = kernel::now();
        self.flow = OverTcp::new(controller, now, &reading.progress, seed);
        self.reported = Counters::default();
        self.cc = cc;
        self.plain = false;
        self.failed = false;
    }

    pub(in crate::own) fn set_stamped(&mut self, stamped: bool) {
        let Some(fd) = self.raw().filter(|_| !self.plain) else {
            return;
        };
        if !stamped {
            if self.stamps.take().is_some() {
                Stamps::disable(fd);
            }
        } else if self.stamps.is_none() {
            self.stamps = Stamps::enable(fd, self.flow.written());
        }
    }

    /// The kernel's congestion control below, if one was asked for. Refused: what the socket has will do.
    pub(in crate::own) fn select_under(&mut self, runtime: &Runtime) {
        if let (Some(fd), Some(name)) = (self.raw(), runtime.settings().under) {
            let _ = self.borrowed.select_under(fd, &name);
        }
    }

    /// Runs what concerns the algorithm; if that panics the connection is plain TCP from then on.
    pub(super) fn guarded<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(|| f(self)));
        if result.is_err() {
            self.failed();
        }
        result.ok()
    }

    pub(super) fn failed(&mut self) {
        self.failed = true;
        self.release();
        if let Some(seen) = &mut self.seen {
            seen.failed(kernel::now());
        }
    }

    /// Does what `alcc ctl` has ordered since the last time.
    pub(super) fn follow(&mut self, runtime: &Runtime, id: u64) {
        let Some(seen) = &mut self.seen else { return };
        let Some(wish) = seen.ordered(runtime, &self.cc) else {
            return;
        };
        match wish {
            Wish::Same => {}
            Wish::Off => {
                seen.stamped = self.stamps.is_some();
                self.report(runtime);
                self.release();
            }
            Wish::Restart(spec) => {
                let stamped = std::mem::take(&mut seen.stamped);
                self.report(runtime);
                // An algorithm that this process does not have changes nothing.
                if let Ok(cc) = runtime.registry().build(&spec) {
                    let seed = crate::seed(runtime.settings().seed, id);
                    self.set_cc((spec.to_string(), cc, seed));
                    self.select_under(runtime);
                    self.set_stamped(stamped || self.stamps.is_some());
                }
            }
        }
        if let Some(seen) = &mut self.seen {
            seen.published.algorithm(&self.cc);
            seen.followed(kernel::now());
        }
    }

    pub(super) fn release(&mut self) {
        self.plain = true;
        if let Some(fd) = self.raw() {
            self.borrowed.give_back(fd);
            if self.stamps.take().is_some() {
                Stamps::disable(fd);
            }
        }
    }

    pub(super) fn read(&mut self, now: Time, log: &mut Option<Log>, id: u64) {
        let Some(fd) = self.raw().filter(|_| !self.plain) else {
            return;
        };
        let Some(reading) = kernel::read(fd).filter(|reading| reading.alive) else {
            // FIN is sent, or the connection is dead and only the kernel's answer to a write can say why.
            self.plain = true;
            return;
        };
        let tcp = reading.progress;
        // After the counters: so every position they have reached has its notification, unless that was dropped.
        let stamps = match &mut self.stamps {
            Some(stamps) if tcp.acked != self.acked => stamps.drain(fd, tcp.acked),
            _ => &[],
        };
        self.flow.progress_stamped(now, &tcp, stamps);
        self.acked = tcp.acked;
        self.mss = tcp.mss.get().max(1);
        self.borrowed.found(reading.pacing);
        if self.enforcement.pacing {
            self.borrowed.pace(fd, self.flow.pacing_rate());
        }
        if let Some(log) = log {
            log.reading(now, id, &reading, &self.flow);
        }
        if let Some(seen) = &mut self.seen {
            seen.published
                .reading(now, &reading, &self.flow, seen.order);
        }
        if self.flow.is_writable(self.flow.in_flight(), tcp.unsent) {
            self.flow.unblock();
        }
    }
}
