// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which function may fail with what, by their manual pages; the most telling first. Linux's
//! numbers on x86-64 and aarch64.
use nix::libc::*;

const WRITING: &[i32] = &[
    EAGAIN, EINTR, ECONNRESET, EPIPE, ENOBUFS, ENOMEM, EBADF, EINVAL, EIO,
];
const READING: &[i32] = &[EAGAIN, EINTR, ECONNRESET, ENOMEM, EBADF];
const WAITING: &[i32] = &[EINTR, ENOMEM, EINVAL];
const ASKING: &[i32] = &[ENOBUFS, EBADF, EPERM, ENOTSOCK, EINVAL, ENOPROTOOPT];

pub(crate) const ERRORS: &[(&str, &[i32])] = &[
    (
        "accept",
        &[EAGAIN, EINTR, ECONNABORTED, EMFILE, ENOBUFS, EPERM],
    ),
    (
        "accept4",
        &[EAGAIN, EINTR, ECONNABORTED, EMFILE, ENOBUFS, EPERM],
    ),
    ("write", WRITING),
    ("writev", WRITING),
    ("send", WRITING),
    ("sendto", WRITING),
    ("sendmsg", WRITING),
    ("sendfile", WRITING),
    ("sendfile64", WRITING),
    ("splice", WRITING),
    ("read", READING),
    ("readv", READING),
    ("recv", READING),
    ("recvfrom", READING),
    ("recvmsg", READING),
    // On Linux the descriptor is gone after EINTR and EIO, too; the call that fails here leaves it
    // open.
    ("close", &[EINTR, EIO]),
    ("shutdown", &[ENOTCONN, EINVAL]),
    ("dup", &[EMFILE]),
    ("socket", &[EMFILE, ENOBUFS, EACCES]),
    ("getsockopt", ASKING),
    ("setsockopt", ASKING),
    ("getpeername", &[ENOTCONN, ENOBUFS, EBADF]),
    ("getsockname", &[ENOBUFS, EBADF]),
    ("poll", WAITING),
    ("ppoll", WAITING),
    ("select", WAITING),
    ("pselect", WAITING),
    ("epoll_create1", &[EMFILE, ENOMEM]),
    ("epoll_ctl", &[ENOMEM, ENOSPC, EBADF, EPERM, ENOENT, EEXIST]),
    ("epoll_wait", &[EINTR, EBADF]),
    ("epoll_pwait", &[EINTR, EBADF]),
    ("timerfd_create", &[EMFILE, ENFILE, ENOMEM, EPERM]),
    ("timerfd_settime", &[EINVAL, EPERM]),
    ("mmap", &[ENOMEM, EPERM]),
    ("mmap64", &[ENOMEM, EPERM]),
    ("munmap", &[EINVAL]),
    ("madvise", &[EINVAL, ENOMEM]),
    ("ioctl", &[EBADF, EPERM, EINVAL, ENOTTY]),
    ("fcntl", &[EBADF, EPERM, EINVAL]),
    ("fcntl64", &[EBADF, EPERM, EINVAL]),
    ("pthread_create", &[EAGAIN, EPERM]),
];
