// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Peers that break rules, vanish or leave early.
use super::*;

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

/// The CLOSE that an end sends after an error of its peer.
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
    // It is sent once, and nothing else is sent or received.
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
    refused(&mut a, &acknowledgement(12), "retracts data");
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
                why.contains(want) && why.contains("does not use the in-band protocol"),
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
        let (mut remaining, mut decoder) = (&wire[..], frame::Decoder::default());
        let mut reports = Vec::new();
        while let Some(item) = decoder.next(&mut remaining).unwrap() {
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
fn an_abort_is_reported_to_the_peer_without_text() {
    let [mut a, mut b] = pair("cubic");
    let mut wire = Vec::new();
    frame::encode_close(&mut wire, 0, reason::ABORTED, "here");
    b.on_bytes(When::exactly(at(5)), &wire, &mut []);
    assert!(matches!(b.error(), Some(Error::Closed { .. })));
    assert!(drain(&mut b, at(6), &[]).0.is_empty(), "it echoes nothing");
    a.abort();
    assert_eq!(a.error().unwrap().to_string(), "given up here");
    assert_eq!(complaint(&mut a), (reason::ABORTED, String::new()));
}

#[test]
fn a_peer_cannot_cause_a_file_to_be_opened() {
    let registry = alcc_zoo::registry().reading(|_| panic!("a file was read"));
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
    assert!(why.contains("files cannot be read here"), "{why}");
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
fn an_end_that_leaves_acknowledges_the_data_it_has_read() {
    for reads in [true, false] {
        let [mut a, mut b] = pair("fixed:window=10");
        // The second acknowledgement of two is due five milliseconds after the first.
        for (ms, bytes) in [(10, b"one"), (11, b"two")] {
            assert_eq!(a.write(at(ms), bytes).unwrap(), 3);
            a.flush();
            let (wire, _) = drain(&mut a, at(ms), &[]);
            b.on_bytes(When::exactly(at(ms)), &wire, &mut []);
            let (wire, _) = drain(&mut b, at(ms), &[]);
            a.on_bytes(When::exactly(at(ms)), &wire, &mut []);
        }
        assert_eq!(a.flow().unwrap().in_flight().get(), 11);
        let all = if reads { 6 } else { 3 };
        assert_eq!(b.read(at(11), &mut [0; 6][..all]), all);
        b.close();
        let (wire, _) = drain(&mut b, at(12), &[]);
        a.on_bytes(When::exactly(at(12)), &wire, &mut []);
        let (wire, _) = drain(&mut a, at(12), &[]);
        b.on_bytes(When::exactly(at(12)), &wire, &mut []);
        assert!(b.is_finished(), "so its application leaves");
        b.leave(at(12));
        let (wire, _) = drain(&mut b, at(12), &[]);
        a.on_bytes(When::exactly(at(13)), &wire, &mut []);
        a.on_end();
        a.close();
        assert_eq!(a.is_finished(), reads);
        assert_eq!(a.error(), (!reads).then_some(&Error::Truncated));
    }
}

#[test]
fn the_receivers_delay_is_not_part_of_the_round_trip_time() {
    let [mut a, _] = pair("fixed:window=10");
    drain(&mut a, at(100), &[1; 1392]);
    drain(&mut a, at(101), &[1; 1392]);
    // The first arrived at 130, the second at 131 ms; acknowledged at 150 ms, which is received at
    // 180 ms.
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
