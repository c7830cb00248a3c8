// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program of an experiment: started in a namespace, with its output in a folder, ended with all
//! its children.
use crate::{LabError, cpu};
use alcc_emu::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time from the request to end to the kill.
const GRACE: Duration = Duration::from_secs(5);

/// A running program; ended when dropped.
pub(crate) struct Program {
    child: Child,
    scheme: String,
    /// Files in which its last words may be, the likeliest first.
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

    /// Returns an error with the last line of its output.
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

    /// Returns an error with its last words if it has ended; `why` explains the consequence.
    pub(crate) fn check(&mut self, why: &str) -> Result<(), LabError> {
        if self.is_alive() {
            return Ok(());
        }
        Err(self.failure(why))
    }

    /// Waits until something accepts connections at this port of the loopback in `namespace`.
    ///
    /// # Errors
    /// As [`Program::wait_until`].
    pub(crate) fn wait_for_port(
        &mut self,
        who: &str,
        namespace: &Namespace,
        port: u16,
    ) -> Result<(), LabError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        self.wait_until(who, || {
            let second = Duration::from_secs(1);
            Ok(namespace.run(|| TcpStream::connect_timeout(&address, second).is_ok())?)
        })
    }

    /// Waits until `ready` returns true. `who` is its name in errors.
    ///
    /// # Errors
    /// [`LabError::Run`] with its last words if it ends or does not become ready; the error of
    /// `ready`.
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

    /// Ends it and all its children: see [`end`].
    pub(crate) fn end(&mut self) {
        end(&mut self.child);
    }
}

/// A folder for the files of a run; gone when dropped.
pub(crate) fn scratch_folder() -> Result<TempDir, LabError> {
    let above = std::env::temp_dir();
    let attempt = format!(
        "make a temporary folder in {} (TMPDIR says where)",
        above.display()
    );
    // What is said of a folder that is not there has the words that help: see `reason`.
    let folder = fs::metadata(&above)
        .and_then(|_| tempfile::Builder::new().prefix("alcc-").tempdir_in(&above));
    folder.map_err(LabError::os(attempt))
}

/// Asks a program to end, and orders it to after [`GRACE`]. Its children end with it, also those
/// that would outlive it, as vsftpd's sessions do.
fn end(child: &mut Child) {
    let is_alive = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    if !is_alive(child) {
        return;
    }
    let root = child.id();
    let everyone = cpu::tree(root);
    let to = |process: u32, signal| {
        // It may have ended meanwhile: that is what we want.
        let _ = kill(Pid::from_raw(process.cast_signed()), signal);
    };
    to(root, Signal::SIGTERM);
    let began = Instant::now();
    while is_alive(child) && began.elapsed() < GRACE {
        std::thread::sleep(Duration::from_millis(10));
    }
    if is_alive(child) {
        to(root, Signal::SIGKILL);
        let _ = child.wait();
    }
    for process in everyone.into_iter().filter(|process| *process != root) {
        to(process, Signal::SIGKILL);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_outlive_their_parent_end_too() {
        let script = "sleep 300 & trap 'exit 0' TERM; wait";
        let mut parent = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        let mut everyone = cpu::tree(parent.id());
        while everyone.len() < 2 {
            assert!(Instant::now() < until, "the shell has a child");
            std::thread::sleep(Duration::from_millis(5));
            everyone = cpu::tree(parent.id());
        }
        // The trap is set a moment after the child has come.
        std::thread::sleep(Duration::from_millis(100));
        end(&mut parent);
        let sleeper = Pid::from_raw(everyone[1].cast_signed());
        while kill(sleeper, None).is_ok() && !is_zombie(everyone[1]) {
            assert!(Instant::now() < until, "the child is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ended, and its new parent has not asked yet.
    fn is_zombie(process: u32) -> bool {
        fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| {
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('Z'))
        })
    }
}
