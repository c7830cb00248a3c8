// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The in-band form over every carrier, on loopback: everything arrives, an answer goes back, and
//! the end is acknowledged.
use alcc_carrier::tls::{Identity, Trust};
use alcc_carrier::{CarrierSpec, Client, Listener, Server, Target};
use alcc_cc::Registry;
use alcc_inband::{Settings, Stream};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn registry() -> Arc<Registry> {
    Arc::new(Registry::builtin())
}

fn settings(cc: &str) -> Settings {
    Settings::new(cc.parse().unwrap())
}

fn accept(listener: &Listener) -> Stream {
    let timeout = PollTimeout::try_from(PATIENCE).unwrap();
    let fd = PollFd::new(listener.fd(), PollFlags::POLLIN);
    assert_eq!(poll(&mut [fd], timeout), Ok(1));
    let carrier = listener.accept().unwrap().handshake().unwrap();
    Stream::accept(carrier, &registry(), settings("verus")).unwrap()
}

/// Sends `bytes` bytes from the connecting end, and receives an answer.
fn transfer(carrier: &str, cc: &str, bytes: usize) {
    let spec: CarrierSpec = carrier.parse().unwrap();
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let client = Client {
        trust: Trust::Pin(identity.fingerprint()),
        ..Client::default()
    };
    let server = Server {
        identity: Some(identity),
        ..Server::default()
    };
    let listener = spec.listen("127.0.0.1:0", server).unwrap();
    let at = listener.local();
    let content: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
    std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            let mut stream = accept(&listener);
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            stream.write_all(b"thanks").unwrap();
            assert!(stream.finish(PATIENCE).unwrap());
            got
        });
        let target: Target = at.parse().unwrap();
        let below = spec.connect(&target, &client).unwrap();
        let mut stream = Stream::connect(below, &registry(), settings(cc)).unwrap();
        stream.write_all(&content).unwrap();
        assert!(stream.finish(PATIENCE).unwrap(), "{carrier}");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "thanks", "{carrier}");
        assert!(far.join().unwrap() == content, "{carrier}");
    });
}

#[test]
fn over_every_carrier() {
    for (carrier, cc) in [
        ("tcp", "verus"),
        ("tls", "verus"),
        ("tls", "sprout"),
        ("tls", "cubic"),
    ] {
        transfer(carrier, cc, 1_000_000);
    }
}

#[test]
fn a_stream_that_is_cut_ends_with_an_error_in_every_carrier() {
    for carrier in ["tcp", "tls"] {
        let spec: CarrierSpec = carrier.parse().unwrap();
        let server = Server {
            identity: Some(Identity::self_signed(&["localhost"]).unwrap()),
            ..Server::default()
        };
        let listener = spec.listen("127.0.0.1:0", server).unwrap();
        let at: Target = listener.local().parse().unwrap();
        let client = Client {
            trust: Trust::Anybody,
            ..Client::default()
        };
        std::thread::scope(|scope| {
            let far = scope.spawn(|| {
                let mut stream = accept(&listener);
                let mut got = Vec::new();
                let why = stream.read_to_end(&mut got).unwrap_err();
                (got, why)
            });
            let below = spec.connect(&at, &client).unwrap();
            let tcp = below.tcp().expect("TCP is at the bottom");
            let socket = TcpStream::from(tcp.try_clone_to_owned().unwrap());
            let mut stream = Stream::connect(below, &registry(), settings("verus")).unwrap();
            stream.write_all(b"hello").unwrap();
            stream.flush().unwrap();
            // Without a word, as when the line breaks and the host answers with FIN.
            std::thread::sleep(Duration::from_millis(100));
            socket.shutdown(std::net::Shutdown::Both).unwrap();
            let (got, why) = far.join().unwrap();
            assert_eq!(got, b"hello", "{carrier}");
            assert!(!why.to_string().contains('\n'), "{carrier}: {why}");
        });
    }
}

#[test]
fn tls_at_one_end_only_is_recognised() {
    // TLS speaks to plain in-band, and plain in-band to TLS.
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let server = Server {
        identity: Some(identity.clone()),
        patience: PATIENCE,
    };
    let plain: CarrierSpec = "tcp".parse().unwrap();
    let tls: CarrierSpec = "tls".parse().unwrap();
    let listener = tls.listen("127.0.0.1:0", server).unwrap();
    let at: Target = listener.local().parse().unwrap();
    std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            let timeout = PollTimeout::try_from(PATIENCE).unwrap();
            let fd = PollFd::new(listener.fd(), PollFlags::POLLIN);
            assert_eq!(poll(&mut [fd], timeout), Ok(1));
            listener.accept().unwrap().handshake().err().unwrap()
        });
        let below = plain.connect(&at, &Client::default()).unwrap();
        let why = Stream::connect(below, &registry(), settings("verus")).err();
        let why = why.unwrap().to_string();
        assert!(why.contains("--carrier tls"), "{why}");
        let why = far.join().unwrap().to_string();
        assert!(why.contains("it does not speak TLS"), "{why}");
    });
    let listener = plain.listen("127.0.0.1:0", Server::default()).unwrap();
    let at: Target = listener.local().parse().unwrap();
    std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            let timeout = PollTimeout::try_from(PATIENCE).unwrap();
            let fd = PollFd::new(listener.fd(), PollFlags::POLLIN);
            assert_eq!(poll(&mut [fd], timeout), Ok(1));
            let below = listener.accept().unwrap().handshake().unwrap();
            Stream::accept(below, &registry(), settings("verus"))
                .err()
                .unwrap()
        });
        let why = tls
            .connect(&at, &Client::default())
            .err()
            .unwrap()
            .to_string();
        assert!(
            why.contains("it may not speak TLS") || why.contains("does not speak TLS"),
            "{why}"
        );
        let why = far.join().unwrap().to_string();
        assert!(why.contains("a TLS record"), "{why}");
    });
}
