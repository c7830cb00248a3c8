// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams over real sockets.
use alcc_cc::Registry;
use alcc_inband::carrier::{Tcp, Unix};
use alcc_inband::{Settings, Stream};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

fn settings(cc: &str) -> Settings {
    Settings::new(cc.parse().unwrap())
}

fn registry() -> Arc<Registry> {
    Arc::new(Registry::builtin())
}

/// A connected pair over TCP.
fn tcp(cc: &'static str) -> (Stream, Stream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let there = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        Stream::accept(Tcp::new(socket).unwrap(), &registry(), settings("verus")).unwrap()
    });
    let socket = TcpStream::connect(at).unwrap();
    let here = Stream::connect(Tcp::new(socket).unwrap(), &registry(), settings(cc)).unwrap();
    (here, there.join().unwrap())
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn everything_written_is_read_and_the_end_is_the_end() {
    for cc in ["verus", "copa", "cubic", "sprout", "fixed:window=40"] {
        let (mut here, mut there) = tcp(cc);
        let sent = pattern(3_000_000);
        let expected = sent.clone();
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            there.read_to_end(&mut got).unwrap();
            assert_eq!(got.len(), expected.len());
            assert!(got == expected);
            there.write_all(b"thanks").unwrap();
            assert!(there.finish(Duration::from_secs(20)).unwrap());
        });
        here.write_all(&sent).unwrap();
        assert!(here.finish(Duration::from_secs(20)).unwrap(), "{cc}");
        let mut answer = String::new();
        here.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "thanks");
        let info = here.info();
        assert_eq!(info.stats.sent, 3_000_000);
        println!("{cc}: {info:?}");
        reader.join().unwrap();
    }
}

#[test]
fn a_unix_socket_does_as_well() {
    let (a, b) = UnixStream::pair().unwrap();
    let there = std::thread::spawn(move || {
        let mut s = Stream::accept(Unix::new(b).unwrap(), &registry(), settings("copa")).unwrap();
        let mut text = String::new();
        s.read_to_string(&mut text).unwrap();
        text
    });
    let mut here = Stream::connect(Unix::new(a).unwrap(), &registry(), settings("verus")).unwrap();
    here.write_all(b"hello").unwrap();
    assert!(here.finish(Duration::from_secs(10)).unwrap());
    assert_eq!(there.join().unwrap(), "hello");
}
