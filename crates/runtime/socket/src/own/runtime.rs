// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One thread for all own sockets of a process, or of a core.
use super::Settings;
use super::link::Link;
use crate::kernel;
use crate::turns;
use alcc_cc::Registry;
use alcc_driver::Driver;
use alcc_observe::{OrderCache, Orders, Segment, Totals};
use alcc_units::Span;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

/// Everything that own sockets share: settings, and the thread that reads counters and drains queues. The thread is made with the
/// first stream and sleeps while nothing is in flight.
pub struct Runtime {
    settings: Mutex<Settings>,
    registry: RwLock<Registry>,
    turns: Driver<Link>,
    started: Mutex<bool>,
    /// Queues that are still drained although their program has closed them.
    lingering: AtomicUsize,
    next_id: AtomicU64,
    readings: AtomicU64,
    fault: Option<u64>,
    gate_closed: AtomicU64,
    bytes: AtomicU64,
    cpu: AtomicU64,
    segment: Option<Arc<Segment>>,
    orders: OrderCache,
}

impl Runtime {
    /// A runtime without streams and, so far, without a thread.
    pub fn new(settings: Settings, registry: Registry) -> Arc<Self> {
        Self::with_segment(settings, registry, None)
    }

    /// As [`Runtime::new`], and its streams are seen by `alcc top` and follow `alcc ctl` if `segment` is that of this process.
    pub fn with_segment(
        settings: Settings,
        registry: Registry,
        segment: Option<Arc<Segment>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            segment,
            orders: OrderCache::default(),
            fault: settings.fault,
            settings: Mutex::new(settings),
            registry: RwLock::new(registry),
            turns: Driver::new(turns::PACE),
            started: Mutex::new(false),
            lingering: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
            readings: AtomicU64::new(0),
            gate_closed: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
        })
    }

    /// What new streams start from.
    pub fn settings(&self) -> Settings {
        self.settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes what new streams start from.
    pub fn set_settings(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The algorithms there are.
    pub fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other algorithms for new streams, and for those that change theirs.
    pub fn set_registry(&self, registry: Registry) {
        *self
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner) = registry;
    }

    /// Counters of all streams so far.
    pub fn totals(&self) -> Totals {
        Totals {
            connections: self.next_id.load(Ordering::Relaxed) - 1,
            readings: self.readings.load(Ordering::Relaxed),
            gate_closed: self.gate_closed.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            runtime_cpu_ns: self.cpu.load(Ordering::Relaxed),
            ..Totals::default()
        }
    }

    /// Waits until every stream that was closed is drained, at most so long. True if it is.
    pub fn drained(&self, patience: Duration) -> bool {
        let until = kernel::now()
            + Span::from_nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
        while self.lingering.load(Ordering::Acquire) > 0 {
            if kernel::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    pub(super) fn count(&self, gate_closed: u64, bytes: u64) {
        self.gate_closed.fetch_add(gate_closed, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.tell(&Totals {
            gate_closed,
            bytes,
            ..Totals::default()
        });
    }

    /// Adds to the counters that others see.
    pub(super) fn tell(&self, more: &Totals) {
        if let Some(segment) = &self.segment {
            segment.add(more);
        }
    }

    /// What others see of this process, if they may.
    pub fn segment(&self) -> Option<&Arc<Segment>> {
        self.segment.as_ref()
    }

    /// The orders of `alcc ctl`, if there are newer ones than number `seen`.
    pub(super) fn orders(&self, seen: u64) -> Option<Arc<Orders>> {
        self.orders.newer(self.segment.as_deref()?, seen)
    }

    /// Number of this reading.
    pub(super) fn reading(&self) -> u64 {
        self.tell(&Totals {
            readings: 1,
            ..Totals::default()
        });
        self.readings.fetch_add(1, Ordering::Relaxed)
    }

    /// For tests: the reading that fails.
    pub(super) fn settings_fault(&self) -> Option<u64> {
        self.fault
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn lingers(&self) {
        self.lingering.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn lingered(&self) {
        self.lingering.fetch_sub(1, Ordering::AcqRel);
    }

    /// A resting stream has something to do.
    pub(super) fn adopt(&self, link: Arc<Link>) {
        self.turns.adopt(link, turns::FIRST_VISIT);
    }

    /// Makes the thread, once.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if !*started {
            let runtime = Arc::clone(self);
            turns::thread(move || runtime.run())?;
            *started = true;
        }
        Ok(())
    }

    fn run(&self) {
        let spent = |cpu: Span| {
            self.cpu.fetch_add(cpu.as_nanos(), Ordering::Relaxed);
            self.tell(&Totals {
                runtime_cpu_ns: cpu.as_nanos(),
                ..Totals::default()
            });
        };
        loop {
            let next = self.turns.turn(self, Some(&spent));
            self.turns.sleep(next);
        }
    }
}
