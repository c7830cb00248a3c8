// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that create sockets and connections.
use super::read::{self, asks};
use super::{fd_created, preserving_errno};
use crate::epoll::Epoll;
use crate::process;
use crate::real::real;
use crate::table::Known;
use libc::{c_int, c_uint, mmsghdr, msghdr, sockaddr, socklen_t, ssize_t, timespec};

/// accept(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    let new = unsafe { (real().accept)(fd, addr, len) };
    fd_created(new, Some(Some(false)));
    new
}

/// accept4(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    let new = unsafe { (real().accept4)(fd, addr, len, flags) };
    fd_created(new, Some(Some(false)));
    new
}

/// socket(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    let new = unsafe { (real().socket)(domain, kind, protocol) };
    fd_created(new, None);
    new
}

/// connect(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    if let Some(process) = process::current() {
        preserving_errno(|| {
            process.table.update(fd, |known| match known {
                Known::Nothing => {
                    *known = Known::Socket {
                        outbound: Some(true),
                        epoll: Epoll::default(),
                    }
                }
                Known::Socket { outbound, .. } => *outbound = Some(true),
                Known::Other | Known::Taken { .. } | Known::Epoll(_) | Known::Controlled(_) => {}
            })
        });
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { (real().connect)(fd, addr, len) }
}

/// recvmsg(2): a message may contain descriptors.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's arguments, unchanged.
    let n = unsafe { (real().recvmsg)(fd, msg, flags) };
    if n < 0 {
        return read::received(fd, n, true);
    }
    // SAFETY: the kernel has just filled it in.
    let asked = unsafe {
        received(msg);
        n == 0 && asks((*msg).msg_iov, (*msg).msg_iovlen)
    };
    read::received(fd, n, asked && flags & libc::MSG_ERRQUEUE == 0)
}

/// recvmmsg(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    let n = unsafe { (real().recvmmsg)(fd, messages, count, flags, timeout) };
    for i in 0..usize::try_from(n).unwrap_or(0) {
        // SAFETY: the kernel has filled in the first `n`.
        unsafe { received(&raw mut (*messages.add(i)).msg_hdr) };
    }
    // SAFETY: as above; the end of the stream is the first message.
    let ended = n >= 1
        && unsafe {
            let (first, len) = (&(*messages).msg_hdr, (*messages).msg_len);
            len == 0 && asks(first.msg_iov, first.msg_iovlen)
        };
    if ended && read::received(fd, 0, true) < 0 {
        return -1;
    }
    n
}

/// # Safety
/// `msg` is a message header as the kernel returned it.
unsafe fn received(msg: *const msghdr) {
    // SAFETY: by contract.
    unsafe {
        if (*msg).msg_control.is_null() || (*msg).msg_controllen == 0 {
            return;
        }
        let mut control = libc::CMSG_FIRSTHDR(msg);
        while let Some(header) = control.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data = libc::CMSG_DATA(control);
                let len = (control as usize + header.cmsg_len).saturating_sub(data as usize);
                for i in 0..len / size_of::<c_int>() {
                    fd_created(data.cast::<c_int>().add(i).read_unaligned(), None);
                }
            }
            control = libc::CMSG_NXTHDR(msg, control);
        }
    }
}
