// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{ANSWER, Fields, RESUMING, UNKNOWN, VERSION};

const MAGIC: &[u8; 8] = b"alccdone";

/// The receiver's verdict on a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Everything arrived, unchanged.
    Good,
    /// The content is damaged, or the stream is invalid.
    Damaged,
    /// The content could not be kept: the disk is full, or it is longer than the receiver accepts.
    NotKept,
    /// Version 2: a part has arrived and is kept for the rest.
    Part,
}

/// The receiver's message at the end of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// True in the answer to a flow that resumes: version 2.
    pub resumes: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// Bytes of content received.
    pub bytes: u64,
    /// Time from the first byte of the stream to the last of the content, ns.
    pub took: u64,
    /// Time of the last byte by the receiver's clock, ns, if that is the sender's.
    pub end: Option<u64>,
    /// Delay per byte from write to read, if both ends have one clock: median, ns.
    pub delay_median: Option<u64>,
    /// The same: 95th percentile, ns.
    pub delay_p95: Option<u64>,
    /// SHA-256 of a file's content; zero for made-up content.
    pub hash: [u8; 32],
}

impl Answer {
    /// True if these bytes can be the beginning of an answer.
    pub(crate) fn begins(bytes: &[u8]) -> bool {
        bytes.iter().zip(MAGIC).all(|(a, b)| a == b)
    }

    /// Encodes the answer.
    pub fn encode(&self) -> [u8; ANSWER] {
        let mut bytes = [0; ANSWER];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8] = if self.resumes { RESUMING } else { VERSION };
        bytes[9] = match self.verdict {
            Verdict::Good => 0,
            Verdict::Damaged => 1,
            Verdict::NotKept => 2,
            Verdict::Part => 3,
        };
        let numbers = [
            self.bytes,
            self.took,
            self.end.unwrap_or(UNKNOWN),
            self.delay_median.unwrap_or(UNKNOWN),
            self.delay_p95.unwrap_or(UNKNOWN),
        ];
        for (into, number) in bytes[16..56].chunks_exact_mut(8).zip(numbers) {
            into.copy_from_slice(&number.to_be_bytes());
        }
        bytes[56..88].copy_from_slice(&self.hash);
        bytes
    }

    /// Decodes a peer's answer; `None` if it is malformed.
    pub fn decode(bytes: &[u8; ANSWER]) -> Option<Self> {
        let mut fields = Fields(bytes);
        if fields.bytes() != *MAGIC {
            return None;
        }
        let version = fields.byte();
        if version != VERSION && version != RESUMING {
            return None;
        }
        let resumes = version == RESUMING;
        let verdict = match fields.byte() {
            0 => Verdict::Good,
            1 => Verdict::Damaged,
            2 => Verdict::NotKept,
            3 if resumes => Verdict::Part,
            _ => return None,
        };
        if fields.bytes() != [0; 6] {
            return None;
        }
        Some(Self {
            resumes,
            verdict,
            bytes: fields.u64(),
            took: fields.u64(),
            end: fields.maybe(),
            delay_median: fields.maybe(),
            delay_p95: fields.maybe(),
            hash: fields.bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_as_it_was() {
        let answer = Answer {
            resumes: true,
            verdict: Verdict::NotKept,
            bytes: 5,
            took: 6,
            end: None,
            delay_median: Some(7),
            delay_p95: Some(8),
            hash: [3; 32],
        };
        let bytes = answer.encode();
        assert_eq!(Answer::decode(&bytes), Some(answer));
        for at in 0..16 {
            let mut bent = bytes;
            bent[at] ^= 0x10;
            assert_eq!(Answer::decode(&bent), None, "{at}");
        }
    }
}
