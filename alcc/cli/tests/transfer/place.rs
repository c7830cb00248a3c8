// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two namespaces with a link between them, and our program in both.
#[path = "../support/built.rs"]
pub(crate) mod built;

use alcc_emu::{Emulator, Namespace, PathSpec, Silent, Subnet};
use alcc_link::{DirectionSpec, RateSpec};
use alcc_units::{Rate, Rng, Span};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::cell::Cell;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest that anything may take here.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    pub(crate) outside: Namespace,
    pub(crate) inside: Namespace,
    link: Emulator,
    dir: tempfile::TempDir,
    started: Cell<u32>,
}

/// One of our programs, still going.
pub(crate) struct Going {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

/// The end of a transfer.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None`: by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// 20 Mbit/s and 10 ms towards the receiver.
pub(crate) fn link() -> PathSpec {
    let direction = |mbps| DirectionSpec {
        delay: Span::from_millis(10),
        rate: RateSpec::Fixed(Rate::mbps(mbps)),
        ..DirectionSpec::default()
    };
    PathSpec {
        down: direction(20),
        up: direction(50),
        seed: 1,
    }
}

impl Place {
    /// `None`, with a message, if this machine does not support it.
    pub(crate) fn new() -> Option<Self> {
        Self::over(link())
    }

    /// The same over another link.
    pub(crate) fn over(link: PathSpec) -> Option<Self> {
        if let Err(why) = alcc_emu::available() {
            crate::lacks::lacks(&format!("namespaces ({why})"));
            return None;
        }
        alcc_emu::prepare().unwrap();
        let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let net = Subnet::default();
        let link = Emulator::start(&outside, &inside, net, link, Box::new(Silent)).unwrap();
        Some(Self {
            outside,
            inside,
            link,
            dir: tempfile::tempdir().unwrap(),
            started: Cell::new(0),
        })
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Address of the receiver.
    pub(crate) fn receiver(&self) -> Ipv4Addr {
        self.link.inside_addr()
    }

    /// A file of pseudo-random bytes.
    pub(crate) fn file(&self, name: &str, size: usize) -> Vec<u8> {
        let content = Rng::new(size as u64).bytes(size);
        std::fs::write(self.path(name), &content).unwrap();
        content
    }

    pub(crate) fn start(&self, namespace: &Namespace, args: &[&str]) -> Going {
        let program = built::program_of(args);
        self.run(namespace, program.to_str().unwrap(), args)
    }

    pub(crate) fn run(&self, namespace: &Namespace, program: &str, args: &[&str]) -> Going {
        let number = self.started.get();
        self.started.set(number + 1);
        let file = |kind| self.dir.path().join(format!("{kind}-{number}"));
        let (out, err) = (file("out"), file("err"));
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap());
        Going {
            child: namespace.spawn(command).unwrap(),
            out,
            err,
        }
    }

    /// `alcc recv`, once it listens.
    pub(crate) fn recv(&self, args: &[&str]) -> Going {
        let going = self.start(&self.inside, &[&["recv", "--insecure"], args].concat());
        going.says("listening on ");
        going
    }

    /// `alcc send` to the receiver, to its end.
    pub(crate) fn send(&self, args: &[&str]) -> Ended {
        self.sending(args).end()
    }

    pub(crate) fn sending(&self, args: &[&str]) -> Going {
        let to = self.receiver().to_string();
        let all = [&["send", "--insecure"], args, &[to.as_str()]].concat();
        self.start(&self.outside, &all)
    }
}

impl Going {
    /// Waits until it has said this on standard error.
    pub(crate) fn says(&self, what: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let said = std::fs::read_to_string(&self.err).unwrap();
            if said.contains(what) {
                return;
            }
            assert!(Instant::now() < until, "not said: {what}, but: {said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its standard error so far.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub(crate) fn end(mut self) -> Ended {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= until {
                let said = std::fs::read_to_string(&self.err).unwrap();
                panic!("it does not end: {said}");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let read = |path| std::fs::read_to_string(path).unwrap();
        Ended {
            code: status.code(),
            out: read(&self.out),
            err: read(&self.err),
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// It went well, and this is the JSON that it printed.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.any_json()
    }

    pub(crate) fn any_json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// It failed with this status and one line that contains this.
    pub(crate) fn fails(&self, code: i32, part: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains(part), "{part}: {self:?}");
        // What a transport says of itself at its start is not about the failure.
        let ours = self
            .err
            .lines()
            .filter(|l| l.starts_with("alcc: ") || l.starts_with("alcc-lab: "));
        let lines: Vec<_> = ours.filter(|l| !l.contains("is for measuring")).collect();
        assert_eq!(lines.len(), 1, "{self:?}");
    }
}
