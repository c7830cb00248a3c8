// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program of an experiment: started in a namespace, its words in a folder, ended with all its
//! children.
use crate::{LabError, cpu};
use alcc_emu::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// From the request to end to the order.
const GRACE: Duration = Duration::from_secs(5);

/// A running program; ended when dropped.
pub(crate) struct Program {
    child: Child,
    scheme: String,
    /// Where its last words may stand, the likeliest first.
    says: Vec<PathBuf>,
}

impl Program {
    /// Starts `command` in `namespace`. What it prints goes into the file `says`; `more` may have
    /// its last words, too. `scheme` is whose errors its errors are.
    ///
    /// # Errors
    /// [`LabError::Os`] if a file or the process cannot be made.
    pub(crate) fn start(
        namespace: &Namespace,
        mut command: Command,
        scheme: &str,
        says: &Path,
        more: PathBuf,
    ) -> Result<Self, LabError> {
        let stderr = File::create(says);
        let stderr = stderr.map_err(LabError::os(format!("write {}", says.display())))?;
        let stdout = stderr.try_clone();
        let stdout = stdout.map_err(LabError::os("duplicate a descriptor"))?;
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = namespace
            .spawn(command)
            .map_err(LabError::os(format!("start {name}")))?;
        Ok(Self {
            child,
            scheme: scheme.to_owned(),
            says: vec![says.to_owned(), more],
        })
    }

    /// False once it has ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The process that was started.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error with the last line that it said.
    pub(crate) fn failure(&self, why: &str) -> LabError {
        let last = self
            .says
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok())
            .find_map(|text| {
                text.lines()
                    .rev()
                    .find(|l| !l.trim().is_empty())
                    .map(str::to_owned)
            });
        LabError::Run {
            scheme: self.scheme.clone(),
            why: match last {
                Some(line) => format!("{why}: {line}"),
                None => why.to_owned(),
            },
        }
    }

    /// Waits until `ready` says so. `who` is what an error calls it.
    ///
    /// # Errors
    /// [`LabError::Run`] with its last words if it ends or does not become so; what `ready` says.
    pub(crate) fn wait_until(
        &mut self,
        who: &str,
        mut ready: impl FnMut() -> Result<bool, LabError>,
    ) -> Result<(), LabError> {
        let patience = Duration::from_secs(15);
        let began = Instant::now();
        while !ready()? {
            if !self.is_alive() {
                return Err(self.failure(&format!("{who} ended before it answered")));
            }
            if began.elapsed() > patience {
                let seconds = patience.as_secs();
                return Err(self.failure(&format!("{who} did not answer within {seconds} s")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until it has ended by itself, with success.
    ///
    /// # Errors
    /// [`LabError::Run`] with its last words if it fails or takes longer than `limit`;
    /// [`LabError::Stopped`].
    pub(crate) fn finish(
        &mut self,
        who: &str,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            let ended = self.child.try_wait();
            match ended.map_err(LabError::os(format!("wait for {who}")))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.failure(&format!("{who} ended with {status}"))),
                None if stop.load(Ordering::Relaxed) => return Err(LabError::Stopped),
                None if began.elapsed() > limit => {
                    let seconds = limit.as_secs();
                    return Err(self.failure(&format!("{who} was not done after {seconds} s")));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Asks it to end, and orders it and all its children to after [`GRACE`].
    pub(crate) fn end(&mut self) {
        if !self.is_alive() {
            return;
        }
        let everyone = cpu::tree(self.child.id());
        let to = |process: u32, signal| {
            // It may have ended meanwhile: that is what we want.
            let _ = kill(Pid::from_raw(process.cast_signed()), signal);
        };
        to(self.child.id(), Signal::SIGTERM);
        let began = Instant::now();
        while self.is_alive() && began.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(10));
        }
        if self.is_alive() {
            for process in everyone {
                to(process, Signal::SIGKILL);
            }
            let _ = self.child.wait();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}
