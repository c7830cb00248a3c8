// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--share host` with real connections: six of one server beside one of another, to the same client.
//! The server is under `alcc run`, behind `alcc proxy`, or has the C library. Needs namespaces and
//! privileges: says "skipped" where they are not there.
#[path = "support/c_library.rs"]
mod c_library;
#[path = "support/lacks.rs"]
mod support;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ALCC: &str = env!("CARGO_BIN_EXE_alcc");
const RATE: &str = "20mbit";
/// The other connection begins later, as a newcomer; then the shares settle.
const LATER: Duration = Duration::from_secs(2);
const SETTLES: Duration = Duration::from_secs(4);
const COUNTED: Duration = Duration::from_secs(10);

/// Not a test by itself: the servers and the client.
#[test]
fn inside() {
    let Ok(words) = std::env::var("SHARE_TEST") else {
        return;
    };
    match words.split(' ').collect::<Vec<_>>()[..] {
        ["serve", port_file] => serve(Path::new(port_file)),
        ["workers", port_file] => workers(Path::new(port_file)),
        ["worker", fd] => worker(fd.parse().unwrap()),
        ["download", six, other, number, out] => {
            let rates = download(
                six.parse().unwrap(),
                other.parse().unwrap(),
                number.parse().unwrap(),
            );
            std::fs::write(out, rates).unwrap();
        }
        _ => panic!("{words}"),
    }
}

fn serve(port_file: &Path) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    std::fs::write(port_file, listener.local_addr().unwrap().port().to_string()).unwrap();
    for connection in listener.incoming() {
        let mut connection = connection.unwrap();
        std::thread::spawn(move || while connection.write_all(&[0; 65_536]).is_ok() {});
    }
}

/// As a pre-fork server: processes that take connections from one socket, each one at a time.
fn workers(port_file: &Path) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let kept = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    nix::fcntl::fcntl(&listener, kept).unwrap();
    let [exe, words @ ..] = inside_me();
    let mut children: Vec<Child> = (0..8)
        .map(|_| {
            let mut command = Command::new(&exe);
            command.args(&words).stdout(Stdio::null());
            let worker = format!("worker {}", listener.as_raw_fd());
            command.env("SHARE_TEST", worker).spawn().unwrap()
        })
        .collect();
    std::fs::write(port_file, port.to_string()).unwrap();
    for child in &mut children {
        child.wait().unwrap();
    }
}

fn worker(listener: RawFd) {
    // SAFETY: the parent's listening socket, which nobody else in this process has.
    let listener = unsafe { TcpListener::from_raw_fd(listener) };
    for connection in listener.incoming() {
        let mut connection = connection.unwrap();
        while connection.write_all(&[0; 65_536]).is_ok() {}
    }
}

/// Megabits per second of the first server's `number` connections together, and of the other's one.
fn download(first: u16, other: u16, number: usize) -> String {
    let outside: Ipv4Addr = std::env::var("ALCC_OUTSIDE").unwrap().parse().unwrap();
    let counters = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let get = |port: u16, count: &Arc<AtomicU64>| {
        let count = Arc::clone(count);
        let mut from = TcpStream::connect((outside, port)).unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 65_536];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                count.fetch_add(read as u64, Ordering::Relaxed);
            }
        });
    };
    for _ in 0..number {
        get(first, &counters[0]);
    }
    std::thread::sleep(LATER);
    get(other, &counters[1]);
    std::thread::sleep(SETTLES);
    let now = || {
        counters
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    };
    let (before, began) = (now(), Instant::now());
    std::thread::sleep(COUNTED);
    let (after, took) = (now(), began.elapsed().as_secs_f64());
    let mbps = |i: usize| (after[i] - before[i]) as f64 * 8e-6 / took;
    format!("{} {}", mbps(0), mbps(1))
}

/// This test's own executable, to be asked by `SHARE_TEST`.
fn inside_me() -> [String; 3] {
    let exe = std::env::current_exe().unwrap();
    [
        exe.display().to_string(),
        "--exact".to_owned(),
        "inside".to_owned(),
    ]
}

/// By what a server's connections are controlled.
#[derive(Clone, Copy)]
enum Door<'a> {
    Run,
    /// Each connection in a process of its own.
    Workers,
    Proxy,
    /// A program of its own, with the C library.
    Library(&'a Path),
}

/// A server under control. It ends with this, its whole process group with it.
struct Server {
    children: Vec<Child>,
    port: u16,
}

fn spawn(command: &mut Command) -> Child {
    let command = command.stdout(Stdio::null()).process_group(0);
    command.spawn().unwrap()
}

/// The port that a server has written into this file.
fn port_in(file: &Path) -> u16 {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let port = std::fs::read_to_string(file).ok();
        if let Some(port) = port.and_then(|port| port.trim().parse().ok()) {
            return port;
        }
        assert!(Instant::now() < until, "{}: no port", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Server {
    fn start(door: Door<'_>, dir: &Path, name: &str, cc: &str, options: &[&str]) -> Self {
        let port_file = dir.join(name);
        let kind = if matches!(door, Door::Workers) {
            "workers"
        } else {
            "serve"
        };
        let serve = format!("{kind} {}", port_file.display());
        let children = match door {
            Door::Run | Door::Workers => vec![spawn(
                Command::new(ALCC)
                    .args(["run", "--quiet", "--cc", cc])
                    .args(options)
                    .arg("--")
                    .args(inside_me())
                    .env("SHARE_TEST", serve),
            )],
            Door::Proxy => {
                let [exe, words @ ..] = inside_me();
                let plain = spawn(Command::new(exe).args(words).env("SHARE_TEST", serve));
                let to = format!("127.0.0.1:{}", port_in(&port_file));
                // Nobody has it now, and nobody asks for one in between.
                let free = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
                let port = free.local_addr().unwrap().port();
                drop(free);
                let listen = format!("0.0.0.0:{port}");
                let proxy = spawn(
                    Command::new(ALCC)
                        .args(["proxy", "--cc", cc, "--listen", &listen, "--to", &to])
                        .args(options)
                        .stderr(Stdio::null()),
                );
                let until = Instant::now() + Duration::from_secs(30);
                while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
                    assert!(Instant::now() < until, "the proxy does not listen");
                    std::thread::sleep(Duration::from_millis(20));
                }
                let children = vec![plain, proxy];
                return Self { children, port };
            }
            Door::Library(program) => {
                let mut command = Command::new(program);
                command.arg(&port_file).env("ALCC_CC", cc);
                if let ["--share", with] = options {
                    command.env("ALCC_SHARE", with);
                }
                vec![spawn(&mut command)]
            }
        };
        let port = port_in(&port_file);
        Self { children, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &mut self.children {
            let group = nix::unistd::Pid::from_raw(child.id().cast_signed());
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

/// What `number` connections of one server have together, what one of another has, Mbit/s, and the
/// mean queueing delay, ms.
fn beside(door: Door<'_>, cc: &str, number: usize, options: &[&str]) -> (f64, f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let first = Server::start(door, dir, "first", cc, options);
    let other = Server::start(Door::Run, dir, "other", cc, &[]);
    let (out, report) = (dir.join("out"), dir.join("report"));
    let (a, b) = (first.port, other.port);
    let status = Command::new(ALCC)
        .args(["emulate", "--quiet", "--down", RATE, "--delay", "20ms"])
        .arg(format!("--json={}", report.display()))
        .arg("--")
        .args(inside_me())
        .env(
            "SHARE_TEST",
            format!("download {a} {b} {number} {}", out.display()),
        )
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let rates = std::fs::read_to_string(out).unwrap();
    let (all, one) = rates.split_once(' ').unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let delay = report["down"]["queue_delay_mean_ms"].as_f64();
    let delay = delay.unwrap_or_else(|| panic!("no delay in {report}"));
    (all.parse().unwrap(), one.parse().unwrap(), delay)
}

/// True, and said, if this machine cannot do it.
fn impossible() -> bool {
    let why = match alcc_emu::available() {
        Err(why) => why.to_string(),
        Ok(_) if nix::unistd::geteuid().is_root() => return false,
        Ok(_) => "needs root: the servers of this test are outside the link".to_owned(),
    };
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
    true
}

/// Six that share leave another what one leaves it.
fn check(door: Door<'_>, cc: &str) {
    let alone = beside(door, cc, 1, &[]);
    let six = beside(door, cc, 6, &[]);
    // From start to start the other has 0.33 to 0.6 of both: of three the middle one counts.
    let mut starts = [(); 3].map(|()| beside(door, cc, 6, &["--share", "host"]));
    starts.sort_by(|a, b| a.1.total_cmp(&b.1));
    let sharing = starts[1];
    let all = format!("{cc}: one {alone:?}, six {six:?}, six that share {starts:?}");
    println!("{all}");
    // Half, give or take. The half is of the same start: a ratio of two starts varies more.
    for (first, other, _) in [alone, sharing] {
        assert!(other > 0.7 * (first + other) / 2.0, "{all}");
    }
    // Uncoordinated it is one of seven, and up to a third.
    assert!(six.1 < 0.8 * sharing.1, "{all}");
    assert!(sharing.0 + sharing.1 > 15.0, "{all}");
    assert!(sharing.2 < 1.1 * six.2, "{all}");
}

#[test]
fn six_connections_of_a_program_leave_another_what_one_leaves_it() {
    if impossible() {
        return;
    }
    check(Door::Run, "copa");
    check(Door::Run, "budget");
}

#[test]
fn six_connections_of_worker_processes_leave_another_what_one_leaves_it() {
    if impossible() {
        return;
    }
    check(Door::Workers, "copa");
    check(Door::Workers, "budget");
}

#[test]
fn six_connections_through_a_proxy_leave_another_what_one_leaves_it() {
    if impossible() {
        return;
    }
    check(Door::Proxy, "budget");
}

#[test]
fn six_connections_of_a_c_program_leave_another_what_one_leaves_it() {
    if impossible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if let Some(program) = c_library::program("share_server", dir.path()) {
        check(Door::Library(&program), "budget");
    }
}
