// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One thread for all own sockets of a process, or of a core.
use super::Settings;
use super::connection::Connection;
use crate::event_loop;
use crate::kernel;
use crate::plane::ControlPlane;
use alcc_cc::Registry;
use alcc_driver::Driver;
use alcc_observe::{Segment, Totals};
use alcc_units::Span;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLockReadGuard};
use std::time::Duration;

/// The common part of own sockets: settings, and the thread that reads counters and drains queues.
/// The thread is started with the first stream and sleeps while nothing is in flight.
pub struct Runtime {
    pub(super) plane: Arc<ControlPlane>,
    settings: Mutex<Settings>,
    driver: Driver<Connection>,
    started: Mutex<bool>,
    /// Number of closed streams whose queues are still drained.
    lingering: AtomicUsize,
}

impl Runtime {
    /// A runtime without streams and without a thread.
    pub fn new(settings: Settings, registry: Registry) -> Arc<Self> {
        Self::with_segment(settings, registry, None)
    }

    /// The same as [`Runtime::new`]. If `segment` is that of this process, `alcc top` shows its
    /// streams, and they follow `alcc ctl`.
    pub fn with_segment(
        settings: Settings,
        registry: Registry,
        segment: Option<Arc<Segment>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            plane: ControlPlane::new(registry, segment, settings.log.clone(), settings.fault),
            settings: Mutex::new(settings),
            driver: Driver::new(event_loop::SLACK),
            started: Mutex::new(false),
            lingering: AtomicUsize::new(0),
        })
    }

    /// The settings of new streams.
    pub fn settings(&self) -> Settings {
        alcc_sys::lock(&self.settings).clone()
    }

    /// Changes the settings of new streams.
    pub fn set_settings(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut alcc_sys::lock(&self.settings));
    }

    /// The registry of algorithms.
    pub fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.plane.registry()
    }

    /// Sets the registry for new streams, and for those that change their algorithm.
    pub fn set_registry(&self, registry: Registry) {
        self.plane.set_registry(registry);
    }

    /// Counters of all streams so far.
    pub fn totals(&self) -> Totals {
        self.plane.totals()
    }

    /// Waits until every closed stream is drained, at most `patience`. True if they are.
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

    /// The shared segment of this process, if there is one.
    pub fn segment(&self) -> Option<&Arc<Segment>> {
        self.plane.segment()
    }

    pub(super) fn lingers(&self) {
        self.lingering.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn lingered(&self) {
        self.lingering.fetch_sub(1, Ordering::AcqRel);
    }

    /// Puts a stream into the loop again, because it has something to do.
    pub(super) fn adopt(&self, connection: Arc<Connection>) {
        self.driver.adopt(connection, event_loop::FIRST_VISIT);
    }

    /// Starts the thread, once.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        let mut started = alcc_sys::lock(&self.started);
        if !*started {
            let runtime = Arc::clone(self);
            event_loop::thread(move || runtime.run())?;
            *started = true;
        }
        Ok(())
    }

    fn run(&self) {
        self.plane.begin();
        let report = |activity| self.plane.worked(activity);
        loop {
            let next = self.driver.run_once(self, Some(&report));
            self.driver.sleep(next);
        }
    }
}
