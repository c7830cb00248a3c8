// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An engine that the threads waiting for it run themselves: leader and followers.
use alcc_sys::{Waker, now, wait};
use alcc_units::{Span, Time};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What waiting threads run, on one descriptor.
pub trait Engine: Send + 'static {
    /// What to sleep for: events of the descriptor (none: only for the time), and until when.
    fn interest(&self, now: Time) -> (i16, Option<Time>);

    /// A thread begins to sleep for these events, without the lock.
    fn on_sleep(&mut self, _events: i16) {}

    /// It is awake again; it slept until `due` at most. `ready`: the descriptor is. True if what
    /// the other threads wait for may have come.
    fn on_wake(&mut self, now: Time, due: Option<Time>, ready: bool) -> bool;
}

/// The engine and its leader.
pub struct State<E> {
    inner: E,
    leader: Option<Leader>,
    /// Wakes the leader. Made when two threads first meet here: most engines have one.
    waker: Option<Arc<Waker>>,
    /// The threads that wait for the leader.
    followers: u32,
}

/// The thread that sleeps for all.
#[derive(Clone, Copy)]
struct Leader {
    /// For these events ...
    events: i16,
    /// ... and until then.
    until: Time,
    /// It sleeps on the waker, too.
    can_be_woken: bool,
}

/// A follower of a leader that cannot be woken checks again after this time.
const RECHECK_INTERVAL: Span = Span::from_millis(20);

/// An engine and the threads that wait for it.
pub struct Shared<E> {
    state: Mutex<State<E>>,
    changed: Condvar,
    fd: RawFd,
}

impl<E> Deref for State<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.inner
    }
}

impl<E> DerefMut for State<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.inner
    }
}

impl<E: Engine> State<E> {
    /// True if a thread sleeps for all that matters now, or is about to run.
    pub fn has_leader(&self, now: Time) -> bool {
        self.leader.is_some_and(|leader| {
            let (wanted, due) = self.inner.interest(now);
            wanted & !leader.events == 0 && due.is_none_or(|at| at >= leader.until)
        })
    }

    /// Wakes the leader if it does not sleep for all that matters now. False: it
    /// cannot be woken.
    pub fn wake_leader(&mut self, now: Time) -> bool {
        let has_leader = self.has_leader(now);
        let Some(leader) = &mut self.leader else {
            return true;
        };
        if has_leader {
            return true;
        }
        match &self.waker {
            Some(waker) if leader.can_be_woken => {
                waker.wake();
                // It is on its way, whatever else there will be to wait for.
                (leader.events, leader.until) = (!0, Time::ZERO);
            }
            Some(_) => {}
            // For its next sleep.
            None => self.waker = Waker::new().map(Arc::new),
        }
        leader.can_be_woken
    }
}

impl<E: Engine> Shared<E> {
    /// An engine that reads from `fd`, which it owns.
    pub fn new(inner: E, fd: RawFd) -> Self {
        let state = State {
            inner,
            leader: None,
            waker: None,
            followers: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            fd,
        }
    }

    /// The leader can be woken from its first sleep on.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn with_waker(mut self) -> io::Result<Self> {
        let waker = Waker::new().ok_or_else(io::Error::last_os_error)?;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.waker = Some(Arc::new(waker));
        Ok(self)
    }

    /// What the engine reads from.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// The engine, for as long as it is not waited for.
    pub fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until there may be something to do, at most until then: for the engine, or until the
    /// thread that does passes on what has come.
    pub fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<E>>,
        until: Option<Time>,
    ) -> MutexGuard<'a, State<E>> {
        let now = now();
        if state.leader.is_some() {
            let look = if state.wake_leader(now) {
                Time::MAX
            } else {
                now + RECHECK_INTERVAL
            };
            let left = until.unwrap_or(Time::MAX).min(look).since(now).as_nanos();
            state.followers += 1;
            let waited = self.changed.wait_timeout(state, Duration::from_nanos(left));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.followers -= 1;
            return state;
        }
        let (events, due) = state.interest(now);
        let end = due.unwrap_or(Time::MAX).min(until.unwrap_or(Time::MAX));
        let waker = state.waker.clone();
        state.leader = Some(Leader {
            events,
            until: end,
            can_be_woken: waker.is_some(),
        });
        state.on_sleep(events);
        drop(state);
        let limit = (end < Time::MAX).then_some(end);
        let ready = wait(self.fd, events, waker.as_deref(), limit);
        state = self.lock();
        state.leader = None;
        let news = state.on_wake(alcc_sys::now(), due, ready);
        if news && state.followers > 0 {
            self.changed.notify_all();
        }
        state
    }

    /// At the end of a call: another thread sleeps for the engine. `news`: what the others wait for
    /// may have come.
    pub fn hand_over(&self, state: &State<E>, news: bool) {
        if state.followers == 0 {
        } else if news {
            self.changed.notify_all();
        } else if state.leader.is_none() {
            self.changed.notify_one();
        }
    }
}
