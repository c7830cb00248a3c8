// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a sender and a receiver exchange, as values. The caller encodes them.
use crate::Range;
use alcc_cc::{Header, Kind, Pn};
use alcc_units::{Bytes, Time};

/// A packet to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Its packet number.
    pub pn: Pn,
    /// Its position in the stream.
    pub start: u64,
    /// Payload in bytes; zero for an empty probe.
    pub len: u64,
    /// Why it is sent.
    pub kind: Kind,
    /// The sender's clock: the time stamp of a TCP segment.
    pub sent_at: Time,
    /// The peer's newest time stamp.
    pub echo: Time,
    /// For the algorithm's receiver module.
    pub header: Header,
}

impl Transmit {
    /// One after its last byte.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// When a packet arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its packet number.
    pub pn: Pn,
    /// On the receiver's clock.
    pub at: Time,
}

/// Ranges in an [`Ack`].
pub const RANGES: usize = 4;

/// An acknowledgement. Untrusted when it comes from a peer.
///
/// The fields are in this order, so that one without ranges is read without the place for them.
/// None of them has values that it cannot have: then an `Option` of it has a tag of its own, and is
/// copied in whole words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Ack {
    /// Everything before this has arrived. Datagrams: ignored by the sender.
    pub cumulative_ack: u64,
    /// The window: bytes that may be sent beyond `cumulative_ack`.
    pub window: Bytes,
    /// The sender's time stamp that it echoes (RFC 7323, section 4.3); zero without time stamps.
    pub echo: Time,
    /// The receiver's clock.
    pub sent_at: Time,
    /// Total payload received with an ECN mark.
    pub marked: u64,
    count: u32,
    /// 1: the first range is a duplicate.
    duplicate: u32,
    ranges: [Range; RANGES],
}

impl Ack {
    /// What has arrived: bytes above `cumulative_ack`, or packet numbers, in any order.
    #[inline]
    pub fn ranges(&self) -> &[Range] {
        &self.blocks()[self.duplicate as usize..]
    }

    /// A duplicate (DSACK, RFC 2883).
    #[inline]
    pub fn duplicate(&self) -> Option<Range> {
        (self.duplicate > 0).then_some(self.ranges[0])
    }

    /// As TCP sends it: the duplicate first (RFC 2883, section 4), then the ranges.
    #[inline]
    pub fn blocks(&self) -> &[Range] {
        &self.ranges[..self.count as usize]
    }

    /// This arrived again. It takes the place of a range; false if it is not the first.
    pub fn push_duplicate(&mut self, range: Range) -> bool {
        let first = self.count == 0;
        self.duplicate |= u32::from(first && self.push(range));
        first
    }

    /// Adds a range; false if it is full.
    pub fn push(&mut self, range: Range) -> bool {
        let Some(place) = self.ranges.get_mut(self.count as usize) else {
            return false;
        };
        *place = range;
        self.count += 1;
        true
    }
}

/// An invalid acknowledgement. It changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AckError {
    /// It acknowledges something that was never sent.
    NeverSent {
        /// What it names: a position in the stream, or a packet number.
        named: u64,
        /// What was sent.
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
