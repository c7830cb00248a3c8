// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks on real packets: datagrams that may be marked, through a queue that marks.
use crate::starts::first_right;
use crate::support;
use alcc_cc::Spec;
use alcc_emu::{Dir, Observer, PathSpec};
use alcc_link::{DirectionSpec, Ecn, Outcome, RateSpec};
use alcc_udp::{Client, Limits, Server, Setup};
use alcc_units::{Rate, Span, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TURN: Span = Span::from_millis(100);
const BYTES: usize = 5_000_000;

/// Packets upwards that left with a mark, and that were dropped.
#[derive(Clone, Default)]
struct Counted(Arc<[AtomicU64; 2]>);

impl Observer for Counted {
    fn event(&mut self, dir: Dir, outcome: &Outcome, _: Time) {
        match (dir, outcome) {
            (Dir::Up, Outcome::Departed { packet, .. }) if packet.ecn == Ecn::Ce => {
                self.0[0].fetch_add(1, Ordering::Relaxed);
            }
            (Dir::Up, Outcome::Dropped { .. }) => {
                self.0[1].fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// Sends up through CoDel: packets marked, dropped, and sent again.
fn through_codel(algorithm: &str) -> (u64, u64, u64) {
    let direction = |rate, queue: &str| DirectionSpec {
        rate,
        queue: queue.parse().unwrap(),
        delay: Span::from_millis(10),
        ..DirectionSpec::default()
    };
    let spec = PathSpec {
        down: direction(RateSpec::Unlimited, "droptail"),
        up: direction(RateSpec::Fixed(Rate::mbps(10)), "codel"),
        seed: 1,
    };
    let counted = Counted::default();
    let (outside, inside, link) = support::link(spec, Box::new(counted.clone()));
    let server = support::socket(&outside, link.outside_addr());
    let client = support::socket(&inside, link.inside_addr());
    let halves = Box::new(|_: &str| Ok(None));
    let server = Server::new(server, halves, Limits::default()).unwrap();
    let client = Client::new(client).unwrap();
    let spec: Spec = algorithm.parse().unwrap();
    let setup = Setup {
        cc: alcc_zoo::registry().build(&spec).unwrap(),
        spec: algorithm.to_owned(),
        id: 7,
        seed: 1,
        patience: Span::from_secs(30),
        silence: Span::from_secs(30),
    };
    let stream = client.connect(server.address(), setup);
    let begun = Instant::now();
    let in_time = || assert!(begun.elapsed() < Duration::from_secs(60));
    while !stream.wait_open(TURN).unwrap() {
        in_time();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let incoming = loop {
                in_time();
                if let Some(incoming) = server.accept(TURN) {
                    break incoming;
                }
            };
            let (mut got, mut buffer) = (0, vec![0; 1 << 16]);
            loop {
                in_time();
                match incoming.read(&mut buffer, TURN).unwrap() {
                    Some(0) => break,
                    n => got += n.unwrap_or(0),
                }
            }
            assert_eq!(got, BYTES);
        });
        let (mut remaining, bytes) = (BYTES, vec![7; 1 << 16]);
        while remaining > 0 {
            in_time();
            let room = stream.room(TURN).unwrap().min(remaining).min(bytes.len());
            remaining -= stream.write(&bytes[..room]).unwrap();
        }
        while !stream.finish(TURN).unwrap() {
            in_time();
        }
    });
    let resent = stream.stats().retransmits;
    drop((stream, client, server));
    link.stop().unwrap();
    let [marked, dropped] = [0, 1].map(|i: usize| counted.0[i].load(Ordering::Relaxed));
    (marked, dropped, resent)
}

/// Four seconds of Cubic over 10 Mbit/s: CoDel has to signal congestion, and does so without a
/// drop.
pub(crate) fn a_sender_that_reacts_to_marks_loses_nothing() {
    // A host that has to wait for a processor takes late packets for lost.
    let reacts = || through_codel("cubic");
    let (marked, dropped, resent) = first_right(3, reacts, |(_, _, resent)| *resent == 0);
    assert!(marked > 3, "{marked} marked");
    assert_eq!((dropped, resent), (0, 0), "{marked} marked");
}

pub(crate) fn a_sender_that_does_not_is_not_marked() {
    let (marked, dropped, _) = through_codel("fixed:window=200");
    assert_eq!(marked, 0);
    assert!(dropped > 3, "{dropped} dropped");
}
