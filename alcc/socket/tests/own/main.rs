// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Own sockets over loopback.
mod streams;
mod tasks;
#[path = "../../../cli/tests/support/wait.rs"]
mod wait;

use alcc_cc::Registry;
use alcc_observe::{Command, Segment, State};
use alcc_socket::own::{Options, Runtime, Settings, Stream, Wait};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wait::wait_for;

const PATIENCE: Duration = Duration::from_secs(20);

fn runtime(cc: &str) -> Arc<Runtime> {
    Runtime::new(Settings::new(cc.parse().unwrap()), Registry::builtin())
}

fn pair(runtime: &Arc<Runtime>, options: &Options) -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let (socket, _) = listener.accept().unwrap();
    (Stream::new(runtime, socket.into(), options).unwrap(), peer)
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 249) as u8).collect()
}

fn read_all(mut peer: TcpStream) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        got
    })
}

#[test]
fn everything_arrives_with_either_feedback_and_many_algorithms() {
    for cc in [
        "verus",
        "copa",
        "fixed:window=1",
        "fixed:window=20",
        "cubic",
    ] {
        for feedback in ["timestamps", "tcp-info"] {
            let options = Options {
                feedback: alcc_socket::Feedback::choose(alcc_socket::Deployment::Own, feedback)
                    .unwrap(),
                ..Options::default()
            };
            let runtime = runtime(cc);
            let (stream, peer) = pair(&runtime, &options);
            assert_eq!(stream.info().feedback, feedback);
            let sent = bytes(if cc == "fixed:window=1" {
                300_000
            } else {
                3_000_000
            });
            let reader = read_all(peer);
            assert_eq!(
                stream.send(&sent, Wait::Yes(Some(PATIENCE))).unwrap(),
                sent.len()
            );
            stream.close_and_wait(PATIENCE).unwrap();
            assert!(reader.join().unwrap() == sent, "{cc} {feedback}");
            assert_eq!(runtime.totals().bytes, sent.len() as u64);
            assert!(runtime.totals().readings > 0);
            assert!(cc != "fixed:window=1" || runtime.totals().gate_closed > 0);
        }
    }
}

#[test]
fn a_quick_program_that_waits_is_served_whatever_the_size_of_its_writes() {
    for cc in ["fixed:window=2", "fixed:window=1000"] {
        for size in [16_384, 20_000, 60_000, 65_536, 200_000] {
            let runtime = runtime(cc);
            let (stream, peer) = pair(&runtime, &Options::default());
            let sent = bytes(size * 60);
            let reader = read_all(peer);
            for block in sent.chunks(size) {
                let n = stream.send(block, Wait::Yes(Some(PATIENCE))).unwrap();
                assert_eq!(n, size);
            }
            stream.close_and_wait(PATIENCE).unwrap();
            assert!(reader.join().unwrap() == sent, "{cc} {size}");
        }
    }
}

#[test]
fn time_stamps_give_rtt_samples_and_small_writes_leave_nothing_in_flight() {
    let runtime = runtime("fixed:window=10");
    let (stream, peer) = pair(&runtime, &Options::default());
    for _ in 0..20 {
        assert_eq!(stream.send(&[7; 100], Wait::No).unwrap(), 100);
    }
    wait_for("all acknowledged", || {
        stream.info().in_flight.get() == 0 && stream.info().sent == 2000
    });
    let info = stream.info();
    assert_eq!(info.feedback, "timestamps");
    assert!(!info.rtt.is_zero() && !info.plain, "{info:?}");
    drop(peer);
}

#[test]
fn a_full_queue_refuses_and_notices_follow() {
    let runtime = runtime("fixed:window=10");
    let options = Options {
        queue: Some(50_000),
        ..Options::default()
    };
    let (stream, mut peer) = pair(&runtime, &options);
    let called = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&called);
    assert!(stream.on_notice(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    let fd = stream.writable_fd().unwrap();
    let writable = || {
        let mut p = libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one pollfd.
        unsafe { libc::poll(&raw mut p, 1, 0) == 1 }
    };
    assert!(writable());
    // The peer does not read: its buffer, the kernel's and the queue fill up.
    let block = bytes(249 * 100);
    let mut sent = 0;
    let end = Instant::now() + PATIENCE;
    loop {
        match stream.send(&block[sent % 249..], Wait::No) {
            Ok(n) => sent += n,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                assert!(!writable());
                let before = sent;
                std::thread::sleep(Duration::from_millis(200));
                if !writable() && before == sent {
                    break;
                }
            }
        }
        assert!(Instant::now() < end);
    }
    assert!(stream.queued() > 50_000 * 3 / 4);
    let before = called.load(Ordering::SeqCst);
    let timed_out = loop {
        match stream.send(
            &block[sent % 249..],
            Wait::Yes(Some(Duration::from_millis(20))),
        ) {
            Ok(n) => sent += n,
            Err(why) => break why,
        }
    };
    assert_eq!(timed_out.kind(), ErrorKind::WouldBlock);
    let mut got = vec![0; sent];
    peer.read_exact(&mut got).unwrap();
    assert!(got == bytes(sent));
    wait_for("a notice", || {
        called.load(Ordering::SeqCst) > before && writable()
    });
    stream.close_and_wait(PATIENCE).unwrap();
    assert_eq!(peer.read(&mut got).unwrap(), 0);
}

#[test]
fn half_close_drains_first_and_reading_goes_on() {
    let runtime = runtime("fixed:window=2");
    let (stream, peer) = pair(&runtime, &Options::default());
    let sent = bytes(400_000);
    let mut back = peer.try_clone().unwrap();
    let reader = read_all(peer);
    assert_eq!(stream.send(&sent, Wait::No).unwrap(), sent.len());
    stream.shutdown_write();
    let refused = stream.send(b"x", Wait::No).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPIPE));
    assert!(reader.join().unwrap() == sent);
    std::io::Write::write_all(&mut back, b"answer").unwrap();
    let mut answer = [0u8; 6];
    // SAFETY: a buffer with its length; the descriptor is the stream's.
    let n = unsafe { libc::recv(stream.as_raw_fd(), answer.as_mut_ptr().cast(), 6, 0) };
    assert_eq!((n, &answer), (6, b"answer"));
    stream.close_and_wait(PATIENCE).unwrap();
}

#[test]
fn a_reset_peer_is_an_error_that_stays() {
    let runtime = runtime("fixed:window=2");
    let (stream, peer) = pair(&runtime, &Options::default());
    let sent = bytes(600_000);
    stream.send(&sent, Wait::No).unwrap();
    wait_for("the kernel to have some", || {
        stream.info().in_flight.get() > 0
    });
    drop(peer); // with bytes unread: RST
    wait_for("the error", || stream.error().is_some());
    for _ in 0..3 {
        let why = stream.send(b"x", Wait::Yes(None)).unwrap_err();
        assert!(matches!(
            why.raw_os_error(),
            Some(libc::ECONNRESET | libc::EPIPE)
        ));
    }
    assert_eq!(stream.queued(), 0);
    assert!(stream.close_and_wait(PATIENCE).is_err(), "bytes were lost");
}

#[test]
fn a_peer_that_stops_reading_meets_the_deadline() {
    let runtime = runtime("fixed:window=10");
    let (stream, mut peer) = pair(&runtime, &Options::default());
    let mut queued = 0;
    wait_for("the queue to stay full", || {
        queued += stream.send(&[1; 65_536], Wait::No).unwrap_or(0);
        std::thread::sleep(Duration::from_millis(20));
        let full = stream.queued() == 1 << 20;
        std::thread::sleep(Duration::from_millis(if full { 100 } else { 0 }));
        full && stream.queued() == 1 << 20
    });
    let began = Instant::now();
    let why = stream
        .close_and_wait(Duration::from_millis(100))
        .unwrap_err();
    assert_eq!(why.raw_os_error(), Some(libc::ETIMEDOUT));
    assert!(began.elapsed() < PATIENCE);
    let mut rest = Vec::new();
    assert_eq!(
        peer.read_to_end(&mut rest).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    assert!(rest.len() < queued);
}

#[test]
fn a_failed_algorithm_makes_plain_tcp_and_loses_nothing() {
    let settings = Settings {
        fault: Some(3),
        ..Settings::new("fixed:window=1".parse().unwrap())
    };
    let runtime = Runtime::new(settings, Registry::builtin());
    let (stream, peer) = pair(&runtime, &Options::default());
    let sent = bytes(2_000_000);
    let reader = read_all(peer);
    stream.send(&sent, Wait::Yes(Some(PATIENCE))).unwrap();
    wait_for("plain", || stream.info().plain);
    stream.close_and_wait(PATIENCE).unwrap();
    assert!(reader.join().unwrap() == sent);
}

#[test]
fn a_closed_stream_drains_in_the_background() {
    let runtime = runtime("fixed:window=2");
    let sent = bytes(200_000);
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let (stream, peer) = pair(&runtime, &Options::default());
            let reader = read_all(peer);
            stream.send(&sent, Wait::No).unwrap();
            stream.close(PATIENCE);
            reader
        })
        .collect();
    assert!(runtime.drained(PATIENCE));
    for reader in readers {
        assert!(reader.join().unwrap() == sent);
    }
}

#[test]
fn only_a_connected_tcp_socket_is_accepted() {
    let runtime = runtime("verus");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for (fd, why) in [
        (udp.as_raw_fd(), libc::EOPNOTSUPP),
        (listener.as_raw_fd(), libc::ENOTCONN),
        (-1, libc::EBADF),
        (0x7fff_ffff, libc::EBADF),
    ] {
        let error = Stream::adopt(&runtime, fd, &Options::default())
            .err()
            .unwrap();
        assert_eq!(error.raw_os_error(), Some(why));
    }
}

#[test]
fn orders_are_followed_at_the_next_reading_without_another_send() {
    let file = std::env::temp_dir().join(format!("alcc-own-{}-orders", std::process::id()));
    let segment = Segment::create(&file).unwrap();
    let command = |text: &str| segment.command(text.parse::<Command>().unwrap()).unwrap();
    let shown = || {
        segment
            .connections()
            .pop()
            .map(|it| (it.now.state, it.who.algorithm))
    };
    let is = |state, cc: &str| shown() == Some((state, cc.to_owned()));
    let runtime = Runtime::with_segment(
        Settings::new("fixed:window=2".parse().unwrap()),
        Registry::builtin(),
        Some(Arc::new(Segment::open(&file).unwrap())),
    );
    // The peer does not read, and the queue holds more than the kernel takes.
    let options = Options {
        queue: Some(60_000_000),
        ..Options::default()
    };
    let (stream, peer) = pair(&runtime, &options);
    let sent = bytes(60_000_000);
    assert_eq!(stream.send(&sent, Wait::No).unwrap(), sent.len());
    command("* cc=fixed:window=3");
    wait_for("another algorithm", || {
        is(State::Controlled, "fixed:window=3")
    });
    command("* off");
    wait_for("off", || is(State::Off, "fixed:window=3"));
    command("* on");
    wait_for("on", || is(State::Controlled, "fixed:window=3"));
    // The program's choice applies until a command sets an algorithm.
    stream.set_cc(&"fixed:window=5".parse().unwrap()).unwrap();
    wait_for("its own", || is(State::Controlled, "fixed:window=5"));
    let reader = read_all(peer);
    stream.close_and_wait(PATIENCE).unwrap();
    assert!(reader.join().unwrap() == sent);
    drop(std::fs::remove_file(&file));
}
