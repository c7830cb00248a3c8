// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One thread for all own sockets of a process, or of a core.
use super::Settings;
use super::link::Link;
use crate::control::Heard;
use crate::log::Log;
use crate::runtime::rest;
use crate::{Orders, Report, Totals, kernel};
use alcc_cc::Registry;
use alcc_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

/// Everything that own sockets share: settings, and the thread that reads counters and drains queues. The thread is made with the
/// first stream and sleeps while nothing is in flight.
pub struct Runtime {
    settings: Mutex<Settings>,
    registry: RwLock<Registry>,
    inbox: Mutex<Inbox>,
    bell: Condvar,
    next_id: AtomicU64,
    readings: AtomicU64,
    fault: Option<u64>,
    gate_closed: AtomicU64,
    bytes: AtomicU64,
    cpu: AtomicU64,
    report: Option<Arc<Report>>,
    heard: Heard,
}

#[derive(Default)]
struct Inbox {
    /// Became active since the loop last looked.
    links: Vec<Arc<Link>>,
    started: bool,
    /// Queues that are still drained although their program has closed them.
    lingering: usize,
}

impl Runtime {
    /// A runtime without streams and, so far, without a thread.
    pub fn new(settings: Settings, registry: Registry) -> Arc<Self> {
        Self::with_report(settings, registry, None)
    }

    /// As [`Runtime::new`], and its streams are seen by `alcc top` and follow `alcc ctl` if `report` is that of this process.
    pub fn with_report(
        settings: Settings,
        registry: Registry,
        report: Option<Arc<Report>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            report,
            heard: Heard::default(),
            fault: settings.fault,
            settings: Mutex::new(settings),
            registry: RwLock::new(registry),
            inbox: Mutex::new(Inbox::default()),
            bell: Condvar::new(),
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
        while self.inbox().lingering > 0 {
            if kernel::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
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
        if let Some(report) = &self.report {
            report.add(more);
        }
    }

    pub(super) fn report(&self) -> Option<&Arc<Report>> {
        self.report.as_ref()
    }

    /// The orders of `alcc ctl`, if there are newer ones than number `seen`.
    pub(super) fn orders(&self, seen: u64) -> Option<Arc<Orders>> {
        let report = self.report.as_ref().filter(|r| r.generation() != seen)?;
        self.heard
            .orders(report)
            .filter(|orders| orders.generation != seen)
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
        self.inbox().lingering += 1;
    }

    pub(super) fn lingered(&self) {
        self.inbox().lingering -= 1;
    }

    /// A resting stream has something to do.
    pub(super) fn adopt(&self, link: Arc<Link>) {
        self.inbox().links.push(link);
        self.bell.notify_one();
    }

    /// Makes the thread, once.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        let mut inbox = self.inbox();
        if !inbox.started {
            let runtime = Arc::clone(self);
            kernel::without_signals(|| {
                std::thread::Builder::new()
                    .name("alcc".to_owned())
                    .stack_size(256 * 1024)
                    .spawn(move || runtime.run())
            })?;
            inbox.started = true;
        }
        Ok(())
    }

    fn run(&self) {
        // SAFETY: sets this thread's timer slack to 1 ns; without it every sleep is 50 us late.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let settings = self.settings();
        let mut log = settings
            .log
            .and_then(|folder| Log::open(&folder, kernel::now()));
        let mut links: BTreeMap<u64, Arc<Link>> = BTreeMap::new();
        let mut due: BinaryHeap<Reverse<(Time, u64)>> = BinaryHeap::new();
        let mut inbox = self.inbox();
        loop {
            for link in inbox.links.drain(..) {
                // The first reading comes when there may be something to read.
                due.push(Reverse((kernel::now() + Span::from_millis(1), link.id)));
                links.insert(link.id, link);
            }
            if inbox.links.capacity() > 256 {
                inbox.links = Vec::new();
            }
            drop(inbox);
            let woke = kernel::now();
            while let Some(&Reverse((at, id))) = due.peek() {
                if at > woke {
                    break;
                }
                due.pop();
                let next = links
                    .get(&id)
                    .and_then(|link| link.visit(self, links.len(), &mut log));
                match next {
                    Some(at) => due.push(Reverse((at, id))),
                    None => drop(links.remove(&id)),
                }
            }
            let next = due
                .peek()
                .map(|Reverse((at, _))| (*at).max(woke + rest(links.len())));
            let cpu = kernel::thread_cpu().as_nanos();
            let before = self.cpu.swap(cpu, Ordering::Relaxed);
            self.tell(&Totals {
                runtime_cpu_ns: cpu.saturating_sub(before),
                ..Totals::default()
            });
            if let (None, Some(log)) = (next, &mut log) {
                log.flush();
            }
            inbox = self.inbox();
            if inbox.links.is_empty() {
                inbox = self.sleep(inbox, next);
            }
        }
    }

    fn sleep<'a>(
        &self,
        inbox: MutexGuard<'a, Inbox>,
        until: Option<Time>,
    ) -> MutexGuard<'a, Inbox> {
        let Some(until) = until else {
            return self
                .bell
                .wait(inbox)
                .unwrap_or_else(PoisonError::into_inner);
        };
        let left = until.since(kernel::now());
        if left.is_zero() {
            return inbox;
        }
        let left = Duration::from_nanos(left.as_nanos());
        self.bell
            .wait_timeout(inbox, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}
