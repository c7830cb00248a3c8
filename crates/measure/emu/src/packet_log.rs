// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::emulator::spawn;
use crate::{Dir, EmuError, Observer};
use alcc_link::log::{Header, Line, format_line, write_header};
use alcc_link::{Outcome, RateSpec};
use alcc_trace::{OPPORTUNITY, Opportunities};
use alcc_units::Time;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Text that is handed to the writing thread at once.
const CHUNK: usize = 1 << 16;

/// Writes one log for each direction ([`alcc_link::log`]). The relay only formats lines; a thread
/// writes them, since a slow disk must not delay packets.
#[derive(Debug)]
pub struct PacketLog {
    writer: JoinHandle<io::Result<()>>,
    paths: [PathBuf; 2],
}

/// One direction of a log: where it goes, what it says about itself, and its bottleneck, whose
/// opportunities it lists.
#[derive(Clone, Debug)]
pub struct LogSpec {
    /// The file, which is overwritten.
    pub path: PathBuf,
    /// What the log says about itself.
    pub header: Header,
    /// The bottleneck of the direction.
    pub rate: RateSpec,
}

impl PacketLog {
    /// Makes the files; the observer is for [`crate::Emulator::start`].
    ///
    /// # Errors
    /// [`EmuError::Os`] if a file cannot be made.
    pub fn create(
        down: LogSpec,
        up: LogSpec,
    ) -> Result<(Self, Box<dyn Observer + Send>), EmuError> {
        let paths = [down.path.clone(), up.path.clone()];
        let make = |path: &PathBuf| {
            alcc_sys::create(path).map_err(EmuError::os(format!(
                "make the packet log {}",
                path.display()
            )))
        };
        let files = [make(&paths[0])?, make(&paths[1])?];
        let (sender, receiver) = channel();
        let writer = spawn("alcc-log", move || write_all(files, &receiver))?;
        let observer = Formatter {
            halves: [down, up].map(|spec| {
                let mut text = String::with_capacity(CHUNK + 256);
                // Writing to a String cannot fail.
                let _ = write_header(&mut text, &spec.header);
                let opportunities = match &spec.rate {
                    RateSpec::Trace(trace) => Some(trace.cursor()),
                    _ => None,
                };
                Half {
                    text,
                    opportunities,
                }
            }),
            sender,
        };
        Ok((Self { writer, paths }, Box::new(observer)))
    }

    /// Waits until everything is written; after [`crate::Emulator::stop`].
    ///
    /// # Errors
    /// [`EmuError::Os`] if the disk did not take all of it.
    pub fn finish(self) -> Result<(), EmuError> {
        let [down, up] = self.paths;
        let result = self
            .writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.map_err(EmuError::os(format!(
            "write the packet logs {} and {}",
            down.display(),
            up.display()
        )))
    }
}

fn write_all(mut files: [File; 2], chunks: &Receiver<(usize, String)>) -> io::Result<()> {
    for (direction, text) in chunks {
        files[direction].write_all(text.as_bytes())?;
    }
    Ok(())
}

struct Half {
    text: String,
    opportunities: Option<Opportunities>,
}

impl Half {
    /// The opportunities up to `now` that are not in the log yet.
    fn opportunities(&mut self, now: Time) {
        let Some(cursor) = &mut self.opportunities else {
            return;
        };
        while cursor.peek() <= now {
            let at = cursor.peek();
            cursor.next();
            let len = OPPORTUNITY;
            let _ = format_line(&mut self.text, &Line::Opportunity { at, len });
        }
    }
}

struct Formatter {
    halves: [Half; 2],
    sender: Sender<(usize, String)>,
}

impl Formatter {
    fn send(&mut self, direction: usize) {
        let text = &mut self.halves[direction].text;
        let full = std::mem::replace(text, String::with_capacity(CHUNK + 256));
        // The writer is gone after an error, which finish() reports.
        let _ = self.sender.send((direction, full));
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
        | Outcome::Delivered { at, .. }) = *outcome;
        let half = &mut self.halves[dir as usize];
        half.opportunities(at);
        let _ = format_line(&mut half.text, &line);
        if half.text.len() >= CHUNK {
            self.send(dir as usize);
        }
    }
}

impl Drop for Formatter {
    fn drop(&mut self) {
        self.send(0);
        self.send(1);
    }
}
