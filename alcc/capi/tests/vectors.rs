// SPDX-License-Identifier: Apache-2.0 OR MIT
//! alcc/inband/tests/wire-format-vectors.json through the C library: its `contexts`, which need a whole end.
mod support;
use alcc_inband::frame::{Decoder, Item};
use alcc_inband::preface::Preface;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;
use support::{command, finish, no_compiler, program, root};

fn bytes(hex: &str) -> Vec<u8> {
    let octet = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal");
    (0..hex.len() / 2).map(|i| octet(2 * i)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The reason of the CLOSE and the position of the last ACK that were said.
fn said(mut wire: &[u8]) -> (Option<u64>, u64) {
    let (mut decoder, mut close, mut position) = (Decoder::default(), None, 0);
    while let Some(item) = decoder.next(&mut wire).expect("right frames") {
        match item {
            Item::Close { reason, .. } => close = Some(u64::from(reason)),
            Item::Ack(ack) => position = ack.position,
            _ => {}
        }
    }
    (close, position)
}

#[test]
fn frames_in_context() {
    if no_compiler() {
        return;
    }
    let file = std::fs::read_to_string(root().join("alcc/inband/tests/wire-format-vectors.json"));
    let vectors: Value = serde_json::from_str(&file.expect("the vectors")).expect("JSON");
    let contexts = vectors["contexts"].as_array().expect("a list");
    assert!(contexts.len() >= 23, "{}", contexts.len());
    let mut preface = Vec::new();
    Preface {
        credit: 1 << 20,
        ack_delay: 5000,
        segment: 1448,
        algorithm: String::new(),
    }
    .encode(&mut preface);
    let mut child = command(&program("contexts"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut to = child.stdin.take().expect("piped");
    for v in contexts {
        let heard = v["hex"].as_str().expect("frames");
        writeln!(
            to,
            "{} {} {} {heard}",
            v["buffer"],
            v["sent"],
            hex(&preface)
        )
        .expect("it reads");
    }
    drop(to);
    let out = finish(child, Duration::from_secs(60));
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).expect("text");
    assert_eq!(text.lines().count(), contexts.len());
    for (v, line) in contexts.iter().zip(text.lines()) {
        let name = &v["name"];
        let words: Vec<&str> = line.split(' ').collect();
        let [received, error, wire] = words[..] else {
            panic!("{name}: {line}");
        };
        let of = |word: &str| if word == "-" { Vec::new() } else { bytes(word) };
        assert_eq!(hex(&of(received)), v["received"], "{name}");
        let (protocol, closed) = (libc::EPROTO.to_string(), libc::ECONNABORTED.to_string());
        match v["error"].as_str() {
            // After the peer's end an error frame cannot reach the peer.
            Some("protocol") => assert!(error == protocol || error == "end", "{name}: {error}"),
            Some("closed") => assert_eq!(error, closed, "{name}"),
            None => assert!(
                error == libc::EAGAIN.to_string() || error == "end",
                "{name}: {error}"
            ),
            Some(other) => panic!("{name}: {other}"),
        }
        let (close, position) = said(&of(wire));
        assert_eq!(close, v["close"].as_u64(), "{name}");
        if let Some(want) = v["position"].as_u64() {
            assert_eq!(position, want, "{name}");
        }
    }
}
