// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections on loopback whose congestion control the tests look at.
#![allow(dead_code, reason = "no test program uses all of it")]
use super::support;
use alcc_bpf::{BpfError, Selection, WINDOW};
use alcc_flow::Limit;
use alcc_sys::{AckSamples, Steered};
use nix::sys::socket::{getsockopt, setsockopt, sockopt::TcpCongestion};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// The controls are loaded until this goes.
pub(crate) struct Loaded {
    _alone: support::Alone,
}

impl Loaded {
    /// `None`, and said: this process may not.
    pub(crate) fn new() -> Option<Self> {
        let alone = support::controls_alone();
        match alcc_bpf::load(None) {
            Ok(_) => Some(Self { _alone: alone }),
            Err(error @ (BpfError::Forbidden { .. } | BpfError::NoBtf)) => {
                println!("skipped: needs the right to load BPF programs: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn control_of(socket: &impl AsFd) -> String {
    let name = getsockopt(socket, TcpCongestion).unwrap();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

pub(crate) fn choose(socket: &impl AsFd, name: &str) -> nix::Result<()> {
    setsockopt(socket, TcpCongestion, &name.into())
}

pub(crate) fn steer_it(socket: &impl AsFd) {
    choose(socket, WINDOW.name).unwrap();
}

pub(crate) fn at_port(port: u16) -> Selection {
    Selection {
        port: Some(port),
        ..Selection::default()
    }
}

pub(crate) struct Pair {
    pub(crate) listener: TcpListener,
    pub(crate) server: TcpStream,
    pub(crate) client: TcpStream,
}

impl Pair {
    pub(crate) fn new(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Self::of(listener, client)
    }

    pub(crate) fn of(listener: TcpListener, client: TcpStream) -> Self {
        let (server, _) = listener.accept().unwrap();
        Self {
            listener,
            server,
            client,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    /// The connections of this port: this one, future ones, and the listening socket.
    pub(crate) fn only(&self) -> Selection {
        at_port(self.port())
    }

    pub(crate) fn carries(&mut self, bytes: usize) {
        let sent: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut client = self.client.try_clone().unwrap();
        let want = sent.clone();
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; want.len()];
            client.read_exact(&mut got).unwrap();
            assert!(got == want, "the bytes arrive as they were sent");
        });
        self.server.write_all(&sent).unwrap();
        reader.join().unwrap();
    }
}

pub(crate) fn window(window: u32) -> Limit {
    Limit {
        window,
        ..Limit::default()
    }
}

/// A connection whose other end reads all the time.
pub(crate) struct Sender {
    pub(crate) socket: TcpStream,
}

impl Sender {
    pub(crate) fn new(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while client.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        Self { socket }
    }

    /// The connections of this port: this one, and the listening socket.
    pub(crate) fn only(&self) -> Selection {
        at_port(self.socket.local_addr().unwrap().port())
    }

    /// Some bytes every few milliseconds until `done`, for 20 s at most.
    pub(crate) fn until(&mut self, mut done: impl FnMut(&TcpStream) -> bool) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            self.socket.write_all(&[7; 200_000]).unwrap();
            if done(&self.socket) {
                return Some(began.elapsed());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Steers until the window in force is `expected`.
    pub(crate) fn reaches(&mut self, steered: &Steered, wish: u32, expected: u32) -> AckSamples {
        let mut beat = 0;
        let mut last = None;
        let reached = self.until(|socket| {
            beat += 1;
            steered
                .steer(socket.as_raw_fd(), &window(wish), beat)
                .unwrap();
            // At once, before another program's wish comes.
            Steered::kick(socket.as_raw_fd());
            let samples = steered.samples(socket.as_raw_fd()).unwrap();
            let there = samples.cwnd == expected;
            last = Some(samples);
            there
        });
        assert!(reached.is_some(), "{wish} wished: {last:?}");
        last.unwrap()
    }
}
