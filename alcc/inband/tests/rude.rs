// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conversations `rude` of `alcc/inband/tests/wire-format-vectors.json` against both ends, over sockets.
use alcc_cc::Registry;
use alcc_inband::carrier::Tcp;
use alcc_inband::frame::{Decoder, Item};
use alcc_inband::preface::Preface;
use alcc_inband::{Error, Settings, Stream};
use alcc_units::Span;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

fn vectors() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../alcc/inband/tests/wire-format-vectors.json"
    );
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    all["rude"].as_array().unwrap().clone()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn class(error: &Error) -> &'static str {
    match error {
        Error::Foreign(_) => "foreign",
        Error::Version(_) => "version",
        Error::Protocol(_) | Error::NeverSent { .. } => "protocol",
        Error::Algorithm(_) => "module",
        Error::Closed { .. } => "closed",
        Error::Truncated => "cut",
        Error::Silent(_) | Error::Vanished(_) => "silent",
        other => panic!("{other}"),
    }
}

/// All bytes that the peer receives until the other end is gone, and whether the connection was reset, which may
/// discard the last of them.
fn heard(peer: &mut TcpStream) -> (Vec<u8>, bool) {
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match peer.read(&mut part) {
            Ok(0) => return (all, false),
            Ok(n) => all.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return (all, true),
            Err(e) => panic!("the other end is not gone: {e}"),
        }
    }
}

/// The reason of the CLOSE among it.
fn reason(heard: &[u8]) -> Option<u64> {
    let (_, length) = Preface::decode(heard).ok()??;
    let mut rest = &heard[length..];
    let mut reader = Decoder::default();
    let mut found = None;
    while let Some(item) = reader.next(&mut rest).unwrap() {
        if let Item::Close { reason, .. } = item {
            found = Some(u64::from(reason));
        }
    }
    found
}

/// True if a CLOSE was expected, and true if it came.
fn conversation(one: &Value, opener: bool) -> (bool, bool) {
    let name = format!("{}, opener: {opener}", one["name"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let (socket, _) = listener.accept().unwrap();
    let settings = Settings {
        receive_buffer: 4096,
        handshake: Span::from_millis(800),
        silence: Span::from_millis(800),
        ..Settings::new("fixed:window=100".parse().unwrap())
    };
    let registry = Arc::new(Registry::builtin());
    let mut stream = Stream::begin(Tcp::new(socket).unwrap(), &registry, settings, opener).unwrap();
    // It may have been refused before it has said everything.
    let _ = peer.write_all(&bytes(one["hex"].as_str().unwrap()));
    if one["then"] == "leaves" {
        peer.shutdown(Shutdown::Write).unwrap();
    }
    if let Some(n) = one["written"].as_u64() {
        stream.write_all(&vec![0; n as usize]).unwrap();
    }
    let mut came = Vec::new();
    let read = stream.read_to_end(&mut came);
    assert!(read.is_err() || one["ended"] == true, "{name}: an end");
    let said = stream
        .write_all(&[0; 100_000])
        .expect_err(&name)
        .to_string();
    assert!(!said.contains(char::is_control), "{name}: {said:?}");
    let error = stream.error().expect(&name);
    assert_eq!(class(&error), one["error"], "{name}: {said}");
    drop(stream);
    let (all, reset) = heard(&mut peer);
    let wanted = &one[if opener {
        "opener_closes"
    } else {
        "acceptor_closes"
    }];
    let found = reason(&all);
    assert!(
        found == wanted.as_u64() || reset && found.is_none(),
        "{name}: heard {found:?}, not {wanted}"
    );
    (wanted.is_u64(), found.is_some())
}

#[test]
fn both_ends_end_as_the_page_says() {
    let all = vectors();
    assert!(all.len() >= 28, "{}", all.len());
    let ends = all.iter().flat_map(|one| [(one, true), (one, false)]);
    let closes: Vec<_> = ends
        .map(|(one, opener)| conversation(one, opener))
        .collect();
    let wanted = closes.iter().filter(|close| close.0).count();
    let found = closes.iter().filter(|close| close.1).count();
    println!("{found} of {wanted} were heard");
    assert!(found > wanted / 2, "{found} of {wanted} were heard");
}
