// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts and times of a FLOW, after its algorithm.
use super::Source;
use alcc_cc::{Spec, SpecError};
use alcc_flow::rules::Rules;
use alcc_link::Dir;
use alcc_units::{Bytes, Rate, Span, Time, nearest};

/// The parts of a flow as typed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Parts {
    /// The congestion control of the TCP below.
    pub over: Option<Spec>,
    /// Transport between two programs of this project.
    pub transport: Option<&'static Transport>,
    /// Carrier of the transport, such as TLS.
    pub carrier: Option<String>,
    /// The window is kept in the kernel.
    pub in_kernel: bool,
    /// The rules of its hosts.
    pub host: Option<&'static Rules>,
    /// Send buffer, as set by an application.
    pub send_buffer: Option<Bytes>,
    /// Receive window of its TCP.
    pub receive_window: Option<Bytes>,
    /// Limit of unsent data in its TCP.
    pub notsent_lowat: Option<Bytes>,
    /// Data of the application.
    pub source: Source,
    /// Round trip without queueing.
    pub rtt: Option<Span>,
    /// Direction of the data.
    pub dir: Dir,
    /// True for a pair that sends in both directions.
    pub both: bool,
    /// First and last link, from 1.
    pub links: Option<(usize, usize)>,
    /// Start of the first of the N flows.
    pub start: Time,
    /// Stop of all N flows.
    pub stop: Option<Time>,
    /// Lifetime of each flow.
    pub length: Option<Span>,
    /// Between the starts of the N.
    pub stagger: Span,
    /// Added to start and stop.
    pub phase: Option<Span>,
    /// Its packets may be marked.
    pub ecn: bool,
    /// Name in tables and rows.
    pub name: Option<String>,
    /// Name of the shared allowance, and perhaps of the process.
    pub share: Option<String>,
    /// Name of the flow that carries it.
    pub tunnel: Option<String>,
    /// Packets that wait before it, if it carries others.
    pub txqueuelen: Option<usize>,
    /// The keys so far, because a repeated key would be ambiguous.
    given: Vec<String>,
}

/// Transport of a flow between two programs of this project.
#[derive(PartialEq, Eq, Debug)]
pub struct Transport {
    /// Name, as in `alcc-lab send --transport`.
    pub name: &'static str,
    /// Suffix of the names of rows with this transport.
    pub suffix: &'static str,
    /// True if it runs above the kernel's TCP, so that it needs `over=`.
    pub is_above_tcp: bool,
    /// The rules that the simulator has for it, or the reason why it has none.
    pub simulated: Result<&'static str, &'static str>,
}

/// All transports.
pub static TRANSPORTS: [Transport; 4] = [
    Transport {
        name: "udp",
        suffix: "-udp",
        is_above_tcp: false,
        simulated: Ok("udp"),
    },
    Transport {
        name: "quic",
        suffix: "-quic",
        is_above_tcp: false,
        simulated: Err("the simulator has no QUIC: transport=udp is the native form there"),
    },
    Transport {
        name: "tcp",
        suffix: "-tcp",
        is_above_tcp: true,
        simulated: Err("the simulator has the kernel's counters only: leave it out"),
    },
    Transport {
        name: "in-band",
        suffix: "-inband",
        is_above_tcp: true,
        simulated: Err("the simulator has no reports inside the stream: leave it out"),
    },
];

const KEYS: &str = "over transport carrier enforce host sndbuf rwnd lowat rtt dir links size app every on off stagger phase ecn share tunnel txqueuelen name";

/// Error text that lists the keys after a `/`.
fn parts() -> String {
    format!("write {}= after '/'", KEYS.replace(' ', "=, "))
}

const NAME: &str = "a name is 1 to 32 letters, digits, '-', '_' or '.'";

impl Parts {
    /// One `/part`; the error is what would be right.
    pub(super) fn part(&mut self, part: &str) -> Result<(), String> {
        let (key, value) = part.split_once('=').ok_or_else(parts)?;
        if !matches!(key, "app" | "on" | "every" | "off") {
            self.once(key)?;
        }
        match key {
            "over" => {
                let spec: Result<Spec, SpecError> = value.parse();
                self.over = Some(spec.map_err(|e| e.to_string())?);
            }
            "transport" => {
                let found = TRANSPORTS.iter().find(|known| known.name == value);
                let names = || TRANSPORTS.each_ref().map(|known| known.name).join(", ");
                let want = || format!("write transport= and one of {}", names());
                self.transport = Some(found.ok_or_else(want)?);
            }
            "carrier" => self.carrier = Some(value.to_owned()),
            "enforce" if value == "bpf" => self.in_kernel = true,
            "enforce" => return Err("write enforce=bpf".to_owned()),
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
                let near = nearest(key, KEYS.split(' '));
                let near = near.map_or_else(String::new, |n| format!("did you mean {n}=? "));
                return Err(format!("{near}{}", parts()));
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

    /// Stop time of flow `number` of N.
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
