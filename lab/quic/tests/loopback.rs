// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file through a real socket, by the blocking pipe.
mod support;

use alcc_quic::blocking::Listener;
use alcc_quic::congestion;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};
use support::{accepted, connected, tls};

const TURN: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(20);

fn later(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::WouldBlock
}

/// Not to be guessed from a piece of it.
fn file(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

fn transfer(spec: &str, len: usize) {
    let (server, client) = tls();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut listener = Listener::bind(any, server).unwrap();
    let to = listener.address().unwrap();
    let began = Instant::now();
    let receiver = thread::spawn(move || {
        let mut receiver = accepted(&mut listener, DEADLINE);
        let (mut all, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            assert!(began.elapsed() < DEADLINE, "{} bytes came", all.len());
            match receiver.read(&mut piece, TURN) {
                Ok(0) => break,
                Ok(n) => all.extend_from_slice(&piece[..n]),
                Err(e) => assert!(later(&e), "{e}"),
            }
        }
        receiver.answer(b"thanks", DEADLINE).unwrap();
        all
    });
    let verus = congestion(spec).unwrap();
    let mut sender = connected(to, client, &verus, DEADLINE);
    let data = file(len);
    let mut remaining = &data[..];
    while !remaining.is_empty() {
        assert!(began.elapsed() < DEADLINE, "{} bytes left", remaining.len());
        let room = sender.room(TURN).unwrap();
        if room > 0 {
            let n = sender
                .write(&remaining[..room.min(remaining.len())])
                .unwrap();
            remaining = &remaining[n..];
        }
    }
    while !sender.finish(TURN).unwrap() {
        assert!(began.elapsed() < DEADLINE);
    }
    let mut answer = [0; 64];
    let n = sender.answer(&mut answer, DEADLINE).unwrap();
    assert_eq!(&answer[..n], b"thanks");
    let stats = sender.stats();
    assert!(stats.packets as usize > len / 1500, "{stats:?}");
    assert!(
        receiver.join().unwrap() == data,
        "{spec}: what came is not what was sent"
    );
    println!("{spec}: {:?}, {stats:?}", began.elapsed());
}

#[test]
fn a_file_arrives_whole_under_each_kind_of_algorithm() {
    // A window, a rate, a quota, a receiver module.
    for spec in ["cubic", "copa", "bbr3", "budget", "verus", "sprout"] {
        transfer(spec, 300_000);
    }
}
