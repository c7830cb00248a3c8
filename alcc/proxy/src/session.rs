// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One relayed connection: two sockets and a buffer for each direction.
//!
//! Events of one end are passed on in order. An end of data (FIN) is passed on once all data before
//! it is written. A reset (RST) is passed on once the other end has acknowledged the data that the
//! relay had taken, as without a relay, but after [`MAX_RESET_WAIT`] at most.
use crate::end::End;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Index of the client's end, and of the direction from it to the server.
pub(crate) const CLIENT: usize = 0;
/// Index of the server's end, and of the direction from it to the client.
pub(crate) const SERVER: usize = 1;

/// Maximum time after a reset for the other end to acknowledge its data.
const MAX_RESET_WAIT: Duration = Duration::from_secs(5);
/// Interval of checking for that, because no event reports it.
const RESET_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of consecutive reads for one session before the others have their turn.
const MAX_READS: usize = 4;

/// The state of one direction.
#[derive(Default)]
struct Direction {
    /// Data read and not yet written.
    kept: Vec<u8>,
    /// Number of its bytes that have been written.
    at: usize,
    /// Bytes in `kept` that belong to the PROXY header, not to the payload.
    ours: usize,
    /// True if the source has sent its end.
    ended: bool,
    /// True if the end has been passed on.
    done: bool,
}

impl Direction {
    fn is_empty(&self) -> bool {
        self.at == self.kept.len()
    }

    /// Counts `n` bytes written from `kept`, and frees its memory when it is empty. Returns the
    /// number of payload bytes among them.
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

/// The context of a call of [`Session::drive`].
pub(crate) struct DriveContext<'a> {
    pub(crate) scratch: &'a mut [u8],
    /// Payload bytes moved, by direction.
    pub(crate) moved: [u64; 2],
}

/// Result of a call of [`Session::drive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Wait for an event.
    Wait,
    /// More can be done at once, but the others have their turn.
    Again,
    /// Call again at this time.
    At(Instant),
    /// Both directions have ended in order.
    Done,
    /// A reset has ended it.
    Reset,
}

pub(crate) struct Session {
    pub(crate) ends: [End; 2],
    directions: [Direction; 2],
    /// Time at which waiting for acknowledgements after a reset ends.
    patience: Option<Instant>,
}

impl Session {
    /// A session. `header` is sent to the server before any data of the client.
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

    /// Moves data in both directions.
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

    /// Moves data from end `from` to the other. True if there may be more at once.
    fn pump(&mut self, from: usize, cx: &mut DriveContext<'_>) -> bool {
        let [client, server] = &mut self.ends;
        let (source, sink) = if from == CLIENT {
            (client, server)
        } else {
            (server, client)
        };
        let direction = &mut self.directions[from];
        if sink.reset {
            // The other end cannot take it any more.
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
                // No data follows a reset.
                Err(_) => direction.ended |= source.reset,
            }
        }
        source.readable || !direction.is_empty()
    }

    /// Closes both sockets. Returns false while queued bytes keep one of them open; an event follows
    /// when they are sent. After it, only `is_drained` and `abort` may be called.
    pub(crate) fn close(&mut self) -> bool {
        self.ends.iter_mut().for_each(End::close);
        self.is_drained()
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.ends.iter().all(End::is_drained)
    }

    /// Closes both sockets with a reset, and discards queued data.
    pub(crate) fn abort(&mut self) {
        self.ends.iter_mut().for_each(End::abort);
    }
}
