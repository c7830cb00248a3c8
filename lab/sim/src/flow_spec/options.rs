// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What follows an algorithm in a FLOW: its parts and its times.
use super::Source;
use alcc_cc::{Spec, SpecError};
use alcc_flow::rules::Rules;
use alcc_link::Dir;
use alcc_units::{Bytes, Rate, Span, Time, nearest};

/// The parts of a flow as typed.
#[derive(Default)]
pub(super) struct FlowOptions {
    pub(super) over: Option<Spec>,
    pub(super) host: Option<&'static Rules>,
    /// As an application sets it.
    pub(super) send_buffer: Option<Bytes>,
    pub(super) receive_window: Option<Bytes>,
    pub(super) notsent_lowat: Option<Bytes>,
    pub(super) source: Source,
    pub(super) rtt: Option<Span>,
    pub(super) dir: Dir,
    pub(super) both: bool,
    pub(super) links: Option<(usize, usize)>,
    pub(super) start: Time,
    pub(super) stop: Option<Time>,
    /// How long each flow lasts.
    pub(super) length: Option<Span>,
    pub(super) stagger: Span,
    pub(super) phase: Option<Span>,
    pub(super) ecn: bool,
    pub(super) name: Option<String>,
    pub(super) share: Option<String>,
    pub(super) tunnel: Option<String>,
    pub(super) txqueuelen: Option<usize>,
    /// The keys so far: of two with one key nobody knows which counts.
    given: Vec<String>,
}

const PARTS: &str = "write over=, host=, sndbuf=, rwnd=, lowat=, rtt=, dir=, links=, size=, app=, every=, on=, off=, stagger=, phase=, ecn=, share=, tunnel=, txqueuelen= or name= after '/'";
const KEYS: &[&str] = &[
    "over",
    "host",
    "sndbuf",
    "rwnd",
    "lowat",
    "rtt",
    "dir",
    "links",
    "size",
    "app",
    "every",
    "on",
    "off",
    "stagger",
    "phase",
    "ecn",
    "share",
    "tunnel",
    "txqueuelen",
    "name",
];
const NAME: &str = "a name is 1 to 32 letters, digits, '-', '_' or '.'";

impl FlowOptions {
    /// One `/part`; the error is what would be right.
    pub(super) fn part(&mut self, part: &str) -> Result<(), String> {
        let (key, value) = part.split_once('=').ok_or(PARTS)?;
        if !matches!(key, "app" | "on" | "every" | "off") {
            self.once(key)?;
        }
        match key {
            "over" => {
                let spec: Result<Spec, SpecError> = value.parse();
                self.over = Some(spec.map_err(|e| e.to_string())?);
            }
            "host" => {
                let names = Rules::ALL.iter().map(|rules| rules.name);
                let want = || {
                    let names: Vec<_> = names.collect();
                    format!("write host= and one of {}", names.join(", "))
                };
                self.host = Some(Rules::named(value).ok_or_else(want)?);
            }
            "sndbuf" => self.send_buffer = Some(buffer(value)?),
            "rwnd" => self.receive_window = Some(buffer(value)?),
            "lowat" => self.notsent_lowat = Some(buffer(value)?),
            "app" | "on" | "every" | "off" => {
                for one in part.split(',') {
                    self.source_part(one)?;
                }
            }
            "rtt" => self.rtt = Some(positive(value)?),
            "dir" => {
                self.both = value == "both";
                self.dir = match value {
                    "up" => Dir::Up,
                    "down" | "both" => Dir::Down,
                    _ => return Err("write dir=up, dir=down or dir=both".to_owned()),
                };
            }
            "links" => {
                let (from, to) = value.split_once('-').unwrap_or((value, value));
                let number = |n: &str| n.parse().ok().filter(|n| *n > 0);
                let want = "write a number of a link, from 1, or two such as links=2-3";
                let (from, to) = number(from).zip(number(to)).ok_or(want)?;
                self.links = Some((from, to));
            }
            "size" => {
                let size: Bytes = value
                    .parse()
                    .map_err(|e: alcc_units::UnitError| e.to_string())?;
                if size == Bytes::ZERO {
                    return Err("a transfer has 1 byte or more".to_owned());
                }
                self.source.size = Some(size);
            }
            "stagger" => self.stagger = span(value)?,
            "phase" => self.phase = Some(span(value)?),
            "ecn" => {
                self.ecn = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err("write ecn=on or ecn=off".to_owned()),
                };
            }
            "share" => self.share = Some(shared(value)?),
            "tunnel" => self.tunnel = Some(name(value)?),
            "txqueuelen" => {
                let packets = value.parse().ok().filter(|n| (1..=1_000_000).contains(n));
                self.txqueuelen = Some(packets.ok_or("write 1 to 1000000 packets")?);
            }
            "name" => self.name = Some(name(value)?),
            _ => {
                let near = nearest(key, KEYS.iter().copied());
                let near = near.map_or_else(String::new, |n| format!("did you mean {n}=? "));
                return Err(format!("{near}{PARTS}"));
            }
        }
        Ok(())
    }

    /// The part that sets a buffer, if there is one.
    pub(super) fn buffer_part(&self) -> Option<&'static str> {
        let send = self.send_buffer.map(|_| "sndbuf=");
        let receive = self.receive_window.map(|_| "rwnd=");
        let unsent = self.notsent_lowat.map(|_| "lowat=");
        send.or(receive).or(unsent)
    }

    /// The rules with these limits. A buffer that is set does not grow.
    pub(super) fn buffers(&self, mut rules: Rules) -> Rules {
        if let Some(set) = self.send_buffer {
            // socket(7): twice of what is set, for the kernel's own overhead.
            rules.send_buffer = (set * 2, set * 2);
        }
        if let Some(window) = self.receive_window {
            rules.window = (window, window);
        }
        rules.notsent_lowat = self.notsent_lowat;
        rules
    }

    fn once(&mut self, key: &str) -> Result<(), String> {
        if self.given.iter().any(|given| given == key) {
            return Err(format!("'{key}=' is given twice: leave one out"));
        }
        self.given.push(key.to_owned());
        Ok(())
    }

    fn source_part(&mut self, part: &str) -> Result<(), String> {
        let want = "write app=2mbit, app=2mbit,every=100ms or on=1s,off=2s";
        let (key, value) = part.split_once('=').ok_or(want)?;
        self.once(key)?;
        let (on, off) = self.source.on_off.unwrap_or_default();
        match key {
            "app" => {
                let rate: Rate = value
                    .parse()
                    .map_err(|e: alcc_units::UnitError| e.to_string())?;
                if rate == Rate::ZERO {
                    return Err("an application writes at 1 bit/s or more".to_owned());
                }
                self.source.rate = Some(rate);
            }
            "every" => self.source.every = positive(value)?,
            "on" => self.source.on_off = Some((positive(value)?, off)),
            "off" => self.source.on_off = Some((on, positive(value)?)),
            _ => return Err(want.to_owned()),
        }
        Ok(())
    }

    /// When flow `number` of N stops.
    pub(super) fn stop_of(&self, number: u64) -> Option<Time> {
        let start = self.start + self.stagger * number;
        self.stop
            .or_else(|| self.length.map(|length| start + length))
    }

    /// `START[-STOP]` or `START+LENGTH`.
    pub(super) fn times(&mut self, times: &str) -> Result<(), String> {
        if let Some((start, length)) = times.split_once('+') {
            self.start = Time::ZERO + span(start)?;
            self.length = Some(positive(length)?);
            return Ok(());
        }
        let (start, stop) = match times.split_once('-') {
            None => (times, None),
            Some((start, stop)) => (start, Some(stop)),
        };
        self.start = Time::ZERO + span(start)?;
        self.stop = match stop {
            None => None,
            Some(stop) => Some(Time::ZERO + span(stop)?),
        };
        match self.stop {
            Some(stop) if stop <= self.start => Err("it must stop later than it starts".to_owned()),
            _ => Ok(()),
        }
    }
}

fn name(value: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=32).contains(&value.len()) && value.chars().all(fits) {
        Ok(value.to_owned())
    } else {
        Err(NAME.to_owned())
    }
}

/// A name, or one with that of a process.
fn shared(value: &str) -> Result<String, String> {
    let (all, process) = value.split_once(':').unwrap_or((value, "1"));
    name(all)?;
    name(process)?;
    Ok(value.to_owned())
}

/// A buffer that holds at least a few packets.
fn buffer(value: &str) -> Result<Bytes, String> {
    let size: Bytes = value
        .parse()
        .map_err(|e: alcc_units::UnitError| e.to_string())?;
    let range = Bytes::new(4_096)..=Bytes::new(1 << 30);
    if range.contains(&size) {
        Ok(size)
    } else {
        Err("write 4096 bytes to 1 GB".to_owned())
    }
}

fn span(value: &str) -> Result<Span, String> {
    value
        .parse()
        .map_err(|e: alcc_units::UnitError| e.to_string())
}

fn positive(value: &str) -> Result<Span, String> {
    match span(value)? {
        Span::ZERO => Err("it must be longer than 0".to_owned()),
        span => Ok(span),
    }
}
