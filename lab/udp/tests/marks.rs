// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ECN over real sockets: packets are sent with ECT, a relay marks some as a queue would, the
//! receiver reports it to the sender.
#[expect(dead_code, reason = "for virtual time")]
mod support;

use alcc_cc::Spec;
use alcc_cc::conformance::Checked;
use alcc_udp::wire::{AckBody, Datagram};
use alcc_udp::{Client, Limits, Server, Setup, unguessable};
use alcc_units::Span;
use nix::sys::socket::{setsockopt, sockopt::UdpGroSegment};
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TURN: Span = Span::from_millis(100);
/// Everything here takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counters of the relay.
#[derive(Debug, Default)]
struct Passed {
    markable: u64,
    others: u64,
    /// The number of marked bytes in the last acknowledgement.
    told: u64,
}

/// Carries datagrams between `server` and any other sender to `socket`, and marks every 20th that
/// may be.
fn relay(socket: &UdpSocket, server: SocketAddr, over: &AtomicBool) -> Passed {
    let state = UdpSocketState::new(UdpSockRef::from(socket)).expect("a socket");
    // The library has no room for the mark of several datagrams beside their length and their time.
    setsockopt(socket, UdpGroSegment, &false).expect("a socket option");
    let mut buffers = vec![vec![0; state.gro_segments().max(1) * 1500]; BATCH_SIZE];
    let (mut passed, mut client) = (Passed::default(), None);
    let begun = Instant::now();
    while !over.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE {
        let mut slices: Vec<_> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let Ok(n) = state.recv(UdpSockRef::from(socket), &mut slices, &mut metas) else {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        };
        for (meta, buffer) in metas.iter().zip(&buffers).take(n) {
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                let mut ecn = meta.ecn;
                let to = if meta.addr == server {
                    let mut body = AckBody::default();
                    if let Ok(Datagram::Ack { body: bytes, .. }) = Datagram::read(datagram)
                        && body.read(bytes).is_ok()
                    {
                        passed.told = passed.told.max(body.marked);
                    }
                    client
                } else {
                    client = Some(meta.addr);
                    if ecn == Some(EcnCodepoint::Ect0) {
                        passed.markable += 1;
                        if passed.markable.is_multiple_of(20) {
                            ecn = Some(EcnCodepoint::Ce);
                        }
                    } else {
                        passed.others += 1;
                    }
                    Some(server)
                };
                let Some(destination) = to else { continue };
                let transmit = Transmit {
                    destination,
                    ecn,
                    contents: datagram,
                    segment_size: None,
                    src_ip: None,
                };
                let _ = state.try_send(UdpSockRef::from(socket), &transmit);
            }
        }
    }
    passed
}

/// Sends this many bytes through the relay. Returns what passed, and the number of retransmissions.
fn through_relay(algorithm: &str, len: usize) -> (Passed, u64) {
    let local = || UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server =
        Server::new(local(), support::receiver_modules(), Limits::default()).expect("a server");
    let (socket, client) = (local(), Client::new(local()).expect("a client"));
    let (to, from) = (socket.local_addr().expect("an address"), server.address());
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    let in_time = || assert!(begun.elapsed() < PATIENCE);
    let spec: Spec = algorithm.parse().expect("a spec");
    let stream = client.connect(
        to,
        Setup {
            cc: Checked::registry(&alcc_zoo::registry())
                .build(&spec)
                .expect("an algorithm"),
            spec: algorithm.to_owned(),
            id: unguessable().expect("random numbers"),
            seed: 1,
            patience: Span::from_secs(30),
            silence: Span::from_secs(30),
        },
    );
    std::thread::scope(|scope| {
        let relay = scope.spawn(|| relay(&socket, from, &over));
        while !stream.wait_open(TURN).expect("opens") {
            in_time();
        }
        let (sender, receiver) = (&stream, &server);
        let writer = scope.spawn(move || {
            let mut remaining = len;
            let bytes = vec![7; 1 << 16];
            while remaining > 0 {
                let room = sender
                    .room(TURN)
                    .expect("room")
                    .min(remaining)
                    .min(bytes.len());
                remaining -= sender.write(&bytes[..room]).expect("written");
                in_time();
            }
            while !sender.finish(TURN).expect("finishes") {
                in_time();
            }
        });
        let incoming = loop {
            in_time();
            if let Some(incoming) = receiver.accept(TURN) {
                break incoming;
            }
        };
        let (mut got, mut buffer) = (0, vec![0; 1 << 16]);
        while got < len {
            in_time();
            got += incoming.read(&mut buffer, TURN).expect("data").unwrap_or(0);
        }
        // The end itself.
        while incoming.read(&mut buffer, TURN).expect("the end") != Some(0) {
            in_time();
        }
        writer.join().expect("all written");
        over.store(true, Ordering::Relaxed);
        let resent = stream.stats().retransmits;
        (relay.join().expect("a relay"), resent)
    })
}

#[test]
fn marks_reach_the_sender_of_an_algorithm_that_reacts() {
    let (passed, resent) = through_relay("cubic", 1_000_000);
    assert!(passed.markable > 500, "{passed:?}");
    // Greetings are not markable.
    assert!((1..20).contains(&passed.others), "{passed:?}");
    assert!(passed.told >= 10 * 1367, "{passed:?}");
    assert!(resent < 50, "{resent} sent again");
}

#[test]
fn an_algorithm_that_does_not_react_sends_nothing_markable() {
    let (passed, _) = through_relay("copa", 200_000);
    assert_eq!((passed.markable, passed.told), (0, 0), "{passed:?}");
    assert!(passed.others > 100, "{passed:?}");
}
