// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One own socket.
use super::{Runtime, connection::Connection};
use crate::controlled::{Controlled, Plan, Takeover};
use crate::triple::{Deployment, Feedback};
use crate::{Socket, errno, kernel};
use alcc_cc::{Spec, SpecError};
use alcc_units::{Bytes, Rate, Span, Time};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A send of at least this much may wait with its bytes outside the queue.
const MIN_WAIT_ROOM: usize = 16 * 1024;
/// What a dropped stream is given to drain.
const DROP_DEADLINE: Duration = Duration::from_secs(10);

/// What one stream wants differently from its runtime's [`Settings`](super::Settings).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The algorithm.
    pub cc: Option<Spec>,
    /// Where acknowledgements are learned from.
    pub feedback: Option<Feedback>,
    /// Capacity of the queue, bytes.
    pub queue: Option<usize>,
}

/// What [`Stream::send`] does when the queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Returns `WouldBlock`.
    No,
    /// Waits until everything is in the queue, at most this long.
    Yes(Option<Duration>),
}

/// A connection as its algorithm sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info {
    /// The algorithm.
    pub cc: String,
    /// Where acknowledgements are learned from.
    pub feedback: &'static str,
    /// How the limit is kept.
    pub enforcement: &'static str,
    /// In the queue, and its capacity.
    pub queued: usize,
    /// Capacity of the queue.
    pub capacity: usize,
    /// Handed to the kernel and not acknowledged, as of the last reading.
    pub in_flight: Bytes,
    /// Handed to the kernel in total.
    pub sent: u64,
    /// How often the algorithm held bytes back.
    pub gate_closed: u64,
    /// cwnd; [`Bytes::MAX`]: none.
    pub window: Bytes,
    /// Pacing rate.
    pub rate: Option<Rate>,
    /// Newest RTT sample; zero before the first.
    pub rtt: Span,
    /// Smoothed RTT.
    pub smoothed_rtt: Span,
    /// Smallest RTT.
    pub min_rtt: Span,
    /// The algorithm failed, and the connection goes on as plain TCP.
    pub plain: bool,
    /// The error that broke the connection, as errno.
    pub error: Option<i32>,
}

/// A connected TCP socket whose bytes wait in a queue until the algorithm lets them go. See [the
/// module](super).
pub struct Stream {
    connection: Arc<Connection>,
    runtime: Arc<Runtime>,
    raw: RawFd,
    open: AtomicBool,
}

fn unknown(why: SpecError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_string())
}

impl Stream {
    /// Takes a connected TCP socket over.
    ///
    /// # Errors
    /// `ENOTCONN` or `EOPNOTSUPP` if it is no connected TCP socket of Linux 4.19 or later. `EINVAL`
    /// if there is no such algorithm. What starting a thread says. The socket is closed then.
    pub fn new(runtime: &Arc<Runtime>, socket: OwnedFd, options: &Options) -> io::Result<Self> {
        let stream = Self::adopt(runtime, socket.as_raw_fd(), options)?;
        // Owned by the stream now.
        let _ = socket.into_raw_fd();
        Ok(stream)
    }

    /// As [`Stream::new`], but the descriptor stays the caller's on error.
    ///
    /// # Errors
    /// As [`Stream::new`].
    pub fn adopt(runtime: &Arc<Runtime>, fd: RawFd, options: &Options) -> io::Result<Self> {
        kernel::set_errno(0);
        let Socket::Connected(peer) = kernel::classify(fd, None) else {
            return Err(match errno() {
                libc::EBADF | libc::ENOTSOCK | libc::ENOTCONN => io::Error::last_os_error(),
                _ => io::Error::from_raw_os_error(libc::EOPNOTSUPP),
            });
        };
        let settings = runtime.settings();
        let cc = options.cc.clone().unwrap_or(settings.cc);
        let to = peer.remote.ip();
        let controller = runtime.plane.build_for(&cc, to, settings.share);
        let controller = controller.map_err(unknown)?;
        runtime.start()?;
        let feedback = options.feedback.or(settings.feedback);
        let stamped = match feedback {
            Some(feedback) => feedback.name == "timestamps",
            None => !kernel::flags(fd).nonblocking,
        };
        let (cookie, reading) = (kernel::cookie(fd))
            .zip(kernel::read(fd))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
        let mut plan = Plan {
            cc,
            under: settings.under,
            stamped,
            enforcement: settings.enforcement,
            deployment: Deployment::Own,
            share: settings.share,
            seed: settings.seed,
        };
        if plan.under.is_some() || feedback.is_some_and(|f| !f.of_kernel()) {
            plan.do_without_the_kernel();
        }
        let plan = Arc::new(plan);
        let socket = Takeover {
            fd,
            cookie,
            peer,
            reading,
            pacing: None,
        };
        let mut control = Controlled::new(&runtime.plane, &plan, controller, &socket);
        control.begin(&socket);
        if let Some(segment) = runtime.plane.segment() {
            // All that it sends passes here, until the program has it back.
            segment.open_account(cookie, u64::MAX / 2, false);
        }
        let connection =
            Connection::new(fd, cookie, control, options.queue.unwrap_or(settings.queue));
        Ok(Self {
            connection: Arc::new(connection),
            runtime: Arc::clone(runtime),
            raw: fd,
            open: AtomicBool::new(true),
        })
    }

    /// Sends. Waiting, it returns when everything is in the queue or with the kernel; otherwise how
    /// much is.
    ///
    /// # Errors
    /// `WouldBlock` when nothing fits now, or not in time; `Interrupted` when a signal handler ran
    /// before anything was taken (as in send(2): not if it was installed with SA_RESTART and there
    /// is no time limit); `EPIPE` after [`Stream::shutdown_write`]; the error that broke the
    /// connection, again and again. Never raises SIGPIPE.
    pub fn send(&self, bytes: &[u8], wait: Wait) -> io::Result<usize> {
        self.send_as(bytes, &mut || wait)
    }

    /// As [`Stream::send`]; whether to wait is asked only when not all fits.
    ///
    /// # Errors
    /// As [`Stream::send`].
    pub fn send_as(&self, bytes: &[u8], wait: &mut dyn FnMut() -> Wait) -> io::Result<usize> {
        let mut done = 0;
        // Whether to wait costs a call to find out: asked once, and not for what is small.
        let mut waits = (bytes.len() >= MIN_WAIT_ROOM).then(&mut *wait);
        let mut until = None;
        let waiting = matches!(waits, Some(Wait::Yes(_)));
        if waiting {
            self.connection.enter();
        }
        let result = loop {
            let generation = self.connection.notifier.generation();
            let holds = matches!(waits, Some(Wait::Yes(_)));
            match self
                .connection
                .enqueue(&self.runtime, &bytes[done..], holds)
            {
                Ok(n) => done += n,
                Err(_) if done > 0 => break Ok(()),
                Err(why) => break Err(why),
            }
            if done == bytes.len() {
                break Ok(());
            }
            let why = match *waits.get_or_insert_with(&mut *wait) {
                Wait::No => libc::EAGAIN,
                Wait::Yes(limit) => {
                    let until = *until.get_or_insert_with(|| limit.map(after));
                    if holds && self.connection.wait_for_kernel(until) {
                        continue;
                    }
                    match self.connection.notifier.wait(generation, until) {
                        Ok(()) => continue,
                        Err(why) => why,
                    }
                }
            };
            break if done > 0 { Ok(()) } else { Err(why) };
        };
        if waiting {
            self.connection.leave();
        }
        result.map(|()| done).map_err(io::Error::from_raw_os_error)
    }

    /// Bytes in the queue.
    pub fn queued(&self) -> usize {
        self.connection.lock().queued()
    }

    /// Bytes that fit into the queue now.
    pub fn room(&self) -> usize {
        self.connection.lock().room_in_queue()
    }

    /// Changes the capacity of the queue, bytes. What is in it stays.
    pub fn set_queue(&self, capacity: usize) {
        self.connection.set_capacity(capacity);
    }

    /// Changes the algorithm. The new one starts afresh; what is in flight gives it no RTT samples.
    ///
    /// # Errors
    /// `EINVAL` if there is none of this name or it does not take these options.
    pub fn set_cc(&self, spec: &Spec) -> io::Result<()> {
        self.connection.lock().set_cc(spec).map_err(unknown)
    }

    /// Changes where acknowledgements are learned from; a kernel that refuses time stamps leaves
    /// `tcp-info`.
    pub fn set_feedback(&self, feedback: Feedback) {
        self.connection
            .lock()
            .set_stamped(feedback.name == "timestamps");
    }

    /// A descriptor that is writable (`POLLOUT`, `EPOLLOUT`) while the stream takes bytes or has an
    /// error to tell. Only for waiting: do not read or write it. Closed with the stream.
    ///
    /// # Errors
    /// When there is no descriptor to be had.
    pub fn writable_fd(&self) -> io::Result<RawFd> {
        let inner = self.connection.lock();
        self.connection.notifier.descriptor(inner.wants_data())
    }

    /// Has `callback` called at every notice: room again after a refusal, a broken connection, a
    /// finished close. It runs in the runtime's thread (or within a call of the program) with the
    /// stream locked. It may wake somebody, but not call the stream. Only the first one set is
    /// kept; false for others.
    pub fn on_notice(&self, callback: impl Fn() + Send + Sync + 'static) -> bool {
        self.connection.notifier.call(Box::new(callback))
    }

    /// Drains the queue in the background, then sends FIN. Reading goes on.
    pub fn shutdown_write(&self) {
        self.connection.shutdown_write(&self.runtime);
    }

    /// The error that broke the connection.
    pub fn error(&self) -> Option<io::Error> {
        self.connection
            .lock()
            .error()
            .map(io::Error::from_raw_os_error)
    }

    /// What the algorithm sees and does.
    pub fn info(&self) -> Info {
        self.connection.lock().info()
    }

    /// Drains the queue in the background and closes the socket. What is left after `patience` is
    /// thrown away, and the peer gets RST. The descriptor's number is free at once.
    /// [`Runtime::drained`] waits for all of them.
    pub fn close(&self, patience: Duration) {
        self.open.store(false, Ordering::Relaxed);
        self.connection.close(&self.runtime, after(patience));
    }

    /// As [`Stream::close`], and waits for it.
    ///
    /// # Errors
    /// What kept bytes from being sent: `ETIMEDOUT` when `patience` was too short, or the
    /// connection's error. The socket is closed in any case.
    pub fn close_and_wait(&self, patience: Duration) -> io::Result<()> {
        self.open.store(false, Ordering::Relaxed);
        let until = after(patience);
        let queue_error = self.connection.close(&self.runtime, until);
        loop {
            let generation = self.connection.notifier.generation();
            let mut inner = self.connection.lock();
            if inner.is_closed() {
                let why = inner.queue_error().or(queue_error);
                return why.map_or(Ok(()), |why| Err(io::Error::from_raw_os_error(why)));
            }
            if kernel::now() >= until + Span::from_secs(1) {
                // The runtime's thread is gone or stuck.
                inner.abort();
                continue;
            }
            drop(inner);
            // A signal handler may run; the wait goes on, as the descriptor is gone for the program
            // whatever we return.
            let _ = self
                .connection
                .notifier
                .wait(generation, Some(until + Span::from_secs(1)));
        }
    }

    /// Throws the queue away, closes, and the peer gets RST.
    pub fn abort(&self) {
        self.open.store(false, Ordering::Relaxed);
        self.connection.lock().abort();
    }

    /// Gives the socket back, with whatever the kernel holds; `None` while bytes wait in the queue.
    pub fn give_back(&self) -> Option<RawFd> {
        let fd = self.connection.lock().restore()?;
        self.open.store(false, Ordering::Relaxed);
        Some(fd)
    }

    /// The descriptor is not ours any more (closed behind our back): never touch it again.
    pub fn forget(&self) {
        self.open.store(false, Ordering::Relaxed);
        self.connection.lock().forget();
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.open.load(Ordering::Relaxed) {
            self.connection.close(&self.runtime, after(DROP_DEADLINE));
        }
    }
}

fn after(patience: Duration) -> Time {
    let nanos = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    let now = kernel::now();
    Time::from_nanos(now.as_nanos().saturating_add(nanos))
}
