// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc proxy` between sockets of the test on loopback.
#[path = "../support/relay.rs"]
#[allow(dead_code, reason = "not every test uses all of it")]
mod relay;
#[path = "../support/reset.rs"]
mod reset;
#[path = "../support/wait.rs"]
mod wait;

mod control;
mod forwarding;
mod load;

use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::Backlog;
use relay::{Relay, number};
use reset::reset;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wait::wait_for;

const PATIENCE: Duration = Duration::from_secs(20);

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // A full backlog loses connections for which the client does not speak first, relay or not.
    nix::sys::socket::listen(&listener, Backlog::new(4096).unwrap()).unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn connect(at: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(at).unwrap())
}

/// A server that takes one connection.
fn once<R: Send + 'static>(
    listener: TcpListener,
    serve: impl FnOnce(TcpStream) -> R + Send + 'static,
) -> JoinHandle<R> {
    std::thread::spawn(move || serve(patient(listener.accept().unwrap().0)))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 251 + i) as u8).collect()
}

fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

/// Bytes that the kernel has not sent, or whose acknowledgement has not come.
fn unacknowledged(stream: &TcpStream) -> i32 {
    let mut bytes = -1;
    // SAFETY: a valid out pointer; the descriptor is the stream's.
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(done, 0);
    bytes
}

fn was_reset(mut stream: &TcpStream) -> bool {
    let read = stream.read_exact(&mut [0; 1]);
    read.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
}

/// From /proc: resident bytes, and CPU time in ticks of 10 ms.
fn resources(pid: u32) -> (u64, u64) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    // Without pages of files, which the kernel maps in groups of its own choice.
    let status = read("status");
    let kib = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    };
    let memory = (kib("RssAnon:") + kib("RssShmem:")) * 1024;
    let stat = read("stat");
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = |i: usize| fields[i].parse::<u64>().unwrap();
    (memory, ticks(11) + ticks(12))
}

/// Takes connections, greets each, and keeps it.
fn greeter(listener: TcpListener, count: usize) -> JoinHandle<Vec<TcpStream>> {
    std::thread::spawn(move || {
        (0..count)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(b"hello").unwrap();
                stream
            })
            .collect()
    })
}

fn greeted(mut client: &TcpStream) -> bool {
    let mut hello = [0; 5];
    client.read_exact(&mut hello).is_ok() && &hello == b"hello"
}
