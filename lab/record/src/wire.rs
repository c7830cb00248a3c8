// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams between the two ends. All numbers are big-endian; a datagram that does not parse
//! exactly is ignored.
use crate::plan::{Load, Mode, Plan};
use alcc_udp::cookie::Cookie;
use alcc_units::{Rate, Span};

const MAGIC: u32 = 0x414c_5243; // "ALRC"
const VERSION: u8 = 1;
/// Maximum length of a text in a packet.
const TEXT: usize = 200;

/// One datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet {
    /// Client: requests a handshake. It is as long as the answer, and as the recording's packets,
    /// because the path must carry them.
    Hello {
        /// Chosen by the client, and returned.
        nonce: u64,
    },
    /// Listener: challenge, to which the client has to reply from this address.
    Challenge {
        /// The client's nonce.
        nonce: u64,
        /// The cookie that the client sends back.
        cookie: Cookie,
    },
    /// Client: returns the cookie and requests a recording.
    Start {
        /// The client's nonce.
        nonce: u64,
        /// The cookie of the challenge.
        cookie: Cookie,
        /// The plan of the recording.
        plan: Plan,
        /// The client's name.
        label: String,
    },
    /// Listener: accepts the request.
    Ready {
        /// The client's nonce.
        nonce: u64,
        /// The session's number, which every further packet carries.
        session: u64,
    },
    /// Listener: refuses the request.
    Refused {
        /// The client's nonce.
        nonce: u64,
        /// The reason, one line.
        why: String,
    },
    /// A packet of a session.
    Session(SessionPacket),
}

/// A packet of a session. Times are nanoseconds of the sender's own clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionPacket {
    /// The session's number.
    pub session: u64,
    /// Time of sending.
    pub sent: u64,
    /// `sent` of the newest packet from the other end; 0 for none.
    pub echo_sent: u64,
    /// Arrival time of that packet, by the clock of this packet's sender.
    pub echo_received: u64,
    /// The content.
    pub body: Body,
}

/// The content of a session's packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// Client: a ping.
    Ping {
        /// True if the client knows enough about the clocks to begin.
        synced: bool,
    },
    /// Listener: the answer to a ping.
    Pong {
        /// Start of sending, by the listener's clock; 0 if not known yet.
        start_at: u64,
    },
    /// A packet of the load.
    Data {
        /// Sequence number, from 0.
        seq: u64,
        /// Report on the arrivals of the other direction.
        report: Report,
    },
    /// Report on the arrivals, from an end that does not send.
    Report(Report),
    /// Client: requests a part of the listener's record.
    Get {
        /// Number of the part, from 0.
        part: u32,
    },
    /// Listener: a part of its record.
    Part {
        /// Number of the part.
        part: u32,
        /// Number of parts.
        parts: u32,
        /// The bytes of the part.
        bytes: Vec<u8>,
    },
    /// Ends the session.
    Bye,
}

/// A receiver's report to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// One more than the highest number that has arrived.
    pub below: u64,
    /// Number of packets that have arrived.
    pub received: u64,
    /// Delay of the newest packet: arrival by the receiver's clock minus sending by the sender's,
    /// ns.
    pub delay: i64,
    /// The smallest such delay.
    pub least: i64,
    /// Maximum recent arrival rate, IP bytes, bit/s.
    pub peak: u64,
    /// Arrival rate of the last second, bit/s.
    pub rate: u64,
}

impl Packet {
    /// Appends the packet to `to`, padded with zeros to `len` bytes if it is shorter.
    pub fn encode(&self, to: &mut Vec<u8>, len: usize) {
        let start = to.len();
        to.extend(MAGIC.to_be_bytes());
        to.push(VERSION);
        match self {
            Self::Hello { nonce } => {
                to.push(1);
                to.extend(nonce.to_be_bytes());
            }
            Self::Challenge { nonce, cookie } => {
                to.push(2);
                to.extend(nonce.to_be_bytes());
                to.extend(cookie);
            }
            Self::Start {
                nonce,
                cookie,
                plan,
                label,
            } => {
                to.push(3);
                to.extend(nonce.to_be_bytes());
                to.extend(cookie);
                encode_plan(plan, to);
                encode_text(label, to);
            }
            Self::Ready { nonce, session } => {
                to.push(4);
                to.extend(nonce.to_be_bytes());
                to.extend(session.to_be_bytes());
            }
            Self::Refused { nonce, why } => {
                to.push(5);
                to.extend(nonce.to_be_bytes());
                encode_text(why, to);
            }
            Self::Session(packet) => packet.encode(to),
        }
        if to.len() - start < len {
            to.resize(start + len, 0);
        }
    }

    /// Decodes one datagram.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        if from.u32()? != MAGIC || from.u8()? != VERSION {
            return None;
        }
        let kind = from.u8()?;
        let first = from.u64()?;
        Some(match kind {
            1 => Self::Hello { nonce: first },
            2 => Self::Challenge {
                nonce: first,
                cookie: from.array()?,
            },
            3 => Self::Start {
                nonce: first,
                cookie: from.array()?,
                plan: from.plan()?,
                label: from.text()?,
            },
            4 => Self::Ready {
                nonce: first,
                session: from.u64()?,
            },
            5 => Self::Refused {
                nonce: first,
                why: from.text()?,
            },
            _ => Self::Session(SessionPacket::decode(kind, first, &mut from)?),
        })
    }
}

impl SessionPacket {
    fn encode(&self, to: &mut Vec<u8>) {
        let kind = match &self.body {
            Body::Ping { .. } => 16,
            Body::Pong { .. } => 17,
            Body::Data { .. } => 18,
            Body::Report(_) => 19,
            Body::Get { .. } => 20,
            Body::Part { .. } => 21,
            Body::Bye => 22,
        };
        to.push(kind);
        for n in [self.session, self.sent, self.echo_sent, self.echo_received] {
            to.extend(n.to_be_bytes());
        }
        match &self.body {
            Body::Ping { synced } => to.push(u8::from(*synced)),
            Body::Pong { start_at } => to.extend(start_at.to_be_bytes()),
            Body::Data { seq, report } => {
                to.extend(seq.to_be_bytes());
                report.encode(to);
            }
            Body::Report(report) => report.encode(to),
            Body::Get { part } => to.extend(part.to_be_bytes()),
            Body::Part { part, parts, bytes } => {
                to.extend(part.to_be_bytes());
                to.extend(parts.to_be_bytes());
                to.extend((bytes.len() as u16).to_be_bytes());
                to.extend(bytes);
            }
            Body::Bye => {}
        }
    }

    fn decode(kind: u8, session: u64, from: &mut Reader<'_>) -> Option<Self> {
        let (sent, echo_sent, echo_received) = (from.u64()?, from.u64()?, from.u64()?);
        let body = match kind {
            16 => Body::Ping {
                synced: match from.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
            },
            17 => Body::Pong {
                start_at: from.u64()?,
            },
            18 => Body::Data {
                seq: from.u64()?,
                report: from.report()?,
            },
            19 => Body::Report(from.report()?),
            20 => Body::Get { part: from.u32()? },
            21 => Body::Part {
                part: from.u32()?,
                parts: from.u32()?,
                bytes: {
                    let len = from.u16()?;
                    from.take(usize::from(len))?.to_vec()
                },
            },
            22 => Body::Bye,
            _ => return None,
        };
        Some(Self {
            session,
            sent,
            echo_sent,
            echo_received,
            body,
        })
    }
}

impl Report {
    fn encode(&self, to: &mut Vec<u8>) {
        for n in [
            self.below,
            self.received,
            self.delay.cast_unsigned(),
            self.least.cast_unsigned(),
            self.peak,
            self.rate,
        ] {
            to.extend(n.to_be_bytes());
        }
    }
}

fn encode_plan(plan: &Plan, to: &mut Vec<u8>) {
    to.push(match plan.mode {
        Mode::Saturate => 0,
        Mode::Constant => 1,
        Mode::Probe => 2,
    });
    to.extend(plan.size.to_be_bytes());
    to.extend(plan.overhead.to_be_bytes());
    let load = |load| match load {
        Load::Nothing => 0,
        Load::Saturate => u64::MAX,
        Load::Every(interval) => interval.as_nanos(),
    };
    for n in [
        plan.duration.as_nanos(),
        plan.warm_up.as_nanos(),
        load(plan.down),
        load(plan.up),
        plan.limit.as_bps(),
    ] {
        to.extend(n.to_be_bytes());
    }
}

fn encode_text(text: &str, to: &mut Vec<u8>) {
    let mut end = text.len().min(TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    to.push(end as u8);
    to.extend(&text.as_bytes()[..end]);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a text that will be printed on a terminal and used as a folder's name: no control
    /// characters.
    fn text(&mut self) -> Option<String> {
        let len = usize::from(self.u8()?);
        let text = std::str::from_utf8(self.take(len)?).ok()?;
        (len <= TEXT && !text.chars().any(char::is_control)).then(|| text.to_owned())
    }

    fn report(&mut self) -> Option<Report> {
        Some(Report {
            below: self.u64()?,
            received: self.u64()?,
            delay: self.u64()?.cast_signed(),
            least: self.u64()?.cast_signed(),
            peak: self.u64()?,
            rate: self.u64()?,
        })
    }

    fn plan(&mut self) -> Option<Plan> {
        let mode = *Mode::ALL.get(usize::from(self.u8()?))?;
        let (size, overhead) = (self.u16()?, self.u16()?);
        let span = |n| Span::from_nanos(n);
        let load = |n| match n {
            0 => Load::Nothing,
            u64::MAX => Load::Saturate,
            n => Load::Every(span(n)),
        };
        Some(Plan {
            mode,
            size,
            overhead,
            duration: span(self.u64()?),
            warm_up: span(self.u64()?),
            down: load(self.u64()?),
            up: load(self.u64()?),
            limit: Rate::bps(self.u64()?),
        })
    }
}

/// Length of the longest header of a packet with a [`Body::Part`], bytes.
pub const PART_HEADER: usize = 4 + 2 + 32 + 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(body: Body) -> Packet {
        Packet::Session(SessionPacket {
            session: 1,
            sent: 2,
            echo_sent: 3,
            echo_received: u64::MAX,
            body,
        })
    }

    pub(crate) fn examples() -> Vec<Packet> {
        let report = Report {
            below: 5,
            received: 4,
            delay: -7,
            least: i64::MIN,
            peak: 9,
            rate: 10,
        };
        let plan = Plan {
            mode: Mode::Probe,
            duration: Span::from_secs(60),
            warm_up: Span::from_secs(3),
            size: 1472,
            overhead: 28,
            down: Load::Saturate,
            up: Load::Every(Span::from_micros(400)),
            limit: Rate::mbps(100),
        };
        let cookie = [7; alcc_udp::cookie::COOKIE];
        vec![
            Packet::Hello { nonce: 1 },
            Packet::Challenge { nonce: 2, cookie },
            Packet::Start {
                nonce: 3,
                cookie,
                plan,
                label: "télé 1".to_owned(),
            },
            Packet::Ready {
                nonce: 4,
                session: 5,
            },
            Packet::Refused {
                nonce: 6,
                why: "busy".to_owned(),
            },
            inside(Body::Ping { synced: true }),
            inside(Body::Pong { start_at: 8 }),
            inside(Body::Data { seq: 9, report }),
            inside(Body::Report(report)),
            inside(Body::Get { part: 10 }),
            inside(Body::Part {
                part: 11,
                parts: 12,
                bytes: vec![1, 2, 3],
            }),
            inside(Body::Bye),
        ]
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_not() {
        for packet in examples() {
            let mut bytes = Vec::new();
            packet.encode(&mut bytes, 0);
            assert_eq!(Packet::decode(&bytes), Some(packet.clone()));
            for len in 0..bytes.len() {
                assert_eq!(
                    Packet::decode(&bytes[..len]),
                    None,
                    "{packet:?} cut to {len}"
                );
            }
            assert!(
                bytes.len() <= 128 || matches!(packet, Packet::Start { .. }),
                "{packet:?}"
            );
            let mut padded = Vec::new();
            packet.encode(&mut padded, 400);
            assert_eq!(padded.len(), 400);
            assert_eq!(Packet::decode(&padded), Some(packet));
            bytes[4] = 2;
            assert_eq!(Packet::decode(&bytes), None, "another version");
        }
    }

    #[test]
    fn a_part_has_the_header_that_is_reckoned_with() {
        let mut bytes = Vec::new();
        inside(Body::Part {
            part: 0,
            parts: 1,
            bytes: vec![],
        })
        .encode(&mut bytes, 0);
        assert_eq!(bytes.len(), PART_HEADER);
    }

    #[test]
    fn text_is_cut_at_a_character() {
        let mut bytes = Vec::new();
        let why = "é".repeat(150);
        Packet::Refused { nonce: 0, why }.encode(&mut bytes, 0);
        let Some(Packet::Refused { why, .. }) = Packet::decode(&bytes) else {
            panic!("not read");
        };
        assert_eq!(why, "é".repeat(100));
    }
}
