// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One of the two sockets of a session. Data for a controlled one waits in the runtime's queue.
use crate::sys;
use alcc_socket::own::{Options, Runtime, Stream, Wait};
use mio::event::Event;
use mio::net::TcpStream;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read};
use std::mem::ManuallyDrop;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for a queue to drain after both sides have closed, about that of the kernel for an
/// orphaned socket.
const MAX_DRAIN: Duration = Duration::from_secs(15 * 60);

pub(crate) struct End {
    /// The socket. Its descriptor belongs to the queue if there is one.
    stream: ManuallyDrop<TcpStream>,
    /// Present if the runtime controls the data written here.
    queue: Option<Stream>,
    /// Edge-triggered readiness that no call has disproved since.
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// True if the other side has sent its end: a short read then does not mean that no data is
    /// left.
    read_closed: bool,
    /// True if the connection is broken.
    pub(crate) reset: bool,
    /// True if closed by us: the descriptor may be another file's now.
    closed: bool,
}

impl End {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream: ManuallyDrop::new(stream),
            queue: None,
            readable: false,
            writable: false,
            read_closed: false,
            reset: false,
            closed: false,
        }
    }

    /// The socket, for registration, addresses and options; not after it is closed.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Passes control of the data written here to the runtime. `wake` is called when there is room
    /// again.
    pub(crate) fn control(
        &mut self,
        runtime: &Arc<Runtime>,
        wake: impl Fn() + Send + Sync + 'static,
    ) {
        // A connection that has just broken stays plain, and will report that itself.
        if let Ok(queue) = Stream::adopt(runtime, self.stream.as_raw_fd(), &Options::default()) {
            queue.on_notice(wake);
            self.writable = true;
            self.queue = Some(queue);
        }
    }

    pub(crate) fn on_event(&mut self, event: &Event) {
        if self.closed {
            return;
        }
        self.readable |= event.is_readable();
        // The queue handles room in the kernel itself.
        self.writable |= event.is_writable() && self.queue.is_none();
        self.read_closed |= event.is_read_closed();
        if event.is_error() && !matches!(self.stream.take_error(), Ok(None)) {
            self.on_broken();
        }
        self.ask_queue();
    }

    /// Handles a notice of the queue: room, or an error.
    pub(crate) fn on_notice(&mut self) {
        if !self.closed {
            self.writable = true;
            self.ask_queue();
        }
    }

    /// Checks the queue, whose thread may have got the error before us.
    fn ask_queue(&mut self) {
        if self.queue.as_ref().is_some_and(|q| q.error().is_some()) {
            self.on_broken();
        }
    }

    fn on_broken(&mut self) {
        // Earlier data can still be read.
        (self.reset, self.readable) = (true, true);
    }

    /// Reads available data, and notes when there is no more; zero at the end of the data.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.stream.read(buffer);
        match &result {
            Ok(0) => self.ask_queue(),
            Ok(n) if *n == buffer.len() || self.read_closed || self.reset => {}
            Ok(_) => self.readable = false,
            Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.reset = true,
        }
        result
    }

    /// Maximum size of a read for this end. It is one byte more than fits into the queue, so that
    /// the queue will send a notice.
    pub(crate) fn room(&self) -> usize {
        self.queue.as_ref().map_or(usize::MAX, |q| q.room() + 1)
    }

    /// Writes data. Returns the number of bytes taken. If that is less than all, a notice or event
    /// follows when it can take more, or it is broken.
    pub(crate) fn write(&mut self, data: &[u8]) -> usize {
        let sent = match &self.queue {
            Some(queue) => queue.send(data, Wait::No),
            None => usize::try_from(sys::send(self.stream.as_raw_fd(), data))
                .map_err(|_| io::Error::last_os_error()),
        };
        match sent {
            Ok(n) => {
                self.writable = n == data.len();
                n
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => 0,
            Err(e) => {
                self.writable = false;
                if e.kind() != ErrorKind::WouldBlock {
                    self.on_broken();
                }
                0
            }
        }
    }

    /// Ends writing: FIN after the queued data.
    pub(crate) fn finish(&mut self) {
        match &self.queue {
            Some(queue) => queue.shutdown_write(),
            // An error means a reset, which an event will report.
            None => drop(self.stream.shutdown(Shutdown::Write)),
        }
    }

    /// True if the other end has acknowledged all written data.
    pub(crate) fn is_delivered(&self) -> bool {
        self.is_drained() && (self.closed || alcc_sys::queued(self.stream.as_raw_fd()).get() == 0)
    }

    /// True if the queue is empty.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.as_ref().is_none_or(|q| q.queued() == 0)
    }

    /// Closes the socket once the queue is drained.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        if let Some(queue) = &self.queue {
            queue.close(MAX_DRAIN);
        }
    }

    /// Closes the socket with a reset.
    pub(crate) fn abort(&mut self) {
        match &self.queue {
            Some(queue) => queue.abort(),
            None if self.closed => {}
            // On a broken connection this fails, which needs no report.
            None => drop(SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO))),
        }
        self.closed = true;
    }

    /// True if the algorithm has failed, so that the connection continued as plain TCP.
    pub(crate) fn failed(&self) -> bool {
        self.queue.as_ref().is_some_and(|q| q.info().plain)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.queue.is_none() {
            // SAFETY: dropped once, here, and only if the queue does not close the descriptor.
            unsafe { ManuallyDrop::drop(&mut self.stream) };
        }
    }
}
