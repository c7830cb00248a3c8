// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every carrier on loopback: bytes go both ways at once, whole, and the end is seen. And every
//! wrong peer: one line.
use alcc_carrier::tls::{Fingerprint, Identity, Trust};
use alcc_carrier::{CarrierSpec, Client, Error, Listener, Server, Target};
use alcc_inband::carrier::Carrier;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn spec(text: &str) -> CarrierSpec {
    text.parse().unwrap()
}

fn wait(stream: &dyn Carrier, more: PollFlags) {
    let mut what = PollFlags::POLLIN | more;
    if stream.wants_write() {
        what |= PollFlags::POLLOUT;
    }
    let n = poll(
        &mut [PollFd::new(stream.fd(), what)],
        PollTimeout::try_from(PATIENCE).unwrap(),
    );
    assert_eq!(n, Ok(1), "nothing happens");
}

fn blocked<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(why) if why.kind() == ErrorKind::WouldBlock => None,
        Err(why) => panic!("{why}"),
    }
}

/// Writes all of `out` while it reads `expect` bytes.
fn exchange(stream: &mut dyn Carrier, out: &[u8], expect: usize) -> Vec<u8> {
    let (mut sent, mut got) = (0, Vec::new());
    let mut block = vec![0; 50_000];
    while sent < out.len() || got.len() < expect || stream.wants_write() {
        let mut moved = false;
        if sent < out.len() {
            if let Some(n) = blocked(stream.write(&[IoSlice::new(&out[sent..])])) {
                sent += n;
                moved = true;
            }
        } else if stream.wants_write() {
            moved |= blocked(stream.flush()).is_some();
        }
        if got.len() < expect
            && let Some(arrived) = blocked(stream.read(&mut block))
        {
            let n = arrived.len;
            assert!(n > 0, "the end after {} of {expect}", got.len());
            got.extend_from_slice(&block[..n]);
            moved = true;
        }
        if !moved {
            let more = if sent < out.len() {
                PollFlags::POLLOUT
            } else {
                PollFlags::empty()
            };
            wait(stream, more);
        }
    }
    got
}

fn end(stream: &mut dyn Carrier) -> io::Result<usize> {
    loop {
        match stream.read(&mut [0; 100]) {
            Err(why) if why.kind() == ErrorKind::WouldBlock => wait(stream, PollFlags::empty()),
            other => return other.map(|arrived| arrived.len),
        }
    }
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    alcc_units::Rng::new(seed).bytes(bytes)
}

/// Takes one connection, in a thread.
fn take(listener: Listener) -> JoinHandle<Result<Box<dyn Carrier>, Error>> {
    std::thread::spawn(move || {
        let fd = listener.fd();
        let timeout = PollTimeout::try_from(PATIENCE).unwrap();
        assert_eq!(
            poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], timeout),
            Ok(1)
        );
        listener.accept().unwrap().handshake()
    })
}

fn target(at: &str) -> Target {
    at.parse().unwrap()
}

fn server(identity: &Identity) -> Server {
    Server {
        identity: Some(identity.clone()),
        patience: PATIENCE,
    }
}

fn trusting(trust: Trust) -> Client {
    Client {
        trust,
        patience: PATIENCE,
        under: None,
    }
}

/// One carrier at both ends.
fn both(text: &str) {
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let listener = spec(text).listen("127.0.0.1:0", server(&identity)).unwrap();
    let at = target(&listener.local());
    let other = take(listener);
    let client = trusting(Trust::Pin(identity.fingerprint()));
    let mut near = spec(text).connect(&at, &client).unwrap();
    let mut far = other.join().unwrap().unwrap();
    let (up, down) = (noise(1, 3_000_000), noise(2, 2_000_000));
    std::thread::scope(|scope| {
        let far = &mut far;
        let (expect, out) = (up.len(), &down);
        let got = scope.spawn(move || exchange(&mut **far, out, expect));
        assert!(
            exchange(&mut *near, &up, down.len()) == down,
            "{text}: down"
        );
        assert!(got.join().unwrap() == up, "{text}: up");
    });
    near.shutdown_write().unwrap();
    assert_eq!(end(&mut *far).unwrap(), 0, "{text}");
    far.shutdown_write().unwrap();
    assert_eq!(end(&mut *near).unwrap(), 0, "{text}");
}

#[test]
fn tcp_both_ways() {
    both("tcp");
}

#[test]
fn tls_both_ways() {
    both("tls");
}

#[test]
fn a_cut_connection_is_no_end_above_tls() {
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let listener = spec("tls")
        .listen("127.0.0.1:0", server(&identity))
        .unwrap();
    let at = target(&listener.local());
    let other = take(listener);
    let near = spec("tls").connect(&at, &trusting(Trust::Anybody)).unwrap();
    let mut far = other.join().unwrap().unwrap();
    drop(near);
    let why = end(&mut *far).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::UnexpectedEof, "{why}");
}

#[test]
fn certificates_are_judged_and_the_line_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap();
    let ours = dir.path().join("ours.pem");
    let pem = |identity: &Identity| {
        let der = identity.chain()[0].as_ref();
        let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
        let mut digits = String::new();
        // Base64 by hand: the crate under test has no encoder.
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for three in der.chunks(3) {
            let bits = (0..3).fold(0u32, |bits, i| {
                bits << 8 | u32::from(three.get(i).copied().unwrap_or(0))
            });
            for i in 0..4 {
                if i <= three.len() {
                    digits.push(ALPHABET[(bits >> (18 - 6 * i) & 63) as usize] as char);
                } else {
                    digits.push('=');
                }
            }
        }
        for line in digits.as_bytes().chunks(64) {
            text.push_str(std::str::from_utf8(line).unwrap());
            text.push('\n');
        }
        text + "-----END CERTIFICATE-----\n"
    };
    std::fs::write(&ours, pem(&identity)).unwrap();
    let other = Identity::self_signed(&["localhost"]).unwrap();
    let others = dir.path().join("others.pem");
    std::fs::write(&others, pem(&other)).unwrap();
    let unnamed = Identity::self_signed(&["b.example"]).unwrap();
    let unnamed_file = dir.path().join("unnamed.pem");
    std::fs::write(&unnamed_file, pem(&unnamed)).unwrap();

    let attempt = |identity: &Identity, trust: Trust| {
        let listener = spec("tls").listen("127.0.0.1:0", server(identity)).unwrap();
        let at = target(&listener.local());
        let far = take(listener);
        let near = spec("tls").connect(&at, &trusting(trust));
        let far = far.join().unwrap();
        assert_eq!(near.is_ok(), far.is_ok(), "both ends agree");
        if let Err(why) = &far {
            assert!(
                why.to_string().contains("it refused the handshake"),
                "{why}"
            );
        }
        near.err().map(|why| {
            assert!(!why.is_usage(), "{why}");
            why.to_string()
        })
    };
    let print = identity.fingerprint().to_string();
    assert_eq!(attempt(&identity, Trust::Pin(identity.fingerprint())), None);
    assert_eq!(attempt(&identity, Trust::Anybody), None);
    assert_eq!(attempt(&identity, Trust::Ca(ours.clone())), None);
    for (identity, trust, said) in [
        (
            &identity,
            Trust::System,
            "not signed by an authority that this system trusts",
        ),
        (
            &identity,
            Trust::Ca(others),
            "not signed by the authority in",
        ),
        (
            &identity,
            Trust::Pin(other.fingerprint()),
            "not the one that --pin names",
        ),
        (
            &unnamed,
            Trust::Ca(unnamed_file),
            "not for the name '127.0.0.1'",
        ),
    ] {
        let why = attempt(identity, trust).unwrap();
        assert!(why.contains(said) && !why.contains('\n'), "{why}");
        assert!(
            why.contains("--pin") && why.contains(&identity.fingerprint().to_string()),
            "{why}"
        );
    }
    // A pin as openssl would print it.
    let colons: Vec<&str> = (0..32).map(|i| &print[2 * i..2 * i + 2]).collect();
    let again: Fingerprint = colons.join(":").parse().unwrap();
    assert_eq!(attempt(&identity, Trust::Pin(again)), None);
}

#[test]
fn files_of_certificates_are_checked_when_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let (missing, empty) = (dir.path().join("missing"), dir.path().join("empty"));
    std::fs::write(&empty, "not PEM").unwrap();
    for (file, said) in [(&missing, "no such file"), (&empty, "it contains none")] {
        let why = Identity::from_files(file, file).unwrap_err();
        assert!(why.is_usage() && why.to_string().contains(said), "{why}");
        let why = alcc_carrier::tls::client_config(&Trust::Ca(file.clone()), &[]).unwrap_err();
        assert!(why.is_usage() && why.to_string().contains(said), "{why}");
    }
}

/// Answers the first bytes of one connection with `answer`, and closes.
fn impostor(answer: &'static [u8]) -> (Target, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = target(&listener.local_addr().unwrap().to_string());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = vec![0; 4096];
        let n = stream.read(&mut heard).unwrap();
        heard.truncate(n);
        stream.write_all(answer).unwrap();
        heard
    });
    (at, thread)
}

#[test]
fn a_peer_that_is_something_else_is_one_line() {
    const HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    for (carrier, answer, said) in [
        ("tls", HTTP, "it does not speak TLS"),
        ("tls", b"", "it may not speak TLS"),
        (
            "tls",
            b"\x15\x03\x03\0\x02\x02\x46",
            "it does not speak TLS 1.3",
        ),
    ] {
        let (at, thread) = impostor(answer);
        let why = spec(carrier)
            .connect(&at, &Client::default())
            .err()
            .unwrap();
        assert!(!why.is_usage(), "{why}");
        let why = why.to_string();
        assert!(
            why.contains(said) && !why.contains('\n'),
            "{carrier}: {why}"
        );
        assert!(why.contains(&at.to_string()), "{why}");
        thread.join().unwrap();
    }
}

#[test]
fn a_silent_peer_has_a_deadline_and_delays_no_other() {
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let patience = Duration::from_millis(300);
    let near = Server {
        identity: Some(identity),
        patience,
    };
    let listener = spec("tls").listen("127.0.0.1:0", near).unwrap();
    let silent = TcpStream::connect(listener.local()).unwrap();
    let began = Instant::now();
    let why = take(listener).join().unwrap().err().unwrap();
    assert!(why.to_string().contains("no answer in time"), "{why}");
    assert!(began.elapsed() < PATIENCE);
    drop(silent);
    // And the other way round.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = target(&mute.local_addr().unwrap().to_string());
    let client = Client {
        patience,
        ..Client::default()
    };
    let why = spec("tls").connect(&at, &client).err().unwrap();
    assert!(why.to_string().contains("no answer in time"), "{why}");
}

#[test]
fn a_stranger_at_the_door_is_one_line() {
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let listener = spec("tls")
        .listen("127.0.0.1:0", server(&identity))
        .unwrap();
    let mut stranger = TcpStream::connect(listener.local()).unwrap();
    let far = take(listener);
    // The peer may close the connection before everything is written.
    drop(stranger.write_all(b"GET / HTTP/1.1\r\n\r\n"));
    let why = far.join().unwrap().err().unwrap();
    assert!(!why.is_usage(), "{why}");
    let why = why.to_string();
    assert!(why.contains("it does not speak TLS"), "{why}");
    assert!(!why.contains('\n') && why.len() < 300, "{why}");
}

#[test]
fn what_cannot_listen_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    for (carrier, at, said) in [
        ("tls", "127.0.0.1:0", "there is no certificate"),
        ("tcp", at.as_str(), "stop the program that listens there"),
        ("tcp", "192.0.2.1:1", "not an address of this machine"),
        ("tcp", "nonsense", "ADDRESS:PORT"),
    ] {
        let why = spec(carrier).listen(at, Server::default()).err().unwrap();
        assert!(why.is_usage(), "{why}");
        let why = why.to_string();
        assert!(why.contains(said) && !why.contains('\n'), "{why}");
    }
    let nobody = target("127.0.0.1:1");
    let why = spec("tcp")
        .connect(&nobody, &Client::default())
        .err()
        .unwrap();
    assert!(
        why.to_string()
            .starts_with("connect to 127.0.0.1:1: Connection refused"),
        "{why}"
    );
}
