// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every registered queue keeps, whatever is done to it.
use alcc_link::queue::{Enqueue, Queued};
use alcc_link::{DropReason, Packet, Queue, QueueKind, QueueSpec};
use alcc_units::{Bytes, Rng, Span, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Op {
    Enqueue(u64),
    Dequeue,
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(
        prop_oneof![
            4 => (0..3000_u64).prop_map(Op::Enqueue),
            3 => Just(Op::Dequeue),
            1 => (0..300_000_000_u64).prop_map(Op::Wait),
        ],
        0..400,
    )
}

/// Every queue as it comes, and with limits that bind.
fn specs() -> Vec<(QueueSpec, u64, u64)> {
    let mut specs = Vec::new();
    for kind in QueueKind::all() {
        let takes = |name| kind.options.iter().any(|o| o.name == name);
        assert!(
            takes("bytes") && takes("packets"),
            "{} has no limits",
            kind.name
        );
        for (options, bytes, packets) in [
            ("", u64::MAX, u64::MAX),
            (":bytes=5000", 5000, u64::MAX),
            (":packets=3", u64::MAX, 3),
            (":bytes=9000,packets=7", 9000, 7),
        ] {
            let text = format!("{}{options}", kind.name);
            specs.push((text.parse().unwrap(), bytes, packets));
        }
    }
    // management that has work to do with so few packets
    for text in [
        "red:min=1000,max=6000,p=0.5,weight=0.5",
        "codel:target=1ms,interval=3ms",
        "pie:target=1us,update=1ms,alpha=100,beta=100,burst=0s",
    ] {
        specs.push((text.parse().unwrap(), u64::MAX, u64::MAX));
    }
    specs
}

/// Runs `ops` and checks after each; what the queue did comes back.
fn check(mut queue: Box<dyn Queue>, max_bytes: u64, max_packets: u64, ops: &[Op]) -> Vec<String> {
    let mut rng = Rng::new(5);
    let mut now = Time::ZERO;
    let mut inside: VecDeque<Queued> = VecDeque::new();
    let mut did = Vec::new();
    for (id, op) in ops.iter().enumerate() {
        match op {
            Op::Wait(ns) => now += Span::from_nanos(*ns),
            Op::Enqueue(len) => {
                let packet = Packet {
                    id: id as u64,
                    flow: 0,
                    len: Bytes::new(*len),
                };
                let mut drops = Vec::new();
                let answer = queue.enqueue(now, packet, &mut rng, &mut drops);
                assert!(drops.is_empty());
                let full =
                    queue.bytes().get() + len > max_bytes || queue.len() as u64 >= max_packets;
                match answer {
                    Enqueue::Taken => inside.push_back(Queued {
                        packet,
                        arrived: now,
                    }),
                    Enqueue::Refused(DropReason::Overflow) => assert!(full, "room was left"),
                    Enqueue::Refused(why) => assert_eq!(why, DropReason::Aqm),
                }
                did.push(format!("{answer:?}"));
            }
            Op::Dequeue => {
                let mut drops = Vec::new();
                let was_empty = queue.is_empty();
                let head = queue.dequeue(now, &mut drops);
                // first in, first out: what left, left from the front, with its own arrival time
                for packet in &drops {
                    assert_eq!(inside.pop_front().map(|q| q.packet), Some(*packet));
                }
                match head {
                    Some(queued) => {
                        assert_eq!(inside.pop_front(), Some(queued));
                        assert!(queued.arrived <= now);
                    }
                    None => assert!(inside.is_empty(), "it holds back what it has"),
                }
                assert!(!was_empty || head.is_none() && drops.is_empty());
                did.push(format!("{head:?} {drops:?}"));
            }
        }
        assert_eq!(queue.len(), inside.len());
        let bytes: Bytes = inside.iter().map(|q| q.packet.len).sum();
        assert_eq!(queue.bytes(), bytes);
        assert!(bytes.get() <= max_bytes && inside.len() as u64 <= max_packets);
    }
    did
}

proptest! {
    #[test]
    fn packets_are_conserved_in_order_within_limits(ops in ops()) {
        for (spec, bytes, packets) in specs() {
            let first = check(spec.queue(), bytes, packets, &ops);
            prop_assert_eq!(first, check(spec.queue(), bytes, packets, &ops), "{} is not deterministic", spec);
        }
    }

    #[test]
    fn what_reads_as_a_queue_prints_back(
        text in "(droptail|red|codel|pie|[a-z]{0,5}):?((bytes|packets|min|max|p|idle|target|[a-z]{1,4})=[-0-9a-zM.%]{0,6},?){0,4}",
        any: String,
    ) {
        drop(any.parse::<QueueSpec>());
        if let Ok(spec) = text.parse::<QueueSpec>() {
            prop_assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn a_duplicate_goes_on_alike(before in ops(), after in ops()) {
        for (spec, ..) in specs() {
            let mut queue = spec.queue();
            let mut now = Time::ZERO;
            run(&mut *queue, &mut now, &before);
            let mut copy = queue.duplicate();
            let mut then = now;
            prop_assert_eq!(run(&mut *queue, &mut now, &after), run(&mut *copy, &mut then, &after));
        }
    }
}

fn run(queue: &mut dyn Queue, now: &mut Time, ops: &[Op]) -> Vec<Option<Queued>> {
    let mut rng = Rng::new(9);
    let mut out = Vec::new();
    for op in ops {
        match op {
            Op::Wait(ns) => *now += Span::from_nanos(*ns),
            Op::Enqueue(len) => {
                let packet = Packet {
                    id: out.len() as u64,
                    flow: 0,
                    len: Bytes::new(*len),
                };
                queue.enqueue(*now, packet, &mut rng, &mut Vec::new());
            }
            Op::Dequeue => out.push(queue.dequeue(*now, &mut Vec::new())),
        }
    }
    out
}
