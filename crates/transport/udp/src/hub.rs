// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who turns the loop: the threads of the application while they wait, so that what one waits for
//! costs no second wake-up; the background while none does. Many flows share one loop and one socket.
use alcc_driver::{Background, Cared, Next, Shared};
use alcc_sys::now;
use alcc_units::{Span, Time};
use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The background looks this often whether somebody else turns the loop.
const CARE: Span = Span::from_millis(100);
/// It takes over if nobody has for so long.
const LEFT: Span = Span::from_millis(30);
/// It looks no more once threads have waited for so long without anything to do.
const QUIET: Span = Span::from_secs(1);

static BACKGROUND: Background = Background::new("alcc-udp");

thread_local! {
    /// Wake-ups of this thread by timers are as exact as the machine permits.
    static EXACT: () = alcc_sys::exact_timers();
}

/// What a loop does.
pub(crate) trait Engine: Send + 'static {
    /// Reads, runs timers, sends. False: there was nothing to do.
    fn turn(&mut self, now: Time) -> bool;
    /// When it wants to be turned even if nothing arrives.
    fn next(&self) -> Option<Time>;
    /// After a turn that had something to do it looks no more for so long.
    fn pause(&self) -> Span;
    /// Timers that cannot wait for the end of the pause.
    fn is_punctual(&self) -> bool;
    /// A turn came so late.
    fn late(&mut self, by: Span);
    /// Nothing is left to do once all handles are gone.
    fn is_idle(&self) -> bool;
}

struct Inner<E> {
    engine: E,
    /// Threads of the application inside [`Hub::wait`].
    inside: usize,
    turned: Time,
    /// It had something to do.
    busy: bool,
    /// All handles are gone.
    closing: bool,
}

/// A loop.
pub(crate) struct Hub<E> {
    shared: Shared<Inner<E>>,
    /// What the engine reads from.
    _socket: OwnedFd,
    number: u64,
    /// The background has it on its list.
    listed: AtomicBool,
}

impl<E: Engine> Inner<E> {
    /// Does not look at the socket; when the loop is to be turned, whatever arrives.
    fn next(&self, now: Time) -> (bool, Time) {
        let pause = if self.busy {
            self.engine.pause()
        } else {
            Span::ZERO
        };
        let earliest = self.turned + pause;
        let blind = now < earliest;
        let until = match self.engine.next() {
            Some(next) if blind && self.engine.is_punctual() => next.min(earliest),
            // A timer soon after the pause: one wake-up for both.
            Some(next) if blind && next <= earliest + pause / 2 => next.max(earliest),
            _ if blind => earliest,
            Some(next) => next,
            None => Time::MAX,
        };
        (blind, until)
    }

    fn turn(&mut self, now: Time, due: Option<Time>) {
        if let Some(due) = due.filter(|due| *due <= now) {
            self.engine.late(now.since(due));
        }
        self.busy = self.engine.turn(now);
        self.turned = alcc_sys::now();
    }
}

impl<E: Engine> alcc_driver::Engine for Inner<E> {
    fn interest(&self, now: Time) -> (i16, Option<Time>) {
        let (blind, until) = self.next(now);
        let events = if blind { 0 } else { libc::POLLIN };
        (events, (until < Time::MAX).then_some(until))
    }

    fn wakes(&mut self, now: Time, due: Option<Time>, ready: bool) -> bool {
        let turns = ready || due.is_some_and(|due| due <= now);
        if turns {
            self.turn(now, due);
        }
        turns
    }
}

impl<E: Engine> Hub<E> {
    /// A loop whose engine reads from `socket`.
    pub(crate) fn start(engine: E, socket: OwnedFd) -> io::Result<Arc<Self>> {
        let inner = Inner {
            engine,
            inside: 0,
            turned: now(),
            busy: false,
            closing: false,
        };
        let hub = Arc::new(Self {
            shared: Shared::new(inner, socket.as_raw_fd()).with_bell()?,
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
        BACKGROUND.care(Arc::<Self>::clone(self), first)
    }

    /// Does something with the engine at once.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut E) -> R) -> R {
        let mut inner = self.shared.lock();
        let result = f(&mut inner.engine);
        inner.wake_sleeper(now());
        result
    }

    /// Waits until `ready` says something, at most so long.
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
            inner = self.shared.sleep(inner, Some(deadline));
            if let Some(result) = ready(&mut inner.engine) {
                break Some(result);
            }
        };
        inner.inside -= 1;
        self.shared.hand_over(&inner, false);
        if inner.inside == 0 && !self.listed.swap(true, Ordering::AcqRel) {
            self.list(CARE);
        }
        result
    }

    /// All handles are gone: the background ends what is left.
    pub(crate) fn close(self: &Arc<Self>) {
        let mut inner = self.shared.lock();
        inner.closing = true;
        self.shared.hand_over(&inner, true);
        inner.wake_sleeper(now());
        drop(inner);
        self.listed.store(true, Ordering::Release);
        self.list(Span::ZERO);
    }

    /// Turns the loop if nobody else does.
    fn care(&self, now: Time) -> Next {
        let inner = &mut *self.shared.lock();
        if inner.closing && inner.engine.is_idle() {
            return Next::NEVER;
        }
        let quiet = now.since(inner.turned);
        if inner.inside > 0 {
            if quiet < QUIET || inner.closing {
                return Next::at(now + CARE);
            }
            // Whoever waits last lists it again; that is said under the lock.
            self.listed.store(false, Ordering::Release);
            return Next::NEVER;
        }
        if quiet < LEFT && !inner.closing {
            return Next::at(now + CARE);
        }
        let (blind, until) = inner.next(now);
        if blind && now < until {
            return Next::at(until);
        }
        inner.turn(now, Some(until));
        let (blind, until) = inner.next(alcc_sys::now());
        Next {
            at: (until < Time::MAX).then_some(until),
            readable: (!blind).then(|| self.shared.fd()),
        }
    }
}

impl<E: Engine> Cared for Hub<E> {
    fn id(&self) -> u64 {
        self.number
    }

    fn visit(&self, now: Time) -> Next {
        self.care(now)
    }

    fn is_gone(&self) -> bool {
        false
    }
}
