// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop.
use crate::conn::{Conn, Next, Waker};
use crate::log::Log;
use crate::{Report, Settings, Totals, kernel};
use alcc_cc::{Discard, Registry};
use alcc_flow::OverTcp;
use alcc_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

/// The loop wakes at most once in this time, however many connections there are.
const SHORTEST_SLEEP: Span = Span::from_micros(250);

/// Everything that a process knows about its controlled connections.
pub struct Runtime<W: Waker> {
    settings: Settings,
    registry: Registry,
    report: Option<Report>,
    /// Connections that became active since the loop last looked.
    inbox: Mutex<Vec<Arc<Conn<W>>>>,
    bell: RawFd,
    failed: AtomicBool,
    next_id: AtomicU64,
    readings: AtomicU64,
    start: Once,
}

impl<W: Waker> Runtime<W> {
    /// A runtime without connections and, so far, without a thread.
    ///
    /// # Errors
    /// When the kernel gives no event descriptor.
    pub fn new(settings: Settings, registry: Registry, report: Option<Report>) -> io::Result<Self> {
        // SAFETY: no pointers.
        let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if bell < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            settings,
            registry,
            report,
            inbox: Mutex::new(Vec::new()),
            bell,
            failed: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            readings: AtomicU64::new(0),
            start: Once::new(),
        })
    }

    /// What this process was told to do.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// True once the runtime has given up: everything is plain TCP from then on.
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Adds to the shared counters.
    pub fn count(&self, totals: &Totals) {
        if let Some(report) = &self.report {
            report.add(totals);
        }
    }

    /// Runs `f`; if it panics, or the runtime has failed already, the connection is plain TCP: `None`.
    pub fn guarded<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        if self.failed() {
            return None;
        }
        catch_unwind(AssertUnwindSafe(f))
            .map_err(|_| self.fail("internal error"))
            .ok()
    }

    /// Gives up, and says so once.
    pub fn fail(&self, why: &str) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            self.count(&Totals {
                failures: 1,
                ..Totals::default()
            });
            let line = format!(
                "alcc: process {}: the runtime failed ({why}); its connections go on as plain TCP\n",
                std::process::id()
            );
            // SAFETY: pointer and length describe `line`. One write, so that lines of several processes do not mix.
            unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
            self.ring();
        }
    }

    /// Takes control of a connected socket, if the selection covers it.
    pub fn attach(self: &Arc<Self>, fd: RawFd, outbound: bool, waker: W) -> Option<Arc<Conn<W>>> {
        let peer = kernel::peer_of(fd, outbound)?;
        if !self.settings.selection.covers(&peer) {
            self.count(&Totals {
                left_alone: 1,
                ..Totals::default()
            });
            return None;
        }
        if let Some(name) = &self.settings.under {
            let same = kernel::under(fd).is_some_and(|now| now == *name);
            if !same && kernel::set_under(fd, name).is_err() {
                self.count(&Totals {
                    under_refused: 1,
                    ..Totals::default()
                });
            }
        }
        let Some(progress) = kernel::tcp_progress(fd) else {
            self.fail("this kernel's TCP_INFO lacks bytes_sent: Linux 4.19 or later is needed");
            return None;
        };
        self.start.call_once(|| self.spawn());
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let seed = self.settings.seed ^ id.rotate_left(32);
        let conn = self.guarded(|| {
            let cc = self.registry.build(&self.settings.cc).ok()?;
            Some(Conn::new(
                fd,
                id,
                OverTcp::new(cc, kernel::now(), &progress, seed, &mut Discard),
                waker,
            ))
        })??;
        self.count(&Totals {
            connections: 1,
            ..Totals::default()
        });
        Some(Arc::new(conn))
    }

    /// A resting connection has something to do.
    pub(crate) fn adopt(&self, conn: Arc<Conn<W>>) {
        self.inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(conn);
        self.ring();
    }

    fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes, as an eventfd wants. Full means that it is ringing already.
        unsafe { libc::write(self.bell, (&raw const one).cast(), 8) };
    }

    /// Signals belong to the program: the loop's thread takes none.
    fn spawn(self: &Arc<Self>) {
        let runtime = Arc::clone(self);
        // SAFETY: plain signal-set calls on local, initialised sets; the mask is restored.
        let spawned = unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            let spawned = std::thread::Builder::new()
                .name("alcc".to_owned())
                .stack_size(256 * 1024)
                .spawn(move || runtime.run());
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            spawned
        };
        if let Err(error) = spawned {
            self.fail(&format!("no thread could be started: {error}"));
        }
    }

    fn run(&self) {
        // SAFETY: sets this thread's timer slack to 1 ns; without it every sleep is 50 us late.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let mut work = Work::new(self);
        if catch_unwind(AssertUnwindSafe(|| {
            while !self.failed() {
                work.turn(self);
            }
        }))
        .is_err()
        {
            self.fail("internal error");
        }
        // Plain TCP from here on: every gate opens, for connections we know and those still to come.
        loop {
            work.take_inbox(self);
            work.release();
            work.sleep(self, None);
        }
    }
}

/// What only the loop's thread touches.
struct Work<W: Waker> {
    conns: BTreeMap<u64, Arc<Conn<W>>>,
    due: BinaryHeap<Reverse<(Time, u64)>>,
    log: Option<Log>,
    cpu: Span,
    cpu_read: Time,
}

impl<W: Waker> Work<W> {
    fn new(runtime: &Runtime<W>) -> Self {
        let now = kernel::now();
        let log = runtime
            .settings
            .log
            .as_deref()
            .and_then(|folder| Log::open(folder, now));
        Self {
            conns: BTreeMap::new(),
            due: BinaryHeap::new(),
            log,
            cpu: Span::ZERO,
            cpu_read: now,
        }
    }

    /// One wake-up: everything that is due, then sleep.
    fn turn(&mut self, runtime: &Runtime<W>) {
        self.take_inbox(runtime);
        let woke = kernel::now();
        while let Some(&Reverse((at, id))) = self.due.peek() {
            if at > woke {
                break;
            }
            self.due.pop();
            self.visit(runtime, id);
        }
        let next = self.due.peek().map(|Reverse((at, _))| *at);
        self.account(runtime, next.is_none());
        self.sleep(runtime, next.map(|at| at.max(woke + SHORTEST_SLEEP)));
    }

    fn visit(&mut self, runtime: &Runtime<W>, id: u64) {
        let Some(conn) = self.conns.get(&id) else {
            return;
        };
        let readings = runtime.readings.fetch_add(1, Ordering::Relaxed);
        assert!(
            runtime.settings.fault.is_none_or(|n| readings < n),
            "fault asked for"
        );
        match conn.visit(runtime, &mut self.log) {
            Next::At(at) => self.due.push(Reverse((at, id))),
            Next::Rest => drop(self.conns.remove(&id)),
        }
    }

    fn take_inbox(&mut self, runtime: &Runtime<W>) {
        let mut inbox = runtime.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let now = kernel::now();
        for conn in inbox.drain(..) {
            // The first reading comes when there may be something to read.
            self.due
                .push(Reverse((now + Span::from_millis(1), conn.id)));
            self.conns.insert(conn.id, conn);
        }
    }

    fn release(&mut self) {
        self.conns.values().for_each(|conn| conn.release());
        self.conns.clear();
    }

    fn account(&mut self, runtime: &Runtime<W>, resting: bool) {
        let now = kernel::now();
        if resting || now.since(self.cpu_read) > Span::from_millis(200) {
            let cpu = kernel::thread_cpu();
            runtime.count(&Totals {
                runtime_cpu_ns: cpu.saturating_sub(self.cpu).as_nanos(),
                ..Totals::default()
            });
            (self.cpu, self.cpu_read) = (cpu, now);
            if let Some(log) = &mut self.log {
                log.flush();
            }
        }
    }

    fn sleep(&self, runtime: &Runtime<W>, until: Option<Time>) {
        let left = until.map(|at| at.since(kernel::now()).as_nanos());
        if left == Some(0) {
            return;
        }
        let timeout = left.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        let timeout = timeout
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        let mut bell = libc::pollfd {
            fd: runtime.bell,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut count = 0u64;
        // SAFETY: one pollfd, an optional timeout that outlives the call, and an eight-byte buffer for the eventfd.
        unsafe {
            if libc::ppoll(&raw mut bell, 1, timeout, std::ptr::null()) > 0 {
                libc::read(runtime.bell, (&raw mut count).cast(), 8);
            }
        }
    }
}
