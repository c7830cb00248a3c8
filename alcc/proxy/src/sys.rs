// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A call that neither the standard library, mio nor socket2 offers.
use std::os::fd::RawFd;

/// Writes to a socket. The result is that of write(2): -1 and errno on failure. It never raises
/// SIGPIPE.
pub(crate) fn send(fd: RawFd, data: &[u8]) -> isize {
    // SAFETY: pointer and length describe `data`.
    unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL) }
}
