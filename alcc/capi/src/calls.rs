// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every function of the library. The header `include/alcc.h` is generated from this file: see
//! `tests/header.rs`.
#![allow(
    clippy::missing_safety_doc,
    reason = "the comments go into the header, for readers of C: pointers are what their namesakes' are"
)]
use crate::boundary::{boundary, bytes, give, text};
use crate::message;
use crate::process::{self, Process, errno_of};
use crate::table::{Entry, What};
use alcc_cc::Spec;
use alcc_socket::own::{Info, Wait};
use alcc_socket::{Deployment, Feedback, errno, flags};
use alcc_units::Rate;
use libc::{c_char, c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::panic::catch_unwind;
use std::time::Duration;

/// As the descriptor in `alcc_set_cc` and the like: the defaults of new streams of this process.
pub const ALCC_DEFAULTS: c_int = -1;

/// The state of a stream and of its algorithm. The structure may grow at its end, so calls take its
/// size.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name in C")]
#[derive(Clone, Copy)]
pub struct alcc_info {
    /// Bytes in the queue.
    pub queued: u64,
    /// Capacity of the queue, bytes.
    pub queue_capacity: u64,
    /// Bytes written to the kernel and not acknowledged, as of the last reading.
    pub in_flight: u64,
    /// Bytes written to the kernel in total.
    pub sent: u64,
    /// Number of times that the algorithm held bytes back.
    pub gate_closed: u64,
    /// The algorithm's congestion window, bytes; UINT64_MAX: none.
    pub cwnd: u64,
    /// Pacing rate, bits per second; 0: not paced.
    pub pacing_bps: u64,
    /// Newest RTT sample, microseconds; 0 before the first.
    pub rtt_us: u64,
    /// Smoothed RTT, microseconds.
    pub smoothed_rtt_us: u64,
    /// Smallest RTT, microseconds.
    pub min_rtt_us: u64,
    /// The error that broke the connection, as errno; 0: none.
    pub error: i32,
    /// 1: the algorithm has failed, and the connection continues as plain TCP.
    pub plain: i32,
    /// The algorithm as requested, truncated to fit.
    pub cc: [c_char; 64],
    /// The source of acknowledgements: "bpf", "timestamps" or "tcp-info".
    pub feedback: [c_char; 16],
    /// The enforcement of the limit: "bpf", "queue+pacing" or "queue".
    pub enforcement: [c_char; 16],
}

pub(crate) fn process() -> Result<&'static Process, c_int> {
    process::current().ok_or(libc::ENOMEM)
}

/// Converts the result of a call of the C library.
fn plain<T: PartialOrd + From<i8>>(result: T) -> Result<T, c_int> {
    if result < T::from(0) {
        Err(errno())
    } else {
        Ok(result)
    }
}

/// The same as accept(2). The connection's bytes go through a queue from then on. A connection that
/// cannot be controlled, such as that of a UNIX socket, is also accepted and stays plain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    unsafe { alcc_accept4(fd, addr, len, 0) }
}

/// The same as accept4(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_accept4(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller's arguments, unchanged.
        let made = plain(unsafe { libc::accept4(fd, addr, len, flags) })?;
        take_over(made);
        Ok(made)
    })
}

/// Makes a stream of a new descriptor, if possible.
fn take_over(fd: c_int) {
    let made = catch_unwind(|| process().is_ok_and(|process| process.take_over(fd).is_ok()));
    if !made.unwrap_or(false) {
        forget(fd);
    }
}

/// Removes the entry of a descriptor that was closed without the library.
fn forget(fd: c_int) {
    if let Ok(process) = process() {
        process.forget(fd);
    }
}

/// The same as connect(2). If it returns before the connection is made (`EINPROGRESS`, a signal),
/// the first `alcc_send` takes it over. Wait for the connection with `poll` on the socket itself,
/// as usual.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    boundary(|| {
        // SAFETY: the caller's arguments, unchanged.
        match plain(unsafe { libc::connect(fd, addr, len) }) {
            Ok(done) => {
                take_over(fd);
                Ok(done)
            }
            Err(why) => {
                if matches!(why, libc::EINPROGRESS | libc::EINTR) {
                    process()?.pend(fd);
                }
                Err(why)
            }
        }
    })
}

/// Takes over a connected TCP socket that was connected elsewhere. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_adopt(fd: c_int) -> c_int {
    boundary(|| process()?.adopt(fd).map(|_| 0))
}

/// The same as send(2): returns the number of bytes taken. A blocking call waits until all bytes
/// are in the queue. SO_SNDTIMEO and signal handlers end that wait as they end that of send. With
/// O_NONBLOCK or MSG_DONTWAIT it takes the bytes that fit, or fails with EAGAIN: then wait for
/// `alcc_writable_fd`. Once an error has broken the connection, every later call returns it. It
/// never raises SIGPIPE. MSG_MORE, MSG_EOR and MSG_NOSIGNAL are allowed and ignored; MSG_OOB fails
/// with EOPNOTSUPP. On any other descriptor it is send(2). It must not be called in signal handlers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_send(
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    send_flags: c_int,
) -> ssize_t {
    boundary(|| {
        let Some(stream) = process()?.stream(fd) else {
            // SAFETY: the caller's arguments.
            return plain(unsafe { libc::send(fd, buf, len, send_flags | libc::MSG_NOSIGNAL) });
        };
        if send_flags & (libc::MSG_OOB | libc::MSG_FASTOPEN) != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        // SAFETY: by contract.
        let bytes = unsafe { bytes(buf, len) }?;
        let mut wait = || match send_flags & libc::MSG_DONTWAIT {
            0 => Wait::of(fd),
            _ => Wait::No,
        };
        match stream.send_as(bytes, &mut wait) {
            Ok(n) => Ok(n as ssize_t),
            Err(why) if why.raw_os_error() == Some(libc::EBADF) => {
                // Closed without the library: the number may be another file's by now.
                forget(fd);
                // SAFETY: the caller's arguments.
                plain(unsafe { libc::send(fd, buf, len, send_flags | libc::MSG_NOSIGNAL) })
            }
            Err(why) => Err(errno_of(&why)),
        }
    })
}

/// The same as recv(2). After a send has failed because of a reset, it returns that error instead
/// of the end of the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_recv(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    boundary(|| {
        // SAFETY: the caller's arguments, unchanged.
        let n = plain(unsafe { libc::recv(fd, buf, len, flags) })?;
        if n == 0 && len > 0 {
            let error = process()?.stream(fd).and_then(|stream| stream.error());
            // EPIPE concerns the sending direction only.
            if let Some(why) = error
                .map(|why| errno_of(&why))
                .filter(|why| *why != libc::EPIPE)
            {
                return Err(why);
            }
        }
        Ok(n)
    })
}

/// The same as shutdown(2). The queue is sent before the FIN.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_shutdown(fd: c_int, how: c_int) -> c_int {
    boundary(|| {
        let Some(stream) = process()?.stream(fd) else {
            // SAFETY: no pointers.
            return plain(unsafe { libc::shutdown(fd, how) });
        };
        if !matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
            return Err(libc::EINVAL);
        }
        if how != libc::SHUT_WR {
            // SAFETY: no pointers.
            plain(unsafe { libc::shutdown(fd, libc::SHUT_RD) })?;
        }
        if how != libc::SHUT_RD {
            stream.shutdown_write();
        }
        Ok(0)
    })
}

/// The same as close(2), after sending the queue. A blocking descriptor waits for that, at most
/// until the close deadline (`alcc_set_close_deadline`; ten seconds). Then it discards the rest,
/// resets the connection, and returns -1 with ETIMEDOUT. If an error broke the connection before
/// all was sent, it returns -1 with that error. A non-blocking descriptor returns at once and is
/// drained in the background until the same deadline, also while the process exits. SO_LINGER with
/// a time sets the deadline and makes the call wait; with 0 it is `alcc_abort`. The descriptor is
/// closed in any case.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_close(fd: c_int) -> c_int {
    boundary(|| {
        let process = process()?;
        let Some(entry) = process.take(fd) else {
            // SAFETY: no pointers.
            return plain(unsafe { libc::close(fd) });
        };
        let What::Stream(stream) = entry.what else {
            // SAFETY: no pointers.
            return plain(unsafe { libc::close(fd) });
        };
        let patience = entry.patience.unwrap_or_else(|| process.patience());
        let (waits, patience) = match linger(fd) {
            Some(Duration::ZERO) => {
                stream.abort();
                return Ok(0);
            }
            Some(time) => (true, time),
            None => (!flags(fd).nonblocking, patience),
        };
        if waits {
            stream
                .close_and_wait(patience)
                .map(|()| 0)
                .map_err(|why| errno_of(&why))
        } else {
            process.drain_at_exit();
            stream.close(patience);
            Ok(0)
        }
    })
}

/// The time of SO_LINGER, if it is on.
fn linger(fd: c_int) -> Option<Duration> {
    let mut linger = libc::linger {
        l_onoff: 0,
        l_linger: 0,
    };
    let rc = alcc_sys::get_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &mut linger);
    (rc.is_some() && linger.l_onoff != 0)
        .then(|| Duration::from_secs(u64::try_from(linger.l_linger).unwrap_or(0)))
}

/// Discards the queue, closes, and resets the connection. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_abort(fd: c_int) -> c_int {
    boundary(|| {
        let process = process()?;
        match process.stream(fd) {
            Some(stream) => {
                process.take(fd);
                stream.abort();
                Ok(0)
            }
            None => Err(unknown(fd)),
        }
    })
}

/// The errno for an unknown descriptor: EBADF if it is not open, ENOTSOCK if it is not a socket,
/// EINVAL for a socket that is not a stream of this library.
fn unknown(fd: c_int) -> c_int {
    let mut kind: c_int = 0;
    match alcc_sys::get_option(fd, libc::SOL_SOCKET, libc::SO_TYPE, &mut kind) {
        Some(_) => libc::EINVAL,
        None => errno(),
    }
}

/// A descriptor that is writable while `alcc_send` on `fd` takes bytes or has an error to return.
/// Wait for POLLOUT or EPOLLOUT, level or edge triggered. After EAGAIN or a short count it becomes
/// writable when a quarter of the queue is free. Use it only for waiting. It is closed with the
/// stream, so remove it from epoll sets first. Returns -1 with errno if there is none.
///
/// Wait for incoming bytes on `fd` itself. With time stamps as feedback, poll also reports POLLERR
/// on `fd` while acknowledgement times wait to be read; ignore it. If `fd` was non-blocking when it
/// became a stream, the feedback is "tcp-info", unless `alcc_set_feedback` or ALCC_FEEDBACK selects
/// another source; with "tcp-info" there is no such POLLERR.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_writable_fd(fd: c_int) -> c_int {
    boundary(|| {
        let stream = process()?.stream(fd).ok_or_else(|| unknown(fd))?;
        stream.writable_fd().map_err(|why| errno_of(&why))
    })
}

/// Sets the algorithm of a stream, also during a connection, or of all new ones (`ALCC_DEFAULTS`):
/// "verus", "copa:profile=paper", ... as `alcc list` shows them. Returns 0, or -1 with EINVAL; then
/// `alcc_message` returns the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_set_cc(fd: c_int, spec: *const c_char) -> c_int {
    boundary(|| {
        // SAFETY: by contract.
        let name = unsafe { text(spec) }?;
        let process = process()?;
        let bad = |why: &dyn std::fmt::Display| {
            message::set(&why.to_string());
            libc::EINVAL
        };
        let spec: Spec = name.parse().map_err(|why| bad(&why))?;
        // The registry is locked again below. Holding it here would deadlock with a plug-in that is
        // being loaded.
        let known = process.runtime.registry().build(&spec);
        known.map_err(|why| bad(&why))?;
        if fd == ALCC_DEFAULTS {
            process.runtime.set_settings(|settings| settings.cc = spec);
            return Ok(0);
        }
        if change(process, fd, |entry| entry.options.cc = Some(spec.clone())) {
            return Ok(0);
        }
        let stream = process.stream(fd).ok_or_else(|| unknown(fd))?;
        stream.set_cc(&spec).map_err(|why| errno_of(&why))?;
        Ok(0)
    })
}

/// Adds the algorithm of a plug-in, a shared object that exports `alcc_algorithm_v3`. It stays
/// loaded. ALCC_PLUGIN names plug-ins to load with the library. Returns 0, or -1 with EINVAL; then
/// `alcc_message` returns the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_load_plugin(file: *const c_char) -> c_int {
    boundary(|| {
        if file.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: by contract.
        let file = OsStr::from_bytes(unsafe { CStr::from_ptr(file) }.to_bytes());
        process()?.load(file.as_ref()).map_err(|why| {
            message::set(&why.to_string());
            libc::EINVAL
        })?;
        Ok(0)
    })
}

/// Changes the settings of a socket that is still connecting; false if it is not connecting.
fn change(process: &Process, fd: c_int, change: impl FnOnce(&mut Entry)) -> bool {
    if process.stream(fd).is_some() {
        return false;
    }
    let changed = process.update(fd, |entry| {
        let pending = matches!(entry.what, What::Pending);
        if pending {
            change(entry);
        }
        pending
    });
    changed == Some(true)
}

/// Sets the source of acknowledgements of a stream, or of all new ones (`ALCC_DEFAULTS`):
/// "timestamps", "tcp-info", or, for new ones, "auto". Returns 0, or -1 with EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_set_feedback(fd: c_int, name: *const c_char) -> c_int {
    boundary(|| {
        // SAFETY: by contract.
        let name = unsafe { text(name) }?;
        let process = process()?;
        let feedback = Feedback::choose(Deployment::Own, name).map_err(|why| {
            message::set(&why.to_string());
            libc::EINVAL
        })?;
        if fd == ALCC_DEFAULTS {
            process
                .runtime
                .set_settings(|settings| settings.feedback = feedback);
            return Ok(0);
        }
        if change(process, fd, |entry| entry.options.feedback = feedback) {
            return Ok(0);
        }
        let stream = process.stream(fd).ok_or_else(|| unknown(fd))?;
        if let Some(feedback) = feedback {
            stream.set_feedback(feedback);
        }
        Ok(0)
    })
}

/// Sets the capacity of the queue of a stream, or of all new ones (`ALCC_DEFAULTS`), in bytes. It
/// is 1 MiB unless set here or by ALCC_QUEUE. Memory is used only while bytes wait. Returns 0, or
/// -1 with errno.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_set_queue(fd: c_int, bytes: size_t) -> c_int {
    boundary(|| {
        if bytes == 0 {
            return Err(libc::EINVAL);
        }
        let process = process()?;
        if fd == ALCC_DEFAULTS {
            process
                .runtime
                .set_settings(|settings| settings.queue = bytes);
            return Ok(0);
        }
        if change(process, fd, |entry| entry.options.queue = Some(bytes)) {
            return Ok(0);
        }
        let stream = process.stream(fd).ok_or_else(|| unknown(fd))?;
        stream.set_queue(bytes);
        Ok(0)
    })
}

/// Sets the maximum time of `alcc_close` for sending the queue, in milliseconds; the default is 10
/// 000. `ALCC_DEFAULTS` is for all streams without their own deadline. Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_set_close_deadline(fd: c_int, milliseconds: c_int) -> c_int {
    boundary(|| {
        let patience =
            Duration::from_millis(u64::try_from(milliseconds).map_err(|_| libc::EINVAL)?);
        let process = process()?;
        if fd == ALCC_DEFAULTS {
            process.set_patience(patience);
            return Ok(0);
        }
        process
            .update(fd, |entry| entry.patience = Some(patience))
            .map(|()| 0)
            .ok_or_else(|| unknown(fd))
    })
}

/// Returns the state of a stream and of its algorithm. `size` is that of your `struct alcc_info`.
/// Returns 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_get_info(fd: c_int, info: *mut alcc_info, size: size_t) -> c_int {
    boundary(|| {
        let made = || {
            let stream = process()?.stream(fd).ok_or_else(|| unknown(fd))?;
            Ok(alcc_info::of(&stream.info()))
        };
        // SAFETY: by contract.
        unsafe { give(made, info, size) }
    })
}

impl alcc_info {
    fn of(info: &Info) -> Self {
        Self {
            queued: info.queued as u64,
            queue_capacity: info.capacity as u64,
            in_flight: info.in_flight.get(),
            sent: info.sent,
            gate_closed: info.gate_closed,
            cwnd: info.window.get(),
            pacing_bps: info.rate.map_or(0, Rate::as_bps),
            rtt_us: info.rtt.as_micros(),
            smoothed_rtt_us: info.smoothed_rtt.as_micros(),
            min_rtt_us: info.min_rtt.as_micros(),
            error: info.error.unwrap_or(0),
            plain: i32::from(info.plain),
            cc: array(&info.cc),
            feedback: array(info.feedback),
            enforcement: array(info.enforcement),
        }
    }
}

/// A C string in an array, truncated to fit.
fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (to, from) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = from as c_char;
    }
    array
}

/// Waits until the queues of all streams that were closed without waiting are sent, at most
/// `milliseconds`. Returns 0, or -1 with ETIMEDOUT. exit() does the same.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_drain(milliseconds: c_int) -> c_int {
    boundary(|| {
        let patience =
            Duration::from_millis(u64::try_from(milliseconds).map_err(|_| libc::EINVAL)?);
        if process()?.runtime.drained(patience) {
            Ok(0)
        } else {
            Err(libc::ETIMEDOUT)
        }
    })
}

/// One line about this thread's last EINVAL, or about an environment variable or plug-in that could
/// not be used. Empty if there is none. The pointer is the same for every call of a thread and
/// valid as long as the thread lives. The line changes with the next failed call. With ALCC_DEBUG=1
/// in the environment every line is also printed on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_message() -> *const c_char {
    message::get()
}

/// The version of the library, "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn alcc_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
