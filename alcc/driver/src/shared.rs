// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An engine that the threads waiting for it run themselves: leader and followers.
use alcc_sys::{Changed, Waker, now, wait};
use alcc_units::{Span, Time};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What waiting threads run, on one descriptor.
pub trait Engine: Send + 'static {
    /// What a thread waits for.
    type Want: Copy + PartialEq + Send;

    /// True if what a thread waits for may have come.
    fn may_have(&self, want: Self::Want) -> bool;

    /// True if a thread that waits for this leaves the lead to threads that have something to do.
    fn is_passive(_: Self::Want) -> bool {
        false
    }

    /// What to sleep for: events of the descriptor (none: only for the time), and until when.
    fn interest(&self, now: Time) -> (i16, Option<Time>);

    /// A thread begins to sleep for these events, without the lock.
    fn on_sleep(&mut self, _events: i16) {}

    /// It is awake again; it slept until `due` at most. `ready`: the descriptor is.
    fn on_wake(&mut self, now: Time, due: Option<Time>, ready: bool);
}

/// The engine and its leader.
pub struct State<E: Engine> {
    inner: E,
    leader: Option<Leader>,
    /// Wakes the leader. Made when two threads first meet here: most engines have one.
    waker: Option<Arc<Waker>>,
    /// What the threads that do not lead wait for.
    followers: Vec<E::Want>,
    /// When a thread with something to do was last here.
    active_at: Time,
    /// Since when such threads come often, and nothing comes for passive ones.
    active_since: Time,
}

/// The thread that sleeps for all.
#[derive(Clone, Copy)]
struct Leader {
    /// The events it waits for (`poll`),
    events: i16,
    /// and how long at most.
    until: Time,
    /// It sleeps on the waker, too.
    can_be_woken: bool,
}

/// A follower of a leader that cannot be woken checks again after this time.
const RECHECK_INTERVAL: Span = Span::from_millis(20);
/// A passive thread leaves the lead to others for this part of the time that they were active. So
/// what comes for it when they stop is late by this part of what it took, at most.
const PATIENCE_SHARE: u64 = 8;
/// It leads at once if it were less than this.
const MIN_PATIENCE: Span = Span::from_millis(1);
/// It is never more than this.
const MAX_PATIENCE: Span = Span::from_millis(20);

/// An engine and the threads that wait for it.
pub struct Shared<E: Engine> {
    state: Mutex<State<E>>,
    changed: Changed,
    fd: RawFd,
}

impl<E: Engine> Deref for State<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.inner
    }
}

impl<E: Engine> DerefMut for State<E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.inner
    }
}

impl<E: Engine> State<E> {
    /// A thread with something to do is here.
    pub fn on_active(&mut self, now: Time) {
        if now > self.active_at + MAX_PATIENCE {
            self.active_since = now;
        }
        self.active_at = now;
    }

    /// A passive thread got what it waited for.
    pub fn on_passive(&mut self, now: Time) {
        self.active_since = now;
    }

    /// How long a passive thread does not lead after another was here. A wake-up between any two
    /// calls of the other would cost more than the calls.
    fn patience(&self) -> Span {
        match self.active_at.since(self.active_since) / PATIENCE_SHARE {
            short if short < MIN_PATIENCE => Span::ZERO,
            long => long.min(MAX_PATIENCE),
        }
    }

    fn may_lead(&self, want: E::Want, now: Time) -> bool {
        !E::is_passive(want) || now >= self.active_at + self.patience()
    }

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
            followers: Vec::new(),
            active_at: Time::ZERO,
            active_since: Time::ZERO,
        };
        Self {
            state: Mutex::new(state),
            changed: Changed::default(),
            fd,
        }
    }

    /// The leader can be woken from its first sleep on.
    ///
    /// # Errors
    /// If no descriptor is left.
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
        alcc_sys::lock(&self.state)
    }

    /// Sleeps until there may be something to do, at most until then. It sleeps for the engine, or
    /// until the thread that does so passes on what has come.
    pub fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<E>>,
        want: E::Want,
        until: Option<Time>,
    ) -> MutexGuard<'a, State<E>> {
        let now = now();
        if state.leader.is_some() || !state.may_lead(want, now) {
            self.pass_on(&state, now);
            let mut look = until.unwrap_or(Time::MAX);
            if !state.wake_leader(now) {
                look = look.min(now + RECHECK_INTERVAL);
            }
            if E::is_passive(want) {
                look = look.min(now + state.patience().max(MIN_PATIENCE));
            }
            state.followers.push(want);
            state = (self.changed).wait(&self.state, state, look.since(now));
            if let Some(mine) = state.followers.iter().position(|other| *other == want) {
                state.followers.swap_remove(mine);
            }
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
        self.pass_on(&state, now);
        state.on_sleep(events);
        drop(state);
        let limit = (end < Time::MAX).then_some(end);
        let ready = wait(self.fd, events, waker.as_deref(), limit);
        state = self.lock();
        state.leader = None;
        state.on_wake(alcc_sys::now(), due, ready);
        state
    }

    /// At the end of a call: the others hear what has come, or one of them sleeps for the engine.
    pub fn hand_over(&self, state: &State<E>) {
        self.pass_on(state, now());
    }

    /// Wakes those for whom something may have come, or one that leads.
    fn pass_on(&self, state: &State<E>, now: Time) {
        let followers = &state.followers;
        if followers.iter().any(|want| state.may_have(*want)) {
            return self.changed.notify_all();
        }
        let lead = |want: &&E::Want| state.leader.is_none() && state.may_lead(**want, now);
        match followers.iter().filter(lead).count() {
            0 => {}
            all if all == followers.len() => self.changed.notify_one(),
            _ => self.changed.notify_all(),
        }
    }
}
