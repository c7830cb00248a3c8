// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

/// A connected byte stream that never blocks: `read` and `write` return `WouldBlock` instead. `read` returning 0 is the end of what the
/// peer sends; an end that the layer's protocol does not allow is `UnexpectedEof`.
///
/// A layer may hold bytes that the descriptor below does not show: read until `WouldBlock` each time that [`Self::fd`] is
/// readable, and wait for it to be writable while [`Self::wants_write`].
pub trait Stream: Read + Write + Send {
    /// What to wait on.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Bytes wait inside, to be written by `flush` when the descriptor is writable.
    fn wants_write(&self) -> bool {
        false
    }

    /// Bytes that `write` has taken and that wait inside, as they will be on the wire: those in the kernel are not counted.
    fn held(&self) -> usize {
        0
    }

    /// Nothing more will be written. Where a layer has no half-close (a WebSocket) it ends both directions: do it last. `WouldBlock`: call
    /// it again when the descriptor is writable.
    fn shutdown_write(&mut self) -> io::Result<()>;
}

impl<S: Stream + ?Sized> Stream for Box<S> {
    fn fd(&self) -> BorrowedFd<'_> {
        (**self).fd()
    }

    fn wants_write(&self) -> bool {
        (**self).wants_write()
    }

    fn held(&self) -> usize {
        (**self).held()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        (**self).shutdown_write()
    }
}
