// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that are started, waited for and ended.
use alcc_emu::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// For what a program does by itself: a transfer, its end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// States of a socket in the kernel's table.
pub(crate) const LISTEN: &str = "0A";
pub(crate) const TIME_WAIT: &str = "06";

/// The states of the TCP sockets with this local port in the calling thread's namespace.
pub(crate) fn sockets(port: u16) -> Vec<String> {
    let tables = ["tcp", "tcp6"].map(|name| {
        fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
    });
    let local = format!(":{port:04X}");
    let of_line = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        words.next().filter(|address| address.ends_with(&local))?;
        words.nth(1).map(str::to_owned)
    };
    tables
        .iter()
        .flat_map(|table| table.lines())
        .filter_map(of_line)
        .collect()
}

/// A process in a group of its own (Apache signals its whole group), ended when dropped.
pub(crate) struct Process {
    child: Child,
    said: PathBuf,
}

impl Process {
    pub(crate) fn start(space: &Namespace, mut command: Command, said: &Path) -> Self {
        let file = File::create(said).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = space
            .spawn(command)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        Self {
            child,
            said: said.to_owned(),
        }
    }

    /// Waits until a program in the namespace listens on the port. It does not connect, because iperf3
    /// would count that as a client.
    pub(crate) fn wait_for(&self, space: &Namespace, port: u16) {
        let listening = || sockets(port).iter().any(|state| state == LISTEN);
        let deadline = Instant::now() + Duration::from_secs(30);
        while !space.run(listening).unwrap() {
            assert!(
                Instant::now() < deadline,
                "nobody listens on {port}: {}",
                fs::read_to_string(&self.said).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops it by the signal of an init system.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "it does not end: {}",
                fs::read_to_string(&self.said).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::SIGTERM);
            let deadline = Instant::now() + Duration::from_secs(5);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Its whole group, which is ours alone.
            let _ = kill(
                Pid::from_raw(-self.child.id().cast_signed()),
                Signal::SIGKILL,
            );
            drop(self.child.wait());
        }
    }
}
