// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Algorithms that get losses and timeouts: the host sends the packets itself, over a short queue,
//! with random losses and an outage.
use super::START;
use super::recorder::{Host, Recorder, lines};
use alcc_cc::Instance;
use alcc_flow::rules::LINUX;
use alcc_flow::{Ack, Receiver, Sender, Transmit};
use alcc_units::{Bytes, Rng, Span, Time};
use std::collections::VecDeque;

/// Algorithms with the seeds of their links.
pub(super) const CASES: [(&str, u64); 8] = [
    ("fixed:window=15", 6),
    ("mdi", 15),
    ("copa", 8),
    ("budget", 9),
    ("verus", 10),
    ("bic", 11),
    ("westwood", 12),
    ("vegas", 13),
];

const LENGTH_MS: u64 = 2900;
const ONE_WAY: Span = Span::from_millis(20);
/// A packet of 1500 bytes at 2 Mbit/s.
const SERVICE: Span = Span::from_millis(6);
/// Maximum queueing delay.
const QUEUE: Span = Span::from_millis(90);

/// True if packets sent at this time are lost: long enough for the timer to expire.
fn is_outage(ms: u64) -> bool {
    (1500..2300).contains(&ms)
}

/// The packets that have arrived.
fn due<T>(queue: &mut VecDeque<(Time, T)>, now: Time) -> Option<T> {
    queue.front().filter(|(at, _)| *at <= now)?;
    Some(queue.pop_front()?.1)
}

/// The flow, in steps of a millisecond.
pub(super) fn run(spec: &str, seed: u64) -> Vec<String> {
    let (cc, story) = Recorder::new(spec, Host::Packets);
    let mut sender = Sender::new(Instance::new(cc), &LINUX, START, None, seed);
    let mut receiver = Receiver::new(&LINUX);
    let mut rng = Rng::new(seed);
    let mut data: VecDeque<(Time, Transmit)> = VecDeque::new();
    let mut acks: VecDeque<(Time, Ack)> = VecDeque::new();
    let mut idle_at = START;
    sender.start(START);
    for ms in 0..LENGTH_MS {
        let now = START + Span::from_millis(ms);
        while let Some(packet) = due(&mut data, now) {
            receiver.on_data(now, &packet);
        }
        while let Some(ack) = receiver.poll_ack(now) {
            acks.push_back((now + ONE_WAY, ack));
        }
        while let Some(ack) = due(&mut acks, now) {
            sender.on_ack(now, &ack).expect("nobody lies here");
        }
        sender.on_timer(now);
        sender.write(Bytes::new(100_000));
        while let Some(packet) = sender.poll_transmit(now) {
            let full = idle_at.since(now) > QUEUE;
            // Later only the queue loses: the timeout is to come outside of a recovery.
            let by_chance = ms < 1000 && rng.chance(0.02);
            if full || is_outage(ms) || by_chance {
                continue;
            }
            idle_at = idle_at.max(now) + SERVICE;
            data.push_back((idle_at + ONE_WAY, packet));
        }
    }
    drop(sender);
    lines(story)
}
