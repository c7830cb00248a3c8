// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sender that gets the processor late must not take its own lateness for a property of the path.
use super::*;

const STEP: Span = Span::from_micros(100);
/// One way.
const DELAY: Span = Span::from_micros(100);
/// Time of a byte at 100 Mbit/s.
const PER_BYTE: Span = Span::from_nanos(80);
const PEER_READS: Span = Span::from_millis(5);

/// The share of a path that a sender with `cc` uses, and the mean queueing delay: 100 Mbit/s one
/// way, 0.2 ms round trip. The sender runs every `each_ms` (a fifth more or less). `known`: the
/// stream below reports arrival times, as TCP does and TLS does not.
fn share(cc: &str, each_ms: f64, known: bool) -> (f64, Span) {
    let [mut sender, mut peer] = pair(cc);
    let mut rng = Rng::new(1);
    let block = vec![7; 1 << 20];
    let mut there: VecDeque<(Time, Vec<u8>)> = VecDeque::new();
    let mut back: VecDeque<(Time, Vec<u8>)> = VecDeque::new();
    let (from, until) = (at(2_000), at(12_000));
    let (mut free, mut sender_at, mut peer_at) = (at(2), at(2), at(2));
    let (mut sender_read, mut peer_read) = (at(2), at(2));
    let (mut arrived, mut waited) = (0u64, Span::ZERO);
    let mut now = at(2);
    while now < until {
        if now >= peer_at {
            while there.front().is_some_and(|(at, _)| *at <= now) {
                let (_, wire) = there.pop_front().unwrap();
                arrived += if now > from { wire.len() as u64 } else { 0 };
                let when = When {
                    since: peer_read,
                    ..When::exactly(now)
                };
                peer.on_bytes(when, &wire, &mut []);
                peer.read(now, &mut [0; 2000]);
            }
            peer_read = now;
            peer.on_timer(now);
            let (wire, _) = drain(&mut peer, now, &[]);
            if !wire.is_empty() {
                back.push_back((now + DELAY, wire));
            }
            peer_at = now + PEER_READS;
        }
        if now >= sender_at {
            let mut all = Vec::new();
            let mut last = sender_read;
            while back.front().is_some_and(|(at, _)| *at <= now) {
                let (came, wire) = back.pop_front().unwrap();
                last = came;
                all.extend(wire);
            }
            if !all.is_empty() {
                let at = if known { last } else { now };
                let when = When {
                    since: sender_read,
                    at,
                    now,
                };
                sender.on_bytes(when, &all, &mut []);
            }
            sender_read = now;
            assert_eq!(sender.error(), None);
            sender.on_timer(now);
            let (wire, _) = drain(&mut sender, now, &block);
            for packet in wire.chunks(1448) {
                if now > from {
                    waited += free.since(now) * packet.len() as u64;
                }
                free = free.max(now) + PER_BYTE * packet.len() as u64;
                there.push_back((free + DELAY, packet.to_vec()));
            }
            let ms = each_ms * (0.8 + 0.4 * rng.unit());
            sender_at = now + Span::from_millis(1).mul_f64(ms);
        }
        now += STEP;
    }
    let most = until.since(from).as_nanos() / PER_BYTE.as_nanos();
    (arrived as f64 / most as f64, waited / arrived.max(1))
}

#[test]
fn lateness_is_not_a_slower_path() {
    for known in [true, false] {
        for each_ms in [1.0, 5.0, 10.0, 20.0] {
            let (share, wait) = share("budget", each_ms, known);
            println!("each {each_ms} ms, times known {known}: {share:.2} of the link, {wait:?}");
            assert!(share >= 0.97, "each {each_ms} ms, {known}: {share}");
            let most = Span::from_millis(if each_ms < 20.0 { 25 } else { 30 });
            assert!(wait <= most, "each {each_ms} ms, {known}: {wait:?}");
        }
    }
}
