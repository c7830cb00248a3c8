// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc recv` and `alcc send` as children of a test.
use super::built::program_of;
use super::port::free_port;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn alcc(args: &[&str]) -> Command {
    let mut command = Command::new(program_of(args));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A file of `len` pseudo-random bytes.
pub(crate) fn file(folder: &Path, len: usize) -> PathBuf {
    let content = alcc_units::Rng::new(len as u64).bytes(len);
    let path = folder.join("sent");
    std::fs::write(&path, content).unwrap();
    path
}

/// A program that runs, and what it has said on standard error.
pub(crate) struct End {
    child: Child,
    said: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl End {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = alcc(args).args(args).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (stderr, into) = (child.stderr.take().unwrap(), Arc::clone(&said));
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                into.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self {
            child,
            said,
            reader: Some(reader),
        }
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// The most memory that it has had, bytes.
    pub(crate) fn most_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
        let kb: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kb * 1024
    }

    /// Waits for its end: how, and what it said.
    pub(crate) fn end(mut self, within: Duration) -> (ExitStatus, String) {
        let deadline = Instant::now() + within;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                panic!("it does not end: {}", self.said());
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        self.reader.take().unwrap().join().unwrap();
        (status, self.said())
    }

    /// Fails as it should: exit status 1 and one line, which is returned. That a transport is not
    /// encrypted is said besides, and how far it is of what has taken a second.
    pub(crate) fn fails(self, within: Duration) -> String {
        let (status, said) = self.end(within);
        assert_eq!(status.code(), Some(1), "{said}");
        let lines: Vec<&str> = said
            .lines()
            .filter(|l| !l.ends_with("it is not encrypted"))
            .filter(|l| l.split_whitespace().nth(1) != Some("%"))
            .collect();
        let by = ["alcc: ", "alcc-lab: "];
        let is_ours = by.iter().any(|who| lines[0].starts_with(who));
        assert!(lines.len() == 1 && is_ours, "{said}");
        lines[0].to_owned()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// `alcc recv`, with the folder it keeps files in.
pub(crate) struct Receiver {
    pub(crate) end: End,
    pub(crate) at: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
}

impl Receiver {
    /// Listens on loopback and keeps what comes.
    pub(crate) fn start(transport: &[&str], options: &[&str]) -> Self {
        Self::at(free_port(), transport, options)
    }

    pub(crate) fn at(port: u16, transport: &[&str], options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (port, out) = (port.to_string(), folder.path().to_str().unwrap());
        let mut args = vec!["recv", "--bind", "127.0.0.1", "--port", &port, "--out", out];
        args.extend(transport);
        args.extend(options);
        let mut end = End::start(&args);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !end.said().contains("listening on ") {
            // A connection of another test may have the port for a moment.
            if end.said().contains("in use") {
                std::thread::sleep(Duration::from_millis(200));
                end = End::start(&args);
            }
            assert!(Instant::now() < deadline, "it said: {}", end.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        Self {
            end,
            at: format!("127.0.0.1:{port}").parse().unwrap(),
            folder,
        }
    }

    /// The files in its folder.
    pub(crate) fn kept(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut kept: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
        kept.sort();
        kept
    }

    /// Exactly this has been kept.
    pub(crate) fn has(&self, file: &Path) {
        let kept = self.kept();
        assert_eq!(kept.len(), 1, "{kept:?}: {}", self.end.said());
        let same = std::fs::read(&kept[0]).unwrap() == std::fs::read(file).unwrap();
        assert!(same, "{} bytes", std::fs::metadata(&kept[0]).unwrap().len());
    }
}

/// `alcc send OPTIONS` to there.
pub(crate) fn send(transport: &[&str], options: &[&str], to: SocketAddr) -> End {
    let to = to.to_string();
    let mut args = vec!["send", &to];
    args.extend(transport);
    args.extend(options);
    if transport[1] != "tcp" {
        args.extend(["--cc", "verus"]);
    }
    End::start(&args)
}

/// `alcc send --file FILE` to there.
pub(crate) fn sending(transport: &[&str], to: SocketAddr, file: &Path) -> End {
    let file = file.to_str().unwrap();
    send(transport, &["--file", file, "--stall", "20s"], to)
}

/// The same, and it arrives.
pub(crate) fn sent(transport: &[&str], to: SocketAddr, file: &Path) {
    let (status, said) = sending(transport, to, file).end(Duration::from_secs(60));
    assert!(status.success(), "{transport:?}: {said}");
}
