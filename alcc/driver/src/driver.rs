// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A timer-driven event loop over many items.
use alcc_sys::{Epoll, Flag, now, thread_cpu};
use alcc_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

/// How often CPU time is accounted and the log flushed.
const ACCOUNTING_INTERVAL: Span = Span::from_millis(200);
/// A wake-up later than this after the time it was meant for is late. A reading of the counters is
/// worth less then: at 12 Mbit/s three packets have passed meanwhile.
pub const LATE: Span = Span::from_millis(3);
/// Maximum spare capacity that is kept.
const MAX_SPARE: usize = 256;

/// How far a loop coalesces timers: what is due meanwhile runs together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerSlack {
    /// Minimum time between two wake-ups with no items.
    pub min: Span,
    /// What each item adds to that time,
    pub per_item: Span,
    /// and its maximum.
    pub max: Span,
}

/// When an item wants to be visited again. With neither field: not before it is adopted again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Next {
    /// At this time.
    pub at: Option<Time>,
    /// When this descriptor is readable or at its end. Only in a loop that watches descriptors.
    pub readable: Option<RawFd>,
}

impl Next {
    /// Not before it is adopted again.
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

/// What a loop's thread did since it told last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// CPU time of the thread.
    pub cpu: Span,
    /// Wake-ups at a time that was planned.
    pub wakeups: u64,
    /// Wake-ups that came later than [`LATE`]: the thread waited for a processor.
    pub late_wakeups: u64,
}

/// What a loop visits.
pub trait Visit: Send + Sync + 'static {
    /// Whose loop it is.
    type Host: ?Sized;

    /// Unlike that of any other.
    fn id(&self) -> u64;

    /// Does what is due, as one of `active` that the loop serves.
    fn visit(&self, host: &Self::Host, active: usize) -> Next;

    /// True if nothing is left to visit.
    fn is_gone(&self) -> bool {
        false
    }
}

/// A loop without its thread.
pub struct Driver<T: Visit + ?Sized> {
    slack: TimerSlack,
    inbox: Mutex<Inbox<T>>,
    wakeup: Wakeup,
    work: Mutex<Work<T>>,
    /// When the loop has to run next, in nanoseconds; [`NOTHING`] if there is nothing to do.
    expected: AtomicU64,
}

/// No time at all.
const NOTHING: u64 = u64::MAX;

enum Wakeup {
    Flag(Flag),
    Epoll(Epoll),
}

/// What other threads have added.
struct Inbox<T: ?Sized> {
    added: Vec<(Arc<T>, Span)>,
    woken: bool,
}

struct Item<T: ?Sized> {
    what: Arc<T>,
    /// The only time of those in the heap that counts.
    due: Option<Time>,
}

/// The state of the loop.
struct Work<T: Visit + ?Sized> {
    items: BTreeMap<u64, Item<T>>,
    due: BinaryHeap<Reverse<(Time, u64)>>,
    /// More items than this, and those that are gone are looked for.
    sweep_at: usize,
    cpu: Span,
    /// When the next wake-up is to be.
    planned: Option<Time>,
    /// What has not been told; its CPU time is taken from the thread.
    untold: Activity,
    accounted: Time,
}

impl<T: Visit + ?Sized> Driver<T> {
    /// A loop of due times alone. It holds no descriptor.
    pub fn new(slack: TimerSlack) -> Self {
        Self::with(slack, Wakeup::Flag(Flag::default()))
    }

    /// A loop that watches descriptors too; `None`: there are none left for itself.
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
                untold: Activity::default(),
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

    /// Nothing to visit, now or later.
    pub fn is_idle(&self) -> bool {
        let idle = self.work.try_lock().is_ok_and(|w| w.items.is_empty());
        idle && alcc_sys::lock(&self.inbox).added.is_empty()
    }

    /// The thread ends, and another may come: the next one's CPU time begins at zero.
    pub fn leave(&self, tell: &dyn Fn(Activity)) {
        let work = &mut *alcc_sys::lock(&self.work);
        work.account(now(), Some(tell));
        work.cpu = Span::ZERO;
    }

    /// When the loop has to run next; `None` if there is nothing to do. In the past if its thread
    /// is late, or does not run at all.
    pub fn expected(&self) -> Option<Time> {
        let at = self.expected.load(Ordering::Relaxed);
        (at != NOTHING).then(|| Time::from_nanos(at))
    }

    /// Visits everything that is due; when the next is. `tell` hears from time to time what the
    /// thread did, unless the thread is not ours.
    pub fn run_once(&self, host: &T::Host, tell: Option<&dyn Fn(Activity)>) -> Option<Time> {
        self.run(&mut alcc_sys::lock(&self.work), host, tell)
    }

    /// The same in place of a thread that does not run. `None` if that thread is in the middle of
    /// it: nobody else can do its work then.
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
        tell: Option<&dyn Fn(Activity)>,
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
            work.account(now, tell);
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

    /// Until then, until somebody rings, or until a descriptor is ready.
    pub fn sleep(&self, until: Option<Time>) {
        let inbox = alcc_sys::lock(&self.inbox);
        if inbox.woken {
            return;
        }
        match &self.wakeup {
            Wakeup::Flag(flag) => {
                drop(inbox);
                let left = until.map(|at| at.since(now()));
                if left != Some(Span::ZERO) {
                    flag.wait(left);
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
            self.untold.wakeups += 1;
            self.untold.late_wakeups += u64::from(now.since(planned) > LATE);
        }
    }

    fn account(&mut self, now: Time, tell: Option<&dyn Fn(Activity)>) {
        if let Some(tell) = tell {
            let cpu = thread_cpu();
            let untold = std::mem::take(&mut self.untold);
            tell(Activity {
                cpu: cpu.saturating_sub(self.cpu),
                ..untold
            });
            self.cpu = cpu;
        }
        self.accounted = now;
    }
}
