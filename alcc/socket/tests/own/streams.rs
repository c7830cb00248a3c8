// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traits of the standard library: as on a TcpStream, with a queue.
use super::{PATIENCE, bytes, pair, read_all, runtime};
use crate::wait::wait_for;
use alcc_socket::own::{Options, Stream};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{sync::Arc, sync::Mutex, thread};

/// So small that a writer has to wait.
const SMALL: Options = Options {
    cc: None,
    feedback: None,
    queue: Some(20_000),
};

#[test]
fn a_copy_comes_back_whole_through_an_echo() {
    for cc in ["fixed:window=10", "budget"] {
        let runtime = runtime(cc);
        let (stream, peer) = pair(&runtime, &SMALL);
        thread::spawn(move || {
            std::io::copy(&mut &peer, &mut &peer).unwrap();
            peer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let sent = bytes(3_000_000);
        let got = thread::scope(|threads| {
            let reader = threads.spawn(|| {
                let mut got = Vec::new();
                (&stream).read_to_end(&mut got).unwrap();
                got
            });
            std::io::copy(&mut sent.as_slice(), &mut &stream).unwrap();
            (&stream).flush().unwrap();
            stream.shutdown_write();
            reader.join().unwrap()
        });
        assert!(got == sent, "{cc}");
        assert_eq!((&stream).read(&mut [0; 9]).unwrap(), 0);
        let refused = (&stream).write(b"x").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
        stream.close_and_wait(PATIENCE).unwrap();
        for closed in [(&stream).read(&mut [0]), (&stream).write(&[0])] {
            assert_eq!(closed.unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
    }
}

/// Writes until nothing fits for 200 ms. Returns the number of bytes, and whether a write took a part
/// of what it was given.
fn fill(mut stream: &Stream) -> (usize, bool) {
    let block = bytes(249 * 100);
    let (mut sent, mut part, mut last) = (0, false, Instant::now());
    while last.elapsed() < Duration::from_millis(200) {
        let given = &block[sent % 249..];
        match stream.write(given) {
            Ok(n) => {
                part |= n < given.len();
                sent += n;
                last = Instant::now();
            }
            Err(why) => {
                assert_eq!(why.kind(), ErrorKind::WouldBlock);
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
    (sent, part)
}

#[test]
fn a_nonblocking_descriptor_never_waits() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    let runtime = runtime("fixed:window=10");
    let mut stream = Stream::new(&runtime, socket.into(), &SMALL).unwrap();
    let none = stream.read(&mut [0; 9]).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::WouldBlock);
    let (sent, part) = fill(&stream);
    assert!(part, "every write took all or nothing");
    let mut got = vec![0; sent];
    peer.read_exact(&mut got).unwrap();
    assert!(got == bytes(sent));
    peer.write_all(b"answer").unwrap();
    let mut answer = [0; 9];
    wait_for("the answer", || {
        stream.read(&mut answer).is_ok_and(|n| n == 6)
    });
    drop(peer);
    wait_for("the end", || stream.read(&mut answer).is_ok_and(|n| n == 0));
}

#[test]
fn the_time_limits_of_the_socket_hold() {
    let runtime = runtime("fixed:window=10");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    socket
        .set_write_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut stream = Stream::new(&runtime, socket.into(), &SMALL).unwrap();
    let late = stream.read(&mut [0; 9]).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::WouldBlock);
    let (sent, _) = fill(&stream);
    stream.shutdown_write();
    assert!(read_all(peer).join().unwrap() == bytes(sent));
}

#[test]
fn the_end_of_a_broken_connection_is_its_error() {
    let runtime = runtime("fixed:window=2");
    let (mut stream, peer) = pair(&runtime, &Options::default());
    stream.write_all(&bytes(600_000)).unwrap();
    wait_for("the kernel to have some", || {
        stream.info().in_flight.get() > 0
    });
    drop(peer); // with bytes unread: RST
    wait_for("the error", || stream.error().is_some());
    for _ in 0..2 {
        let why = stream.read(&mut [0; 9]).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::ConnectionReset);
    }
    assert!(stream.flush().is_err());
}

/// The end of a task that owns a stream, with its last waker.
struct Task(Mutex<Option<Arc<Stream>>>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[test]
fn a_notice_may_drop_the_stream() {
    let runtime = runtime("fixed:window=10");
    let (stream, peer) = pair(&runtime, &SMALL);
    let task = Arc::new(Task(Mutex::new(Some(Arc::new(stream)))));
    let waker = Waker::from(Arc::clone(&task));
    let block = bytes(249 * 2);
    let (mut sent, mut last) = (0, Instant::now());
    // The peer does not read: in the end the task waits.
    while last.elapsed() < Duration::from_millis(200) {
        let Some(stream) = task.0.lock().unwrap().clone() else {
            break;
        };
        let mut cx = Context::from_waker(&waker);
        if let Poll::Ready(n) = stream.poll_send(&mut cx, &block[sent % 249..]) {
            sent += n.unwrap();
            last = Instant::now();
        }
    }
    let got = read_all(peer).join().unwrap();
    assert!(got == bytes(sent));
    assert!(task.0.lock().unwrap().is_none() && runtime.drained(PATIENCE));
}
