// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan of a recording: the load of each direction, and the duration.
use alcc_units::{Bytes, Rate, Span};
use std::fmt;

/// Length of UDP and IP headers, which the link carries in addition to the payload, bytes.
pub const IPV4_OVERHEAD: u16 = 28;
/// The same for IPv6.
pub const IPV6_OVERHEAD: u16 = 48;

/// The smallest payload, which must hold our own header, bytes.
pub const MIN_LEN: u16 = 128;
/// The largest payload: a jumbo frame, bytes.
pub const MAX_LEN: u16 = 8972;
/// Minimum interval between two packets of a sender.
pub const MIN_INTERVAL: Span = Span::from_micros(2);
/// The longest recording.
pub const MAX_DURATION: Span = Span::from_secs(3600);

/// The method of measuring a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Both queues are kept full, so that the arrivals show the capacity of the channel.
    Saturate,
    /// A constant rate: measures the delay, and the arriving part of an offered load.
    Constant,
    /// One packet every 0.4 ms.
    Probe,
}

impl Mode {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::Saturate, Self::Constant, Self::Probe];

    /// The name as typed and written.
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

/// The load of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Only the packets needed for measuring the other direction.
    Nothing,
    /// Enough packets to keep the queue full.
    Saturate,
    /// One packet per this interval.
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

/// The parameters of a recording, agreed by both ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The method.
    pub mode: Mode,
    /// The counted time: arrivals in it count, at either end.
    pub duration: Span,
    /// Time of sending before that, so that the queues are full when it begins.
    pub warm_up: Span,
    /// UDP payload of a packet, bytes.
    pub size: u16,
    /// Bytes of headers that the link carries with each packet.
    pub overhead: u16,
    /// Load from the listener to the client.
    pub down: Load,
    /// Load from the client to the listener.
    pub up: Load,
    /// Maximum rate of a saturating sender.
    pub limit: Rate,
}

impl Plan {
    /// Bytes that the link carries per packet.
    pub fn ip_len(&self) -> u64 {
        u64::from(self.size) + u64::from(self.overhead)
    }

    /// The reason why this plan is impossible; `None` if it is possible.
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
