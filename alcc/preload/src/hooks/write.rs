// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that send.
use super::read::received;
use super::{controlled, is_unconnected, lent};
use crate::real::real;
use crate::vector::{Part, exists, total, vector_of};
use alcc_socket::{Wait, Write, flags, send_timeout};
use libc::{
    c_int, c_uint, c_void, iovec, loff_t, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t,
    ssize_t,
};
use std::cell::OnceCell;

/// Size of the first part of a write that connects (TCP Fast Open), about the size of a SYN's payload. In a blocking
/// call the remaining bytes follow when there is a connection to be controlled.
const OPENING: size_t = 1400;

/// True if the call waits for room.
fn waits(fd: c_int, options: c_int) -> bool {
    let flags = flags(fd);
    !(flags.signals || flags.nonblocking) && options & libc::MSG_DONTWAIT == 0
}

/// Makes a write of `wanted` bytes; `real` skips and limits.
fn limited(
    fd: c_int,
    options: c_int,
    wanted: size_t,
    real: &mut dyn FnMut(usize, usize) -> ssize_t,
) -> ssize_t {
    // MSG_ZEROCOPY: see `whole`, because the kernel counts these sends. Urgent data points at the last byte of the
    // call, so it is not divided.
    if options & libc::MSG_OOB != 0 {
        return real(0, wanted);
    }
    let (found, done) = match controlled(fd) {
        None if is_unconnected(fd) && waits(fd, options) => {
            let n = real(0, wanted.min(OPENING));
            match usize::try_from(n) {
                Ok(done) if done > 0 && done < wanted => (controlled(fd), done),
                _ => return n,
            }
        }
        found => (found, 0),
    };
    let Some((conn, runtime)) = found else {
        let n = real(done, wanted - done);
        return if n < 0 && done > 0 {
            done as ssize_t
        } else {
            n + done as ssize_t
        };
    };
    runtime.run_inline();
    let known = OnceCell::new();
    let wait = || {
        // A write that is refused or cut needs this more than once.
        *known.get_or_init(|| {
            let flags = flags(fd);
            if flags.signals {
                Wait::Unreachable
            } else if flags.nonblocking || options & libc::MSG_DONTWAIT != 0 {
                Wait::No
            } else {
                Wait::Yes(send_timeout(fd))
            }
        })
    };
    conn.write(
        runtime,
        &mut Write {
            fd,
            whole: options & libc::MSG_ZEROCOPY != 0,
            wanted,
            done,
            wait: &wait,
            real,
        },
    )
}

/// write(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, buf: *const c_void, count: size_t) -> ssize_t {
    if !exists(buf, count) {
        // SAFETY: the caller's arguments, unchanged: the kernel reports their error.
        return unsafe { (real().write)(fd, buf, count) };
    }
    // SAFETY: within the caller's buffer, as `skip + limit <= count`.
    limited(fd, 0, count, &mut |skip, limit| unsafe {
        (real().write)(fd, buf.wrapping_byte_add(skip), limit)
    })
}

/// send(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    fd: c_int,
    buf: *const c_void,
    count: size_t,
    flags: c_int,
) -> ssize_t {
    if !exists(buf, count) {
        // SAFETY: as in `write`.
        return unsafe { (real().send)(fd, buf, count, flags) };
    }
    // SAFETY: within the caller's buffer, as `skip + limit <= count`.
    limited(fd, flags, count, &mut |skip, limit| unsafe {
        (real().send)(fd, buf.wrapping_byte_add(skip), limit, flags)
    })
}

/// sendto(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buf: *const c_void,
    count: size_t,
    flags: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    if !exists(buf, count) {
        // SAFETY: as in `write`.
        return unsafe { (real().sendto)(fd, buf, count, flags, addr, len) };
    }
    // After the first part the socket is connected.
    let to = |skip| match skip {
        0 => (flags, addr, len),
        _ => (flags & !libc::MSG_FASTOPEN, std::ptr::null(), 0),
    };
    // SAFETY: within the caller's buffer, as `skip + limit <= count`.
    limited(fd, flags, count, &mut |skip, limit| unsafe {
        let (flags, addr, len) = to(skip);
        (real().sendto)(fd, buf.wrapping_byte_add(skip), limit, flags, addr, len)
    })
}

/// sendfile(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(
    out: c_int,
    input: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: the caller's arguments; the kernel itself advances the offset past what is skipped.
    limited(out, 0, count, &mut |_, limit| unsafe {
        (real().sendfile)(out, input, offset, limit)
    })
}

/// sendfile64(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(
    out: c_int,
    input: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: the caller's arguments; the kernel itself advances the offset past what is skipped.
    limited(out, 0, count, &mut |_, limit| unsafe {
        (real().sendfile64)(out, input, offset, limit)
    })
}

/// splice(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    input: c_int,
    input_offset: *mut loff_t,
    out: c_int,
    out_offset: *mut loff_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    let dont_wait = if flags & libc::SPLICE_F_NONBLOCK == 0 {
        0
    } else {
        libc::MSG_DONTWAIT
    };
    let mut first = true;
    // SAFETY: the caller's arguments; a pipe is read in order. The rest after a part is taken only if it is available,
    // because without us the program would have got the part by now.
    let n = limited(out, dont_wait, count, &mut |_, limit| unsafe {
        let flags = if std::mem::take(&mut first) {
            flags
        } else {
            flags | libc::SPLICE_F_NONBLOCK
        };
        (real().splice)(input, input_offset, out, out_offset, limit, flags)
    });
    received(input, n, count > 0)
}

/// writev(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's vector.
    let Some(vector) = (unsafe { vector_of(iov, usize::try_from(count).unwrap_or(usize::MAX)) })
    else {
        // SAFETY: the caller's arguments, unchanged: the kernel reports their error.
        return unsafe { (real().writev)(fd, iov, count) };
    };
    limited(fd, 0, total(vector), &mut |skip, limit| {
        let part = Part::of(vector, skip, limit);
        // SAFETY: a part of the caller's vector.
        unsafe { (real().writev)(fd, part.as_ptr(), part.len() as c_int) }
    })
}

/// pwritev2(2): without an offset it is writev with options.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's vector.
    let vector = unsafe { vector_of(iov, usize::try_from(count).unwrap_or(usize::MAX)) };
    let Some(vector) = vector.filter(|_| offset == -1) else {
        // SAFETY: the caller's arguments, unchanged.
        return unsafe { (real().pwritev2)(fd, iov, count, offset, flags) };
    };
    let dont_wait = if flags & libc::RWF_NOWAIT == 0 {
        0
    } else {
        libc::MSG_DONTWAIT
    };
    limited(fd, dont_wait, total(vector), &mut |skip, limit| {
        let part = Part::of(vector, skip, limit);
        // SAFETY: a part of the caller's vector.
        unsafe { (real().pwritev2)(fd, part.as_ptr(), part.len() as c_int, offset, flags) }
    })
}

/// pwritev64v2(2), for programs with large files.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's arguments; on the supported machines both are one function.
    unsafe { pwritev2(fd, iov, count, offset, flags) }
}

/// sendmsg(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: null, or the caller's header and vector.
    let found = unsafe {
        msg.as_ref()
            .and_then(|m| Some((m, vector_of(m.msg_iov, m.msg_iovlen)?)))
    };
    let Some((header, vector)) = found else {
        // SAFETY: the caller's arguments, unchanged.
        return unsafe { (real().sendmsg)(fd, msg, flags) };
    };
    // SAFETY: the caller's header.
    unsafe { handing_over(header) };
    limited(fd, flags, total(vector), &mut |skip, limit| {
        let part = Part::of(vector, skip, limit);
        let mut header = msghdr {
            msg_iov: part.as_ptr().cast_mut(),
            msg_iovlen: part.len(),
            ..*header
        };
        let mut flags = flags;
        if skip > 0 && flags & libc::MSG_FASTOPEN != 0 {
            // After the first part the socket is connected.
            flags &= !libc::MSG_FASTOPEN;
            (header.msg_name, header.msg_namelen) = (std::ptr::null_mut(), 0);
        }
        // SAFETY: the caller's header with a part of its vector.
        unsafe { (real().sendmsg)(fd, &raw const header, flags) }
    })
}

/// Restores the options of sockets that this message passes to another process (SCM_RIGHTS), which may not have the
/// library.
///
/// # Safety
/// The control buffer is the caller's.
unsafe fn handing_over(header: &msghdr) {
    // SAFETY: the macros stay within `msg_controllen`, and descriptors are read unaligned within the
    // length of their header.
    unsafe {
        let mut at = if exists(header.msg_control, header.msg_controllen) {
            libc::CMSG_FIRSTHDR(header)
        } else {
            std::ptr::null_mut()
        };
        while let Some(control) = at.as_ref() {
            if (control.cmsg_level, control.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let fds = libc::CMSG_DATA(control).cast::<c_int>();
                // The kernel refuses a length beyond the buffer.
                let end = header.msg_control as usize + header.msg_controllen;
                let len = control.cmsg_len.min(end - at as usize);
                let count = len.saturating_sub(libc::CMSG_LEN(0) as usize) / size_of::<c_int>();
                for i in 0..count {
                    lent(fds.add(i).read_unaligned());
                }
            }
            at = libc::CMSG_NXTHDR(header, control);
        }
    }
}

/// sendmmsg(2): one message after the other, as in the kernel.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if messages.is_null() || controlled(fd).is_none() {
        for i in 0..if messages.is_null() { 0 } else { count } {
            // SAFETY: one of the caller's `count` messages.
            unsafe { handing_over(&(*messages.add(i as usize)).msg_hdr) };
        }
        // SAFETY: the caller's arguments, unchanged.
        return unsafe { (real().sendmmsg)(fd, messages, count, flags) };
    }
    let mut done = 0;
    while done < count.min(libc::UIO_MAXIOV as c_uint) {
        // SAFETY: one of the caller's `count` messages.
        let sent = unsafe {
            let message = messages.add(done as usize);
            let wanted =
                vector_of((*message).msg_hdr.msg_iov, (*message).msg_hdr.msg_iovlen).map(total);
            let n = sendmsg(fd, &raw const (*message).msg_hdr, flags);
            (*message).msg_len = c_uint::try_from(n).unwrap_or(0);
            (n >= 0).then_some(wanted == usize::try_from(n).ok())
        };
        match sent {
            None if done == 0 => return -1,
            None => break,
            Some(whole) => {
                done += 1;
                // A message that was cut short must not be followed by the next.
                if !whole {
                    break;
                }
            }
        }
    }
    c_int::try_from(done).unwrap_or(c_int::MAX)
}
