// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that duplicate and close descriptors.
use super::processes::unsharing;
use super::stdio::standard;
use super::{Lookup, controlled, fd_created, lookup, preserving_errno, replace_known};
use crate::epoll::Epoll;
use crate::process::{self, Process};
use crate::real::real;
use crate::table::Known;
use libc::{c_int, c_uint};
use std::sync::Arc;

/// Removes the entry of a descriptor before its number can be reused.
fn fd_closing(fd: c_int) {
    if let Some(process) = process::current() {
        preserving_errno(|| replace_known(process, fd, Known::Nothing));
    }
}

/// `new` is another descriptor of the file of `old`.
fn fd_duplicated(old: c_int, new: c_int) -> c_int {
    if new < 0 || old == new {
        return new;
    }
    if let Some(process) = process::current() {
        preserving_errno(|| {
            let copy = copy_of(process, old, new);
            if let (Known::Controlled(conn), Some(runtime)) = (&copy, process.running()) {
                runtime.guarded(|| conn.add_fd(new, Epoll::default()).ok());
            }
            replace_known(process, new, copy);
        });
        standard(new);
    }
    new
}

fn copy_of(process: &Process, fd: c_int, new: c_int) -> Known {
    let look = |known: &Known| match known {
        Known::Epoll(file) => (Some(Arc::clone(file)), false),
        Known::Socket { epoll, .. } => (None, epoll.is_registered()),
        _ => (None, false),
    };
    let (file, registered) = process.table.get(fd, look).unwrap_or_default();
    if let Some(file) = file {
        file.add(new);
        return Known::Epoll(file);
    }
    if registered && let Some((conn, _)) = controlled(fd) {
        // A registration of one descriptor concerns the other.
        return Known::Controlled(conn);
    }
    match lookup(process, fd) {
        Some(Lookup::Controlled(conn)) if conn.is_same_socket(fd) => {
            Known::Controlled(Arc::clone(&conn))
        }
        Some(Lookup::Socket) => {
            let outbound = process.table.get(fd, |known| match known {
                Known::Socket { outbound, .. } => *outbound,
                _ => None,
            });
            Known::Socket {
                outbound: outbound.flatten(),
                epoll: Epoll::default(),
            }
        }
        _ => Known::Nothing,
    }
}

/// close(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    fd_closing(fd);
    // SAFETY: the caller's arguments, unchanged.
    unsafe { (real().close)(fd) }
}

/// close_range(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    fds_closing(first, last, flags, || unsafe {
        (real().close_range)(first, last, flags)
    })
}

/// Handles close_range(2), called by function or by number.
pub(super) fn fds_closing(
    first: c_uint,
    last: c_uint,
    flags: c_int,
    real: impl Fn() -> c_int,
) -> c_int {
    let has = |flag: c_uint| flags as c_uint & flag != 0;
    let here = || {
        if !has(libc::CLOSE_RANGE_CLOEXEC) {
            close_all(first, last);
        }
        real()
    };
    if has(libc::CLOSE_RANGE_UNSHARE) {
        unsharing(here, &real)
    } else {
        here()
    }
}

/// closefrom(3). If the kernel lacks close_range(2), the C library reads /proc/self/fd.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    close_all(c_uint::try_from(first).unwrap_or(0), c_uint::MAX);
    // SAFETY: the caller's argument, unchanged.
    unsafe { (real().closefrom)(first) };
}

fn close_all(first: c_uint, last: c_uint) {
    if let Some(process) = process::current() {
        let range = first..=last;
        for fd in process
            .table
            .all()
            .filter(|fd| range.contains(&fd.cast_unsigned()))
        {
            fd_closing(fd);
        }
    }
}

/// dup(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(old: c_int) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    fd_duplicated(old, unsafe { (real().dup)(old) })
}

/// dup2(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    fd_duplicated(old, unsafe { (real().dup2)(old, new) })
}

/// dup3(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    fd_duplicated(old, unsafe { (real().dup3)(old, new, flags) })
}

/// fcntl(2). The third argument is an integer, a pointer, or missing: a register in all cases.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    let rc = unsafe { (real().fcntl)(fd, command, argument) };
    if_duplicated(fd, command, rc)
}

/// fcntl64(2), for programs with large files.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    let rc = unsafe { (real().fcntl64)(fd, command, argument) };
    if_duplicated(fd, command, rc)
}

fn if_duplicated(fd: c_int, command: c_int, rc: c_int) -> c_int {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        fd_duplicated(fd, rc);
    }
    rc
}

/// A descriptor was received. The hooks do not see fclose(3) and other closes inside the C library,
/// nor a descriptor taken from another process by pidfd_getfd(2), whose wrapper is a system call by
/// number.
pub(super) fn fd_received(fd: c_int) {
    fd_created(fd, None);
}
