// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that all controlled connections of a runtime share.
use crate::kernel;
use crate::steering::Maps;
use alcc_cc::{Built, Instance, Registry, Spec};
use alcc_driver::Activity;
use alcc_flow::{Elsewhere, Share, Shares};
use alcc_observe::{
    AtomicTotals, CommandCache, Commands, Event, Log, Segment, Sharing, Subscriber, Totals,
};
use alcc_sys::Before;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

/// True if connections under this algorithm can share one allowance.
pub fn can_share(cc: &Instance) -> bool {
    Share::suits(cc)
}

/// The registry of algorithms, the commands of `alcc ctl`, and the destinations of status, totals and log.
pub(crate) struct ControlPlane {
    registry: RwLock<Registry>,
    segment: Option<Arc<Segment>>,
    commands: CommandCache,
    /// Shares of connections to the same address under the same algorithm.
    shares: Mutex<Shares<(IpAddr, String)>>,
    /// The counters of this runtime, separate from others in the segment.
    counters: AtomicTotals,
    log_folder: Option<PathBuf>,
    /// Threads of the program that wait for room write to it, too.
    log: Mutex<Option<Log>>,
    /// For tests: number of the visit that panics.
    fault: Option<u64>,
    visits: AtomicU64,
    /// The kernel's maps, if it enforces windows for us.
    pub(crate) maps: Maps,
}

impl ControlPlane {
    pub(crate) fn new(
        registry: Registry,
        segment: Option<Arc<Segment>>,
        log: Option<PathBuf>,
        fault: Option<u64>,
    ) -> Arc<Self> {
        Arc::new(Self::with_maps(
            registry,
            segment,
            log,
            fault,
            Maps::default(),
        ))
    }

    /// For sockets of other programs: their earlier state is recorded for the kernel.
    pub(crate) fn of_others(
        registry: Registry,
        segment: Option<Arc<Segment>>,
        before: Before,
    ) -> Arc<Self> {
        let maps = Maps::of_others(before);
        Arc::new(Self::with_maps(registry, segment, None, None, maps))
    }

    fn with_maps(
        registry: Registry,
        segment: Option<Arc<Segment>>,
        log: Option<PathBuf>,
        fault: Option<u64>,
        maps: Maps,
    ) -> Self {
        Self {
            registry: RwLock::new(registry),
            segment,
            commands: CommandCache::default(),
            shares: Mutex::new(Shares::new()),
            counters: AtomicTotals::default(),
            log_folder: log,
            log: Mutex::default(),
            fault,
            visits: AtomicU64::new(0),
            maps,
        }
    }

    pub(crate) fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_registry(&self, registry: Registry) {
        let kept = self.registry.write();
        *kept.unwrap_or_else(PoisonError::into_inner) = registry;
    }

    /// # Errors
    /// The algorithm does not exist in this process, or refuses these options.
    pub(crate) fn build(&self, cc: &Spec) -> Built {
        self.registry().build(cc)
    }

    /// The same as [`ControlPlane::build`], for a connection to this address. With `share` it shares one allowance with
    /// the others there, in this process and in others of the run, if the algorithm can be shared.
    pub(crate) fn build_for(&self, cc: &Spec, to: IpAddr, share: bool) -> Built {
        let controller = self.build(cc)?;
        if !share || !can_share(&controller) {
            return Ok(controller);
        }
        let mut shares = alcc_sys::lock(&self.shares);
        let (to, name) = (to.to_canonical(), cc.to_string());
        let elsewhere = || {
            let segment = self.segment.as_ref()?;
            let place = Sharing::take(segment, to, &name, kernel::now())?;
            Some(Box::new(place) as Box<dyn Elsewhere>)
        };
        Ok(shares.join((to, name.clone()), controller, elsewhere))
    }

    pub(crate) fn segment(&self) -> Option<&Arc<Segment>> {
        self.segment.as_ref()
    }

    /// Number of the last command of `alcc ctl`.
    pub(crate) fn generation(&self) -> u64 {
        (self.segment.as_deref()).map_or(0, Segment::generation)
    }

    /// The commands of `alcc ctl`, if they are newer than number `seen`.
    pub(crate) fn commands(&self, seen: u64) -> Option<Arc<Commands>> {
        self.commands.newer(self.segment.as_deref()?, seen)
    }

    /// Handles an event of this runtime or of one of its connections: updates the counters of the run and of this
    /// runtime, and the log.
    pub(crate) fn on(&self, event: &Event<'_>) {
        if let Some(segment) = &self.segment {
            segment.count(event);
        }
        self.counters.count(event);
        if self.log_folder.is_some() && matches!(event, Event::Reading(_) | Event::Worked { .. }) {
            (alcc_sys::lock(&self.log).iter_mut()).for_each(|log| log.on(event));
        }
    }

    /// Reports the activity of the loop's thread.
    pub(crate) fn worked(&self, activity: Activity) {
        self.on(&Event::Worked {
            cpu: activity.cpu,
            wakeups: activity.wakeups,
            late_wakeups: activity.late_wakeups,
        });
    }

    pub(crate) fn totals(&self) -> Totals {
        self.counters.totals()
    }

    /// Called when the loop's thread begins. A process without one has none that writes a log.
    pub(crate) fn begin(&self) {
        if let Some(folder) = &self.log_folder {
            alcc_sys::lock(&self.log).get_or_insert_with(|| Log::new(folder, kernel::now()));
        }
    }

    /// Called when the loop visits a connection.
    ///
    /// # Panics
    /// In tests of failures.
    pub(crate) fn visit(&self) {
        let visits = self.visits.fetch_add(1, Ordering::Relaxed);
        assert!(self.fault.is_none_or(|n| visits < n), "fault asked for");
    }
}
