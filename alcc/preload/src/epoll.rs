// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The waits of a program for room on a connection, and the notifications that it may write again.
//!
//! The socket itself is nearly always writable: the kernel's buffer is far from full. So while the gate is closed, the
//! kernel's registration lacks EPOLLOUT. When it opens, the program's own registration is restored, which reports the
//! event again, edge-triggered or not.
use crate::process::{self, Process};
use crate::real::real;
use alcc_socket::{ReentrancyGuard, Waker};
use libc::{c_int, epoll_event};
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// The state of a program's waits for one connection, with its epoll registrations.
#[derive(Default)]
pub(crate) struct Epoll {
    registrations: Vec<Registration>,
    /// True if the program has waited for room on this connection. It will do so again: asyncio removes its
    /// registration before it sends a file, and makes another after EAGAIN.
    asked: bool,
    /// True if registered edge-triggered and for the peer's end, as nginx and Netty do for reading: they add EPOLLOUT
    /// after a short write. EPOLLET alone is no evidence, because a server that cannot wait may set it, too.
    adds_out: bool,
    /// True if a write found less room than it needed.
    short: bool,
    /// True after a read returned EAGAIN.
    dry: bool,
    /// True if the connection was registered after that, and no longer is.
    paused: bool,
    /// True if a write was refused, and no wait for room has been seen since.
    on_trust: bool,
    /// True if the gate opened without a known waiter: the program waits in a way that the library does not see.
    unseen: bool,
}

struct Registration {
    epoll: Arc<EpollFile>,
    fd: RawFd,
    events: u32,
    data: u64,
    /// True if the kernel's registration lacks EPOLLOUT.
    masked_out: bool,
    /// True if it was made when there was nothing to read.
    while_dry: bool,
    /// Set for a one-shot registration that was armed while the gate was closed.
    once: Option<Watched>,
}

/// A one-shot registration whose events its epoll instance checks while this exists.
struct Watched {
    epoll: Arc<EpollFile>,
    once: Arc<Once>,
}

/// An epoll instance. Some of its descriptors may be closed while others stay.
pub(crate) struct EpollFile {
    fds: Mutex<Vec<RawFd>>,
    /// One-shot registrations that the library may have to arm, by the program's data.
    once: Mutex<BTreeMap<u64, Vec<Arc<Once>>>>,
}

/// A one-shot registration. The library arms it for EPOLLOUT when the gate opens. If an event that the program has not
/// received yet had disarmed it before, two threads would get an event of one connection.
struct Once {
    data: u64,
    /// True if the program has armed it and got no event since.
    armed: AtomicBool,
    /// True if the library has armed it since, so that one event more may come than the program expects.
    rearmed: AtomicBool,
}

impl EpollFile {
    pub(crate) fn new(fd: RawFd) -> Arc<Self> {
        Arc::new(Self {
            fds: Mutex::new(vec![fd]),
            once: Mutex::default(),
        })
    }

    /// Adds another descriptor of the instance.
    pub(crate) fn add(&self, fd: RawFd) {
        if let Some(_inside) = ReentrancyGuard::enter() {
            alcc_socket::lock(&self.fds).push(fd);
        }
    }

    /// Removes a descriptor of the instance, which is about to be closed.
    pub(crate) fn remove(&self, fd: RawFd) {
        if let Some(_inside) = ReentrancyGuard::enter() {
            alcc_socket::lock(&self.fds).retain(|known| *known != fd);
        }
    }

    fn fd(&self) -> Option<RawFd> {
        alcc_socket::lock(&self.fds).first().copied()
    }

    /// The descriptors, for a child, which has a copy of this memory.
    fn fds_in_child(&self) -> Vec<RawFd> {
        match self.fds.try_lock() {
            Ok(fds) => fds.clone(),
            Err(TryLockError::Poisoned(fds)) => fds.into_inner().clone(),
            Err(TryLockError::WouldBlock) => Vec::new(),
        }
    }

    /// Removes from the kernel's events those of one-shot registrations that the program has already received. Returns
    /// the number of remaining events, which are in front.
    pub(crate) fn deliver(&self, events: &mut [epoll_event]) -> usize {
        let Some(_inside) = ReentrancyGuard::enter() else {
            return events.len();
        };
        let all = alcc_socket::lock(&self.once);
        let mut kept = 0;
        for i in 0..events.len() {
            let event = events[i];
            let goes = match all.get(&{ event.u64 }).map(Vec::as_slice) {
                Some([once]) => {
                    once.armed.swap(false, Ordering::AcqRel)
                        || !once.rearmed.swap(false, Ordering::AcqRel)
                }
                // Several registrations with the same data cannot be distinguished.
                _ => true,
            };
            if goes {
                events[kept] = event;
                kept += 1;
            }
        }
        kept
    }
}

impl Registration {
    /// Registers the program's events with the kernel, without EPOLLOUT if `masked_out`.
    fn apply(&mut self, masked_out: bool) {
        let Some(epfd) = self.epoll.fd() else {
            return;
        };
        self.masked_out = masked_out;
        let mut event = epoll_event {
            events: Epoll::masked(self.events, masked_out),
            u64: self.data,
        };
        let mut control = |op| {
            // SAFETY: `event` is valid; a closed descriptor gives an error, which the program caused.
            unsafe { (real().epoll_ctl)(epfd, op, self.fd, &raw mut event) };
        };
        if self.is(EXCLUSIVE) {
            // The kernel does not allow changing such a registration.
            control(libc::EPOLL_CTL_DEL);
            control(libc::EPOLL_CTL_ADD);
        } else {
            control(libc::EPOLL_CTL_MOD);
        }
    }

    /// Restores the program's registration, because the gate is open.
    fn complete(&mut self) {
        // The program itself arms a one-shot registration again. This only completes one that it armed while the gate
        // was closed, unless it got an event since.
        if self.is(ONCE) {
            let armed = |w: &Watched| w.once.armed.load(Ordering::Acquire);
            if !self.masked_out || !self.once.as_ref().is_none_or(armed) {
                return;
            }
            if let Some(watched) = &self.once {
                watched.once.rearmed.store(true, Ordering::Release);
            }
        }
        self.apply(false);
    }

    fn is(&self, flags: u32) -> bool {
        self.events & flags != 0
    }

    fn is_of(&self, epoll: &Arc<EpollFile>, fd: RawFd) -> bool {
        self.fd == fd && Arc::ptr_eq(&self.epoll, epoll)
    }
}

impl Watched {
    fn new(epoll: &Arc<EpollFile>, data: u64) -> Self {
        let once = Arc::new(Once {
            data,
            armed: AtomicBool::new(true),
            rearmed: AtomicBool::new(false),
        });
        let mut all = alcc_socket::lock(&epoll.once);
        all.entry(data).or_default().push(Arc::clone(&once));
        drop(all);
        process::watch_one_shots();
        Self {
            epoll: Arc::clone(epoll),
            once,
        }
    }

    /// The registration after the program has armed it.
    fn arm(self) -> Self {
        self.once.rearmed.store(false, Ordering::Release);
        self.once.armed.store(true, Ordering::Release);
        self
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut all = alcc_socket::lock(&self.epoll.once);
        if let Some(same) = all.get_mut(&self.once.data) {
            same.retain(|known| !Arc::ptr_eq(known, &self.once));
            if same.is_empty() {
                all.remove(&self.once.data);
            }
        }
    }
}

impl Epoll {
    /// The events to register with the kernel if the program registers `events`.
    pub(crate) fn masked(events: u32, shut: bool) -> u32 {
        if shut { events & !OUT } else { events }
    }

    /// Notes that the program waits for room, in a way that the library sees.
    pub(crate) fn asks_for_room(&mut self) {
        (self.asked, self.on_trust) = (true, false);
        if self.short {
            process::learn_to_wait();
        }
    }

    /// Notes that a read returned EAGAIN.
    pub(crate) fn on_dry(&mut self) {
        self.dry = true;
    }

    /// The program's epoll_ctl(2). `shut`: the kernel must not report room. `real` gets the event for the kernel.
    pub(crate) fn register(
        &mut self,
        epoll: &Arc<EpollFile>,
        op: c_int,
        fd: RawFd,
        event: Option<epoll_event>,
        shut: bool,
        real: impl FnOnce(Option<epoll_event>) -> c_int,
    ) -> c_int {
        let registered = event.map(|e| epoll_event {
            events: Self::masked(e.events, shut),
            u64: e.u64,
        });
        // Before the kernel can report an event of it to another thread.
        let at = self.registrations.iter().position(|r| r.is_of(epoll, fd));
        let known = at.and_then(|at| self.registrations[at].once.take());
        let once = event.filter(|_| op != libc::EPOLL_CTL_DEL).and_then(|e| {
            let masked = shut && e.events & OUT != 0 && e.events & ONCE != 0;
            match known.filter(|watched| watched.once.data == e.u64) {
                Some(watched) => Some(watched.arm()),
                None => masked.then(|| Watched::new(epoll, e.u64)),
            }
        });
        let rc = real(registered);
        if rc != 0 && op == libc::EPOLL_CTL_ADD && alcc_socket::errno() == libc::EEXIST {
            // libev does not remove a registration that it no longer uses.
            self.paused |= std::mem::take(&mut self.dry);
        }
        if rc == 0 {
            self.record(epoll, op, fd, event, shut);
            if let Some(r) = self.registrations.iter_mut().find(|r| r.is_of(epoll, fd)) {
                r.once = once;
            }
        }
        rc
    }

    /// Records a registration that the kernel has accepted; `masked_out`: without EPOLLOUT.
    pub(crate) fn record(
        &mut self,
        epoll: &Arc<EpollFile>,
        op: c_int,
        fd: RawFd,
        event: Option<epoll_event>,
        masked_out: bool,
    ) {
        let at = self.registrations.iter().position(|r| r.is_of(epoll, fd));
        let Some(event) = event.filter(|_| op != libc::EPOLL_CTL_DEL) else {
            if let Some(at) = at {
                self.paused |= self.registrations.swap_remove(at).while_dry;
            }
            return;
        };
        if event.events & OUT != 0 {
            self.asks_for_room();
        }
        self.adds_out |= event.events & (EDGE | RDHUP) == EDGE | RDHUP;
        let while_dry = std::mem::take(&mut self.dry) && op == libc::EPOLL_CTL_ADD;
        if let Some(at) = at {
            let r = &mut self.registrations[at];
            (r.events, r.data, r.masked_out) = (event.events, event.u64, masked_out);
            self.paused |= r.while_dry && event.events & (IN | OUT) == 0;
            return;
        }
        // A second registration is rare.
        self.registrations.reserve_exact(1);
        self.registrations.push(Registration {
            epoll: Arc::clone(epoll),
            fd,
            events: event.events,
            data: event.u64,
            masked_out,
            while_dry,
            once: None,
        });
    }

    /// True if the program has registered it.
    pub(crate) fn is_registered(&self) -> bool {
        !self.registrations.is_empty()
    }

    /// The registrations that a child has inherited, with the descriptors of their epoll instances.
    pub(crate) fn in_child(&self) -> Vec<(Vec<RawFd>, RawFd, epoll_event)> {
        let one = |r: &Registration| {
            let event = epoll_event {
                events: r.events,
                u64: r.data,
            };
            (r.epoll.fds_in_child(), r.fd, event)
        };
        self.registrations.iter().map(one).collect()
    }
}

impl Waker for Epoll {
    fn can_wake(&self) -> bool {
        if self.paused && !self.asked {
            // Coroutines register after a call found nothing to do, and only until there is something: for writing,
            // too. An event loop that waits for requests stays registered.
            process::learn_to_wait();
        }
        let learned = || process::current().is_some_and(Process::waits_for_room);
        self.asked || self.adds_out || (!self.unseen && learned())
    }

    fn on_short(&mut self) {
        self.short = true;
    }

    fn on_refused(&mut self) {
        self.short = true;
        self.on_trust = !self.registrations.iter().any(|r| r.is(OUT));
    }

    fn on_blocked(&mut self) {
        // Neither an edge-triggered registration nor a one-shot one that has reported sends another event; a
        // level-triggered one would forever.
        for r in &mut self.registrations {
            if r.is(OUT) && !r.is(EDGE | ONCE) {
                r.apply(true);
            }
        }
    }

    fn on_writable(&mut self, fds: &[RawFd]) {
        for r in &mut self.registrations {
            if r.is(OUT) {
                r.complete();
            }
        }
        if std::mem::take(&mut self.on_trust) {
            // A program that waits unseen is woken by the socket itself, this once. One that has been seen waiting may
            // only be late.
            self.unseen = !self.asked;
            if let Some(&fd) = fds.first() {
                alcc_socket::wake_writers(fd);
            }
        }
    }

    fn merge(&mut self, mut other: Self) {
        self.registrations.append(&mut other.registrations);
        self.asked |= other.asked;
        self.adds_out |= other.adds_out;
        self.paused |= other.paused;
    }

    fn on_leave(&mut self, fd: RawFd) {
        for r in &mut self.registrations {
            if r.fd == fd && r.masked_out {
                r.complete();
            }
        }
    }

    fn on_close(&mut self, fd: RawFd) {
        self.registrations.retain(|r| r.fd != fd);
    }
}
