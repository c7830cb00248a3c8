// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is fuzzed: one function of bytes per target, which panics if the code under test does what
//! it must not.
//!
//! The fuzzer (`make fuzz`) calls them with inputs that it invents, `crates/cli/tests/corpus.rs`
//! with those that are kept in `corpus/TARGET/`. To add a target: a function, its line in
//! [`TARGETS`], and a folder with a few inputs.
#![forbid(unsafe_code)]

mod carrier;
mod record;
mod udp;

use alcc_cc::{Cx, Discard, Header, Kind, Path, Registry, Spec, conformance};
use alcc_flow::{Ack, Range, Receiver, Rules, Sender, Transmit};
use alcc_inband::{Output, Session, Settings as InBand, When, frame, preface};
use alcc_link::{
    Changes, Dir, Direction, DirectionSpec, Ecn, Outcome, Packet, QueueSpec, RateSpec, Step,
    log as packet_log,
};
use alcc_observe::Pattern;
use alcc_socket::Settings;
use alcc_trace::Trace;
use alcc_transfer::{ANSWER, Answer, HEADER, Reader, Sink, Wrong};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("datagram", udp::datagram),
    ("handshake", udp::handshake),
    ("connection", udp::connection),
    ("units", units),
    ("algorithm", algorithm),
    ("queue", queue),
    ("trace", trace),
    ("link", link),
    ("steps", steps),
    ("log", log),
    ("story", story),
    ("settings", settings),
    ("sender", sender),
    ("receiver", receiver),
    ("transfer", transfer),
    ("carrier", carrier::carrier),
    ("inband_frames", inband_frames),
    ("inband_session", inband_session),
    ("record", record::record),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(n, _)| *n == name).map(|(_, t)| *t)
}

fn one_line(error: impl ToString) {
    let message = error.to_string();
    assert!(!message.trim().is_empty(), "an empty message");
}

/// Quantities: what is read prints as something that reads as the same.
fn units(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match text.parse::<Span>() {
        Ok(v) => assert_eq!(v.to_string().parse(), Ok(v), "{text}"),
        Err(e) => one_line(e),
    }
    match text.parse::<Rate>() {
        Ok(v) => assert_eq!(v.to_string().parse(), Ok(v), "{text}"),
        Err(e) => one_line(e),
    }
    match text.parse::<Bytes>() {
        Ok(v) => assert_eq!(v.get().to_string().parse(), Ok(v), "{text}"),
        Err(e) => one_line(e),
    }
}

/// Names of algorithms with options: any text is an algorithm that starts, or an error.
fn algorithm(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let spec: Spec = match text.parse() {
        Ok(spec) => spec,
        Err(e) => return one_line(e),
    };
    assert_eq!(spec.to_string().parse().ok(), Some(spec.clone()));
    let mut cc = match Registry::builtin().build(&spec) {
        Ok(cc) => cc,
        Err(e) => return one_line(e),
    };
    let mss = Bytes::new(1448);
    let path = Path {
        mss,
        rtt_hint: Some(Span::from_millis(40)),
        seed: 1,
    };
    let mut log = Discard;
    for ms in 0..50 {
        let now = Time::from_millis(ms * 20);
        let mut cx = Cx { now, log: &mut log };
        if ms == 0 {
            cc.on_start(&mut cx, &path);
        }
        if cc.next_timer().is_some_and(|t| t <= now) {
            cc.on_timer(&mut cx);
            assert!(
                cc.next_timer().is_none_or(|t| t > now),
                "{text}: a timer in the past"
            );
        }
        assert!(
            cc.allowance().window >= mss,
            "{text}: a window below one packet"
        );
    }
}

/// Names of queues with options.
fn queue(bytes: &[u8]) {
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
fn trace(bytes: &[u8]) {
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
fn steps(bytes: &[u8]) {
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
fn link(bytes: &[u8]) {
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

/// Packet logs: what is read is written as what reads the same.
fn log(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (header, lines) = match packet_log::parse(text) {
        Ok(parsed) => parsed,
        Err(e) => {
            assert!(!e.to_string().contains('\n'), "a message of several lines");
            return one_line(e);
        }
    };
    let mut written = String::new();
    packet_log::write_header(&mut written, &header).expect("memory takes it");
    for line in &lines {
        packet_log::format_line(&mut written, line).expect("memory takes it");
    }
    assert_eq!(packet_log::parse(&written), Ok((header, lines)));
}

/// An algorithm in a sequence of events; the first byte chooses it, the conformance suite checks
/// it.
fn story(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let registry = Registry::builtin();
    let count = registry.iter().count();
    if let Some(algorithm) = registry.iter().nth(usize::from(*first) % count) {
        // Longer stories find nothing more and cost the fuzzer its speed.
        conformance::run_bytes(algorithm, &rest[..rest.len().min(1500)]);
    }
}

/// What the preload library reads from its environment: it is never allowed to take a server down.
fn settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|l| l.split_once('=')).collect();
    for (_, value) in &lines {
        for part in value.split(',') {
            match part.parse::<Pattern>() {
                Ok(pattern) => assert_eq!(pattern.to_string().parse(), Ok(pattern)),
                Err(e) => one_line(e),
            }
        }
    }
    let variable = |name: &str| {
        lines
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| OsString::from(v))
    };
    let registry = Registry::builtin();
    match Settings::from_env(&registry, variable) {
        Ok(Some(settings)) => {
            let environment = settings.to_env();
            let again = Settings::from_env(&registry, |name| {
                environment
                    .iter()
                    .find(|(n, _)| *n == name)
                    .and_then(|(_, v)| v.clone())
            });
            let again = again
                .expect("what we write we read")
                .expect("there is an algorithm");
            assert_eq!(again.to_env(), environment);
        }
        Ok(None) => {}
        Err(e) => one_line(e),
    }
}

/// Takes values off the front of an input; zero when it is over.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u64 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        u64::from(*first)
    }

    /// Mostly small, sometimes enormous.
    fn number(&mut self, unit: u64) -> u64 {
        match self.byte() {
            255 => u64::MAX - self.byte(),
            high if high >= 250 => (high << 56) | self.byte(),
            high => (high * 256 + self.byte()) * unit / 64,
        }
    }

    fn rules(&mut self) -> &'static Rules {
        &Rules::ALL[self.byte() as usize % Rules::ALL.len()]
    }
}

/// A sender and a peer that says whatever it likes: what cannot be is an error that changes
/// nothing, memory stays in proportion to what was sent, and nothing loops.
fn sender(bytes: &[u8]) {
    const ALGORITHMS: &[&str] = &["reno", "cubic", "bbr", "verus", "copa", "fixed:window=50"];
    let mut input = Input(bytes);
    let rules = input.rules();
    let spec: Spec = ALGORITHMS[input.byte() as usize % ALGORITHMS.len()]
        .parse()
        .expect("an algorithm");
    let cc = Registry::builtin().build(&spec).expect("an algorithm");
    let cc = Box::new(conformance::Checked::new(cc));
    let mut now = Time::from_millis(1);
    let mut flow = Sender::new(cc, rules, now, None, 1);
    flow.start(now);
    let (mut sent, mut steps) = (0, 0);
    while !input.0.is_empty() && steps < 1500 {
        steps += 1;
        match input.byte() % 5 {
            0 => {
                flow.write(Bytes::new(input.number(1448)));
            }
            1 => now += Span::from_micros(input.number(1 << 14).min(1 << 31)),
            _ => {
                let mut ack = Ack::default();
                ack.cumulative_ack = input.number(1448);
                ack.window = Bytes::new(input.number(1448));
                ack.echo = Time::from_nanos(input.number(1 << 20));
                for _ in 0..input.byte() % 5 {
                    let start = input.number(1448);
                    let range = Range::new(start, start.saturating_add(input.number(64)));
                    if input.byte() % 8 == 0 {
                        ack.duplicate = Some(range);
                    } else {
                        ack.push(range);
                    }
                }
                let before = (flow.in_flight(), flow.remembered(), flow.queued());
                match flow.on_ack(now, &ack) {
                    Ok(()) => assert!(flow.in_flight() <= Bytes::new(1 << 40)),
                    Err(e) => {
                        one_line(e);
                        let after = (flow.in_flight(), flow.remembered(), flow.queued());
                        assert_eq!(before, after, "an error changed something");
                    }
                }
            }
        }
        if flow.next_timer().is_some_and(|at| at <= now) {
            flow.on_timer(now);
        }
        for _ in 0..64 {
            if flow.poll_transmit(now).is_none() {
                break;
            }
            sent += 1;
        }
        let remembered = flow.remembered();
        assert!(
            remembered <= 16 + 4 * sent,
            "{remembered} notes of {sent} packets"
        );
    }
}

/// A receiver and a sender that sends whatever it likes.
fn receiver(bytes: &[u8]) {
    let mut input = Input(bytes);
    let rules = input.rules();
    let (mut now, mut flow) = (Time::from_millis(1), Receiver::new(rules));
    let mut steps = 0;
    while !input.0.is_empty() && steps < 3000 {
        steps += 1;
        now += Span::from_micros(input.number(1 << 10).min(1 << 31));
        let before = flow.cumulative_ack();
        match input.byte() % 8 {
            0 => flow.read(now, input.number(1448)),
            _ => flow.on_data(
                now,
                &Transmit {
                    pn: input.number(64),
                    start: input.number(1448),
                    len: input.number(64),
                    kind: Kind::New,
                    sent_at: Time::from_nanos(input.number(1 << 20)),
                    echo: Time::from_nanos(input.number(1 << 20)),
                    header: Header::EMPTY,
                },
            ),
        }
        assert!(flow.cumulative_ack() >= before, "what is complete stays so");
        if let Some(ack) = flow.poll_ack(now) {
            assert_eq!(ack.cumulative_ack, flow.cumulative_ack());
            for range in ack.ranges() {
                assert!(range.start < range.end);
                assert!(!rules.is_stream() || range.end > ack.cumulative_ack);
            }
            assert!(flow.next_timer().is_none_or(|at| at > now));
        }
        assert!(flow.remembered() < 10_000);
    }
}

/// What comes in of a transfer: counts must add up, and nothing may pass that is more than allowed.
struct Counted {
    most: u64,
    content: u64,
    blocks: u64,
}

impl Sink for Counted {
    type Error = Wrong;

    fn begin(&mut self, header: &alcc_transfer::Header) -> Result<u64, Wrong> {
        assert!(header.flow < header.flows);
        Ok(self.most)
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        self.content += bytes.len() as u64;
        assert!(self.content <= self.most, "more than is allowed");
        Ok(())
    }

    fn block(&mut self, bytes: u32, _: u64) {
        self.blocks += u64::from(bytes);
        assert!((1..=65_536).contains(&bytes));
    }
}

/// A stream as `alcc recv` reads it, in pieces of any size, and an answer as `alcc send` reads it.
fn transfer(bytes: &[u8]) {
    if let Some(first) = bytes.first_chunk::<ANSWER>()
        && let Some(answer) = Answer::decode(first)
    {
        assert_eq!(&answer.encode(), first);
    }
    let Some((piece, stream)) = bytes.split_first() else {
        return;
    };
    let read = |piece: usize| {
        let (mut reader, mut sink) = (
            Reader::new(),
            Counted {
                most: 100_000,
                content: 0,
                blocks: 0,
            },
        );
        for piece in stream.chunks(piece) {
            if let Err(why) = reader.feed(piece, &mut sink) {
                one_line(why);
                return Err(why);
            }
        }
        assert!(sink.blocks <= reader.bytes() && reader.bytes() <= sink.most);
        if let Some(header) = reader.header() {
            assert_eq!(header.encode()[..], stream[..HEADER]);
        }
        reader.end().map(|()| (reader.bytes(), reader.hash()))
    };
    let (cut, whole) = (read(usize::from(*piece) + 1), read(usize::MAX));
    if cut.is_ok() || whole.is_ok() {
        assert_eq!(cut, whole, "it matters how a stream is cut");
    }
}

/// Frames of a peer: the same items however the bytes are cut, or the same error, and nothing is
/// made up.
fn inband_frames(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else {
        return;
    };
    let read = |piece: usize| {
        let mut decoder = frame::Decoder::default();
        let (mut items, mut payload) = (0usize, Vec::new());
        for mut piece in bytes.chunks(piece) {
            loop {
                match decoder.next(&mut piece) {
                    Ok(None) => break,
                    Ok(Some(frame::Item::Payload(p))) => payload.extend_from_slice(p),
                    Ok(Some(_)) => items += 1,
                    Err(e) => {
                        one_line(&e);
                        return (items, payload, Some(e));
                    }
                }
            }
        }
        (items, payload, None)
    };
    let whole = read(bytes.len().max(1));
    assert!(whole.1.len() <= bytes.len());
    assert_eq!(whole, read(usize::from(cut).max(1)));
    match preface::Preface::decode(bytes) {
        Ok(Some((preface, len))) => {
            let mut again = Vec::new();
            preface.encode(&mut again);
            assert_eq!(
                preface::Preface::decode(&again),
                Ok(Some((preface, again.len())))
            );
            assert!(len <= bytes.len());
        }
        Ok(None) => assert!(bytes.len() < preface::MAX_PREFACE),
        Err(e) => one_line(e),
    }
}

/// A session against any peer: it writes, reads and waits, and hears bytes and well-formed frames
/// of any content. Memory is bounded, what is sent stays within credit, an error is final.
fn inband_session(bytes: &[u8]) {
    let mut input = Input(bytes);
    let algorithms = ["cubic", "verus", "sprout", "copa", "fixed:window=3"];
    let cc = algorithms[input.byte() as usize % algorithms.len()];
    let settings = InBand {
        receive_buffer: 1 << 16,
        ..InBand::new(cc.parse().expect("an algorithm"))
    };
    let registry = std::sync::Arc::new(conformance::Checked::registry());
    let mut now = Time::from_millis(1);
    let new = if input.byte() % 2 == 0 {
        Session::connect
    } else {
        Session::accept
    };
    let mut session = new(now, &registry, settings).expect("an algorithm");
    let mut out = Output::default();
    if input.byte() % 8 > 0 {
        let algorithm = ["", "sprout", "sprout-ewma", "verus"][input.byte() as usize % 4];
        let mut hello = Vec::new();
        preface::Preface {
            credit: input.number(1 << 12),
            ack_delay: 5000,
            segment: 1400,
            algorithm: algorithm.to_owned(),
        }
        .encode(&mut hello);
        session.on_bytes(When::exactly(now), &hello, &mut []);
    }
    let mut heard = 0u64;
    let mut steps = 0;
    while !input.0.is_empty() && steps < 2000 {
        steps += 1;
        now += Span::from_micros(input.number(1 << 10).min(1 << 31));
        let failed = session.error().cloned();
        let mut wire = Vec::new();
        let (sent, acked) = session
            .flow()
            .map_or((0, 0), |f| (f.written(), f.written() - f.in_flight().get()));
        match input.byte() % 10 {
            0 => wire.extend((0..input.byte()).map(|i| i.wrapping_mul(17) as u8)),
            1 | 2 => {
                let len = input.number(1 << 8).min(20_000) as usize;
                let tag = [7; 16];
                let tag = &tag[..input.byte() as usize % 17];
                frame::encode_data(&mut wire, heard as u32, tag, len);
                wire.resize(wire.len() + len, 1);
                heard += wire.len() as u64;
            }
            3 | 4 => {
                let mut ack = frame::Ack::default();
                ack.position = acked
                    + input
                        .number(64)
                        .min(sent - acked + u64::from(input.byte() == 9));
                ack.window = input.number(1).min(u64::from(frame::MAX_U24)) as u32;
                ack.hold = input.number(1 << 6).min(u64::from(frame::MAX_U24)) as u32;
                for _ in 0..input.byte() % 17 {
                    let mut some = || input.number(1 << 6).min(u64::from(frame::MAX_U24)) as u32;
                    ack.push(frame::Step {
                        bytes: some(),
                        micros: some(),
                    });
                }
                ack.encode(&mut wire);
            }
            5 => {
                let report = [input.byte() as u8; 48];
                let len = 1 + input.byte() as usize % 48;
                frame::encode_report(&mut wire, &report[..len]);
            }
            6 => frame::encode_close(&mut wire, heard as u32, (input.byte() % 3) as u8, "why"),
            7 => frame::encode_ping(&mut wire, false, [input.byte() as u8; 8]),
            8 => {
                let mut buffer = [0; 4096];
                session.read(now, &mut buffer);
            }
            _ => session.close(),
        }
        session.on_bytes(When::exactly(now), &wire, &mut [0; 100]);
        if input.byte() % 64 == 0 {
            session.on_end();
        }
        session.on_timer(now);
        let room = session.room(now);
        let direct = vec![3; (input.byte() as usize) << 6];
        out.clear();
        let taken = session.output(now, &direct, input.byte() % 2 == 0, u64::MAX, &mut out);
        assert!(taken <= direct.len() && room <= 1 << 20);
        assert!(out.len() < (1 << 18) + 4096, "{}", out.len());
        assert!(session.unread() <= 1 << 16);
        if let Some(why) = failed {
            assert_eq!(session.error(), Some(&why), "an error is final");
            assert_eq!(taken, 0);
        }
        if let Some(why) = session.error() {
            one_line(why);
            assert_eq!(session.next_timer(), None);
        }
    }
}
