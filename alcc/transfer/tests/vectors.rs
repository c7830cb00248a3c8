// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc/transfer/tests/transfer-format-vectors.json` against the reader and the answer.
use alcc_transfer::{ANSWER, Answer, Header, Progress, Reader, Sink, Verdict, Wrong};
use serde_json::Value;

fn vectors(name: &str) -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../alcc/transfer/tests/transfer-format-vectors.json"
    );
    let text = std::fs::read_to_string(path).expect("the vectors");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    all[name].as_array().expect("a list").clone()
}

fn bytes(v: &Value, name: &str) -> Vec<u8> {
    let hex = v[name].as_str().expect("hexadecimal");
    let octet = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(octet).collect()
}

#[derive(Default)]
struct Kept(Vec<u8>, Option<Progress>);

impl Sink for Kept {
    type Error = Wrong;

    fn begin(&mut self, _: &Header) -> Result<u64, Wrong> {
        Ok(1 << 20)
    }

    fn earlier(&mut self) -> Option<Progress> {
        self.1.take()
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        self.0.extend(bytes);
        Ok(())
    }

    fn block(&mut self, _: u32, _: u64) {}
}

fn read(wire: &[u8], piece: usize, kept: &mut Kept) -> Result<(), Wrong> {
    let mut reader = Reader::new();
    for piece in wire.chunks(piece) {
        reader.feed(piece, kept)?;
    }
    reader.end()
}

#[test]
fn streams_however_they_are_cut() {
    for v in vectors("streams") {
        for piece in [1, 3, 1000] {
            let mut kept = Kept::default();
            if v["earlier"].is_string() {
                let mut earlier = Progress::default();
                earlier.add(&bytes(&v, "earlier"));
                kept.1 = Some(earlier);
            }
            let error = read(&bytes(&v, "hex"), piece, &mut kept).map_err(|wrong| match wrong {
                Wrong::Stranger => "stranger",
                Wrong::Version(_) => "version",
                Wrong::Header => "header",
                Wrong::Block(_) | Wrong::Count { .. } => "block",
                Wrong::Position { .. } => "position",
                Wrong::AfterEnd => "after-end",
                Wrong::Hash => "hash",
                Wrong::CutShort(_) => "cut-short",
                other => panic!("{other}"),
            });
            assert_eq!(error.err(), v["error"].as_str(), "{} by {piece}", v["name"]);
            assert_eq!(kept.0, bytes(&v, "content"), "{} by {piece}", v["name"]);
        }
    }
}

#[test]
fn answers_in_both_directions() {
    for v in vectors("answers") {
        let wire: [u8; ANSWER] = bytes(&v, "hex").try_into().expect("88 bytes");
        let answer = Answer::decode(&wire);
        let verdict = answer.as_ref().map(|a| match a.verdict {
            Verdict::Good => "good",
            Verdict::Damaged => "damaged",
            Verdict::NotKept => "not-kept",
            Verdict::Part => "part",
        });
        assert_eq!(verdict, v["verdict"].as_str(), "{}", v["name"]);
        if let Some(answer) = answer {
            assert_eq!(answer.encode(), wire, "{}", v["name"]);
            assert_eq!(Some(answer.bytes), v["bytes"].as_u64());
            assert_eq!(Some(answer.took), v["took_ns"].as_u64());
            assert_eq!(answer.end, v["end_ns"].as_u64());
        }
    }
}
