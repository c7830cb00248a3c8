// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::emulator::spawn;
use crate::{Dir, EmuError, Observer};
use alcc_link::log::{
    Header, Line, format_line, format_mahimahi_line, write_header, write_mahimahi_header,
};
use alcc_link::{Direction, Outcome, RateSpec};
use alcc_trace::{OPPORTUNITY, Opportunities};
use alcc_units::{Bytes, Span, Time};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Size of the text that is passed to the writing thread at once, bytes.
const CHUNK: usize = 1 << 16;

/// Writes logs of packets ([`alcc_link::log`]). The relay only formats lines; a thread writes them,
/// because a slow disk must not delay packets.
///
/// ```no_run
/// use alcc_emu::{Dir, Emulator, LogForm, LogSpec, Namespace, PacketLog, PathSpec, Subnet};
///
/// # fn main() -> Result<(), alcc_emu::EmuError> {
/// # let (outside, inside) = (Namespace::new()?, Namespace::new()?);
/// let spec = PathSpec::default();
/// let (log, observer) = PacketLog::create(vec![LogSpec {
///     dir: Dir::Down,
///     path: "down.log".into(),
///     header: alcc_link::log::Header::default(),
///     form: LogForm::Own(spec.down.rate.clone()),
/// }])?;
/// let link = Emulator::start(&outside, &inside, Subnet::default(), spec, observer)?;
/// link.stop()?;
/// log.finish()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PacketLog {
    writer: JoinHandle<io::Result<()>>,
    paths: Vec<PathBuf>,
}

/// One log: its direction, file, header and format.
#[derive(Clone, Debug)]
pub struct LogSpec {
    /// The direction.
    pub dir: Dir,
    /// The file, which is overwritten.
    pub path: PathBuf,
    /// The header of the log.
    pub header: Header,
    /// The format of its lines.
    pub form: LogForm,
}

/// The format of a log's lines.
#[derive(Clone, Debug)]
pub enum LogForm {
    /// The format of [`alcc_link::log`], with the opportunities of this bottleneck if it follows a
    /// trace.
    Own(RateSpec),
    /// The format that Mahimahi's scripts read. They need the capacity of every link in each
    /// millisecond, which this model of the direction gives.
    Mahimahi(Box<Direction>),
}

impl PacketLog {
    /// Creates the files. Pass the observer to [`crate::Emulator::start`].
    ///
    /// # Errors
    /// [`EmuError::Os`] if a file cannot be created.
    pub fn create(logs: Vec<LogSpec>) -> Result<(Self, Box<dyn Observer + Send>), EmuError> {
        let paths: Vec<_> = logs.iter().map(|log| log.path.clone()).collect();
        let make = |path: &PathBuf| {
            alcc_sys::create(path).map_err(EmuError::os(format!(
                "make the packet log {}",
                path.display()
            )))
        };
        let files = paths.iter().map(make).collect::<Result<Vec<_>, _>>()?;
        let (sender, receiver) = channel();
        let writer = spawn("alcc-log", move || write_all(files, &receiver))?;
        let observer = Formatter {
            logs: logs.into_iter().map(Log::new).collect(),
            sender,
        };
        Ok((Self { writer, paths }, Box::new(observer)))
    }

    /// Waits until everything is written. Call it after [`crate::Emulator::stop`].
    ///
    /// # Errors
    /// [`EmuError::Os`] if not everything could be written.
    pub fn finish(self) -> Result<(), EmuError> {
        let result = self
            .writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let paths: Vec<_> = self.paths.iter().map(|p| p.display().to_string()).collect();
        result.map_err(EmuError::os(format!(
            "write the packet logs {}",
            paths.join(" and ")
        )))
    }
}

fn write_all(mut files: Vec<File>, chunks: &Receiver<(usize, String)>) -> io::Result<()> {
    for (log, text) in chunks {
        files[log].write_all(text.as_bytes())?;
    }
    Ok(())
}

/// A log that is being written.
struct Log {
    dir: Dir,
    text: String,
    capacity: Capacity,
}

/// The bottleneck's capacity in a log.
enum Capacity {
    /// Not written.
    Unsaid,
    /// The opportunities that are not in the log yet.
    Opportunities(Opportunities),
    /// The capacity of this model after a time.
    Offered(Box<Direction>, Time),
}

impl Log {
    fn new(spec: LogSpec) -> Self {
        let mut text = String::with_capacity(CHUNK + 256);
        // Writing to a String cannot fail.
        let capacity = match spec.form {
            LogForm::Own(rate) => {
                let _ = write_header(&mut text, &spec.header);
                match &rate {
                    RateSpec::Trace(trace) => Capacity::Opportunities(trace.cursor()),
                    _ => Capacity::Unsaid,
                }
            }
            LogForm::Mahimahi(model) => {
                let _ = write_mahimahi_header(&mut text, &spec.header);
                Capacity::Offered(model, Time::ZERO)
            }
        };
        Self {
            dir: spec.dir,
            text,
            capacity,
        }
    }

    /// Writes an event at `at`, and the capacity up to then.
    fn line(&mut self, at: Time, line: &Line) {
        let text = &mut self.text;
        match &mut self.capacity {
            Capacity::Unsaid => {}
            Capacity::Opportunities(cursor) => {
                while cursor.peek() <= at {
                    let opportunity = Line::Opportunity {
                        at: cursor.peek(),
                        len: OPPORTUNITY,
                    };
                    cursor.next();
                    let _ = format_line(text, &opportunity);
                }
            }
            Capacity::Offered(model, after) => {
                loop {
                    let until = *after + Span::from_millis(1);
                    if until > at {
                        break;
                    }
                    let len = model.opportunity_bytes(*after, until);
                    if len > Bytes::ZERO && len < Bytes::MAX {
                        let _ = format_mahimahi_line(text, &Line::Opportunity { at: until, len });
                    }
                    *after = until;
                }
                let _ = format_mahimahi_line(text, line);
                return;
            }
        }
        let _ = format_line(text, line);
    }
}

struct Formatter {
    logs: Vec<Log>,
    sender: Sender<(usize, String)>,
}

impl Formatter {
    fn send(&mut self, log: usize) {
        let text = &mut self.logs[log].text;
        let full = std::mem::replace(text, String::with_capacity(CHUNK + 256));
        // The writer has ended after an error, which finish() reports.
        let _ = self.sender.send((log, full));
    }
}

impl Observer for Formatter {
    fn event(&mut self, dir: Dir, outcome: &Outcome, _: Time) {
        let Some(line) = Line::of(outcome) else {
            return;
        };
        let (Outcome::Arrived { at, .. }
        | Outcome::Departed { at, .. }
        | Outcome::Dropped { at, .. }
        | Outcome::Repeated { at, .. }
        | Outcome::Delivered { at, .. }) = *outcome;
        for n in 0..self.logs.len() {
            if self.logs[n].dir == dir {
                self.logs[n].line(at, &line);
                if self.logs[n].text.len() >= CHUNK {
                    self.send(n);
                }
            }
        }
    }
}

impl Drop for Formatter {
    fn drop(&mut self) {
        for n in 0..self.logs.len() {
            self.send(n);
        }
    }
}
