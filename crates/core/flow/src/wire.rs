// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What travels between a sender and a receiver, as values. Encoding them is the caller's.
use crate::Range;
use alcc_cc::{Header, Kind, Pn};
use alcc_units::{Bytes, Time};

/// A packet that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Its transmission number.
    pub pn: Pn,
    /// Its place in the stream.
    pub start: u64,
    /// Its payload in bytes; zero for a probe without data.
    pub len: u64,
    /// Why it leaves.
    pub kind: Kind,
    /// The sender's clock as it leaves: the time stamp of a TCP segment.
    pub sent_at: Time,
    /// The newest time stamp of the peer.
    pub echo: Time,
    /// For the algorithm's receiver half.
    pub header: Header,
}

impl Transmit {
    /// One after its last byte.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// When a transmission arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its number.
    pub pn: Pn,
    /// The receiver's clock as it came.
    pub at: Time,
}

/// How many ranges an [`Ack`] carries by itself.
pub const RANGES: usize = 4;

/// An acknowledgement. Untrusted when it comes from a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// The stream is complete up to here. Datagrams: of no consequence for the sender.
    pub complete: u64,
    /// May be sent: up to so many bytes after `complete`.
    pub window: Bytes,
    /// The sender's time stamp that this answers (RFC 7323, section 4.3); zero without time stamps.
    pub echo: Time,
    /// The receiver's clock as it leaves.
    pub sent_at: Time,
    /// Payload that arrived marked (ECN), in total.
    pub marked: u64,
    /// What has arrived twice (RFC 2883).
    pub duplicate: Option<Range>,
    ranges: [Range; RANGES],
    count: u8,
}

impl Ack {
    /// What has arrived: bytes beyond `complete`, or transmission numbers, in any order.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges[..usize::from(self.count)]
    }

    /// Adds a range; false if there is no place.
    pub fn push(&mut self, range: Range) -> bool {
        let Some(place) = self.ranges.get_mut(usize::from(self.count)) else {
            return false;
        };
        *place = range;
        self.count += 1;
        true
    }
}

/// An acknowledgement that cannot be: it changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AckError {
    /// It speaks of something that was never sent.
    NeverSent {
        /// What it names: a position in the stream, or a transmission number.
        named: u64,
        /// So much was sent.
        sent: u64,
    },
    /// A range that ends before it begins.
    Backwards(Range),
}

impl std::fmt::Display for AckError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NeverSent { named, sent } => {
                write!(f, "acknowledges {named}, but only {sent} was sent")
            }
            Self::Backwards(range) => write!(
                f,
                "acknowledges a range from {} to {}",
                range.start, range.end
            ),
        }
    }
}

impl std::error::Error for AckError {}
