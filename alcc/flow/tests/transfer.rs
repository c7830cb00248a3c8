// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A transfer completes whatever a path does to packets: every byte once, in bounded time and
//! memory.
use alcc_cc::conformance::Checked;
use alcc_flow::rules::{AckRule, DATAGRAMS, LINUX, LINUX_2_6_24, LINUX_3_16, WINDOWS_7};
use alcc_flow::{Ack, Receiver, Rules, Sender, Transmit};
use alcc_units::{Bytes, Rng, Span, Time};
use proptest::prelude::*;

/// A path with chance in it.
#[derive(Clone, Debug)]
struct Path {
    loss: f64,
    duplicates: f64,
    /// Each packet takes 10 ms and up to this much more.
    jitter_ms: u64,
    seed: u64,
}

enum Content {
    Data(Transmit),
    Ack(Ack),
}

struct World {
    path: Path,
    rng: Rng,
    /// By time, then number.
    travelling: std::collections::BTreeMap<(Time, u64), Content>,
    count: u64,
}

impl World {
    fn push(&mut self, now: Time, make: impl Fn() -> Content) {
        let copies = 1 + u64::from(self.rng.chance(self.path.duplicates));
        for _ in 0..copies {
            let jitter = self.rng.below(self.path.jitter_ms * 1_000_000 + 1);
            self.count += 1;
            if !self.rng.chance(self.path.loss) {
                let at = now + Span::from_millis(10) + Span::from_nanos(jitter);
                self.travelling.insert((at, self.count), make());
            }
        }
    }
}

/// Sends `len` bytes; returns when all had arrived and been acknowledged, and the most that was
/// remembered.
fn transfer(cc: &str, rules: &Rules, len: u64, path: &Path) -> (Time, usize) {
    let controller = Checked::registry(&alcc_zoo::registry())
        .build(&cc.parse().unwrap())
        .unwrap();
    let per_packet = controller.needs().per_packet_ack;
    let mut sender = Sender::new(controller, rules, Time::ZERO, None, path.seed);
    let mut receiver = Receiver::new(rules);
    if per_packet {
        receiver = receiver.acknowledging(AckRule::EACH);
    }
    let mut world = World {
        path: path.clone(),
        rng: Rng::new(path.seed),
        travelling: std::collections::BTreeMap::new(),
        count: 0,
    };
    let (mut now, mut written, mut most, mut steps) = (Time::ZERO, 0, 0, 0);
    sender.start(now);
    while !(written == len && sender.is_done()) {
        steps += 1;
        assert!(steps < 400_000, "it does not end: {now}");
        written += sender.write(Bytes::new(len - written)).get();
        while let Some(data) = sender.poll_transmit(now) {
            assert!(data.end() <= len);
            world.push(now, || Content::Data(data));
        }
        while let Some(ack) = receiver.poll_ack(now) {
            world.push(now, || Content::Ack(ack));
        }
        most = most.max(sender.remembered() + receiver.remembered());
        let mut next = world.travelling.keys().next().map(|(at, _)| *at);
        for timer in [sender.next_timer(), receiver.next_timer()] {
            next = match (next, timer) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        now = now.max(next.expect("something is going to happen"));
        while let Some(entry) = world.travelling.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Content::Data(data) => receiver.on_data(now, &data),
                Content::Ack(ack) => sender.on_ack(now, &ack).unwrap(),
            }
        }
        sender.on_timer(now);
        assert!(sender.in_flight() <= Bytes::new(1 << 30));
    }
    assert_eq!(receiver.cumulative_ack(), len);
    assert_eq!(sender.in_flight(), Bytes::ZERO);
    (now, most)
}

const RULES: &[&Rules] = &[&LINUX, &LINUX_3_16, &LINUX_2_6_24, &WINDOWS_7, &DATAGRAMS];
const ALGORITHMS: &[&str] = &[
    "reno",
    "cubic",
    "bbr",
    "fixed:window=40",
    "copa",
    "westwood",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").map_or(96, |n| n.parse().unwrap()), ..ProptestConfig::default() })]
    #[test]
    fn every_byte_arrives_once(
        loss in prop_oneof![Just(0.0), 0.0f64..0.3],
        duplicates in prop_oneof![Just(0.0), 0.0f64..0.3],
        jitter_ms in prop_oneof![Just(0u64), 0u64..80],
        len in 1u64..200_000,
        rules in 0..RULES.len(),
        algorithm in 0..ALGORITHMS.len(),
        seed: u64,
    ) {
        let path = Path { loss, duplicates, jitter_ms, seed };
        let (took, most) = transfer(ALGORITHMS[algorithm], RULES[rules], len, &path);
        // A retransmission is lost again, timeouts double up to two minutes, and so does what is
        // measured meanwhile.
        let most_s = if loss < 0.1 { 600 } else { 30_000 };
        prop_assert!(took <= Time::ZERO + Span::from_secs(most_s), "{took}");
        // Three notes per segment at most, and what was replaced.
        prop_assert!(most <= 3000, "{most}");
    }
}

#[test]
fn a_transfer_without_losses_takes_the_round_trips_of_slow_start() {
    let path = Path {
        loss: 0.0,
        duplicates: 0.0,
        jitter_ms: 0,
        seed: 1,
    };
    // 10 + 20 + 40 + 30 segments: four round trips of 20 ms; at most 40 ms until the last one is
    // acknowledged.
    let (took, _) = transfer("reno", &LINUX, 100 * 1448, &path);
    assert!(
        took >= Time::from_millis(80) && took <= Time::from_millis(120),
        "{took}"
    );
}
