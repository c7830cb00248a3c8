// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What carries the frames: any connected stream of bytes.
mod tcp;
mod unix;

pub use crate::kernel::{receive, stamp_arrivals};
pub use tcp::Tcp;
pub use unix::Unix;

use alcc_units::Time;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// What one read brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Number of bytes; zero at the end.
    pub len: usize,
    /// When the last of them came, by the monotonic clock; `None`: not known, just now.
    pub at: Option<Time>,
    /// Nothing more is there now, as far as is known.
    pub last: bool,
}

/// A connected stream of bytes that never blocks. Its handshakes are over.
pub trait Carrier: Send {
    /// What to poll; non-blocking.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Reads what has come.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has, and nothing waits inside; what broke the stream.
    fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived>;

    /// Writes what fits. What was taken is on its way, or kept inside until [`Carrier::flush`].
    ///
    /// # Errors
    /// `WouldBlock` when nothing fits; what broke the stream.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Pushes what is kept inside.
    ///
    /// # Errors
    /// `WouldBlock` while some of it remains.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Something is kept inside that waits for the descriptor to be writable.
    fn wants_write(&self) -> bool {
        false
    }

    /// Nothing more will be written.
    ///
    /// # Errors
    /// What the stream says; it is closed next in any case.
    fn shutdown_write(&mut self) -> io::Result<()>;

    /// The innermost TCP socket, if there is one: for its options, and for what it has not sent
    /// yet.
    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Number of bytes of frames that fill a segment.
    fn segment(&self) -> usize {
        1400
    }

    /// For reports.
    fn name(&self) -> &'static str;
}

impl<C: Carrier + ?Sized> Carrier for Box<C> {
    fn fd(&self) -> BorrowedFd<'_> {
        (**self).fd()
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived> {
        (**self).read(into)
    }

    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (**self).write(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }

    fn wants_write(&self) -> bool {
        (**self).wants_write()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        (**self).shutdown_write()
    }

    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        (**self).tcp()
    }

    fn segment(&self) -> usize {
        (**self).segment()
    }

    fn name(&self) -> &'static str {
        (**self).name()
    }
}
