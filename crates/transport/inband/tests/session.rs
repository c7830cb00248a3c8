// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions in virtual time: over a pipe that delays and cuts, and against peers that break rules.
use alcc_cc::Registry;
use alcc_cc::conformance::Checked;
use alcc_inband::frame::{self, Ack, reason};
use alcc_inband::preface::{MAGIC, Preface};
use alcc_inband::{Error, Output, Session, Settings, When};
use alcc_units::{Rng, Span, Time};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

fn registry() -> Arc<Registry> {
    Arc::new(Checked::registry())
}

fn settings(cc: &str) -> Settings {
    Settings::new(cc.parse().unwrap())
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// What a session wants to have written.
fn drain(session: &mut Session, now: Time, direct: &[u8]) -> (Vec<u8>, usize) {
    let (mut wire, mut taken) = (Vec::new(), 0);
    loop {
        let mut out = Output::default();
        let left = &direct[taken..];
        let n = session.output(now, left, false, u64::MAX, &mut out);
        if out.is_empty() {
            return (wire, taken);
        }
        out.copy_unwritten(left, 0, &mut wire);
        taken += n;
    }
}

/// One direction of a stream below: bytes with the time at which they come out, at a rate and after
/// a delay.
struct Pipe {
    delay: Span,
    per_byte: Span,
    free_at: Time,
    bytes: VecDeque<(Time, Vec<u8>)>,
}

impl Pipe {
    fn new(delay_ms: u64, mbps: u64) -> Self {
        Self {
            delay: Span::from_millis(delay_ms),
            per_byte: Span::from_nanos(8000 / mbps),
            free_at: Time::ZERO,
            bytes: VecDeque::new(),
        }
    }

    fn put(&mut self, now: Time, wire: &[u8]) {
        for segment in wire.chunks(1448) {
            self.free_at = self.free_at.max(now) + self.per_byte * segment.len() as u64;
            self.bytes
                .push_back((self.free_at + self.delay, segment.to_vec()));
        }
    }

    fn next(&self) -> Option<Time> {
        self.bytes.front().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Time) -> Option<Vec<u8>> {
        (self.next()? <= now).then(|| self.bytes.pop_front().unwrap().1)
    }
}

struct End {
    session: Session,
    to_write: Vec<u8>,
    written: usize,
    /// Reads only from then on.
    reads_from: Time,
    got: Vec<u8>,
}

struct Run {
    ends: [End; 2],
    took: Span,
    most_in_flight: u64,
    queue: Span,
}

/// Both ends write what they have to, and read, until both have finished.
fn run(ccs: [&str; 2], write: [usize; 2], reads_from: [u64; 2], mbps: u64, seed: u64) -> Run {
    let mut rng = Rng::new(seed);
    let registry = registry();
    let end = |i: usize| End {
        session: if i == 0 {
            Session::connect(Time::ZERO, &registry, settings(ccs[i]))
        } else {
            Session::accept(Time::ZERO, &registry, settings(ccs[i]))
        }
        .unwrap(),
        to_write: (0..write[i])
            .map(|n| (n * 31 + n / 253 + i) as u8)
            .collect(),
        written: 0,
        reads_from: at(reads_from[i]),
        got: Vec::new(),
    };
    let mut ends = [end(0), end(1)];
    let mut pipes = [Pipe::new(20, mbps), Pipe::new(20, mbps)];
    let (mut now, mut most_in_flight, mut queue) = (Time::ZERO, 0, Span::ZERO);
    loop {
        for i in 0..2 {
            let end = &mut ends[i];
            while let Some(wire) = pipes[1 - i].take(now) {
                let mut left = &wire[..];
                while !left.is_empty() {
                    let n = 1 + rng.below(left.len() as u64) as usize;
                    let mut sink = [0; 100];
                    let reads = now >= end.reads_from;
                    let sink = if reads { &mut sink[..] } else { &mut [] };
                    let filled = end.session.on_bytes(When::exactly(now), &left[..n], sink);
                    end.got.extend_from_slice(&sink[..filled]);
                    end.session.taken(now);
                    left = &left[n..];
                }
            }
            assert_eq!(end.session.error(), None, "end {i} at {now:?}");
            end.session.on_timer(now);
            if now >= end.reads_from {
                let mut buffer = [0; 10_000];
                let n = end.session.read(now, &mut buffer);
                end.got.extend_from_slice(&buffer[..n]);
            }
            let (wire, taken) = drain(&mut end.session, now, &end.to_write[end.written..]);
            end.written += taken;
            if end.written == end.to_write.len() && end.session.is_open() {
                end.session.close();
            }
            let (last, _) = drain(&mut end.session, now, &[]);
            pipes[i].put(now, &wire);
            pipes[i].put(now, &last);
            queue = queue.max(pipes[i].free_at.since(now));
            if let Some(flow) = end.session.flow() {
                most_in_flight = most_in_flight.max(flow.in_flight().get());
            }
        }
        if ends
            .iter()
            .all(|e| e.session.is_done() && e.session.is_at_end())
        {
            break;
        }
        let next = [
            pipes[0].next(),
            pipes[1].next(),
            ends[0].session.next_timer(),
            ends[1].session.next_timer(),
            Some(ends[0].reads_from).filter(|t| *t > now),
            Some(ends[1].reads_from).filter(|t| *t > now),
            // Somebody reads ten thousand bytes at a time.
            ends.iter()
                .any(|e| e.session.unread() > 0 && now >= e.reads_from)
                .then(|| now + Span::from_micros(100)),
        ];
        let next = next.into_iter().flatten().min().expect("something is due");
        now = next.max(now + Span::from_micros(1));
        assert!(now < at(600_000), "stuck at {now:?}");
    }
    Run {
        ends,
        took: now.since(Time::ZERO),
        most_in_flight,
        queue,
    }
}

fn check(run: &Run) {
    assert!(run.ends[0].got == run.ends[1].to_write);
    assert!(run.ends[1].got == run.ends[0].to_write);
}

fn algorithm() -> impl Strategy<Value = &'static str> {
    let all: Vec<_> = Registry::builtin().iter().map(|a| a.name).collect();
    prop::sample::select(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the algorithms, amounts and cuts: everything arrives in order, both ends finish,
    /// nobody complains.
    #[test]
    fn both_directions_at_once(
        a in algorithm(), b in algorithm(), x in 0usize..300_000, y in 0usize..300_000,
        late in 0u64..1500, mbps in 1u64..40, seed in any::<u64>(),
    ) {
        check(&run([a, b], [x, y], [late, 0], mbps, seed));
    }
}

#[test]
fn a_window_bounds_what_is_framed_and_not_acknowledged() {
    let done = run(
        ["fixed:window=10", "fixed:window=10"],
        [2_000_000, 0],
        [0, 0],
        20,
        1,
    );
    check(&done);
    // Ten segments of 1400 bytes; a part of one in flight does not count, and the 13 bytes of the
    // end need no room.
    let most = done.most_in_flight;
    assert!((14_000..14_000 + 1400 + 13).contains(&most), "{most}");
    // 14,000 bytes per 40 ms, their serialisation at 20 Mbit/s and an acknowledgement that waits up
    // to 5 ms: 14,000 * 8 / 50.6 ms at least.
    let rate = 2_000_000.0 * 8.0 / done.took.as_secs_f64() / 1e6;
    assert!((2.2..=2.8).contains(&rate), "{rate} Mbit/s");
}

#[test]
fn an_application_that_reads_late_holds_up_its_own_data_only() {
    // End 1 reads nothing for 5 s while 6 MB wait for it; what it writes itself goes on: its
    // acknowledgements are not behind the unread data.
    let done = run(
        ["cubic", "cubic"],
        [6_000_000, 1_000_000],
        [0, 5_000],
        50,
        3,
    );
    check(&done);
    let unread = settings("cubic").receive_buffer;
    assert!(done.took > Span::from_secs(5) && done.most_in_flight < 2 * unread as u64);
    // And the same with the roles of the ends exchanged.
    check(&run(
        ["cubic", "cubic"],
        [1_000_000, 6_000_000],
        [5_000, 0],
        50,
        4,
    ));
}

#[test]
fn delay_based_algorithms_keep_the_queue_short() {
    for cc in ["verus", "copa", "sprout"] {
        let done = run([cc, "cubic"], [6_000_000, 0], [0, 0], 12, 5);
        check(&done);
        let rate = 6_000_000.0 * 8.0 / done.took.as_secs_f64() / 1e6;
        println!(
            "{cc}: {rate:.2} of 12 Mbit/s, longest queue {:?}",
            done.queue
        );
        assert!(rate > 8.5, "{cc}: {rate} of 12 Mbit/s");
        assert!(
            done.queue < Span::from_millis(700),
            "{cc}: {:?}",
            done.queue
        );
    }
}

#[test]
fn overhead_is_below_one_and_a_half_percent_in_both_directions() {
    for (cc, mbps) in [
        ("verus", 10),
        ("sprout", 10),
        ("fixed:window=20", 1),
        ("fixed:window=1000", 100),
    ] {
        let done = run([cc, "cubic"], [3_000_000, 0], [0, 0], mbps, 6);
        let (out, back) = (done.ends[0].session.stats(), done.ends[1].session.stats());
        let forward = (out.bytes_out - out.sent) as f64 / out.sent as f64;
        let backward = back.bytes_out as f64 / out.bytes_out as f64;
        println!(
            "{cc} at {mbps} Mbit/s: {:.3} % forward, {:.3} % back",
            100.0 * forward,
            100.0 * backward
        );
        assert!(forward < 0.015, "{cc}: {forward}");
        assert!(backward < 0.015, "{cc}: {backward}");
    }
}

// Peers that break rules.

/// Two ends that have heard each other's preface.
fn pair(cc: &str) -> [Session; 2] {
    let registry = registry();
    let mut a = Session::connect(at(0), &registry, settings(cc)).unwrap();
    let mut b = Session::accept(at(0), &registry, settings("cubic")).unwrap();
    let (wire, _) = drain(&mut a, at(0), &[]);
    b.on_bytes(When::exactly(at(1)), &wire, &mut []);
    let (wire, _) = drain(&mut b, at(1), &[]);
    a.on_bytes(When::exactly(at(2)), &wire, &mut []);
    assert!(a.is_open() && b.is_open());
    [a, b]
}

fn acknowledgement(position: u64) -> Vec<u8> {
    let mut ack = Ack::default();
    ack.position = position;
    ack.window = 4096;
    let mut wire = Vec::new();
    ack.encode(&mut wire);
    wire
}

fn data(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    frame::encode_data(&mut wire, sequence, &[], payload.len());
    wire.extend_from_slice(payload);
    wire
}

/// What the peer of an end that complains is told.
fn complaint(session: &mut Session) -> (u8, String) {
    let (wire, _) = drain(session, at(10), &[]);
    assert_eq!(wire[0], frame::kind::CLOSE, "{wire:?}");
    (wire[8], String::from_utf8(wire[9..].to_vec()).unwrap())
}

fn refused(session: &mut Session, wire: &[u8], want: &str) {
    session.on_bytes(When::exactly(at(5)), wire, &mut []);
    let why = session.error().expect(want).to_string();
    assert!(why.contains(want), "{why}");
    assert!(!why.contains('\n'));
    let (code, words) = complaint(session);
    assert_eq!(code, reason::PROTOCOL);
    assert!(words.contains(want), "{words}");
    // Once is enough, and nothing else is said or heard.
    assert!(drain(session, at(11), b"more").0.is_empty());
    assert_eq!(session.next_timer(), None);
    assert!(session.write(at(12), b"x").is_err());
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_ends_it() {
    let [mut a, _] = pair("cubic");
    let (wire, _) = drain(&mut a, at(3), b"hello");
    assert_eq!(wire.len(), 13);
    refused(
        &mut a,
        &acknowledgement(14),
        "acknowledges 14, but only 13 was sent",
    );
}

#[test]
fn an_acknowledgement_that_takes_back_ends_it() {
    let [mut a, _] = pair("cubic");
    drain(&mut a, at(3), b"hello");
    a.on_bytes(When::exactly(at(4)), &acknowledgement(13), &mut []);
    refused(&mut a, &acknowledgement(12), "takes back");
}

#[test]
fn data_that_cannot_be_end_it() {
    let [_, mut b] = pair("cubic");
    refused(&mut b, &data(1, b"x"), "sequence number out of order");
    let [_, mut b] = pair("cubic");
    let mut wire = Vec::new();
    frame::encode_close(&mut wire, 0, reason::END, "");
    wire.extend(data(9, b"x"));
    refused(&mut b, &wire, "data after the end");
    let [_, mut b] = pair("cubic");
    refused(&mut b, &[8, 0, 0, 0], "unknown type");
}

#[test]
fn more_than_the_credit_ends_it_and_memory_stays_bounded() {
    let registry = registry();
    let small = Settings {
        receive_buffer: 100_000,
        ..settings("cubic")
    };
    let mut b = Session::accept(at(0), &registry, small).unwrap();
    let mut wire = Vec::new();
    Preface {
        credit: 1 << 30,
        ack_delay: 5000,
        segment: 1400,
        algorithm: String::new(),
    }
    .encode(&mut wire);
    b.on_bytes(When::exactly(at(1)), &wire, &mut []);
    drain(&mut b, at(1), &[]);
    let mut position = 0u32;
    for _ in 0..9 {
        b.on_bytes(When::exactly(at(2)), &data(position, &[7; 10_000]), &mut []);
        position += 10_008;
    }
    assert_eq!((b.error(), b.unread()), (None, 90_000));
    drain(&mut b, at(100), &[]);
    refused(
        &mut b,
        &data(position, &[7; 10_000]),
        "more data than was permitted",
    );
}

#[test]
fn a_sender_waits_for_credit_and_is_told_when_there_is_some() {
    let registry = registry();
    let mut a = Session::connect(at(0), &registry, settings("fixed:window=1000")).unwrap();
    drain(&mut a, at(0), &[]);
    let mut wire = Vec::new();
    Preface {
        credit: 5000,
        ack_delay: 5000,
        segment: 1400,
        algorithm: String::new(),
    }
    .encode(&mut wire);
    a.on_bytes(When::exactly(at(1)), &wire, &mut []);
    let (_, taken) = drain(&mut a, at(1), &[1; 20_000]);
    // Three whole segments.
    assert_eq!(taken, 3 * 1400 - 8);
    let mut ack = Ack::default();
    ack.position = 4200;
    ack.window = 4;
    let mut wire = Vec::new();
    ack.encode(&mut wire);
    a.on_bytes(When::exactly(at(20)), &wire, &mut []);
    let (_, taken) = drain(&mut a, at(20), &[1; 20_000]);
    assert_eq!(taken, 2 * 1400 - 8, "4096 more bytes");
}

#[test]
fn other_services_are_recognised() {
    for (said, want) in [
        (
            "HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n",
            "an HTTP answer",
        ),
        ("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "an SSH banner"),
        ("220 mail.example.net ESMTP\r\n", "220 mail.example"),
        ("\x15\x03\x01\x00\x02\x02\x46", "a TLS record"),
        ("GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1"),
    ] {
        let registry = registry();
        for opens in [true, false] {
            let new = if opens {
                Session::connect
            } else {
                Session::accept
            };
            let mut session = new(at(0), &registry, settings("verus")).unwrap();
            drain(&mut session, at(0), &[]);
            session.on_bytes(When::exactly(at(5)), said.as_bytes(), &mut []);
            let why = session.error().expect("an error").to_string();
            assert!(
                why.contains(want) && why.contains("does not speak ALCC in-band"),
                "{why}"
            );
            assert!(!why.contains('\n') && why.len() < 200, "{why}");
            assert!(
                drain(&mut session, at(5), b"data").0.is_empty(),
                "nothing is said to strangers"
            );
        }
    }
}

#[test]
fn silence_and_an_early_end_are_errors_in_time() {
    let registry = registry();
    let mut a = Session::connect(at(0), &registry, settings("verus")).unwrap();
    drain(&mut a, at(0), &[]);
    assert_eq!(a.next_timer(), Some(at(10_000)));
    // A byte now and then does not help.
    a.on_bytes(When::exactly(at(9_999)), &MAGIC[..1], &mut []);
    a.on_timer(at(10_000));
    assert_eq!(a.error(), Some(&Error::Silent(10_000)));
    let mut a = Session::connect(at(0), &registry, settings("verus")).unwrap();
    a.on_end();
    assert_eq!(a.error(), Some(&Error::Truncated));
}

#[test]
fn another_version_is_told_ours() {
    let registry = registry();
    let mut b = Session::accept(at(0), &registry, settings("verus")).unwrap();
    let mut wire = MAGIC.to_vec();
    wire.push(9);
    b.on_bytes(When::exactly(at(0)), &wire, &mut []);
    assert_eq!(b.error(), Some(&Error::Version(9)));
    let (said, _) = drain(&mut b, at(0), &[]);
    assert_eq!(said[8], 1);
    assert!(
        Preface::decode(&said)
            .unwrap()
            .is_some_and(|(_, len)| len == said.len())
    );
}

#[test]
fn a_receiver_half_that_cannot_be_had_is_refused_and_both_ends_know() {
    let registry = registry();
    for (name, want) in [
        ("sprut", "no algorithm 'sprut'"),
        ("spr\x1b[2Jut", "spr [2Jut"),
        ("cubic", "cubic has none"),
        ("sprout:nonsense=1", "nonsense"),
    ] {
        let mut b = Session::accept(at(0), &registry, settings("cubic")).unwrap();
        let mut wire = Vec::new();
        Preface {
            credit: 1000,
            ack_delay: 5000,
            segment: 1400,
            algorithm: name.to_owned(),
        }
        .encode(&mut wire);
        b.on_bytes(When::exactly(at(1)), &wire, &mut []);
        assert!(
            b.error().unwrap().to_string().contains(want),
            "{:?}",
            b.error()
        );
        let (wire, _) = drain(&mut b, at(1), &[]);
        let mut a = Session::connect(at(0), &registry, settings("sprout")).unwrap();
        a.on_bytes(When::exactly(at(2)), &wire, &mut []);
        let why = a.error().unwrap().to_string();
        assert!(
            why.contains("cannot run the algorithm's receiver half") && why.contains(want),
            "{why}"
        );
    }
}

#[test]
fn a_receiver_half_counts_by_arrival_however_late_it_is_read() {
    let report = |late: bool| {
        let [mut a, mut b] = pair("sprout");
        for came in [5, 10, 15, 25] {
            let (wire, _) = drain(&mut a, at(came), &[1; 500]);
            let when = When {
                since: at(came),
                at: at(came),
                now: at(if late { 30 } else { came }),
            };
            if !late {
                b.on_timer(when.now);
            }
            b.on_bytes(when, &wire, &mut []);
        }
        b.on_timer(at(30));
        let (wire, _) = drain(&mut b, at(30), &[]);
        let (mut left, mut decoder) = (&wire[..], frame::Decoder::default());
        let mut reports = Vec::new();
        while let Some(item) = decoder.next(&mut left).unwrap() {
            if let frame::Item::Report(report) = item {
                reports.push(report);
            }
        }
        assert_eq!(reports.len(), 1);
        reports
    };
    assert_eq!(report(true), report(false));
}

#[test]
fn who_gave_up_is_told_by_no_text() {
    let [mut a, mut b] = pair("cubic");
    let mut wire = Vec::new();
    frame::encode_close(&mut wire, 0, reason::ABORTED, "here");
    b.on_bytes(When::exactly(at(5)), &wire, &mut []);
    assert!(matches!(b.error(), Some(Error::Closed { .. })));
    assert!(drain(&mut b, at(6), &[]).0.is_empty(), "it is no echo");
    a.abort();
    assert_eq!(a.error().unwrap().to_string(), "given up here");
    assert_eq!(complaint(&mut a), (reason::ABORTED, String::new()));
}

#[test]
fn a_peer_makes_nobody_open_a_file() {
    let registry = Registry::builtin().reading(|_| panic!("a file was read"));
    let mut b = Session::accept(at(0), &Arc::new(registry), settings("cubic")).unwrap();
    let mut wire = Vec::new();
    Preface {
        credit: 1000,
        ack_delay: 5000,
        segment: 1400,
        algorithm: "mdi:matrix=/etc/hostname".to_owned(),
    }
    .encode(&mut wire);
    b.on_bytes(When::exactly(at(1)), &wire, &mut []);
    let why = b.error().expect("refused").to_string();
    assert!(why.contains("nothing here reads files"), "{why}");
}

#[test]
fn a_peer_that_vanishes_is_noticed_when_an_answer_is_due_and_not_before() {
    let [mut a, _] = pair("verus");
    // Nothing is due for an hour.
    assert_eq!(a.next_timer(), None);
    a.on_timer(at(3_600_000));
    assert_eq!(a.error(), None);
    drain(&mut a, at(3_600_000), b"hello");
    a.on_timer(at(3_719_999));
    assert_eq!(a.error(), None);
    a.on_timer(at(3_720_000));
    assert_eq!(a.error(), Some(&Error::Vanished(120_000)));
    assert_eq!(complaint(&mut a).0, reason::TIMEOUT);
}

#[test]
fn an_end_in_the_middle_is_an_error_and_an_orderly_one_is_not() {
    let [_, mut b] = pair("cubic");
    b.on_bytes(When::exactly(at(5)), &data(0, b"half"), &mut []);
    b.on_end();
    assert_eq!(b.error(), Some(&Error::Truncated));
    let [_, mut b] = pair("cubic");
    let mut wire = data(0, b"all");
    frame::encode_close(&mut wire, 11, reason::END, "");
    b.on_bytes(When::exactly(at(5)), &wire, &mut []);
    b.on_end();
    assert_eq!((b.error(), b.unread(), b.is_at_end()), (None, 3, false));
    let mut buffer = [0; 10];
    assert_eq!(b.read(at(6), &mut buffer), 3);
    assert!(b.is_at_end());
    assert!(b.write(at(7), b"answer").is_err(), "nobody is there");
    assert!(!b.is_finished());
    b.close();
    assert!(b.is_finished() && b.is_done() && b.error().is_none());
}

#[test]
fn a_peer_that_has_everything_and_has_said_so_may_leave_before_it_hears_of_our_end() {
    use std::io::{Error as Failed, ErrorKind};
    // Eleven bytes are a frame of three; what follows is CLOSE. Until the first are acknowledged
    // the peer has not got everything.
    for (acked, served) in [(11, true), (10, false)] {
        for reset in [false, true] {
            let [_, mut b] = pair("cubic");
            assert_eq!(b.write(at(3), b"all").unwrap(), 3);
            b.close();
            drain(&mut b, at(4), &[]);
            let mut wire = acknowledgement(acked);
            frame::encode_close(&mut wire, 0, reason::END, "");
            b.on_bytes(When::exactly(at(5)), &wire, &mut []);
            assert!(!b.is_finished());
            if reset {
                b.on_failure(&Failed::from(ErrorKind::ConnectionReset));
            } else {
                b.on_end();
            }
            assert_eq!(b.error().is_none(), served, "{acked} {reset}");
            assert_eq!(b.is_finished(), served, "{acked} {reset}");
        }
    }
}

#[test]
fn what_the_receiver_holds_back_is_no_round_trip_time() {
    let [mut a, _] = pair("fixed:window=10");
    drain(&mut a, at(100), &[1; 1392]);
    drain(&mut a, at(101), &[1; 1392]);
    // The first came at 130, the second at 131 ms; told at 150 ms, which is heard at 180 ms.
    let mut ack = Ack::default();
    ack.position = 2800;
    ack.window = 4096;
    ack.hold = 19_000;
    ack.push(frame::Step {
        bytes: 1400,
        micros: 1000,
    });
    let mut wire = Vec::new();
    ack.encode(&mut wire);
    a.on_bytes(When::exactly(at(180)), &wire, &mut []);
    let rtt = a.flow().unwrap().rtt();
    assert_eq!(
        (rtt.latest, rtt.min),
        (Span::from_millis(60), Span::from_millis(60))
    );
}

#[test]
fn an_idle_session_is_small() {
    let before = ALLOCATED.load(std::sync::atomic::Ordering::Relaxed);
    let idle: Vec<_> = (0..5000).map(|_| pair("verus")).collect();
    let each = (ALLOCATED.load(std::sync::atomic::Ordering::Relaxed) - before) / 10_000;
    println!("{each} bytes for each of 10,000 idle sessions");
    assert!(each < 10_000, "{each}");
    drop(idle);
}

struct Counting;

static ALLOCATED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

// SAFETY: the system's allocator with a count.
unsafe impl std::alloc::GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), std::sync::atomic::Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: std::alloc::Layout) {
        ALLOCATED.fetch_sub(layout.size(), std::sync::atomic::Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { std::alloc::System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;
