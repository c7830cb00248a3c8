// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encoding and decoding of frames, which `docs/formats.md` describes.
//!
//! The [`Decoder`] takes bytes in pieces of any size. It keeps no payload, and allocates memory
//! only for the text of a CLOSE.
use crate::Error;
use crate::preface::ByteReader;
use alcc_cc::{Header, Report};

/// Length of a frame's header: type and length.
pub const HEADER_LEN: usize = 4;
/// Longest payload of a DATA frame.
pub const MAX_PAYLOAD: usize = 65_536;
/// Overhead of a DATA frame.
pub const DATA_OVERHEAD: usize = HEADER_LEN + 4;
/// Overhead of a TAGGED frame, without the algorithm's bytes.
pub const TAGGED_OVERHEAD: usize = DATA_OVERHEAD + 1;
/// Maximum number of steps in an ACK.
pub const MAX_STEPS: usize = 16;
/// Maximum length of the text of a CLOSE.
pub const MAX_TEXT: usize = 200;
/// Unit of windows in an ACK, in bytes.
pub const WINDOW_UNIT: u64 = 1024;
/// Largest 24-bit number.
pub const MAX_U24: u32 = (1 << 24) - 1;
/// Largest 48-bit number.
pub const MAX_U48: u64 = (1 << 48) - 1;

const ACK_LEN: usize = 16;
const STEP_LEN: usize = 6;
/// Maximum number of bytes that are collected before they are decoded: a CLOSE with its text.
const MAX_COLLECTED: usize = 5 + MAX_TEXT;

/// Numbers of the frame types. An unknown type is skipped from 0x80 on, and is an error below.
pub mod kind {
    #![allow(missing_docs, reason = "the names are the documentation")]
    pub const DATA: u8 = 1;
    pub const TAGGED: u8 = 2;
    pub const ACK: u8 = 3;
    pub const REPORT: u8 = 4;
    pub const CLOSE: u8 = 5;
    pub const PING: u8 = 6;
    pub const PONG: u8 = 7;
}

/// Reasons of a CLOSE.
pub mod reason {
    /// End of data in this direction; the other continues.
    pub const END: u8 = 0;
    /// The application aborted the connection.
    pub const ABORTED: u8 = 1;
    /// The peer broke a rule.
    pub const PROTOCOL: u8 = 2;
    /// The algorithm's receiver module does not exist.
    pub const ALGORITHM: u8 = 3;
    /// Nothing arrived for too long.
    pub const TIMEOUT: u8 = 4;

    /// The reason in words.
    pub const fn name(reason: u8) -> &'static str {
        match reason {
            END => "the end of its data",
            ABORTED => "its application gave up",
            PROTOCOL => "it saw a breach of the protocol",
            ALGORITHM => "it cannot run the algorithm's receiver half",
            TIMEOUT => "it received nothing for too long",
            _ => "a reason that is not known here",
        }
    }
}

/// One step back in time from an acknowledgement: `micros` earlier the position was lower by
/// `bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// Difference of the position, bytes; at most 2^24 - 1.
    pub bytes: u32,
    /// Difference of the time, µs; at most 2^24 - 1.
    pub micros: u32,
}

/// An acknowledgement: the position reached, and the times of earlier positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// Position up to which all counted frames have arrived; at most 2^48 - 1.
    pub position: u64,
    /// Receive window beyond `position`, in KiB; at most 2^24 - 1.
    pub window: u32,
    /// Time on the receiver's clock at which the position was reached, µs modulo 2^32.
    pub time: u32,
    /// Time from then until this frame was made, µs; at most 2^24 - 1.
    pub hold: u32,
    steps: [Step; MAX_STEPS],
    count: u8,
}

impl Ack {
    /// The steps back in time, the newest first.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..usize::from(self.count)]
    }

    /// Adds an earlier step; false if there is no room.
    pub fn push(&mut self, step: Step) -> bool {
        let Some(place) = self.steps.get_mut(usize::from(self.count)) else {
            return false;
        };
        *place = step;
        self.count += 1;
        true
    }

    /// Removes the oldest step if it is redundant: without it the bytes before count as arrived at
    /// the oldest instant.
    pub(crate) fn trim(&mut self) {
        while self.steps().last().is_some_and(|step| step.micros == 0) {
            self.count -= 1;
        }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        head(out, kind::ACK, ACK_LEN + STEP_LEN * self.steps().len());
        out.extend_from_slice(&self.position.to_be_bytes()[2..]);
        out.extend_from_slice(&self.window.to_be_bytes()[1..]);
        out.extend_from_slice(&self.time.to_be_bytes());
        out.extend_from_slice(&self.hold.to_be_bytes()[1..]);
        for step in self.steps() {
            out.extend_from_slice(&step.bytes.to_be_bytes()[1..]);
            out.extend_from_slice(&step.micros.to_be_bytes()[1..]);
        }
    }

    fn decode(bytes: &[u8]) -> Self {
        let mut take = ByteReader(bytes);
        let mut ack = Self {
            position: take.be(6),
            window: take.be(3) as u32,
            time: take.be(4) as u32,
            hold: take.be(3) as u32,
            ..Self::default()
        };
        while !take.0.is_empty() {
            let (bytes, micros) = (take.be(3) as u32, take.be(3) as u32);
            if !ack.push(Step { bytes, micros }) {
                break;
            }
        }
        ack
    }
}

fn head(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.push(kind);
    out.extend_from_slice(&(len as u32).to_be_bytes()[1..]);
}

/// Appends the header of a frame with payload: a TAGGED frame if there are bytes for the receiver
/// module, else a DATA frame.
pub fn encode_data(out: &mut Vec<u8>, sequence: u32, header: &[u8], payload: usize) {
    if header.is_empty() {
        head(out, kind::DATA, 4 + payload);
        out.extend_from_slice(&sequence.to_be_bytes());
    } else {
        head(out, kind::TAGGED, 5 + header.len() + payload);
        out.extend_from_slice(&sequence.to_be_bytes());
        out.push(header.len() as u8);
        out.extend_from_slice(header);
    }
}

/// Appends a REPORT.
pub fn encode_report(out: &mut Vec<u8>, report: &[u8]) {
    head(out, kind::REPORT, report.len());
    out.extend_from_slice(report);
}

/// Appends a CLOSE; text beyond [`MAX_TEXT`] bytes is cut off.
pub fn encode_close(out: &mut Vec<u8>, sequence: u32, reason: u8, text: &str) {
    let mut len = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    head(out, kind::CLOSE, 5 + len);
    out.extend_from_slice(&sequence.to_be_bytes());
    out.push(reason);
    out.extend_from_slice(&text.as_bytes()[..len]);
}

/// Appends a PING or its answer.
pub fn encode_ping(out: &mut Vec<u8>, answer: bool, octets: [u8; 8]) {
    head(out, if answer { kind::PONG } else { kind::PING }, 8);
    out.extend_from_slice(&octets);
}

/// The next item in a stream of frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// A frame with data begins; `payload` bytes of it follow.
    Data {
        /// The low 32 bits of the position at which the frame begins.
        sequence: u32,
        /// Header for the receiver module.
        header: Header,
        /// Bytes that follow as [`Item::Payload`].
        payload: usize,
        /// Length of the frame's header, bytes.
        overhead: usize,
    },
    /// Part of a payload.
    Payload(&'a [u8]),
    /// An acknowledgement.
    Ack(Ack),
    /// A report of the receiver module.
    Report(Report),
    /// The end of a direction.
    Close {
        /// The same as in [`Item::Data`].
        sequence: u32,
        /// The reason, one of [`reason`].
        reason: u8,
        /// Text for people; invalid UTF-8 is replaced.
        text: String,
        /// Length of the whole frame, bytes.
        len: usize,
    },
    /// A PING.
    Ping([u8; 8]),
    /// The answer to a PING.
    Pong([u8; 8]),
    /// A frame of an unknown type that may be skipped.
    Unknown(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Collects bytes until the item can be decoded.
    Collect {
        need: usize,
    },
    Payload {
        remaining: usize,
    },
    Skip {
        remaining: usize,
    },
}

/// Decoder of frames from bytes in pieces of any size.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    collected: [u8; HEADER_LEN + MAX_COLLECTED],
    have: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            state: State::Collect { need: HEADER_LEN },
            collected: [0; HEADER_LEN + MAX_COLLECTED],
            have: 0,
        }
    }
}

impl Decoder {
    /// Returns the next item of `input`, which is advanced past the used bytes; `None`: all of it
    /// was used.
    ///
    /// # Errors
    /// [`Error::Protocol`] for an invalid frame. Decoding cannot continue after it.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Item<'a>>, Error> {
        loop {
            match self.state {
                State::Collect { need } => {
                    let (now, rest) = input.split_at((need - self.have).min(input.len()));
                    self.collected[self.have..self.have + now.len()].copy_from_slice(now);
                    self.have += now.len();
                    *input = rest;
                    if self.have < need {
                        return Ok(None);
                    }
                    if let Some(item) = self.collected()? {
                        return Ok(Some(item));
                    }
                }
                State::Payload { remaining: 0 } | State::Skip { remaining: 0 } => self.begin(),
                State::Payload { remaining } => {
                    let (now, rest) = input.split_at(remaining.min(input.len()));
                    *input = rest;
                    if now.is_empty() {
                        return Ok(None);
                    }
                    self.state = State::Payload {
                        remaining: remaining - now.len(),
                    };
                    return Ok(Some(Item::Payload(now)));
                }
                State::Skip { remaining } => {
                    let now = remaining.min(input.len());
                    *input = &input[now..];
                    self.state = State::Skip {
                        remaining: remaining - now,
                    };
                    if now < remaining {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn begin(&mut self) {
        self.have = 0;
        self.state = State::Collect { need: HEADER_LEN };
    }

    /// Handles the completed collection: returns an item, or starts to collect more.
    fn collected(&mut self) -> Result<Option<Item<'static>>, Error> {
        let bytes = &self.collected[..self.have];
        let mut take = ByteReader(bytes);
        let (kind, len) = (take.be(1) as u8, take.be(3) as usize);
        if self.have == HEADER_LEN {
            let (need, right) = match kind {
                kind::DATA => (4, (4..=4 + MAX_PAYLOAD).contains(&len)),
                kind::TAGGED => (5, (6..=5 + 16 + MAX_PAYLOAD).contains(&len)),
                kind::ACK => (
                    len,
                    (ACK_LEN..=ACK_LEN + MAX_STEPS * STEP_LEN).contains(&len)
                        && (len - ACK_LEN).is_multiple_of(STEP_LEN),
                ),
                kind::REPORT => (len, (1..=64).contains(&len)),
                kind::CLOSE => (len, (5..=MAX_COLLECTED).contains(&len)),
                kind::PING | kind::PONG => (len, len == 8),
                0x80.. => (0, len <= MAX_PAYLOAD),
                _ => return Err(Error::Protocol("a frame of an unknown type")),
            };
            if !right {
                return Err(Error::Protocol("a frame of impossible length"));
            }
            if kind >= 0x80 {
                self.state = State::Skip { remaining: len };
                return Ok(Some(Item::Unknown(kind)));
            }
            self.state = State::Collect {
                need: HEADER_LEN + need,
            };
            return Ok(None);
        }
        let item = match kind {
            kind::DATA => Item::Data {
                sequence: take.be(4) as u32,
                header: Header::EMPTY,
                payload: len - 4,
                overhead: DATA_OVERHEAD,
            },
            kind::TAGGED => {
                let (sequence, tag) = (take.be(4) as u32, take.be(1) as usize);
                if !(1..=16).contains(&tag) || 5 + tag > len || len - 5 - tag > MAX_PAYLOAD {
                    return Err(Error::Protocol("a tag of impossible length"));
                }
                if take.0.len() < tag {
                    self.state = State::Collect {
                        need: TAGGED_OVERHEAD + tag,
                    };
                    return Ok(None);
                }
                Item::Data {
                    sequence,
                    header: Header::new(take.0),
                    payload: len - 5 - tag,
                    overhead: TAGGED_OVERHEAD + tag,
                }
            }
            kind::ACK => Item::Ack(Ack::decode(take.0)),
            kind::REPORT => Item::Report(Report::new(take.0)),
            kind::CLOSE => Item::Close {
                sequence: take.be(4) as u32,
                reason: take.be(1) as u8,
                text: String::from_utf8_lossy(take.0).into_owned(),
                len: HEADER_LEN + len,
            },
            kind::PING => Item::Ping(take.be(8).to_be_bytes()),
            _ => Item::Pong(take.be(8).to_be_bytes()),
        };
        if let Item::Data { payload, .. } = item {
            self.state = State::Payload { remaining: payload };
        } else {
            self.begin();
        }
        Ok(Some(item))
    }
}
