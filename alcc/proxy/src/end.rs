// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One of the two sockets of a session. What goes to a controlled one waits in the runtime's queue.
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

/// How long a queue may take to drain once both sides have closed. The kernel gives a socket
/// without an owner about as long.
const MAX_DRAIN: Duration = Duration::from_secs(15 * 60);

pub(crate) struct End {
    /// The descriptor is the queue's if there is one.
    stream: ManuallyDrop<TcpStream>,
    /// Present if the runtime controls what we write here.
    queue: Option<Stream>,
    /// Edge-triggered readiness that no call has denied since.
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other side has sent its last: short reads no longer mean that nothing is left.
    read_closed: bool,
    /// The connection is broken.
    pub(crate) reset: bool,
    /// Closed by us: the descriptor may be another's now.
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

    /// For registration, addresses and options; not once it is closed.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// From now on the runtime decides when what we write leaves. `wake` is called when there is
    /// room again.
    pub(crate) fn control(
        &mut self,
        runtime: &Arc<Runtime>,
        wake: impl Fn() + Send + Sync + 'static,
    ) {
        // A connection that broke just now stays plain, and tells us so itself.
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
        // Room in the kernel is the queue's concern.
        self.writable |= event.is_writable() && self.queue.is_none();
        self.read_closed |= event.is_read_closed();
        if event.is_error() && !matches!(self.stream.take_error(), Ok(None)) {
            self.on_broken();
        }
        self.ask_queue();
    }

    /// The queue has a notice: room, or an error.
    pub(crate) fn on_notice(&mut self) {
        if !self.closed {
            self.writable = true;
            self.ask_queue();
        }
    }

    /// The queue's thread may have met the error before us.
    fn ask_queue(&mut self) {
        if self.queue.as_ref().is_some_and(|q| q.error().is_some()) {
            self.on_broken();
        }
    }

    fn on_broken(&mut self) {
        // What came before can still be read.
        (self.reset, self.readable) = (true, true);
    }

    /// Reads what there is, and remembers when there is no more; zero at the end of the data.
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

    /// How much to read for this end at most. It is one byte more than fits into the queue, so that
    /// the queue knows that somebody waits.
    pub(crate) fn room(&self) -> usize {
        self.queue.as_ref().map_or(usize::MAX, |q| q.room() + 1)
    }

    /// Returns how much it took. If that is less than all, it will say when it can take more, or it
    /// is broken.
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

    /// No more will be written: FIN after what is queued.
    pub(crate) fn finish(&mut self) {
        match &self.queue {
            Some(queue) => queue.shutdown_write(),
            // An error is a reset, which an event will report.
            None => drop(self.stream.shutdown(Shutdown::Write)),
        }
    }

    /// The other end has acknowledged all that was written.
    pub(crate) fn is_delivered(&self) -> bool {
        self.is_drained() && (self.closed || alcc_sys::queued(self.stream.as_raw_fd()).get() == 0)
    }

    /// Nothing waits in the queue.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.as_ref().is_none_or(|q| q.queued() == 0)
    }

    /// Closes once the queue is drained.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        if let Some(queue) = &self.queue {
            queue.close(MAX_DRAIN);
        }
    }

    /// Closes with a reset.
    pub(crate) fn abort(&mut self) {
        match &self.queue {
            Some(queue) => queue.abort(),
            None if self.closed => {}
            // On a broken connection this fails, and there is nobody to tell.
            None => drop(SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO))),
        }
        self.closed = true;
    }

    /// The algorithm failed and the connection went on as plain TCP.
    pub(crate) fn failed(&self) -> bool {
        self.queue.as_ref().is_some_and(|q| q.info().plain)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.queue.is_none() {
            // SAFETY: dropped once, here, and only if nobody else closes the descriptor.
            unsafe { ManuallyDrop::drop(&mut self.stream) };
        }
    }
}
