// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets of programs that run already and know nothing of us.
//!
//! The kernel keeps the limit by `alcc_window`; this process only sets it. It holds no socket: a
//! program's close while somebody else has the socket ends neither the connection nor what epoll
//! reports of it. The maps of `alcc_window` are reached by a descriptor. There is one for some
//! microseconds to read, and one to set what has changed, and none while the algorithm works.
//! When this process ends, in whatever way, the kernel gives each socket back what it had.
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

/// A connection that is switched off asks this often whether it still is.
const OFF_CHECK: Span = Span::from_millis(200);

/// Where a socket is to be had: a process, and its descriptor there.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The process.
    pub process: Arc<Process>,
    /// Its descriptor.
    pub fd: RawFd,
}

impl Holder {
    /// A descriptor for a moment. `None`: it is another socket by now, or closed.
    fn socket(&self, cookie: u64) -> Option<OwnedFd> {
        let socket = self.process.descriptor(self.fd).ok()?;
        (kernel::cookie(socket.as_raw_fd()) == Some(cookie)).then_some(socket)
    }
}

/// Why a socket is not taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// It was closed meanwhile.
    #[error("it was closed meanwhile")]
    Gone,
    /// It is no connection of plain TCP: MPTCP, for example.
    #[error("it is not a plain TCP connection")]
    Other,
    /// A program sets its window already.
    #[error("another program steers it")]
    Steered,
    /// There is no such algorithm.
    #[error("{0}")]
    Algorithm(SpecError),
    /// The algorithm has panicked.
    #[error("the algorithm failed")]
    Failed,
    /// The kernel does not let it be steered.
    #[error("the kernel refuses alcc_window for it")]
    Refused,
}

/// Is a socket under control?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// Never taken.
    No,
    /// It is, or was and is left alone now.
    Yes,
    /// It is, but its descriptor is not where it was: take it again.
    Moved,
}

/// Steers the sockets of other programs by one algorithm.
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
    /// The loop knows of it and reads its counters.
    active: AtomicBool,
}

struct Inner {
    place: Place,
    control: Controlled,
    /// Bytes of the stream that had left at the last reading.
    passed: u64,
    /// Bytes that had left when it was last looked for.
    sent: u64,
}

enum Place {
    At(Holder),
    /// Closed there, or in another process by now.
    Lost,
    /// We are done with it.
    Done,
}

fn passed(tcp: &TcpProgress) -> u64 {
    tcp.written.saturating_sub(tcp.unsent.get())
}

impl Others {
    /// Starts the loop's thread, without sockets so far.
    ///
    /// # Errors
    /// `NotFound`: nobody has loaded `alcc_window`. `PermissionDenied`: this process may not note
    /// what a socket had; root may. What starting a thread says.
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
        let tell = |activity| self.plane.worked(activity);
        loop {
            let next = self.driver.run_once(self, Some(&tell));
            self.driver.sleep(next);
        }
    }

    /// Takes a connection. What it ran before.
    ///
    /// # Errors
    /// Why not; the socket is as it was.
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
        // Whatever the algorithm does, and for how long, nobody but the program has the socket.
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

    /// It has, or may have, something to send.
    fn wake(&self, connection: Arc<Connection>) {
        if !connection.active.swap(true, Ordering::AcqRel) {
            self.driver.adopt(connection, Span::ZERO);
        }
    }

    /// Somebody has seen the socket, and that so many bytes of it have left.
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

    /// Tells which sockets still exist: connections of all others have ended.
    pub fn keep(&self, there: &BTreeSet<u64>) {
        alcc_sys::lock(&self.known).retain(|cookie, connection| {
            let stays = there.contains(cookie);
            if !stays {
                connection.lock().finish();
            }
            stays
        });
    }

    /// How many are under control.
    pub fn count(&self) -> usize {
        let known = alcc_sys::lock(&self.known);
        let steered = |c: &&Arc<Connection>| !matches!(c.lock().place, Place::Done);
        known.values().filter(steered).count()
    }

    /// Gives all of them back what they had. How many.
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

    /// False if there was nothing to give back.
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

    /// Reads the counters and lets the algorithm act on them. `None`: the socket is lost.
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
        // What the program sends is known from the counters alone.
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
            // Nobody else could: the program's writes do not pass here.
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
                // Until 'alcc ctl' says otherwise.
                Mode::Off => Some(kernel::now() + OFF_CHECK),
                Mode::Controlled => inner.control.deadline(),
                Mode::Failed | Mode::Released | Mode::Over | Mode::HandedOver => {
                    inner.finish();
                    None
                }
            }
        });
        if next.is_none() {
            // With the connection locked, like the decision to wake it.
            self.active.store(false, Ordering::Release);
        }
        next.into()
    }
}
