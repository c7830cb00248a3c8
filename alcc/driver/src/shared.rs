// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An engine that is run by the threads that wait for it, by the leader/followers pattern.
use alcc_sys::{Changed, Waker, now, wait};
use alcc_units::{Span, Time};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An engine on one descriptor, run by the threads that wait for it.
pub trait Engine: Send + 'static {
    /// The event that a thread waits for.
    type Want: Copy + PartialEq + Send;

    /// True if the event that a thread waits for may have come.
    fn may_have(&self, want: Self::Want) -> bool;

    /// True if a thread that waits for this event leaves the lead to threads that have work to do.
    fn is_passive(_: Self::Want) -> bool {
        false
    }

    /// Events of the descriptor to sleep for (`poll`; none: only for the time), and the time at
    /// which to wake up.
    fn interest(&self, now: Time) -> (i16, Option<Time>);

    /// Called when a thread begins to sleep for these events, without the lock.
    fn on_sleep(&mut self, _events: i16) {}

    /// Called when the thread is awake again; it slept until `due` at most. `ready`: the descriptor
    /// is ready.
    fn on_wake(&mut self, now: Time, due: Option<Time>, ready: bool);
}

/// The engine and its leader.
pub struct State<E: Engine> {
    inner: E,
    leader: Option<Leader>,
    /// Wakes the leader. It is made when two threads first meet here, because most engines have one
    /// thread.
    waker: Option<Arc<Waker>>,
    /// The events that the followers wait for.
    followers: Vec<E::Want>,
    /// Time of the last call by a thread with work to do.
    active_at: Time,
    /// Time since which such threads call often, and nothing comes for passive ones.
    active_since: Time,
}

/// The thread that sleeps for all others.
#[derive(Clone, Copy)]
struct Leader {
    /// The events that it waits for (`poll`).
    events: i16,
    /// The time at which it wakes up.
    until: Time,
    /// True if it sleeps on the waker, too.
    can_be_woken: bool,
}

/// Interval at which a follower checks a leader that cannot be woken.
const RECHECK_INTERVAL: Span = Span::from_millis(20);
/// A passive thread leaves the lead to others for this part of the time during which they were
/// active. So an event for it that comes after they stop is late by at most this part of that time.
const PATIENCE_SHARE: u64 = 8;
/// Below this patience a passive thread leads at once.
const MIN_PATIENCE: Span = Span::from_millis(1);
/// Maximum patience of a passive thread.
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
    /// Notes a call by a thread that has work to do.
    pub fn on_active(&mut self, now: Time) {
        if now > self.active_at + MAX_PATIENCE {
            self.active_since = now;
        }
        self.active_at = now;
    }

    /// Notes that a passive thread got its event.
    pub fn on_passive(&mut self, now: Time) {
        self.active_since = now;
    }

    /// The time during which a passive thread does not lead after a call by another. A wake-up
    /// between any two calls of the other would cost more than the calls.
    fn patience(&self) -> Span {
        match self.active_at.since(self.active_since) / PATIENCE_SHARE {
            short if short < MIN_PATIENCE => Span::ZERO,
            long => long.min(MAX_PATIENCE),
        }
    }

    fn may_lead(&self, want: E::Want, now: Time) -> bool {
        !E::is_passive(want) || now >= self.active_at + self.patience()
    }

    /// True if a thread sleeps for all current events, or is about to run.
    pub fn has_leader(&self, now: Time) -> bool {
        self.leader.is_some_and(|leader| {
            let (wanted, due) = self.inner.interest(now);
            wanted & !leader.events == 0 && due.is_none_or(|at| at >= leader.until)
        })
    }

    /// Wakes the leader if it does not sleep for all current events. False if it cannot be woken.
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
                // The leader is about to run, so it need not be woken again.
                (leader.events, leader.until) = (!0, Time::ZERO);
            }
            Some(_) => {}
            // The leader can be woken from its next sleep on.
            None => self.waker = Waker::new().map(Arc::new),
        }
        leader.can_be_woken
    }
}

impl<E: Engine> Shared<E> {
    /// An engine that reads from `fd`, which the engine owns.
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

    /// Makes the waker now, so that the leader can be woken from its first sleep on.
    ///
    /// # Errors
    /// The error of the system if no descriptor is left.
    pub fn with_waker(mut self) -> io::Result<Self> {
        let waker = Waker::new().ok_or_else(io::Error::last_os_error)?;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.waker = Some(Arc::new(waker));
        Ok(self)
    }

    /// The descriptor that the engine reads from.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Locks the engine.
    pub fn lock(&self) -> MutexGuard<'_, State<E>> {
        alcc_sys::lock(&self.state)
    }

    /// Sleeps until there may be something to do, at most until `until`. The thread leads, or waits
    /// until the leader passes on an event.
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

    /// Ends a call: wakes the threads whose events may have come, or one that leads from now on.
    pub fn hand_over(&self, state: &State<E>) {
        self.pass_on(state, now());
    }

    /// Wakes the threads whose events may have come, or one that leads from now on.
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
