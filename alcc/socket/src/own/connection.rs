// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that a stream and the runtime's thread share.
mod closing;
mod sending;

use super::Runtime;
use super::notifier::WritableNotifier;
use super::queue::Queue;
use super::stream::Info;
use crate::controlled::{Controlled, Mode};
use crate::kernel;
use alcc_cc::{Spec, SpecError};
use alcc_driver::{Next, Visit};
use alcc_units::{Span, Time};
use libc::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A blocking send of at least this many bytes is not copied into the queue if the program usually
/// returns quickly.
const MIN_HELD: usize = 16 * 1024;
/// A program that is away for longer between its sends is served from the queue meanwhile.
const QUICK: Span = Span::from_micros(500);
/// Retry interval for waiting bytes without another wake-up: the kernel has no memory, or the
/// algorithm has failed.
const RETRY: Span = Span::from_millis(5);
/// Maximum time for which signals wait while a send waits for the kernel.
const MAX_KERNEL_WAIT: Span = Span::from_millis(20);

pub(super) struct Connection {
    id: u64,
    pub(super) notifier: WritableNotifier,
    inner: Mutex<Inner>,
    /// True if the loop knows the stream and reads its counters.
    active: AtomicBool,
}

pub(super) struct Inner {
    fd: Option<OwnedFd>,
    /// The kernel's number of the socket: a descriptor that the program closed without us may be
    /// another socket by now.
    cookie: u64,
    control: Controlled,
    queue: Queue,
    /// Bytes beyond the last whole segment that was written.
    tail: u64,
    /// Bytes written since a time stamp of the acknowledgement was last requested.
    unstamped: u64,
    /// Time at which the last blocking send returned, and the smoothed time that the program is
    /// away between two.
    left_at: Option<Time>,
    away: Span,
    /// True if a sender waits with bytes that are not in the queue.
    held: bool,
    /// Bytes sent as of the last visit.
    sent_before: u64,
    error: Option<c_int>,
    /// Set if bytes from the queue were discarded, for this reason.
    queue_error: Option<c_int>,
    closing: CloseState,
    /// True if a send was refused, so that a notice is due.
    wants_data: bool,
    /// True if a notice is due when FIN is sent.
    wants_end: bool,
    /// True if the kernel's buffer, not the window, ended the last attempt.
    kernel_full: bool,
    /// True if the runtime counts it among the closed streams that are being drained.
    lingers: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CloseState {
    No,
    /// FIN is sent when the queue is drained.
    Write,
    /// FIN is sent.
    Written,
    /// Closed by the program; drained until this time.
    Close(Time),
}

impl Connection {
    pub(super) fn new(fd: RawFd, cookie: u64, control: Controlled, capacity: usize) -> Self {
        let id = control.id;
        let inner = Inner {
            // SAFETY: the caller owns it and transfers it.
            fd: Some(unsafe { OwnedFd::from_raw_fd(fd) }),
            cookie,
            control,
            queue: Queue::new(capacity),
            tail: 0,
            unstamped: 0,
            left_at: None,
            away: Span::from_millis(1),
            held: false,
            sent_before: 0,
            error: None,
            queue_error: None,
            closing: CloseState::No,
            wants_data: false,
            wants_end: false,
            kernel_full: false,
            lingers: false,
        };
        Self {
            id,
            notifier: WritableNotifier::default(),
            inner: Mutex::new(inner),
            active: AtomicBool::new(false),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        alcc_sys::lock(&self.inner)
    }

    /// Takes bytes into the queue as far as they fit; zero if none do. `holds`: the caller waits
    /// until all are taken, so its bytes need not be copied.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        runtime: &Runtime,
        bytes: &[u8],
        holds: bool,
    ) -> Result<usize, c_int> {
        let inner = &mut *self.lock();
        inner.check()?;
        // An idle stream is checked here, because nothing else would notice that it has gone.
        if !self.active.load(Ordering::Acquire) && inner.is_gone() {
            return Err(libc::EBADF);
        }
        inner.guarded(Inner::apply_commands);
        let mut taken = 0;
        let holds = holds && inner.away < QUICK;
        if !inner.is_blocked() && (inner.queue.len() == 0 || holds) {
            let now = kernel::now();
            taken = inner
                .guarded(|inner| inner.pump(now, bytes, holds))
                .unwrap_or(0);
            if taken == 0 {
                inner.check()?;
            }
        }
        let remaining = &bytes[taken..];
        // Less than a segment waits in the queue for more.
        let held = remaining.len() >= MIN_HELD && remaining.len() as u64 >= inner.mss();
        if holds && held && !inner.is_plain() {
            inner.held = true;
        } else {
            taken += inner.queue.push(remaining);
            if taken < bytes.len() && inner.error.is_none() {
                inner.wants_data = true;
                self.notifier.set_blocked();
            }
        }
        self.after_call(runtime, inner);
        Ok(taken)
    }

    /// Waits for the kernel itself if its buffer is full, because it knows best when there is room.
    /// False if that is not the reason, or not for long.
    pub(super) fn wait_for_kernel(&self, until: Option<Time>) -> bool {
        let fd = {
            let inner = self.lock();
            inner.raw().filter(|_| inner.kernel_full && inner.held)
        };
        let Some(fd) = fd else { return false };
        let most = kernel::now() + MAX_KERNEL_WAIT;
        kernel::wait_writable(fd, until.map_or(most, |until| until.min(most)))
    }

    /// A blocking send begins.
    pub(super) fn enter(&self) {
        let inner = &mut *self.lock();
        if let Some(left_at) = inner.left_at.take() {
            let away = kernel::now().since(left_at).min(Span::from_millis(10));
            inner.away = inner.away / 8 * 7 + away / 8;
        }
    }

    /// The program returns from a call.
    pub(super) fn leave(&self) {
        self.lock().left_at = Some(kernel::now());
    }

    pub(super) fn set_capacity(&self, capacity: usize) {
        let mut inner = self.lock();
        inner.queue.set_capacity(capacity);
        inner.notify(&self.notifier);
        drop(inner);
        self.notifier.wake_task();
    }

    pub(super) fn shutdown_write(self: &Arc<Self>, runtime: &Runtime) {
        let inner = &mut *self.lock();
        if inner.closing == CloseState::No {
            inner.closing = CloseState::Write;
            inner.flush();
            self.after_call(runtime, inner);
        }
    }

    /// Begins the close. Returns an error that has already lost bytes.
    pub(super) fn close(self: &Arc<Self>, runtime: &Runtime, until: Time) -> Option<c_int> {
        let inner = &mut *self.lock();
        let queue_error = inner.queue_error.take();
        inner.closing = CloseState::Close(until);
        inner.wants_data = false;
        inner.flush();
        if let Some(raw) = inner.raw() {
            // The number belongs to the program: it must no longer refer to this socket, and is
            // free for another.
            if let Some(other) = kernel::duplicate(raw) {
                inner.fd = Some(other);
            }
            runtime.lingers();
            inner.lingers = true;
            self.after_call(runtime, inner);
        }
        queue_error
    }

    /// Puts a stream that is not idle into the loop, after any call of the program. Called with the
    /// stream locked, as is the loop's decision to remove an idle one.
    fn after_call(self: &Arc<Self>, runtime: &Runtime, inner: &mut Inner) {
        inner.control.report();
        let busy = inner.queue.len() > 0
            || inner.held
            || (!inner.is_plain() && !inner.control.flow.is_idle());
        if busy && !self.active.swap(true, Ordering::AcqRel) {
            runtime.adopt(Arc::clone(self));
        }
    }
}

impl Visit for Connection {
    type Host = Runtime;

    fn id(&self) -> u64 {
        self.id
    }

    fn visit(&self, runtime: &Runtime, active: usize) -> Next {
        let mut inner = self.lock();
        let next = self.visit_locked(runtime, active, &mut inner);
        drop(inner);
        self.notifier.wake_task();
        next.into()
    }
}

impl Connection {
    /// Reads the counters, passes them to the algorithm and writes the data that it allows. Returns
    /// the time of the next visit.
    fn visit_locked(&self, runtime: &Runtime, active: usize, inner: &mut Inner) -> Option<Time> {
        let now = kernel::now();
        inner.is_gone();
        inner.guarded(|inner| {
            inner.apply_commands();
            if inner.is_plain() {
                // A failed algorithm is not called again, and its failure is reported once.
                return;
            }
            runtime.plane.visit();
            inner.control.flow.set_active_flows(active);
            if let Some(fd) = inner.raw() {
                inner.control.read(fd, now, false, None);
            }
        });
        if inner.queue.len() > 0 && !inner.is_blocked() && inner.error.is_none() {
            inner.guarded(|inner| inner.pump(now, &[], inner.held));
        }
        inner.end(now);
        inner.notify(&self.notifier);
        inner.control.report();
        if inner.lingers && inner.fd.is_none() {
            inner.lingers = false;
            runtime.lingered();
        }
        // Not idle yet if something was sent since the last visit, because removal and the wake-up
        // by the next send would cost more.
        let sent = inner.control.flow.counters().bytes;
        let fresh = std::mem::replace(&mut inner.sent_before, sent) != sent;
        let again = fresh && !inner.is_plain() && inner.fd.is_some();
        let next = inner.next(now).or_else(|| again.then_some(now + RETRY));
        if next.is_none() {
            inner.queue.release_memory();
            self.active.store(false, Ordering::Release);
        }
        next
    }
}

impl Inner {
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn room_in_queue(&self) -> usize {
        self.queue.free()
    }

    pub(super) fn set_cc(&mut self, cc: &Spec) -> Result<(), SpecError> {
        self.control.set_cc(self.raw(), cc)
    }

    pub(super) fn set_stamped(&mut self, stamped: bool) {
        self.control.set_stamped(self.raw(), stamped);
    }

    pub(super) fn wants_data(&self) -> bool {
        self.wants_data
    }

    pub(super) fn error(&self) -> Option<c_int> {
        self.error
    }

    /// The result of [`Connection::shutdown_write`]; `None` until FIN is sent, and a notice follows.
    pub(super) fn end_of_writing(&mut self) -> Option<Result<(), c_int>> {
        match (self.error, self.closing) {
            (Some(why), _) => Some(Err(why)),
            (None, CloseState::Written) => Some(Ok(())),
            (None, CloseState::Close(_)) => Some(Err(libc::EBADF)),
            (None, CloseState::No | CloseState::Write) => {
                self.wants_end = true;
                None
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.fd.is_none()
    }

    pub(super) fn queue_error(&mut self) -> Option<c_int> {
        self.queue_error.take()
    }

    pub(super) fn info(&self) -> Info {
        let flow = &self.control.flow;
        let (allowance, rtt, counters) = (flow.allowance(), flow.rtt(), flow.counters());
        Info {
            cc: self.control.cc().to_string(),
            feedback: self.control.feedback(),
            enforcement: self.control.enforcement().name,
            queued: self.queue.len(),
            capacity: self.queue.capacity(),
            in_flight: flow.in_flight(),
            sent: counters.bytes,
            gate_closed: counters.gate_closed,
            window: allowance.window,
            rate: allowance.rate,
            rtt: rtt.latest,
            smoothed_rtt: rtt.smoothed,
            min_rtt: rtt.min,
            plain: self.control.mode == Mode::Failed,
            error: self.error,
        }
    }

    fn raw(&self) -> Option<RawFd> {
        self.fd.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn check(&self) -> Result<(), c_int> {
        match (self.error, self.closing) {
            (Some(why), _) => Err(why),
            (None, CloseState::No) => Ok(()),
            (None, CloseState::Write | CloseState::Written) => Err(libc::EPIPE),
            (None, CloseState::Close(_)) => Err(libc::EBADF),
        }
    }

    fn mss(&self) -> u64 {
        self.control.flow.mss().get()
    }

    /// True if the kernel alone is in control.
    fn is_plain(&self) -> bool {
        !self.control.is_in_charge()
    }

    /// True if the algorithm holds bytes back.
    fn is_blocked(&self) -> bool {
        self.control.flow.is_blocked()
    }

    /// Runs code of the algorithm; if that panics the connection is plain TCP from then on.
    fn guarded<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(|| f(self)));
        if result.is_err() {
            self.failed();
        }
        result.ok()
    }

    fn failed(&mut self) {
        self.control.release(self.raw(), Mode::Failed);
    }

    /// Executes new commands of `alcc ctl`.
    fn apply_commands(&mut self) {
        if let Some(commands) = self.control.commands() {
            self.control.apply_commands(&commands, self.raw());
        }
    }

    /// Wakes a refused writer when a quarter of the queue is free, or when there is an error to
    /// fetch.
    fn notify(&mut self, notifier: &WritableNotifier) {
        let open = !self.is_blocked() || self.error.is_some();
        if self.held && open {
            self.held = false;
            notifier.wake();
        }
        let room = self.queue.free() >= (self.queue.capacity() / 4).max(1);
        let failed = self.error.is_some();
        let written = self.closing == CloseState::Written;
        if self.fd.is_none()
            || (self.wants_data && (room || failed))
            || (self.wants_end && (written || failed))
        {
            self.wants_data = false;
            self.wants_end = false;
            notifier.set_writable();
        }
    }

    /// Time of the next visit; `None`: none is needed.
    fn next(&self, now: Time) -> Option<Time> {
        self.fd.as_ref()?;
        let waits = self.queue.len() > 0 || self.held;
        let next = (self.control.deadline()).or_else(|| waits.then_some(now + RETRY))?;
        match self.closing {
            CloseState::Close(until) => Some(next.min(until)),
            _ => Some(next),
        }
    }
}
