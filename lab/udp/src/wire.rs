// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The datagrams, byte by byte. Numbers are big-endian; a datagram is used only after it was parsed
//! completely.
//!
//! Every datagram begins with the version (1) and its type. Then comes a CRC-32 (zlib's, four
//! bytes) of the rest of the datagram, and a connection id of eight bytes. The id is that of the
//! receiver of the datagram, except in `HELLO`, where it is the sender's own, and in `UNKNOWN`,
//! which returns an unknown id. The CRC is needed because UDP's own sum is weak, and not checked at
//! all between namespaces of one machine.
//!
//! | type | name | after the id | direction |
//! |---|---|---|---|
//! | 1 | `HELLO` | cookie 24, length 1, the algorithm's spec, zeros up to 1400 bytes in all | sender to receiver |
//! | 2 | `RETRY` | cookie 24 | receiver to sender |
//! | 3 | `ACCEPT` | the receiver's id 8 | receiver to sender |
//! | 4 | `DATA` | packet number 8, stream offset 8, payload length 2, bits 1, algorithm's header 0 to 16, payload | sender to receiver |
//! | 5 | `ACK` | see below | receiver to sender |
//! | 6 | `CLOSE` | reason 1 | both |
//! | 7 | `UNKNOWN` | nothing | receiver to sender |
//! | 8 | `ANSWER` | length 1 (at most 128), the receiving application's message after the end | receiver to sender |
//!
//! **The handshake.** `HELLO` with a cookie of zeros is answered by `RETRY`, for which the receiver
//! keeps no state. `HELLO` with that cookie is answered by `ACCEPT`. A `HELLO` has 1400 bytes, so
//! no answer is longer than it, and a path that carries it carries all the others. At first 16 MiB
//! may be sent.
//!
//! **`DATA`.** The upper bit of *bits* means that the last byte of the payload is not data but the
//! end of the stream. The lower five are the length of the algorithm's header. Packet numbers count
//! up from 0, one for each transmission; a packet without payload is a probe.
//!
//! **`ACK`**, after the id: cumulative acknowledgement 8, window from there 8. Then number of
//! ranges 1, number of arrivals 1, length of the report 1. Ranges of received packet numbers, the
//! highest first: one after its last number 8 and its length 4. For each further range: the length
//! of the gap 4 and of the range 4. Arrivals: for each packet the distance of its number below the
//! highest in the ranges 2, and the microseconds that the receiver has held it until this was
//! sent 4. The report is the algorithm's own, at most 64 bytes. If the upper bit of its length is set,
//! 8 bytes more follow: the total of payload bytes that have arrived marked (ECN, congestion
//! experienced). A receiver sends them once there is a mark.
pub use crate::cookie::{COOKIE, Cookie};
use alcc_cc::{Header, Pn, Report};
use alcc_flow::Range;
use alcc_units::Span;

/// Length of a full datagram without IP and UDP headers, bytes.
pub const DATAGRAM: usize = 1400;
/// Maximum answer of a receiving application.
pub const ANSWER: usize = 128;
/// Maximum number of ranges in an ACK.
pub const RANGES: usize = 32;
/// Maximum number of receive times in an ACK.
pub const ARRIVALS: usize = 160;

const VERSION: u8 = 1;
const END: u8 = 0x80;
const HEADER_LEN: u8 = 0x1f;
/// Flag in the length of a report: marks follow.
const MARKS: u8 = 0x80;

/// The reason for closing a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Everything has arrived.
    Done,
    /// The application aborted.
    Aborted,
    /// The peer violated the protocol.
    Protocol,
    /// There are too many connections.
    Full,
    /// The receiver knows no such algorithm.
    Algorithm,
}

impl Reason {
    const ALL: [Self; 5] = [
        Self::Done,
        Self::Aborted,
        Self::Protocol,
        Self::Full,
        Self::Algorithm,
    ];

    fn code(self) -> u8 {
        self as u8
    }

    /// The reason in words, as the end of "the peer closed the connection: ".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Done => "all has arrived",
            Self::Aborted => "its program gave up",
            Self::Protocol => "it reports a protocol violation",
            Self::Full => "it has reached its maximum number of connections",
            Self::Algorithm => "it does not have this algorithm",
        }
    }
}

/// A parsed datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagram<'a> {
    /// A sender opens a connection.
    Hello {
        /// The sender's id.
        id: u64,
        /// The cookie, zeros at first.
        cookie: Cookie,
        /// The spec of the algorithm whose receiver module is requested.
        spec: &'a str,
    },
    /// Requests a repetition with this cookie.
    Retry {
        /// The sender's id.
        id: u64,
        /// The cookie to return.
        cookie: Cookie,
    },
    /// The connection is open.
    Accept {
        /// The sender's id.
        id: u64,
        /// The receiver's id.
        peer: u64,
    },
    /// Data.
    Data {
        /// The receiver's id.
        id: u64,
        /// The packet.
        data: Data<'a>,
    },
    /// An acknowledgement: [`AckBody::read`] reads it.
    Ack {
        /// The sender's id.
        id: u64,
        /// All bytes after the id.
        body: &'a [u8],
    },
    /// The peer has closed the connection.
    Close {
        /// The connection id of this datagram's receiver.
        id: u64,
        /// The reason.
        reason: Reason,
    },
    /// The id is unknown here.
    Unknown {
        /// The id.
        id: u64,
    },
    /// The answer of the receiving application.
    Answer {
        /// The sender's id.
        id: u64,
        /// The answer, at most [`ANSWER`] bytes.
        bytes: &'a [u8],
    },
}

/// A packet of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data<'a> {
    /// Its packet number.
    pub pn: Pn,
    /// Its position in the stream.
    pub offset: u64,
    /// True if the last byte of the payload is the end of the stream.
    pub end: bool,
    /// Header for the algorithm's receiver module.
    pub header: Header,
    /// The payload.
    pub payload: &'a [u8],
}

/// Error of a datagram that could not be parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WireError {
    /// Truncated, or of a wrong length.
    Length,
    /// A checksum error.
    Sum,
    /// Another version.
    Version(u8),
    /// No such type.
    Type(u8),
    /// An invalid value.
    Value(&'static str),
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length => write!(f, "a datagram of a wrong length"),
            Self::Sum => write!(f, "a damaged datagram"),
            Self::Version(v) => write!(f, "a datagram of version {v}, not {VERSION}"),
            Self::Type(t) => write!(f, "a datagram of unknown type {t}"),
            Self::Value(what) => write!(f, "a datagram with a bad {what}"),
        }
    }
}

impl std::error::Error for WireError {}

/// Reader from the front of a datagram.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(WireError::Length)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(WireError::Length)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[b]| b)
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(WireError::Length)
        }
    }
}

impl<'a> Datagram<'a> {
    /// Parses a datagram.
    ///
    /// # Errors
    /// [`WireError`] with the kind of error.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let len = bytes.len();
        let mut r = Reader(bytes);
        let version = r.u8()?;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let kind = r.u8()?;
        if r.u32()? != sum(bytes) {
            return Err(WireError::Sum);
        }
        let id = r.u64()?;
        let datagram = match kind {
            1 => {
                let cookie = r.array()?;
                let n = r.u8()?;
                let spec = std::str::from_utf8(r.take(n.into())?)
                    .map_err(|_| WireError::Value("algorithm"))?;
                if len != DATAGRAM || r.0.iter().any(|b| *b != 0) {
                    return Err(WireError::Length);
                }
                return Ok(Self::Hello { id, cookie, spec });
            }
            2 => Self::Retry {
                id,
                cookie: r.array()?,
            },
            3 => Self::Accept { id, peer: r.u64()? },
            4 => {
                let (pn, offset, n, bits) = (r.u64()?, r.u64()?, r.u16()?, r.u8()?);
                let header = bits & HEADER_LEN;
                if header > 16 || bits & !(END | HEADER_LEN) != 0 {
                    return Err(WireError::Value("header length"));
                }
                let data = Data {
                    pn,
                    offset,
                    end: bits & END != 0,
                    header: Header::new(r.take(header.into())?),
                    payload: r.take(n.into())?,
                };
                if data.end && data.payload.is_empty() {
                    return Err(WireError::Value("end"));
                }
                if pn >= 1 << 62 || offset >= 1 << 62 {
                    return Err(WireError::Value("number"));
                }
                Self::Data { id, data }
            }
            5 => return Ok(Self::Ack { id, body: r.0 }),
            6 => {
                let code = r.u8()?;
                let reason = Reason::ALL.get(usize::from(code));
                Self::Close {
                    id,
                    reason: *reason.ok_or(WireError::Value("reason"))?,
                }
            }
            7 => Self::Unknown { id },
            8 => {
                let n = usize::from(r.u8()?);
                if n > ANSWER {
                    return Err(WireError::Value("answer"));
                }
                Self::Answer {
                    id,
                    bytes: r.take(n)?,
                }
            }
            other => return Err(WireError::Type(other)),
        };
        r.end()?;
        Ok(datagram)
    }

    /// Appends the datagram, complete except for an `ACK`, whose body and [`seal`] follow. The
    /// caller must respect the limits of length fields; excess is truncated.
    pub fn write(&self, out: &mut Vec<u8>) {
        let from = out.len();
        let mut begin = |kind: u8, id: u64| head(out, kind, id);
        match self {
            Self::Hello { id, cookie, spec } => {
                begin(1, *id);
                out.extend(cookie);
                let spec = &spec.as_bytes()[..spec.len().min(255)];
                out.push(spec.len() as u8);
                out.extend(spec);
                out.resize(from + DATAGRAM, 0);
            }
            Self::Retry { id, cookie } => {
                begin(2, *id);
                out.extend(cookie);
            }
            Self::Accept { id, peer } => {
                begin(3, *id);
                out.extend(peer.to_be_bytes());
            }
            Self::Data { id, data } => {
                let payload = data.payload;
                data_header(out, *id, data, payload.len());
                out.extend(payload);
            }
            Self::Ack { id, body } => {
                begin(5, *id);
                out.extend(*body);
            }
            Self::Close { id, reason } => {
                begin(6, *id);
                out.push(reason.code());
            }
            Self::Unknown { id } => begin(7, *id),
            Self::Answer { id, bytes } => {
                begin(8, *id);
                let bytes = &bytes[..bytes.len().min(ANSWER)];
                out.push(bytes.len() as u8);
                out.extend(bytes);
            }
        }
        seal(out, from);
    }
}

fn head(out: &mut Vec<u8>, kind: u8, id: u64) {
    out.extend([VERSION, kind, 0, 0, 0, 0]);
    out.extend(id.to_be_bytes());
}

/// The checksum of a datagram of at least six bytes.
fn sum(datagram: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&datagram[..2]);
    sum.update(&datagram[6..]);
    sum.finalize()
}

/// Writes the checksum into the complete datagram that begins at `from`.
pub fn seal(out: &mut [u8], from: usize) {
    if let Some(datagram) = out.get_mut(from..)
        && datagram.len() >= 6
    {
        let sum = sum(datagram);
        datagram[2..6].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A data packet without its payload of `len` bytes and its checksum: the caller appends the
/// payload and calls [`seal`].
pub(crate) fn data_header(out: &mut Vec<u8>, id: u64, data: &Data<'_>, len: usize) {
    head(out, 4, id);
    out.extend(data.pn.to_be_bytes());
    out.extend(data.offset.to_be_bytes());
    out.extend((len as u16).to_be_bytes());
    out.push(if data.end { END } else { 0 } | data.header.len() as u8);
    out.extend(&*data.header);
}

/// The body of an ACK. It is reused, to avoid allocations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AckBody {
    /// The cumulative ACK.
    pub complete: u64,
    /// The window from there.
    pub window: u64,
    /// Received packet numbers, highest first. Empty before the first packet.
    pub ranges: Vec<Range>,
    /// ACK delay per packet.
    pub arrivals: Vec<(Pn, Span)>,
    /// The algorithm's report; empty: none.
    pub report: Report,
    /// Payload received with a CE mark.
    pub marked: u64,
}

impl AckBody {
    /// Parses the body of an `ACK`.
    ///
    /// # Errors
    /// [`WireError`]; the contents are invalid then.
    pub fn read(&mut self, body: &[u8]) -> Result<(), WireError> {
        let mut r = Reader(body);
        self.complete = r.u64()?;
        self.window = r.u64()?;
        let (ranges, arrivals, last) = (r.u8()?, r.u8()?, r.u8()?);
        let (report, marks) = (last & !MARKS, last & MARKS != 0);
        if usize::from(ranges) > RANGES || usize::from(arrivals) > ARRIVALS || report > 64 {
            return Err(WireError::Value("count"));
        }
        self.ranges.clear();
        self.arrivals.clear();
        let mut below = None;
        for _ in 0..ranges {
            let end = match below {
                None => Some(r.u64()?),
                Some(start) => {
                    let gap = u64::from(r.u32()?);
                    u64::checked_sub(start, gap).filter(|_| gap > 0)
                }
            };
            let len = u64::from(r.u32()?);
            let range = end.and_then(|end| Some(Range::new(end.checked_sub(len)?, end)));
            let range = range.filter(|range| !range.is_empty());
            let range = range.ok_or(WireError::Value("range"))?;
            below = Some(range.start);
            self.ranges.push(range);
        }
        let highest = self.ranges.first().map(|range| range.end - 1);
        for _ in 0..arrivals {
            let (back, held) = (u64::from(r.u16()?), r.u32()?);
            let pn = highest.and_then(|highest| highest.checked_sub(back));
            let pn = pn.ok_or(WireError::Value("arrival"))?;
            self.arrivals.push((pn, Span::from_micros(held.into())));
        }
        self.report = Report::new(r.take(report.into())?);
        self.marked = if marks { r.u64()? } else { 0 };
        r.end()
    }

    /// Appends the body of an `ACK`. Excess ranges and receive times are omitted, as are those too
    /// far below the highest number.
    pub fn write(&self, out: &mut Vec<u8>) {
        let highest = self
            .ranges
            .first()
            .map_or(0, |range| range.end.saturating_sub(1));
        out.extend(self.complete.to_be_bytes());
        out.extend(self.window.to_be_bytes());
        let counts = out.len();
        let marks = if self.marked > 0 { MARKS } else { 0 };
        out.extend([0, 0, self.report.len() as u8 | marks]);
        let mut below = None;
        for range in self.ranges.iter().take(RANGES) {
            match below {
                None => out.extend(range.end.to_be_bytes()),
                // The gap is too large. The packets below it were acknowledged often enough.
                Some(start) => match u32::try_from(start - range.end) {
                    Ok(gap) => out.extend(gap.to_be_bytes()),
                    Err(_) => break,
                },
            }
            let len = u32::try_from(range.end - range.start).unwrap_or(u32::MAX);
            out.extend(len.to_be_bytes());
            below = Some(range.end - u64::from(len));
            out[counts] += 1;
        }
        for (pn, held) in self.arrivals.iter().rev().take(ARRIVALS) {
            let back = highest.checked_sub(*pn).and_then(|b| u16::try_from(b).ok());
            if let Some(back) = back {
                out.extend(back.to_be_bytes());
                let held = u32::try_from(held.as_micros()).unwrap_or(u32::MAX);
                out.extend(held.to_be_bytes());
                out[counts + 1] += 1;
            }
        }
        out.extend(&*self.report);
        if self.marked > 0 {
            out.extend(self.marked.to_be_bytes());
        }
    }
}
