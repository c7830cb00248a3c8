// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packet log: what it looks like, and that it reads back.
use alcc_link::log::{Header, Line, format_line, format_mahimahi_line, parse, write_header};
use alcc_link::{DropReason, Ecn, Outcome, Packet};
use alcc_units::{Bytes, Span, Time};
use proptest::prelude::*;

const PACKET: Packet = Packet {
    id: 17,
    flow: 3,
    len: Bytes::new(1500),
    ecn: Ecn::NotEct,
};

#[test]
fn mahimahis_form_has_whole_milliseconds_that_agree() {
    let (packet, at) = (PACKET, Time::from_nanos(13_000_999));
    let mut text = String::new();
    for line in [
        Line::Arrival { at, packet },
        // It arrived at 12.9: by the clock of whole milliseconds one before.
        Line::Departure {
            at,
            packet,
            queue_delay: Span::from_nanos(100_999),
        },
        Line::Drop {
            at,
            packet,
            why: DropReason::Overflow,
        },
        Line::Opportunity {
            at,
            len: Bytes::new(1500),
        },
    ] {
        format_mahimahi_line(&mut text, &line).unwrap();
    }
    assert_eq!(text, "13 + 1500\n13 - 1500 1\n# 13 d 1 1500\n13 # 1500\n");
}

fn text(header: &Header, lines: &[Line]) -> String {
    let mut text = String::new();
    write_header(&mut text, header).unwrap();
    for line in lines {
        format_line(&mut text, line).unwrap();
    }
    text
}

#[test]
fn events_look_as_documented() {
    let (packet, at) = (PACKET, Time::from_nanos(13_000_999));
    let arrived = Time::from_nanos(12_345_678);
    let outcomes = [
        Outcome::Arrived {
            at: arrived,
            packet,
        },
        Outcome::Departed {
            at,
            packet,
            arrived,
        },
        Outcome::Delivered {
            at,
            packet,
            arrived,
            queue_delay: Span::ZERO,
        },
        Outcome::Dropped {
            at,
            packet,
            why: DropReason::Aqm,
        },
    ];
    let mut text = String::new();
    for line in outcomes.iter().filter_map(Line::of) {
        format_line(&mut text, &line).unwrap();
    }
    assert_eq!(
        text,
        "12.345 + 1500 3 17\n13.000 - 1500 0.655 3 17\n13.000 d 1 1500 aqm 3 17\n"
    );
}

#[test]
fn a_bad_log_is_refused_with_line_and_reason() {
    let head = text(&Header::default(), &[]);
    let count = head.lines().count();
    for (bad, reason) in [
        ("1.000 + 1500 0", "the line is too short"),
        ("1.000 + 1500 0 1 2", "the line is too long"),
        ("1.000 ? 1500 0 1", "no such event"),
        ("1 + 1500 0 1", "expected milliseconds with three decimals"),
        (
            "1.0a0 + 1500 0 1",
            "expected milliseconds with three decimals",
        ),
        (
            "+1.000 + 1500 0 1",
            "expected milliseconds with three decimals",
        ),
        ("1.000 + -3 0 1", "expected a whole number"),
        (
            "1.000 d 1 40 bored 0 1",
            "expected loss, radio, corrupt, overflow or aqm",
        ),
        ("99999999999999999.000 # 1500", "beyond 584 years"),
        ("", "expected milliseconds"),
    ] {
        let error = parse(&format!("{head}0.000 # 1500\n{bad}\n")).unwrap_err();
        assert_eq!(error.line, count + 2, "{bad}");
        assert!(error.to_string().contains(reason), "{bad}: {error}");
    }
    assert!(parse("").unwrap_err().to_string().contains("line 1"));
    assert!(parse("5 + 1504\n").is_err());
}

fn line() -> impl Strategy<Value = Line> {
    let us = || (0..u64::MAX / 1000).prop_map(|us| us * 1000);
    let packet = (any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(id, flow, len)| Packet {
        id,
        flow,
        len: Bytes::new(len),
        ecn: Ecn::NotEct,
    });
    let why = prop_oneof![
        Just(DropReason::Loss),
        Just(DropReason::Radio),
        Just(DropReason::Corrupt),
        Just(DropReason::Overflow),
        Just(DropReason::Aqm)
    ];
    (us(), packet, us(), why, 0..4).prop_map(|(at, packet, delay, why, which)| {
        let at = Time::from_nanos(at);
        match which {
            0 => Line::Arrival { at, packet },
            1 => Line::Departure {
                at,
                packet,
                queue_delay: Span::from_nanos(delay),
            },
            2 => Line::Drop { at, packet, why },
            _ => Line::Opportunity {
                at,
                len: packet.len,
            },
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        texts in prop::array::uniform7(any::<String>()),
        // a span of whole nanoseconds prints exactly up to 2^53, which is 104 days
        delay in 0..1_u64 << 53,
        seed: u64,
        lines in prop::collection::vec(line(), 0..50),
    ) {
        let [program, command, direction, link, queue, loss, about] = texts;
        let header = Header {
            program, command, direction, link, queue, loss, seed, about,
            delay: Span::from_nanos(delay),
        };
        let text = text(&header, &lines);
        prop_assert_eq!(parse(&text), Ok((header, lines)));
    }

    #[test]
    fn no_text_makes_it_panic(text: String, tail in "[-+d#.0-9 \n]{0,80}") {
        drop(parse(&text));
        drop(parse(&format!("# alcc packet log 1\n{tail}")));
    }
}
