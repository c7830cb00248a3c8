// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc_window` in the machine's own kernel: a window that this process sets, samples that it
//! reads, and a socket that gives itself back.
#![cfg(feature = "loader")]
#[path = "support/sockets.rs"]
mod sockets;
mod support;

use alcc_bpf::{WINDOW, attach, unload};
use alcc_sys::Steered;
use sockets::{Loaded, Sender, control_of, steer_it, window};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;

/// Set in the process that has no rights.
const UNPRIVILEGED: &str = "ALCC_TEST_UNPRIVILEGED";
const NOBODY: u32 = 65_534;

fn as_anybody() {
    let steered = Steered::open().expect("every user may");
    let mut sender = Sender::new("127.0.0.1:0");
    assert!(
        steered.samples(sender.socket.as_raw_fd()).is_err(),
        "not chosen yet"
    );
    steer_it(&sender.socket);
    let samples = sender.reaches(&steered, 5, 5);
    assert!(samples.acks > 0 && !samples.last.is_empty());
    assert!(samples.last.is_sorted_by_key(|s| s.at), "{samples:?}");
    assert!(samples.last.iter().any(|s| s.rtt.is_some()), "{samples:?}");
    sender.reaches(&steered, 8, 8);
    sender.reaches(&steered, 1, 2);
    // What is no socket, and what is no TCP socket.
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(steered.steer(file.as_raw_fd(), &window(5), 1).is_err());
    the_maps_are_nobodys_alone(sender.socket.as_raw_fd());
    sender.reaches(&steered, 6, 6);
}

// bpf(2): commands and a flag.
const UPDATE: i32 = 2;
const NEXT_KEY: i32 = 4;
const OBJECT_GET: i32 = 7;
const FREEZE: i32 = 22;
const READ_ONLY: u64 = 1 << 3;

/// The attributes are words: descriptors, and addresses of what outlives the call.
fn bpf(command: i32, attributes: &[u64]) -> std::io::Result<u64> {
    let bytes = size_of_val(attributes);
    // SAFETY: pointer and length are those of the attributes.
    let rc = unsafe { nix::libc::syscall(nix::libc::SYS_bpf, command, attributes.as_ptr(), bytes) };
    u64::try_from(rc).map_err(|_| std::io::Error::last_os_error())
}

fn open_map(name: &str, flags: u64) -> std::io::Result<u64> {
    let path = std::ffi::CString::new(format!("{}/{name}", alcc_bpf::PINS)).unwrap();
    // The second word: a descriptor that is not used here, and the flags.
    bpf(OBJECT_GET, &[path.as_ptr() as u64, flags << 32])
}

/// What a user without rights may not do to maps that everybody uses, and to sockets of others.
fn the_maps_are_nobodys_alone(own: i32) {
    let knobs = open_map("knobs", 0).expect("everybody may");
    let frozen = bpf(FREEZE, &[knobs]);
    assert!(frozen.is_err(), "a map was frozen by a user without rights");
    let (mut key, value) = (0i32, [0u8; 1024]);
    let next = [knobs, 0, (&raw mut key) as u64, 0];
    assert!(bpf(NEXT_KEY, &next).is_err(), "sockets can be listed");
    // A number that is no descriptor of this process names nobody's socket.
    let other = 12_345i32;
    let update = |map: u64, key: &i32| {
        let words = [
            map,
            std::ptr::from_ref(key) as u64,
            value.as_ptr() as u64,
            0,
        ];
        bpf(UPDATE, &words)
    };
    assert!(update(knobs, &other).is_err());
    assert!(
        open_map("feed", 0).is_err(),
        "what the kernel reports can be written"
    );
    let feed = open_map("feed", READ_ONLY).expect("everybody may");
    assert!(update(feed, &own).is_err(), "a report was forged");
    assert!(
        open_map("before", 0).is_err(),
        "the former control is root's"
    );
    for name in ["knobs", "feed"] {
        let path = std::path::Path::new(alcc_bpf::PINS).join(name);
        assert!(std::fs::remove_file(path).is_err(), "{name} was removed");
    }
    assert!(unload().is_err());
}

/// One test, because all of it shares the machine's one kernel.
#[test]
fn a_window_is_kept_and_given_back() {
    if std::env::var_os(UNPRIVILEGED).is_some() {
        return as_anybody();
    }
    let Some(_loaded) = Loaded::new() else {
        return;
    };

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
        steer_it(&sender.socket);
        sender.reaches(&steered, 10, 10);
        let after = sender.until(|socket| control_of(socket) != WINDOW.name);
        assert_eq!(control_of(&sender.socket), "cubic");
        let after = after.expect("it was given back").as_secs_f64();
        assert!((0.4..2.0).contains(&after), "given back after {after} s");
        // Whoever steered may come back.
        steer_it(&sender.socket);
        sender.reaches(&steered, 4, 4);
    }

    // Attached by root: what it had is known.
    let mut sender = Sender::new("127.0.0.1:0");
    let plain = control_of(&sender.socket);
    attach(&sender.only(), WINDOW.name).unwrap();
    assert_eq!(control_of(&sender.socket), WINDOW.name);
    let back = sender.until(|socket| control_of(socket) != WINDOW.name);
    assert!(back.is_some());
    assert_eq!(control_of(&sender.socket), plain);

    // A connection keeps it without its registration; nobody can choose it any more.
    let mut last = Sender::new("127.0.0.1:0");
    steer_it(&last.socket);
    unload().unwrap();
    assert_eq!(
        Steered::open().unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
    last.reaches(&steered, 7, 7);
}
