// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file over as many connections as it takes. When one is cut, another asks how much of the
//! session's file is there, and a third brings the rest.
use crate::clock::now;
use crate::sending::{Broken, Content, Job, Sent, agrees, ask, once};
use crate::{Header, Kind, Progress, Verdict, Writer};
use alcc_pipe::{Failure, MAX_WAIT};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two connections: the first wait and the longest.
const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(8)];
/// What is read of the file at once for its hash.
const PIECE: usize = 256 * 1024;

/// What is told of a file that is under way.
pub enum Told<'a> {
    /// A connection ended early: why.
    Cut(&'a Failure),
    /// So much of the file is there. What is sent next follows it, whatever was sent before.
    From(u64),
}

/// Sends a file of a known size, and goes on where a connection was cut. Given up when for
/// `patience` the receiver has got no more of it. `begun`: an earlier program may have brought some
/// of this session, so the receiver is asked first.
pub fn flow(
    job: &Job<'_>,
    header: &Header,
    file: &File,
    begun: bool,
    patience: Duration,
    tell: &mut dyn FnMut(Told<'_>),
) -> Sent {
    let began = now();
    let mut resuming = Resuming {
        job,
        header,
        file,
        sent: Sent::default(),
    };
    let result = resuming.run(begun, patience, tell);
    let mut sent = resuming.sent;
    sent.took = now() - began;
    sent.complete = sent.complete.map(|_| sent.took);
    sent.failure = result.err().map(|why| why.into_failure(sent.bytes, job));
    sent
}

/// A file that is under way.
struct Resuming<'a> {
    job: &'a Job<'a>,
    header: &'a Header,
    file: &'a File,
    sent: Sent,
}

impl Resuming<'_> {
    fn run(
        &mut self,
        begun: bool,
        patience: Duration,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(), Broken> {
        // What the receiver has, once that is known; and the most of it so far, and since when.
        let (mut have, mut most, mut moved) = ((!begun).then_some(0), 0, now());
        let mut wait = WAITS[0];
        let mut reached = false;
        loop {
            let result = match have.take() {
                Some(at) => {
                    tell(Told::From(at));
                    self.send_from(at).map(|()| None)
                }
                None => self.ask(),
            };
            let why = match result {
                Ok(None) => return Ok(()),
                Ok(Some(bytes)) => {
                    if bytes > most {
                        (most, moved, wait) = (bytes, now(), WAITS[0]);
                    }
                    have = Some(bytes);
                    continue;
                }
                Err(why) => why,
            };
            let unreachable = matches!(why, Broken::Connect(_)) && !reached;
            if unreachable || !why.is_cut() || u128::from(now() - moved) > patience.as_nanos() {
                return Err(why);
            }
            reached = true;
            tell(Told::Cut(&why.into_failure(self.sent.bytes, self.job)));
            self.nap(wait)?;
            wait = (wait * 2).min(WAITS[1]);
        }
    }

    /// Sends what comes after the first `at` bytes.
    fn send_from(&mut self, at: u64) -> Result<(), Broken> {
        let header = Header {
            offset: Some(at),
            ..self.header.clone()
        };
        let writer = Writer::after(&header, self.first_bytes(at)?);
        let content = Content::File(self.file.try_clone().map_err(Broken::Source)?);
        once(self.job, &header, content, writer, &mut self.sent)
    }

    /// What the receiver has; `None`: all of it.
    fn ask(&mut self) -> Result<Option<u64>, Broken> {
        let question = Header {
            kind: Kind::Ask,
            offset: Some(0),
            ..self.header.clone()
        };
        let answer = ask(self.job, &question)?;
        let size = self.header.size.unwrap_or(0);
        match answer.verdict {
            Verdict::Part if answer.bytes <= size => Ok(Some(answer.bytes)),
            Verdict::Part => Err(Broken::Reported(format!(
                "the receiver says that it has {} of {size} bytes",
                answer.bytes
            ))),
            _ => {
                let hash = self.first_bytes(size)?.sum();
                agrees(&answer, self.header, size, &hash)?;
                self.sent.bytes = size;
                self.sent.complete = Some(now());
                self.sent.answer = Some(answer);
                Ok(None)
            }
        }
    }

    /// Hashes the first bytes of the file, which is read from there next.
    fn first_bytes(&self, bytes: u64) -> Result<Progress, Broken> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(0)).map_err(Broken::Source)?;
        let mut progress = Progress::default();
        let mut piece = vec![0; PIECE];
        while progress.bytes() < bytes {
            self.check_stop()?;
            let left = usize::try_from(bytes - progress.bytes()).unwrap_or(PIECE);
            match file.read(&mut piece[..left.min(PIECE)]) {
                Ok(0) => {
                    let shorter = io::Error::other("the file has become shorter meanwhile");
                    return Err(Broken::Source(shorter));
                }
                Ok(n) => progress.add(&piece[..n]),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(Broken::Source(why)),
            }
        }
        Ok(progress)
    }

    fn nap(&self, wait: Duration) -> Result<(), Broken> {
        let until = now() + u64::try_from(wait.as_nanos()).unwrap_or(0);
        while now() < until {
            self.check_stop()?;
            std::thread::sleep(Duration::from_nanos(until - now().min(until)).min(MAX_WAIT));
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), Broken> {
        if self.job.stop.load(Ordering::Relaxed) {
            return Err(Broken::Stopped);
        }
        Ok(())
    }
}
