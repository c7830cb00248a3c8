// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc/inband/tests/wire-format-vectors.json` against the codec and the session.
use alcc_cc::conformance::Checked;
use alcc_cc::{Header, Report};
use alcc_inband::frame::{self, Ack, Decoder, Item, Step};
use alcc_inband::preface::Preface;
use alcc_inband::{Error, Output, Session, Settings, When};
use alcc_units::{Span, Time};
use serde_json::Value;
use std::sync::Arc;

fn vectors() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../alcc/inband/tests/wire-format-vectors.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).expect("the vectors")).expect("JSON")
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().expect("a list")
}

fn text<'a>(v: &'a Value, name: &str) -> &'a str {
    v[name].as_str().unwrap_or_default()
}

fn number(v: &Value, name: &str) -> u64 {
    v[name].as_u64().unwrap_or_else(|| panic!("{name} of {v}"))
}

fn bytes(v: &Value, name: &str) -> Vec<u8> {
    let hex = text(v, name);
    let octet = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(octet).collect()
}

/// An item, with its payload put together.
#[derive(Debug, PartialEq)]
struct Frame(Item<'static>, Vec<u8>);

/// Decodes pieces of this size; errors by the name that the vectors use.
fn decode(bytes: &[u8], piece: usize) -> Result<Vec<Frame>, &'static str> {
    let mut decoder = Decoder::default();
    let mut frames: Vec<Frame> = Vec::new();
    for mut piece in bytes.chunks(piece) {
        while let Some(item) = decoder.next(&mut piece).map_err(|e| class(&e))? {
            let item = match item {
                Item::Payload(p) => {
                    frames.last_mut().expect("a head first").1.extend(p);
                    continue;
                }
                Item::Data {
                    sequence,
                    header,
                    payload,
                    overhead,
                } => Item::Data {
                    sequence,
                    header,
                    payload,
                    overhead,
                },
                Item::Ack(ack) => Item::Ack(ack),
                Item::Report(report) => Item::Report(report),
                Item::Close {
                    sequence,
                    reason,
                    text,
                    len,
                } => Item::Close {
                    sequence,
                    reason,
                    text,
                    len,
                },
                Item::Ping(o) => Item::Ping(o),
                Item::Pong(o) => Item::Pong(o),
                Item::Unknown(n) => Item::Unknown(n),
            };
            frames.push(Frame(item, Vec::new()));
        }
    }
    Ok(frames)
}

fn class(error: &Error) -> &'static str {
    match error {
        Error::Foreign(_) => "foreign",
        Error::Version(_) => "version",
        Error::Protocol(_) => "protocol",
        other => panic!("{other}"),
    }
}

/// The frame from its fields, and its bytes as this crate writes them.
fn expected(v: &Value) -> (Frame, Vec<u8>) {
    let mut out = Vec::new();
    let payload = bytes(v, "payload");
    let octets = || <[u8; 8]>::try_from(bytes(v, "octets")).expect("eight bytes");
    let item = match text(v, "type") {
        kind @ ("data" | "tagged") => {
            let tag = bytes(v, "tag");
            let sequence = number(v, "sequence") as u32;
            frame::encode_data(&mut out, sequence, &tag, payload.len());
            let overhead = out.len();
            assert_eq!(kind == "tagged", overhead > frame::DATA_OVERHEAD);
            out.extend_from_slice(&payload);
            let header = Header::new(&tag);
            Item::Data {
                sequence,
                header,
                payload: payload.len(),
                overhead,
            }
        }
        "ack" => {
            let mut ack = Ack::default();
            ack.position = number(v, "position");
            ack.window = number(v, "window") as u32;
            ack.time = number(v, "time") as u32;
            ack.hold = number(v, "hold") as u32;
            for step in list(v, "steps") {
                let at = |i: usize| step[i].as_u64().expect("a number") as u32;
                assert!(ack.push(Step {
                    bytes: at(0),
                    micros: at(1)
                }));
            }
            ack.encode(&mut out);
            Item::Ack(ack)
        }
        "report" => {
            let report = bytes(v, "report");
            frame::encode_report(&mut out, &report);
            Item::Report(Report::new(&report))
        }
        "close" => {
            let (sequence, reason) = (number(v, "sequence") as u32, number(v, "reason") as u8);
            frame::encode_close(&mut out, sequence, reason, text(v, "text"));
            Item::Close {
                sequence,
                reason,
                text: text(v, "text").to_owned(),
                len: out.len(),
            }
        }
        "ping" => {
            frame::encode_ping(&mut out, false, octets());
            Item::Ping(octets())
        }
        "pong" => {
            frame::encode_ping(&mut out, true, octets());
            Item::Pong(octets())
        }
        "unknown" => Item::Unknown(number(v, "number") as u8),
        other => panic!("type {other}"),
    };
    (Frame(item, payload), out)
}

#[test]
fn frames_in_both_directions_however_they_are_cut() {
    let vectors = vectors();
    let mut all = Vec::new();
    let mut every = Vec::new();
    for v in list(&vectors, "frames") {
        let name = text(v, "name");
        let wire = bytes(v, "hex");
        let (frame, encoded) = expected(v);
        if v["decode"] != true {
            assert_eq!(encoded, wire, "{name}");
        }
        for piece in [1, 2, 3, 5, 7, 1000] {
            assert_eq!(
                decode(&wire, piece),
                Ok(vec![expected(v).0]),
                "{name} by {piece}"
            );
        }
        all.extend(wire);
        every.push(frame);
    }
    assert_eq!(decode(&all, 1), Ok(every), "one after the other");
}

#[test]
fn prefaces_in_both_directions() {
    let vectors = vectors();
    for v in list(&vectors, "prefaces") {
        let name = text(v, "name");
        let mut wire = bytes(v, "hex");
        let preface = Preface {
            credit: number(v, "credit"),
            ack_delay: number(v, "ack_delay") as u32,
            segment: number(v, "segment") as u16,
            algorithm: text(v, "algorithm").to_owned(),
        };
        if v["decode"] != true {
            let mut out = Vec::new();
            preface.encode(&mut out);
            assert_eq!(out, wire, "{name}");
        }
        for cut in 0..wire.len() {
            assert_eq!(Preface::decode(&wire[..cut]), Ok(None), "{name} at {cut}");
        }
        let len = wire.len();
        wire.extend_from_slice(b"and frames");
        assert_eq!(Preface::decode(&wire), Ok(Some((preface, len))), "{name}");
    }
}

#[test]
fn what_is_wrong_is_found_and_what_is_not_yet_wrong_is_not() {
    let vectors = vectors();
    for v in list(&vectors, "invalid_frames") {
        for piece in [1, 1000] {
            let found = decode(&bytes(v, "hex"), piece);
            assert_eq!(found, Err(text(v, "error")), "{}", text(v, "name"));
        }
    }
    for v in list(&vectors, "invalid_prefaces") {
        let wire = bytes(v, "hex");
        let found = Preface::decode(&wire).map_err(|e| class(&e));
        assert_eq!(found, Err(text(v, "error")), "{}", text(v, "name"));
        // By the byte: the first wrong one is the end.
        let first = (1..=wire.len()).find_map(|n| Preface::decode(&wire[..n]).err());
        assert_eq!(first.map(|e| class(&e)), Some(text(v, "error")));
    }
    for v in list(&vectors, "incomplete") {
        let wire = bytes(v, "hex");
        match text(v, "of") {
            "preface" => assert_eq!(Preface::decode(&wire), Ok(None)),
            _ => assert_eq!(decode(&wire, 1), Ok(vec![])),
        }
    }
}

#[test]
fn the_exchange() {
    let vectors = vectors();
    let exchange = &vectors["exchange"];
    let registry = Arc::new(Checked::registry(&alcc_zoo::registry()));
    let settings = |end: &str| Settings {
        segment: number(&exchange[end], "segment") as usize,
        ..Settings::new(text(&exchange[end], "algorithm").parse().unwrap())
    };
    // Any other origin of the clock would do as well, because times are modulo 2^32.
    let at = |us: u64| Time::from_nanos(us * 1000);
    let mut ends = [
        Session::connect(at(0), &registry, settings("opener")).unwrap(),
        Session::accept(at(0), &registry, settings("acceptor")).unwrap(),
    ];
    let mut received = [Vec::new(), Vec::new()];
    let mut flying: Vec<(u64, usize, Vec<u8>)> = Vec::new();
    for step in list(exchange, "steps") {
        let (us, does) = (number(step, "at_us"), text(step, "does"));
        let who = usize::from(text(step, "from") == "acceptor");
        for (_, to, wire) in flying.extract_if(.., |(due, _, _)| *due <= us) {
            // One byte at a time is as good.
            for byte in wire.chunks(1) {
                ends[to].on_bytes(When::exactly(at(us)), byte, &mut []);
            }
            assert_eq!(ends[to].error(), None, "{does}");
        }
        let end = &mut ends[who];
        end.on_timer(at(us));
        if let Some(n) = step["read"].as_u64() {
            let mut buffer = vec![0; 4096];
            let got = end.read(at(us), &mut buffer);
            assert_eq!(got as u64, n, "{does}");
            received[who].extend_from_slice(&buffer[..got]);
        }
        let mut out = Output::default();
        let written = bytes(step, "write");
        let taken = end.output(at(us), &written, false, u64::MAX, &mut out);
        assert_eq!(taken, written.len(), "{does}");
        if step["close"] == true {
            end.close();
            end.output(at(us), &[], false, u64::MAX, &mut out);
        }
        let mut wire = Vec::new();
        out.copy_unwritten(&written, 0, &mut wire);
        assert_eq!(wire, bytes(step, "hex"), "{does}");
        flying.push((us + number(exchange, "one_way_us"), 1 - who, wire));
    }
    for (due, to, wire) in flying {
        ends[to].on_bytes(When::exactly(at(due)), &wire, &mut []);
    }
    for (i, name) in ["opener", "acceptor"].into_iter().enumerate() {
        let (end, then) = (&mut ends[i], &exchange["afterwards"][name]);
        let mut buffer = vec![0; 4096];
        let got = end.read(at(1_000_000), &mut buffer);
        received[i].extend_from_slice(&buffer[..got]);
        assert_eq!(received[i], bytes(then, "received"), "{name}");
        assert_eq!(
            Some(end.is_finished()),
            then["finished"].as_bool(),
            "{name}"
        );
        assert!(end.is_at_end(), "{name}");
        let rtt = end.flow().unwrap().rtt();
        assert_eq!(
            rtt.latest,
            Span::from_micros(number(then, "rtt_us")),
            "{name}"
        );
    }
}

/// Handling by a whole end of frames that are each valid on their own.
#[test]
fn frames_in_context() {
    let vectors = vectors();
    let registry = Arc::new(Checked::registry(&alcc_zoo::registry()));
    let now = |ms: u64| Time::from_nanos(ms * 1_000_000);
    for v in list(&vectors, "contexts") {
        let name = text(v, "name");
        let mut settings = Settings::new("fixed:window=100".parse().unwrap());
        settings.receive_buffer = number(v, "buffer") as usize;
        let mut end = Session::accept(now(0), &registry, settings).unwrap();
        let mut wire = Vec::new();
        Preface {
            credit: 1 << 20,
            ack_delay: 5000,
            segment: 1448,
            algorithm: String::new(),
        }
        .encode(&mut wire);
        end.on_bytes(When::exactly(now(1)), &wire, &mut []);
        let payload = vec![7; number(v, "sent") as usize];
        let mut out = Output::default();
        assert_eq!(
            end.output(now(2), &payload, false, u64::MAX, &mut out),
            payload.len()
        );
        let heard = bytes(v, "hex");
        end.on_bytes(When::exactly(now(50)), &heard, &mut []);
        let error = match end.error() {
            None => Value::Null,
            Some(Error::Closed { reason, .. }) => {
                assert_eq!(u64::from(*reason), number(v, "reason"), "{name}");
                "closed".into()
            }
            Some(Error::Protocol(_) | Error::NeverSent { .. }) => "protocol".into(),
            Some(other) => panic!("{name}: {other}"),
        };
        assert_eq!(error, v["error"], "{name}");
        let mut got = vec![0; 8192];
        let n = end.read(now(50), &mut got);
        assert_eq!(got[..n], bytes(v, "received"), "{name}");
        let mut out = Output::default();
        end.output(now(50), &[], false, u64::MAX, &mut out);
        let mut said = Vec::new();
        out.copy_unwritten(&[], 0, &mut said);
        let said = decode(&said, 1000).unwrap();
        let close = said.iter().find_map(|f| match &f.0 {
            Item::Close { reason, .. } => Some(u64::from(*reason)),
            _ => None,
        });
        assert_eq!(close, v["close"].as_u64(), "{name}");
        let told = said.iter().find_map(|f| match &f.0 {
            Item::Ack(ack) => Some(ack.position),
            _ => None,
        });
        if let Some(position) = v["position"].as_u64() {
            assert_eq!(told.unwrap_or(0), position, "{name}");
        }
    }
}
