// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a process knows about its controlled connections.
use crate::conn::{Conn, Held, Inherited, Waker};
use crate::controlled::{Controlled, Mode, Plan, Takeover};
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

/// How long a process whose first thread has ended may outlive the last thread of its own.
const EXIT_DELAY: Span = Span::from_millis(50);
/// Maximum time that a call waits for our thread to end, where it cannot work beside one. On an idle
/// machine the end takes 0.1 ms.
const MAX_PAUSE: Span = Span::from_secs(1);
/// The same for a fork, which works beside one too.
const MAX_PAUSE_AT_FORK: Span = Span::from_millis(20);

/// A thread of ours that is so late does not run: it is stopped by a debugger, or starved. The
/// program's threads do its work then.
const STALLED: Span = Span::from_millis(500);
/// The same, where it has a connection locked.
const HELD: Span = Span::from_millis(700);
/// How often a waiting thread of the program looks whether ours runs.
const WATCH_INTERVAL: Span = Span::from_millis(250);

/// Everything that a process knows about its controlled connections.
pub struct Runtime<W: Waker> {
    settings: Settings,
    pub(crate) plane: Arc<ControlPlane>,
    plan: Arc<Plan>,
    /// One for each of the selection's rules, in their order.
    rule_plans: Vec<Arc<Plan>>,
    driver: Driver<Conn<W>>,
    /// All connections by the kernel's number of the socket: one connection may have several
    /// descriptors.
    known: Mutex<BTreeMap<u64, Weak<Conn<W>>>>,
    /// Held while one becomes known.
    attaching: Mutex<()>,
    /// The process has made others since it began.
    shared: AtomicBool,
    failed: AtomicBool,
    service_thread: ServiceThread,
    /// Only threads that the program made are left: the process is to end with the last of them.
    ends: AtomicBool,
    /// Our thread was found not to run, and has not since.
    stalled: AtomicBool,
}

/// What became of a descriptor that was to be controlled.
pub enum Attached<W> {
    /// It is.
    Controlled(Arc<Conn<W>>),
    /// Not covered by the selection, no TCP socket, or the runtime has failed: it never will be.
    LeftAlone,
    /// Not connected yet; the waker is given back.
    NotConnected(W),
}

/// Streams of the C library may be written to this descriptor from now on. Not of interest unless
/// it is a TCP connection.
pub fn note_streams(segment: &Segment, fd: RawFd) {
    if let Socket::Connected(_) = kernel::classify(fd, None)
        && let (Some(cookie), Some(reading)) = (kernel::cookie(fd), kernel::read(fd))
    {
        segment.open_account(cookie, reading.progress.written, true);
    }
}

impl<W: Waker> Runtime<W> {
    /// A runtime without connections and, so far, without a thread.
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
            // The kernel keeps the limit by a control of its own.
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

    /// True once the runtime has given up: everything is plain TCP from then on.
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Counts bytes of a connection that pass by us.
    pub(crate) fn passed(&self, cookie: u64, bytes: i64) {
        if let Some(segment) = self.plane.segment() {
            segment.passed(cookie, bytes);
        }
    }

    /// Runs `f`; `None` if it panics, if the runtime has failed already, or if this is a signal
    /// handler that interrupted the runtime: then the connection is plain TCP.
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

    /// Gives up, and says so once.
    pub fn fail(&self, why: &str) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            let pid = std::process::id();
            self.plane.on(&Event::RuntimeFailed { pid });
            let line = format!(
                "alcc: process {pid}: the runtime failed ({why}); its connections go on as plain TCP\n"
            );
            // SAFETY: pointer and length describe `line`. One write, so that lines of several
            // processes do not mix.
            unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
            self.release();
        }
    }

    /// Gives up without a word: the program is about to forbid itself, and perhaps all its threads,
    /// what we need.
    pub fn retire(&self) {
        let Some(_inside) = ReentrancyGuard::enter() else {
            return;
        };
        if !self.failed.swap(true, Ordering::AcqRel) {
            self.release();
        }
        self.service_thread.pause(|| self.driver.wake(), MAX_PAUSE);
    }

    /// Makes a call for which our thread would be one too many. True: it is the process's only
    /// thread meanwhile. False: the program has others, or our thread is not to be got rid of.
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

    /// Before a fork: a program may count its threads afterwards, and warn (Python does). Not in
    /// the middle of a transfer, and not where the program has other threads.
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

    /// The process ends, and others may keep its sockets: they are as the program has set them.
    pub fn give_back(&self) {
        if self.is_shared() {
            self.guarded(|| {
                for conn in self.connections() {
                    conn.release(Mode::Released);
                }
            });
        }
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

    /// Takes control of a connected socket, if the selection covers it.
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
        if self.is_inline() && plan.enforcement.kernel {
            // Nobody answers acknowledgements while the program waits in a write.
            self.plane.maps.refuse();
        }
        let controller = (self.plane).build_for(&plan.cc, peer.remote.ip(), plan.share);
        let Ok(controller) = controller else {
            return Attached::LeftAlone;
        };
        // One at a time from here: the first has the connection.
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
        }
        Attached::Controlled(conn)
    }

    /// The connection with this number, if it is known already: `fd` is another descriptor of it.
    /// Else the waker, given back.
    fn find_known(&self, fd: RawFd, cookie: u64, waker: W) -> Result<Arc<Conn<W>>, W> {
        let known = alcc_sys::lock(&self.known)
            .get(&cookie)
            .and_then(Weak::upgrade);
        match known {
            Some(conn) => conn.add_fd(fd, waker).map(|()| conn),
            None => Err(waker),
        }
    }

    /// How this connection is to be controlled.
    fn plan_for(&self, peer: &Peer) -> &Arc<Plan> {
        let selection = &self.settings.selection;
        let rule = selection.rule(peer);
        let mut all = selection.rules.iter().zip(&self.rule_plans);
        all.find(|(of, _)| rule.is_some_and(|rule| std::ptr::eq(*of, rule)))
            .map_or(&self.plan, |(_, plan)| plan)
    }

    /// Other processes may have descriptors of the same connections from now on.
    pub fn shares(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// The last descriptor of a connection is gone.
    pub(crate) fn forget(&self, conn: &Conn<W>, cookie: u64) {
        let mut known = alcc_sys::lock(&self.known);
        if known
            .get(&cookie)
            .is_some_and(|it| std::ptr::eq(it.as_ptr(), conn))
        {
            known.remove(&cookie);
        }
    }

    /// A resting connection has something to do.
    pub(crate) fn adopt(self: &Arc<Self>, conn: Arc<Conn<W>>) {
        self.driver.adopt(conn, event_loop::FIRST_VISIT);
        self.ensure_thread();
    }

    /// Makes the thread if there is none: there is work for it.
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
                    // What the C library does in the last thread of a process.
                    std::process::exit(0);
                }
                let look = at + EXIT_DELAY;
                next = Some(next.map_or(look, |next| next.min(look)));
            }
            self.driver.sleep(next);
        }
        if self.failed() {
            // What others found locked by this thread.
            self.release();
        }
        self.guarded(|| self.driver.leave(&|activity| self.plane.worked(activity)));
    }

    /// Makes no thread: see [`Runtime::run_inline`]. To be called before the first connection.
    pub fn go_inline(&self) {
        self.service_thread.set_unavailable();
    }

    /// The program's first thread has ended, and did not end the process: when all others have,
    /// ours does.
    pub fn end_with_the_last(&self) {
        self.ends.store(true, Ordering::Release);
        self.driver.wake();
    }

    /// No thread could be made: the program's own threads have to call [`Runtime::run_inline`].
    pub fn is_inline(&self) -> bool {
        self.service_thread.is_unavailable()
    }

    /// Before a program's thread writes: does what is due if this process has no thread for the
    /// loop, or one that does not run. When to come back.
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

    /// For a thread of the program, while the loop's is stopped in the middle of the loop: nobody
    /// else can run that, but the connections can be read. If it has one of them locked, we give up.
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

    /// As [`Runtime::run_inline`], for a thread that waits or was refused: it also looks whether
    /// the loop's thread runs. `None`: nothing waits for that thread.
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

    /// Whether a waiting thread of the program has to come back for [`Runtime::watch`].
    pub fn is_watched(&self) -> bool {
        self.is_inline() || self.driver.expected().is_some()
    }

    /// Everything that is due; when the next is.
    fn run_once(&self) -> Option<Time> {
        let tell = |activity| self.plane.worked(activity);
        // In the program's own threads the time is the program's.
        let tell: Option<&dyn Fn(Activity)> = if self.is_inline() { None } else { Some(&tell) };
        self.driver.run_once(self, tell)
    }
}
