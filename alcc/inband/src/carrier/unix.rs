// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::{Arrived, Carrier};
use crate::kernel;
use std::io::{self, IoSlice, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// A UNIX stream socket as carrier.
#[derive(Debug)]
pub struct Unix(UnixStream);

impl Unix {
    /// Takes a connected socket.
    ///
    /// # Errors
    /// The error of making it non-blocking.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }
}

impl Carrier for Unix {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived> {
        kernel::receive(self.fd(), into, false)
    }

    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(pieces)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }

    fn name(&self) -> &'static str {
        "unix"
    }
}
