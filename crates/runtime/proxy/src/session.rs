// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One relayed connection: two sockets and a pipe each way.
//!
//! What one end says is passed on when what came before has been: an end of data (FIN) once all before it is written, a
//! reset (RST) once the other end has acknowledged what we had taken, as it would without us; but not for longer than
//! [`RESET_PATIENCE`].
use crate::end::End;
use std::io::ErrorKind;
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
            let (pipe, to) = (&self.pipes[from], &self.ends[1 - from]);
            to.reset || pipe.ended && pipe.is_empty() && to.is_delivered()
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
                let n = sink.write(&pipe.kept[pipe.at..]);
                tools.moved[from] += pipe.advance(n) as u64;
            }
            if pipe.ended {
                if !pipe.done && !source.reset {
                    pipe.done = true;
                    sink.finish();
                }
                return false;
            }
            if !source.readable || !sink.writable {
                return false;
            }
            let most = sink.room().min(tools.scratch.len());
            match source.read(&mut tools.scratch[..most]) {
                Ok(0) => pipe.ended = true,
                Ok(n) => {
                    let written = sink.write(&tools.scratch[..n]);
                    tools.moved[from] += written as u64;
                    pipe.kept = tools.scratch[written..n].to_vec();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Nothing follows a reset.
                Err(_) => pipe.ended |= source.reset,
            }
        }
        source.readable || !pipe.is_empty()
    }

    /// Closes both sockets; false if bytes that are still queued keep one of them open: a notice will come. After this the
    /// session may only be asked whether it is drained, or aborted.
    pub(crate) fn close(&mut self) -> bool {
        self.ends.iter_mut().for_each(End::close);
        self.is_drained()
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.ends.iter().all(End::is_drained)
    }

    /// Closes both sockets with a reset, and throws away what is queued.
    pub(crate) fn abort(&mut self) {
        self.ends.iter_mut().for_each(End::abort);
    }
}
