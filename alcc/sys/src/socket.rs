// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Socket options and other queries about one descriptor.
use crate::error::errno;
use alcc_units::{Bytes, Span};
use libc::{c_int, socklen_t};
use std::ffi::CString;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// A type that may be read from and written to an option.
///
/// # Safety
/// Every bit pattern must be valid: integers, and C structures and arrays of them.
pub unsafe trait Plain {}

macro_rules! plain {
    ($($of:ty),+) => { $(
        // SAFETY: integers, or a C structure of them.
        unsafe impl Plain for $of {}
    )+ };
}

plain!(u8, u32, i32, u64, libc::linger, libc::timeval);

// SAFETY: the elements are valid for any bytes.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads a socket option. Returns its length in bytes, or `None` and errno.
pub fn get_option<T: Plain>(fd: RawFd, level: c_int, name: c_int, value: &mut T) -> Option<usize> {
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: pointer and length describe `value`, which is valid for any bytes. By system call,
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

/// The kernel's number of this socket (`SO_COOKIE`), the same for all its descriptors and never
/// reused.
pub fn cookie(fd: RawFd) -> Option<u64> {
    let mut cookie = 0u64;
    get_option(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie)?;
    Some(cookie)
}

/// True if the descriptor still is the socket with this cookie. True also if the kernel refuses the
/// query, unless the descriptor is closed or not a socket.
pub fn is_same_socket(fd: RawFd, number: u64) -> bool {
    cookie(fd).map_or_else(
        || !matches!(errno(), libc::EBADF | libc::ENOTSOCK),
        |found| found == number,
    )
}

/// The time limit of a blocking write; `None`: none.
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

/// True if the next call would get an error, or the end of the connection. The error stays.
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
    // SAFETY: one descriptor and a time that outlive the call; by system call, because we may
    // interpose ppoll ourselves. The kernel may change the time.
    unsafe {
        let none = std::ptr::null::<libc::sigset_t>();
        libc::syscall(libc::SYS_ppoll, &raw mut asked, 1, &raw mut now, none, 0);
    }
    let said = |event| asked.revents & event != 0;
    // A queue of notifications (zero copy, time stamps) is reported as an error. A connection that
    // survives a real error is one whose program has enabled ICMP errors.
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

/// Flags of a descriptor that concern waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags {
    /// True if calls do not wait.
    pub nonblocking: bool,
    /// True if the program gets SIGIO (O_ASYNC).
    pub signals: bool,
}

/// The flags of an open descriptor.
pub fn flags(fd: RawFd) -> Flags {
    // SAFETY: F_GETFL takes no argument; by system call, because we may interpose fcntl ourselves.
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

/// Bytes written and not sent (`SIOCOUTQNSD`).
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

/// Sets the kernel's pacing rate to `rate` bytes per second; `u64::MAX`: unpaced. If the kernel
/// refuses, the connection stays unpaced, which is only less smooth.
pub fn set_pacing(fd: RawFd, rate: u64) {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate);
}

/// The current pacing rate, bytes per second; `u64::MAX`: none.
pub fn pacing(fd: RawFd) -> Option<u64> {
    let mut rate = u64::MAX;
    get_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate)?;
    Some(rate)
}

/// Sets the number of unsent bytes above which the socket is not writable (`TCP_NOTSENT_LOWAT`). 0
/// selects the system's own limit, usually none. If the kernel refuses, the limit stays.
pub fn set_unsent_limit(fd: RawFd, bytes: u32) {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes);
}

/// The current limit, bytes; 0: none.
pub fn unsent_limit(fd: RawFd) -> Option<u32> {
    let mut bytes = 0u32;
    get_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &mut bytes)?;
    Some(bytes)
}

/// Reports room to all waiters for this socket, of any kind: in Linux, setting the limit of unsent
/// bytes to its current value does that.
pub fn wake_writers(fd: RawFd) {
    if let Some(bytes) = unsent_limit(fd) {
        set_unsent_limit(fd, bytes);
    }
}

/// Selects the kernel's congestion control. Returns errno on refusal.
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
    // SAFETY: it was just made, with no other owner.
    (other >= 0).then(|| unsafe { OwnedFd::from_raw_fd(other) })
}

/// Sends FIN after the written data.
pub fn shutdown_write(fd: RawFd) {
    // SAFETY: no pointers; an error means that there is nothing to end.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// Makes the next close discard written data, and send RST.
pub fn reset_on_close(fd: RawFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
}
