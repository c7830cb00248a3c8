// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets of programs that already run, without our library.
//!
//! The kernel enforces the limit by `alcc_window`; this process only sets it. It holds no socket,
//! because a program's close while another process has the socket would end neither the connection
//! nor its epoll events. A descriptor of the socket is needed to reach the maps of `alcc_window`.
//! There is one for some microseconds to read, and one to set changes, and none while the algorithm
//! runs. When this process ends, in whatever way, the kernel restores each socket.
use crate::controlled::{Controlled, Mode, Plan, Seen, Takeover};
use crate::kernel::{self, Before, Process, Socket};
use crate::plane::ControlPlane;
use crate::triple::{Deployment, Enforcement};
use crate::{event_loop, steering};
use alcc_cc::{Registry, Spec, SpecError};
use alcc_driver::{Driver, Next, Visit};
use alcc_flow::TcpProgress;
use alcc_observe::Segment;
use alcc_units::{Bytes, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Interval at which a connection that is switched off checks for a command.
const OFF_CHECK: Span = Span::from_millis(200);

/// The place of a socket: a process, and its descriptor there.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The process.
    pub process: Arc<Process>,
    /// Its descriptor.
    pub fd: RawFd,
}

impl Holder {
    /// Duplicates the descriptor for a moment. `None`: it is another socket by now, or closed.
    fn socket(&self, cookie: u64) -> Option<OwnedFd> {
        let socket = self.process.descriptor(self.fd).ok()?;
        (kernel::cookie(socket.as_raw_fd()) == Some(cookie)).then_some(socket)
    }
}

/// The reason why a socket is not taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// It was closed meanwhile.
    #[error("it has been closed meanwhile")]
    Gone,
    /// It is not a connection of plain TCP, but MPTCP, for example.
    #[error("it is not a plain TCP connection")]
    Other,
    /// A program sets its window already.
    #[error("another program controls it")]
    Steered,
    /// There is no such algorithm.
    #[error("{0}")]
    Algorithm(SpecError),
    /// The algorithm has panicked.
    #[error("the algorithm failed")]
    Failed,
    /// The kernel refuses control of it.
    #[error("the kernel refuses alcc_window for it")]
    Refused,
}

/// The state of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// It was never taken.
    No,
    /// It is under control, or was and is left alone now.
    Yes,
    /// It is under control, but its descriptor has moved: take it again.
    Moved,
}

/// Controls the sockets of other programs by one algorithm.
pub struct Others {
    plane: Arc<ControlPlane>,
    plan: Arc<Plan>,
    driver: Driver<Connection>,
    /// By the kernel's number of the socket.
    known: Mutex<BTreeMap<u64, Arc<Connection>>>,
}

struct Connection {
    id: u64,
    cookie: u64,
    inner: Mutex<Inner>,
    /// True if the loop knows the connection and reads its counters.
    active: AtomicBool,
}

struct Inner {
    place: Place,
    control: Controlled,
    /// Bytes of the stream that had been sent at the last reading.
    passed: u64,
    /// Bytes that had been sent when the socket was last seen.
    sent: u64,
}

enum Place {
    At(Holder),
    /// The socket was closed there, or is in another process by now.
    Lost,
    /// Control of it has ended.
    Done,
}

fn passed(tcp: &TcpProgress) -> u64 {
    tcp.written.saturating_sub(tcp.unsent.get())
}

impl Others {
    /// Starts the loop's thread, without sockets.
    ///
    /// # Errors
    /// `NotFound`: `alcc_window` is not loaded. `PermissionDenied`: this process may not record the
    /// socket's earlier state, which needs root. The error of starting a thread.
    pub fn start(
        cc: Spec,
        registry: Registry,
        segment: Option<Arc<Segment>>,
    ) -> io::Result<Arc<Self>> {
        let plane = ControlPlane::of_others(registry, segment, Before::open()?);
        plane.maps.get()?;
        let deployment = Deployment::Preloaded;
        let enforcement = (Enforcement::of(deployment).find(|e| e.kernel)).copied();
        let enforcement = enforcement.ok_or(io::ErrorKind::Unsupported)?;
        let plan = Plan {
            cc,
            under: None,
            share: false,
            stamped: false,
            enforcement,
            deployment,
            seed: 0,
        };
        let others = Arc::new(Self {
            plane,
            plan: Arc::new(plan),
            driver: Driver::new(event_loop::SLACK),
            known: Mutex::default(),
        });
        let this = Arc::clone(&others);
        event_loop::thread(move || this.run())?;
        Ok(others)
    }

    fn run(&self) {
        let report = |activity| self.plane.worked(activity);
        loop {
            let next = self.driver.run_once(self, Some(&report));
            self.driver.sleep(next);
        }
    }

    /// Puts another process's connection under control. Returns its earlier congestion control.
    ///
    /// # Errors
    /// The reason why not; the socket is unchanged.
    pub fn take(&self, holder: Holder, cookie: u64) -> Result<String, TakeError> {
        let socket = holder.socket(cookie).ok_or(TakeError::Gone)?;
        let fd = socket.as_raw_fd();
        let before = kernel::under(fd).ok_or(TakeError::Gone)?;
        let known = alcc_sys::lock(&self.known).get(&cookie).cloned();
        if let Some(known) = known {
            alcc_sys::lock(&known.inner).place = Place::At(holder);
            self.wake(known);
            return Ok(before);
        }
        if steering::holds(fd) {
            return Err(TakeError::Steered);
        }
        let connection = Arc::new(self.begin(socket, holder, cookie)?);
        alcc_sys::lock(&self.known).insert(cookie, Arc::clone(&connection));
        self.wake(connection);
        Ok(before)
    }

    fn begin(&self, socket: OwnedFd, holder: Holder, cookie: u64) -> Result<Connection, TakeError> {
        let fd = socket.as_raw_fd();
        let peer = match kernel::classify(fd, None) {
            Socket::Connected(peer) => peer,
            Socket::Unconnected => return Err(TakeError::Gone),
            Socket::Other => return Err(TakeError::Other),
        };
        let reading = kernel::read(fd).ok_or(TakeError::Gone)?;
        drop(socket);
        // While the algorithm is made, however long that takes, only the program holds the socket.
        let controller = (self.plane.build(&self.plan.cc)).map_err(TakeError::Algorithm)?;
        let passed = passed(&reading.progress);
        let mut takeover = Takeover {
            fd,
            cookie,
            peer,
            reading,
            pacing: None,
        };
        let mut control = Controlled::new(&self.plane, &self.plan, controller, &takeover);
        let first = {
            let socket = holder.socket(cookie).ok_or(TakeError::Gone)?;
            takeover.fd = socket.as_raw_fd();
            control.enter(&takeover)
        };
        let tcp = &takeover.reading.progress;
        let start = || control.start_algorithm(tcp);
        let failed = catch_unwind(AssertUnwindSafe(start)).is_err();
        let why = match holder.socket(cookie) {
            None => Some((None, Mode::Over, TakeError::Gone)),
            Some(socket) if failed => Some((Some(socket), Mode::Failed, TakeError::Failed)),
            Some(socket) => {
                control.started(socket.as_raw_fd(), tcp, first.as_ref());
                let refused = !control.is_kept_by_the_kernel();
                refused.then_some((Some(socket), Mode::Released, TakeError::Refused))
            }
        };
        if let Some((socket, mode, why)) = why {
            control.release(socket.as_ref().map(AsRawFd::as_raw_fd), mode);
            control.end();
            return Err(why);
        }
        Ok(Connection {
            id: control.id,
            cookie,
            inner: Mutex::new(Inner {
                place: Place::At(holder),
                control,
                passed,
                sent: 0,
            }),
            active: AtomicBool::new(false),
        })
    }

    /// Puts a connection into the loop, because it may have data to send.
    fn wake(&self, connection: Arc<Connection>) {
        if !connection.active.swap(true, Ordering::AcqRel) {
            self.driver.adopt(connection, Span::ZERO);
        }
    }

    /// Notes that the socket was seen, with the number of bytes sent.
    pub fn see(&self, cookie: u64, sent: u64) -> Known {
        let Some(connection) = alcc_sys::lock(&self.known).get(&cookie).cloned() else {
            return Known::No;
        };
        let inner = &mut *connection.lock();
        let more = std::mem::replace(&mut inner.sent, sent) != sent;
        match inner.place {
            Place::Lost => return Known::Moved,
            Place::At(_) if more => self.wake(Arc::clone(&connection)),
            Place::At(_) | Place::Done => {}
        }
        Known::Yes
    }

    /// Sets which sockets still exist: all other connections have ended.
    pub fn keep(&self, there: &BTreeSet<u64>) {
        alcc_sys::lock(&self.known).retain(|cookie, connection| {
            let stays = there.contains(cookie);
            if !stays {
                connection.lock().finish();
            }
            stays
        });
    }

    /// The number of connections under control.
    pub fn count(&self) -> usize {
        let known = alcc_sys::lock(&self.known);
        let steered = |c: &&Arc<Connection>| !matches!(c.lock().place, Place::Done);
        known.values().filter(steered).count()
    }

    /// Restores all sockets. Returns their number.
    pub fn give_back(&self) -> usize {
        let known: Vec<_> = alcc_sys::lock(&self.known).values().cloned().collect();
        known
            .iter()
            .filter(|connection| connection.give_back())
            .count()
    }
}

impl Connection {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        alcc_sys::lock(&self.inner)
    }

    /// Restores the socket. False if it had ended.
    fn give_back(&self) -> bool {
        let inner = &mut *self.lock();
        let Some(socket) = inner.socket(self.cookie) else {
            return false;
        };
        let ours = inner.control.is_in_charge();
        if ours {
            (inner.control).release(Some(socket.as_raw_fd()), Mode::Released);
        }
        inner.finish();
        ours
    }
}

impl Inner {
    fn socket(&mut self, cookie: u64) -> Option<OwnedFd> {
        let Place::At(holder) = &self.place else {
            return None;
        };
        let socket = holder.socket(cookie);
        if socket.is_none() {
            self.place = Place::Lost;
        }
        socket
    }

    fn finish(&mut self) {
        self.place = Place::Done;
        self.control.end();
    }

    /// Reads the counters and passes them to the algorithm. `None`: the socket is lost.
    fn read(&mut self, cookie: u64, now: Time, active: usize) -> Option<()> {
        let seen = {
            let socket = self.socket(cookie)?;
            self.observe(socket.as_raw_fd(), now, active)
        };
        let Some(seen) = seen else {
            return Some(());
        };
        let (tcp, control) = (&seen.reading.progress, &mut self.control);
        if control.learn(now, &seen) {
            let socket = self.socket(cookie)?;
            self.control.set_limit(socket.as_raw_fd(), now, tcp);
        }
        self.control.conclude(now, &seen.reading, None);
        // The program's writes are known from the counters alone.
        let sent = passed(tcp);
        let more = Bytes::new(sent.saturating_sub(self.passed));
        self.passed = self.passed.max(sent);
        if more > Bytes::ZERO && self.control.is_in_charge() {
            self.control.flow.wrote(now, more);
            self.control.report();
        }
        Some(())
    }

    fn observe(&mut self, fd: RawFd, now: Time, active: usize) -> Option<Seen> {
        if let Some(commands) = self.control.commands() {
            self.control.apply_commands(&commands, Some(fd));
        }
        if !self.control.is_in_charge() {
            return None;
        }
        self.control.flow.set_active_flows(active);
        let seen = self.control.observe(fd, now, None);
        if self.control.is_in_charge() && !self.control.is_kept_by_the_kernel() {
            // No other code could release it, because the program's writes do not pass here.
            self.control.release(Some(fd), Mode::Released);
            return None;
        }
        if let Some(seen) = &seen {
            self.control.found_pacing(fd, seen.reading.pacing);
        }
        seen
    }
}

impl Visit for Connection {
    type Host = Others;

    fn id(&self) -> u64 {
        self.id
    }

    fn visit(&self, others: &Others, active: usize) -> Next {
        let inner = &mut *self.lock();
        others.plane.visit();
        let read = || inner.read(self.cookie, kernel::now(), active);
        let read = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
            let socket = inner.socket(self.cookie)?;
            (inner.control).release(Some(socket.as_raw_fd()), Mode::Failed);
            Some(())
        });
        let next = read.and_then(|()| {
            match inner.control.mode {
                // Until a command of 'alcc ctl'.
                Mode::Off => Some(kernel::now() + OFF_CHECK),
                Mode::Controlled => inner.control.deadline(),
                Mode::Failed | Mode::Released | Mode::Over | Mode::HandedOver => {
                    inner.finish();
                    None
                }
            }
        });
        if next.is_none() {
            // With the connection locked, as is the decision to wake it.
            self.active.store(false, Ordering::Release);
        }
        next.into()
    }
}
