// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An engine that the threads waiting for it run themselves: one of them sleeps for all.
use alcc_sys::{Bell, now, wait};
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
    fn sleeps(&mut self, _events: i16) {}

    /// It is awake again; it was to sleep until `due`. `ready`: the descriptor is. True if what the
    /// other threads wait for may have come.
    fn wakes(&mut self, now: Time, due: Option<Time>, ready: bool) -> bool;
}

/// The engine, and who sleeps for it.
pub struct State<E> {
    inner: E,
    sleeper: Option<Sleeper>,
    /// Wakes it. Made when two threads meet here first: most engines have one.
    bell: Option<Arc<Bell>>,
    /// The others.
    waiting: u32,
}

/// A thread that sleeps.
#[derive(Clone, Copy)]
struct Sleeper {
    /// For these events ...
    events: i16,
    /// ... and until then.
    until: Time,
    /// The bell wakes it.
    hears: bool,
}

/// Who waits while another thread sleeps that cannot be woken looks again so soon.
const LOOKS: Span = Span::from_millis(20);

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
    /// Does a thread sleep for all that is to be waited for now, or is it on its way?
    pub fn is_slept_for(&self, now: Time) -> bool {
        self.sleeper.is_some_and(|sleeper| {
            let (wanted, due) = self.inner.interest(now);
            wanted & !sleeper.events == 0 && due.is_none_or(|at| at >= sleeper.until)
        })
    }

    /// Wakes the thread that sleeps, if it sleeps for less than is to be waited for now. False: it
    /// cannot be woken.
    pub fn wake_sleeper(&mut self, now: Time) -> bool {
        let is_slept_for = self.is_slept_for(now);
        let Some(sleeper) = &mut self.sleeper else {
            return true;
        };
        if is_slept_for {
            return true;
        }
        match &self.bell {
            Some(bell) if sleeper.hears => {
                bell.ring();
                // It is on its way, whatever else there will be to wait for.
                (sleeper.events, sleeper.until) = (!0, Time::ZERO);
            }
            Some(_) => {}
            // For its next sleep.
            None => self.bell = Bell::new().map(Arc::new),
        }
        sleeper.hears
    }
}

impl<E: Engine> Shared<E> {
    /// An engine that reads from `fd`, which it owns.
    pub fn new(inner: E, fd: RawFd) -> Self {
        let state = State {
            inner,
            sleeper: None,
            bell: None,
            waiting: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            fd,
        }
    }

    /// Whoever sleeps can be woken from the first time on.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn with_bell(mut self) -> io::Result<Self> {
        let bell = Bell::new().ok_or_else(io::Error::last_os_error)?;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.bell = Some(Arc::new(bell));
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
        if state.sleeper.is_some() {
            let look = if state.wake_sleeper(now) {
                Time::MAX
            } else {
                now + LOOKS
            };
            let left = until.unwrap_or(Time::MAX).min(look).since(now).as_nanos();
            state.waiting += 1;
            let waited = self.changed.wait_timeout(state, Duration::from_nanos(left));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
            return state;
        }
        let (events, due) = state.interest(now);
        let end = due.unwrap_or(Time::MAX).min(until.unwrap_or(Time::MAX));
        let bell = state.bell.clone();
        state.sleeper = Some(Sleeper {
            events,
            until: end,
            hears: bell.is_some(),
        });
        state.sleeps(events);
        drop(state);
        let limit = (end < Time::MAX).then_some(end);
        let ready = wait(self.fd, events, bell.as_deref(), limit);
        state = self.lock();
        state.sleeper = None;
        let news = state.wakes(alcc_sys::now(), due, ready);
        if news && state.waiting > 0 {
            self.changed.notify_all();
        }
        state
    }

    /// At the end of a call: another thread sleeps for the engine. `news`: what the others wait for
    /// may have come.
    pub fn hand_over(&self, state: &State<E>, news: bool) {
        if state.waiting == 0 {
        } else if news {
            self.changed.notify_all();
        } else if state.sleeper.is_none() {
            self.changed.notify_one();
        }
    }
}
