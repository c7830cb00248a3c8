// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lab/record/tests/recording-format-vectors.json` against what is written and read.
use alcc_record::results::Recorded;
use alcc_record::wire::{Body, Packet, Report};
use alcc_record::{Load, Plan};
use serde_json::{Value, json};

fn vectors(name: &str) -> Vec<Value> {
    let text = include_str!("../../../lab/record/tests/recording-format-vectors.json");
    let all: Value = serde_json::from_str(text).unwrap();
    all[name].as_array().unwrap().clone()
}

fn hex(text: &Value) -> Vec<u8> {
    let hex = text.as_str().unwrap();
    let octet = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(octet).collect()
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// As JSON can hold it everywhere.
fn number(n: u64) -> Value {
    if n > 1 << 53 {
        json!(n.to_string())
    } else {
        json!(n)
    }
}

fn plan(plan: &Plan) -> Value {
    let mut all = json!({
        "mode": plan.mode.name(),
        "size": plan.size,
        "overhead": plan.overhead,
        "duration_ns": plan.duration.as_nanos(),
        "warm_up_ns": plan.warm_up.as_nanos(),
        "limit_bps": plan.limit.as_bps(),
    });
    for (name, load) in [("down", plan.down), ("up", plan.up)] {
        match load {
            Load::Nothing => all[name] = json!("nothing"),
            Load::Saturate => all[name] = json!("saturate"),
            Load::Every(span) => all[format!("{name}_interval_ns")] = json!(span.as_nanos()),
        }
    }
    all
}

fn report(report: &Report) -> Value {
    json!({
        "below": report.below,
        "received": report.received,
        "delay_ns": report.delay,
        "least_ns": report.least,
        "peak_bps": report.peak,
        "rate_bps": report.rate,
    })
}

fn packet(packet: &Packet) -> Value {
    let inside = match packet {
        Packet::Hello { nonce } => return json!({"type": "hello", "nonce": nonce}),
        Packet::Challenge { nonce, cookie } => {
            return json!({"type": "challenge", "nonce": nonce, "cookie": digits(cookie)});
        }
        Packet::Start {
            nonce,
            cookie,
            plan: p,
            label,
        } => {
            return json!({"type": "start", "nonce": nonce, "cookie": digits(cookie), "plan": plan(p), "label": label});
        }
        Packet::Ready { nonce, session } => {
            return json!({"type": "ready", "nonce": nonce, "session": session});
        }
        Packet::Refused { nonce, why } => {
            return json!({"type": "refused", "nonce": nonce, "why": why});
        }
        Packet::Session(inside) => inside,
    };
    let mut all = match &inside.body {
        Body::Ping { synced } => json!({"type": "ping", "synced": synced}),
        Body::Pong { start_at } => json!({"type": "pong", "start_at": start_at}),
        Body::Data { seq, report: r } => json!({"type": "data", "seq": seq, "report": report(r)}),
        Body::Report(r) => json!({"type": "report", "report": report(r)}),
        Body::Get { part } => json!({"type": "get", "part": part}),
        Body::Part { part, parts, bytes } => {
            json!({"type": "part", "part": part, "parts": parts, "bytes": digits(bytes)})
        }
        Body::Bye => json!({"type": "bye"}),
    };
    for (name, n) in [
        ("session", inside.session),
        ("sent", inside.sent),
        ("echo_sent", inside.echo_sent),
        ("echo_received", inside.echo_received),
    ] {
        all[name] = number(n);
    }
    all
}

#[test]
fn packets_are_written_and_read_as_the_page_says() {
    let all = vectors("packets");
    assert!(all.len() >= 29);
    for v in all {
        let wire = hex(&v["hex"]);
        let read = Packet::decode(&wire);
        let fields = read.as_ref().map_or(Value::Null, packet);
        assert_eq!(fields, v["packet"], "{}", v["name"]);
        if let Some(read) = read {
            let mut written = Vec::new();
            read.encode(&mut written, wire.len());
            assert_eq!(written, wire, "{}", v["name"]);
        }
    }
}

#[test]
fn recordings_are_written_and_read_as_the_page_says() {
    let all = vectors("recordings");
    assert!(all.len() >= 10);
    for v in all {
        let wire = hex(&v["hex"]);
        let read = Recorded::decode(&wire);
        let fields = read.as_ref().map_or(Value::Null, |r| {
            let arrivals = r.arrivals.iter();
            let arrivals =
                arrivals.map(|a| [a.seq, a.sent.as_nanos(), a.received.as_nanos()].map(number));
            json!({
                "from_ns": r.from.as_nanos(),
                "to_ns": r.to.as_nanos(),
                "sent": r.sent,
                "skipped": r.skipped,
                "received": r.received,
                "copies": r.copies,
                "beyond": r.beyond,
                "overrun": r.overrun,
                "late_p50_ns": r.late[0].as_nanos(),
                "late_p99_ns": r.late[1].as_nanos(),
                "late_max_ns": r.late[2].as_nanos(),
                "arrivals": arrivals.collect::<Vec<_>>(),
            })
        });
        assert_eq!(fields, v["recorded"], "{}", v["name"]);
        if let Some(read) = read {
            assert_eq!(read.encode(), wire, "{}", v["name"]);
        }
    }
}
