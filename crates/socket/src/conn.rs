// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One controlled connection.
use crate::runtime::Runtime;
use crate::{Totals, kernel};
use alcc_cc::Discard;
use alcc_flow::{Counters, OverTcp};
use alcc_units::{Bytes, Time};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How the program learns that it may write again. Called with the connection locked.
pub trait Waker: Send + 'static {
    /// True if [`Waker::open`] will reach the program; otherwise writes of a non-blocking program pass unlimited.
    fn reaches(&self) -> bool;
    /// The gate shut: hide that the socket is writable.
    fn shut(&mut self, fd: RawFd);
    /// The gate opened: tell the program.
    fn open(&mut self, fd: RawFd);
}

/// A write of the program.
pub struct Write<'a> {
    /// Bytes that the program wants to write.
    pub wanted: usize,
    /// Asked only if the gate is in the way: does the program wait inside the call?
    pub blocking: &'a dyn Fn() -> bool,
    /// The real call: skip the first so many bytes, write at most so many; returns as write(2) does.
    pub real: &'a mut dyn FnMut(usize, usize) -> isize,
}

/// One controlled connection. The descriptor stays the program's.
pub struct Conn<W> {
    fd: RawFd,
    pid: u32,
    inner: Mutex<Inner<W>>,
    opened: Condvar,
    /// The loop knows of it and reads its counters.
    pub(crate) active: AtomicBool,
    /// Key of the loop.
    pub(crate) id: u64,
}

struct Inner<W> {
    flow: OverTcp,
    waker: W,
    pacing: u64,
    /// Writes that the kernel may have taken and we have not entered yet.
    writing: u32,
    closed: bool,
    reported: Counters,
}

/// What the loop should do with a connection it has just visited.
pub(crate) enum Next {
    /// Come back then.
    At(Time),
    /// Nothing to do until the next write.
    Rest,
}

impl<W: Waker> Conn<W> {
    pub(crate) fn new(fd: RawFd, id: u64, flow: OverTcp, waker: W) -> Self {
        let inner = Inner {
            flow,
            waker,
            pacing: u64::MAX,
            writing: 0,
            closed: false,
            reported: Counters::default(),
        };
        Self {
            fd,
            pid: std::process::id(),
            inner: Mutex::new(inner),
            opened: Condvar::new(),
            active: AtomicBool::new(false),
            id,
        }
    }

    /// True in the process that accepted the connection; a child has a descriptor but no loop.
    pub fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<W>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Access to the waker, for the program's own registrations.
    pub fn with_waker<T>(&self, f: impl FnOnce(&mut W, bool) -> T) -> T {
        let inner = &mut *self.lock();
        f(&mut inner.waker, inner.flow.is_shut())
    }

    /// Carries out a write of the program as far as the algorithm allows. Returns and sets errno as write(2) does:
    /// -1 with EAGAIN while the gate is shut and the program does not want to wait.
    pub fn write(self: &Arc<Self>, runtime: &Runtime<W>, write: &mut Write<'_>) -> isize {
        let mut done = 0;
        loop {
            let left = write.wanted - done;
            // A runtime that has failed limits nothing.
            let room = runtime
                .guarded(|| self.room(runtime, left, write.blocking))
                .unwrap_or(left)
                .min(left);
            if room == 0 && left > 0 {
                runtime.guarded(|| self.wrote(runtime, 0));
                if !(write.blocking)() {
                    kernel::set_errno(libc::EAGAIN);
                    return -1;
                }
                self.wait(runtime);
                continue;
            }
            let n = (write.real)(done, room);
            let errno = kernel::errno();
            let written = usize::try_from(n).unwrap_or(0);
            runtime.guarded(|| self.wrote(runtime, written));
            done += written;
            // Cut short by the gate, a program that waits in the call is served until all is written, as without us.
            let cut = written > 0 && written == room && room < left;
            if !(cut && (write.blocking)()) {
                kernel::set_errno(errno);
                return if done > 0 { done as isize } else { n };
            }
        }
    }

    fn room(
        self: &Arc<Self>,
        runtime: &Runtime<W>,
        wanted: usize,
        blocking: &dyn Fn() -> bool,
    ) -> usize {
        let now = kernel::now();
        let mut inner = self.lock();
        let reaches = inner.waker.reaches();
        inner.writing += 1;
        if inner.closed || !runtime.settings().enforcement.gate || !(reaches || blocking()) {
            return wanted;
        }
        let was_shut = inner.flow.is_shut();
        let (queued, unsent) = (kernel::queued(self.fd), kernel::unsent(self.fd));
        let room = inner
            .flow
            .room(now, Bytes::new(wanted as u64), queued, unsent, &mut Discard)
            .get();
        if inner.flow.is_shut() {
            if !was_shut {
                inner.waker.shut(self.fd);
            }
            self.activate(runtime);
        }
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    fn wrote(self: &Arc<Self>, runtime: &Runtime<W>, n: usize) {
        let now = kernel::now();
        let mut inner = self.lock();
        inner.writing = inner.writing.saturating_sub(1);
        if n > 0 {
            inner.flow.wrote(now, Bytes::new(n as u64), &mut Discard);
            self.activate(runtime);
        }
    }

    /// Called with the connection locked, like the loop's decision to let it rest.
    fn activate(self: &Arc<Self>, runtime: &Runtime<W>) {
        if !self.active.swap(true, Ordering::AcqRel) {
            runtime.adopt(Arc::clone(self));
        }
    }

    fn wait(&self, runtime: &Runtime<W>) {
        let mut inner = self.lock();
        while inner.flow.is_shut() && !inner.closed && !runtime.failed() {
            let patience = Duration::from_millis(100);
            inner = self
                .opened
                .wait_timeout(inner, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// The program is about to close the descriptor: after this we never touch it again.
    pub fn close(&self, runtime: &Runtime<W>) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.report(runtime);
        self.opened.notify_all();
    }

    /// Reads the counters and lets the algorithm act on them.
    pub(crate) fn visit(&self, runtime: &Runtime<W>, log: &mut Option<crate::log::Log>) -> Next {
        let now = kernel::now();
        let inner = &mut *self.lock();
        let tcp = if inner.closed {
            None
        } else {
            kernel::tcp_progress(self.fd)
        };
        let Some(mut tcp) = tcp else {
            inner.closed = true;
            return self.rest();
        };
        if inner.writing > 0 {
            // The kernel may know of a write that we do not know yet: it would be counted twice.
            tcp.written = tcp.written.min(inner.flow.written());
        }
        inner.flow.progress(now, &tcp, &mut Discard);
        runtime.count(&Totals {
            readings: 1,
            ..Totals::default()
        });
        if let Some(log) = log {
            log.reading(now, self.id, &tcp, &inner.flow);
        }
        if runtime.settings().enforcement.pacing {
            inner.pace(self.fd);
        }
        let queued = Bytes::new(tcp.written.saturating_sub(tcp.acked));
        if inner.flow.opens(queued) {
            inner.open(self.fd);
            self.opened.notify_all();
        }
        inner.report(runtime);
        inner.flow.deadline().map_or_else(|| self.rest(), Next::At)
    }

    fn rest(&self) -> Next {
        self.active.store(false, Ordering::Release);
        Next::Rest
    }

    /// The runtime failed: back to plain TCP.
    pub(crate) fn release(&self) {
        let inner = &mut *self.lock();
        if !inner.closed {
            kernel::set_pacing(self.fd, u64::MAX);
            if inner.flow.is_shut() {
                inner.open(self.fd);
            }
        }
        self.opened.notify_all();
    }
}

impl<W: Waker> Inner<W> {
    fn open(&mut self, fd: RawFd) {
        self.flow.opened();
        self.waker.open(fd);
    }

    /// Follows the algorithm's rate; small changes are not worth a system call.
    fn pace(&mut self, fd: RawFd) {
        let rate = self
            .flow
            .pacing_rate()
            .map_or(u64::MAX, |rate| rate.as_bps() / 8);
        if rate.abs_diff(self.pacing) > self.pacing / 16 {
            kernel::set_pacing(fd, rate);
            self.pacing = rate;
        }
    }

    fn report(&mut self, runtime: &Runtime<W>) {
        let now = self.flow.counters();
        let gate_closed = now.gate_closed - self.reported.gate_closed;
        let bytes = now.bytes - self.reported.bytes;
        runtime.count(&Totals {
            gate_closed,
            bytes,
            ..Totals::default()
        });
        self.reported = now;
    }
}
