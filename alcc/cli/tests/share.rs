// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--share host` with real connections: six of one server to the same client have the window of one
//! together. What that does for others on the path the simulator says (`share` of `alcc-sim`). The
//! server is under `alcc run`, behind `alcc proxy`, or has the C library. Needs namespaces and
//! privileges: says "skipped" where they are not there.
#[path = "support/built.rs"]
mod built;
#[path = "support/c_programs.rs"]
mod c_programs;
#[path = "support/starts.rs"]
mod starts;
#[path = "support/lacks.rs"]
mod support;
use starts::first_right;
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
/// More than all windows together carry: nothing waits in a queue, and a round trip takes 40 ms.
const RATE: &str = "200mbit";
const CC: &str = "fixed:window=24";
const CONNECTIONS: usize = 6;
/// 24 segments of 1448 bytes in each round trip.
const ONE_WINDOW_MBPS: f64 = 24.0 * 1448.0 * 8.0 / 40e3;
/// Time after which all six connections are established.
const SETTLES: Duration = Duration::from_millis(1500);
const COUNTED: Duration = Duration::from_secs(2);
/// Number of attempts, because a busy machine sends less, or does not hold back for a while.
const STARTS: usize = 6;

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
        ["download", port, out] => {
            let mbps = download(port.parse().unwrap());
            std::fs::write(out, mbps.to_string()).unwrap();
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

/// Megabits per second of all connections together.
fn download(port: u16) -> f64 {
    let outside: Ipv4Addr = std::env::var("ALCC_OUTSIDE").unwrap().parse().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    for _ in 0..CONNECTIONS {
        let count = Arc::clone(&count);
        let mut from = TcpStream::connect((outside, port)).unwrap();
        let mut bytes = [0; 65_536];
        from.read_exact(&mut bytes[..1]).unwrap();
        std::thread::spawn(move || {
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                count.fetch_add(read as u64, Ordering::Relaxed);
            }
        });
    }
    std::thread::sleep(SETTLES);
    let (before, began) = (count.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(COUNTED);
    let (after, took) = (count.load(Ordering::Relaxed), began.elapsed());
    (after - before) as f64 * 8e-6 / took.as_secs_f64()
}

/// This test's own executable, which `SHARE_TEST` selects.
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
    fn start(door: Door<'_>, dir: &Path, options: &[&str]) -> Self {
        let port_file = dir.join("port");
        let kind = if matches!(door, Door::Workers) {
            "workers"
        } else {
            "serve"
        };
        let serve = format!("{kind} {}", port_file.display());
        let children = match door {
            Door::Run | Door::Workers => vec![spawn(
                Command::new(ALCC)
                    .args(["run", "--quiet", "--cc", CC])
                    .args(options)
                    .arg("--")
                    .args(inside_me())
                    .env("SHARE_TEST", serve),
            )],
            Door::Proxy => {
                let [exe, words @ ..] = inside_me();
                let plain = spawn(Command::new(exe).args(words).env("SHARE_TEST", serve));
                let to = format!("127.0.0.1:{}", port_in(&port_file));
                // It is free now, and no other program requests one meanwhile.
                let free = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
                let port = free.local_addr().unwrap().port();
                drop(free);
                let listen = format!("0.0.0.0:{port}");
                let proxy = spawn(
                    Command::new(ALCC)
                        .args(["proxy", "--cc", CC, "--listen", &listen, "--to", &to])
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
                command.arg(&port_file).env("ALCC_CC", CC);
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

/// The total rate of six connections of a server, Mbit/s.
fn six(door: Door<'_>, options: &[&str]) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(door, folder.path(), options);
    let out = folder.path().join("out");
    let status = Command::new(built::built("alcc-lab"))
        .args(["emulate", "--quiet", "--down", RATE, "--delay", "20ms"])
        .arg("--")
        .args(inside_me())
        .env(
            "SHARE_TEST",
            format!("download {} {}", server.port, out.display()),
        )
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    std::fs::read_to_string(out).unwrap().parse().unwrap()
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

/// Without sharing six windows, with it one.
fn check(door: Door<'_>) {
    let windows = |options: &[&str]| six(door, options) / ONE_WINDOW_MBPS;
    // A member may send a segment more: six of 24.
    let (each, all) = first_right(
        STARTS,
        || (windows(&[]), windows(&["--share", "host"])),
        |(each, all)| (2.0..6.3).contains(each) && (0.4..1.4).contains(all),
    );
    println!("{each:.2} windows, sharing {all:.2}");
}

#[test]
fn six_connections_of_a_program_have_one_window() {
    if !impossible() {
        check(Door::Run);
    }
}

#[test]
fn six_connections_of_worker_processes_have_one_window() {
    if !impossible() {
        check(Door::Workers);
    }
}

#[test]
fn six_connections_through_a_proxy_have_one_window() {
    if !impossible() {
        check(Door::Proxy);
    }
}

#[test]
fn six_connections_of_a_c_program_have_one_window() {
    if impossible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if let Some(program) = c_programs::with_the_library("share_server", dir.path()) {
        check(Door::Library(&program));
    }
}
