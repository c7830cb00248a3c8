// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that receive. They pass unchanged, except that a reset during a part of a write must not
//! look like the end of the stream.
use super::preserving_errno;
use crate::process;
use crate::real::real;
use crate::table::Known;
use alcc_socket::{errno, set_errno};
use libc::{c_int, c_void, iovec, size_t, sockaddr, socklen_t, ssize_t};
use std::sync::Arc;

/// The unreported error of a part of a write on this descriptor.
pub(super) fn pending_error(fd: c_int) -> Option<c_int> {
    let conn = process::current()?.table.get(fd, |known| match known {
        Known::Controlled(conn) => Some(Arc::clone(conn)),
        _ => None,
    })??;
    conn.take_error_of(fd)
}

/// The result of a call that received `n` bytes. `asked`: it had room for a byte. At the end of the
/// stream it is a pending error instead.
pub(super) fn received(fd: c_int, n: ssize_t, asked: bool) -> ssize_t {
    if n < 0 && errno() == libc::EAGAIN {
        would_block(fd);
    }
    if n != 0 || !asked {
        return n;
    }
    // A connection that the peer had ended before breaks with EPIPE, and for a reader it is at its
    // end.
    match preserving_errno(|| pending_error(fd)).filter(|why| *why != libc::EPIPE) {
        Some(why) => {
            set_errno(why);
            -1
        }
        None => n,
    }
}

/// Notes that there was nothing to read. The program's next calls show how it waits.
fn would_block(fd: c_int) {
    let Some(process) = process::current().filter(|process| !process.waits_for_room()) else {
        return;
    };
    preserving_errno(|| {
        let conn = process.table.get(fd, |known| match known {
            Known::Socket { .. } => Some(None),
            Known::Controlled(conn) => Some(Some(Arc::clone(conn))),
            _ => None,
        });
        match conn.flatten() {
            Some(None) => {
                process.table.update(fd, |known| {
                    if let Known::Socket { epoll, .. } = known {
                        epoll.on_dry();
                    }
                });
            }
            Some(Some(conn)) => {
                if let Some(runtime) = process.running() {
                    runtime.guarded(|| conn.with_waker(|waker, _| waker.on_dry()));
                }
            }
            None => {}
        }
    });
}

/// read(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller's arguments, unchanged.
    received(fd, unsafe { (real().read)(fd, buf, count) }, count > 0)
}

/// read(2) in fortified programs.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    size: size_t,
) -> ssize_t {
    // SAFETY: the caller's arguments, unchanged.
    received(
        fd,
        unsafe { (real().__read_chk)(fd, buf, count, size) },
        count > 0,
    )
}

/// readv(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's arguments, unchanged.
    let n = unsafe { (real().readv)(fd, iov, count) };
    // SAFETY: the kernel has taken the vector.
    let asked = || unsafe { asks(iov, usize::try_from(count).unwrap_or(0)) };
    received(fd, n, n == 0 && asked())
}

/// True if the vector has room for a byte.
///
/// # Safety
/// `iov` points to `count` vectors.
pub(super) unsafe fn asks(iov: *const iovec, count: usize) -> bool {
    // SAFETY: by contract.
    (0..count).any(|i| unsafe { (*iov.add(i)).iov_len } > 0)
}

/// recv(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's arguments, unchanged.
    received(
        fd,
        unsafe { (real().recv)(fd, buf, count, flags) },
        count > 0,
    )
}

/// recv(2) in fortified programs.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    size: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's arguments, unchanged.
    received(
        fd,
        unsafe { (real().__recv_chk)(fd, buf, count, size, flags) },
        count > 0,
    )
}

/// recvfrom(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    flags: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's arguments, unchanged.
    received(
        fd,
        unsafe { (real().recvfrom)(fd, buf, count, flags, from, len) },
        count > 0,
    )
}

/// recvfrom(2) in fortified programs.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    size: size_t,
    flags: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's arguments, unchanged.
    received(
        fd,
        unsafe { (real().__recvfrom_chk)(fd, buf, count, size, flags, from, len) },
        count > 0,
    )
}
