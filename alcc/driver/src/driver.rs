// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A timer-driven event loop over many items.
use alcc_sys::{Epoll, Flag, now, thread_cpu};
use alcc_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

/// Interval of accounting CPU time and of flushing the log.
const ACCOUNTING_INTERVAL: Span = Span::from_millis(200);
/// A wake-up later than this is late. The counters read then are worth less: at 12 Mbit/s three
/// packets have passed meanwhile.
pub const LATE: Span = Span::from_millis(3);
/// Maximum spare capacity that is kept, in items.
const MAX_SPARE: usize = 256;

/// Limits of timer coalescing: items due within this time run in one wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerSlack {
    /// Minimum time between two wake-ups without items.
    pub min: Span,
    /// Time added per item.
    pub per_item: Span,
    /// Maximum time between two wake-ups.
    pub max: Span,
}

/// The next visit of an item. With neither field set: none before it is added again ([`Driver::adopt`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Next {
    /// At this time.
    pub at: Option<Time>,
    /// A visit as soon as this descriptor is readable or closed by its peer. Only in a loop that watches
    /// descriptors.
    pub readable: Option<RawFd>,
}

impl Next {
    /// None before it is added again.
    pub const NEVER: Self = Self {
        at: None,
        readable: None,
    };

    /// At this time.
    pub const fn at(at: Time) -> Self {
        Self {
            at: Some(at),
            readable: None,
        }
    }
}

impl From<Option<Time>> for Next {
    fn from(at: Option<Time>) -> Self {
        Self { at, readable: None }
    }
}

/// Activity of a loop's thread since the last report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// CPU time of the thread.
    pub cpu: Span,
    /// Wake-ups at a planned time.
    pub wakeups: u64,
    /// Wake-ups later than [`LATE`], because the thread waited for a processor.
    pub late_wakeups: u64,
}

/// An item of a loop.
pub trait Visit: Send + Sync + 'static {
    /// The owner of the loop, passed to each visit.
    type Host: ?Sized;

    /// The item's number, unique in its loop.
    fn id(&self) -> u64;

    /// Does what is due. `active` is the number of items in the loop. Returns when to visit the
    /// item again.
    fn visit(&self, host: &Self::Host, active: usize) -> Next;

    /// True if the item needs no more visits.
    fn is_gone(&self) -> bool {
        false
    }
}

/// A loop over many items. Its thread is the caller's.
pub struct Driver<T: Visit + ?Sized> {
    slack: TimerSlack,
    inbox: Mutex<Inbox<T>>,
    wakeup: Wakeup,
    work: Mutex<Work<T>>,
    /// Time of the next run, in nanoseconds; [`NOTHING`] if nothing is due.
    expected: AtomicU64,
}

/// The value of `expected` if nothing is due.
const NOTHING: u64 = u64::MAX;

enum Wakeup {
    Flag(Flag),
    Epoll(Epoll),
}

/// Items that other threads have added, not yet taken into the loop.
struct Inbox<T: ?Sized> {
    added: Vec<(Arc<T>, Span)>,
    woken: bool,
}

struct Item<T: ?Sized> {
    what: Arc<T>,
    /// The valid entry of this item in the heap; others are stale.
    due: Option<Time>,
}

/// The state of the loop.
struct Work<T: Visit + ?Sized> {
    items: BTreeMap<u64, Item<T>>,
    due: BinaryHeap<Reverse<(Time, u64)>>,
    /// Above this number of items, those that are gone are removed.
    sweep_at: usize,
    cpu: Span,
    /// Planned time of the next wake-up.
    planned: Option<Time>,
    /// Activity not yet reported; its CPU time is read from the thread at each report.
    unreported: Activity,
    accounted: Time,
}

impl<T: Visit + ?Sized> Driver<T> {
    /// A loop with timers only. It uses no descriptor.
    pub fn new(slack: TimerSlack) -> Self {
        Self::with(slack, Wakeup::Flag(Flag::default()))
    }

    /// A loop that watches descriptors, too; `None` if it cannot get a descriptor for itself.
    pub fn with_descriptors(slack: TimerSlack) -> Option<Self> {
        Some(Self::with(slack, Wakeup::Epoll(Epoll::new()?)))
    }

    fn with(slack: TimerSlack, wakeup: Wakeup) -> Self {
        Self {
            slack,
            inbox: Mutex::new(Inbox {
                added: Vec::new(),
                woken: false,
            }),
            wakeup,
            work: Mutex::new(Work {
                items: BTreeMap::new(),
                due: BinaryHeap::new(),
                sweep_at: MAX_SPARE,
                cpu: Span::ZERO,
                planned: None,
                unreported: Activity::default(),
                accounted: Time::ZERO,
            }),
            expected: AtomicU64::new(NOTHING),
        }
    }

    /// Adds an item, first visited after `first`.
    pub fn adopt(&self, item: Arc<T>, first: Span) {
        alcc_sys::lock(&self.inbox).added.push((item, first));
        let at = now() + first;
        self.expected.fetch_min(at.as_nanos(), Ordering::Relaxed);
        self.wake();
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        let before = std::mem::replace(&mut alcc_sys::lock(&self.inbox).woken, true);
        match &self.wakeup {
            Wakeup::Flag(flag) => flag.raise(),
            Wakeup::Epoll(epoll) if !before => epoll.wake(),
            Wakeup::Epoll(_) => {}
        }
    }

    /// True if the loop has no items.
    pub fn is_idle(&self) -> bool {
        let idle = self.work.try_lock().is_ok_and(|w| w.items.is_empty());
        idle && alcc_sys::lock(&self.inbox).added.is_empty()
    }

    /// Ends this thread's turn, so that another may take over. Reports its activity since the last
    /// report, and counts the next thread's CPU time from zero.
    pub fn leave(&self, report: &dyn Fn(Activity)) {
        let work = &mut *alcc_sys::lock(&self.work);
        work.account(now(), Some(report));
        work.cpu = Span::ZERO;
    }

    /// Time of the next run; `None` if nothing is due. It is in the past if the thread is late or
    /// does not run at all.
    pub fn expected(&self) -> Option<Time> {
        let at = self.expected.load(Ordering::Relaxed);
        (at != NOTHING).then(|| Time::from_nanos(at))
    }

    /// Visits everything that is due. Returns the time of the next run. `report` receives the
    /// activity of the thread from time to time; `None` on a thread that is not ours.
    pub fn run_once(&self, host: &T::Host, report: Option<&dyn Fn(Activity)>) -> Option<Time> {
        self.run(&mut alcc_sys::lock(&self.work), host, report)
    }

    /// The same, called in place of a thread that does not run. `None` if that thread is in the
    /// middle of a run: no other thread can do its work then.
    pub fn try_run_once(&self, host: &T::Host) -> Option<Option<Time>> {
        let mut work = match self.work.try_lock() {
            Ok(work) => work,
            Err(TryLockError::Poisoned(work)) => work.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.run(&mut work, host, None))
    }

    fn run(
        &self,
        work: &mut Work<T>,
        host: &T::Host,
        report: Option<&dyn Fn(Activity)>,
    ) -> Option<Time> {
        let now = now();
        self.expected.store(now.as_nanos(), Ordering::Relaxed);
        work.woke(now);
        self.take_added(work, now);
        while let Some(&Reverse((at, id))) = work.due.peek()
            && at <= now
        {
            work.due.pop();
            let active = work.items.len();
            let Some(item) = work.items.get_mut(&id).filter(|i| i.due == Some(at)) else {
                continue;
            };
            item.due = None;
            let next = item.what.visit(host, active);
            if let (Some(fd), Wakeup::Epoll(epoll)) = (next.readable, &self.wakeup) {
                epoll.watch_once(fd, id);
            }
            match next {
                Next::NEVER => drop(work.items.remove(&id)),
                Next { at: Some(at), .. } => {
                    item.due = Some(at);
                    work.due.push(Reverse((at, id)));
                }
                Next { at: None, .. } => {}
            }
        }
        if work.items.len() > work.sweep_at {
            work.items.retain(|_, item| !item.what.is_gone());
            work.sweep_at = MAX_SPARE.max(work.items.len() * 2);
        }
        let rest = self.slack.per_item * work.items.len() as u64;
        let soonest = now + rest.clamp(self.slack.min, self.slack.max);
        let next = work.due.peek().map(|Reverse((at, _))| soonest.max(*at));
        if next.is_none() || now.since(work.accounted) > ACCOUNTING_INTERVAL {
            work.account(now, report);
        }
        work.planned = next;
        let expected = next.map_or(NOTHING, Time::as_nanos);
        self.expected.store(expected, Ordering::Relaxed);
        next
    }

    fn take_added(&self, work: &mut Work<T>, now: Time) {
        let mut inbox = alcc_sys::lock(&self.inbox);
        inbox.woken = false;
        if let Wakeup::Flag(flag) = &self.wakeup {
            flag.lower();
        }
        for (what, first) in inbox.added.drain(..) {
            let (id, at) = (what.id(), now + first);
            work.due.push(Reverse((at, id)));
            let due = Some(at);
            work.items.insert(id, Item { what, due });
        }
        if inbox.added.capacity() > MAX_SPARE {
            inbox.added = Vec::new();
        }
    }

    /// Sleeps until `until`, until the loop is woken, or until a descriptor is ready.
    pub fn sleep(&self, until: Option<Time>) {
        let inbox = alcc_sys::lock(&self.inbox);
        if inbox.woken {
            return;
        }
        match &self.wakeup {
            Wakeup::Flag(flag) => {
                drop(inbox);
                let remaining = until.map(|at| at.since(now()));
                if remaining != Some(Span::ZERO) {
                    flag.wait(remaining);
                }
            }
            Wakeup::Epoll(epoll) => {
                drop(inbox);
                epoll.wait(until, |id| {
                    let (work, now) = (&mut *alcc_sys::lock(&self.work), now());
                    if let Some(item) = work.items.get_mut(&id) {
                        item.due = Some(now);
                        work.due.push(Reverse((now, id)));
                    }
                });
            }
        }
    }
}

impl<T: Visit + ?Sized> Work<T> {
    fn woke(&mut self, now: Time) {
        if let Some(planned) = self.planned.take_if(|at| *at <= now) {
            self.unreported.wakeups += 1;
            self.unreported.late_wakeups += u64::from(now.since(planned) > LATE);
        }
    }

    fn account(&mut self, now: Time, report: Option<&dyn Fn(Activity)>) {
        if let Some(report) = report {
            let cpu = thread_cpu();
            let unreported = std::mem::take(&mut self.unreported);
            report(Activity {
                cpu: cpu.saturating_sub(self.cpu),
                ..unreported
            });
            self.cpu = cpu;
        }
        self.accounted = now;
    }
}
