// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controlled connections of a process.
use crate::conn::{Conn, Held, Inherited, Waker};
use crate::controlled::{Controlled, EXCUSED, Mode, Plan, Takeover};
use crate::event_loop;
use crate::plane::ControlPlane;
use crate::service_thread::ServiceThread;
use crate::{Deployment, ReentrancyGuard, Settings, Socket, kernel};
use alcc_cc::Registry;
use alcc_driver::{Activity, Driver};
use alcc_observe::{Event, Peer, Segment};
use alcc_units::{Span, Time};
use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Time by which a process whose first thread has ended may outlive its last own thread.
const EXIT_DELAY: Span = Span::from_millis(50);
/// Maximum time for which a call waits for our thread to end, if it must be single-threaded. On an idle machine the end
/// takes 0.1 ms.
const MAX_PAUSE: Span = Span::from_secs(1);
/// The same for a fork, which also works with a second thread.
const MAX_PAUSE_AT_FORK: Span = Span::from_millis(20);

/// If our thread is this late, it does not run: it is stopped by a debugger, or starved. Then the program's threads do
/// its work.
const STALLED: Span = Span::from_millis(500);
/// The same, if it has a connection locked.
const HELD: Span = Span::from_millis(700);
/// Interval at which a waiting thread of the program checks that ours runs.
const WATCH_INTERVAL: Span = Span::from_millis(250);

/// The state of a process with controlled connections.
pub struct Runtime<W: Waker> {
    settings: Settings,
    pub(crate) plane: Arc<ControlPlane>,
    plan: Arc<Plan>,
    /// A plan for each of the selection's rules, in their order.
    rule_plans: Vec<Arc<Plan>>,
    driver: Driver<Conn<W>>,
    /// All connections by the kernel's number of the socket: one connection may have several
    /// descriptors.
    known: Mutex<BTreeMap<u64, Weak<Conn<W>>>>,
    /// Held while a connection is added.
    attaching: Mutex<()>,
    /// True if the process has forked since it began.
    shared: AtomicBool,
    failed: AtomicBool,
    service_thread: ServiceThread,
    /// True if the process is to end with the last thread of the program.
    ends: AtomicBool,
    /// True if our thread was found not to run, and has not run since.
    stalled: AtomicBool,
}

/// Result of taking a descriptor under control.
pub enum Attached<W> {
    /// It is under control.
    Controlled(Arc<Conn<W>>),
    /// It will never be: the selection excludes it, it is not a TCP socket, or the runtime has failed.
    LeftAlone,
    /// It is not connected yet; the waker is given back.
    NotConnected(W),
}

/// Notes that streams of the C library may be written to this descriptor from now on. It matters only for a TCP
/// connection.
pub fn note_streams(segment: &Segment, fd: RawFd) {
    if let Socket::Connected(_) = kernel::classify(fd, None)
        && let (Some(cookie), Some(reading)) = (kernel::cookie(fd), kernel::read(fd))
    {
        segment.open_account(cookie, reading.progress.written, true);
    }
}

impl<W: Waker> Runtime<W> {
    /// A runtime without connections and without a thread.
    pub fn new(settings: Settings, registry: Registry, segment: Option<Arc<Segment>>) -> Self {
        let mut plan = Plan {
            cc: settings.cc.clone(),
            under: settings.under.clone(),
            stamped: settings.feedback.name == "timestamps",
            enforcement: settings.enforcement,
            deployment: Deployment::Preloaded,
            share: settings.share,
            seed: settings.seed,
        };
        if plan.under.is_some() {
            // The kernel enforces the limit by a control of its own.
            plan.do_without_the_kernel();
        }
        let rule_plans = settings.selection.rules.iter().map(|rule| {
            let mut new = Plan {
                cc: rule.cc.as_ref().unwrap_or(&plan.cc).clone(),
                under: rule.under.as_ref().or(plan.under.as_ref()).cloned(),
                ..plan.clone()
            };
            if new.under.is_some() {
                new.do_without_the_kernel();
            }
            Arc::new(new)
        });
        Self {
            rule_plans: rule_plans.collect(),
            plane: ControlPlane::new(registry, segment, settings.log.clone(), settings.fault),
            settings,
            plan: Arc::new(plan),
            driver: Driver::new(event_loop::SLACK),
            known: Mutex::new(BTreeMap::new()),
            attaching: Mutex::new(()),
            shared: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            service_thread: ServiceThread::new(),
            ends: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
        }
    }

    /// The settings of this process.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// True if the runtime has failed: everything is plain TCP from then on.
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Counts bytes of a connection that bypass us.
    pub(crate) fn passed(&self, cookie: u64, bytes: i64) {
        if let Some(segment) = self.plane.segment() {
            segment.passed(cookie, bytes);
        }
    }

    /// Runs `f`; `None` if it panics, if the runtime has failed already, or if this is a signal handler that
    /// interrupted the runtime: the connection is plain TCP then.
    pub fn guarded<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        if self.failed() {
            return None;
        }
        let inside = ReentrancyGuard::enter()?;
        let result = catch_unwind(AssertUnwindSafe(f));
        drop(inside);
        let why = |fault: Box<dyn Any + Send>| match fault.is::<Held>() {
            true => "a thread is stopped in the middle of its work",
            false => "internal error",
        };
        result.map_err(|fault| self.fail(why(fault))).ok()
    }

    /// Fails, and reports that once.
    pub fn fail(&self, why: &str) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            let pid = std::process::id();
            self.plane.on(&Event::RuntimeFailed { pid });
            let line = format!(
                "alcc: process {pid}: the runtime failed ({why}); its connections continue as plain TCP\n"
            );
            // SAFETY: pointer and length describe `line`. One write, so that lines of several
            // processes do not mix.
            unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
            self.release();
        }
    }

    /// Stops without a message: the program is about to forbid itself, and perhaps all its threads, system calls that
    /// we need.
    pub fn retire(&self) {
        let Some(_inside) = ReentrancyGuard::enter() else {
            return;
        };
        if !self.failed.swap(true, Ordering::AcqRel) {
            self.release();
        }
        self.service_thread.pause(|| self.driver.wake(), MAX_PAUSE);
    }

    /// Makes a call that must be single-threaded. True: its thread is the process's only one meanwhile. False: the
    /// program has others, or our thread does not end.
    pub fn single_threaded<T>(self: &Arc<Self>, call: impl FnOnce(bool) -> T) -> T {
        let paused = ReentrancyGuard::enter()
            .filter(|_| kernel::threads().is_none_or(|n| n <= 2))
            .is_some_and(|_inside| self.service_thread.pause(|| self.driver.wake(), MAX_PAUSE));
        let result = call(kernel::threads().is_none_or(|n| n == 1));
        if paused {
            let errno = kernel::errno();
            self.guarded(|| {
                self.service_thread.resume();
                if !self.driver.is_idle() {
                    self.ensure_thread();
                }
            });
            kernel::set_errno(errno);
        }
        result
    }

    /// Pauses our thread before a fork, because a program may count its threads afterwards, and warn (Python does). Not
    /// during a transfer, and not if the program has other threads.
    pub fn pause_before_fork(&self) {
        self.guarded(|| {
            let needless = self.service_thread.is_running() && self.driver.is_idle();
            if needless && kernel::threads() == Some(2) {
                self.service_thread
                    .pause(|| self.driver.wake(), MAX_PAUSE_AT_FORK);
                self.service_thread.resume();
            }
        });
    }

    /// Restores the sockets at the end of the process, because other processes may still hold them.
    pub fn give_back(&self) {
        let shared = self.is_shared();
        self.guarded(|| {
            for conn in self.connections() {
                conn.leave_behind(shared);
            }
        });
    }

    fn release(&self) {
        for conn in self.connections() {
            conn.release(Mode::Failed);
        }
        self.driver.wake();
    }

    fn connections(&self) -> Vec<Arc<Conn<W>>> {
        let known = alcc_sys::lock(&self.known);
        known.values().filter_map(Weak::upgrade).collect()
    }

    /// Takes control of a connected socket, if the selection includes it.
    pub fn attach(self: &Arc<Self>, fd: RawFd, before: Inherited, waker: W) -> Attached<W> {
        let mut waker = Some(waker);
        self.guarded(|| self.try_attach(fd, before, &mut waker))
            .unwrap_or(Attached::LeftAlone)
    }

    fn try_attach(
        self: &Arc<Self>,
        fd: RawFd,
        before: Inherited,
        waker: &mut Option<W>,
    ) -> Attached<W> {
        let (peer, waker) = match (kernel::classify(fd, before.outbound), waker.take()) {
            (Socket::Connected(peer), Some(waker)) => (peer, waker),
            (Socket::Unconnected, Some(waker)) => return Attached::NotConnected(waker),
            _ => return Attached::LeftAlone,
        };
        let Some(cookie) = kernel::cookie(fd) else {
            return Attached::LeftAlone;
        };
        let waker = match self.find_known(fd, cookie, waker) {
            Ok(conn) => return Attached::Controlled(conn),
            Err(waker) => waker,
        };
        if let Some(why) = self.settings.selection.leaves_alone(&peer) {
            self.plane.on(&Event::left_alone(why));
            return Attached::LeftAlone;
        }
        let Some(reading) = kernel::read(fd) else {
            self.fail("this kernel's TCP_INFO lacks bytes_sent: Linux 4.19 or later is needed");
            return Attached::LeftAlone;
        };
        let plan = self.plan_for(&peer);
        if self.is_inline() && plan.enforcement.is_the_kernels() {
            // No thread updates the kernel's limit while the program waits in a write.
            self.plane.maps.refuse();
        }
        let controller = (self.plane).build_for(&plan.cc, peer.remote.ip(), plan.share);
        let Ok(controller) = controller else {
            return Attached::LeftAlone;
        };
        // One at a time from here: the first adds the connection.
        let _one = alcc_sys::lock(&self.attaching);
        let waker = match self.find_known(fd, cookie, waker) {
            Ok(conn) => return Attached::Controlled(conn),
            Err(waker) => waker,
        };
        let written = reading.progress.written;
        let socket = Takeover {
            fd,
            cookie,
            peer,
            reading,
            pacing: before.pacing,
        };
        let control = Controlled::new(&self.plane, plan, controller, &socket);
        let conn = Arc::new(Conn::new(fd, cookie, control, waker));
        conn.begin(&socket);
        alcc_sys::lock(&self.known).insert(cookie, Arc::downgrade(&conn));
        if let Some(segment) = self.plane.segment() {
            segment.open_account(cookie, written, false);
            if conn.is_resident() {
                // No write of it is counted.
                segment.passed(cookie, EXCUSED);
            }
        }
        Attached::Controlled(conn)
    }

    /// The connection with this number, if it is known already: `fd` is another descriptor of it. Otherwise gives the
    /// waker back.
    fn find_known(&self, fd: RawFd, cookie: u64, waker: W) -> Result<Arc<Conn<W>>, W> {
        let known = alcc_sys::lock(&self.known)
            .get(&cookie)
            .and_then(Weak::upgrade);
        match known {
            Some(conn) => conn.add_fd(fd, waker).map(|()| conn),
            None => Err(waker),
        }
    }

    /// The plan of this connection.
    fn plan_for(&self, peer: &Peer) -> &Arc<Plan> {
        let selection = &self.settings.selection;
        let rule = selection.rule(peer);
        let mut all = selection.rules.iter().zip(&self.rule_plans);
        all.find(|(of, _)| rule.is_some_and(|rule| std::ptr::eq(*of, rule)))
            .map_or(&self.plan, |(_, plan)| plan)
    }

    /// Notes that other processes may have descriptors of the same connections from now on.
    pub fn shares(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Removes a connection, because its last descriptor is gone.
    pub(crate) fn forget(&self, conn: &Conn<W>, cookie: u64) {
        let mut known = alcc_sys::lock(&self.known);
        if known
            .get(&cookie)
            .is_some_and(|it| std::ptr::eq(it.as_ptr(), conn))
        {
            known.remove(&cookie);
        }
    }

    /// Puts a connection into the loop again, because it has something to do.
    pub(crate) fn adopt(self: &Arc<Self>, conn: Arc<Conn<W>>) {
        self.driver.adopt(conn, event_loop::FIRST_VISIT);
        self.ensure_thread();
    }

    /// Starts the thread if there is none, because there is work for it.
    fn ensure_thread(self: &Arc<Self>) {
        if let Some(number) = self.service_thread.claim_start() {
            let runtime = Arc::clone(self);
            if event_loop::thread(move || runtime.run(number)).is_err() {
                self.service_thread.set_unavailable();
            }
        }
    }

    fn run(&self, number: u32) {
        self.service_thread.on_start();
        self.plane.begin();
        while self.service_thread.may_run(number)
            && let Some(woke) = self.guarded(|| (kernel::now(), self.run_once()))
        {
            let (at, mut next) = woke;
            if self.stalled.load(Ordering::Relaxed) {
                self.stalled.store(false, Ordering::Relaxed);
            }
            if self.ends.load(Ordering::Acquire) {
                if kernel::threads().is_some_and(|n| n <= 2) {
                    // The same as the C library does in the last thread of a process.
                    std::process::exit(0);
                }
                let look = at + EXIT_DELAY;
                next = Some(next.map_or(look, |next| next.min(look)));
            }
            self.driver.sleep(next);
        }
        if self.failed() {
            // Connections that other threads found locked by this one.
            self.release();
        }
        self.guarded(|| self.driver.leave(&|activity| self.plane.worked(activity)));
    }

    /// Disables the thread: see [`Runtime::run_inline`]. To be called before the first connection.
    pub fn go_inline(&self) {
        self.service_thread.set_unavailable();
    }

    /// Notes that the program's first thread has ended without ending the process: when all others have, ours does.
    pub fn end_with_the_last(&self) {
        self.ends.store(true, Ordering::Release);
        self.driver.wake();
    }

    /// True if no thread could be started: the program's own threads have to call [`Runtime::run_inline`].
    pub fn is_inline(&self) -> bool {
        self.service_thread.is_unavailable()
    }

    /// Called before a program's thread writes. Does everything that is due if this process has no thread for the loop,
    /// or one that does not run. Returns the time of the next call.
    pub fn run_inline(&self) -> Option<Time> {
        if self.is_inline() {
            return self.guarded(|| self.run_once())?;
        }
        if !self.stalled.load(Ordering::Relaxed) {
            return None;
        }
        self.guarded(|| match self.driver.try_run_once(self) {
            Some(next) => next,
            None => self.run_without_loop(),
        })?
    }

    /// Called in a thread of the program, while the loop's is stopped in the middle of the loop. No other thread can
    /// run the loop then, but the connections can be read. If the stopped thread has one of them locked, the runtime
    /// fails.
    fn run_without_loop(&self) -> Option<Time> {
        let now = kernel::now();
        let mut next: Option<Time> = None;
        for conn in self.connections() {
            match conn.read_for_loop(self, now) {
                Ok(due) => next = next.into_iter().chain(due).min(),
                Err(()) if self.driver.expected().is_some_and(|due| now > due + HELD) => {
                    Held::give_up()
                }
                Err(()) => {}
            }
        }
        next
    }

    /// The same as [`Runtime::run_inline`], for a thread that waits or was refused: it also checks that the loop's
    /// thread runs. `None`: nothing waits for that thread.
    pub fn watch(&self) -> Option<Time> {
        let due = self.driver.expected();
        let now = kernel::now();
        if due.is_some_and(|due| now > due + STALLED) {
            self.stalled.store(true, Ordering::Relaxed);
        }
        let next = due.map(|_| now + WATCH_INTERVAL);
        match self.run_inline() {
            Some(due) => Some(next.map_or(due, |next| next.min(due))),
            None => next.filter(|_| !self.is_inline()),
        }
    }

    /// True if a waiting thread of the program has to call [`Runtime::watch`] again.
    pub fn is_watched(&self) -> bool {
        self.is_inline() || self.driver.expected().is_some()
    }

    /// Does everything that is due. Returns the time of the next run.
    fn run_once(&self) -> Option<Time> {
        let report = |activity| self.plane.worked(activity);
        // In the program's own threads the CPU time is the program's.
        let report: Option<&dyn Fn(Activity)> = if self.is_inline() {
            None
        } else {
            Some(&report)
        };
        self.driver.run_once(self, report)
    }
}
