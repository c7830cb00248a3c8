// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment of an application: both ends of a link, and their shared settings.
use crate::LabError;
use crate::live::programs::Namespaces;
use crate::program::Program;
use crate::scheme::Scheme;
use crate::server::RuntimeReport;
use crate::tools::{Tools, search};
use alcc_emu::Namespace;
use alcc_units::Rng;
use std::cell::RefCell;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Maximum time that a client may take beyond the measurement.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Stage<'a> {
    pub(super) scheme: &'a Scheme,
    pub(super) tools: &'a Tools,
    pub(super) ends: &'a Namespaces,
    /// Folder for output files; other users may read it.
    pub(super) folder: &'a Path,
    /// The server's address.
    pub(super) from: Ipv4Addr,
    /// The receiver's address.
    pub(super) to: Ipv4Addr,
    /// Start of the link's time.
    pub(super) origin: Instant,
    /// Length of the measurement.
    pub(super) duration: Duration,
    pub(super) stop: &'a AtomicBool,
    /// Notes on the results.
    pub(super) notes: RefCell<Vec<String>>,
}

/// Time from the start of the link to the client's request, independent of the server's start-up
/// time, so that every scheme meets the same part of a trace.
const LEAD: Duration = Duration::from_secs(8);

/// [`super::Application::prepare`] of an application without preparation.
pub(super) fn nothing(_: &Stage<'_>) -> Result<(), LabError> {
    Ok(())
}

/// A server; ended when dropped.
pub(super) struct Served {
    program: Program,
    /// Report of `alcc run`; `None` for a plain server.
    report: Option<PathBuf>,
}

/// Sign that a server has started.
pub(super) enum Ready<'a> {
    /// It accepts connections at this port.
    Port(u16),
    /// It prints this text.
    Says(&'a str),
}

impl Stage<'_> {
    /// An error of this run.
    pub(super) fn failed(&self, why: impl Into<String>) -> LabError {
        self.scheme.failed(why)
    }

    /// Finds a program.
    pub(super) fn find(&self, program: &'static str, package: &str) -> Result<PathBuf, LabError> {
        search(program).ok_or_else(|| LabError::Missing {
            program,
            looked: "not in PATH, /usr/sbin or target/deps/bin".to_owned(),
            fix: format!(
                "install it (apt install --no-install-recommends {package}), or run 'scripts/setup test'"
            ),
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, LabError> {
        let path = self.path(name);
        fs::write(&path, content).map_err(LabError::os(format!("write {}", path.display())))?;
        Ok(path)
    }

    pub(super) fn make_folder(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.path(name);
        fs::create_dir_all(&path).map_err(LabError::os(format!("make {}", path.display())))?;
        Ok(path)
    }

    /// Starts a server at the sending end, with the control of the scheme, and waits until it is
    /// ready.
    pub(super) fn serve(
        &self,
        program: &Path,
        arguments: impl FnOnce(&mut Command),
        ready: &Ready<'_>,
    ) -> Result<Served, LabError> {
        let report = self.path("runtime.json");
        let mut command = self.tools.below(self.scheme, program, &report, None);
        arguments(&mut command);
        let says = self.path("server.says");
        let name = &self.scheme.name;
        let log = self.path("error.log");
        let mut program = Program::start(&self.ends.sender, command, name, &says, log)?;
        match ready {
            Ready::Port(port) => program.wait_for_port("the server", &self.ends.sender, *port)?,
            Ready::Says(text) => program.wait_until("the server", || {
                Ok(fs::read_to_string(&says).is_ok_and(|all| all.contains(text)))
            })?,
        }
        let controlled = self.scheme.controlled.is_some();
        Ok(Served {
            program,
            report: controlled.then_some(report),
        })
    }

    /// Starts a program where data go to. What it prints goes into the file of this name.
    pub(super) fn start(&self, command: Command, says: &str) -> Result<Program, LabError> {
        self.start_in(&self.ends.receiver, command, says)
    }

    /// The same where data come from.
    pub(super) fn start_sender(&self, command: Command, says: &str) -> Result<Program, LabError> {
        self.start_in(&self.ends.sender, command, says)
    }

    fn start_in(&self, end: &Namespace, command: Command, says: &str) -> Result<Program, LabError> {
        let says = self.path(says);
        Program::start(end, command, &self.scheme.name, &says, says.clone())
    }

    /// Runs a client to its end: what it printed, and after what time it ended.
    pub(super) fn ask(&self, who: &str, command: Command) -> Result<(Vec<u8>, Duration), LabError> {
        let began = Instant::now();
        let mut program = self.start(command, who)?;
        program.finish(who, self.duration + PATIENCE, self.stop)?;
        let took = began.elapsed();
        let said =
            fs::read(self.path(who)).map_err(LabError::os(format!("read what {who} said")))?;
        Ok((said, took))
    }

    /// Waits for the clients' request time: [`LEAD`] after the start of the link.
    pub(super) fn begin(&self) -> Result<Instant, LabError> {
        let begin = self.origin + LEAD;
        if Instant::now() > begin {
            let seconds = LEAD.as_secs();
            return Err(self.failed(format!(
                "its servers took longer than {seconds} s to start: run fewer things at a time"
            )));
        }
        self.wait(begin)?;
        Ok(begin)
    }

    /// Waits until `end`, or returns an error when the user stops it.
    pub(super) fn wait(&self, end: Instant) -> Result<(), LabError> {
        while Instant::now() < end {
            if self.stop.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(LabError::Stopped);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Served {
    /// An error if the server has ended.
    pub(super) fn check(&mut self) -> Result<(), LabError> {
        self.program.check("the server ended during the run")
    }

    /// Ends the server. A scheme that is controlled must have controlled something; what else its
    /// report says stands beside the figures.
    pub(super) fn end(mut self, stage: &Stage<'_>) -> Result<(), LabError> {
        self.check()?;
        self.program.end();
        let Some(report) = &self.report else {
            return Ok(());
        };
        let says = RuntimeReport::read(report).and_then(|runtime| runtime.notes());
        let says = says.map_err(|why| stage.failed(why))?;
        stage.notes.borrow_mut().extend(says);
        Ok(())
    }
}

/// Bytes that no program can compress.
pub(super) fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    Rng::new(seed).bytes(bytes)
}
