// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The per-packet log of one direction: a self-describing text format that a line of awk can plot.
//!
//! ```text
//! # alcc packet log 1
//! # command: alcc-lab emulate --down city.down -- curl ...
//! # link: trace city.down
//! ...
//! 12.345 + 1500 0 17
//! 13.000 - 1500 0.655 0 17
//! 13.002 d 1 1500 overflow 0 18
//! ```
//!
//! The events and the order of their first columns are Mahimahi's. Times are milliseconds since the link's clock began,
//! rounded down to the microsecond. The log comes from the outcomes at the bottleneck: so it does not include the
//! propagation delay.
use crate::{DropReason, Ecn, Outcome, Packet};
use alcc_units::{Bytes, Span, Time};
use std::fmt::{self, Write};

/// The first line of a log.
pub const FIRST_LINE: &str = "# alcc packet log 1";

/// The header of a log. Texts may contain any characters; line breaks are escaped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The program that wrote it, with version: `alcc 0.1.0`.
    pub program: String,
    /// The command line.
    pub command: String,
    /// The direction: `down` or `up`.
    pub direction: String,
    /// The bottleneck: `trace NAME`, a rate, `unlimited`.
    pub link: String,
    /// The queue as typed.
    pub queue: String,
    /// One-way propagation delay.
    pub delay: Span,
    /// Random loss as text: `0.01`.
    pub loss: String,
    /// The seed of this direction.
    pub seed: u64,
    /// The metadata of results, as JSON.
    pub about: String,
}

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// `TIME + LENGTH FLOW ID`: a packet reached the bottleneck.
    Arrival {
        /// Time of the event.
        at: Time,
        /// The packet.
        packet: Packet,
    },
    /// `TIME - LENGTH DELAY FLOW ID`: it departed from the bottleneck; followed by `ce` if marked (ECN).
    Departure {
        /// Time of the event.
        at: Time,
        /// The packet.
        packet: Packet,
        /// Time since its arrival.
        queue_delay: Span,
    },
    /// `TIME d 1 LENGTH REASON FLOW ID`: it was dropped.
    Drop {
        /// Time of the event.
        at: Time,
        /// The packet.
        packet: Packet,
        /// The reason.
        why: DropReason,
    },
    /// `TIME # LENGTH`: a delivery opportunity of this length; written for trace-driven links.
    Opportunity {
        /// Time of the event.
        at: Time,
        /// Its length, bytes.
        len: Bytes,
    },
}

impl Line {
    /// The line of an outcome; `None` for a delivery, which is the departure plus the propagation delay.
    pub fn of(outcome: &Outcome) -> Option<Self> {
        match *outcome {
            Outcome::Arrived { at, packet } => Some(Self::Arrival { at, packet }),
            Outcome::Departed {
                at,
                packet,
                arrived,
            } => Some(Self::Departure {
                at,
                packet,
                queue_delay: at.since(arrived),
            }),
            Outcome::Dropped { at, packet, why } => Some(Self::Drop { at, packet, why }),
            Outcome::Delivered { .. } | Outcome::Repeated { .. } => None,
        }
    }
}

/// Error of a log that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("packet log, line {line}: {what}: found '{found}'")]
pub struct LogError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The error and the valid form.
    pub what: &'static str,
    /// The text found, shortened.
    pub found: String,
}

/// Writes the header, a comment on every line.
///
/// # Errors
/// The errors of `out`.
pub fn write_header(out: &mut impl Write, header: &Header) -> fmt::Result {
    writeln!(out, "{FIRST_LINE}")?;
    for (key, value) in [
        ("program", header.program.as_str()),
        ("command", &header.command),
        ("direction", &header.direction),
        ("link", &header.link),
        ("queue", &header.queue),
        ("delay", &header.delay.to_string()),
        ("loss", &header.loss),
        ("seed", &header.seed.to_string()),
        ("about", &header.about),
        // Mahimahi's plotting scripts require this line.
        ("base timestamp", "0"),
        (
            "units",
            "TIME and DELAY in ms since the start, LENGTH in IP bytes",
        ),
        ("+", "TIME + LENGTH FLOW ID: arrived at the bottleneck"),
        (
            "-",
            "TIME - LENGTH DELAY FLOW ID: left the bottleneck after DELAY there",
        ),
        (
            "d",
            "TIME d 1 LENGTH REASON FLOW ID: dropped, REASON loss, radio, corrupt, overflow or aqm",
        ),
        ("#", "TIME # LENGTH: delivery opportunity"),
    ] {
        writeln!(out, "# {key}: {}", escaped(value))?;
    }
    Ok(())
}

/// Writes one event and its line break.
///
/// # Errors
/// The errors of `out`.
pub fn format_line(out: &mut impl Write, line: &Line) -> fmt::Result {
    match line {
        Line::Arrival { at, packet } => {
            let Packet { id, flow, len, .. } = packet;
            writeln!(out, "{} + {} {flow} {id}", Ms(at.as_nanos()), len.get())
        }
        Line::Departure {
            at,
            packet,
            queue_delay,
        } => {
            let Packet { id, flow, len, ecn } = packet;
            let marked = if *ecn == Ecn::Ce { " ce" } else { "" };
            let delay = Ms(queue_delay.as_nanos());
            let at = Ms(at.as_nanos());
            writeln!(out, "{at} - {} {delay} {flow} {id}{marked}", len.get())
        }
        Line::Drop { at, packet, why } => {
            let Packet { id, flow, len, .. } = packet;
            let why = match why {
                DropReason::Loss => "loss",
                DropReason::Radio => "radio",
                DropReason::Corrupt => "corrupt",
                DropReason::Overflow => "overflow",
                DropReason::Aqm => "aqm",
            };
            let at = Ms(at.as_nanos());
            writeln!(out, "{at} d 1 {} {why} {flow} {id}", len.get())
        }
        Line::Opportunity { at, len } => {
            writeln!(out, "{} # {}", Ms(at.as_nanos()), len.get())
        }
    }
}

/// Writes the header of Mahimahi's format (`mm-link --downlink-log`), which its own scripts read.
///
/// # Errors
/// The errors of `out`.
pub fn write_mahimahi_header(out: &mut impl Write, header: &Header) -> fmt::Result {
    let (program, direction) = (escaped(&header.program), escaped(&header.direction));
    let link = escaped(&header.link);
    writeln!(out, "# mahimahi mm-link ({direction}link) [{link}]")?;
    writeln!(out, "# written by {program}: {}", escaped(&header.command))?;
    writeln!(out, "# queue: {}", escaped(&header.queue))?;
    writeln!(out, "# about: {}", escaped(&header.about))?;
    writeln!(out, "# init timestamp: 0")?;
    writeln!(out, "# base timestamp: 0")
}

/// Writes one event in Mahimahi's format: whole milliseconds, and without our extra columns. A drop is a comment,
/// because `mm-throughput-graph` stops at events that it does not know.
///
/// # Errors
/// The errors of `out`.
pub fn format_mahimahi_line(out: &mut impl Write, line: &Line) -> fmt::Result {
    let ms = |at: &Time| at.as_nanos() / 1_000_000;
    match line {
        Line::Arrival { at, packet } => writeln!(out, "{} + {}", ms(at), packet.len.get()),
        Line::Departure {
            at,
            packet,
            queue_delay,
        } => {
            // The scripts subtract the delay from the time of departure, so both must be rounded to the same
            // milliseconds.
            let arrived = Time::from_nanos(at.as_nanos().saturating_sub(queue_delay.as_nanos()));
            let delay = ms(at) - ms(&arrived);
            writeln!(out, "{} - {} {delay}", ms(at), packet.len.get())
        }
        Line::Drop { at, packet, .. } => writeln!(out, "# {} d 1 {}", ms(at), packet.len.get()),
        Line::Opportunity { at, len } => writeln!(out, "{} # {}", ms(at), len.get()),
    }
}

/// Reads a whole log.
///
/// # Errors
/// [`LogError`] for the first invalid line. Unknown header fields are skipped.
pub fn parse(text: &str) -> Result<(Header, Vec<Line>), LogError> {
    let mut parser = Parser::default();
    let mut lines = Vec::new();
    // Also of an empty text the first line is checked.
    let first = text.split_terminator('\n').next().unwrap_or_default();
    let rest = text.split_terminator('\n').skip(1);
    for line in std::iter::once(first).chain(rest) {
        lines.extend(parser.line(line)?);
    }
    Ok((parser.header, lines))
}

/// Reads a log line by line, for logs of any length.
#[derive(Default)]
pub struct Parser {
    /// The header as far as it was read.
    pub header: Header,
    /// Number of lines so far.
    lines: usize,
}

impl Parser {
    /// Reads the next line, without its line break; `None` for a line of the header.
    ///
    /// # Errors
    /// The line is invalid.
    pub fn line(&mut self, line: &str) -> Result<Option<Line>, LogError> {
        self.lines += 1;
        let fail = |what| LogError {
            line: self.lines,
            what,
            found: line.chars().take(60).collect(),
        };
        match (self.lines, line.strip_prefix("# ")) {
            (1, _) if line == FIRST_LINE => Ok(None),
            (1, _) => Err(fail(
                "expected '# alcc packet log 1', as logs of this version begin",
            )),
            (_, Some(comment)) => self.header.read(comment).map(|()| None).map_err(fail),
            (_, None) => parse_line(line).map(Some).map_err(fail),
        }
    }
}

impl Header {
    fn read(&mut self, comment: &str) -> Result<(), &'static str> {
        let Some((key, value)) = comment.split_once(": ") else {
            return Ok(());
        };
        let text = match key {
            "program" => &mut self.program,
            "command" => &mut self.command,
            "direction" => &mut self.direction,
            "link" => &mut self.link,
            "queue" => &mut self.queue,
            "loss" => &mut self.loss,
            "about" => &mut self.about,
            "delay" => {
                self.delay = value.parse().map_err(|_| "delay is not a length of time")?;
                return Ok(());
            }
            "seed" => {
                self.seed = value.parse().map_err(|_| "seed is not a whole number")?;
                return Ok(());
            }
            _ => return Ok(()),
        };
        *text = unescaped(value).ok_or("bad escape: expected \\n, \\r or \\\\")?;
        Ok(())
    }
}

fn parse_line(line: &str) -> Result<Line, &'static str> {
    let mut words = line.split(' ');
    let mut word = || words.next().ok_or("the line is too short");
    let at = Time::from_nanos(ms(word()?)?);
    let event = word()?;
    let parsed = match event {
        "+" => {
            let len = bytes(word()?)?;
            let packet = packet(len, word()?, word()?)?;
            Line::Arrival { at, packet }
        }
        "-" => {
            let len = bytes(word()?)?;
            let queue_delay = Span::from_nanos(ms(word()?)?);
            let mut packet = packet(len, word()?, word()?)?;
            if let Some(last) = words.next() {
                if last != "ce" {
                    return Err("the line is too long: only ce may follow");
                }
                packet.ecn = Ecn::Ce;
            }
            Line::Departure {
                at,
                packet,
                queue_delay,
            }
        }
        "d" => {
            if word()? != "1" {
                return Err("a drop is of 1 packet");
            }
            let len = bytes(word()?)?;
            let why = match word()? {
                "loss" => DropReason::Loss,
                "radio" => DropReason::Radio,
                "corrupt" => DropReason::Corrupt,
                "overflow" => DropReason::Overflow,
                "aqm" => DropReason::Aqm,
                _ => return Err("expected loss, radio, corrupt, overflow or aqm as reason"),
            };
            let packet = packet(len, word()?, word()?)?;
            Line::Drop { at, packet, why }
        }
        "#" => Line::Opportunity {
            at,
            len: bytes(word()?)?,
        },
        _ => return Err("no such event: expected +, -, d or #"),
    };
    match words.next() {
        None => Ok(parsed),
        Some(_) => Err("the line is too long"),
    }
}

fn bytes(word: &str) -> Result<Bytes, &'static str> {
    whole(word).map(Bytes::new)
}

fn packet(len: Bytes, flow: &str, id: &str) -> Result<Packet, &'static str> {
    Ok(Packet {
        id: whole(id)?,
        flow: u32::try_from(whole(flow)?).map_err(|_| "the flow is above 4294967295")?,
        len,
        ecn: Ecn::NotEct,
    })
}

fn whole(word: &str) -> Result<u64, &'static str> {
    if !word.bytes().all(|b| b.is_ascii_digit()) {
        return Err("expected a whole number");
    }
    word.parse()
        .map_err(|_| "expected a whole number below 2^64")
}

/// Formats nanoseconds as milliseconds with three decimals.
struct Ms(u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0 / 1000;
        write!(f, "{}.{:03}", us / 1000, us % 1000)
    }
}

/// Parses milliseconds with three decimals as nanoseconds.
fn ms(word: &str) -> Result<u64, &'static str> {
    let want = "expected milliseconds with three decimals";
    let (ms, us) = word
        .split_once('.')
        .filter(|(_, us)| us.len() == 3)
        .ok_or(want)?;
    let (ms, us) = (whole(ms).map_err(|_| want)?, whole(us).map_err(|_| want)?);
    ms.checked_mul(1_000_000)
        .and_then(|ns| ns.checked_add(us * 1000))
        .ok_or("the time is beyond 584 years")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}
