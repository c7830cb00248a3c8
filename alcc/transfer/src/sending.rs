// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One flow of a sender.
use crate::clock::now;
use crate::{ANSWER, Answer, Header, Kind, Passed, Verdict, Writer, hex};
use alcc_pipe::{Dialer, Failure, MAX_WAIT, MAX_WRITE, Outgoing, Stats, Target, would_block};
use alcc_units::{Bytes, Rate, Span};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// With `--rate`, the size of a write, as time at this rate.
const WRITE_INTERVAL: Span = Span::from_millis(10);
/// Minimum size of such a write, bytes.
const MIN_WRITE: u64 = 1_400;

/// The content of a flow.
pub enum Content {
    /// As many bytes as the header announces, or for this time.
    MadeUp(Option<Duration>),
    /// A file or standard input.
    File(File),
}

/// Settings of a sender, for all flows of a transfer.
pub struct Job<'a> {
    /// Opens the connections.
    pub dialer: &'a dyn Dialer,
    /// The receiver.
    pub to: &'a Target,
    /// Rate at which the application writes; `None`: without limit.
    pub rate: Option<Rate>,
    /// Time without progress after which a flow is given up.
    pub stall: Duration,
    /// Set from outside to end the flow.
    pub stop: &'a AtomicBool,
    /// Callback for each piece of content that is written.
    pub passed: &'a Passed<'a>,
}

/// Result of a flow.
#[derive(Default)]
pub struct Sent {
    /// Bytes of content.
    pub bytes: u64,
    /// Time from the start of the connection to the last write, ns.
    pub took: u64,
    /// Time from the start of the connection to the receiver's last byte, or until that is known
    /// here, ns.
    pub complete: Option<u64>,
    /// The counters of the transport.
    pub stats: Stats,
    /// The receiver's answer.
    pub answer: Option<Answer>,
    /// The reason of a failure.
    pub failure: Option<Failure>,
}

/// Sends one flow to its end.
pub fn flow(job: &Job<'_>, header: &Header, content: Content) -> Sent {
    let mut sent = Sent::default();
    let result = once(job, header, content, Writer::new(header), &mut sent);
    sent.failure = result.err().map(|why| why.into_failure(sent.bytes, job));
    sent
}

/// Sends one flow over one connection.
pub(crate) fn once(
    job: &Job<'_>,
    header: &Header,
    content: Content,
    writer: Writer,
    sent: &mut Sent,
) -> Result<(), Broken> {
    let began = now();
    let connected = job.dialer.connect(job.to, header.flow.into());
    let mut out = connected.map_err(Broken::Connect)?;
    let mut sending = SendFlow::new(job, &mut *out, began);
    let result = sending.run(header, content, writer, sent);
    if sent.took == 0 {
        sent.took = now() - began;
    }
    sent.stats = out.stats();
    result
}

/// Queries over a separate connection how much of a session's file has arrived.
pub(crate) fn query(job: &Job<'_>, header: &Header) -> Result<Answer, Broken> {
    let connected = job.dialer.connect(job.to, header.flow.into());
    let mut out = connected.map_err(Broken::Connect)?;
    let mut sending = SendFlow::new(job, &mut *out, now());
    sending.query(header)
}

/// The reason why a flow ended early.
pub(crate) enum Broken {
    Stopped,
    Stalled,
    Connect(Failure),
    Pipe(io::Error),
    Source(io::Error),
    /// The connection ended before the receiver's answer.
    Unconfirmed,
    /// The receiver has this much, and keeps it for the rest.
    Part(u64),
    Reported(String),
}

impl From<io::Error> for Broken {
    fn from(why: io::Error) -> Self {
        Self::Pipe(why)
    }
}

/// The advice if the receiver has gone.
const ASK: &str =
    "check the output of 'alcc recv', and whether both ends have the same --transport";

impl Broken {
    /// True if another connection may succeed.
    pub(crate) fn is_cut(&self) -> bool {
        match self {
            Self::Stalled
            | Self::Pipe(_)
            | Self::Unconfirmed
            | Self::Part(_)
            | Self::Connect(Failure::Failed(_)) => true,
            Self::Stopped
            | Self::Source(_)
            | Self::Reported(_)
            | Self::Connect(Failure::Usage(_)) => false,
        }
    }

    pub(crate) fn into_failure(self, bytes: u64, job: &Job<'_>) -> Failure {
        let to = job.to;
        let so_far = format!("after {:.2} MB", bytes as f64 / 1e6);
        Failure::failed(match self {
            Self::Connect(why) => return why,
            Self::Unconfirmed => format!(
                "send to {to}: the receiver closed the connection without confirming the data: {ASK}"
            ),
            Self::Part(bytes) => format!("send to {to}: the receiver has only {bytes} bytes"),
            Self::Stopped => format!("send to {to}: interrupted {so_far}"),
            Self::Stalled => format!(
                "send to {to}: no progress for {} s {so_far}: the receiver or the path has failed (--stall waits longer)",
                job.stall.as_secs_f64()
            ),
            Self::Pipe(why) => {
                use io::ErrorKind::{
                    BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof,
                };
                match why.kind() {
                    BrokenPipe | ConnectionReset | ConnectionAborted | UnexpectedEof => format!(
                        "send to {to}: the receiver closed the connection {so_far} ({why}): {ASK}"
                    ),
                    _ => format!("send to {to}: {why}, {so_far}"),
                }
            }
            Self::Source(why) => format!("read the data to send: {why}, {so_far}"),
            Self::Reported(why) => format!("send to {to}: {why}"),
        })
    }
}

struct SendFlow<'a> {
    job: &'a Job<'a>,
    out: &'a mut dyn Outgoing,
    began: u64,
    /// Time at which the transport last took data, or the receiver last acknowledged some.
    moved: u64,
    acknowledged: Option<u64>,
}

impl<'a> SendFlow<'a> {
    fn new(job: &'a Job<'a>, out: &'a mut dyn Outgoing, began: u64) -> Self {
        Self {
            job,
            out,
            moved: now(),
            acknowledged: None,
            began,
        }
    }

    fn query(&mut self, header: &Header) -> Result<Answer, Broken> {
        self.send_all(&header.encode())?;
        self.finish()?;
        let none = || Broken::Reported("this transport has no reverse direction".to_owned());
        self.answer(self.job.stall)?.ok_or_else(none)
    }

    fn run(
        &mut self,
        header: &Header,
        content: Content,
        writer: Writer,
        sent: &mut Sent,
    ) -> Result<(), Broken> {
        let mut hash = None;
        let answer = match self.everything(header, content, writer, sent, &mut hash) {
            Ok(()) => self.answer(self.job.stall)?,
            // A receiver that has everything and has answered may close before its transport gets
            // the last acknowledgement, and one that refuses more gives the reason. In both cases
            // its answer counts.
            Err(Broken::Pipe(why)) => match self.answer(MAX_WAIT) {
                Ok(Some(answer)) if hash.is_some() || answer.verdict != Verdict::Good => {
                    Some(answer)
                }
                _ => return Err(Broken::Pipe(why)),
            },
            Err(why) => return Err(why),
        };
        if let Some(answer) = answer {
            agrees(&answer, header, sent.bytes, &hash.unwrap_or_default())?;
            sent.complete = match answer.end {
                Some(end) if end > self.began => Some(end - self.began),
                _ => Some(now() - self.began),
            };
            sent.answer = Some(answer);
        }
        Ok(())
    }

    /// Writes the whole stream, and waits until the transport confirms that the receiver has it.
    /// `hash`: that of the content, once all is written.
    fn everything(
        &mut self,
        header: &Header,
        content: Content,
        mut writer: Writer,
        sent: &mut Sent,
        hash: &mut Option<[u8; 32]>,
    ) -> Result<(), Broken> {
        self.send_all(&header.encode())?;
        let result = match content {
            Content::MadeUp(duration) => self.made_up(header, duration, &mut writer),
            Content::File(file) => self.file(header, &file, &mut writer),
        };
        sent.bytes = writer.bytes();
        sent.took = now() - self.began;
        result?;
        let (trailer, sum) = writer.trailer(now());
        self.send_all(&trailer)?;
        *hash = Some(sum);
        self.finish()?;
        sent.complete = Some(now() - self.began);
        Ok(())
    }

    /// Ends writing, and waits until the receiver has everything.
    fn finish(&mut self) -> Result<(), Broken> {
        while !self.out.finish().or_else(|why| waits(&why).ok_or(why))? {
            self.check_answer()?;
        }
        Ok(())
    }

    fn made_up(
        &mut self,
        header: &Header,
        duration: Option<Duration>,
        writer: &mut Writer,
    ) -> Result<(), Broken> {
        let until =
            duration.map(|d| now().saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)));
        loop {
            let remaining = header.size.map_or(u64::MAX, |size| size - writer.bytes());
            if remaining == 0 {
                return Ok(());
            }
            let room = self.room(remaining, writer.bytes(), until)?;
            let stamp = now();
            if until.is_some_and(|until| stamp >= until) {
                return Ok(());
            }
            self.block(writer.made_up(room, stamp), room)?;
        }
    }

    fn file(&mut self, header: &Header, file: &File, writer: &mut Writer) -> Result<(), Broken> {
        loop {
            let remaining = header.size.map_or(u64::MAX, |size| size - writer.bytes());
            if remaining == 0 {
                return Ok(());
            }
            let done = writer.bytes() - header.offset.unwrap_or(0);
            let room = self.room(remaining, done, None)?;
            let n = loop {
                self.stopped()?;
                if !readable(file).map_err(Broken::Source)? {
                    // The sender has no data, which is not a stall.
                    self.moved = now();
                    continue;
                }
                match { file }.read(&mut writer.space()[..room]) {
                    Ok(n) => break n,
                    Err(why) if would_block(&why) => {}
                    Err(why) => return Err(Broken::Source(why)),
                }
            };
            if n == 0 {
                return match header.size {
                    None => Ok(()),
                    Some(_) => Err(Broken::Source(io::Error::other(
                        "the file has been truncated meanwhile",
                    ))),
                };
            }
            self.block(writer.file(n, now()), n)?;
        }
    }

    /// Waits until data may be written. Returns the number of bytes.
    fn room(&mut self, remaining: u64, done: u64, until: Option<u64>) -> Result<usize, Broken> {
        let mut most = MAX_WRITE as u64;
        if let Some(rate) = self.job.rate {
            most = rate.bytes_in(WRITE_INTERVAL).get().clamp(MIN_WRITE, most);
            let due = self.began + rate.time_for(Bytes::new(done)).as_nanos();
            while now() < due.min(until.unwrap_or(u64::MAX)) {
                self.stopped()?;
                let nap = Duration::from_nanos(due.saturating_sub(now()));
                std::thread::sleep(nap.min(MAX_WAIT));
            }
            self.moved = now();
        }
        loop {
            let room = self
                .out
                .room()
                .or_else(|why| waits(&why).map(|_| 0).ok_or(why))?;
            if room > 0 || until.is_some_and(|until| now() >= until) {
                return Ok((room as u64).min(most).min(remaining).max(1) as usize);
            }
            self.check_answer()?;
        }
    }

    fn block(&mut self, block: &[u8], content: usize) -> Result<(), Broken> {
        self.send_all(block)?;
        (self.job.passed)(content as u64, now());
        Ok(())
    }

    fn send_all(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            match self.out.write(bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(n) => {
                    bytes = &bytes[n..];
                    self.moved = now();
                }
                Err(why) if would_block(&why) => self.check_answer()?,
                Err(why) => return Err(why.into()),
            }
        }
        self.stopped()
    }

    /// The receiver's answer; waits until there is no progress for `patience`.
    fn answer(&mut self, patience: Duration) -> Result<Option<Answer>, Broken> {
        let mut bytes = [0; ANSWER];
        let mut filled = 0;
        while filled < ANSWER {
            match self.out.answer(&mut bytes[filled..]) {
                None => return Ok(None),
                Some(Ok(0)) => {
                    return Err(Broken::Unconfirmed);
                }
                Some(Ok(n)) => {
                    filled += n;
                    // A peer with another protocol might hold the connection, and never send this
                    // many bytes.
                    if !Answer::begins(&bytes[..filled]) {
                        let none = "the peer is not 'alcc recv'";
                        return Err(Broken::Reported(none.to_owned()));
                    }
                }
                Some(Err(why)) if would_block(&why) => self.check_answer_within(patience)?,
                Some(Err(why)) => return Err(why.into()),
            }
        }
        let answer = Answer::decode(&bytes);
        let none = || Broken::Reported("the receiver's answer is malformed".to_owned());
        answer.map(Some).ok_or_else(none)
    }

    fn stopped(&self) -> Result<(), Broken> {
        if self.job.stop.load(Ordering::Relaxed) {
            return Err(Broken::Stopped);
        }
        Ok(())
    }

    /// Checks for an early answer; called after each call without progress.
    fn check_answer(&mut self) -> Result<(), Broken> {
        self.check_answer_within(self.job.stall)
    }

    fn check_answer_within(&mut self, patience: Duration) -> Result<(), Broken> {
        self.stopped()?;
        let acknowledged = self.out.acknowledged();
        if acknowledged != self.acknowledged {
            self.acknowledged = acknowledged;
            self.moved = now();
        }
        if u128::from(now().saturating_sub(self.moved)) > patience.as_nanos() {
            return Err(Broken::Stalled);
        }
        Ok(())
    }
}

/// Distinguishes "not yet" from an error in the result of `finish`.
fn waits(why: &io::Error) -> Option<bool> {
    would_block(why).then_some(false)
}

fn readable(file: &File) -> io::Result<bool> {
    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    let turn = PollTimeout::try_from(MAX_WAIT).unwrap_or(PollTimeout::ZERO);
    match poll(&mut fds, turn) {
        Ok(n) => Ok(n > 0),
        Err(nix::Error::EINTR) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

/// True if the receiver has the content that was sent.
pub(crate) fn agrees(
    answer: &Answer,
    header: &Header,
    bytes: u64,
    hash: &[u8; 32],
) -> Result<(), Broken> {
    let why = match answer.verdict {
        Verdict::Damaged => "it arrived damaged at the receiver".to_owned(),
        Verdict::Part => return Err(Broken::Part(answer.bytes)),
        Verdict::NotKept => {
            "the receiver could not store it: check the output of 'alcc recv'".to_owned()
        }
        Verdict::Good if answer.bytes != bytes => {
            format!("the receiver has {} of {bytes} bytes", answer.bytes)
        }
        Verdict::Good if header.kind == Kind::File && answer.hash != *hash => format!(
            "the SHA-256 differs: receiver {}, sender {}",
            hex(&answer.hash),
            hex(hash)
        ),
        Verdict::Good => return Ok(()),
    };
    Err(Broken::Reported(why))
}
