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

/// What is read at once, and most of the memory of a flow.
const BUFFER: usize = 128 * 1024;
/// How long a peer may take to say what it sends.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Where files go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Nowhere.
    Discard,
    /// Standard output.
    Stdout,
    /// This file, once it is complete.
    File(PathBuf),
    /// Into this folder, under names of our own.
    Folder(PathBuf),
}

/// What all flows have in common.
pub struct Rules {
    /// Where files go.
    pub out: Output,
    /// A file may replace what is there.
    pub overwrite: bool,
    /// Nothing larger is taken, bytes.
    pub max_size: u64,
    /// The space of all files together.
    pub disk: Arc<Disk>,
    /// Given up when nothing comes for so long.
    pub stall: Duration,
    /// Where what was cut waits for its rest; `None`: nothing does.
    pub resume: Option<Sessions>,
    /// Set from outside: no session is taken that is not known.
    pub closed: AtomicBool,
    /// Set from outside: every flow ends.
    pub stop: Arc<AtomicBool>,
    /// Told of each piece of content that has come.
    pub passed: Box<Passed<'static>>,
}

/// How a flow ended.
#[derive(Default)]
pub struct Received {
    /// Who sent, for people.
    pub peer: String,
    /// `None`: it was no transfer.
    pub header: Option<Header>,
    /// Of content.
    pub bytes: u64,
    /// From the first byte of the stream to the last, ns.
    pub took: u64,
    /// From write to read, if both ends have one clock: median and 95th percentile, ms.
    pub delay_ms: Option<[f64; 2]>,
    /// SHA-256 of the content, of a file.
    pub hash: [u8; 32],
    /// Where it is.
    pub kept: Option<PathBuf>,
    /// It was cut, and what has come waits for its rest.
    pub waits: bool,
    /// Why it failed.
    pub failure: Option<String>,
}

/// Bytes that a flow must bring within [`MIN_SPAN`]; one that brings fewer counts as silent.
const MIN_BYTES: u64 = 1024;
/// The time that a flow has for them.
const MIN_SPAN: Duration = Duration::from_secs(2);

/// What others may know of a flow, and that it has to make room for another one.
#[derive(Debug)]
pub struct Activity {
    /// When the last [`MIN_BYTES`] had come, ns.
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
    /// It brings nothing, or hardly anything.
    pub fn is_silent(&self) -> bool {
        let marked = self.marked.load(Ordering::Relaxed);
        u128::from(now().saturating_sub(marked)) > MIN_SPAN.as_nanos()
    }

    /// Ends it: another one needs its place.
    pub fn make_room(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Reads one flow to its end and answers. `begun` is called when the header of content has come.
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
    // Strangers get no answer, and a peer that has gone cannot get one.
    let silent = matches!(result, Err(Broken::Gone(_) | Broken::Taken | Broken::Busy));
    if header.is_some() && !silent {
        // A sender that has read it may be gone before its transport has said so. What came is no
        // worse for that, and a sender that was not told says so itself.
        let _ = pipe.answer(&answer.encode());
    }
    received.header = header;
    received
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("interrupted")]
    Stopped,
    #[error("nothing came for {} s", .0.as_secs_f64())]
    Stalled(Duration),
    #[error("the sender is gone: {0}")]
    Gone(io::Error),
    #[error("too slow: others needed its place")]
    MadeRoom,
    #[error("another connection goes on with it")]
    Taken,
    #[error("an earlier connection of the session does not end")]
    Busy,
    #[error("{0}")]
    Wrong(#[from] Wrong),
    #[error("{0}")]
    Keep(String),
}

impl Broken {
    /// The path or the sender's process is gone; what came before is good.
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

/// A session that this connection has.
struct Claimed<'a> {
    sessions: &'a Sessions,
    id: [u8; 16],
    size: u64,
    /// Another connection has come for it.
    taken: Arc<AtomicBool>,
}

struct Flow<'a, B> {
    rules: &'a Rules,
    activity: &'a Activity,
    /// Bytes since the last mark.
    unmarked: u64,
    begun: Option<B>,
    /// If both ends have one clock.
    delays: Option<Distribution>,
    kept: Option<PartialFile>,
    session: Option<Claimed<'a>>,
    /// What other connections have brought.
    earlier: Option<Progress>,
    /// The time of those, ns.
    took: u64,
    /// What is answered whatever comes.
    answer: Option<Answer>,
    first: Option<u64>,
    /// When the last bytes came.
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
            // Before the header is there, only that counts.
            if reader.header().is_some() || self.first.is_none() {
                self.now = at;
            }
            self.first.get_or_insert(at);
            let before = reader.bytes();
            reader.feed(&buffer[..n], self)?;
            let more = reader.bytes() - before;
            (self.rules.passed)(more, at);
            if reader.is_complete() {
                // What follows is an end or an error; an answer that waits for it would make the
                // sender wait.
                return Ok(());
            }
        }
    }

    /// Gives the file its name, or keeps what there is for another connection.
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

    /// A header of version 2: what there is of its session.
    fn resume(&mut self, header: &Header, offset: u64) -> Result<(), Broken> {
        let Some(sessions) = &self.rules.resume else {
            let why = "the sender wants to go on where it is cut: --resume allows that";
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
            self.answer = Some(sessions.ask(&header.session).map_err(refused)?);
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
            return Err(Broken::Keep("no more transfers are taken".to_owned()));
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
            // A stamp of the future is none.
            let delay = Span::from_nanos(self.now.saturating_sub(stamp));
            delays.add(delay, bytes.into());
        }
    }
}
