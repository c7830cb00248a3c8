// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Socket options and other questions about one descriptor.
use crate::error::errno;
use alcc_units::{Bytes, Span};
use libc::{c_int, socklen_t};
use std::ffi::CString;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// What an option's value may consist of.
///
/// # Safety
/// Every bit pattern is valid: integers, and C structures and arrays of them.
pub unsafe trait Plain {}

macro_rules! plain {
    ($($of:ty),+) => { $(
        // SAFETY: integers, or a C structure of them.
        unsafe impl Plain for $of {}
    )+ };
}

plain!(u8, u32, i32, u64, libc::linger, libc::timeval);

// SAFETY: as its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads a socket option; how many bytes of it there are, or `None` and errno.
pub fn get_option<T: Plain>(fd: RawFd, level: c_int, name: c_int, value: &mut T) -> Option<usize> {
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: pointer and length describe `value`, for which any bytes will do. By system call,
    // because this library may interpose getsockopt, and its hook costs more than the call.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            level,
            name,
            std::ptr::from_mut(value),
            &raw mut len,
        )
    };
    (rc == 0).then_some(len as usize)
}

/// Sets a socket option; false and errno if the kernel refuses.
pub fn set_option<T: Plain>(fd: RawFd, level: c_int, name: c_int, value: &T) -> bool {
    // SAFETY: pointer and length describe a value that outlives the call. By system call, as above.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_setsockopt,
            fd,
            level,
            name,
            std::ptr::from_ref(value),
            size_of::<T>() as socklen_t,
        )
    };
    rc == 0
}

/// The kernel's number of this socket, the same for all its descriptors and never given again.
pub fn cookie(fd: RawFd) -> Option<u64> {
    let mut cookie = 0u64;
    get_option(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie)?;
    Some(cookie)
}

/// True if the descriptor still is the socket with this cookie. A query that the kernel refuses is
/// no reason to let go of a connection. Only a descriptor that is closed, or no socket, is one.
pub fn is_same_socket(fd: RawFd, number: u64) -> bool {
    cookie(fd).map_or_else(
        || !matches!(errno(), libc::EBADF | libc::ENOTSOCK),
        |found| found == number,
    )
}

/// How long a blocking write may wait; `None`: for ever.
pub fn send_timeout(fd: RawFd) -> Option<Span> {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    get_option(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &mut time)?;
    let span =
        Span::from_micros(time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs());
    (!span.is_zero()).then_some(span)
}

/// Does the next call meet an error, or the end of the connection? Looks without fetching it.
pub fn has_failed(fd: RawFd) -> bool {
    let mut asked = libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: one descriptor and a time that outlive the call; by system call, because ppoll may be
    // interposed by ourselves. The kernel may change the time.
    unsafe {
        let none = std::ptr::null::<libc::sigset_t>();
        libc::syscall(libc::SYS_ppoll, &raw mut asked, 1, &raw mut now, none, 0);
    }
    let said = |event| asked.revents & event != 0;
    // A queue of notifications (zero copy, time stamps) is reported as an error. A connection that
    // lives on with a real one is one whose program wants ICMP errors.
    said(libc::POLLHUP)
        || said(libc::POLLERR)
            && [
                (libc::IPPROTO_IP, libc::IP_RECVERR),
                (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            ]
            .into_iter()
            .any(|(level, name)| {
                let mut on: c_int = 0;
                get_option(fd, level, name, &mut on).is_some() && on != 0
            })
}

/// Does the socket signal its readiness (O_ASYNC), or does a call wait in it?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags {
    /// Calls do not wait.
    pub nonblocking: bool,
    /// The program waits for SIGIO.
    pub signals: bool,
}

/// The flags of an open descriptor.
pub fn flags(fd: RawFd) -> Flags {
    // SAFETY: F_GETFL takes no argument; by system call, because fcntl may be interposed by
    // ourselves.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL, 0) } as c_int;
    Flags {
        nonblocking: flags & libc::O_NONBLOCK != 0,
        signals: flags & libc::O_ASYNC != 0,
    }
}

/// Linux's ioctl for bytes written and not sent (linux/sockios.h).
const SIOCOUTQNSD: libc::c_ulong = 0x894B;

/// Bytes written and not acknowledged (`SIOCOUTQ`, which is `TIOCOUTQ`).
pub fn queued(fd: RawFd) -> Bytes {
    count(fd, libc::TIOCOUTQ)
}

/// Bytes written and not sent.
pub fn unsent(fd: RawFd) -> Bytes {
    count(fd, SIOCOUTQNSD)
}

fn count(fd: RawFd, request: libc::c_ulong) -> Bytes {
    let mut n: c_int = 0;
    // SAFETY: both requests store an int.
    let rc = unsafe { libc::ioctl(fd, request as _, &raw mut n) };
    Bytes::new(if rc == 0 {
        u64::try_from(n).unwrap_or(0)
    } else {
        0
    })
}

/// Lets the kernel pace at `rate` bytes per second; `u64::MAX`: unpaced. A refusal leaves the
/// connection unpaced, which is only less smooth.
pub fn set_pacing(fd: RawFd, rate: u64) {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate);
}

/// The pacing rate that is set, bytes per second; `u64::MAX`: none.
pub fn pacing(fd: RawFd) -> Option<u64> {
    let mut rate = u64::MAX;
    get_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate)?;
    Some(rate)
}

/// With more unsent bytes than this the socket is not writable (`TCP_NOTSENT_LOWAT`). 0 is the
/// system's own limit, which usually is none. A kernel that refuses leaves it as it is.
pub fn set_unsent_limit(fd: RawFd, bytes: u32) {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes);
}

/// The limit that is set, bytes; 0: none.
pub fn unsent_limit(fd: RawFd) -> Option<u32> {
    let mut bytes = 0u32;
    get_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &mut bytes)?;
    Some(bytes)
}

/// Reports room to everybody who waits for this socket, however: setting the limit of unsent bytes
/// to what it is does that in Linux.
pub fn wake_writers(fd: RawFd) {
    if let Some(bytes) = unsent_limit(fd) {
        set_unsent_limit(fd, bytes);
    }
}

/// Selects the kernel's congestion control; the errno on refusal.
pub fn set_under(fd: RawFd, name: &str) -> Result<(), c_int> {
    let name = CString::new(name).map_err(|_| libc::EINVAL)?;
    // SAFETY: pointer and length describe `name`. By system call, as above.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_setsockopt,
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr(),
            name.as_bytes().len() as socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(errno()) }
}

/// The kernel's congestion control of this socket.
pub fn under(fd: RawFd) -> Option<String> {
    let mut name = [0u8; 16];
    let len = get_option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    let name = name.get(..len)?.split(|b| *b == 0).next()?;
    String::from_utf8(name.to_vec()).ok()
}

/// Another descriptor of the same socket.
pub fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: no pointers.
    let other = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: just made, and nobody else's.
    (other >= 0).then(|| unsafe { OwnedFd::from_raw_fd(other) })
}

/// Sends FIN after what is written.
pub fn shutdown_write(fd: RawFd) {
    // SAFETY: no pointers; an error means that there is nothing to end.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// Lets the next close throw away what is written, and send RST.
pub fn reset_on_close(fd: RawFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
}
