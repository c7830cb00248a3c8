// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz targets: one function of bytes per target, which panics if the code under test violates its
//! contract.
//!
//! The fuzzer (`make fuzz`) calls them with inputs that it invents, `alcc/cli/tests/corpus.rs`
//! with those that are kept in `corpus/TARGET/`. To add a target: a function, its line in
//! [`TARGETS`], and a folder with a few inputs.
#![forbid(unsafe_code)]

mod carrier;
mod inband;
mod link;
mod record;
mod scenario;
mod udp;

use alcc_cc::{Cx, Discard, Header, Kind, Path, Spec, conformance};
use alcc_flow::{Ack, Range, Receiver, Rules, Sender, Transmit};
use alcc_link::log as packet_log;
use alcc_observe::Pattern;
use alcc_socket::Settings;
use alcc_transfer::{ANSWER, Answer, HEADER, Reader, Sink, Wrong};
use alcc_units::{Bytes, Rate, Span, Time};
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
    ("queue", link::queue),
    ("trace", link::trace),
    ("link", link::link),
    ("steps", link::steps),
    ("log", log),
    ("story", story),
    ("settings", settings),
    ("sender", sender),
    ("receiver", receiver),
    ("transfer", transfer),
    ("carrier", carrier::carrier),
    ("inband_frames", inband::frames),
    ("inband_session", inband::session),
    ("record", record::record),
    ("scenario", scenario::scenario),
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
    let mut cc = match alcc_zoo::registry().build(&spec) {
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
    let registry = alcc_zoo::registry();
    let count = registry.iter().count();
    if let Some(algorithm) = registry.iter().nth(usize::from(*first) % count) {
        // Longer stories find nothing more and cost the fuzzer its speed.
        conformance::run_bytes(algorithm, &rest[..rest.len().min(1500)]);
    }
}

/// Settings of the preload library from its environment: they must never crash the server.
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
    let registry = alcc_zoo::registry();
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
    let cc = alcc_zoo::registry().build(&spec).expect("an algorithm");
    let cc = conformance::Checked::of(cc);
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
                    let duplicate = input.byte() % 8 == 0;
                    if !duplicate || !ack.push_duplicate(range) {
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

/// Received parts of a transfer: counts must add up, and the maxima must hold.
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
