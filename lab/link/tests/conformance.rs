// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invariants of every registered queue, for arbitrary sequences of calls.
use alcc_link::queue::{Enqueue, Queued};
use alcc_link::{DropReason, Ecn, Packet, Queue, QueueKind, QueueSpec};
use alcc_units::{Bytes, Rng, Span, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug)]
enum Op {
    /// A packet of this flow, of this length.
    Enqueue(u32, u64),
    Dequeue,
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(
        prop_oneof![
            4 => (0..4_u32, 0..3000_u64).prop_map(|(flow, len)| Op::Enqueue(flow, len)),
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
        "fq_codel:flows=2,quantum=400,target=1ms,interval=3ms",
        "users:scheduler=pf,window=5ms,number=3",
        "users:slot=0s,user-bytes=4000,user-packets=2",
        "shaper:rate=100000000,burst=3000",
    ] {
        specs.push((text.parse().unwrap(), u64::MAX, u64::MAX));
    }
    specs
}

/// The packets that should be inside: one line, or one for each flow if flows may overtake each
/// other.
struct Inside {
    overtaking: bool,
    lines: BTreeMap<u32, VecDeque<Queued>>,
}

impl Inside {
    fn line(&mut self, packet: &Packet) -> &mut VecDeque<Queued> {
        let line = if self.overtaking { packet.flow } else { 0 };
        self.lines.entry(line).or_default()
    }

    /// Checks that a departed packet was at the front of its line.
    fn departs(&mut self, packet: &Packet) -> Queued {
        let first = self.line(packet).pop_front().expect("it was inside");
        assert_eq!(first.packet, *packet);
        first
    }
}

/// Runs `ops` and checks after each; what the queue did comes back.
fn check(spec: &QueueSpec, max_bytes: u64, max_packets: u64, ops: &[Op]) -> Vec<String> {
    let mut queue = spec.queue();
    let kind = QueueKind::all().find(|k| k.name == spec.spec().name);
    let overtaking = kind.unwrap().overtaking;
    let own_limits = spec.to_string().contains("user-");
    let mut rng = Rng::new(5);
    let mut now = Time::ZERO;
    let mut inside = Inside {
        overtaking,
        lines: BTreeMap::new(),
    };
    let mut did = Vec::new();
    for (id, op) in ops.iter().enumerate() {
        match op {
            Op::Wait(ns) => now += Span::from_nanos(*ns),
            Op::Enqueue(flow, len) => {
                let packet = Packet {
                    id: id as u64,
                    flow: *flow,
                    len: Bytes::new(*len),
                    ecn: Ecn::NotEct,
                };
                let full =
                    queue.bytes().get() + len > max_bytes || queue.len() as u64 >= max_packets;
                let mut drops = Vec::new();
                let answer = queue.enqueue(now, packet, &mut rng, &mut drops);
                match answer {
                    Enqueue::Taken => inside.line(&packet).push_back(Queued {
                        packet,
                        arrived: now,
                    }),
                    Enqueue::Refused(DropReason::Overflow) => {
                        assert!(full || own_limits, "room was left");
                    }
                    Enqueue::Refused(why) => assert_eq!(why, DropReason::Aqm),
                }
                assert!(full || drops.is_empty(), "room was left");
                for packet in &drops {
                    inside.departs(packet);
                }
                did.push(format!("{answer:?} {drops:?}"));
            }
            Op::Dequeue => {
                let mut drops = Vec::new();
                let was_empty = queue.is_empty();
                let head = queue.dequeue(now, &mut drops);
                // first in, first out, with its own arrival time
                for packet in &drops {
                    inside.departs(packet);
                }
                match head {
                    Some(queued) => {
                        assert_eq!(inside.departs(&queued.packet), queued);
                        assert!(queued.arrived <= now);
                    }
                    None => assert!(
                        inside.lines.values().all(VecDeque::is_empty) || queue.ready() > now,
                        "it holds back what it has"
                    ),
                }
                assert!(!was_empty || head.is_none() && drops.is_empty());
                did.push(format!("{head:?} {drops:?}"));
            }
        }
        let len: usize = inside.lines.values().map(VecDeque::len).sum();
        let waiting = inside.lines.values().flatten();
        let bytes: Bytes = waiting.map(|q| q.packet.len).sum();
        assert_eq!((queue.len(), queue.bytes()), (len, bytes));
        assert!(bytes.get() <= max_bytes && len as u64 <= max_packets);
    }
    did
}

proptest! {
    #[test]
    fn packets_are_conserved_in_order_within_limits(ops in ops()) {
        for (spec, bytes, packets) in specs() {
            let first = check(&spec, bytes, packets, &ops);
            prop_assert_eq!(first, check(&spec, bytes, packets, &ops), "{} is not deterministic", spec);
        }
    }

    #[test]
    fn what_reads_as_a_queue_prints_back(
        text in "(droptail|red|codel|pie|fq_codel|users|[a-z]{0,5}):?((bytes|packets|min|max|p|idle|target|[a-z]{1,4})=[-0-9a-zM.%]{0,6},?){0,4}",
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
            Op::Enqueue(flow, len) => {
                let packet = Packet {
                    id: out.len() as u64,
                    flow: *flow,
                    len: Bytes::new(*len),
                    ecn: Ecn::NotEct,
                };
                queue.enqueue(*now, packet, &mut rng, &mut Vec::new());
            }
            Op::Dequeue => out.push(queue.dequeue(*now, &mut Vec::new())),
        }
    }
    out
}
