// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The few calls that neither the standard library, mio nor socket2 offer.
use std::io;
use std::os::fd::RawFd;

/// Writes to a socket as write(2) does: -1 and errno on failure. Never raises SIGPIPE.
pub(crate) fn send(fd: RawFd, data: &[u8]) -> isize {
    // SAFETY: pointer and length describe `data`.
    unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL) }
}

/// Raises the limit of open descriptors as far as it goes without privileges; the limit that holds
/// then.
pub(crate) fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid out pointer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is initialised.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0;
    Ok(if raised { limit.rlim_max } else { before })
}
