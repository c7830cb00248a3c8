// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Another process, and duplicates of its sockets' descriptors.
//!
//! A duplicate keeps the socket open: when the program closes the connection, its peer gets no FIN
//! before the duplicate is closed, too. So it is held for a moment only.
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A process (pidfd), which stays valid when its number is reused.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// The process with this number.
    ///
    /// # Errors
    /// The error of pidfd_open(2): there is no such process.
    pub fn open(pid: u32) -> io::Result<Self> {
        let none: libc::c_uint = 0;
        // SAFETY: numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.cast_signed(), none) };
        owned(fd).map(Self)
    }

    /// A duplicate of the process's descriptor `fd`.
    ///
    /// # Errors
    /// `EBADF`: the process has no such descriptor. `ESRCH`: it has ended. `EPERM`: we may not
    /// trace it.
    pub fn descriptor(&self, fd: RawFd) -> io::Result<OwnedFd> {
        let none: libc::c_uint = 0;
        // SAFETY: numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), fd, none) };
        owned(fd)
    }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: a new descriptor from the kernel.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cookie;
    use std::net::TcpListener;

    #[test]
    fn a_descriptor_is_the_same_socket() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let this = Process::open(std::process::id()).unwrap();
        let other = match this.descriptor(socket.as_raw_fd()) {
            Ok(other) => other,
            Err(why) => {
                println!("skipped: needs pidfd_getfd: {why}");
                return;
            }
        };
        assert_ne!(other.as_raw_fd(), socket.as_raw_fd());
        assert_eq!(cookie(other.as_raw_fd()), cookie(socket.as_raw_fd()));
        let none = this.descriptor(1_000_000).unwrap_err();
        assert_eq!(none.raw_os_error(), Some(libc::EBADF));
        assert!(Process::open(4_194_305).is_err());
    }
}
