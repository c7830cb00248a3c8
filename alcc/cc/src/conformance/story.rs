// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fixed lists of operations for cases that random ones rarely reach.
use super::operation::Operation;
use alcc_units::Span;

const WEEK: Span = Span::from_secs(7 * 86_400);

type Story = fn() -> Vec<Operation>;

pub(super) const STORIES: &[(&str, Story)] = &[
    ("the clock stands still", clock_stands_still),
    ("a round trip takes no time", no_round_trip_time),
    ("a round trip takes a week", week_long_round_trips),
    ("a million packets in flight", million_packets),
    ("timers with nothing sent", empty_epochs),
    ("an outage of a week", outage_of_a_week),
    ("every loss was none", every_loss_was_none),
    ("path MTU discovery", path_mtu_discovery),
];

const fn send(n: u8, segments: u64) -> Operation {
    Operation::Send { n, segments }
}

/// Everything outstanding is acknowledged, `delay` from now.
const fn ack(delay: Span) -> Operation {
    Operation::Ack {
        share: 255,
        skip: 0,
        delay,
        ambiguous: false,
    }
}

/// The operations of `times` rounds; `round` gives those of each number.
fn rounds(times: u32, round: impl Fn(u32) -> Vec<Operation>) -> Vec<Operation> {
    (0..times).flat_map(round).collect()
}

/// An ordinary round.
fn plain(_: u32) -> Vec<Operation> {
    vec![
        send(20, 1),
        Operation::NextTimer,
        ack(Span::from_millis(50)),
    ]
}

fn clock_stands_still() -> Vec<Operation> {
    let mut all = rounds(500, |i| match i % 50 {
        17 => vec![send(9, 1), Operation::Lose(3), Operation::Timer],
        34 => vec![send(9, 1), Operation::Rto, Operation::Timer],
        _ => vec![send(4, 1), Operation::Timer, ack(Span::ZERO)],
    });
    all.extend(rounds(50, plain));
    all
}

fn no_round_trip_time() -> Vec<Operation> {
    rounds(500, |i| {
        let pause = Span::from_nanos(u64::from(i % 3));
        vec![
            send(8, 1),
            ack(Span::ZERO),
            Operation::Advance(pause),
            Operation::Timer,
        ]
    })
}

fn week_long_round_trips() -> Vec<Operation> {
    let mut all = rounds(20, plain);
    all.extend(rounds(20, |i| {
        vec![send(8, 1 + u64::from(i)), Operation::NextTimer, ack(WEEK)]
    }));
    all.extend(rounds(50, plain));
    all
}

/// Records of up to 8192 segments, so that 255 of them are two million. Then come losses, a timeout
/// and ordinary packets.
fn million_packets() -> Vec<Operation> {
    let mut all = rounds(60, |i| {
        vec![
            send(255, 1 << (i / 2).min(13)),
            Operation::NextTimer,
            ack(Span::from_millis(100)),
        ]
    });
    let large = send(255, 8192);
    all.extend([large.clone(), Operation::Lose(100), Operation::Spurious]);
    all.extend([large, Operation::Rto, Operation::Timer]);
    all.extend(rounds(50, plain));
    all
}

fn empty_epochs() -> Vec<Operation> {
    let mut all = rounds(5_000, |_| vec![Operation::NextTimer]);
    all.extend(rounds(20, plain));
    all.extend(rounds(5_000, |_| vec![Operation::NextTimer]));
    all.extend(rounds(20, plain));
    all
}

/// Packets in flight, timers and retransmission timeouts, without any acknowledgement.
fn outage_of_a_week() -> Vec<Operation> {
    let mut all = rounds(50, plain);
    all.push(send(20, 1));
    all.extend(rounds(2_000, |i| match i % 400 {
        399 => vec![Operation::Rto, send(1, 1)],
        _ => vec![Operation::NextTimer],
    }));
    all.extend([Operation::Idle(WEEK), Operation::Timer]);
    all.extend(rounds(50, plain));
    all
}

fn every_loss_was_none() -> Vec<Operation> {
    rounds(200, |i| {
        vec![
            send(20, 1),
            Operation::Lose(1 + (i % 20) as u8),
            ack(Span::from_millis(40)),
            Operation::Spurious,
            Operation::NextTimer,
        ]
    })
}

/// Path MTU discovery as in QUIC: a step up every round trip, and back when large packets do not
/// arrive.
fn path_mtu_discovery() -> Vec<Operation> {
    let mut all = rounds(50, plain);
    for mss in [1472, 1500, 1200, 1326, 1389, 1420, 1452] {
        all.push(Operation::Mtu(mss));
        all.extend(rounds(3, plain));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::*;
    use crate::{Registry, Spec};
    use alcc_units::Bytes;

    #[test]
    fn a_million_packets_are_in_flight() {
        for (name, least) in [("fixed:window=1000000", 999_000), ("cubic", 999_000)] {
            let spec: Spec = name.parse().unwrap();
            let cc = Registry::builtin().build(&spec).unwrap();
            let mut model = Model::new(cc, Span::ZERO, 1);
            let mut most = Bytes::ZERO;
            for operation in million_packets() {
                model.apply(&operation).unwrap();
                most = most.max(model.sender.in_flight);
            }
            let packets = most.get() / 1448;
            assert!(packets >= least, "{name}: {packets}");
        }
    }
}
