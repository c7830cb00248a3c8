// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop: connections that want to be visited, each at times of its own, and the thread that does it.
use crate::kernel;
use alcc_observe::Log;
use alcc_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The loop wakes at most once in this time.
const SHORTEST_SLEEP: Span = Span::from_micros(250);
/// And at most once in this time for each connection that it serves, up to a limit: what is due meanwhile is served together.
const SLEEP_EACH: Span = Span::from_micros(60);
const LONGEST_REST: Span = Span::from_millis(3);
/// A connection that has just become active is first visited when there may be something to read.
const FIRST_VISIT: Span = Span::from_millis(1);
/// CPU time and the log are looked after this often.
const ACCOUNTS: Span = Span::from_millis(200);
/// More empty places than this are given back.
const SPARE: usize = 256;

/// What the loop visits.
pub(crate) trait Visited: Send + Sync + 'static {
    /// Whose loop it is.
    type Host;

    /// Unlike that of any other.
    fn id(&self) -> u64;

    /// Does what is due, as one of `company` that the loop serves. When to come back; `None`: not before it is adopted again.
    fn visit(&self, host: &Self::Host, company: usize, log: &mut Option<Log>) -> Option<Time>;
}

/// A loop without its thread.
pub(crate) struct Turns<T> {
    inbox: Mutex<Inbox<T>>,
    bell: Condvar,
    work: Mutex<Work<T>>,
}

/// What the loop has not seen yet.
struct Inbox<T> {
    fresh: Vec<Arc<T>>,
    rung: bool,
}

/// What a turn of the loop works on.
struct Work<T> {
    items: BTreeMap<u64, Arc<T>>,
    due: BinaryHeap<Reverse<(Time, u64)>>,
    log: Option<Log>,
    started: bool,
    cpu: Span,
    accounted: Time,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread for a loop. Signals belong to the program: it takes none.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn thread(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name("alcc".to_owned());
    kernel::spawn(builder.stack_size(256 * 1024), || {
        kernel::exact_timers();
        run();
    })
    .map(drop)
}

impl<T: Visited> Turns<T> {
    pub(crate) fn new() -> Self {
        Self {
            inbox: Mutex::new(Inbox {
                fresh: Vec::new(),
                rung: false,
            }),
            bell: Condvar::new(),
            work: Mutex::new(Work {
                items: BTreeMap::new(),
                due: BinaryHeap::new(),
                log: None,
                started: false,
                cpu: Span::ZERO,
                accounted: Time::ZERO,
            }),
        }
    }

    /// It has something to do from now on.
    pub(crate) fn adopt(&self, item: Arc<T>) {
        locked(&self.inbox).fresh.push(item);
        self.ring();
    }

    /// Ends the sleep of the loop.
    pub(crate) fn ring(&self) {
        locked(&self.inbox).rung = true;
        self.bell.notify_one();
    }

    /// Nothing to visit, now or later.
    pub(crate) fn is_idle(&self) -> bool {
        let idle = self.work.try_lock().is_ok_and(|w| w.items.is_empty());
        idle && locked(&self.inbox).fresh.is_empty()
    }

    /// The thread ends, and another may come: the next one's CPU time begins at zero.
    pub(crate) fn leave(&self, spent: &dyn Fn(Span)) {
        let work = &mut *locked(&self.work);
        work.account(kernel::now(), Some(spent));
        work.cpu = Span::ZERO;
    }

    /// Everything that is due; when the next is. `log`: a folder for one; `spent` is told the thread's CPU time from time to time, unless the
    /// thread is not ours.
    pub(crate) fn turn(
        &self,
        host: &T::Host,
        log: Option<&Path>,
        spent: Option<&dyn Fn(Span)>,
    ) -> Option<Time> {
        let work = &mut *locked(&self.work);
        let now = kernel::now();
        if !work.started {
            work.started = true;
            work.log = log.and_then(|folder| Log::open(folder, now));
        }
        self.take_fresh(work, now);
        while let Some(&Reverse((at, id))) = work.due.peek() {
            if at > now {
                break;
            }
            work.due.pop();
            let Some(item) = work.items.get(&id) else {
                continue;
            };
            let item = Arc::clone(item);
            match item.visit(host, work.items.len(), &mut work.log) {
                Some(at) => work.due.push(Reverse((at, id))),
                None => drop(work.items.remove(&id)),
            }
        }
        let rest = SLEEP_EACH * work.items.len() as u64;
        let soonest = now + rest.clamp(SHORTEST_SLEEP, LONGEST_REST);
        let next = work.due.peek().map(|Reverse((at, _))| soonest.max(*at));
        if next.is_none() || now.since(work.accounted) > ACCOUNTS {
            work.account(now, spent);
        }
        next
    }

    fn take_fresh(&self, work: &mut Work<T>, now: Time) {
        let mut inbox = locked(&self.inbox);
        inbox.rung = false;
        for item in inbox.fresh.drain(..) {
            work.due.push(Reverse((now + FIRST_VISIT, item.id())));
            work.items.insert(item.id(), item);
        }
        if inbox.fresh.capacity() > SPARE {
            inbox.fresh = Vec::new();
        }
    }

    /// Until then, or until somebody rings.
    pub(crate) fn sleep(&self, until: Option<Time>) {
        let inbox = locked(&self.inbox);
        if inbox.rung {
            return;
        }
        match until.map(|at| Duration::from_nanos(at.since(kernel::now()).as_nanos())) {
            Some(Duration::ZERO) => {}
            Some(left) => drop(self.bell.wait_timeout(inbox, left)),
            None => drop(self.bell.wait(inbox)),
        }
    }
}

impl<T> Work<T> {
    fn account(&mut self, now: Time, spent: Option<&dyn Fn(Span)>) {
        if let Some(spent) = spent {
            let cpu = kernel::thread_cpu();
            spent(cpu.saturating_sub(self.cpu));
            self.cpu = cpu;
        }
        self.accounted = now;
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }
}
