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

/// A send of at least this many bytes may wait with its bytes outside the queue.
const MIN_WAIT_ROOM: usize = 16 * 1024;
/// Time for draining a dropped stream.
const DROP_DEADLINE: Duration = Duration::from_secs(10);

/// The options in which a stream differs from its runtime's [`Settings`](super::Settings).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The algorithm.
    pub cc: Option<Spec>,
    /// The source of acknowledgements.
    pub feedback: Option<Feedback>,
    /// Capacity of the queue, bytes.
    pub queue: Option<usize>,
}

/// Behaviour of [`Stream::send`] when the queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Returns `WouldBlock`.
    No,
    /// Waits until everything is in the queue, at most this long.
    Yes(Option<Duration>),
}

impl Wait {
    /// The behaviour of send(2) on this descriptor: by `O_NONBLOCK` and `SO_SNDTIMEO`.
    pub fn of(fd: RawFd) -> Self {
        if kernel::flags(fd).nonblocking {
            return Self::No;
        }
        Self::Yes(kernel::send_timeout(fd).map(|limit| Duration::from_nanos(limit.as_nanos())))
    }
}

/// The state of a connection and of its algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info {
    /// The algorithm.
    pub cc: String,
    /// The source of acknowledgements.
    pub feedback: &'static str,
    /// The enforcement of the limit.
    pub enforcement: &'static str,
    /// Bytes in the queue.
    pub queued: usize,
    /// Capacity of the queue, bytes.
    pub capacity: usize,
    /// Bytes written to the kernel and not acknowledged, as of the last reading.
    pub in_flight: Bytes,
    /// Bytes written to the kernel in total.
    pub sent: u64,
    /// Number of times that the algorithm held bytes back.
    pub gate_closed: u64,
    /// The congestion window; [`Bytes::MAX`]: none.
    pub window: Bytes,
    /// Pacing rate.
    pub rate: Option<Rate>,
    /// Newest RTT sample; zero before the first.
    pub rtt: Span,
    /// Smoothed RTT.
    pub smoothed_rtt: Span,
    /// Smallest RTT.
    pub min_rtt: Span,
    /// True if the algorithm has failed, and the connection continues as plain TCP.
    pub plain: bool,
    /// The error that broke the connection, as errno.
    pub error: Option<i32>,
}

/// A connected TCP socket whose bytes wait in a queue until the algorithm allows them. See [the
/// module](super).
pub struct Stream {
    pub(super) connection: Arc<Connection>,
    runtime: Arc<Runtime>,
    pub(super) raw: RawFd,
    open: AtomicBool,
    #[cfg(feature = "tokio")]
    pub(super) arrivals: super::tokio::Arrivals,
}

fn unknown(why: SpecError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.to_string())
}

impl Stream {
    /// Takes over a connected TCP socket.
    ///
    /// # Errors
    /// `ENOTCONN` or `EOPNOTSUPP` if it is not a connected TCP socket of Linux 4.19 or later,
    /// `EINVAL` if there is no such algorithm, and the error of starting a thread. The socket is
    /// closed then.
    pub fn new(runtime: &Arc<Runtime>, socket: OwnedFd, options: &Options) -> io::Result<Self> {
        let stream = Self::adopt(runtime, socket.as_raw_fd(), options)?;
        // The stream owns it from now on.
        let _ = socket.into_raw_fd();
        Ok(stream)
    }

    /// The same as [`Stream::new`], but the caller keeps the descriptor on error.
    ///
    /// # Errors
    /// The errors of [`Stream::new`].
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
            // All of its data passes here, until the program gets it back.
            segment.open_account(cookie, u64::MAX / 2, false);
        }
        let connection =
            Connection::new(fd, cookie, control, options.queue.unwrap_or(settings.queue));
        Ok(Self {
            connection: Arc::new(connection),
            runtime: Arc::clone(runtime),
            raw: fd,
            open: AtomicBool::new(true),
            #[cfg(feature = "tokio")]
            arrivals: Default::default(),
        })
    }

    /// Sends bytes. A waiting call returns when all are in the queue or with the kernel; otherwise
    /// it returns the number that are.
    ///
    /// # Errors
    /// `WouldBlock` when nothing fits now, or not in time; `Interrupted` when a signal handler ran
    /// before anything was taken (as in send(2): not if it was installed with SA_RESTART and there
    /// is no time limit); `EPIPE` after [`Stream::shutdown_write`]; the error that broke the
    /// connection, again and again. Never raises SIGPIPE.
    pub fn send(&self, bytes: &[u8], wait: Wait) -> io::Result<usize> {
        self.send_as(bytes, &mut || wait)
    }

    /// The same as [`Stream::send`], but `wait` is called only if not all bytes fit.
    ///
    /// # Errors
    /// The errors of [`Stream::send`].
    pub fn send_as(&self, bytes: &[u8], wait: &mut dyn FnMut() -> Wait) -> io::Result<usize> {
        let mut done = 0;
        // Finding out whether to wait costs a call, so that is done once, and not for small sends.
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

    /// Changes the capacity of the queue, bytes. The content stays.
    pub fn set_queue(&self, capacity: usize) {
        self.connection.set_capacity(capacity);
    }

    /// Changes the algorithm. The new one starts from its initial state; data in flight gives it no
    /// RTT samples.
    ///
    /// # Errors
    /// `EINVAL` if there is no algorithm of this name or it refuses these options.
    pub fn set_cc(&self, spec: &Spec) -> io::Result<()> {
        self.connection.lock().set_cc(spec).map_err(unknown)
    }

    /// Changes the source of acknowledgements; if the kernel refuses time stamps, it is `tcp-info`.
    pub fn set_feedback(&self, feedback: Feedback) {
        self.connection
            .lock()
            .set_stamped(feedback.name == "timestamps");
    }

    /// A descriptor that is writable (`POLLOUT`, `EPOLLOUT`) while the stream takes bytes or has an
    /// error to report. Only for waiting: do not read or write it. Closed with the stream.
    ///
    /// # Errors
    /// The error of the system if it cannot create a descriptor.
    pub fn writable_fd(&self) -> io::Result<RawFd> {
        let inner = self.connection.lock();
        self.connection.notifier.descriptor(inner.wants_data())
    }

    /// Sets the function to be called at every notice: room again after a refusal, a broken
    /// connection, a finished close. It runs in the runtime's thread (or within a call of the
    /// program) with the stream locked, so it may wake a thread, but must not call the stream. Only
    /// the first one set is kept; false for others.
    pub fn on_notice(&self, callback: impl Fn() + Send + Sync + 'static) -> bool {
        self.connection.notifier.call(Box::new(callback))
    }

    /// Drains the queue in the background, then sends FIN. Reading continues.
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

    /// The state of the connection and of its algorithm.
    pub fn info(&self) -> Info {
        self.connection.lock().info()
    }

    /// False once the descriptor is the program's or nobody's.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// The descriptor is about to be closed or given back.
    fn leave(&self) {
        self.open.store(false, Ordering::Relaxed);
        #[cfg(feature = "tokio")]
        self.arrivals.forget();
    }

    /// Drains the queue in the background and closes the socket. Bytes that remain after `patience`
    /// are discarded, and the peer gets RST. The descriptor's number is free at once.
    /// [`Runtime::drained`] waits for all of them.
    pub fn close(&self, patience: Duration) {
        self.leave();
        self.connection.close(&self.runtime, after(patience));
    }

    /// The same as [`Stream::close`], but waits until it is complete.
    ///
    /// # Errors
    /// The reason why bytes were not sent: `ETIMEDOUT` if `patience` was too short, or the
    /// connection's error. The socket is closed in any case.
    pub fn close_and_wait(&self, patience: Duration) -> io::Result<()> {
        self.leave();
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
            // A signal handler may run. The wait continues, because the descriptor is gone for the
            // program whatever is returned.
            let _ = self
                .connection
                .notifier
                .wait(generation, Some(until + Span::from_secs(1)));
        }
    }

    /// Discards the queue and closes; the peer gets RST.
    pub fn abort(&self) {
        self.leave();
        self.connection.lock().abort();
    }

    /// Gives the socket back, with the bytes that the kernel holds; `None` while bytes wait in the
    /// queue.
    pub fn give_back(&self) -> Option<RawFd> {
        let fd = self.connection.lock().restore()?;
        self.leave();
        Some(fd)
    }

    /// Forgets the descriptor, which was closed without us: it is never used again.
    pub fn forget(&self) {
        self.leave();
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
        if self.is_open() {
            self.leave();
            self.connection.close(&self.runtime, after(DROP_DEADLINE));
        }
    }
}

fn after(patience: Duration) -> Time {
    let nanos = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    let now = kernel::now();
    Time::from_nanos(now.as_nanos().saturating_add(nanos))
}
