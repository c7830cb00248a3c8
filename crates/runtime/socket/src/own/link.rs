// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a stream and the runtime's thread share.
mod algorithm;
mod ending;
mod sending;

use super::Runtime;
use super::notice::Notice;
use super::queue::Queue;
use super::seen::Seen;
use super::stream::Info;
use crate::borrowed::Borrowed;
use crate::kernel;
use crate::triple::Enforcement;
use alcc_cc::Controller;
use alcc_driver::{Next, Visit};
use alcc_flow::{Counters, OverTcp};
use alcc_observe::Log;
use alcc_sys::Stamps;
use alcc_units::{Span, Time};
use libc::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A blocking send of at least this much is not copied into the queue if the program comes back quickly.
const WORTH_HOLDING: usize = 16 * 1024;
/// A program that is away for longer between its sends is served from the queue meanwhile.
const QUICK: Span = Span::from_micros(500);
/// When bytes wait and nothing tells when to try again: the kernel had no memory, or the algorithm has failed.
const RETRY: Span = Span::from_millis(5);
/// Signals wait so long at most while a send waits for the kernel.
const KERNEL_PATIENCE: Span = Span::from_millis(20);

/// Name, instance and seed of an algorithm.
pub(super) type Named = (String, Box<dyn Controller>, u64);

pub(super) struct Link {
    pub(super) id: u64,
    pub(super) notice: Notice,
    inner: Mutex<Inner>,
    /// The loop knows of it and reads its counters.
    active: AtomicBool,
}

pub(super) struct Inner {
    fd: Option<OwnedFd>,
    /// The kernel's number of the socket: a descriptor that the program closed behind our back may be another one by now.
    cookie: Option<u64>,
    cc: String,
    enforcement: Enforcement,
    flow: OverTcp,
    queue: Queue,
    stamps: Option<Stamps>,
    mss: u64,
    /// Acknowledged as of the last reading.
    acked: u64,
    /// Bytes beyond the last whole segment that was written.
    tail: u64,
    /// Written since a note of the acknowledgement was asked for.
    unstamped: u64,
    /// When the last send that was willing to wait returned, and how long the program is away between two, smoothed.
    left_at: Option<Time>,
    away: Span,
    /// A sender waits with bytes that are not in the queue.
    held: bool,
    /// Sent as of the last visit.
    sent_before: u64,
    borrowed: Borrowed,
    error: Option<c_int>,
    /// Bytes that had been taken were thrown away, for this reason.
    lost: Option<c_int>,
    ending: Ending,
    /// Somebody was refused and waits for a notice.
    hungry: bool,
    /// The kernel's buffer, not the window, ended the last attempt.
    kernel_full: bool,
    /// The algorithm failed, or has nothing more to decide: the kernel alone does.
    plain: bool,
    failed: bool,
    reported: Counters,
    /// The runtime counts it among those it drains after their close.
    lingers: bool,
    /// For `alcc top` and `alcc ctl`, if somebody may look.
    seen: Option<Box<Seen>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// FIN when drained.
    Write,
    /// FIN is sent.
    Written,
    /// Closed by the program; drained until then.
    Close(Time),
}

impl Link {
    pub(super) fn new(
        fd: RawFd,
        id: u64,
        (cc, controller, seed): Named,
        stamped: bool,
        enforcement: Enforcement,
        capacity: usize,
    ) -> Option<Self> {
        let reading = kernel::read(fd)?;
        let progress = reading.progress;
        let flow = OverTcp::new(controller, kernel::now(), &progress, seed);
        let inner = Inner {
            // SAFETY: the caller owns it and gives it to us.
            fd: Some(unsafe { OwnedFd::from_raw_fd(fd) }),
            cookie: kernel::cookie(fd),
            cc,
            enforcement,
            flow,
            queue: Queue::new(capacity),
            stamps: stamped
                .then(|| Stamps::enable(fd, progress.written))
                .flatten(),
            mss: progress.mss.get().max(1),
            acked: progress.acked,
            tail: 0,
            unstamped: 0,
            left_at: None,
            away: Span::from_millis(1),
            held: false,
            sent_before: 0,
            borrowed: Borrowed::new(reading.pacing, None),
            error: None,
            lost: None,
            ending: Ending::No,
            hungry: false,
            kernel_full: false,
            plain: false,
            failed: false,
            reported: Counters::default(),
            lingers: false,
            seen: None,
        };
        Some(Self {
            id,
            notice: Notice::default(),
            inner: Mutex::new(inner),
            active: AtomicBool::new(false),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what fits; zero if nothing does. `holds`: the caller waits until all is taken, so its bytes may stay where they are.
    pub(super) fn put(
        self: &Arc<Self>,
        runtime: &Runtime,
        bytes: &[u8],
        holds: bool,
    ) -> Result<usize, c_int> {
        let inner = &mut *self.lock();
        inner.check()?;
        // A stream at rest is looked at again: nobody else would notice.
        if !self.active.load(Ordering::Acquire) && inner.is_gone() {
            return Err(libc::EBADF);
        }
        inner.follow(runtime, self.id);
        let mut taken = 0;
        let holds = holds && inner.away < QUICK;
        if !inner.is_shut() && (inner.queue.len() == 0 || holds) {
            let now = kernel::now();
            taken = inner
                .guarded(|inner| inner.pump(now, bytes, holds))
                .unwrap_or(0);
            if taken == 0 {
                inner.check()?;
            }
        }
        let left = &bytes[taken..];
        // Less than a segment waits for more in the queue.
        let held = left.len() >= WORTH_HOLDING && left.len() as u64 >= inner.mss;
        if holds && held && !inner.plain {
            inner.held = true;
        } else {
            taken += inner.queue.put(left);
            if taken < bytes.len() && inner.error.is_none() {
                inner.hungry = true;
                self.notice.shut();
            }
        }
        self.settle(runtime, inner);
        Ok(taken)
    }

    /// Whose buffer is full waits for the kernel itself, which knows best when there is room. False if that is not it, or not for long.
    pub(super) fn wait_for_kernel(&self, until: Option<Time>) -> bool {
        let fd = {
            let inner = self.lock();
            inner.raw().filter(|_| inner.kernel_full && inner.held)
        };
        let Some(fd) = fd else { return false };
        let most = kernel::now() + KERNEL_PATIENCE;
        kernel::wait_writable(fd, until.map_or(most, |until| until.min(most)))
    }

    /// A send that is willing to wait begins.
    pub(super) fn enter(&self) {
        let inner = &mut *self.lock();
        if let Some(left_at) = inner.left_at.take() {
            let away = kernel::now().since(left_at).min(Span::from_millis(10));
            inner.away = inner.away / 8 * 7 + away / 8;
        }
    }

    /// And returns.
    pub(super) fn leave(&self) {
        self.lock().left_at = Some(kernel::now());
    }

    pub(super) fn set_capacity(&self, capacity: usize) {
        let inner = &mut *self.lock();
        inner.queue.set_capacity(capacity);
        inner.tell(&self.notice);
    }

    pub(super) fn shutdown_write(self: &Arc<Self>, runtime: &Runtime) {
        let inner = &mut *self.lock();
        if inner.ending == Ending::No {
            inner.ending = Ending::Write;
            inner.flush();
            self.settle(runtime, inner);
        }
    }

    /// Begins the end; what was lost already.
    pub(super) fn close(self: &Arc<Self>, runtime: &Runtime, until: Time) -> Option<c_int> {
        let inner = &mut *self.lock();
        let lost = inner.lost.take();
        inner.ending = Ending::Close(until);
        inner.hungry = false;
        inner.flush();
        if let Some(raw) = inner.raw() {
            // The number is the program's: it must not reach this socket any more, and is free for another.
            if let Some(other) = kernel::duplicate(raw) {
                inner.fd = Some(other);
            }
            runtime.lingers();
            inner.lingers = true;
            self.settle(runtime, inner);
        }
        lost
    }

    /// After whatever the program did: the loop has to know of a stream that is not idle. Called with the stream locked, like the
    /// loop's decision to let it rest.
    fn settle(self: &Arc<Self>, runtime: &Runtime, inner: &mut Inner) {
        inner.report(runtime);
        let busy = inner.queue.len() > 0 || inner.held || (!inner.plain && !inner.flow.is_idle());
        if busy && !self.active.swap(true, Ordering::AcqRel) {
            runtime.adopt(Arc::clone(self));
        }
    }
}

impl Visit for Link {
    type Host = Runtime;
    type Local = Option<Log>;

    fn start(runtime: &Runtime, now: Time) -> Option<Log> {
        Log::open(runtime.settings().log.as_deref()?, now)
    }

    fn flush(log: &mut Option<Log>) {
        log.iter_mut().for_each(Log::flush);
    }

    fn id(&self) -> u64 {
        self.id
    }

    /// Reads the counters, lets the algorithm act on them and hands over what it allows.
    fn visit(&self, runtime: &Runtime, company: usize, log: &mut Option<Log>) -> Next {
        let inner = &mut *self.lock();
        let now = kernel::now();
        let fault = runtime.settings_fault();
        let reading = runtime.reading();
        inner.is_gone();
        inner.guarded(|inner| {
            assert!(fault.is_none_or(|n| reading < n), "fault asked for");
            inner.flow.set_active_flows(company);
            inner.read(now, log, self.id);
        });
        if inner.queue.len() > 0 && !inner.is_shut() && inner.error.is_none() {
            inner.guarded(|inner| inner.pump(now, &[], inner.held));
        }
        inner.end(now);
        inner.tell(&self.notice);
        inner.report(runtime);
        if inner.lingers && inner.fd.is_none() {
            inner.lingers = false;
            runtime.lingered();
        }
        // Not idle yet if something was sent since the last visit: resting and being woken again by the next send costs more.
        let sent = inner.flow.counters().bytes;
        let fresh = std::mem::replace(&mut inner.sent_before, sent) != sent;
        let again = fresh && !inner.plain && inner.fd.is_some();
        let next = inner.next(now).or_else(|| again.then_some(now + RETRY));
        if next.is_none() {
            inner.queue.rest();
            self.active.store(false, Ordering::Release);
        }
        next.into()
    }
}

impl Inner {
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn room_in_queue(&self) -> usize {
        self.queue.free()
    }

    pub(super) fn show(&mut self, seen: Option<Box<Seen>>) {
        self.seen = seen;
    }

    pub(super) fn hungry(&self) -> bool {
        self.hungry
    }

    pub(super) fn error(&self) -> Option<c_int> {
        self.error
    }

    pub(super) fn is_closed(&self) -> bool {
        self.fd.is_none()
    }

    pub(super) fn lost(&mut self) -> Option<c_int> {
        self.lost.take()
    }

    pub(super) fn info(&self) -> Info {
        let allowance = self.flow.allowance();
        let rtt = self.flow.rtt();
        let counters = self.flow.counters();
        Info {
            cc: self.cc.clone(),
            feedback: if self.stamps.is_some() {
                "timestamps"
            } else {
                "tcp-info"
            },
            enforcement: self.enforcement.name,
            queued: self.queue.len(),
            capacity: self.queue.capacity(),
            in_flight: self.flow.in_flight(),
            sent: counters.bytes,
            gate_closed: counters.gate_closed,
            window: allowance.window,
            rate: allowance.rate,
            rtt: rtt.latest,
            smoothed_rtt: rtt.smoothed,
            min_rtt: rtt.min,
            plain: self.failed,
            error: self.error,
        }
    }

    fn raw(&self) -> Option<RawFd> {
        self.fd.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn check(&self) -> Result<(), c_int> {
        match (self.error, self.ending) {
            (Some(why), _) => Err(why),
            (None, Ending::No) => Ok(()),
            (None, Ending::Write | Ending::Written) => Err(libc::EPIPE),
            (None, Ending::Close(_)) => Err(libc::EBADF),
        }
    }

    /// The algorithm holds bytes back.
    fn is_shut(&self) -> bool {
        !self.plain && self.flow.is_blocked()
    }

    /// Tells whoever was refused that a quarter of the queue is free, or that there is an error to fetch.
    fn tell(&mut self, notice: &Notice) {
        let open = !self.is_shut() || self.error.is_some();
        if self.held && open {
            self.held = false;
            notice.wake();
        }
        let room = self.queue.free() >= (self.queue.capacity() / 4).max(1);
        if self.fd.is_none() || (self.hungry && (room || self.error.is_some())) {
            self.hungry = false;
            notice.open();
        }
    }

    fn report(&mut self, runtime: &Runtime) {
        let now = self.flow.counters();
        let more = Counters {
            gate_closed: now.gate_closed - self.reported.gate_closed,
            bytes: now.bytes - self.reported.bytes,
        };
        if more != Counters::default() {
            runtime.count(more.gate_closed, more.bytes);
            if let Some(seen) = &mut self.seen {
                seen.published.passed(&more);
            }
        }
        self.reported = now;
    }

    /// When to come back; `None`: nothing to do.
    fn next(&self, now: Time) -> Option<Time> {
        self.fd.as_ref()?;
        let waits = self.queue.len() > 0 || self.held;
        let flow = if self.plain {
            None
        } else {
            self.flow.deadline()
        };
        let next = flow.or_else(|| waits.then_some(now + RETRY))?;
        match self.ending {
            Ending::Close(until) => Some(next.min(until)),
            _ => Some(next),
        }
    }
}
