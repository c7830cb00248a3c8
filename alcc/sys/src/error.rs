// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `errno`.
use libc::c_int;

/// The calling thread's errno.
pub fn errno() -> c_int {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub fn set_errno(value: c_int) {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() = value }
}

/// Errors that a socket has by itself (tcp(7), and what ICMP brings by icmp(7)): the kernel tells
/// each once. All others are the call's.
pub fn is_socket_error(errno: c_int) -> bool {
    matches!(
        errno,
        libc::ECONNRESET
            | libc::EPIPE
            | libc::ETIMEDOUT
            | libc::ECONNABORTED
            | libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENETDOWN
            | libc::ENONET
            | libc::ENOPROTOOPT
            | libc::EPROTO
            | libc::EOPNOTSUPP
            | libc::EMSGSIZE
            | libc::EACCES
            | libc::EBADMSG
    )
}
