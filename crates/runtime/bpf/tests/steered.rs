// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc_window` in the machine's own kernel: a window that this process sets, samples that it
//! reads, and a socket that gives itself back.
#![cfg(feature = "loader")]
mod support;

use alcc_bpf::{BpfError, Selection, WINDOW, attach, load, unload};
use alcc_flow::Limit;
use alcc_sys::{AckSamples, Steered};
use nix::sys::socket::{getsockopt, setsockopt, sockopt::TcpCongestion};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

/// Set in the process that has no rights.
const UNPRIVILEGED: &str = "ALCC_TEST_UNPRIVILEGED";
const NOBODY: u32 = 65_534;

fn control_of(socket: &impl AsFd) -> String {
    let name = getsockopt(socket, TcpCongestion).unwrap();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

fn window(window: u32) -> Limit {
    Limit {
        window,
        ..Limit::default()
    }
}

fn choose(socket: &impl AsFd) {
    setsockopt(socket, TcpCongestion, &WINDOW.name.into()).unwrap();
}

/// A connection whose other end reads all the time.
struct Sender {
    socket: TcpStream,
    listener: TcpListener,
}

impl Sender {
    fn new(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while client.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        Self { socket, listener }
    }

    /// Some bytes every few milliseconds until `done`, for 5 s at most.
    fn until(&mut self, mut done: impl FnMut(&TcpStream) -> bool) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            self.socket.write_all(&[7; 200_000]).unwrap();
            if done(&self.socket) {
                return Some(began.elapsed());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Steers until the window in force is `expected`.
    fn reaches(&mut self, steered: &Steered, wish: u32, expected: u32) -> AckSamples {
        let mut beat = 0;
        let mut last = None;
        let reached = self.until(|socket| {
            beat += 1;
            steered
                .steer(socket.as_raw_fd(), &window(wish), beat)
                .unwrap();
            let samples = steered.samples(socket.as_raw_fd()).unwrap();
            let there = samples.cwnd == expected;
            last = Some(samples);
            there
        });
        assert!(reached.is_some(), "{wish} wished: {last:?}");
        last.unwrap()
    }
}

fn as_anybody() {
    let steered = Steered::open().expect("every user may");
    let mut sender = Sender::new("127.0.0.1:0");
    assert!(
        steered.samples(sender.socket.as_raw_fd()).is_err(),
        "not chosen yet"
    );
    choose(&sender.socket);
    let samples = sender.reaches(&steered, 5, 5);
    assert!(samples.acks > 0 && !samples.last.is_empty());
    assert!(samples.last.is_sorted_by_key(|s| s.at), "{samples:?}");
    assert!(samples.last.iter().any(|s| s.rtt.is_some()), "{samples:?}");
    sender.reaches(&steered, 8, 8);
    sender.reaches(&steered, 1, 2);
    // What is no socket, and what is no TCP socket.
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(steered.steer(file.as_raw_fd(), &window(5), 1).is_err());
    // 22: BPF_MAP_FREEZE, which would take the map from everybody.
    let frozen = freeze("/run/alcc/bpf/knobs");
    assert!(frozen.is_err(), "a map was frozen by a user without rights");
    sender.reaches(&steered, 6, 6);
}

fn freeze(path: &str) -> std::io::Result<()> {
    let path = std::ffi::CString::new(path).unwrap();
    let get: [u64; 2] = [path.as_ptr() as u64, 0];
    // SAFETY: the attributes and the path outlive the call.
    let fd = unsafe { nix::libc::syscall(nix::libc::SYS_bpf, 7, get.as_ptr(), 16) };
    if fd < 0 {
        panic!("open the map: {}", std::io::Error::last_os_error());
    }
    let attributes = [fd as u64];
    // SAFETY: as above.
    let rc = unsafe { nix::libc::syscall(nix::libc::SYS_bpf, 22, attributes.as_ptr(), 4) };
    if rc == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error())
}

/// One test, because all of it shares the machine's one kernel.
#[test]
fn a_window_is_kept_and_given_back() {
    if std::env::var_os(UNPRIVILEGED).is_some() {
        return as_anybody();
    }
    let _alone = support::controls_alone();
    match load() {
        Ok(_) => {}
        Err(error @ (BpfError::Forbidden { .. } | BpfError::NoBtf)) => {
            println!("skipped: needs the right to load BPF programs: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    }

    // The program stands where nobody else may read: it is handed over by its descriptor.
    let me = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    nix::fcntl::fcntl(
        &me,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let out = std::process::Command::new(format!("/proc/self/fd/{}", me.as_raw_fd()))
        .args(["--exact", "a_window_is_kept_and_given_back", "--nocapture"])
        .env(UNPRIVILEGED, "1")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );

    let steered = Steered::open().unwrap();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        // Nobody knows what it had: CUBIC.
        let mut sender = Sender::new(address);
        choose(&sender.socket);
        sender.reaches(&steered, 10, 10);
        let after = sender.until(|socket| control_of(socket) != WINDOW.name);
        assert_eq!(control_of(&sender.socket), "cubic");
        let after = after.expect("it was given back").as_secs_f64();
        assert!((0.4..2.0).contains(&after), "given back after {after} s");
        // Whoever steered may come back.
        choose(&sender.socket);
        sender.reaches(&steered, 4, 4);
    }

    // Attached by root: what it had is known.
    let mut sender = Sender::new("127.0.0.1:0");
    let plain = control_of(&sender.socket);
    let only = Selection {
        port: Some(sender.listener.local_addr().unwrap().port()),
        ..Selection::default()
    };
    attach(&only, WINDOW.name).unwrap();
    assert_eq!(control_of(&sender.socket), WINDOW.name);
    let back = sender.until(|socket| control_of(socket) != WINDOW.name);
    assert!(back.is_some());
    assert_eq!(control_of(&sender.socket), plain);

    // A connection keeps it without its registration; nobody can choose it any more.
    let mut last = Sender::new("127.0.0.1:0");
    choose(&last.socket);
    unload().unwrap();
    assert_eq!(
        Steered::open().unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
    last.reaches(&steered, 7, 7);
}
