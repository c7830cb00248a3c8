// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The carrier of the frames: any connected byte stream.
mod tcp;
mod unix;

pub use crate::kernel::{receive, stamp_arrivals};
pub use tcp::Tcp;
pub use unix::Unix;

use alcc_units::Time;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// Result of one read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Number of bytes; zero at the end.
    pub len: usize,
    /// Arrival time of the last byte, by the monotonic clock; `None`: unknown, the current time is
    /// used.
    pub at: Option<Time>,
    /// True if nothing more is available now, as far as is known.
    pub last: bool,
}

/// A connected, non-blocking byte stream after its handshakes.
pub trait Carrier: Send {
    /// The descriptor to poll; non-blocking.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Reads available bytes.
    ///
    /// # Errors
    /// `WouldBlock` if no data has arrived and none is buffered; otherwise the error of the stream.
    fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived>;

    /// Writes the bytes for which there is room. They are sent, or buffered until
    /// [`Carrier::flush`].
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; otherwise the error of the stream.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Writes buffered bytes.
    ///
    /// # Errors
    /// `WouldBlock` while some of them remain.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// True if buffered bytes wait for the descriptor to be writable.
    fn wants_write(&self) -> bool {
        false
    }

    /// Ends the stream in the writing direction.
    ///
    /// # Errors
    /// The error of the stream; it is closed next in any case.
    fn shutdown_write(&mut self) -> io::Result<()>;

    /// The innermost TCP socket, if there is one, for its options and its unsent bytes.
    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Number of bytes of frames that fill a segment.
    fn segment(&self) -> usize {
        1400
    }

    /// The name for reports.
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
