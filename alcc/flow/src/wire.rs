// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between sender and receiver, as values. The caller encodes them.
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
    /// The reason for sending it.
    pub kind: Kind,
    /// Time of sending on the sender's clock: the time stamp of a TCP segment.
    pub sent_at: Time,
    /// The peer's newest time stamp.
    pub echo: Time,
    /// Header for the algorithm's receiver module.
    pub header: Header,
}

impl Transmit {
    /// Position after its last byte.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// The receive time of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its packet number.
    pub pn: Pn,
    /// Receive time on the receiver's clock.
    pub at: Time,
}

/// Maximum number of ranges in an [`Ack`].
pub const RANGES: usize = 4;

/// An acknowledgement. It is untrusted if it comes from a peer.
///
/// With the fields in this order, an acknowledgement without ranges is read without the space for
/// them. No field has invalid values, so that an `Option<Ack>` has a separate tag and is copied in
/// whole words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Ack {
    /// Position before which everything has arrived. With datagrams the sender ignores it.
    pub cumulative_ack: u64,
    /// The window: bytes that may be sent beyond `cumulative_ack`.
    pub window: Bytes,
    /// The sender's time stamp that it echoes (RFC 7323, section 4.3); zero without time stamps.
    pub echo: Time,
    /// Time of sending on the receiver's clock.
    pub sent_at: Time,
    /// Total payload received with an ECN mark.
    pub marked: u64,
    count: u32,
    /// 1 if the first range is a duplicate.
    duplicate: u32,
    ranges: [Range; RANGES],
}

impl Ack {
    /// The ranges that have arrived: bytes above `cumulative_ack`, or packet numbers, in any order.
    #[inline]
    pub fn ranges(&self) -> &[Range] {
        &self.blocks()[self.duplicate as usize..]
    }

    /// A duplicate (DSACK, RFC 2883).
    #[inline]
    pub fn duplicate(&self) -> Option<Range> {
        (self.duplicate > 0).then_some(self.ranges[0])
    }

    /// The blocks as TCP sends them: the duplicate first (RFC 2883, section 4), then the ranges.
    #[inline]
    pub fn blocks(&self) -> &[Range] {
        &self.ranges[..self.count as usize]
    }

    /// Adds a range that arrived again. False if it is not the first range.
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
    /// It acknowledges data that was never sent.
    NeverSent {
        /// The position in the stream, or the packet number, that it names.
        named: u64,
        /// The highest position or number sent.
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
