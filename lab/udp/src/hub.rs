// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Event loop. Application threads run it while they wait, so that a wait costs no second wake-up.
//! Otherwise the background thread runs it. Many flows share one loop and one socket.
use alcc_driver::{Background, BackgroundTask, Next, Shared};
use alcc_sys::now;
use alcc_units::{Span, Time};
use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Interval at which the background thread checks whether another thread runs the loop.
const CARE: Span = Span::from_millis(100);
/// Time after which the background thread takes over.
const LEFT: Span = Span::from_millis(30);
/// Time for which threads have waited without work before it stops checking.
const QUIET: Span = Span::from_secs(1);

static BACKGROUND: Background = Background::new("alcc-udp");

thread_local! {
    /// Makes the timers of this thread as exact as the machine permits.
    static EXACT: () = alcc_sys::exact_timers();
}

/// The work of an event loop.
pub(crate) trait Engine: Send + 'static {
    /// Reads, runs timers, sends. False if there was nothing to do.
    fn run(&mut self, now: Time) -> bool;
    /// Time of the next run without arrivals.
    fn next(&self) -> Option<Time>;
    /// Time for which the loop sleeps after an iteration with work.
    fn pause(&self) -> Span;
    /// True if timers cannot wait for the end of the pause.
    fn is_punctual(&self) -> bool;
    /// An iteration was late by this much.
    fn late(&mut self, by: Span);
    /// True if nothing remains to be done once all handles are dropped.
    fn is_idle(&self) -> bool;
}

struct Inner<E: Engine> {
    engine: E,
    /// Number of application threads inside [`Hub::wait`].
    inside: usize,
    last_run: Time,
    /// Number of runs.
    runs: u64,
    /// True if the last iteration had work.
    busy: bool,
    /// True if all handles were dropped.
    closing: bool,
}

/// An event loop.
pub(crate) struct Hub<E: Engine> {
    shared: Shared<Inner<E>>,
    /// The socket from which the engine reads.
    _socket: OwnedFd,
    number: u64,
    /// True if it is on the list of the background thread.
    listed: AtomicBool,
}

impl<E: Engine> Inner<E> {
    /// True if the loop pauses (ignores the socket), and the time of its next run without arrivals.
    fn next(&self, now: Time) -> (bool, Time) {
        let pause = if self.busy {
            self.engine.pause()
        } else {
            Span::ZERO
        };
        let earliest = self.last_run + pause;
        let paused = now < earliest;
        let until = match self.engine.next() {
            Some(next) if paused && self.engine.is_punctual() => next.min(earliest),
            // If a timer is due soon after the pause, one wake-up serves both.
            Some(next) if paused && next <= earliest + pause / 2 => next.max(earliest),
            _ if paused => earliest,
            Some(next) => next,
            None => Time::MAX,
        };
        (paused, until)
    }

    fn run(&mut self, now: Time, due: Option<Time>) {
        if let Some(due) = due.filter(|due| *due <= now) {
            self.engine.late(now.since(due));
        }
        self.runs += 1;
        self.busy = self.engine.run(now);
        self.last_run = alcc_sys::now();
    }
}

impl<E: Engine> alcc_driver::Engine for Inner<E> {
    /// The loop runs more often than this number.
    type Want = u64;

    fn may_have(&self, before: u64) -> bool {
        self.runs != before
    }

    fn interest(&self, now: Time) -> (i16, Option<Time>) {
        let (paused, until) = self.next(now);
        let events = if paused { 0 } else { libc::POLLIN };
        (events, (until < Time::MAX).then_some(until))
    }

    fn on_wake(&mut self, now: Time, due: Option<Time>, ready: bool) {
        let turns = ready || due.is_some_and(|due| due <= now);
        if turns {
            self.run(now, due);
        }
    }
}

impl<E: Engine> Hub<E> {
    /// A loop whose engine reads from `socket`.
    pub(crate) fn start(engine: E, socket: OwnedFd) -> io::Result<Arc<Self>> {
        let inner = Inner {
            engine,
            inside: 0,
            last_run: now(),
            runs: 0,
            busy: false,
            closing: false,
        };
        let hub = Arc::new(Self {
            shared: Shared::new(inner, socket.as_raw_fd()).with_waker()?,
            _socket: socket,
            number: alcc_driver::next_id(),
            listed: AtomicBool::new(true),
        });
        if hub.list(CARE) {
            Ok(hub)
        } else {
            Err(io::Error::other("no memory or descriptors for a thread"))
        }
    }

    fn list(self: &Arc<Self>, first: Span) -> bool {
        BACKGROUND.add(Arc::<Self>::clone(self), first)
    }

    /// Runs `f` on the engine at once.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut E) -> R) -> R {
        let mut inner = self.shared.lock();
        let result = f(&mut inner.engine);
        inner.wake_leader(now());
        result
    }

    /// Waits until `ready` returns a value, at most `most`.
    pub(crate) fn wait<R>(
        self: &Arc<Self>,
        most: Span,
        mut ready: impl FnMut(&mut E) -> Option<R>,
    ) -> Option<R> {
        let mut inner = self.shared.lock();
        if let Some(result) = ready(&mut inner.engine) {
            return Some(result);
        }
        EXACT.with(|()| ());
        let deadline = now() + most;
        inner.inside += 1;
        let result = loop {
            if now() >= deadline {
                break None;
            }
            let runs = inner.runs;
            inner = self.shared.sleep(inner, runs, Some(deadline));
            if let Some(result) = ready(&mut inner.engine) {
                break Some(result);
            }
        };
        inner.inside -= 1;
        self.shared.hand_over(&inner);
        if inner.inside == 0 && !self.listed.swap(true, Ordering::AcqRel) {
            self.list(CARE);
        }
        result
    }

    /// Called when all handles were dropped: the background thread finishes the work.
    pub(crate) fn close(self: &Arc<Self>) {
        let mut inner = self.shared.lock();
        inner.closing = true;
        self.shared.hand_over(&inner);
        inner.wake_leader(now());
        drop(inner);
        self.listed.store(true, Ordering::Release);
        self.list(Span::ZERO);
    }

    /// Runs the loop if no other thread does.
    fn visit_in_background(&self, now: Time) -> Next {
        let inner = &mut *self.shared.lock();
        if inner.closing && inner.engine.is_idle() {
            return Next::NEVER;
        }
        let quiet = now.since(inner.last_run);
        if inner.inside > 0 {
            if quiet < QUIET || inner.closing {
                return Next::at(now + CARE);
            }
            // The last thread that stops waiting puts it on the list again; the flag changes under
            // the lock.
            self.listed.store(false, Ordering::Release);
            return Next::NEVER;
        }
        if quiet < LEFT && !inner.closing {
            return Next::at(now + CARE);
        }
        let (paused, until) = inner.next(now);
        if paused && now < until {
            return Next::at(until);
        }
        inner.run(now, Some(until));
        let (paused, until) = inner.next(alcc_sys::now());
        Next {
            at: (until < Time::MAX).then_some(until),
            readable: (!paused).then(|| self.shared.fd()),
        }
    }
}

impl<E: Engine> BackgroundTask for Hub<E> {
    fn id(&self) -> u64 {
        self.number
    }

    fn visit(&self, now: Time) -> Next {
        self.visit_in_background(now)
    }

    fn is_gone(&self) -> bool {
        false
    }
}
