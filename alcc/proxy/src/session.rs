// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One relayed connection: two sockets and a pipe each way.
//!
//! What one end says is passed on when what came before has been. An end of data (FIN) is passed on
//! once all before it is written. A reset (RST) is passed on once the other end has acknowledged
//! what the relay had taken, as without it. It waits no longer than [`MAX_RESET_WAIT`].
use crate::end::End;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Index of the client's end, and of the pipe that leads from it to the server.
pub(crate) const CLIENT: usize = 0;
/// Index of the server's end, and of the pipe that leads from it to the client.
pub(crate) const SERVER: usize = 1;

/// How long the other end may take for what it had not acknowledged when a reset came.
const MAX_RESET_WAIT: Duration = Duration::from_secs(5);
/// How often to look whether it has: nothing else tells.
const RESET_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Reads in a row for one direction before the others have their turn.
const MAX_READS: usize = 4;

/// One direction.
#[derive(Default)]
struct Direction {
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

impl Direction {
    fn is_empty(&self) -> bool {
        self.at == self.kept.len()
    }

    /// Counts `n` bytes written from `kept`, which takes no memory once it is empty; how many were
    /// payload.
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
pub(crate) struct DriveContext<'a> {
    pub(crate) scratch: &'a mut [u8],
    /// Payload moved, by direction.
    pub(crate) moved: [u64; 2],
}

/// What is left to do for a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
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
    directions: [Direction; 2],
    /// When the patience with what a reset left behind ends.
    patience: Option<Instant>,
}

impl Session {
    /// `header` goes to the server before anything that the client sends.
    pub(crate) fn new(client: End, server: End, header: Vec<u8>) -> Self {
        let up = Direction {
            ours: header.len(),
            kept: header,
            ..Direction::default()
        };
        Self {
            ends: [client, server],
            directions: [up, Direction::default()],
            patience: None,
        }
    }

    /// Moves what can be moved.
    pub(crate) fn drive(&mut self, cx: &mut DriveContext<'_>) -> Outcome {
        let again = [CLIENT, SERVER].map(|from| self.pump(from, cx)) != [false; 2];
        if self.ends.iter().any(|end| end.reset) {
            return self.after_reset(again);
        }
        if self.directions.iter().all(|direction| direction.done) {
            return Outcome::Done;
        }
        if again { Outcome::Again } else { Outcome::Wait }
    }

    fn after_reset(&mut self, again: bool) -> Outcome {
        let delivered = |from: usize| {
            let (direction, to) = (&self.directions[from], &self.ends[1 - from]);
            to.reset || direction.ended && direction.is_empty() && to.is_delivered()
        };
        let waiting = [CLIENT, SERVER]
            .into_iter()
            .any(|from| self.ends[from].reset && !delivered(from));
        let now = Instant::now();
        let until = *self.patience.get_or_insert(now + MAX_RESET_WAIT);
        if !waiting || now >= until {
            return Outcome::Reset;
        }
        if again {
            Outcome::Again
        } else {
            Outcome::At(now + RESET_POLL_INTERVAL)
        }
    }

    /// Moves data from end `from` to the other; true if there may be more at once.
    fn pump(&mut self, from: usize, cx: &mut DriveContext<'_>) -> bool {
        let [client, server] = &mut self.ends;
        let (source, sink) = if from == CLIENT {
            (client, server)
        } else {
            (server, client)
        };
        let direction = &mut self.directions[from];
        if sink.reset {
            // Nobody is there to take it.
            *direction = Direction {
                ended: true,
                done: true,
                ..Direction::default()
            };
        }
        for _ in 0..MAX_READS {
            while !direction.is_empty() {
                if !sink.writable {
                    return false;
                }
                let n = sink.write(&direction.kept[direction.at..]);
                cx.moved[from] += direction.advance(n) as u64;
            }
            if direction.ended {
                if !direction.done && !source.reset {
                    direction.done = true;
                    sink.finish();
                }
                return false;
            }
            if !source.readable || !sink.writable {
                return false;
            }
            let most = sink.room().min(cx.scratch.len());
            match source.read(&mut cx.scratch[..most]) {
                Ok(0) => direction.ended = true,
                Ok(n) => {
                    let written = sink.write(&cx.scratch[..n]);
                    cx.moved[from] += written as u64;
                    direction.kept = cx.scratch[written..n].to_vec();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Nothing follows a reset.
                Err(_) => direction.ended |= source.reset,
            }
        }
        source.readable || !direction.is_empty()
    }

    /// Closes both sockets; false if bytes that are still queued keep one of them open: a notice
    /// will come. After this the session may only be asked whether it is drained, or aborted.
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
