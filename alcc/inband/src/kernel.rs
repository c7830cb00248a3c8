// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Socket options and reads of a socket below a stream.
use crate::carrier::Arrived;
use alcc_sys::{get_option, set_option};
use libc::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Limit of unsent bytes in a TCP socket.
const NOTSENT_LOWAT: c_int = 8 * 1024;
/// Keep-alive of a silent connection: idle seconds, interval, and number of probes. An end that
/// only receives would not notice otherwise that its peer has vanished. Together as long as a
/// session waits for an answer.
const KEEP_ALIVE: [(c_int, c_int); 3] = [
    (libc::TCP_KEEPIDLE, 60),
    (libc::TCP_KEEPINTVL, 15),
    (libc::TCP_KEEPCNT, 4),
];

/// Sets the options of a TCP socket: little unsent data, no delay, and detection of a silent peer.
pub(crate) fn prepare(tcp: RawFd) {
    set_option(tcp, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32);
    set_option(
        tcp,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        &NOTSENT_LOWAT,
    );
    set_option(tcp, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1i32);
    for (name, value) in KEEP_ALIVE {
        set_option(tcp, libc::IPPROTO_TCP, name, &value);
    }
}

/// The segment size, bytes.
pub(crate) fn segment(tcp: BorrowedFd<'_>) -> Option<usize> {
    let mut mss: c_int = 0;
    get_option(
        tcp.as_raw_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_MAXSEG,
        &mut mss,
    )?;
    usize::try_from(mss).ok()
}

/// Enables time stamps of arriving bytes, for [`receive`]. False if the kernel refuses.
pub fn stamp_arrivals(fd: BorrowedFd<'_>) -> bool {
    alcc_sys::stamp_arrivals(fd.as_raw_fd())
}

/// Reads from a socket. With `stamped` it also returns the arrival time of the last bytes.
///
/// # Errors
/// The errors of recvmsg(2); `WouldBlock` if no data is available.
pub fn receive(fd: BorrowedFd<'_>, into: &mut [u8], stamped: bool) -> io::Result<Arrived> {
    let (len, at) = alcc_sys::receive(fd.as_raw_fd(), into, stamped)?;
    Ok(Arrived {
        len,
        at,
        last: len < into.len(),
    })
}
