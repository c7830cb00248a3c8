// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One relayed connection: two sockets and a pipe each way.
//!
//! What one end says is passed on when what came before has been: an end of data (FIN) once all before it is written, a
//! reset (RST) once the other end has acknowledged what we had taken, as it would without us; but not for longer than
//! [`RESET_PATIENCE`].
use crate::sys;
use crate::worker::Bell;
use alcc_socket::{Conn, Runtime, Wait, Write};
use mio::event::Event;
use mio::net::TcpStream;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Index of the client's end, and of the pipe that leads from it to the server.
pub(crate) const CLIENT: usize = 0;
/// Index of the server's end, and of the pipe that leads from it to the client.
pub(crate) const SERVER: usize = 1;

/// How long the other end may take for what it had not acknowledged when a reset came.
const RESET_PATIENCE: Duration = Duration::from_secs(5);
/// How often to look whether it has: nothing else tells.
const RESET_LOOK: Duration = Duration::from_millis(50);
/// Reads in a row for one direction before the others have their turn.
const READS: usize = 4;

/// One of the two sockets.
pub(crate) struct End {
    pub(crate) stream: TcpStream,
    /// Present if the runtime controls what we write here.
    pub(crate) conn: Option<Arc<Conn<Bell>>>,
    /// What edge-triggered readiness has told and no call has denied since.
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other side has sent its last: short reads no longer mean that nothing is left.
    read_closed: bool,
    /// The connection is broken.
    reset: bool,
}

impl End {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            conn: None,
            readable: false,
            writable: false,
            read_closed: false,
            reset: false,
        }
    }

    /// The connection is broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.reset
    }

    pub(crate) fn happened(&mut self, event: &Event) {
        self.readable |= event.is_readable();
        self.writable |= event.is_writable();
        self.read_closed |= event.is_read_closed();
        if event.is_error() && !matches!(self.stream.take_error(), Ok(None)) {
            // What came before the reset can still be read.
            self.reset = true;
            self.readable = true;
        }
    }

    fn send(&self, runtime: &Arc<Runtime<Bell>>, data: &[u8]) -> io::Result<usize> {
        let fd = self.stream.as_raw_fd();
        let n = match &self.conn {
            None => sys::send(fd, data),
            Some(conn) => conn.write(
                runtime,
                &mut Write {
                    wanted: data.len(),
                    wait: &|| Wait::No,
                    real: &mut |skip, most| sys::send(fd, &data[skip..skip + most]),
                },
            ),
        };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }
}

/// One direction.
#[derive(Default)]
struct Pipe {
    /// Read and not yet written.
    kept: Vec<u8>,
    /// How much of it has been written.
    at: usize,
    /// Bytes in `kept` that are ours, not payload.
    ours: usize,
    /// The source has sent its last.
    ended: bool,
    /// The end has been passed on.
    done: bool,
}

impl Pipe {
    fn is_empty(&self) -> bool {
        self.at == self.kept.len()
    }

    /// Counts `n` bytes written from `kept`, which takes no memory once it is empty; how many were payload.
    fn advance(&mut self, n: usize) -> usize {
        let ours = n.min(self.ours);
        self.ours -= ours;
        self.at += n;
        if self.is_empty() {
            (self.kept, self.at) = (Vec::new(), 0);
        }
        n - ours
    }
}

/// What a session needs while it works.
pub(crate) struct Tools<'a> {
    pub(crate) runtime: &'a Arc<Runtime<Bell>>,
    pub(crate) scratch: &'a mut [u8],
    /// Payload moved, by direction.
    pub(crate) moved: [u64; 2],
}

/// What is left to do for a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Wait for an event.
    Wait,
    /// It could go on, but it is the others' turn.
    Again,
    /// Look again then.
    At(Instant),
    /// Both directions have ended in order.
    Done,
    /// A reset has ended it.
    Reset,
}

pub(crate) struct Session {
    pub(crate) ends: [End; 2],
    pipes: [Pipe; 2],
    /// When the patience with what a reset left behind ends.
    patience: Option<Instant>,
}

impl Session {
    /// `header` goes to the server before anything that the client sends.
    pub(crate) fn new(client: End, server: End, header: Vec<u8>) -> Self {
        let up = Pipe {
            ours: header.len(),
            kept: header,
            ..Pipe::default()
        };
        Self {
            ends: [client, server],
            pipes: [up, Pipe::default()],
            patience: None,
        }
    }

    /// The client is gone before there is a server to tell.
    pub(crate) fn abandoned(&self) -> bool {
        self.ends[CLIENT].reset
    }

    /// Moves what can be moved.
    pub(crate) fn drive(&mut self, tools: &mut Tools<'_>) -> Fate {
        let again = [CLIENT, SERVER].map(|from| self.pump(from, tools)) != [false; 2];
        if self.ends.iter().any(|end| end.reset) {
            return self.after_reset(again);
        }
        if self.pipes.iter().all(|pipe| pipe.done) {
            return Fate::Done;
        }
        if again { Fate::Again } else { Fate::Wait }
    }

    fn after_reset(&mut self, again: bool) -> Fate {
        let delivered = |from: usize| {
            let to = &self.ends[1 - from];
            to.reset
                || self.pipes[from].ended
                    && self.pipes[from].is_empty()
                    && sys::unacknowledged(to.stream.as_raw_fd()) == 0
        };
        let waiting = [CLIENT, SERVER]
            .into_iter()
            .any(|from| self.ends[from].reset && !delivered(from));
        let now = Instant::now();
        let until = *self.patience.get_or_insert(now + RESET_PATIENCE);
        if !waiting || now >= until {
            return Fate::Reset;
        }
        if again {
            Fate::Again
        } else {
            Fate::At(now + RESET_LOOK)
        }
    }

    /// Moves data from end `from` to the other; true if there may be more at once.
    fn pump(&mut self, from: usize, tools: &mut Tools<'_>) -> bool {
        let [client, server] = &mut self.ends;
        let (source, sink) = if from == CLIENT {
            (client, server)
        } else {
            (server, client)
        };
        let pipe = &mut self.pipes[from];
        if sink.reset {
            // Nobody is there to take it.
            *pipe = Pipe {
                ended: true,
                done: true,
                ..Pipe::default()
            };
        }
        for _ in 0..READS {
            while !pipe.is_empty() {
                if !sink.writable {
                    return false;
                }
                let n = write(sink, tools.runtime, &pipe.kept[pipe.at..]);
                tools.moved[from] += pipe.advance(n) as u64;
            }
            if pipe.ended {
                if !pipe.done && !source.reset {
                    pipe.done = true;
                    // An error is a reset, of which we will hear.
                    drop(sink.stream.shutdown(Shutdown::Write));
                }
                return false;
            }
            if !source.readable || !sink.writable {
                return false;
            }
            match source.stream.read(tools.scratch) {
                Ok(0) => pipe.ended = true,
                Ok(n) => {
                    if n < tools.scratch.len() && !source.read_closed && !source.reset {
                        source.readable = false;
                    }
                    let written = write(sink, tools.runtime, &tools.scratch[..n]);
                    tools.moved[from] += written as u64;
                    pipe.kept = tools.scratch[written..n].to_vec();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    source.readable = false;
                    // Nothing follows a reset.
                    pipe.ended |= source.reset;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    source.reset = true;
                    pipe.ended = true;
                }
            }
        }
        source.readable || !pipe.is_empty()
    }

    /// The sockets are about to be closed: the runtime must not touch them afterwards.
    pub(crate) fn release(&self, runtime: &Arc<Runtime<Bell>>) {
        for end in &self.ends {
            if let Some(conn) = &end.conn {
                conn.close(runtime, end.stream.as_raw_fd());
            }
        }
    }

    /// Closing the sockets will send a reset.
    pub(crate) fn abort(&self) {
        for end in &self.ends {
            // On a broken connection this fails, and there is nobody to tell.
            drop(SockRef::from(&end.stream).set_linger(Some(Duration::ZERO)));
        }
    }
}

/// How much `sink` took; less than all means that it has to say when it can take more, or is broken.
fn write(sink: &mut End, runtime: &Arc<Runtime<Bell>>, data: &[u8]) -> usize {
    match sink.send(runtime, data) {
        Ok(n) => {
            sink.writable = n == data.len();
            n
        }
        Err(e) if e.kind() == ErrorKind::Interrupted => 0,
        Err(e) => {
            sink.writable = false;
            if e.kind() != ErrorKind::WouldBlock {
                // What it said before can still be read.
                (sink.reset, sink.readable) = (true, true);
            }
            0
        }
    }
}
