// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets whose window a program sets: nonsense that it writes, and sockets that are closed,
//! handed to another process, inherited and steered by two.
#![cfg(feature = "loader")]
#[path = "support/sockets.rs"]
mod sockets;
mod support;

use alcc_bpf::WINDOW;
use alcc_flow::Limit;
use alcc_sys::Steered;
use alcc_units::{Rate, Rng};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use sockets::{Loaded, Pair, Sender, control_of, steer_it, window};
use std::io::{IoSlice, IoSliceMut, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set in another process: how it gets its socket.
const OTHER: &str = "ALCC_TEST_OTHER_PROCESS";

#[test]
fn nonsense_is_bounded_and_the_connection_goes_on() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let steered = Steered::open().unwrap();
    let mut rng = Rng::new(1);
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut pair = Pair::new(address);
        steer_it(&pair.server);
        let fd = pair.server.as_raw_fd();
        for beat in 0..40 {
            let any = rng.next_u64();
            let edges = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX, any as u32];
            let pick = |n: u64| edges[(n % 7) as usize];
            let limit = Limit {
                window: pick(any >> 8),
                until: Some(pick(any >> 16)),
                // One byte per second among them.
                rate: [None, Some(8), Some(u64::MAX)][(any >> 24) as usize % 3].map(Rate::bps),
            };
            steered.steer(fd, &limit, beat).unwrap();
            Steered::kick(fd);
            pair.carries(2000);
            let cwnd = steered.samples(fd).unwrap().cwnd;
            assert!(cwnd <= 65_536 && cwnd != 1, "{limit:?}: {cwnd}");
        }
        steered.steer(fd, &window(100), 1000).unwrap();
        let began = Instant::now();
        pair.carries(100_000);
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_socket_may_be_closed_while_it_is_steered() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let steered = Steered::open().unwrap();
    // Others are not affected: one socket of the same program, and one without an owner.
    let mut beside = Sender::new("[::1]:0");
    steer_it(&beside.socket);
    beside.reaches(&steered, 6, 6);
    let mut unsteered = Pair::new("127.0.0.1:0");
    let plain = control_of(&unsteered.server);
    let window_beside = || steered.samples(beside.socket.as_raw_fd()).unwrap().cwnd;
    for n in 0..if support::slow_machine() { 40 } else { 200 } {
        let mut pair = Pair::new(["127.0.0.1:0", "[::1]:0"][n % 2]);
        steer_it(&pair.server);
        let fd = pair.server.as_raw_fd();
        pair.carries(1000);
        let go_on = AtomicBool::new(true);
        std::thread::scope(|threads| {
            let updates = threads.spawn(|| {
                let mut refused = 0;
                let mut beat = 0;
                while go_on.load(Ordering::Relaxed) || refused == 0 {
                    beat += 1;
                    refused += u32::from(steered.steer(fd, &window(5), beat).is_err());
                    // The number may belong to another process by now, which also means that it has ended.
                    if beat > 1_000_000 {
                        break;
                    }
                }
            });
            drop(pair);
            go_on.store(false, Ordering::Relaxed);
            updates.join().unwrap();
        });
        // What was meant for the one that is gone would act with the next acknowledgement.
        (&beside.socket).write_all(&[7; 2000]).unwrap();
        assert_eq!(window_beside(), 6);
        assert_eq!(control_of(&beside.socket), WINDOW.name);
        let again = &window(6);
        let fd = beside.socket.as_raw_fd();
        steered.steer(fd, again, 1000 + n as u32).unwrap();
        assert_eq!(control_of(&unsteered.server), plain);
    }
    unsteered.carries(100_000);
    beside.reaches(&steered, 7, 7);
}

/// In the other process: steers the socket until its window is 9.
fn other_process(how: &str) {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let socket = match how {
        "inherits" => stdin,
        _ => received(&stdin.into()),
    };
    let mut sender = Sender {
        socket: TcpStream::from(socket),
    };
    let steered = Steered::open().unwrap();
    sender.reaches(&steered, 9, 9);
}

fn received(from: &UnixStream) -> OwnedFd {
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([i32; 1]);
    let message = recvmsg::<()>(
        from.as_raw_fd(),
        &mut bytes,
        Some(&mut space),
        MsgFlags::empty(),
    )
    .unwrap();
    let rights = message.cmsgs().unwrap().next();
    let Some(ControlMessageOwned::ScmRights(fds)) = rights else {
        panic!("no descriptor: {rights:?}");
    };
    // SAFETY: the kernel has made this descriptor for us.
    unsafe { OwnedFd::from_raw_fd(fds[0]) }
}

fn start(how: &str, stdin: impl Into<Stdio>) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_socket_goes_to_another_process", "--nocapture"])
        .env(OTHER, how)
        .stdin(stdin)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_socket_goes_to_another_process() {
    if let Some(how) = std::env::var_os(OTHER) {
        return other_process(how.to_str().unwrap());
    }
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let steered = Steered::open().unwrap();
    for (how, address) in [("inherits", "[::1]:0"), ("gets", "127.0.0.1:0")] {
        // One that this process continues to steer, and one of its own beside it.
        for stays in [true, false] {
            let mut beside = Sender::new("127.0.0.1:0");
            steer_it(&beside.socket);
            let mut sender = Sender::new(address);
            steer_it(&sender.socket);
            sender.reaches(&steered, 5, 5);
            let given = sender.socket.as_fd().try_clone_to_owned().unwrap();
            let mut other = if how == "inherits" {
                start(how, given)
            } else {
                let (here, there) = UnixStream::pair().unwrap();
                let other = start(how, OwnedFd::from(there));
                let fds = [given.as_raw_fd()];
                let rights = [ControlMessage::ScmRights(&fds)];
                let byte = [IoSlice::new(&[1])];
                sendmsg::<()>(here.as_raw_fd(), &byte, &rights, MsgFlags::empty(), None).unwrap();
                other
            };
            let mut kept = stays.then_some(sender);
            let mut beat = 0;
            let mut steered_at = Instant::now();
            let ended = loop {
                beside.reaches(&steered, 6, 6);
                // The other writes every 5 ms, and sees its own window with what it writes: it
                // needs several such beats without us.
                let due = steered_at.elapsed() > Duration::from_millis(50);
                if let Some(sender) = kept.as_ref().filter(|_| due) {
                    beat += 1;
                    steered_at = Instant::now();
                    steered
                        .steer(sender.socket.as_raw_fd(), &window(5), beat)
                        .unwrap();
                }
                if let Some(ended) = other.try_wait().unwrap() {
                    break ended;
                }
            };
            assert!(ended.success(), "{how}, stays: {stays}");
            if let Some(sender) = &mut kept {
                sender.reaches(&steered, 5, 5);
            }
        }
    }
}
