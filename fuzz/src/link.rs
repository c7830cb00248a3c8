// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz targets for queues, traces, steps and links.
use super::one_line;
use alcc_link::{
    Changes, Dir, Direction, DirectionSpec, Ecn, Outcome, Packet, QueueSpec, RateSpec, Step,
};
use alcc_trace::Trace;
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::BTreeSet;

/// Names of queues with options.
pub(super) fn queue(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match text.parse::<QueueSpec>() {
        Ok(spec) => {
            let again: QueueSpec = spec.to_string().parse().expect("a queue prints as typed");
            assert_eq!(again.to_string(), spec.to_string());
            assert!(spec.queue().is_empty());
        }
        Err(e) => one_line(e),
    }
}

/// Trace files: any bytes are a trace that is written back as the same trace, or an error.
pub(super) fn trace(bytes: &[u8]) {
    let trace = match Trace::parse(bytes) {
        Ok(trace) => trace,
        Err(e) => return one_line(e),
    };
    let mut written = Vec::new();
    trace.write(&mut written).expect("memory takes it");
    assert_eq!(
        Trace::parse(&written).expect("what we write we read"),
        trace
    );
    let cursor = trace.cursor();
    let mut last = Time::ZERO;
    for (n, at) in (0u64..).zip(trace.cursor().take(3 * trace.len().min(1000))) {
        assert!(at >= last, "opportunity {n} goes back");
        assert_eq!(cursor.time_of(n), at);
        assert!(cursor.count_before(at) <= n);
        last = at;
    }
}

/// Steps of a link, typed, drawn and in a table: any text is steps or an error.
pub(super) fn steps(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let drawn = Changes::random(text, Span::from_secs(1), 1);
    for read in [
        text.parse().map(|s| Changes::of(vec![s])),
        Changes::from_csv(text),
        drawn,
    ] {
        match read {
            Ok(changes) => {
                let spec = DirectionSpec {
                    changes,
                    ..DirectionSpec::default()
                };
                let mut direction = Direction::new(&spec, Dir::Up, 1);
                let (len, mut out) = (Bytes::new(1500), Vec::new());
                for id in 0..10 {
                    let now = Time::from_millis(id * 100);
                    direction.push(
                        now,
                        Packet {
                            id,
                            flow: 0,
                            len,
                            ecn: Ecn::NotEct,
                        },
                        &mut out,
                    );
                }
                assert!(out.len() >= 10);
            }
            Err(e) => one_line(e),
        }
    }
}

/// Steps that the first events give as well.
fn changes(events: &[u8]) -> Changes {
    let step = |b: &[u8]| Step {
        at: Time::from_millis(u64::from(b[0])),
        rate: b[1]
            .is_multiple_of(2)
            .then(|| Rate::bps(u64::from(b[1]) * 30_000)),
        delay: b[2]
            .is_multiple_of(2)
            .then(|| Span::from_millis(u64::from(b[2]))),
        loss: b[3].is_multiple_of(2).then(|| f64::from(b[3]) / 254.0),
        loss_up: None,
    };
    Changes {
        steps: events
            .chunks_exact(4)
            .take(events.len() % 4)
            .map(step)
            .collect(),
        repeat: events
            .len()
            .is_multiple_of(3)
            .then_some(Span::from_millis(200)),
        reorder: events.len().is_multiple_of(5),
    }
}

/// One direction of a path under arbitrary arrivals: packets are conserved, outcomes are in order,
/// nothing travels in time.
pub(super) fn link(bytes: &[u8]) {
    const QUEUES: &[&str] = &[
        "droptail",
        "droptail:packets=1",
        "droptail:bytes=3000",
        "codel",
        "codel:target=1ms,interval=10ms",
        "red",
        "pie",
        "fq_codel:flows=2,packets=9",
        "users:scheduler=pf,number=2",
    ];
    let [kind, queue, delay, loss, seed, events @ ..] = bytes else {
        return;
    };
    let rate = match kind % 4 {
        0 => RateSpec::Unlimited,
        1 => RateSpec::Fixed(Rate::bps(u64::from(*kind) * 50_000)),
        2 => RateSpec::Fixed(Rate::ZERO),
        _ => RateSpec::Trace(Trace::new(vec![1, 1, u32::from(*kind), 300, 301]).expect("a trace")),
    };
    // A queue that this build does not have is left out.
    let Ok(queue) = QUEUES[usize::from(*queue) % QUEUES.len()].parse() else {
        return;
    };
    let order = if seed % 2 == 0 { Dir::Down } else { Dir::Up };
    let spec = DirectionSpec {
        rate,
        queue,
        delay: Span::from_millis(u64::from(*delay)),
        loss: f64::from(*loss) / 255.0,
        changes: changes(events),
        ..DirectionSpec::default()
    };
    let mut direction = Direction::new(&spec, order, u64::from(*seed));
    let mut now = Time::ZERO;
    let (mut pushed, mut gone) = (0u64, 0u64);
    let (mut out, mut seen) = (Vec::new(), BTreeSet::new());
    let mut check = |now: Time, out: &mut Vec<Outcome>, gone: &mut u64| {
        for outcome in out.drain(..) {
            let (at, ended) = match outcome {
                Outcome::Arrived { at, .. } => (at, None),
                Outcome::Departed { at, arrived, .. } => {
                    assert!(arrived <= at);
                    (at, None)
                }
                Outcome::Delivered {
                    at,
                    packet,
                    arrived,
                    queue_delay,
                } => {
                    assert!(arrived + queue_delay <= at);
                    (at, Some(packet.id))
                }
                Outcome::Repeated { at, .. } => (at, None),
                Outcome::Dropped { at, packet, .. } => (at, Some(packet.id)),
            };
            assert!(at <= now, "an outcome of the future");
            if let Some(id) = ended {
                assert!(seen.insert(id), "packet {id} ends twice");
                *gone += 1;
            }
        }
    };
    for event in events.chunks(2).take(2000) {
        now += Span::from_micros(u64::from(event[0]) * 97);
        let next = direction.next_event();
        if event.len() == 2 && event[1] != 0 {
            let packet = Packet {
                id: pushed,
                flow: u32::from(event[1] % 3),
                len: Bytes::new(u64::from(event[1]) * 40),
                ecn: Ecn::of_bits(event[0]),
            };
            pushed += 1;
            direction.push(now, packet, &mut out);
        } else {
            direction.advance(now, &mut out);
            assert!(
                next.is_none_or(|t| t > now) || !out.is_empty() || direction.next_event() != next
            );
        }
        check(now, &mut out, &mut gone);
        assert_eq!(
            pushed,
            gone + direction.inside() as u64,
            "packets are conserved"
        );
        assert!(
            direction.next_event().is_none_or(|t| t > now),
            "an event of the past is left"
        );
    }
}
