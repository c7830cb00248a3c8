// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A controlled connection of the program, whose writes pass a gate.
mod inner;
mod writers;

use crate::controlled::{Controlled, Mode, Takeover};
use crate::kernel;
use crate::runtime::Runtime;
use alcc_driver::{Next, Visit};
use alcc_observe::Bypass;
use alcc_sys::lock_within;
use alcc_units::{Bytes, Span, Time};
use libc::c_int;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use writers::{Call, Writers};

/// Wakes the program when it may write again. It has a lock of its own, inside the connection's lock, so that the
/// program can be woken while a stopped thread holds the connection.
pub trait Waker: Send + 'static {
    /// True if the program can be woken after EAGAIN; otherwise writes of a non-blocking program are not limited.
    fn can_wake(&self) -> bool;
    /// The gate has closed: hides that the socket is writable.
    fn on_blocked(&mut self);
    /// A write found less room than it needed, in the kernel or because the gate refuses.
    fn on_short(&mut self) {}
    /// A non-blocking write was refused or cut short by the gate.
    fn on_refused(&mut self) {}
    /// The gate has opened: wakes the program. `fds`: its known descriptors.
    fn on_writable(&mut self, fds: &[RawFd]);
    /// Another descriptor of the same connection is now known.
    fn merge(&mut self, other: Self);
    /// The program is about to close this descriptor, while the connection stays open.
    fn on_leave(&mut self, _fd: RawFd) {}
    /// The program closes this descriptor.
    fn on_close(&mut self, fd: RawFd);
}

/// The program's behaviour when a call cannot complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// It is non-blocking and handles EAGAIN.
    No,
    /// It does not expect EAGAIN to end, so nothing may be refused.
    Unreachable,
    /// It waits in the call, at most this long.
    Yes(Option<Span>),
}

/// State of a connection that was handed to this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inherited {
    /// True if the program itself opened it.
    pub outbound: Option<bool>,
    /// The program's own pacing rate, bytes per second; `u64::MAX`: none.
    pub pacing: Option<u64>,
}

/// A write of the program.
pub struct Write<'a> {
    /// The descriptor that `real` writes to.
    pub fd: RawFd,
    /// Bytes that the program wants to write.
    pub wanted: usize,
    /// Number of these bytes that have been written already.
    pub done: usize,
    /// True if the bytes must be written in one call, because two calls would have another meaning.
    pub whole: bool,
    /// Called only if the gate refuses.
    pub wait: &'a dyn Fn() -> Wait,
    /// The real call: skips the first `n` bytes, writes at most `m`, and returns as write(2) does.
    pub real: &'a mut dyn FnMut(usize, usize) -> isize,
}

/// One controlled connection. Its descriptors remain the program's.
pub struct Conn<W> {
    cookie: u64,
    inner: Mutex<Inner>,
    waker: Mutex<W>,
    /// The error that a later part of a write met; zero: none. The program was informed only of the parts before it,
    /// and the kernel forgets the error with that call, so the next call that would have met it gets the error.
    error: AtomicI32,
    /// True if the loop knows the connection and reads its counters.
    pub(crate) active: AtomicBool,
    /// The last command of `alcc ctl` that was applied ([`mark`]), while the algorithm runs in the kernel; else 0.
    passes: AtomicU32,
    /// Number of the connection in the loop.
    pub(crate) id: u64,
}

/// Interval at which a blocking writer wakes at least; without that it counts as gone.
const RECHECK_INTERVAL: Span = Span::from_secs(1);

/// Interval of reading, while a subscriber follows the readings, a connection that is filled by a single write.
const READ_IN_CALLS: Span = Span::from_millis(5);

struct Inner {
    /// The program's known descriptors of the connection; the first is used for calls. `None`: control has ended.
    fds: Vec<RawFd>,
    control: Controlled,
    writers: Writers,
    /// True after a non-blocking write was cut short. In plain TCP hardly any more data would be taken until the
    /// program is woken, so there is no room until then, or until the next reading.
    cut: bool,
    /// Until this time a waiting thread of the program does the readings.
    read_by_waiter: Time,
    /// Until this time a blocked connection with a silent peer counts as full without a check.
    full_until: Time,
}

/// Time by which a waiting thread may be late before the loop reads in its place.
const MAX_LATENESS: Span = Span::from_millis(3);

/// Interval of readings above which the peer counts as silent. A program that waits for many such connections in one
/// call must not cost system calls for each.
const SILENT: Span = Span::from_millis(10);

/// A connection's lock is held for longer only if its thread is stopped or starved.
const MAX_HELD: Span = Span::from_millis(500);
/// Time to wait for a lock in a thread that has other work.
const BRIEFLY: Span = Span::from_millis(1);

/// Error for a lock that is not released: the runtime fails, and the call is passed to the kernel unchanged.
pub(crate) struct Held;

impl Held {
    pub(crate) fn give_up() -> ! {
        resume_unwind(Box::new(Self))
    }
}

impl<W: Waker> Conn<W> {
    pub(crate) fn new(fd: RawFd, cookie: u64, control: Controlled, waker: W) -> Self {
        let id = control.id;
        let inner = Inner {
            fds: vec![fd],
            control,
            writers: Writers::default(),
            cut: false,
            read_by_waiter: Time::ZERO,
            full_until: Time::ZERO,
        };
        Self {
            cookie,
            inner: Mutex::new(inner),
            waker: Mutex::new(waker),
            error: AtomicI32::new(0),
            active: AtomicBool::new(false),
            passes: AtomicU32::new(0),
            id,
        }
    }

    /// Takes control.
    pub(crate) fn begin(&self, socket: &Takeover) {
        let inner = &mut *self.lock();
        inner.control.begin(socket);
        self.note_where_it_runs(inner);
    }

    /// The algorithm runs in the kernel, and `alcc ctl` has not ordered anything since that was seen:
    /// the program's calls are the kernel's matter alone.
    pub fn passes(&self, runtime: &Runtime<W>) -> bool {
        let seen = self.passes.load(Ordering::Relaxed);
        seen != 0 && seen == mark(runtime.plane.generation())
    }

    /// The algorithm runs in the kernel.
    pub(crate) fn is_resident(&self) -> bool {
        self.passes.load(Ordering::Relaxed) != 0
    }

    fn note_where_it_runs(&self, inner: &Inner) {
        let resident = inner.control.is_resident();
        let seen = if resident {
            mark(inner.control.applied())
        } else {
            0
        };
        self.passes.store(seen, Ordering::Relaxed);
    }

    /// True if the descriptor still is this connection: it may have been closed, and its number reused, unnoticed.
    pub fn is_same_socket(&self, fd: RawFd) -> bool {
        kernel::is_same_socket(fd, self.cookie)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock_within(&self.inner, MAX_HELD).unwrap_or_else(|| Held::give_up())
    }

    fn waker(&self) -> MutexGuard<'_, W> {
        lock_within(&self.waker, MAX_HELD).unwrap_or_else(|| Held::give_up())
    }

    /// Access to the waker, for the program's own registrations.
    pub fn with_waker<T>(&self, f: impl FnOnce(&mut W, bool) -> T) -> T {
        let inner = self.lock();
        f(&mut self.waker(), inner.control.flow.is_blocked())
    }

    /// Adds another descriptor of the same connection.
    ///
    /// # Errors
    /// The waker, if control of the connection has ended.
    pub fn add_fd(&self, fd: RawFd, waker: W) -> Result<(), W> {
        let inner = &mut *self.lock();
        if inner.fds.is_empty() {
            return Err(waker);
        }
        self.waker().merge(waker);
        if !inner.fds.contains(&fd) {
            inner.fds.push(fd);
        }
        if inner.control.flow.is_blocked() {
            self.waker().on_blocked();
        }
        Ok(())
    }

    /// Takes the pending error of a part of a write, for the next call to which the kernel would have reported it.
    fn take_error(&self) -> Option<c_int> {
        if self.error.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.error.swap(0, Ordering::Relaxed)).filter(|why| *why != 0)
    }

    /// The same as `take_error`, if the descriptor still is this connection.
    pub fn take_error_of(&self, fd: RawFd) -> Option<c_int> {
        let none = self.error.load(Ordering::Relaxed) == 0;
        (!none && self.is_same_socket(fd))
            .then(|| self.take_error())
            .flatten()
    }

    /// Carries out a write of the program as far as the algorithm allows. The return value and errno are those of
    /// write(2): -1 with EAGAIN while the gate is closed and the program is non-blocking.
    pub fn write(self: &Arc<Self>, runtime: &Arc<Runtime<W>>, write: &mut Write<'_>) -> isize {
        // The kernel itself reports EPIPE at every write, with a signal.
        if let Some(why) = self.take_error().filter(|why| *why != libc::EPIPE) {
            kernel::set_errno(why);
            return -1;
        }
        let mut writer = WriteGuard {
            conn: self,
            runtime,
            holds: false,
            calls: false,
            over: false,
            more: false,
            short: false,
            bypass_above: None,
        };
        let mut done = write.done;
        let mut patience = None;
        let ended = |done: usize, why: c_int| {
            kernel::set_errno(why);
            if done > 0 { done as isize } else { -1 }
        };
        loop {
            let remaining = write.wanted - done;
            // After a failure the runtime limits nothing.
            let room = runtime
                .guarded(|| self.room(runtime, remaining, write, &mut writer))
                .unwrap_or(remaining)
                .min(remaining);
            writer.holds |= room < remaining;
            writer.more = room < remaining;
            if room == 0 && remaining > 0 {
                runtime.guarded(|| self.wrote(runtime, 0, &mut writer));
                let Wait::Yes(limit) = (write.wait)() else {
                    if runtime.failed() {
                        self.release(Mode::Failed);
                        continue;
                    }
                    // If the thread has stopped, no other thread opens the gate for its next write. Without a thread,
                    // its next wait does.
                    if !runtime.is_inline() {
                        runtime.watch();
                    }
                    return ended(done, libc::EAGAIN);
                };
                let until = *patience.get_or_insert_with(|| limit.map(|l| kernel::now() + l));
                if let Err(why) = self.wait(runtime, until, done == 0) {
                    return ended(done, why);
                }
                if !self.is_same_socket(write.fd) {
                    // Another thread closed it, and the number may be another file's by now.
                    return ended(done, libc::EBADF);
                }
                continue;
            }
            // In one call, the kernel returns the number of bytes written and keeps an error for the next. A call of
            // ours would fetch that error.
            if done > 0 && (writer.over || kernel::has_failed(write.fd)) {
                return done as isize;
            }
            runtime.passed(self.cookie, room as i64);
            let n = (write.real)(done, room);
            let errno = kernel::errno();
            let written = usize::try_from(n).unwrap_or(0);
            runtime.passed(self.cookie, written as i64 - room as i64);
            writer.short = written < room && (written > 0 || errno == libc::EAGAIN);
            runtime.guarded(|| self.wrote(runtime, written, &mut writer));
            if n < 0 && done > 0 && kernel::is_socket_error(errno) {
                // The error came between the check and the call.
                self.error.store(errno, Ordering::Relaxed);
            }
            done += written;
            // If the gate cuts a write of a program that waits in the call, the call goes on until all is written, as
            // in plain TCP.
            let cut = written > 0 && written == room && room < remaining;
            if !(cut && matches!((write.wait)(), Wait::Yes(_))) {
                kernel::set_errno(errno);
                return if done > 0 { done as isize } else { n };
            }
        }
    }

    /// The number of `wanted` bytes that may be written now.
    ///
    /// A gated write makes only the system calls that its decision needs, each at most once for each part of the write:
    ///
    /// | call | made if | for |
    /// |---|---|---|
    /// | `getsockopt(SO_COOKIE)` | always, by the caller | check that the descriptor is this connection |
    /// | `ioctl(SIOCOUTQ)` | the gate decides | bytes that count against the window |
    /// | `ioctl(SIOCOUTQNSD)` | an unsent part of that could cut the write | filling the last segment, pacing |
    /// | `fcntl(F_GETFL)` | not all may be written | check whether the program is non-blocking |
    /// | `getsockopt(SO_SNDTIMEO)` | the program waits | its time limit |
    /// | `ppoll` | it does not wait, and nothing may be written | errors, which only the kernel can report |
    ///
    /// If the kernel enforces the limit, the first call is the only one. The next part of a write that was cut begins
    /// with `ppoll`. If a subscriber follows the readings, a write to an empty socket begins with a reading
    /// (`TCP_INFO`).
    fn room(
        self: &Arc<Self>,
        runtime: &Arc<Runtime<W>>,
        wanted: usize,
        write: &Write<'_>,
        writer: &mut WriteGuard<'_, W>,
    ) -> usize {
        let now = kernel::now();
        let mut inner = self.lock();
        inner.apply_commands(self);
        inner.with_unblock(self, |control| control.take_back(write.fd));
        writer.calls = true;
        writer.bypass_above = None;
        inner.writers.enter(writer.call());
        writer.over = inner.control.mode == Mode::Over;
        let mut queued = None;
        if inner.control.is_watched_closely(now) {
            // A blocking call returns when its last byte is in the buffer, but a subscriber to the readings needs those
            // before that.
            self.activate(runtime);
            queued = Some(kernel::queued(write.fd));
            if queued == Some(Bytes::ZERO) {
                // Without a reading now, this write would count as part of the transfer before it, or its start would
                // be unknown.
                inner.read(runtime, now, self);
            }
        }
        self.note_where_it_runs(&inner);
        if inner.is_bypassed() {
            return wanted;
        }
        let was_blocked = inner.control.flow.is_blocked();
        let counted = Bytes::new(wanted as u64);
        let begin = |inner: &mut Inner| {
            // The descriptor was just checked to be the connection's.
            let queued = || queued.unwrap_or_else(|| kernel::queued(write.fd));
            let unsent = || kernel::unsent(write.fd);
            inner.control.flow.begin_write(now, counted, queued, unsent)
        };
        let within = inner.writers.is_within_another(now);
        let cut = inner.cut && was_blocked;
        let mut room = (!within && !cut).then(|| begin(&mut inner));
        let mut waits = false;
        // It matters only then whether the program can be refused, and finding out costs a call.
        if room.is_none_or(|room| room.bytes < counted) {
            match (write.wait)() {
                Wait::No if self.waker().can_wake() => {}
                Wait::Unreachable | Wait::No => {
                    let leave = room.map_or(0, |room| room.bytes.get());
                    writer.bypass_above = Some((leave, Bypass::NoWakeup));
                    inner.control.lift_pacing(write.fd);
                    return wanted;
                }
                Wait::Yes(_) if within => return 0,
                Wait::Yes(_) => waits = true,
            }
            inner.control.resume_pacing();
        }
        if room.is_none() && (waits || !cut) {
            room = Some(begin(&mut inner));
        }
        let room = room.map_or(0, |room| {
            inner.control.flow.block(&room);
            room.bytes.get()
        });
        if inner.control.flow.is_blocked() {
            if !was_blocked {
                self.waker().on_blocked();
            }
            self.activate(runtime);
        }
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        // Threads that share a connection rely on small writes being whole. They are, as long as they fit into a
        // segment.
        if room > 0 && counted <= inner.control.flow.mss() {
            return wanted;
        }
        // A non-blocking program accepts a short write, which is one call.
        if room > 0 && write.whole && waits {
            writer.bypass_above = Some((room as u64, Bypass::ZeroCopy));
            return wanted;
        }
        if room == 0 && !waits && kernel::has_failed(write.fd) {
            // The program may know that there is an error, but only the kernel's result identifies it.
            return wanted;
        }
        if room < wanted {
            if waits {
                inner.writers.hold(now);
            } else {
                inner.cut |= room > 0;
                self.waker().on_refused();
            }
        }
        room
    }

    fn wrote(
        self: &Arc<Self>,
        runtime: &Arc<Runtime<W>>,
        n: usize,
        writer: &mut WriteGuard<'_, W>,
    ) {
        let now = kernel::now();
        let mut inner = self.lock();
        inner.writers.leave(writer.call());
        writer.calls = false;
        let short = std::mem::take(&mut writer.short);
        inner.control.has_more = writer.more || short;
        if short {
            self.waker().on_short();
        }
        if inner.control.is_resident() {
            return;
        }
        if n > 0 && inner.control.mode != Mode::Off {
            let n = n as u64;
            inner.control.flow.wrote(now, Bytes::new(n));
            if let Some((leave, why)) = writer.bypass_above {
                inner.control.bypassed(why, n.saturating_sub(leave));
            } else if inner.control.mode == Mode::Released {
                inner.control.bypassed(Bypass::Replaced, n);
            }
            // At once, because the process may end with its next call.
            inner.control.report();
            self.activate(runtime);
        }
    }

    /// Puts the connection into the loop. Called with the connection locked, as is the loop's decision to remove an
    /// idle one.
    fn activate(self: &Arc<Self>, runtime: &Arc<Runtime<W>>) {
        if !self.active.swap(true, Ordering::AcqRel) {
            runtime.adopt(Arc::clone(self));
        }
    }

    /// Waits in the program's own thread until there is room. A write that has written something already, or has a time
    /// limit, is not restarted after a signal handler.
    fn wait(
        &self,
        runtime: &Arc<Runtime<W>>,
        until: Option<Time>,
        nothing_done: bool,
    ) -> Result<(), c_int> {
        let waiting = kernel::SignalWait::new();
        while let Some(next) = self.blocked_until(runtime) {
            let now = kernel::now();
            if until.is_some_and(|until| until <= now) {
                return Err(libc::EAGAIN);
            }
            let next = next.min(now + RECHECK_INTERVAL);
            let restarts = until.is_none() && nothing_done;
            waiting.sleep(until.map_or(next, |until| until.min(next)), restarts)?;
        }
        Ok(())
    }

    /// Reads the counters if due, for a thread of the program that waits for room, in a write, poll or select. Returns
    /// the time of the next call, or `None` if there is room.
    pub fn blocked_until(&self, runtime: &Arc<Runtime<W>>) -> Option<Time> {
        runtime.guarded(|| {
            let now = kernel::now();
            let inner = &mut *self.lock();
            inner.apply_commands(self);
            if inner.is_bypassed() {
                return None;
            }
            inner.writers.see(now);
            if inner.control.flow.is_blocked() && now < inner.full_until {
                return Some(inner.full_until);
            }
            if inner.is_full(self) && inner.control.flow.deadline().is_none_or(|due| due <= now) {
                inner.read(runtime, now, self);
            }
            let full = inner.is_full(self);
            if !full && !inner.writers.is_within_another(now) {
                inner.cut = false;
                return None;
            }
            let next = inner
                .control
                .flow
                .deadline()
                .map_or(now + MAX_LATENESS, |due| {
                    due.max(now + Span::from_micros(50))
                });
            inner.read_by_waiter = next + MAX_LATENESS;
            if full && next.since(now) > SILENT {
                inner.full_until = next;
            }
            Some(next)
        })?
    }

    /// The program sets the pacing rate by `real`, which returns as setsockopt(2) does. The smaller of its rate and the
    /// algorithm's applies.
    pub fn set_pacing(&self, runtime: &Runtime<W>, fd: RawFd, real: impl Fn() -> c_int) -> c_int {
        let set = runtime.guarded(|| {
            let inner = &mut *self.lock();
            let rc = real();
            if rc == 0
                && let Some(rate) = kernel::pacing(fd)
            {
                inner.control.found_pacing(fd, rate);
            }
            rc
        });
        set.unwrap_or_else(real)
    }

    /// The program selects the kernel's congestion control by `real`, which returns as setsockopt(2) does. If the
    /// kernel enforces the limit, the socket gets this choice back at the end.
    pub fn select_under(&self, runtime: &Runtime<W>, fd: RawFd, real: impl Fn() -> c_int) -> c_int {
        let set = runtime.guarded(|| {
            let inner = &mut *self.lock();
            inner.control.count_resident(fd);
            let rc = real();
            if rc == 0 {
                inner.with_unblock(self, |control| control.found_under(fd));
                self.note_where_it_runs(inner);
            }
            rc
        });
        set.unwrap_or_else(real)
    }

    /// The program sets an option by `real` that we must not read and write meanwhile: a cork.
    pub fn set_alone(&self, runtime: &Runtime<W>, real: impl Fn() -> c_int) -> c_int {
        let set = runtime.guarded(|| {
            let _inner = self.lock();
            real()
        });
        set.unwrap_or_else(real)
    }

    /// The pacing rate that the program has set, bytes per second; `u64::MAX`: none.
    pub fn own_pacing(&self) -> u64 {
        self.lock().control.saved_options.own()
    }

    /// The state for a child process, which has a copy of this memory, but not of the threads that may have been
    /// changing it.
    pub fn inherited<T: Default>(&self, waits: impl FnOnce(&W) -> T) -> (Inherited, T) {
        let now = Span::ZERO;
        let (Some(inner), Some(waker)) =
            (lock_within(&self.inner, now), lock_within(&self.waker, now))
        else {
            return Default::default();
        };
        let before = Inherited {
            outbound: Some(inner.control.peer.outbound),
            pacing: Some(inner.control.saved_options.own()),
        };
        (before, waits(&waker))
    }

    /// Another process is about to get the socket, perhaps without our library: until the next write here the pacing
    /// rate is the program's own, and the last close restores the other options. What the kernel keeps for us is
    /// restored now if the other process `keeps` the socket, because it may never be closed here.
    pub fn lend(&self, fd: RawFd, keeps: bool) {
        let inner = &mut *self.lock();
        if !(inner.control.is_resident() || inner.control.is_kept_by_the_kernel()) {
            inner.control.lend(fd);
        } else if keeps {
            inner.control.note_elsewhere();
            self.give(inner, fd);
        }
    }

    /// Another program is about to replace this process, perhaps without our library: all of the socket's options are
    /// restored, whatever the loop does meanwhile. If the exec fails, the next write takes control again.
    pub fn hand_over(&self, fd: RawFd) {
        self.give(&mut self.lock(), fd);
    }

    fn give(&self, inner: &mut Inner, fd: RawFd) {
        if inner.control.is_in_charge() {
            inner.with_unblock(self, |control| control.release(Some(fd), Mode::HandedOver));
            self.note_where_it_runs(inner);
        }
    }

    /// The program is about to close a descriptor: it is never used again after this.
    pub fn close(&self, runtime: &Arc<Runtime<W>>, fd: RawFd) {
        let inner = &mut *self.lock();
        let last = inner.fds == [fd];
        if (last || inner.control.flow.is_blocked()) && self.is_same_socket(fd) {
            if !last || runtime.is_shared() {
                self.waker().on_leave(fd);
            }
            if last {
                inner.control.leave(fd, kernel::now());
                if runtime.is_shared() && !inner.stays_in_the_kernel() {
                    inner.control.restore(fd);
                }
            }
        }
        inner.fds.retain(|known| *known != fd);
        self.waker().on_close(fd);
        if inner.fds.is_empty() {
            inner.end(runtime, self);
        }
    }

    /// Returns to plain TCP, because the runtime failed or the process ends. If a stopped thread holds the connection,
    /// the program is woken at least, and that thread does the rest. This function catches panics, because its caller
    /// is the program.
    pub(crate) fn release(&self, why: Mode) {
        let release = || {
            if let Some(mut inner) = lock_within(&self.inner, BRIEFLY) {
                let fd = inner.fd(self);
                inner.with_unblock(self, |control| control.release(fd, why));
            } else if let Some(mut waker) = lock_within(&self.waker, BRIEFLY) {
                waker.on_writable(&[]);
            }
        };
        drop(catch_unwind(AssertUnwindSafe(release)));
    }

    /// The process ends, and others may keep the socket.
    pub(crate) fn leave_behind(&self, shared: bool) {
        if self.is_resident()
            && let Some(mut inner) = lock_within(&self.inner, BRIEFLY)
            && inner.stays_in_the_kernel()
        {
            if let Some(fd) = inner.fd(self) {
                inner.control.count_resident(fd);
            }
        } else if shared {
            self.release(Mode::Released);
        }
    }

    /// Reads the counters if due, in place of the loop's thread, which is stopped. Returns the time of the next call.
    /// `Err`: the thread was stopped with the connection locked.
    pub(crate) fn read_for_loop(
        &self,
        runtime: &Runtime<W>,
        now: Time,
    ) -> Result<Option<Time>, ()> {
        let mut inner = lock_within(&self.inner, BRIEFLY).ok_or(())?;
        if inner.control.deadline().is_some_and(|due| due <= now) {
            inner.read(runtime, now, self);
        }
        Ok(inner.control.deadline())
    }
}

/// The number of a command, never zero.
fn mark(generation: u64) -> u32 {
    generation as u32 | 1 << 31
}

/// Ends a write on every path, also in a cancelled thread.
struct WriteGuard<'a, W: Waker> {
    conn: &'a Conn<W>,
    runtime: &'a Runtime<W>,
    holds: bool,
    /// True in a real call.
    calls: bool,
    /// True if the kernel takes no more data.
    over: bool,
    /// True if the gate refused or cut the write.
    more: bool,
    /// True if the kernel had less room.
    short: bool,
    /// The number of bytes above which they bypass the gate, and the reason.
    bypass_above: Option<(u64, Bypass)>,
}

impl<W: Waker> WriteGuard<'_, W> {
    fn call(&self) -> Call {
        Call::of(self)
    }
}

impl<W: Waker> Drop for WriteGuard<'_, W> {
    fn drop(&mut self) {
        if self.holds || self.calls {
            self.runtime.guarded(|| {
                let inner = &mut *self.conn.lock();
                inner.writers.end(self.call());
            });
        }
    }
}

impl<W: Waker> Visit for Conn<W> {
    type Host = Runtime<W>;

    fn id(&self) -> u64 {
        self.id
    }

    /// Reads the counters and lets the algorithm act on them.
    fn visit(&self, runtime: &Runtime<W>, active: usize) -> Next {
        runtime.plane.visit();
        let now = kernel::now();
        // A stopped thread of the program that holds the lock must not delay the other connections.
        let Some(mut inner) = lock_within(&self.inner, BRIEFLY) else {
            return Next::at(now + SILENT);
        };
        let inner = &mut *inner;
        if inner.read_by_waiter > now {
            return Next::at(inner.read_by_waiter);
        }
        inner.apply_commands(self);
        if inner.control.is_in_charge() && !inner.control.is_resident() {
            inner.control.flow.set_active_flows(active);
            inner.read(runtime, now, self);
        }
        let over = inner.fds.is_empty();
        let calls = inner.writers.are_in_calls() && inner.control.is_watched_closely(now);
        let next = (inner.control.deadline())
            .or_else(|| calls.then_some(now + READ_IN_CALLS))
            .filter(|_| !over);
        if next.is_none() {
            self.active.store(false, Ordering::Release);
        }
        next.into()
    }
}
