// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc proxy` as a child of a test.
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A relay that runs.
pub(crate) struct Relay {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// Addresses at which it listens.
    pub(crate) at: Vec<SocketAddr>,
    json: tempfile::NamedTempFile,
}

impl Relay {
    /// Starts `alcc proxy OPTIONS` in `start`'s way and waits until it listens. By default it keeps the limit
    /// by its queue, regardless of controls that are loaded into the kernel.
    pub(crate) fn start(
        options: &[&str],
        start: impl FnOnce(Command) -> std::io::Result<Child>,
    ) -> Self {
        let json = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
        let own: &[&str] = match options.contains(&"--enforce") {
            true => &[],
            false => &["--enforce", "queue+pacing"],
        };
        command
            .arg("proxy")
            .args(options)
            .args(own)
            .arg(format!("--json={}", json.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = start(command).unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let at = line
            .strip_prefix("alcc: relaying ")
            .and_then(|rest| rest.split(" to ").next())
            .unwrap_or_else(|| panic!("it said: {line}"));
        let at = at.split(" and ").map(|a| a.parse().unwrap()).collect();
        Self {
            child,
            stderr,
            at,
            json,
        }
    }

    /// On loopback, at a free port, to `server`, controlled unless the options say otherwise.
    pub(crate) fn local(server: SocketAddr, options: &[&str]) -> Self {
        let to = server.to_string();
        let mut all = vec!["--listen", "127.0.0.1:0", "--to", &to, "--loopback"];
        all.extend(options);
        Self::start(&all, |mut command| command.spawn())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it and returns its exit status, the JSON object, and standard error.
    pub(crate) fn stop(mut self) -> (ExitStatus, Value, String) {
        self.terminate();
        let status = self.wait();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        let json = std::fs::read_to_string(self.json.path()).unwrap();
        let json = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json:?}; {said}"));
        (status, json, said)
    }

    pub(crate) fn terminate(&self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the proxy does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A number of the summary.
pub(crate) fn number(report: &Value, field: &str) -> u64 {
    report[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} in {report}"))
}
