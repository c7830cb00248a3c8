// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One of the small servers of `alcc/preload/tests/c/serve.c` under `alcc run`, seen from
//! outside.
use crate::support::lacks;
use nix::libc::c_long;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(30);

/// The program, compiled once; `None` (and said) if this machine cannot.
pub(crate) fn peer() -> Option<&'static Path> {
    static PEER: OnceLock<Option<PathBuf>> = OnceLock::new();
    PEER.get_or_init(|| {
        if Command::new("cc").arg("--version").output().is_err() {
            lacks("cc");
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/tests/c");
        let files = std::fs::read_dir(&source)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "c"));
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faulty");
        let done = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-g", "-w", "-pthread", "-o"])
            .arg(&to)
            .args(files)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "cc: {said}");
        Some(to)
    })
    .as_deref()
}

/// As many descriptors as an administrator allows.
pub(crate) fn allow_many_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(1 << 16), most).unwrap();
}

/// The resources of a process, by /proc.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) resident_kib: u64,
}

pub(crate) struct Server {
    alcc: Child,
    is_plain: bool,
    port: u16,
    dir: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(mode: &str, connections: usize, bytes: usize) -> Self {
        let how = ("gate+pacing", "fixed:window=2");
        Self::run(Some(how), mode, connections, bytes)
    }

    /// With this enforcement and algorithm, or without control.
    pub(crate) fn run(
        how: Option<(&str, &str)>,
        mode: &str,
        connections: usize,
        bytes: usize,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let stderr = dir.path().join("stderr");
        let mut command = Command::new(peer().unwrap());
        if let Some((enforcement, cc)) = how {
            command = Command::new(env!("CARGO_BIN_EXE_alcc"));
            command
                .args(["run", "--quiet", "--loopback", "--cc", cc])
                .args(["--enforce", enforcement])
                .arg(format!("--json={}", dir.path().join("report").display()))
                .arg("--")
                .arg(peer().unwrap());
        }
        let alcc = command
            .arg(mode)
            .env("PEER_CONNECTIONS", connections.to_string())
            .env("PEER_BYTES", bytes.min(3_000_000).to_string())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + DEADLINE;
        let port = loop {
            let said = std::fs::read_to_string(&stderr).unwrap();
            let port = said
                .strip_prefix("port ")
                .and_then(|rest| rest.split_once('\n'))
                .map(|(port, _)| port.parse().unwrap());
            if let Some(port) = port {
                break port;
            }
            assert!(Instant::now() < deadline, "{mode} did not start: {said}");
            std::thread::sleep(Duration::from_millis(2));
        };
        let is_plain = how.is_none();
        Self {
            alcc,
            is_plain,
            port,
            dir,
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// The program itself: the only child of `alcc run`.
    fn pid(&self) -> Pid {
        self.child().unwrap()
    }

    /// The same; `None` if it has ended.
    fn child(&self) -> Option<Pid> {
        if self.is_plain {
            return Some(Pid::from_raw(self.alcc.id().cast_signed()));
        }
        let alcc = self.alcc.id();
        let children =
            std::fs::read_to_string(format!("/proc/{alcc}/task/{alcc}/children")).ok()?;
        let first = children.split_whitespace().next()?;
        Some(Pid::from_raw(first.parse().unwrap()))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub(crate) fn usage(&self) -> Usage {
        let pid = self.pid();
        let count = |what| {
            let entries = std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap();
            entries.count()
        };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        Usage {
            descriptors: count("fd"),
            threads: count("task"),
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }

    /// Stops the library's threads, and nothing else, until the result is dropped; with `awaited`
    /// it waits for the first, which takes its name only when it runs. `None` if this user may not
    /// trace the server. Before or after the system call `at`. A thread that ends before it is not
    /// in the result.
    pub(crate) fn stop_library(&self, awaited: bool, at: c_long) -> Option<Vec<Stopped>> {
        let deadline = Instant::now() + DEADLINE;
        let named = |task: &PathBuf| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "alcc")
        };
        loop {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            let tasks = tasks.map(|task| task.unwrap().path());
            let ours: Vec<_> = tasks.filter(named).collect();
            if !ours.is_empty() || !awaited || Instant::now() > deadline {
                let seized = ours.iter().map(|task| Stopped::seize(task, at));
                return seized
                    .filter_map(Result::transpose)
                    .collect::<Result<_, _>>()
                    .ok();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Processor time that it has used, in steps of 10 ms.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks = fields.split(' ').skip(11).take(2);
        let ticks: u64 = ticks.map(|n| n.parse::<u64>().unwrap()).sum();
        Duration::from_millis(10 * ticks)
    }

    /// Number of times that its threads have gone to sleep.
    pub(crate) fn sleeps(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let sleeps = tasks.filter_map(|task| {
            // It may have ended.
            let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let mut lines = status.lines();
            let number = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            number.trim().parse::<u64>().ok()
        });
        sleeps.sum()
    }

    /// Waits for its end: the exit status, as a shell gives it, and the report.
    pub(crate) fn end(mut self) -> (Option<i32>, serde_json::Value) {
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.alcc.try_wait().unwrap() {
                break status.code();
            }
            assert!(Instant::now() < deadline, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let report = std::fs::read_to_string(self.dir.path().join("report")).unwrap_or_default();
        (status, serde_json::from_str(&report).unwrap_or_default())
    }
}

/// A thread of another process that this thread has stopped.
pub(crate) struct Stopped(i32);

impl Stopped {
    /// `None` if the thread has ended, an error if this user may not trace it.
    fn seize(task: &Path, at: c_long) -> Result<Option<Self>, ()> {
        let name = task.file_name().unwrap().to_str().unwrap();
        let (id, none): (i32, _) = (name.parse().unwrap(), 0usize);
        // SAFETY: numbers only.
        if unsafe { nix::libc::ptrace(nix::libc::PTRACE_SEIZE, id, none, none) } != 0 {
            if !task.exists() {
                return Ok(None);
            }
            lacks("leave to trace a server");
            return Err(());
        }
        // SAFETY: numbers only.
        unsafe { nix::libc::ptrace(nix::libc::PTRACE_INTERRUPT, id, none, none) };
        let deadline = Instant::now() + DEADLINE;
        loop {
            let mut status = 0;
            // SAFETY: a number, and room for the status.
            unsafe {
                nix::libc::waitpid(id, &raw mut status, nix::libc::__WALL);
            }
            let Ok(call) = std::fs::read_to_string(task.join("syscall")) else {
                return Ok(None);
            };
            let number = call.split(' ').next().and_then(|n| n.parse().ok());
            if number == Some(at) {
                return Ok(Some(Self(id)));
            }
            assert!(Instant::now() < deadline, "never in {at}: {call}");
            // SAFETY: numbers only.
            unsafe { nix::libc::ptrace(nix::libc::PTRACE_SYSCALL, id, none, none) };
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: numbers only.
        let there =
            unsafe { nix::libc::ptrace(nix::libc::PTRACE_DETACH, self.0, 0usize, 0usize) } == 0;
        if !there {
            // It has ended with its process, which stays until its tracer has seen that.
            // SAFETY: a number; the status is not wanted.
            unsafe { nix::libc::waitpid(self.0, std::ptr::null_mut(), nix::libc::__WALL) };
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failed test: neither alcc nor the program stays.
        if matches!(self.alcc.try_wait(), Ok(None)) {
            if let Some(program) = self.child() {
                let _ = kill(program, Signal::SIGKILL);
            }
            drop(self.alcc.wait());
        }
    }
}
