// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One flow of a receiver.
use crate::clock::{clock_digest, now};
use crate::{Answer, Header, Kind, Passed, Reader, Sink, Verdict, Wrong};
use alcc_pipe::{Incoming, would_block};
use alcc_results::{Distribution, scenario::reason};
use alcc_units::Span;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
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
    /// Given up when nothing comes for so long.
    pub stall: Duration,
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
    /// Why it failed.
    pub failure: Option<String>,
}

/// Reads one flow to its end and answers. `begun` is called when the header has come.
pub fn flow(pipe: &mut dyn Incoming, rules: &Rules, begun: impl FnOnce(&Header)) -> Received {
    let mut flow = Flow {
        rules,
        begun: Some(begun),
        delays: None,
        kept: None,
        first: None,
        now: now(),
    };
    let mut reader = Reader::new();
    let result = flow.read(pipe, &mut reader);
    let mut verdict = match &result {
        Ok(()) => Verdict::Good,
        Err(Broken::Keep(_) | Broken::Wrong(Wrong::TooLong(_))) => Verdict::NotKept,
        Err(_) => Verdict::Damaged,
    };
    let took = flow.first.map_or(0, |first| flow.now - first);
    let mut received = Received {
        peer: pipe.peer(),
        header: reader.header().cloned(),
        bytes: reader.bytes(),
        took,
        delay_ms: flow.delay_ms(),
        hash: reader.hash(),
        kept: None,
        failure: result.as_ref().err().map(ToString::to_string),
    };
    if let Some(kept) = flow.kept.take().filter(|_| result.is_ok()) {
        match kept.finish(&rules.out, rules.overwrite) {
            Ok(path) => received.kept = path,
            Err(why) => {
                verdict = Verdict::NotKept;
                received.failure = Some(why);
            }
        }
    }
    let ns = |ms: f64| (ms * 1e6) as u64;
    let answer = Answer {
        verdict,
        bytes: received.bytes,
        took,
        end: flow.delays.is_some().then_some(flow.now),
        delay_median: received.delay_ms.map(|d| ns(d[0])),
        delay_p95: received.delay_ms.map(|d| ns(d[1])),
        hash: received.hash,
    };
    // Strangers get no answer, and a peer that has gone cannot get one.
    if received.header.is_some() && !matches!(result, Err(Broken::Gone(_))) {
        // A sender that has read it may be gone before its transport has said so. What came is no
        // worse for that, and a sender that was not told says so itself.
        let _ = pipe.answer(&answer.encode());
    }
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
    #[error("{0}")]
    Wrong(#[from] Wrong),
    #[error("{0}")]
    Keep(String),
}

struct Flow<'a, B> {
    rules: &'a Rules,
    begun: Option<B>,
    /// If both ends have one clock.
    delays: Option<Distribution>,
    kept: Option<PartialFile>,
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

    fn delay_ms(&self) -> Option<[f64; 2]> {
        let delays = self.delays.as_ref()?;
        Some([delays.quantile_ms(0.5)?, delays.quantile_ms(0.95)?])
    }
}

impl<B: FnOnce(&Header)> Sink for Flow<'_, B> {
    type Error = Broken;

    fn begin(&mut self, header: &Header) -> Result<u64, Broken> {
        let ours = clock_digest(&header.session);
        self.delays = (ours != [0; 16] && ours == header.clock).then(Distribution::new);
        if let Some(begun) = self.begun.take() {
            begun(header);
        }
        if header.kind == Kind::File {
            self.kept = PartialFile::begin(&self.rules.out).map_err(Broken::Keep)?;
        }
        Ok(self.rules.max_size)
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

/// A file that is being received: it has its name only when it is complete.
struct PartialFile {
    file: File,
    part: Option<PathBuf>,
}

impl PartialFile {
    fn begin(out: &Output) -> Result<Option<Self>, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unique = format!("{}-{number}", std::process::id());
        let part = match out {
            Output::Discard => return Ok(None),
            Output::Stdout => {
                use std::os::fd::AsFd;
                let file = io::stdout().as_fd().try_clone_to_owned();
                let file = file.map_err(|e| format!("write to standard output: {e}"))?;
                return Ok(Some(Self {
                    file: file.into(),
                    part: None,
                }));
            }
            Output::File(path) => {
                let mut name = path.as_os_str().to_owned();
                name.push(format!(".part-{unique}"));
                PathBuf::from(name)
            }
            Output::Folder(folder) => folder.join(format!(".received.part-{unique}")),
        };
        let file = OpenOptions::new().write(true).create_new(true).open(&part);
        let file = file.map_err(|e| format!("create {}: {}", part.display(), reason(&e)))?;
        Ok(Some(Self {
            file,
            part: Some(part),
        }))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.file
            .write_all(bytes)
            .map_err(|e| format!("keep what came: {e}"))
    }

    /// Gives it its name; which.
    fn finish(mut self, out: &Output, overwrite: bool) -> Result<Option<PathBuf>, String> {
        let Some(part) = self.part.take() else {
            return Ok(None);
        };
        let done = match out {
            Output::File(path) => name(&part, path, overwrite).map(|()| path.clone()),
            Output::Folder(folder) => free_name(&part, folder),
            Output::Discard | Output::Stdout => return Ok(None),
        };
        let done = done.map_err(|e| {
            let _ = std::fs::remove_file(&part);
            format!("give the file its name: {e}: --overwrite replaces one that is there")
        });
        done.map(Some)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = std::fs::remove_file(part);
        }
    }
}

/// The number of names that are tried.
const MAX_NAMES: u32 = 1_000_000;

fn free_name(part: &Path, folder: &Path) -> io::Result<PathBuf> {
    for number in 1..MAX_NAMES {
        let path = folder.join(format!("received-{number}"));
        match name(part, &path, false) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn name(part: &Path, path: &Path, overwrite: bool) -> io::Result<()> {
    if overwrite {
        return std::fs::rename(part, path);
    }
    // A second name cannot replace what is there, a rename can.
    match std::fs::hard_link(part, path) {
        Ok(()) => std::fs::remove_file(part),
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Err(why),
        Err(_) => {
            // A file system without second names.
            OpenOptions::new().write(true).create_new(true).open(path)?;
            std::fs::rename(part, path)
        }
    }
}
