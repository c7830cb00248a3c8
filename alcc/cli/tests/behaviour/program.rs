// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program of the cases: compiled, started plainly or under `alcc run`, watched until its end.
use crate::case::{Case, Client};
use crate::client::{End, attend};
use crate::support::lacks;
use nix::sys::signal::{Signal, killpg};
use nix::sys::socket::{setsockopt, sockopt};
use std::fs::{File, OpenOptions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No case takes a tenth of this on an idle machine.
const DEADLINE: Duration = Duration::from_secs(40);

pub(crate) struct Program {
    plain: PathBuf,
    /// As distributions build: optimised, with checked calls and 64-bit offsets, which are other
    /// functions of the C library.
    hardened: PathBuf,
}

/// Ways to run a case.
pub(crate) enum How<'a> {
    Plain {
        hardened: bool,
    },
    Under {
        cc: &'a str,
        enforce: &'a str,
        hardened: bool,
    },
}

/// The outcome of a run.
pub(crate) struct Outcome {
    /// To repeat it by hand.
    pub(crate) command: String,
    stdout: String,
    stderr: String,
    /// As a shell gives it; `None`: it had to be killed.
    status: Option<i32>,
    ends: Vec<End>,
    report: Option<serde_json::Value>,
}

/// Compiled once; `None` (and said) if this machine cannot.
pub(crate) fn built() -> Option<&'static Program> {
    static BUILT: OnceLock<Option<Program>> = OnceLock::new();
    BUILT.get_or_init(|| build("peer", &[])).as_ref()
}

/// With the cases in C++.
pub(crate) fn built_with_streams() -> Option<&'static Program> {
    static BUILT: OnceLock<Option<Program>> = OnceLock::new();
    let build = || {
        let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join("streams.o");
        let done = Command::new("c++")
            .args(["-std=c++17", "-g", "-w", "-O1", "-c", "-o"])
            .arg(&object)
            .arg(sources().join("streams.cc"))
            .output();
        let Ok(done) = done else {
            lacks("c++");
            return None;
        };
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "c++: {said}");
        let object = object.to_str()?;
        build("peer-streams", &["-DPEER_STREAMS", object, "-lstdc++"])
    };
    BUILT.get_or_init(build).as_ref()
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/tests/c")
}

fn build(name: &str, more: &[&str]) -> Option<Program> {
    if Command::new("cc").arg("--version").output().is_err() {
        lacks("cc");
        return None;
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(sources())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "c"))
        .collect();
    files.sort();
    let compile = |name: String, flags: &[&str]| {
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Odd arguments are the point of some cases.
        let done = Command::new("cc")
            .args(["-std=gnu11", "-g", "-w", "-pthread", "-o"])
            .arg(&to)
            .args(flags)
            .args(&files)
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "cc: {said}");
        to
    };
    Some(Program {
        plain: compile(name.to_owned(), &["-O1"]),
        hardened: compile(
            format!("{name}-hardened"),
            &["-O2", "-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64"],
        ),
    })
}

impl Program {
    pub(crate) fn cases(&self) -> Vec<Case> {
        let list = Command::new(&self.plain).arg("--list").output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        list.lines().map(Case::parse).collect()
    }

    pub(crate) fn run(&self, case: &Case, how: &How<'_>) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        // Some cases become another user.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let report = dir.path().join("report.json");
        let program = match how {
            How::Plain { hardened: true } | How::Under { hardened: true, .. } => &self.hardened,
            _ => &self.plain,
        };
        let mut command = match how {
            How::Plain { .. } => Command::new(program),
            How::Under { cc, enforce, .. } => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
                command
                    .args(["run", "--quiet", "--loopback", "--outbound", "--cc", cc])
                    .args(["--enforce", enforce])
                    .args(case.under.iter().flat_map(|name| ["--under", name]))
                    .arg(format!("--json={}", report.display()))
                    .arg("--")
                    .arg(program);
                command
            }
        };
        command.arg(&case.name).env("PEER_ADDRESS", &case.address);
        if let Some(bytes) = &case.send_buffer {
            command.env("PEER_SNDBUF", bytes);
        }
        let (end_of_program, gone) = channels(case.clients + 1);
        let mut gone = gone.into_iter();
        let mut attendants = Vec::new();
        if case.client.listens() {
            let sink = TcpListener::bind((&*case.address, 0)).unwrap();
            command.env("PEER_SINK", sink.local_addr().unwrap().port().to_string());
            attendants.push(receive(sink, gone.next().unwrap()));
        }
        let (stdout, stderr) = (dir.path().join("stdout"), dir.path().join("stderr"));
        command
            .current_dir(dir.path())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(appended(&stdout))
            .stderr(appended(&stderr));
        let shown = shown(&command);
        let mut child = command.spawn().unwrap();
        if case.client.connects() {
            attendants.extend(connect(case, &mut child, &stderr, gone));
        }
        let status = ended(&mut child);
        drop(end_of_program);
        let ends = attendants.into_iter().map(|a| a.join().unwrap()).collect();
        let read =
            |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        let stderr = read(&stderr);
        Outcome {
            command: shown,
            stdout: read(&stdout),
            // The first line is where it listened.
            stderr: stderr
                .lines()
                .filter(|line| !line.starts_with("port "))
                .collect::<Vec<_>>()
                .join("\n"),
            status,
            ends,
            report: std::fs::read_to_string(&report)
                .ok()
                .and_then(|text| serde_json::from_str(&text).ok()),
        }
    }
}

/// Threads of the test wait for the program's end by an end of a channel each.
fn channels(n: usize) -> (Vec<std::sync::mpsc::Sender<()>>, Vec<Receiver<()>>) {
    (0..n).map(|_| channel()).unzip()
}

fn appended(path: &Path) -> File {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap()
}

fn shown(command: &Command) -> String {
    let env = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), value?.display())));
    let args = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|arg| arg.display().to_string())
        .filter(|arg| !arg.starts_with("--json="));
    env.chain(args).collect::<Vec<_>>().join(" ")
}

fn receive(sink: TcpListener, gone: Receiver<()>) -> JoinHandle<End> {
    sink.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match sink.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).unwrap();
                    return attend(Client::Sink, stream, &gone);
                }
                // A program that has ended will not come any more.
                Err(_)
                    if Instant::now() > deadline
                        || gone.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) =>
                {
                    return End::default();
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    })
}

/// The clients of the case, connected one after the other.
fn connect(
    case: &Case,
    child: &mut Child,
    stderr: &Path,
    gone: impl Iterator<Item = Receiver<()>>,
) -> Vec<JoinHandle<End>> {
    let deadline = Instant::now() + DEADLINE / 2;
    let port = loop {
        let said = std::fs::read_to_string(stderr).unwrap_or_default();
        let port = said
            .strip_prefix("port ")
            .and_then(|rest| rest.split_once('\n'))
            .map(|(port, _)| port.parse::<u16>().unwrap());
        match port {
            Some(port) => break port,
            None if Instant::now() > deadline || child.try_wait().unwrap().is_some() => {
                return Vec::new();
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut attendants = Vec::new();
    for gone in gone.take(case.clients) {
        let Ok(stream) = TcpStream::connect((case.host(), port)) else {
            break;
        };
        let client = case.client;
        if case.send_buffer.is_some() {
            // Nor may the other end's buffer grow.
            setsockopt(&stream, sockopt::RcvBuf, &20_000).unwrap();
        }
        attendants.push(std::thread::spawn(move || attend(client, stream, &gone)));
    }
    attendants
}

/// The exit status, as a shell gives it; `None` if it had to be killed.
fn ended(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + DEADLINE;
    let shell = |status: ExitStatus| {
        status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal))
    };
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return shell(status);
        }
        if Instant::now() > deadline {
            let group = nix::unistd::Pid::from_raw(child.id().cast_signed());
            let _ = killpg(group, Signal::SIGKILL);
            drop(child.wait());
            return None;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

impl Outcome {
    /// Why it cannot serve as the oracle.
    pub(crate) fn broken(&self, case: &Case) -> Option<String> {
        let asked = if case.client == Client::Both {
            2
        } else {
            case.clients
        };
        let why = if self.status.is_none() {
            "hangs"
        } else if self.status == Some(3) || self.stdout.contains("not so:") {
            "fails"
        } else if self.ends.len() != asked {
            "clients were not served"
        } else {
            return None;
        };
        Some(format!(
            "{why}: status {:?}, said {:?} {:?}\n    {}",
            self.status, self.stdout, self.stderr, self.command
        ))
    }

    /// Differences from the plain run.
    pub(crate) fn unlike(&self, plain: &Self, case: &Case) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.status != plain.status {
            let said = |status: Option<i32>| {
                status.map_or_else(|| "a hang".to_owned(), |n| format!("exit status {n}"))
            };
            wrong.push(format!(
                "{} instead of {}",
                said(self.status),
                said(plain.status)
            ));
        }
        if self.stdout != plain.stdout {
            wrong.push(format!(
                "said {:?} instead of {:?}",
                self.stdout, plain.stdout
            ));
        }
        if self.stderr != plain.stderr {
            wrong.push(format!(
                "said on standard error {:?} instead of {:?}",
                self.stderr, plain.stderr
            ));
        }
        let ends_differ = if case.client.by_chance() {
            self.ends.iter().any(|end| end.bytes > 0 && !end.prefix)
        } else {
            self.ends != plain.ends
        };
        if ends_differ {
            wrong.push(format!(
                "received {:?} instead of {:?}",
                self.ends, plain.ends
            ));
        }
        wrong
    }

    /// Signs that the case was not under control.
    pub(crate) fn uncontrolled(&self, case: &Case, cc: &str) -> Vec<String> {
        let Some(report) = &self.report else {
            return vec!["no report".to_owned()];
        };
        let number = |field: &str| report[field].as_u64().unwrap_or(0);
        let mut wrong = Vec::new();
        let least = case.controlled.unwrap_or(case.clients as u64);
        if number("connections") < least || (case.passes && number("connections") > 0) {
            wrong.push(format!("{} connections controlled", number("connections")));
        }
        // Two segments shut the gate at any transfer; Verus on a path without delay may never need
        // to.
        if case.gated && cc.starts_with("fixed") && number("gate_closed") == 0 {
            wrong.push("the gate never shut".to_owned());
        }
        if number("failures") > 0 {
            wrong.push(format!("{} runtimes failed", number("failures")));
        }
        wrong
    }
}
