// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real sockets on loopback: written data arrives, with many flows at once, and a peer that
//! disappears is noticed.
#[expect(dead_code, reason = "for virtual time")]
mod support;

use alcc_cc::Spec;
use alcc_cc::conformance::Checked;
use alcc_udp::{Client, Limits, Server, Setup, Stream, unguessable};
use alcc_units::{Rng, Span};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const TURN: Span = Span::from_millis(200);
/// Everything here takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn server() -> Server {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    Server::new(socket, support::receiver_modules(), Limits::default()).expect("a server")
}

fn connect(client: &Client, to: SocketAddr, algorithm: &str, silence: Span) -> Stream {
    let spec: Spec = algorithm.parse().expect("a spec");
    client.connect(
        to,
        Setup {
            cc: Checked::registry(&alcc_zoo::registry())
                .build(&spec)
                .expect("an algorithm"),
            spec: algorithm.to_owned(),
            id: unguessable().expect("random numbers"),
            seed: 1,
            patience: Span::from_secs(30),
            silence,
        },
    )
}

fn client() -> Client {
    Client::new(UdpSocket::bind("127.0.0.1:0").expect("a port")).expect("a client")
}

/// Waits until it is open; when it began to.
fn opened(stream: &Stream) -> Instant {
    let begun = Instant::now();
    while !stream.wait_open(TURN).expect("opens") {
        assert!(begun.elapsed() < PATIENCE);
    }
    begun
}

fn send(stream: &Stream, bytes: &[u8]) {
    let begun = opened(stream);
    let mut remaining = bytes;
    while !remaining.is_empty() {
        let room = stream.room(TURN).expect("room").min(remaining.len());
        let n = stream.write(&remaining[..room]).expect("written");
        remaining = &remaining[n..];
        assert!(begun.elapsed() < PATIENCE);
    }
    while !stream.finish(TURN).expect("finishes") {
        assert!(begun.elapsed() < PATIENCE);
    }
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

#[test]
fn ten_flows_of_one_socket_arrive_and_are_answered() {
    let server = server();
    let (to, client) = (server.address(), client());
    std::thread::scope(|scope| {
        for flow in 0..10u64 {
            let client = &client;
            scope.spawn(move || {
                let algorithm =
                    ["verus", "copa", "sprout", "cubic", "fixed:window=30"][flow as usize % 5];
                let stream = connect(client, to, algorithm, Span::from_secs(30));
                // The first byte identifies the flow.
                let mut bytes = random(flow, 200_000);
                bytes[0] = flow as u8;
                send(&stream, &bytes);
                let answer = (0..100).find_map(|_| stream.answer(TURN).expect("an answer"));
                assert_eq!(answer, Some(vec![flow as u8, 7]));
                let stats = stream.stats();
                assert!(stats.packets >= 200_000 / 1367, "{stats:?}");
                assert!(
                    stats.rtt_ms.is_some_and(|(mean, _)| mean < 5000.0),
                    "{stats:?}"
                );
            });
        }
        for _ in 0..10 {
            let begun = Instant::now();
            let arrived = loop {
                if let Some(arrived) = server.accept(TURN) {
                    break arrived;
                }
                assert!(begun.elapsed() < PATIENCE);
            };
            scope.spawn(move || {
                let (mut got, mut buffer) = (Vec::<u8>::new(), [0; 10_000]);
                loop {
                    match arrived.read(&mut buffer, TURN).expect("reads") {
                        None => assert!(begun.elapsed() < PATIENCE),
                        Some(0) => break,
                        Some(n) => got.extend(&buffer[..n]),
                    }
                }
                let mut sent = random(got[0].into(), 200_000);
                sent[0] = got[0];
                assert!(got == sent);
                arrived.answer(&[got[0], 7]);
            });
        }
    });
}

#[test]
fn the_rest_of_a_packet_leaves_while_the_application_pauses() {
    let server = server();
    let client = client();
    let stream = connect(&client, server.address(), "cubic", Span::from_secs(20));
    opened(&stream);
    let arrived = server.accept(Span::from_secs(20)).expect("a flow");
    let mut buffer = [0; 5000];
    for _ in 0..3 {
        let room = stream.room(Span::from_secs(20)).expect("room");
        assert!(room > 100);
        assert_eq!(stream.write(&[1; 100]).expect("written"), 100);
        // Long before the sender would send a keep-alive.
        let got = arrived.read(&mut buffer, Span::from_secs(10));
        assert_eq!(got.expect("reads"), Some(100));
    }
}

#[test]
fn a_sender_that_gives_up_is_noticed_and_nobody_there_is_too() {
    let server = server();
    let client = client();
    let stream = connect(&client, server.address(), "cubic", Span::from_secs(20));
    opened(&stream);
    let arrived = server.accept(Span::from_secs(20)).expect("a flow");
    assert_eq!(stream.write(b"hello").expect("written"), 5);
    let mut buffer = [0; 100];
    let n = arrived
        .read(&mut buffer, Span::from_secs(20))
        .expect("reads");
    assert_eq!(n.map(|n| &buffer[..n]), Some(&b"hello"[..]));
    drop(stream);
    let error = arrived
        .read(&mut buffer, Span::from_secs(20))
        .expect_err("given up");
    assert!(error.to_string().contains("its program gave up"), "{error}");
    // The other way round.
    let stream = connect(&client, server.address(), "cubic", Span::from_secs(20));
    let arrived = server.accept(Span::from_secs(20)).expect("a flow");
    drop(arrived);
    let error = stream.finish(Span::from_secs(20)).expect_err("given up");
    assert!(error.to_string().contains("its program gave up"), "{error}");
    // A port without a listener.
    let deaf = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let spec: Spec = "cubic".parse().expect("a spec");
    let setup = Setup {
        cc: Checked::registry(&alcc_zoo::registry())
            .build(&spec)
            .expect("an algorithm"),
        spec: "cubic".to_owned(),
        id: 5,
        seed: 1,
        patience: Span::from_millis(300),
        silence: Span::from_secs(1),
    };
    let stream = client.connect(deaf.local_addr().expect("an address"), setup);
    let error = stream.wait_open(Span::from_secs(20)).expect_err("nobody");
    assert!(
        error.to_string().contains("no answer within 300ms"),
        "{error}"
    );
}
