// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams of the C library on sockets. The C library writes a program's `FILE` by internal calls
//! that cannot be interposed, so the data is plain TCP. This is recorded for reports.
use crate::process;
use crate::real::real;
use alcc_socket::note_streams;
use libc::{FILE, c_char, c_int};

/// Notes a descriptor to which streams may be written. It matters only for a TCP connection.
fn streams(fd: c_int) {
    if process::current().is_some() {
        super::preserving_errno(|| process::segment().map(|segment| note_streams(&segment, fd)));
    }
}

/// Descriptors 1 and 2 have streams from the start.
pub(crate) fn standard(fd: c_int) {
    if matches!(fd, libc::STDOUT_FILENO | libc::STDERR_FILENO) {
        streams(fd);
    }
}

/// fdopen(3)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller's arguments, unchanged.
    let stream = unsafe { (real().fdopen)(fd, mode) };
    if !stream.is_null() {
        streams(fd);
    }
    stream
}
