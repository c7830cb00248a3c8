// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs under torture, and what a run of one came to.
use crate::support::lacks;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A window of two segments shuts at nearly every write.
const RUN: [&str; 8] = [
    "run",
    "--quiet",
    "--loopback",
    "--cc",
    "fixed:window=2",
    "--enforce",
    "gate+pacing",
    "--",
];

const DEADLINE: Duration = Duration::from_secs(30);
/// Bytes for each client.
const BYTES: usize = 60_000;
const CLIENTS: usize = 2;

/// One call that fails.
pub(crate) struct Injection {
    pub(crate) call: &'static str,
    pub(crate) n: u32,
    pub(crate) errno: i32,
}

/// A program that serves two clients.
pub(crate) struct Tortured {
    pub(crate) name: &'static str,
    program: Option<PathBuf>,
}

impl Tortured {
    /// True, with a message, if the machine does not have it.
    pub(crate) fn is_missing(&self) -> bool {
        self.program.is_none() && lacks(self.name)
    }

    /// The signal that ends it, after which Python still exits normally and reports its calls.
    fn stopped_by(&self) -> Signal {
        if self.name == "http.server" {
            Signal::SIGINT
        } else {
            Signal::SIGTERM
        }
    }

    /// It ends by itself when it has served its clients.
    fn ends(&self) -> bool {
        self.name.starts_with("serve")
    }
}

/// The outcome of a run.
pub(crate) struct Ended {
    pub(crate) command: String,
    /// The call failed, so it was made.
    pub(crate) fired: bool,
    /// `None`: it had to be killed.
    status: Option<i32>,
    ended_by: Option<i32>,
    /// The bytes that arrived at each client, if they are the beginning of what was sent.
    arrived: Vec<Result<usize, String>>,
    stderr: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "status {:?}, signal {:?}, arrived {:?}, said {:?}",
            self.status, self.ended_by, self.arrived, self.stderr
        )
    }
}

impl Ended {
    /// Faults that no failing call may cause.
    pub(crate) fn insane(&self) -> Option<String> {
        if self.status.is_none() {
            return Some("hangs".to_owned());
        }
        // As a shell gives it: alcc passes a signal of the program on as 128 and more.
        let signal = self
            .ended_by
            .or_else(|| self.status.filter(|s| *s > 128).map(|s| s - 128));
        if let Some(signal) = signal {
            return Some(format!("ended by signal {signal}"));
        }
        let wrong = self.arrived.iter().find_map(|a| a.as_ref().err());
        wrong.map(|why| format!("corrupted: {why}"))
    }

    /// As if nothing had happened.
    pub(crate) fn is_perfect(&self) -> bool {
        self.insane().is_none()
            && self.status == Some(0)
            && self.arrived.len() == CLIENTS
            && self.arrived.iter().all(|a| *a == Ok(BYTES))
    }
}

pub(crate) struct Program {
    peer: PathBuf,
    shim: PathBuf,
    parts: PathBuf,
}

pub(crate) fn built() -> Option<&'static Program> {
    static BUILT: OnceLock<Option<Program>> = OnceLock::new();
    BUILT.get_or_init(build).as_ref()
}

fn build() -> Option<Program> {
    if Command::new("cc").arg("--version").output().is_err() {
        lacks("cc");
        return None;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/tests");
    let mut sources: Vec<PathBuf> = std::fs::read_dir(tests.join("c"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "c"))
        .collect();
    sources.sort();
    let compile = |name: &str, flags: &[&str], sources: &[PathBuf]| {
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let done = Command::new("cc")
            .args(["-std=gnu11", "-O1", "-g", "-w", "-pthread"])
            .args(flags)
            .arg("-o")
            .arg(&to)
            .args(sources)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "cc: {said}");
        to
    };
    Some(Program {
        peer: compile("tortured", &[], &sources),
        shim: compile(
            "torture.so",
            &["-shared", "-fPIC"],
            &[tests.join("torture/torture.c")],
        ),
        parts: compile("parts", &[], &[tests.join("torture/parts.c")]),
    })
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(sbin)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
}

impl Program {
    pub(crate) fn all(&self) -> Vec<Tortured> {
        let ours = |name| Tortured {
            name,
            program: Some(self.peer.clone()),
        };
        let nginx = std::env::var_os("ALCC_NGINX").map(PathBuf::from);
        vec![
            ours("serve"),
            ours("serve-in-poll"),
            ours("serve-in-epoll"),
            ours("serve-in-threads"),
            Tortured {
                name: "http.server",
                // Not a version manager's wrapper, if there is another.
                program: Some(PathBuf::from("/usr/bin/python3"))
                    .filter(|p| p.is_file())
                    .or_else(|| find("python3")),
            },
            Tortured {
                name: "nginx",
                program: nginx.filter(|p| p.is_file()).or_else(|| find("nginx")),
            },
        ]
    }

    /// Number of calls of each function once a client is there, under `alcc run` or plainly.
    pub(crate) fn calls(&self, tortured: &Tortured, under: bool) -> BTreeMap<String, u32> {
        let log = self.go(tortured, &[], under).1;
        let calls: BTreeMap<_, _> = log
            .lines()
            .filter_map(|line| {
                let (name, n) = line.split_once(' ')?;
                Some((name.to_owned(), n.parse().ok()?))
            })
            .collect();
        assert!(!calls.is_empty(), "{} called nothing", tortured.name);
        calls
    }

    pub(crate) fn run(&self, tortured: &Tortured, point: Option<&Injection>, under: bool) -> Ended {
        let env: Vec<_> = point
            .iter()
            .flat_map(|point| {
                [
                    ("TORTURE_CALL", point.call.to_owned()),
                    ("TORTURE_N", point.n.to_string()),
                    ("TORTURE_ERRNO", point.errno.to_string()),
                ]
            })
            .collect();
        self.go(tortured, &env, under).0
    }

    /// Every error at every part of a write; what went wrong, and the status.
    pub(crate) fn parts(&self) -> (String, Option<i32>) {
        let out = Command::new(env!("CARGO_BIN_EXE_alcc"))
            .args(RUN)
            .arg("env")
            .arg(&self.parts)
            .env("LD_PRELOAD", &self.shim)
            .output()
            .unwrap();
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (said, out.status.code())
    }

    /// With a clock that is set to and fro.
    pub(crate) fn stepped(&self, tortured: &Tortured) -> Ended {
        let steps = [("TORTURE_CLOCK", "1".to_owned())];
        self.go(tortured, &steps, true).0
    }

    fn go(&self, tortured: &Tortured, env: &[(&str, String)], under: bool) -> (Ended, String) {
        let dir = tempfile::tempdir().unwrap();
        let program = tortured.program.as_ref().unwrap();
        let (port, _mine) = free_port();
        let mut command = if under {
            let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
            command.args(RUN);
            // For the program alone: alcc itself is not under torture.
            command.arg("env");
            command
        } else {
            Command::new("env")
        };
        let log = dir.path().join("log");
        command
            .args(env.iter().map(|(name, value)| format!("{name}={value}")))
            .arg(format!("TORTURE_LOG={}", log.display()))
            .arg(format!("PEER_PORT={port}"))
            .arg(program);
        arguments(tortured, dir.path(), port, &mut command);
        let shown = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|arg| arg.display().to_string())
            .collect::<Vec<_>>()
            .join(" ");
        let stderr = dir.path().join("stderr");
        command
            .env("LD_PRELOAD", &self.shim)
            .current_dir(dir.path())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(appended(&stderr))
            .stderr(appended(&stderr));
        // A suite in the background of a shell ignores SIGINT, and so would the program that it is
        // to end. SAFETY: signal(2) may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                nix::sys::signal::signal(Signal::SIGINT, nix::sys::signal::SigHandler::SigDfl)?;
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        let arrived = clients(tortured, port, &mut child);
        let (status, ended_by) = end(tortured, &mut child);
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let ended = Ended {
            command: format!("LD_PRELOAD={} {shown}", self.shim.display()),
            fired: env.iter().any(|(name, call)| {
                *name == "TORTURE_CALL" && log.lines().any(|line| line.starts_with(call.as_str()))
            }),
            status,
            ended_by,
            arrived,
            stderr: std::fs::read_to_string(&stderr).unwrap_or_default(),
        };
        (ended, log)
    }
}

/// A port that was free, and that no other call here returns while the socket is open, because two servers
/// at one port would take each other's clients.
fn free_port() -> (u16, UdpSocket) {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        if let Ok(mine) = UdpSocket::bind(("127.0.0.1", port)) {
            return (port, mine);
        }
    }
}

fn appended(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.append(true).create(true).open(path).unwrap()
}

fn arguments(tortured: &Tortured, dir: &Path, port: u16, command: &mut Command) {
    let file: Vec<u8> = stream().take(BYTES).collect();
    match tortured.name {
        "http.server" => {
            std::fs::write(dir.join("f"), file).unwrap();
            command.args(["-m", "http.server", "--bind", "127.0.0.1"]);
            command.arg(port.to_string());
        }
        "nginx" => {
            std::fs::write(dir.join("f"), file).unwrap();
            let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .iter()
                .map(|n| format!("{n}_temp_path {}/{n};\n", dir.display()))
                .collect();
            let config = format!(
                "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;
                 events {{ worker_connections 64; }}
                 http {{ access_log off; sendfile on; root {0}; {temp} server {{ listen 127.0.0.1:{port}; }} }}",
                dir.display()
            );
            std::fs::write(dir.join("conf"), config).unwrap();
            command.arg("-c").arg(dir.join("conf"));
            command.arg("-e").arg(dir.join("error.log"));
        }
        name => drop(command.arg(name)),
    }
}

/// As the programs of `alcc/preload/tests/c` send it.
fn stream() -> impl Iterator<Item = u8> {
    std::iter::successors(Some(12345u32), |x| {
        Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
    })
    .skip(1)
    .map(|x| (x >> 24) as u8)
}

/// One client after the other; of each, how much arrived.
fn clients(tortured: &Tortured, port: u16, child: &mut Child) -> Vec<Result<usize, String>> {
    let deadline = Instant::now() + DEADLINE / 2;
    let mut arrived = Vec::new();
    while arrived.len() < CLIENTS && Instant::now() < deadline {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let patience = Some(Duration::from_secs(10));
        stream.set_read_timeout(patience).unwrap();
        if !tortured.ends() {
            let asked = stream.write_all(b"GET /f HTTP/1.0\r\nHost: x\r\n\r\n");
            if asked.is_err() {
                arrived.push(Ok(0));
                continue;
            }
        }
        arrived.push(received(tortured, &mut stream));
    }
    arrived
}

fn received(tortured: &Tortured, from: &mut TcpStream) -> Result<usize, String> {
    let mut got = Vec::new();
    // A reset counts as an end. A server that leaves its client waiting shows that by its own
    // end.
    let _ = from.read_to_end(&mut got);
    if !tortured.ends() {
        let Some(head) = got.windows(4).position(|w| w == b"\r\n\r\n") else {
            return Ok(0);
        };
        if !got.starts_with(b"HTTP/1.0 200") && !got.starts_with(b"HTTP/1.1 200") {
            // An error of its own.
            return Ok(0);
        }
        got.drain(..head + 4);
    }
    let right = got.iter().copied().eq(stream().take(got.len()));
    if right && got.len() <= BYTES {
        Ok(got.len())
    } else {
        Err(format!("{} bytes that were not sent so", got.len()))
    }
}

/// Exit status and signal.
fn end(tortured: &Tortured, child: &mut Child) -> (Option<i32>, Option<i32>) {
    let pid = Pid::from_raw(child.id().cast_signed());
    if !tortured.ends() {
        // Its way of ending is not under test.
        let _ = kill(pid, tortured.stopped_by());
    }
    let deadline = Instant::now() + DEADLINE / 2;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let signal = status.signal();
            let mut code = status.code().or_else(|| signal.map(|s| 128 + s));
            let asked = tortured.stopped_by() as i32;
            if !tortured.ends() && code == Some(128 + asked) {
                code = Some(0);
            }
            return (code, signal.filter(|s| tortured.ends() || *s != asked));
        }
        if Instant::now() > deadline {
            let _ = killpg(pid, Signal::SIGKILL);
            drop(child.wait());
            return (None, None);
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}
