// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stream in tokio's tasks. Arrivals are watched by tokio's reactor, room in the queue by the
//! runtime's thread.
use super::Stream;
use crate::kernel;
use std::io;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::runtime::Handle;
use tokio::task::coop;

/// The stream's socket in tokio's reactor, from the first read on.
#[derive(Default)]
pub(super) struct Arrivals(Mutex<Option<AsyncFd<RawFd>>>);

impl Arrivals {
    /// Ends watching. To be called before the descriptor is closed: the reactor could not find it
    /// afterwards.
    pub(super) fn forget(&self) {
        kernel::lock(&self.0).take();
    }
}

/// The socket may be blocking or not. The first read must be within a runtime of tokio that has I/O
/// enabled, which panics otherwise.
impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_open() {
            return Poll::Ready(Err(io::Error::from_raw_os_error(libc::EBADF)));
        }
        let watched = &mut *kernel::lock(&self.arrivals.0);
        let watched = match watched {
            Some(watched) => watched,
            None => {
                // Outside of a runtime, tokio would panic.
                Handle::try_current().map_err(io::Error::other)?;
                // SAFETY: the stream owns the descriptor, and calls `forget` before it closes it or
                // gives it away.
                let new = unsafe { AsyncFd::register_with_interest(self.raw, Interest::READABLE) };
                watched.insert(new?)
            }
        };
        loop {
            let mut ready = ready!(watched.poll_read_ready(cx))?;
            let free = into.initialize_unfilled();
            let read = kernel::receive(self.raw, free, false).map(|(n, _)| n);
            match self.arrived(read, free.len()) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    into.advance(read?);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

/// A write is complete when the bytes are in the queue. `flush` does not wait for more, `shutdown`
/// waits until the kernel has all of them, and FIN. A dropped future has sent what its writes
/// returned; a dropped stream is drained in the background.
impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let turn = ready!(coop::poll_proceed(cx));
        let sent = ready!(self.poll_send(cx, bytes));
        turn.made_progress();
        Poll::Ready(sent)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(io::Write::flush(&mut &*self))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_shutdown_write(cx)
    }
}
