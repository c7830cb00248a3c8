// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending of a file over as many connections as needed. When one is cut, another queries how much
//! of the session's file has arrived, and a third sends the rest.
use crate::clock::now;
use crate::sending::{Broken, Content, Job, Sent, agrees, once, query};
use crate::{Header, Kind, Progress, Verdict, Writer};
use alcc_pipe::{Failure, MAX_WAIT};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pause between two connections: the first, and the longest.
const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(8)];
/// Size of the pieces in which the file is read for its hash.
const PIECE: usize = 256 * 1024;

/// Progress reports of a file that is being sent.
pub enum Told<'a> {
    /// A connection ended early, for this reason.
    Cut(&'a Failure),
    /// The number of bytes that have arrived. Sending continues after them.
    From(u64),
}

/// Sends a file of a known size, and continues after a connection was cut. It fails if the receiver
/// gets no more of it for `patience`. `begun`: an earlier program may have sent a part of this
/// session, so the receiver is queried first.
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

/// A file that is being sent.
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
        // The length that the receiver has, once known; the maximum so far, and the time of the
        // last progress.
        let (mut have, mut most, mut moved) = ((!begun).then_some(0), 0, now());
        let mut wait = WAITS[0];
        let mut reached = false;
        loop {
            let result = match have.take() {
                Some(at) => {
                    tell(Told::From(at));
                    self.send_from(at).map(|()| None)
                }
                None => self.query(),
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

    /// Sends the content after the first `at` bytes.
    fn send_from(&mut self, at: u64) -> Result<(), Broken> {
        let header = Header {
            offset: Some(at),
            ..self.header.clone()
        };
        let writer = Writer::after(&header, self.first_bytes(at)?);
        let content = Content::File(self.file.try_clone().map_err(Broken::Source)?);
        once(self.job, &header, content, writer, &mut self.sent)
    }

    /// Queries the length that the receiver has; `None`: all of it.
    fn query(&mut self) -> Result<Option<u64>, Broken> {
        let question = Header {
            kind: Kind::Ask,
            offset: Some(0),
            ..self.header.clone()
        };
        let answer = query(self.job, &question)?;
        let size = self.header.size.unwrap_or(0);
        match answer.verdict {
            Verdict::Part if answer.bytes <= size => Ok(Some(answer.bytes)),
            Verdict::Part => Err(Broken::Reported(format!(
                "the receiver reports {} of {size} bytes",
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

    /// Hashes the first bytes of the file. The next read follows them.
    fn first_bytes(&self, bytes: u64) -> Result<Progress, Broken> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(0)).map_err(Broken::Source)?;
        let mut progress = Progress::default();
        let mut piece = vec![0; PIECE];
        while progress.bytes() < bytes {
            self.check_stop()?;
            let remaining = usize::try_from(bytes - progress.bytes()).unwrap_or(PIECE);
            match file.read(&mut piece[..remaining.min(PIECE)]) {
                Ok(0) => {
                    let shorter = io::Error::other("the file has been truncated meanwhile");
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
