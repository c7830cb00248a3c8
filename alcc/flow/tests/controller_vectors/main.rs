// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Test vectors for other implementations of the algorithms: their events and allowances, as
//! `alcc/flow/tests/controller_vectors/vectors.json`. `ALCC_BLESS=1` writes the file.
mod packets;
mod recorder;
mod script;

use alcc_cc::Instance;
use alcc_flow::{AckStamp, OverTcp, TcpProgress};
use alcc_units::{Bytes, Rng, Span, Time};
use recorder::{Host, Recorder, lines};
use std::fmt::Write;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../alcc/flow/tests/controller_vectors/vectors.json"
);
const MSS: Bytes = Bytes::new(1448);
/// So that drains, which begin at multiples of three seconds, come early.
const START: Time = Time::from_millis(1500);

/// A flow: its algorithm and the seed of its link, how long it lasts and from acknowledgement to acknowledgement, ms.
struct Case {
    spec: &'static str,
    seed: u64,
    duration: u64,
    ack_every: u64,
    link: Link,
}

/// The rate of the link in bytes per millisecond, and the round trip without a queue in ms.
#[derive(Clone, Copy)]
enum Link {
    /// 0.8 to 6 Mbit/s, 40 ms, and an outage that begins in the first drain.
    Walk,
    /// 12 Mbit/s that fall to 1.2, 40 ms.
    Falls,
    /// 0.8 Mbit/s; a longer route for more than ten seconds, then a shorter one in a drain.
    Routes,
}

impl Link {
    fn rate(self, ms: u64, walked: u64) -> u64 {
        match self {
            Self::Walk if (1600..2200).contains(&ms) => 0,
            Self::Walk => walked,
            Self::Falls => {
                if ms < 600 {
                    1500
                } else {
                    150
                }
            }
            Self::Routes => 100,
        }
    }

    fn round_trip(self, ms: u64) -> Span {
        Span::from_millis(match self {
            Self::Routes if (1000..16_550).contains(&ms) => 90,
            _ => 40,
        })
    }
}

const fn case(spec: &'static str, seed: u64, duration: u64, ack_every: u64, link: Link) -> Case {
    Case {
        spec,
        seed,
        duration,
        ack_every,
        link,
    }
}

const CASES: [Case; 8] = [
    case("fixed:window=12", 1, 800, 10, Link::Walk),
    case("mdi", 1, 3800, 20, Link::Walk),
    case("copa", 2, 5000, 25, Link::Walk),
    case("copa", 3, 1200, 20, Link::Falls),
    case("copa:delta=0.5", 3, 2500, 10, Link::Walk),
    case("budget", 4, 5000, 25, Link::Walk),
    case("budget", 4, 17_500, 100, Link::Routes),
    case("budget:delay=100ms", 5, 3500, 25, Link::Walk),
];

/// Does the application write at this time? It pauses until nothing is in flight, and trickles for a while.
fn wanted(ms: u64, duration: u64) -> u64 {
    let (part, of) = (ms * 20 / duration, 20);
    match part {
        9 => 0,
        10..=12 if ms.is_multiple_of(40) => 2000,
        10..=12 => 0,
        _ if part < of => 100_000,
        _ => 0,
    }
}

/// The flow, in steps of a millisecond.
fn run(case: &Case) -> Vec<String> {
    let &Case {
        seed,
        duration,
        ack_every,
        link,
        ..
    } = case;
    let (cc, story) = Recorder::new(case.spec, Host::Stream);
    let progress = TcpProgress {
        mss: MSS,
        ..TcpProgress::default()
    };
    let mut flow = OverTcp::in_band(Instance::new(cc), START, &progress, seed);
    let mut rng = Rng::new(seed);
    let (mut served, mut acked, mut rate) = (0_u64, 0_u64, 250_u64);
    let mut stamps: Vec<AckStamp> = Vec::new();
    for ms in 0..duration {
        let now = START + Span::from_millis(ms);
        if ms % 100 == 99 {
            rate = (rate * (70 + rng.below(65)) / 100).clamp(100, 750);
        }
        let more = flow.written().min(served + link.rate(ms, rate));
        if more > served {
            served = more;
            stamps.push(AckStamp {
                acked: served,
                at: now + link.round_trip(ms),
            });
        }
        // A shorter route overtakes nothing: a stream has one order.
        if let [.., before, last] = &mut stamps[..] {
            last.at = last.at.max(before.at);
        }
        let arrived = stamps.iter().take_while(|stamp| stamp.at <= now).count();
        if ms % ack_every == 0 && arrived > 0 {
            let first = AckStamp {
                acked,
                at: stamps[0].at,
            };
            let told: Vec<AckStamp> = std::iter::once(first)
                .chain(stamps.drain(..arrived))
                .collect();
            acked = told[told.len() - 1].acked;
            let progress = TcpProgress {
                acked,
                written: flow.written(),
                ..progress
            };
            flow.progress_stamped(now, &progress, &told);
        }
        flow.on_timer(now);
        if flow.is_writable(flow.in_flight(), Bytes::ZERO) {
            flow.unblock();
        }
        let wanted = Bytes::new(wanted(ms, duration));
        if wanted > Bytes::ZERO && !flow.is_blocked() {
            let room = flow.room(now, wanted, flow.in_flight(), Bytes::ZERO);
            if room > Bytes::ZERO {
                flow.wrote(now, room.min(wanted));
            }
        }
    }
    drop(flow);
    lines(story)
}

fn text() -> String {
    let mut text = String::from(concat!(
        "{\n\"description\": \"What algorithms are told and what they answer. ",
        "See docs/formats.md.\",\n",
        "\"license\": \"Apache-2.0 OR MIT\",\n\"version\": 3,\n\"cases\": [\n",
    ));
    let streams = CASES
        .iter()
        .map(|case| (case.spec, Host::Stream, run(case)));
    let packets =
        packets::CASES.map(|(spec, seed)| (spec, Host::Packets, packets::run(spec, seed)));
    let scripts = script::cases();
    let scripts = (scripts.iter()).map(|case| (case.spec, case.host, script::run(case)));
    let all: Vec<_> = streams.chain(packets).chain(scripts).collect();
    for (i, (spec, host, events)) in all.iter().enumerate() {
        let host = host.name();
        let comma = if i + 1 < all.len() { "," } else { "" };
        writeln!(
            text,
            "{{\"algorithm\": \"{spec}\", \"host\": \"{host}\", \"start\": {}, \"events\": [\n{}]}}{comma}",
            START.as_nanos(),
            events.join(",\n")
        )
        .expect("a string takes all");
    }
    text + "]}\n"
}

#[test]
fn algorithms_answer_as_the_vectors_say() {
    let text = text();
    if std::env::var_os("ALCC_BLESS").is_some() {
        std::fs::write(FILE, &text).expect("docs can be written");
    }
    let kept = std::fs::read_to_string(FILE)
        .expect("alcc/flow/tests/controller_vectors/vectors.json is there");
    let differs = (1..)
        .zip(kept.lines().zip(text.lines()))
        .find(|(_, (a, b))| a != b);
    if let Some((line, (kept, now))) = differs {
        panic!(
            "line {line}: {kept}\nbut now: {now}\nALCC_BLESS=1 writes the file anew, if that is meant"
        );
    }
    assert_eq!(kept.len(), text.len());
    // The file stays small enough to be read by people.
    assert!(kept.len() < 1_000_000, "{} bytes", kept.len());
    // Without these a case would test little.
    for event in ["idle", "timer", "sent", "ack"] {
        assert!(kept.contains(&format!("[\"{event}\"")), "{event}");
    }
    for (spec, seed) in packets::CASES {
        let events = packets::run(spec, seed);
        for event in ["loss", "rto", "recovered"] {
            let found = |line: &String| line.starts_with(&format!("[\"{event}\""));
            assert!(events.iter().any(found), "{spec}: {event}");
        }
        // A first expiry, and not only those that follow.
        let first = |line: &String| {
            let fields: Vec<&str> = line.split(',').collect();
            fields[0] == "[\"rto\"" && fields[2] == "1"
        };
        assert!(events.iter().any(first), "{spec}: a first timeout");
    }
}
