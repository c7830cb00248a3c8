// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams over real sockets.
use alcc_cc::Registry;
use alcc_cc::conformance::Checked;
use alcc_inband::carrier::{Tcp, Unix};
use alcc_inband::{Settings, Stream};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

fn settings(cc: &str) -> Settings {
    Settings::new(cc.parse().unwrap())
}

fn registry() -> Arc<Registry> {
    Arc::new(Checked::registry(&alcc_zoo::registry()))
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

/// Connects to a peer that answers with `said` and then acts as `then`. Returns the error.
fn stranger(said: &'static [u8], stays: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let there = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut hello = [0; 8];
        socket.read_exact(&mut hello).unwrap();
        socket.write_all(said).unwrap();
        if stays {
            let _ = socket.read_to_end(&mut Vec::new());
        }
    });
    let socket = TcpStream::connect(at).unwrap();
    // A peer may send its preface late.
    let mut settings = settings("verus");
    if said.is_empty() && stays {
        settings.handshake = alcc_units::Span::from_millis(200);
    }
    let result = Stream::connect(Tcp::new(socket).unwrap(), &registry(), settings);
    let why = result.err().expect("refused").to_string();
    there.join().unwrap();
    assert!(!why.contains('\n'));
    why
}

#[test]
fn strangers_are_refused_in_one_line_and_in_time() {
    let began = std::time::Instant::now();
    let http = stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n", false);
    assert!(http.contains("an HTTP answer"), "{http}");
    let ssh = stranger(b"SSH-2.0-OpenSSH_9.2p1\r\n", true);
    assert!(ssh.contains("an SSH banner"), "{ssh}");
    let nothing = stranger(b"", true);
    assert!(nothing.contains("within 200 ms"), "{nothing}");
    let old = stranger(b"ALCC\r\n\x1a\n\x00", true);
    assert!(old.contains("version 0"), "{old}");
    let gone = stranger(b"", false);
    assert!(
        gone.contains("ended in the middle") || gone.contains("reset"),
        "{gone}"
    );
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_stranger_receives_no_answer() {
    let (mut client, server) = UnixStream::pair().unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let why = Stream::accept(Unix::new(server).unwrap(), &registry(), settings("verus"));
    let why = why.err().expect("refused").to_string();
    assert!(why.contains("GET / HTTP/1.1"), "{why}");
    let mut said = Vec::new();
    client.read_to_end(&mut said).unwrap();
    assert!(said.is_empty());
}

#[test]
fn both_directions_at_once_from_two_threads_each() {
    let (here, there) = tcp("copa");
    let sent = [pattern(2_000_000), pattern(1_500_000)];
    std::thread::scope(|scope| {
        for (i, stream) in [&here, &there].into_iter().enumerate() {
            let (mine, theirs) = (&sent[i], &sent[1 - i]);
            scope.spawn(move || {
                (&mut &*stream).write_all(mine).unwrap();
                assert!(stream.finish(Duration::from_secs(20)).unwrap());
            });
            scope.spawn(move || {
                let mut got = Vec::new();
                (&mut &*stream).read_to_end(&mut got).unwrap();
                assert!(got == *theirs);
            });
        }
    });
}

#[test]
fn writing_first_and_reading_later_does_not_hang() {
    // Each end writes 1 MB before it reads anything: more than the sockets hold, less than the
    // receive buffers of 4 MiB.
    let (here, there) = tcp("cubic");
    let sent = pattern(1_000_000);
    std::thread::scope(|scope| {
        for stream in [&here, &there] {
            let sent = &sent;
            scope.spawn(move || {
                (&mut &*stream).write_all(sent).unwrap();
                assert!(stream.finish(Duration::from_secs(20)).unwrap());
                let mut got = Vec::new();
                (&mut &*stream).read_to_end(&mut got).unwrap();
                assert!(got == *sent);
            });
        }
    });
}

#[test]
fn acknowledgements_go_without_a_thread_in_a_call() {
    let (mut here, there) = tcp("verus");
    here.write_all(&pattern(500_000)).unwrap();
    // `there` is not touched: the background acknowledges for it.
    assert!(here.finish(Duration::from_secs(20)).unwrap());
    let mut got = Vec::new();
    (&there).read_to_end(&mut got).unwrap();
    assert!(got == pattern(500_000));
}

#[test]
fn a_stream_that_rested_is_looked_after_again() {
    let (mut here, mut there) = tcp("verus");
    for call in [true, false, true, true, false, false] {
        // Long enough for the background to leave it to its descriptor.
        std::thread::sleep(Duration::from_millis(120));
        here.write_all(b"hello").unwrap();
        let began = std::time::Instant::now();
        while here.info().in_flight != alcc_units::Bytes::ZERO {
            assert!(began.elapsed() < Duration::from_secs(5), "no answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        if call {
            there.read_exact(&mut [0; 5]).unwrap();
        }
    }
}

#[test]
fn a_peer_that_gives_up_or_vanishes_is_an_error_here() {
    let (mut here, there) = tcp("verus");
    here.write_all(b"hello").unwrap();
    there.abort();
    let why = here.read(&mut [0; 10]).unwrap_err();
    assert!(why.to_string().contains("its application gave up"), "{why}");
    assert!(here.write(b"more").is_err() && here.finish(Duration::from_secs(1)).is_err());

    let (mut here, there) = tcp("verus");
    drop(there);
    let mut written = 0;
    let why = loop {
        match here.write(&[1; 100_000]) {
            Ok(n) => written += n,
            Err(why) => break why,
        }
        assert!(written < 1 << 30);
    };
    assert!(!why.to_string().is_empty());
}

#[test]
fn finishing_after_the_peer_has_left_in_good_order() {
    let (mut here, there) = tcp("verus");
    let peer = std::thread::spawn(move || {
        assert!(there.finish(Duration::from_secs(20)).unwrap());
    });
    assert_eq!(here.read(&mut [0; 10]).unwrap(), 0);
    peer.join().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(here.finish(Duration::from_secs(1)).unwrap());
    assert!(here.error().is_none());
}

#[test]
fn the_kernel_looks_after_a_silent_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let same = socket.try_clone().unwrap();
    let carrier = Tcp::new(socket).unwrap();
    let _stream = Stream::begin(carrier, &registry(), settings("verus"), true).unwrap();
    let read = |level, name| {
        let (mut value, mut len) = (0i32, 4);
        // SAFETY: pointer and length describe an int.
        unsafe {
            let at = (&raw mut value).cast();
            libc::getsockopt(same.as_raw_fd(), level, name, at, &raw mut len);
        }
        value
    };
    assert_eq!(read(libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
    let names = [libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL, libc::TCP_KEEPCNT];
    assert_eq!(names.map(|name| read(libc::IPPROTO_TCP, name)), [60, 15, 4]);
}

#[test]
fn a_read_with_patience_comes_back() {
    let (mut here, there) = tcp("verus");
    here.set_patience(Some(Duration::from_millis(20)));
    let why = here.read(&mut [0; 10]).unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::WouldBlock);
    (&there).write_all(b"now").unwrap();
    here.set_patience(Some(Duration::from_secs(10)));
    let mut got = [0; 3];
    here.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"now");
}

/// One thread reads and another writes: the reader sleeps for both, and passes on what it receives.
#[test]
fn a_reader_that_waits_does_not_slow_a_writer_down() {
    // Windows of ten packets: each waits for an acknowledgement.
    let took = |reads: bool| {
        let (mut here, there) = tcp("fixed:window=10");
        let peer = std::thread::spawn(move || {
            let mut got = vec![0; 1 << 16];
            let mut remaining = 2_000_000;
            while remaining > 0 {
                remaining -= (&there).read(&mut got).unwrap();
            }
            (&there).write_all(b"thanks").unwrap();
            assert!(there.finish(Duration::from_secs(20)).unwrap());
        });
        let reader = here.clone();
        let reader =
            reads.then(|| std::thread::spawn(move || (&reader).read_exact(&mut [0; 6]).unwrap()));
        std::thread::sleep(Duration::from_millis(100));
        let began = std::time::Instant::now();
        here.write_all(&pattern(2_000_000)).unwrap();
        let took = began.elapsed();
        match reader {
            Some(reader) => reader.join().unwrap(),
            None => here.read_exact(&mut [0; 6]).unwrap(),
        }
        assert!(here.finish(Duration::from_secs(20)).unwrap());
        peer.join().unwrap();
        took
    };
    let best = |reads| (0..3).map(|_| took(reads)).min().unwrap();
    let (alone, beside) = (best(false), best(true));
    println!("alone {alone:?}, beside a reader {beside:?}");
    // It was some twenty times as long. A wake-up more for each window is the price.
    assert!(beside < alone * 3 + Duration::from_millis(100));
}

/// Number of sleeps and wake-ups of the threads with this name, and the signals that they block.
fn threads(name: &str) -> Vec<(u64, u64)> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let status = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let field = |field: &str| {
            let line = status.lines().find(|line| line.starts_with(field))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        if field("Name")? != name {
            return None;
        }
        let blocked = u64::from_str_radix(&field("SigBlk")?, 16).ok()?;
        Some((field("voluntary_ctxt_switches")?.parse().ok()?, blocked))
    };
    tasks.filter_map(|task| status(task.unwrap())).collect()
}

#[test]
fn idle_streams_wake_no_thread_with_or_without_a_reader() {
    // In a process of its own: other tests use the same thread.
    if std::env::var_os("ALONE").is_none() {
        let this = std::env::current_exe().unwrap();
        let name = "idle_streams_wake_no_thread_with_or_without_a_reader";
        let run = std::process::Command::new(this)
            .args([name, "--exact", "--nocapture"])
            .env("ALONE", "1")
            .status();
        assert!(run.unwrap().success());
        return;
    }
    let mut kept = Vec::new();
    for reads in [false, true] {
        for _ in 0..50 {
            let (mut here, there) = tcp("verus");
            here.write_all(b"hello").unwrap();
            (&there).read_exact(&mut [0; 5]).unwrap();
            if reads {
                let reader = there.clone();
                std::thread::Builder::new()
                    .name("reader".to_owned())
                    .spawn(move || (&reader).read(&mut [0; 1]).map(drop))
                    .unwrap();
            }
            kept.push((here, there));
        }
    }
    let woken = |name| threads(name).iter().map(|(woken, _)| woken).sum::<u64>();
    let in_a_second = || {
        let before = ["alcc-inband", "reader"].map(woken);
        std::thread::sleep(Duration::from_secs(1));
        let after = ["alcc-inband", "reader"].map(woken);
        println!("{before:?} {after:?}");
        [after[0] - before[0], after[1] - before[1]]
    };
    // A busy machine takes a while to put them all to sleep. Streams that wake somebody wake him in
    // every second: it was forty times for each with a reader.
    let quiet = (0..20).any(|_| in_a_second().iter().all(|&times| times < 10));
    assert!(quiet);
    assert_eq!(threads("reader").len(), 50);
    // All but those that cannot be blocked: SIGKILL, SIGSTOP, and the two of the C library.
    let blocked = threads("alcc-inband")[0].1;
    let all = !(1u64 << (libc::SIGKILL - 1)) & !(1 << (libc::SIGSTOP - 1)) & !(3 << 31);
    assert_eq!(blocked & all, all, "{blocked:x}");
    // They still notice arriving data.
    for (_, there) in &mut kept {
        drop(there.error());
    }
    let (here, _there) = &mut kept[99];
    here.write_all(b"x").unwrap();
    assert!(here.finish(Duration::from_secs(5)).is_ok());
}
