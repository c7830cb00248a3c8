// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be sent in each direction, and for how long.
use alcc_units::{Bytes, Rate, Span};
use std::fmt;

/// UDP and IP headers: what a datagram costs the link beyond its payload.
pub const IPV4_OVERHEAD: u16 = 28;
/// The same for IPv6.
pub const IPV6_OVERHEAD: u16 = 48;

/// The smallest payload: our own header must fit.
pub const MIN_LEN: u16 = 128;
/// The largest payload: a jumbo frame.
pub const MAX_LEN: u16 = 8972;
/// No sender goes faster than one packet in this time.
pub const MIN_INTERVAL: Span = Span::from_micros(2);
/// The longest recording.
pub const MAX_DURATION: Span = Span::from_secs(3600);

/// How a channel is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Both queues are kept full: what arrives is what the channel can carry.
    Saturate,
    /// A constant rate: delay, and what arrives of an offered load.
    Constant,
    /// One packet each 0.4 ms.
    Probe,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Saturate, Self::Constant, Self::Probe];

    /// As it is typed and written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Saturate => "saturate",
            Self::Constant => "constant",
            Self::Probe => "probe",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one direction sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Only what measuring the other direction needs.
    Nothing,
    /// As much as keeps the queue full.
    Saturate,
    /// One packet in each such time.
    Every(Span),
}

impl Load {
    /// A constant rate of IP bytes in packets of `ip_len` bytes; nothing at rate 0.
    pub fn at_rate(rate: Rate, ip_len: u64) -> Self {
        if rate == Rate::ZERO {
            return Self::Nothing;
        }
        Self::Every(rate.time_for(Bytes::new(ip_len)))
    }
}

/// A recording as both ends agree on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// How it is measured.
    pub mode: Mode,
    /// What counts: arrivals in this time, at either end.
    pub duration: Span,
    /// Sending before that, so that the queues are full when it begins.
    pub warm_up: Span,
    /// UDP payload of a packet.
    pub size: u16,
    /// Bytes of headers that the link carries with each packet.
    pub overhead: u16,
    /// From the listener to the client.
    pub down: Load,
    /// From the client to the listener.
    pub up: Load,
    /// No saturating sender goes beyond this.
    pub limit: Rate,
}

impl Plan {
    /// What the link carries per packet.
    pub fn ip_len(&self) -> u64 {
        u64::from(self.size) + u64::from(self.overhead)
    }

    /// Why this cannot be done, if it cannot.
    pub fn problem(&self) -> Option<String> {
        let size = self.size;
        if !(MIN_LEN..=MAX_LEN).contains(&size) {
            return Some(format!(
                "packets of {size} bytes: {MIN_LEN} to {MAX_LEN} bytes of payload are possible"
            ));
        }
        if self.duration < Span::from_millis(100) || self.duration > MAX_DURATION {
            return Some(format!(
                "a recording of {}: 100ms to {MAX_DURATION} is possible",
                self.duration
            ));
        }
        if self.warm_up > Span::from_secs(60) {
            return Some(format!("a warm-up of {}: at most 60s", self.warm_up));
        }
        if self.down == Load::Nothing && self.up == Load::Nothing {
            return Some(
                "nothing to send in either direction: give --down or --up a rate above 0"
                    .to_owned(),
            );
        }
        let floor = Rate::bps(100_000);
        if [self.down, self.up].contains(&Load::Saturate) && self.limit < floor {
            return Some(format!("a limit of {}: at least 100kbit", self.limit));
        }
        for load in [self.down, self.up] {
            if let Load::Every(interval) = load
                && !(MIN_INTERVAL..=Span::from_secs(10)).contains(&interval)
            {
                return Some(format!(
                    "a packet each {interval}: from {MIN_INTERVAL} to 10s is possible"
                ));
            }
        }
        None
    }
}
