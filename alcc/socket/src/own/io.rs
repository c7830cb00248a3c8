// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading and writing a stream by the traits of the standard library, and writing in a task.
use super::{Stream, Wait};
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::FromRawFd;
use std::task::{Context, Poll};

impl Stream {
    /// The same as [`Stream::send`], but never waits: if nothing fits, the task is woken when a
    /// quarter of the queue is free. Only the task of the last call is woken.
    ///
    /// # Errors
    /// The errors of [`Stream::send`], without `WouldBlock` and `Interrupted`.
    pub fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let refused = |sent: &io::Result<usize>| {
            (sent.as_ref()).is_err_and(|why| why.kind() == io::ErrorKind::WouldBlock)
        };
        let mut sent = self.send(bytes, Wait::No);
        if refused(&sent) {
            // A notice between the two attempts found no task.
            self.connection.notifier.set_task(cx.waker());
            sent = self.send(bytes, Wait::No);
        }
        match refused(&sent) {
            true => Poll::Pending,
            false => Poll::Ready(sent),
        }
    }

    /// The same as [`Stream::shutdown_write`], but ready only when the kernel has the whole queue
    /// and FIN. Until then the task is woken as by [`Stream::poll_send`].
    ///
    /// # Errors
    /// The error that broke the connection.
    pub fn poll_shutdown_write(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shutdown_write();
        self.connection.notifier.set_task(cx.waker());
        match self.connection.lock().end_of_writing() {
            Some(end) => Poll::Ready(end.map_err(io::Error::from_raw_os_error)),
            None => Poll::Pending,
        }
    }

    /// The result of a read from the socket; the end of a broken connection is its error. Sending
    /// may have taken that from the kernel.
    pub(super) fn arrived(&self, read: io::Result<usize>, room: usize) -> io::Result<usize> {
        match (read, self.error()) {
            (Ok(0), Some(why)) if room > 0 && why.kind() != io::ErrorKind::BrokenPipe => Err(why),
            (read, _) => read,
        }
    }
}

/// Waits for bytes if the descriptor does (`O_NONBLOCK`, `SO_RCVTIMEO`). No thread may read while
/// another one closes the stream or takes its descriptor back.
impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.is_open() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: the stream owns the descriptor, and this never closes it.
        let socket = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(self.raw) });
        let read = (&*socket).read(into);
        self.arrived(read, into.len())
    }
}

/// Sends as [`Stream::send`] does, and waits if the descriptor does ([`Wait::of`]). `flush` does not
/// wait, because the queue is sent without it: it returns the error that broke the connection.
impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_as(bytes, &mut || Wait::of(self.raw))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.error().map_or(Ok(()), Err)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}
