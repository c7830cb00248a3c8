// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to `errno`.
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

/// True for errors of the socket itself (tcp(7), and ICMP errors by icmp(7)), each of which the
/// kernel reports once. All others are errors of the call.
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
