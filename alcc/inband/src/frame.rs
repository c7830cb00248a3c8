// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames as bytes: `docs/formats.md` is the description, this the code.
//!
//! The [`Decoder`] takes whatever bytes have come, however they are cut. It keeps no payload, and
//! allocates nothing but the text of a CLOSE.
use crate::Error;
use crate::preface::ByteReader;
use alcc_cc::{Header, Report};

/// Type and length.
pub const HEADER_LEN: usize = 4;
/// Longest payload of a DATA frame.
pub const MAX_PAYLOAD: usize = 65_536;
/// Overhead of a DATA frame.
pub const DATA_OVERHEAD: usize = HEADER_LEN + 4;
/// Overhead of a TAGGED frame, without the algorithm's bytes.
pub const TAGGED_OVERHEAD: usize = DATA_OVERHEAD + 1;
/// Steps that one ACK has room for.
pub const MAX_STEPS: usize = 16;
/// Longest text of a CLOSE.
pub const MAX_TEXT: usize = 200;
/// Unit of windows in an ACK, in bytes.
pub const WINDOW_UNIT: u64 = 1024;
/// Largest 24-bit number.
pub const MAX_U24: u32 = (1 << 24) - 1;
/// Largest 48-bit number.
pub const MAX_U48: u64 = (1 << 48) - 1;

const ACK_LEN: usize = 16;
const STEP_LEN: usize = 6;
/// What is collected before it is looked at: the longest is a CLOSE with its text.
const MAX_COLLECTED: usize = 5 + MAX_TEXT;

/// Numbers of the frame types. From 0x80 on an unknown one is skipped, below it is an error.
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
    /// No more data in this direction; the other goes on.
    pub const END: u8 = 0;
    /// The application gave up.
    pub const ABORTED: u8 = 1;
    /// The peer broke a rule.
    pub const PROTOCOL: u8 = 2;
    /// The algorithm's receiver module cannot be had.
    pub const ALGORITHM: u8 = 3;
    /// Too long nothing came.
    pub const TIMEOUT: u8 = 4;

    /// In words.
    pub const fn name(reason: u8) -> &'static str {
        match reason {
            END => "the end of its data",
            ABORTED => "its application gave up",
            PROTOCOL => "it saw a breach of the protocol",
            ALGORITHM => "it cannot run the algorithm's receiver half",
            TIMEOUT => "it heard nothing for too long",
            _ => "a reason that is not known here",
        }
    }
}

/// One step back in time from an acknowledgement: `micros` earlier the position was lower by
/// `bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// At most 2^24 - 1.
    pub bytes: u32,
    /// At most 2^24 - 1.
    pub micros: u32,
}

/// What has arrived, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// All counted frames have arrived up to here; at most 2^48 - 1.
    pub position: u64,
    /// Receive window beyond `position`, in KiB; at most 2^24 - 1.
    pub window: u32,
    /// The receiver's clock when the position was reached, µs modulo 2^32.
    pub time: u32,
    /// From then until this frame was made, µs; at most 2^24 - 1.
    pub hold: u32,
    steps: [Step; MAX_STEPS],
    count: u8,
}

impl Ack {
    /// The way back in time, the newest step first.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..usize::from(self.count)]
    }

    /// Adds a step farther back; false if there is no place.
    pub fn push(&mut self, step: Step) -> bool {
        let Some(place) = self.steps.get_mut(usize::from(self.count)) else {
            return false;
        };
        *place = step;
        self.count += 1;
        true
    }

    /// Leaves out what is understood without a step: what remains came at the oldest instant.
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

/// Appends what precedes the payload of a frame. It is a TAGGED frame if there is something for the
/// receiver module, else a DATA frame.
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

/// What the next bytes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// A frame with data begins; this many bytes of it follow.
    Data {
        /// The low 32 bits of the position at which the frame begins.
        sequence: u32,
        /// For the receiver module.
        header: Header,
        /// Bytes that follow as [`Item::Payload`].
        payload: usize,
        /// Bytes of the frame before them.
        overhead: usize,
    },
    /// Some of the payload.
    Payload(&'a [u8]),
    /// An acknowledgement.
    Ack(Ack),
    /// A report of the receiver module.
    Report(Report),
    /// An end.
    Close {
        /// As in [`Item::Data`].
        sequence: u32,
        /// Why.
        reason: u8,
        /// In words, what is not UTF-8 replaced.
        text: String,
        /// Bytes of the whole frame.
        len: usize,
    },
    /// A question.
    Ping([u8; 8]),
    /// Its answer.
    Pong([u8; 8]),
    /// A frame of a type that is not known here and may be skipped.
    Unknown(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Collecting what comes before it can be decided what it is.
    Collect {
        need: usize,
    },
    Payload {
        left: usize,
    },
    Skip {
        left: usize,
    },
}

/// Reads frames from bytes that come in any pieces.
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
    /// The next item of `input`, which shrinks by what was used; `None`: all of it was used.
    ///
    /// # Errors
    /// [`Error::Protocol`]: nothing after it makes sense.
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
                State::Payload { left: 0 } | State::Skip { left: 0 } => self.begin(),
                State::Payload { left } => {
                    let (now, rest) = input.split_at(left.min(input.len()));
                    *input = rest;
                    if now.is_empty() {
                        return Ok(None);
                    }
                    self.state = State::Payload {
                        left: left - now.len(),
                    };
                    return Ok(Some(Item::Payload(now)));
                }
                State::Skip { left } => {
                    let now = left.min(input.len());
                    *input = &input[now..];
                    self.state = State::Skip { left: left - now };
                    if now < left {
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

    /// Everything that was asked for is there: an item, or more is needed.
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
                self.state = State::Skip { left: len };
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
            self.state = State::Payload { left: payload };
        } else {
            self.begin();
        }
        Ok(Some(item))
    }
}
