// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of the process.
use std::io;

/// Raises the limit of open descriptors to the maximum without privileges. Returns the limit in
/// force.
///
/// # Errors
/// The kernel's error in reading the limit.
pub fn raise_descriptor_limit() -> io::Result<u64> {
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
