// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a transfer when the last packets are lost, or when one end is slow: data that has
//! arrived and was answered counts as arrived.
mod support;

use alcc_quic::blocking::{Listener, Receiver};
use alcc_quic::congestion;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::{accepted, connected, tls};

const TURN: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(20);
const LEN: usize = 30_000;

/// A path between two sockets that can be cut in either direction.
#[derive(Default)]
struct Path {
    /// Towards the receiver, and back: nothing passes until then.
    cut: Mutex<[Option<Instant>; 2]>,
    over: AtomicBool,
}

impl Path {
    fn cut(&self, directions: [bool; 2], long: Duration) {
        let until = Instant::now() + long;
        *self.cut.lock().unwrap() = directions.map(|cut| cut.then_some(until));
    }

    fn passes(&self, direction: usize) -> bool {
        let until = self.cut.lock().unwrap()[direction];
        until.is_none_or(|until| Instant::now() >= until)
    }

    /// Returns the address to which the sender sends; the datagrams are forwarded to `to`.
    fn start(self: &Arc<Self>, to: SocketAddr) -> SocketAddr {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (front, back) = (UdpSocket::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
        let at = front.local_addr().unwrap();
        for socket in [&front, &back] {
            let short = Some(Duration::from_millis(1));
            socket.set_read_timeout(short).unwrap();
        }
        let path = Arc::clone(self);
        thread::spawn(move || {
            let (mut bytes, mut sender) = ([0; 2000], None);
            while !path.over.load(Ordering::SeqCst) {
                if let Ok((n, from)) = front.recv_from(&mut bytes) {
                    sender = Some(from);
                    if path.passes(0) {
                        back.send_to(&bytes[..n], to).ok();
                    }
                }
                if let (Ok((n, _)), Some(sender)) = (back.recv_from(&mut bytes), sender)
                    && path.passes(1)
                {
                    front.send_to(&bytes[..n], sender).ok();
                }
            }
        });
        at
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
    }
}

struct Over(Arc<Path>);

/// One transfer. `end`: action of the receiver after it has read everything, before its handles are
/// dropped. `pause`: time that the sender waits before it ends the stream.
fn transfer(
    pause: Duration,
    end: impl FnOnce(&mut Receiver, &Path) + Send + 'static,
) -> io::Result<Vec<u8>> {
    let (server, client) = tls();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut listener = Listener::bind(any, server).unwrap();
    let path = Arc::new(Path::default());
    let over = Over(Arc::clone(&path));
    let to = path.start(listener.address().unwrap());
    let began = Instant::now();
    let receiver = thread::spawn(move || {
        let mut receiver = accepted(&mut listener, DEADLINE);
        let (mut got, mut piece) = (0, vec![0; 1 << 16]);
        // The length is known: the end of the stream is not waited for.
        while got < LEN {
            assert!(began.elapsed() < DEADLINE, "{got} bytes came");
            got += receiver.read(&mut piece, TURN).unwrap_or(0);
        }
        end(&mut receiver, &over.0);
        let began = Instant::now();
        drop(receiver);
        drop(listener);
        (began.elapsed(), over)
    });
    let cubic = congestion("cubic").unwrap();
    let mut sender = connected(to, client, &cubic, DEADLINE);
    let data = vec![7; LEN];
    let mut remaining = &data[..];
    while !remaining.is_empty() {
        assert!(began.elapsed() < DEADLINE);
        let room = sender.room(TURN)?;
        let n = if room > 0 {
            sender.write(&remaining[..room.min(remaining.len())])?
        } else {
            0
        };
        remaining = &remaining[n..];
    }
    thread::sleep(pause);
    while !sender.finish(TURN)? {
        assert!(began.elapsed() < DEADLINE, "it does not end");
    }
    let mut answer = vec![0; 64];
    let n = loop {
        match sender.answer(&mut answer, TURN) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                assert!(began.elapsed() < DEADLINE, "no answer");
            }
            other => break other?,
        }
    };
    answer.truncate(n);
    drop(sender);
    let (lingered, _over) = receiver.join().unwrap();
    println!(
        "{:?}, of it the receiver's end {lingered:?}",
        began.elapsed()
    );
    assert!(lingered < Duration::from_secs(12), "{lingered:?}");
    Ok(answer)
}

#[test]
fn a_receiver_that_has_read_and_answered_before_the_end_of_the_stream_is_success() {
    // A busy machine: the sender ends the stream a second after its last byte has been read.
    let answer = transfer(Duration::from_secs(1), |receiver, _| {
        receiver.answer(b"thanks", DEADLINE).unwrap();
    });
    assert_eq!(answer.unwrap(), b"thanks");
}

#[test]
fn an_outage_of_two_seconds_at_the_very_end_is_outlived_in_every_direction() {
    for cut in [[true, false], [false, true], [true, true]] {
        let answer = transfer(Duration::ZERO, move |receiver, path| {
            path.cut(cut, Duration::from_secs(2));
            receiver.answer(b"thanks", DEADLINE).unwrap();
        });
        assert_eq!(answer.unwrap(), b"thanks", "{cut:?}");
    }
}
