// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::{Arrived, Carrier};
use crate::kernel;
use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

/// A TCP connection as carrier.
#[derive(Debug)]
pub struct Tcp {
    socket: TcpStream,
    stamped: bool,
}

impl Tcp {
    /// Takes a connected socket.
    ///
    /// # Errors
    /// The error of making it non-blocking.
    pub fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let stamped = kernel::stamp_arrivals(socket.as_fd());
        Ok(Self { socket, stamped })
    }
}

impl Carrier for Tcp {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived> {
        kernel::receive(self.fd(), into, self.stamped)
    }

    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.socket).write_vectored(pieces)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd())
    }

    fn segment(&self) -> usize {
        kernel::segment(self.fd()).unwrap_or(1400)
    }

    fn name(&self) -> &'static str {
        "tcp"
    }
}
