// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who turns the loop: the threads of the application while they wait, so that what one waits for costs no second wake-up; a
//! caretaker while none does. Many flows share one loop and one socket.
use alcc_sys::now;
use alcc_units::{Span, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The caretaker looks this often whether somebody else turns the loop.
const CARE: Span = Span::from_millis(100);
/// It takes over if nobody has for so long.
const LEFT: Span = Span::from_millis(30);

thread_local! {
    /// Wake-ups of this thread by timers are as exact as the machine permits.
    static EXACT: () = {
        alcc_sys::exact_timers();
    };
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
    /// A thread turns the loop, and waits without the lock.
    driven: bool,
    /// It is the caretaker.
    cared: bool,
    /// Threads of the application inside [`Hub::wait`], and those of them that do not turn the loop.
    inside: usize,
    waiting: usize,
    turned: Time,
    /// It had something to do.
    busy: bool,
    /// The driver sleeps until then.
    until: Time,
    /// All handles are gone.
    closing: bool,
}

/// A loop.
pub(crate) struct Hub<E> {
    inner: Mutex<Inner<E>>,
    changed: Condvar,
    socket: OwnedFd,
    waker: EventFd,
}

impl<E: Engine> Hub<E> {
    /// A loop whose engine reads from `socket`.
    pub(crate) fn start(engine: E, socket: OwnedFd) -> io::Result<Arc<Self>> {
        let hub = Arc::new(Self {
            inner: Mutex::new(Inner {
                engine,
                driven: false,
                cared: false,
                inside: 0,
                waiting: 0,
                turned: now(),
                busy: false,
                until: Time::MAX,
                closing: false,
            }),
            changed: Condvar::new(),
            socket,
            waker: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
        });
        let caretaker = hub.clone();
        let builder = std::thread::Builder::new().name("alcc-udp".to_owned());
        alcc_sys::spawn(builder, move || caretaker.take_care())?;
        Ok(hub)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<E>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _ = self.waker.write(1);
    }

    /// Does something with the engine at once.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut E) -> R) -> R {
        let mut inner = self.lock();
        let result = f(&mut inner.engine);
        let sooner = inner.engine.next().is_some_and(|next| next < inner.until);
        if inner.driven && sooner {
            inner.until = Time::ZERO;
            self.wake();
        }
        result
    }

    /// Waits until `ready` says something, at most so long.
    pub(crate) fn wait<R>(
        &self,
        most: Span,
        mut ready: impl FnMut(&mut E) -> Option<R>,
    ) -> Option<R> {
        let mut inner = self.lock();
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
            if inner.driven {
                if inner.cared {
                    // The caretaker gives way.
                    self.wake();
                }
                inner.waiting += 1;
                let left = Duration::from_nanos(deadline.since(now()).as_nanos());
                let waited = self.changed.wait_timeout(inner, left);
                inner = waited.unwrap_or_else(PoisonError::into_inner).0;
                inner.waiting -= 1;
            } else {
                inner = self.drive(inner, deadline);
            }
            if let Some(result) = ready(&mut inner.engine) {
                break Some(result);
            }
        };
        inner.inside -= 1;
        if inner.waiting > 0 && !inner.driven {
            self.changed.notify_one();
        }
        result
    }

    /// Waits for what comes next, at most until `deadline`, and turns the loop.
    fn drive<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner<E>>,
        deadline: Time,
    ) -> MutexGuard<'a, Inner<E>> {
        let pause = if inner.busy {
            inner.engine.pause()
        } else {
            Span::ZERO
        };
        let earliest = inner.turned + pause;
        let next = inner.engine.next();
        let blind = now() < earliest;
        let until = match next {
            Some(next) if blind && inner.engine.is_punctual() => next.min(earliest),
            // A timer soon after the pause: one wake-up for both.
            Some(next) if blind && next <= earliest + pause / 2 => next.max(earliest),
            _ if blind => earliest,
            Some(next) => next,
            None => Time::MAX,
        };
        inner.driven = true;
        inner.until = until.min(deadline);
        let sleep = inner.until.since(now());
        drop(inner);
        let waker = PollFd::new(self.waker.as_fd(), PollFlags::POLLIN);
        let socket = PollFd::new(self.socket.as_fd(), PollFlags::POLLIN);
        let mut fds = [waker, socket];
        let watched = if blind { &mut fds[..1] } else { &mut fds[..] };
        let timeout = TimeSpec::from_duration(Duration::from_nanos(sleep.as_nanos().min(1 << 50)));
        let _ = ppoll(watched, Some(timeout), None);
        let woken = fds[0].any().unwrap_or(false);
        if woken {
            let _ = self.waker.read();
        }
        let mut inner = self.lock();
        inner.driven = false;
        let came = now();
        if came >= until || !(blind || woken) {
            if came >= until {
                inner.engine.late(came.since(until));
            }
            inner.busy = inner.engine.turn(came);
            inner.turned = now();
            if inner.waiting > 0 {
                self.changed.notify_all();
            }
        } else if woken && !blind {
            // Somebody changed a timer, or wants to turn the loop.
            inner.busy = false;
            if inner.waiting > 0 {
                self.changed.notify_one();
            }
        } else if inner.waiting > 0 {
            self.changed.notify_one();
        }
        inner
    }

    /// All handles are gone: the caretaker ends what is left, and itself.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake();
        self.changed.notify_all();
    }

    fn take_care(&self) {
        EXACT.with(|()| ());
        let mut inner = self.lock();
        loop {
            if inner.closing && inner.engine.is_idle() {
                return;
            }
            let lonely = inner.inside == 0
                && !inner.driven
                && (inner.closing || now().since(inner.turned) >= LEFT);
            if lonely {
                let soon = now() + Span::from_secs(3600);
                inner.cared = true;
                inner = self.drive(inner, soon);
                inner.cared = false;
            } else {
                drop(inner);
                std::thread::sleep(Duration::from_nanos(CARE.as_nanos()));
                inner = self.lock();
            }
        }
    }
}
