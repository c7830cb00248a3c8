// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One flow of a receiver.
use crate::clock::{clock_digest, now};
pub use crate::keeping::Disk;
use crate::keeping::PartialFile;
use crate::sessions::{Part, Refused};
use crate::{Answer, Header, Kind, Passed, Progress, Reader, Sessions, Sink, Verdict, Wrong};
use alcc_pipe::{Incoming, would_block};
use alcc_units::Distribution;
use alcc_units::Span;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Size of the read buffer, which is most of a flow's memory.
const BUFFER: usize = 128 * 1024;
/// Maximum time until a peer's header.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Destination of received files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Files are discarded.
    Discard,
    /// Files go to standard output.
    Stdout,
    /// This file, once it is complete.
    File(PathBuf),
    /// This folder, with generated names.
    Folder(PathBuf),
}

/// Settings of a receiver, for all flows.
pub struct Rules {
    /// Destination of received files.
    pub out: Output,
    /// True if a file may replace an existing one.
    pub overwrite: bool,
    /// Maximum size of a transfer, bytes.
    pub max_size: u64,
    /// The disk space of all files together.
    pub disk: Arc<Disk>,
    /// Time without data after which a flow is given up.
    pub stall: Duration,
    /// Partial files of cut connections, kept until the rest arrives; `None`: none are kept.
    pub resume: Option<Sessions>,
    /// Set from outside to refuse all unknown sessions.
    pub closed: AtomicBool,
    /// Set from outside to end every flow.
    pub stop: Arc<AtomicBool>,
    /// Callback for each piece of received content.
    pub passed: Box<Passed<'static>>,
}

/// Result of a flow.
#[derive(Default)]
pub struct Received {
    /// The sender's address, for people.
    pub peer: String,
    /// The header; `None`: the stream was not a transfer.
    pub header: Option<Header>,
    /// Bytes of content.
    pub bytes: u64,
    /// Time from the first byte of the stream to the last, ns.
    pub took: u64,
    /// Delay from write to read, if both ends have one clock: median and 95th percentile, ms.
    pub delay_ms: Option<[f64; 2]>,
    /// SHA-256 of a file's content.
    pub hash: [u8; 32],
    /// Path of the received file.
    pub kept: Option<PathBuf>,
    /// True if the connection was cut, and the received part is kept for its rest.
    pub waits: bool,
    /// The reason of a failure.
    pub failure: Option<String>,
}

/// Bytes that a flow must bring within [`MIN_SPAN`]; one that brings fewer counts as silent.
const MIN_BYTES: u64 = 1024;
/// Time within which a flow must bring them.
const MIN_SPAN: Duration = Duration::from_secs(2);

/// Activity of a flow as visible to others, with the request to make room for another flow.
#[derive(Debug)]
pub struct Activity {
    /// Time at which the last [`MIN_BYTES`] had arrived, ns.
    marked: AtomicU64,
    ends: AtomicBool,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            marked: AtomicU64::new(now()),
            ends: AtomicBool::new(false),
        }
    }
}

impl Activity {
    /// True if the flow brings no data, or hardly any.
    pub fn is_silent(&self) -> bool {
        let marked = self.marked.load(Ordering::Relaxed);
        u128::from(now().saturating_sub(marked)) > MIN_SPAN.as_nanos()
    }

    /// Ends the flow, because another one needs its place.
    pub fn make_room(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Reads one flow to its end and sends the answer. `begun` is called when the header of a flow with
/// content has arrived.
pub fn flow(
    pipe: &mut dyn Incoming,
    rules: &Rules,
    activity: &Activity,
    begun: impl FnOnce(&Header),
) -> Received {
    let mut flow = Flow {
        rules,
        activity,
        unmarked: 0,
        begun: Some(begun),
        delays: None,
        kept: None,
        session: None,
        earlier: None,
        took: 0,
        answer: None,
        first: None,
        now: now(),
    };
    let mut reader = Reader::new();
    let result = flow.read(pipe, &mut reader);
    let verdict = match &result {
        Ok(()) => Verdict::Good,
        Err(Broken::Keep(_) | Broken::Wrong(Wrong::TooLong(_))) => Verdict::NotKept,
        Err(_) => Verdict::Damaged,
    };
    let header = reader.header().cloned();
    let took = flow.took + flow.first.map_or(0, |first| flow.now - first);
    let mut received = Received {
        peer: pipe.peer(),
        bytes: reader.bytes(),
        took,
        delay_ms: flow.delay_ms(),
        hash: reader.hash(),
        failure: result.as_ref().err().map(ToString::to_string),
        ..Received::default()
    };
    let ns = |ms: f64| (ms * 1e6) as u64;
    let mut answer = flow.answer.take().unwrap_or_else(|| Answer {
        resumes: header
            .as_ref()
            .is_some_and(|header| header.offset.is_some()),
        verdict,
        bytes: received.bytes,
        took,
        end: flow.delays.is_some().then_some(flow.now),
        delay_median: received.delay_ms.map(|d| ns(d[0])),
        delay_p95: received.delay_ms.map(|d| ns(d[1])),
        hash: received.hash,
    });
    flow.settle(&result, &reader, &mut received, &mut answer);
    // A peer with another protocol gets no answer, and one that has gone cannot get one.
    let silent = matches!(result, Err(Broken::Gone(_) | Broken::Taken | Broken::Busy));
    if header.is_some() && !silent {
        // A sender that has read the answer may close before its transport has acknowledged it. The
        // received content is valid all the same, and a sender without an answer reports that
        // itself.
        let _ = pipe.answer(&answer.encode());
    }
    received.header = header;
    received
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("interrupted")]
    Stopped,
    #[error("no data received for {} s", .0.as_secs_f64())]
    Stalled(Duration),
    #[error("the sender disconnected: {0}")]
    Gone(io::Error),
    #[error("too slow: closed in favour of another connection")]
    MadeRoom,
    #[error("another connection continues it")]
    Taken,
    #[error("an earlier connection of the session is still open")]
    Busy,
    #[error("{0}")]
    Wrong(#[from] Wrong),
    #[error("{0}")]
    Keep(String),
}

impl Broken {
    /// True if the path or the sender's process is gone; the data before that is valid.
    fn is_cut(&self) -> bool {
        matches!(
            self,
            Self::Stalled(_)
                | Self::MadeRoom
                | Self::Gone(_)
                | Self::Taken
                | Self::Wrong(Wrong::CutShort(_))
        )
    }
}

/// A session that this connection has claimed.
struct Claimed<'a> {
    sessions: &'a Sessions,
    id: [u8; 16],
    size: u64,
    /// Set when another connection claims the session.
    taken: Arc<AtomicBool>,
}

struct Flow<'a, B> {
    rules: &'a Rules,
    activity: &'a Activity,
    /// Bytes since the last mark.
    unmarked: u64,
    begun: Option<B>,
    /// Only if both ends have one clock.
    delays: Option<Distribution>,
    kept: Option<PartialFile>,
    session: Option<Claimed<'a>>,
    /// The part that earlier connections have brought.
    earlier: Option<Progress>,
    /// The time that those took, ns.
    took: u64,
    /// The answer, if it is decided whatever follows.
    answer: Option<Answer>,
    first: Option<u64>,
    /// Time of the last bytes.
    now: u64,
}

impl<B: FnOnce(&Header)> Flow<'_, B> {
    fn read(&mut self, pipe: &mut dyn Incoming, reader: &mut Reader) -> Result<(), Broken> {
        let mut buffer = vec![0; BUFFER];
        loop {
            if self.rules.stop.load(Ordering::Relaxed) {
                return Err(Broken::Stopped);
            }
            if self.activity.ends.load(Ordering::Relaxed) {
                return Err(Broken::MadeRoom);
            }
            let claimed = self.session.as_ref();
            if claimed.is_some_and(|session| session.taken.load(Ordering::Relaxed)) {
                return Err(Broken::Taken);
            }
            let n = match pipe.read(&mut buffer) {
                Ok(0) => return Ok(reader.end()?),
                Ok(n) => n,
                Err(why) if would_block(&why) => {
                    let patience = if reader.header().is_none() {
                        HEADER_TIMEOUT
                    } else {
                        self.rules.stall
                    };
                    if u128::from(now() - self.now) > patience.as_nanos() {
                        return Err(Broken::Stalled(patience));
                    }
                    continue;
                }
                Err(why) => return Err(Broken::Gone(why)),
            };
            let at = now();
            self.unmarked += n as u64;
            if self.unmarked >= MIN_BYTES {
                self.unmarked = 0;
                self.activity.marked.store(at, Ordering::Relaxed);
            }
            // Before the header is complete, only the time for it counts.
            if reader.header().is_some() || self.first.is_none() {
                self.now = at;
            }
            self.first.get_or_insert(at);
            let before = reader.bytes();
            reader.feed(&buffer[..n], self)?;
            let more = reader.bytes() - before;
            (self.rules.passed)(more, at);
            if reader.is_complete() {
                // Only an end or an error can follow; an answer that waited for it would delay the
                // sender.
                return Ok(());
            }
        }
    }

    /// Gives the file its name, or keeps the received part for another connection.
    fn settle(
        &mut self,
        result: &Result<(), Broken>,
        reader: &Reader,
        received: &mut Received,
        answer: &mut Answer,
    ) {
        let kept = self.kept.take();
        let session = self.session.take();
        if let (Err(why), Some(session), Some(progress)) = (result, &session, reader.progress())
            && why.is_cut()
        {
            *answer = Sessions::partial(progress.bytes());
            received.waits = session.sessions.put_back(
                &session.id,
                Part {
                    file: kept,
                    progress,
                    size: session.size,
                    took: received.took,
                },
            );
            return;
        }
        if let Some(kept) = kept.filter(|_| result.is_ok()) {
            match kept.finish(&self.rules.out, self.rules.overwrite) {
                Ok(path) => received.kept = path,
                Err(why) => {
                    answer.verdict = Verdict::NotKept;
                    received.failure = Some(why);
                }
            }
        }
        if let Some(session) = session {
            session.sessions.finish(&session.id, answer);
        }
    }

    /// Handles a header of version 2: looks for a received part of its session.
    fn resume(&mut self, header: &Header, offset: u64) -> Result<(), Broken> {
        let Some(sessions) = &self.rules.resume else {
            let why = "the sender has --resume, the receiver has not: add --resume";
            return Err(Broken::Keep(why.to_owned()));
        };
        let refused = |why| match why {
            Refused::Busy => Broken::Busy,
            Refused::Size => Wrong::Header.into(),
            Refused::Position(have) => Wrong::Position {
                asked: offset,
                have,
            }
            .into(),
        };
        if header.kind == Kind::Ask {
            self.answer = Some(sessions.query(&header.session).map_err(refused)?);
            return Ok(());
        }
        let size = header.size.unwrap_or(0);
        let (part, taken) = match sessions.claim(&header.session, offset, size) {
            Err(Refused::Position(have)) => {
                self.answer = Some(Sessions::partial(have));
                return Err(refused(Refused::Position(have)));
            }
            other => other.map_err(refused)?,
        };
        self.session = Some(Claimed {
            sessions,
            id: header.session,
            size,
            taken,
        });
        if let Some(part) = part {
            self.kept = part.file;
            self.took = part.took;
            self.earlier = Some(part.progress);
        }
        Ok(())
    }

    fn delay_ms(&self) -> Option<[f64; 2]> {
        let delays = self.delays.as_ref()?;
        Some([delays.quantile_ms(0.5)?, delays.quantile_ms(0.95)?])
    }
}

impl<B: FnOnce(&Header)> Sink for Flow<'_, B> {
    type Error = Broken;

    fn begin(&mut self, header: &Header) -> Result<u64, Broken> {
        let known = |sessions: &Sessions| sessions.knows(&header.session);
        if self.rules.closed.load(Ordering::Relaxed)
            && !self.rules.resume.as_ref().is_some_and(known)
        {
            return Err(Broken::Keep("no more transfers are accepted".to_owned()));
        }
        if let Some(offset) = header.offset {
            self.resume(header, offset)?;
        }
        if header.kind == Kind::Ask {
            return Ok(self.rules.max_size);
        }
        let ours = clock_digest(&header.session);
        self.delays = (ours != [0; 16] && ours == header.clock).then(Distribution::new);
        if let Some(begun) = self.begun.take() {
            begun(header);
        }
        if header.kind == Kind::File && self.earlier.is_none() {
            self.kept =
                PartialFile::begin(&self.rules.out, &self.rules.disk).map_err(Broken::Keep)?;
        }
        Ok(self.rules.max_size)
    }

    fn earlier(&mut self) -> Option<Progress> {
        self.earlier.take()
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        match &mut self.kept {
            None => Ok(()),
            Some(kept) => kept.write(bytes).map_err(Broken::Keep),
        }
    }

    fn block(&mut self, bytes: u32, stamp: u64) {
        if let Some(delays) = &mut self.delays {
            // A stamp in the future counts as zero delay.
            let delay = Span::from_nanos(self.now.saturating_sub(stamp));
            delays.add(delay, bytes.into());
        }
    }
}
