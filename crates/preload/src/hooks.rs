// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interposed calls. Each finds the connection behind the descriptor and, if there is none, is the real call.
use crate::epoll::Epoll;
use crate::real::real;
use crate::{process, table};
use alcc_socket::{Conn, Write, errno, set_errno};
use libc::{
    c_int, c_void, epoll_event, iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t,
};
use std::sync::Arc;

/// The connection behind a descriptor, if this process is in control of it.
fn controlled(fd: c_int) -> Option<Arc<Conn<Epoll>>> {
    table::find(fd).filter(|conn| conn.is_ours())
}

/// Takes a freshly accepted descriptor under control; the program sees its own return value and errno.
fn accepted(fd: c_int) -> c_int {
    if fd >= 0 {
        let before = errno();
        let conn =
            process::runtime().and_then(|runtime| runtime.attach(fd, false, Epoll::default()));
        table::set(fd, conn);
        set_errno(before);
    }
    fd
}

/// A write of `wanted` bytes: `real` skips and limits.
fn limited(
    fd: c_int,
    flags: c_int,
    wanted: size_t,
    real: &mut dyn FnMut(usize, usize) -> ssize_t,
) -> ssize_t {
    let Some((conn, runtime)) = controlled(fd).zip(process::runtime()) else {
        return real(0, wanted);
    };
    let blocking = || {
        // SAFETY: fcntl(F_GETFL) takes no argument.
        let nonblocking = unsafe { libc::fcntl(fd, libc::F_GETFL) } & libc::O_NONBLOCK != 0;
        !nonblocking && flags & libc::MSG_DONTWAIT == 0
    };
    conn.write(
        runtime,
        &mut Write {
            wanted,
            blocking: &blocking,
            real,
        },
    )
}

/// accept(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    accepted(unsafe { (real().accept)(fd, addr, len) })
}

/// accept4(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    accepted(unsafe { (real().accept4)(fd, addr, len, flags) })
}

/// close(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if let Some(conn) = controlled(fd) {
        if let Some(runtime) = process::runtime() {
            conn.close(runtime);
        }
        table::set(fd, None);
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { (real().close)(fd) }
}

/// epoll_ctl(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let Some(conn) = controlled(fd) else {
        // SAFETY: the caller's arguments, unchanged.
        return unsafe { (real().epoll_ctl)(epfd, op, fd, event) };
    };
    // SAFETY: null, or the caller's event.
    let asked = unsafe { event.as_ref() }.copied();
    conn.with_waker(|waker, shut| {
        let mut told = asked.map(|e| epoll_event {
            events: Epoll::masked(e.events, shut),
            u64: e.u64,
        });
        let told = told
            .as_mut()
            .map_or(std::ptr::null_mut(), std::ptr::from_mut);
        // SAFETY: the caller's arguments, with our copy of the event.
        let rc = unsafe { (real().epoll_ctl)(epfd, op, fd, told) };
        if rc == 0 {
            waker.record(epfd, op, asked, shut);
        }
        rc
    })
}

/// write(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buf: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: within the caller's buffer, as `skip + limit <= count`.
    limited(fd, 0, count, &mut |skip, limit| unsafe {
        (real().write)(fd, buf.byte_add(skip), limit)
    })
}

/// send(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(
    fd: c_int,
    buf: *const c_void,
    count: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: within the caller's buffer, as `skip + limit <= count`.
    limited(fd, flags, count, &mut |skip, limit| unsafe {
        (real().send)(fd, buf.byte_add(skip), limit, flags)
    })
}

/// sendto(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    buf: *const c_void,
    count: size_t,
    flags: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    // SAFETY: within the caller's buffer, as `skip + limit <= count`.
    limited(fd, flags, count, &mut |skip, limit| unsafe {
        (real().sendto)(fd, buf.byte_add(skip), limit, flags, addr, len)
    })
}

/// sendfile(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(
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
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile64(
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

/// writev(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's vector.
    let Some(vector) = (unsafe { vector_of(iov, usize::try_from(count).unwrap_or(usize::MAX)) })
    else {
        // SAFETY: the caller's arguments, unchanged: the kernel says what is wrong with them.
        return unsafe { (real().writev)(fd, iov, count) };
    };
    limited(fd, 0, total(vector), &mut |skip, limit| {
        let part = Part::of(vector, skip, limit);
        // SAFETY: a part of the caller's vector.
        unsafe { (real().writev)(fd, part.as_ptr(), part.len() as c_int) }
    })
}

/// sendmsg(2)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: null, or the caller's header and vector.
    let found = unsafe {
        msg.as_ref()
            .and_then(|m| Some((m, vector_of(m.msg_iov, m.msg_iovlen)?)))
    };
    let Some((header, vector)) = found else {
        // SAFETY: the caller's arguments, unchanged.
        return unsafe { (real().sendmsg)(fd, msg, flags) };
    };
    limited(fd, flags, total(vector), &mut |skip, limit| {
        let part = Part::of(vector, skip, limit);
        let header = msghdr {
            msg_iov: part.as_ptr().cast_mut(),
            msg_iovlen: part.len(),
            ..*header
        };
        // SAFETY: the caller's header with a part of its vector.
        unsafe { (real().sendmsg)(fd, &raw const header, flags) }
    })
}

/// The caller's vector, if it is one that the kernel would take.
///
/// # Safety
/// `iov` is null or points to `count` vectors.
unsafe fn vector_of<'a>(iov: *const iovec, count: usize) -> Option<&'a [iovec]> {
    let valid = !iov.is_null() && count <= libc::UIO_MAXIOV as usize;
    // SAFETY: by contract.
    valid.then(|| unsafe { std::slice::from_raw_parts(iov, count) })
}

fn total(vector: &[iovec]) -> usize {
    vector
        .iter()
        .fold(0usize, |sum, v| sum.saturating_add(v.iov_len))
}

const PIECES: usize = 64;

/// A stretch of a vector: at most so many pieces, on the stack. What does not fit is written by the program's next call,
/// as after any partial write.
struct Part<'a> {
    whole: Option<&'a [iovec]>,
    pieces: [iovec; PIECES],
    used: usize,
}

impl<'a> Part<'a> {
    fn of(vector: &'a [iovec], mut skip: usize, mut limit: usize) -> Self {
        let none = iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut part = Self {
            whole: None,
            pieces: [none; PIECES],
            used: 0,
        };
        if skip == 0 && limit >= total(vector) {
            part.whole = Some(vector);
            return part;
        }
        for piece in vector {
            let skipped = skip.min(piece.iov_len);
            skip -= skipped;
            let len = (piece.iov_len - skipped).min(limit);
            if len == 0 {
                continue;
            }
            let Some(to) = part.pieces.get_mut(part.used) else {
                break;
            };
            *to = iovec {
                iov_base: piece.iov_base.wrapping_byte_add(skipped),
                iov_len: len,
            };
            part.used += 1;
            limit -= len;
        }
        part
    }

    fn as_ptr(&self) -> *const iovec {
        self.whole.map_or(self.pieces.as_ptr(), <[iovec]>::as_ptr)
    }

    fn len(&self) -> usize {
        self.whole.map_or(self.used, <[iovec]>::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_vector_is_that_part() {
        let text = *b"abcdefghij";
        let piece = |from: usize, to: usize| iovec {
            iov_base: text[from..to].as_ptr().cast_mut().cast(),
            iov_len: to - from,
        };
        let vector = [piece(0, 3), piece(3, 3), piece(3, 8), piece(8, 10)];
        for skip in 0..=10 {
            for limit in 0..=12 - skip {
                let part = Part::of(&vector, skip, limit);
                let mut got = Vec::new();
                for i in 0..part.len() {
                    // SAFETY: a piece of `text`.
                    got.extend_from_slice(unsafe {
                        let v = &*part.as_ptr().add(i);
                        std::slice::from_raw_parts(v.iov_base.cast::<u8>(), v.iov_len)
                    });
                }
                assert_eq!(
                    got,
                    &text[skip..(skip + limit).min(10)],
                    "skip {skip} limit {limit}"
                );
            }
        }
    }
}
