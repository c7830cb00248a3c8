// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc recv` and `alcc send` among strangers, forgers and failures: a file arrives as it was
//! sent, or there is one clear line and exit status 1. All of it on loopback.
#[path = "../support/built.rs"]
mod built;
mod ends;
mod middle;
#[path = "../support/port.rs"]
mod port;

use alcc_units::Rng;
use ends::{End, Receiver, file, send, sending, sent};
use middle::{Middle, Way};
use nix::sys::signal::Signal;
use port::free_port;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Those that carry a stream over TCP, and those that have datagrams.
const STREAMS: [&[&str]; 2] = [&["--transport", "tcp"], &["--transport", "in-band"]];
const DATAGRAMS: [&[&str]; 2] = [
    &["--transport", "udp"],
    &["--transport", "quic", "--insecure"],
];

fn all() -> impl Iterator<Item = &'static [&'static str]> {
    STREAMS.into_iter().chain(DATAGRAMS)
}

/// Every test beside the others of its kind: they mostly wait.
fn each(transports: impl Iterator<Item = &'static [&'static str]>, test: impl Fn(&[&str]) + Sync) {
    std::thread::scope(|scope| {
        let test = &test;
        let running: Vec<_> = transports
            .map(|transport| (transport, scope.spawn(move || test(transport))))
            .collect();
        for (transport, one) in running {
            assert!(one.join().is_ok(), "{transport:?}");
        }
    });
}

/// First bytes of unexpected clients: nothing, garbage, HTTP, the start of TLS, the start of our protocol.
fn words() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(5);
    let mut garbage = |len: usize| (0..len).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>();
    vec![
        Vec::new(),
        vec![0],
        garbage(7),
        garbage(1400),
        garbage(60_000),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        // A ClientHello's record and handshake headers, cut short.
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
        b"alccsend".to_vec(),
        b"alccsend\xff".to_vec(),
        header(1, u64::MAX - 1),
        header(1, 1 << 63),
    ]
}

/// The header of a transfer of one flow (alcc/transfer/src/lib.rs): of this kind and
/// size.
fn header(kind: u8, size: u64) -> Vec<u8> {
    let mut header = b"alccsend\x01".to_vec();
    header.push(kind);
    header.extend([0, 0, 0, 1, 0, 0]);
    header.extend(size.to_be_bytes());
    header.resize(64, 7);
    header[56..].fill(0);
    header
}

#[test]
fn strangers_are_turned_away_and_the_next_sender_is_served() {
    each(STREAMS.into_iter(), |transport| {
        let receiver = Receiver::start(transport, &[]);
        // Half of them hang up, the others wait for what happens.
        let mut open = Vec::new();
        for (number, word) in words().into_iter().enumerate() {
            let mut stream = TcpStream::connect(receiver.at).unwrap();
            let _ = stream.write_all(&word);
            if number % 2 == 0 {
                open.push(stream);
            }
        }
        goes_on(transport, &receiver);
        drop(open);
        ends_well(receiver);
    });
    each(DATAGRAMS.into_iter(), |transport| {
        let receiver = Receiver::start(transport, &[]);
        for word in words() {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let _ = socket.send_to(&word, receiver.at);
        }
        goes_on(transport, &receiver);
        ends_well(receiver);
    });
}

/// A file still arrives, and nothing else has been kept.
fn goes_on(transport: &[&str], receiver: &Receiver) {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), 1_000_000);
    sent(transport, receiver.at, &file);
    let deadline = Instant::now() + Duration::from_secs(20);
    while receiver
        .kept()
        .iter()
        .all(|p| p.file_name().unwrap() != "received-1")
    {
        assert!(Instant::now() < deadline, "{}", receiver.end.said());
        std::thread::sleep(Duration::from_millis(10));
    }
    let kept = receiver.folder.path().join("received-1");
    assert!(std::fs::read(kept).unwrap() == std::fs::read(file).unwrap());
    assert!(
        receiver.end.most_memory() < 64 << 20,
        "{} bytes",
        receiver.end.most_memory()
    );
}

/// A receiver that gets a signal ends, and leaves no incomplete file.
fn ends_well(receiver: Receiver) {
    receiver.end.signal(Signal::SIGTERM);
    let Receiver { end, folder, .. } = receiver;
    let (status, said) = end.end(Duration::from_secs(20));
    assert!(status.code().is_some(), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    let names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["received-1"], "{said}");
}

/// Datagrams of a first packet's form from many ports: what comes back is never more than what went
/// there, and nothing is kept.
#[test]
fn a_flood_of_beginnings_is_answered_with_less_and_costs_no_memory() {
    let transport = DATAGRAMS[0];
    let receiver = Receiver::start(transport, &[]);
    let before = receiver.end.most_memory();
    // What a true sender says first.
    let hello = {
        let ear = UdpSocket::bind("127.0.0.1:0").unwrap();
        ear.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path(), 1000);
        let _sender = sending(transport, ear.local_addr().unwrap(), &file);
        let mut buffer = vec![0; 2000];
        let n = ear.recv(&mut buffer).unwrap();
        buffer.truncate(n);
        buffer
    };
    let (mut there, mut back) = (0, 0);
    let mut buffer = vec![0; 65_536];
    let mut drain = |socket: &UdpSocket| {
        let mut got = 0;
        while let Ok(n) = socket.recv(&mut buffer) {
            got += n;
        }
        got
    };
    for _ in 0..50 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        for _ in 0..200 {
            if let Ok(n) = socket.send_to(&hello, receiver.at) {
                there += n;
            }
        }
        std::thread::sleep(Duration::from_millis(2));
        back += drain(&socket);
    }
    println!("{there} bytes there, {back} back");
    assert!(back > 0 && back <= there, "{there} there, {back} back");
    let more = receiver.end.most_memory() - before;
    assert!(more < 8 << 20, "{more} bytes more");
    goes_on(transport, &receiver);
    ends_well(receiver);
}

/// Loses, doubles, changes, delays and repeats datagrams.
fn hostile(seed: u64) -> impl FnMut(Way, Vec<u8>) -> Vec<Vec<u8>> + Send {
    let mut rng = Rng::new(seed);
    let mut old: Vec<Vec<u8>> = Vec::new();
    let mut late: Option<Vec<u8>> = None;
    move |_, datagram| {
        let mut out = Vec::new();
        match rng.below(100) {
            0..2 => {}
            2..5 => out.extend([datagram.clone(), datagram.clone()]),
            5..8 => {
                let mut bent = datagram.clone();
                let at = rng.below(bent.len() as u64) as usize;
                bent[at] ^= 1 << rng.below(8);
                out.push(bent);
            }
            8..12 => out.extend(late.replace(datagram.clone())),
            12..14 => out.push((0..rng.below(1400)).map(|_| rng.next_u64() as u8).collect()),
            14..18 if !old.is_empty() => {
                out.push(old[rng.below(old.len() as u64) as usize].clone());
                out.push(datagram.clone());
            }
            18..20 => out.push(datagram[..datagram.len() / 2].to_vec()),
            _ => {
                out.push(datagram.clone());
                out.extend(late.take());
            }
        }
        if old.len() < 200 {
            old.push(datagram);
        }
        out
    }
}

#[test]
fn through_a_hostile_network_a_file_arrives_whole() {
    each(DATAGRAMS.into_iter(), |transport| {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path(), 400_000);
        let receiver = Receiver::start(transport, &["--once"]);
        let middle = Middle::udp(receiver.at, hostile(1));
        sent(transport, middle.at, &file);
        receiver.has(&file);
    });
}

#[test]
fn one_changed_bit_in_a_stream_is_noticed_at_both_ends() {
    each(STREAMS.into_iter(), |transport| {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path(), 1_000_000);
        let receiver = Receiver::start(transport, &["--once"]);
        let middle = Middle::tcp(receiver.at, |way, bytes, before| {
            let place = 700_000_u64.checked_sub(before).map(|p| p as usize);
            if let Some(byte) = place.and_then(|p| bytes.get_mut(p))
                && way == Way::There
            {
                *byte ^= 4;
            }
            true
        });
        let sender = sending(transport, middle.at, &file);
        println!(
            "{transport:?} sender: {}",
            sender.fails(Duration::from_secs(40))
        );
        assert!(receiver.kept().is_empty(), "{:?}", receiver.kept());
        let (status, said) = receiver.end.end(Duration::from_secs(20));
        assert_eq!(status.code(), Some(1), "{said}");
        println!("{transport:?} receiver: {said}");
    });
}

/// Nothing passes for four seconds, in the middle of a transfer.
#[test]
fn an_outage_of_four_seconds_is_survived() {
    each(DATAGRAMS.into_iter(), |transport| {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path(), 1_000_000);
        let receiver = Receiver::start(transport, &["--once"]);
        let (mut passed, mut began) = (0, None::<Instant>);
        let middle = Middle::udp(receiver.at, move |_, datagram| {
            passed += datagram.len();
            let out = passed > 300_000
                && began.get_or_insert_with(Instant::now).elapsed() < Duration::from_secs(4);
            if out { Vec::new() } else { vec![datagram] }
        });
        let began = Instant::now();
        sent(transport, middle.at, &file);
        assert!(began.elapsed() >= Duration::from_secs(4));
        receiver.has(&file);
    });
}

#[test]
fn a_receiver_that_is_killed_and_another_in_its_place_end_the_sender_with_a_line() {
    each(all(), |transport| {
        let port = free_port();
        let receiver = Receiver::at(port, transport, &[]);
        let sender = send(
            transport,
            &["--duration", "60s", "--stall", "5s"],
            receiver.at,
        );
        std::thread::sleep(Duration::from_millis(500));
        receiver.end.signal(Signal::SIGKILL);
        drop(receiver);
        let another = Receiver::at(port, transport, &[]);
        println!("{transport:?}: {}", sender.fails(Duration::from_secs(40)));
        goes_on(transport, &another);
        ends_well(another);
    });
}

#[test]
fn a_peer_that_never_reads_or_never_answers_ends_the_sender_with_a_line() {
    let (tcp, udp) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        UdpSocket::bind("127.0.0.1:0").unwrap(),
    );
    let deaf = |transport: &[&str], to: SocketAddr| {
        let options = ["--size", "50MB", "--stall", "2s", "--connect-timeout", "2s"];
        let sender = send(transport, &options, to);
        println!("{transport:?}: {}", sender.fails(Duration::from_secs(40)));
    };
    each(STREAMS.into_iter(), |t| deaf(t, tcp.local_addr().unwrap()));
    each(DATAGRAMS.into_iter(), |t| {
        deaf(t, udp.local_addr().unwrap());
    });
    // No receiver at all.
    let nobody: SocketAddr = format!("127.0.0.1:{}", free_port()).parse().unwrap();
    each(all(), |transport| deaf(transport, nobody));
}

/// All places are taken by peers with a valid header and a byte now and then, from addresses of
/// their own. The next sender is served: one address has at most half of the places, and the newest silent flow goes.
#[test]
fn slow_peers_do_not_keep_a_sender_out() {
    let receiver = Receiver::start(STREAMS[0], &["--connections", "32"]);
    let from = |host: u8| {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket
            .bind(&SocketAddr::from(([127, 0, 9, host], 0)).into())
            .unwrap();
        socket.connect(&receiver.at.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.write_all(&header(1, 1_000_000)).unwrap();
        stream
    };
    let mut slow: Vec<_> = (0..32).map(|n| from(1 + n / 16)).collect();
    let trickle = |slow: &mut Vec<TcpStream>| {
        for stream in slow {
            let _ = stream.write_all(&[0]);
        }
    };
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        trickle(&mut slow);
        std::thread::sleep(Duration::from_millis(100));
    }
    let over = |slow: &[TcpStream]| -> Vec<usize> {
        let is_over = |stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            stream.peek(&mut [0]).map_err(|e| e.kind()) != Err(ErrorKind::WouldBlock)
        };
        (0..slow.len()).filter(|n| is_over(&slow[*n])).collect()
    };
    let wait_for = |slow: &[TcpStream], gone: &[usize]| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while over(slow) != gone {
            assert!(
                Instant::now() < deadline,
                "{:?} and not {gone:?}",
                over(slow)
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for(&slow, &[]);
    // The first address has half of the places: another flow of it takes that of its own newest.
    slow.push(from(1));
    wait_for(&slow, &[15]);
    // Another address takes the place of the newest of all that are silent, which the one that has just come is not.
    goes_on(STREAMS[0], &receiver);
    wait_for(&slow, &[15, 31]);
    drop(slow);
    ends_well(receiver);
}

/// A peer that only PINGs: our answers move, and nothing else does.
#[test]
fn pings_are_no_progress() {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ["--size", "50MB", "--stall", "2s"];
    let sender = send(STREAMS[1], &options, peer.local_addr().unwrap());
    let (mut stream, _) = peer.accept().unwrap();
    let mut hello = Vec::new();
    let preface = alcc_inband::preface::Preface {
        credit: 1 << 20,
        ack_delay: 1000,
        segment: 1400,
        algorithm: String::new(),
    };
    preface.encode(&mut hello);
    stream.write_all(&hello).unwrap();
    let mut from = stream.try_clone().unwrap();
    let reads = std::thread::spawn(move || std::io::copy(&mut from, &mut std::io::sink()));
    let pings = std::thread::spawn(move || {
        let mut ping = Vec::new();
        alcc_inband::frame::encode_ping(&mut ping, false, [7; 8]);
        while stream.write_all(&ping).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    println!("{}", sender.fails(Duration::from_secs(40)));
    pings.join().unwrap();
    drop(reads.join());
}

/// A client that sends a header, and then nothing.
#[test]
fn who_begins_and_does_not_go_on_is_given_up() {
    let receiver = Receiver::start(STREAMS[0], &["--stall", "1s"]);
    let mut stream = TcpStream::connect(receiver.at).unwrap();
    stream.write_all(&header(1, 1000)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(
        answer.starts_with(b"alccdone") || answer.is_empty(),
        "{answer:?}"
    );
    assert!(receiver.kept().is_empty(), "{:?}", receiver.kept());
    goes_on(STREAMS[0], &receiver);
    ends_well(receiver);
}

/// More than there is room for is refused when it is announced.
#[test]
fn a_size_that_cannot_be_is_refused_at_once() {
    let receiver = Receiver::start(STREAMS[0], &[]);
    for size in [1 << 63, u64::MAX - 1, 101_000_000_000] {
        let mut stream = TcpStream::connect(receiver.at).unwrap();
        stream.write_all(&header(1, size)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"alccdone"), "{answer:?}");
    }
    assert!(receiver.kept().is_empty());
    goes_on(STREAMS[0], &receiver);
    ends_well(receiver);
}

/// The name of a file is never transferred.
#[test]
fn a_name_does_not_travel() {
    let receiver = Receiver::start(STREAMS[0], &[]);
    let folder = tempfile::tempdir().unwrap();
    let strange = folder.path().join("..\u{202e}-rf --out=x;$(id)\n");
    std::fs::write(&strange, "content").unwrap();
    sent(STREAMS[0], receiver.at, &strange);
    receiver.end.signal(Signal::SIGTERM);
    let kept = receiver.kept();
    assert_eq!(kept, [receiver.folder.path().join("received-1")]);
}

/// A typing error is reported in one line, with status 2.
#[test]
fn mistakes_are_a_line_with_status_2() {
    for args in [
        &["recv", "--transport", "pigeon"][..],
        &["recv", "--bind", "192.0.2.1"],
        &["recv", "--out", "/nowhere/at/all/file"],
        &["recv", "--out", "-", "--json"],
        &["send"],
        &["send", "--file", "/nowhere", "localhost"],
        &["send", "--file", "/", "localhost"],
        &["send", "--cc", "vrus", "localhost"],
        &["send", "--rate", "0", "localhost"],
        &["send", "no such host"],
        &["send", "localhost:0x50"],
        &["send", "localhost:70000"],
        &["send", "--under", "nothing", "localhost"],
        &["send", "--feedback", "wishes", "localhost"],
        &[
            "send",
            "--transport",
            "tcp",
            "--carrier",
            "tls",
            "localhost",
        ],
    ] {
        let (status, said) = End::start(args).end(Duration::from_secs(20));
        assert_eq!(status.code(), Some(2), "{args:?}: {said}");
        println!("{args:?}\n    {}", said.replace('\n', "\n    "));
    }
}
