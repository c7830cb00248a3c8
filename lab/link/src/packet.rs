// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::{Bytes, Span, Time};

/// Explicit Congestion Notification: the last two bits of an IP packet's traffic class (RFC 3168,
/// section 5).
///
/// It is as wide as its neighbour in a [`Packet`], so that a packet has no padding and is copied in whole words.
///
/// ```
/// use alcc_link::Ecn;
///
/// assert_eq!(Ecn::of_bits(0b10), Ecn::Ect0);
/// assert_eq!(Ecn::of_bits(0b11), Ecn::Ce);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u32)]
pub enum Ecn {
    /// The sender does not support marks: Not-ECT.
    #[default]
    NotEct,
    /// The sender supports marks: ECT(1).
    Ect1,
    /// The sender supports marks: ECT(0).
    Ect0,
    /// Congestion experienced: a queue has marked the packet.
    Ce,
}

impl Ecn {
    /// Decodes the ECN field of a traffic class.
    pub const fn of_bits(class: u8) -> Self {
        match class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// A packet in the model; the host keeps its content under `id`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The host's identifier, which the models do not interpret.
    pub id: u64,
    /// The flow of the packet, for queues that separate flows.
    pub flow: u32,
    /// Its length in IP bytes, which the bottleneck has to carry.
    pub len: Bytes,
    /// Its ECN field.
    pub ecn: Ecn,
}

impl Packet {
    /// Marks the packet if its sender supports marks; otherwise returns `false`.
    pub(crate) fn mark(&mut self) -> bool {
        let capable = self.ecn != Ecn::NotEct;
        if capable {
            self.ecn = Ecn::Ce;
        }
        capable
    }
}

/// The reason for which a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// Random loss before the bottleneck.
    Loss,
    /// Random loss after the bottleneck, on the radio link.
    Radio,
    /// Corrupted, so that the receiver discards it. A host with real packets delivers it with wrong bits.
    Corrupt,
    /// The queue was full.
    Overflow,
    /// Chosen by active queue management.
    Aqm,
}

/// An event of a packet. Times are those of the model, not of the call that reports it: a late call reports the same.
///
/// Every packet that was pushed ends in exactly one `Delivered` or `Dropped`. Before that there is one `Arrived` when
/// it reaches the bottleneck, and one `Departed` when it leaves the bottleneck. These two are for logs and meters. A
/// packet that arrives twice gives one `Repeated` as well.
///
/// `repr(u32)` gives an explicit discriminant, because a niche in another field is more expensive to construct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Outcome {
    /// It reached the bottleneck. If the queue refuses it at once, a `Dropped` follows at the same time.
    Arrived {
        /// Time of the event.
        at: Time,
        /// The packet.
        packet: Packet,
    },
    /// Its last byte departed from the bottleneck.
    Departed {
        /// Time of the event.
        at: Time,
        /// The packet.
        packet: Packet,
        /// Time of its arrival at the bottleneck.
        arrived: Time,
    },
    /// It has passed the whole direction, including the delay.
    Delivered {
        /// Time of the event.
        at: Time,
        /// The packet.
        packet: Packet,
        /// Time at the bottleneck, from `arrived` until its last byte departed: queueing and, on a link of fixed rate,
        /// its own serialisation.
        queue_delay: Span,
        /// Time of its arrival at the bottleneck.
        arrived: Time,
    },
    /// A copy of it arrives, and its own `Delivered` follows.
    Repeated {
        /// Time of the event.
        at: Time,
        /// The packet.
        packet: Packet,
    },
    /// It was dropped.
    Dropped {
        /// Time of the event.
        at: Time,
        /// The packet.
        packet: Packet,
        /// The reason.
        why: DropReason,
    },
}

/// Receives the outcomes of packets, in order of time, as they happen.
///
/// ```
/// use alcc_link::{Dir, Direction, DirectionSpec, Ecn, Outcome, Outcomes, Packet};
/// use alcc_units::{Bytes, Span, Time};
///
/// #[derive(Default)]
/// struct Delivered(u64);
///
/// impl Outcomes for Delivered {
///     fn tell(&mut self, outcome: Outcome) {
///         self.0 += u64::from(matches!(outcome, Outcome::Delivered { .. }));
///     }
/// }
///
/// let spec = DirectionSpec { delay: Span::from_millis(20), ..DirectionSpec::default() };
/// let mut down = Direction::new(&spec, Dir::Down, 1);
/// let mut delivered = Delivered::default();
/// let packet = Packet { id: 1, flow: 0, len: Bytes::new(1500), ecn: Ecn::NotEct };
/// down.push(Time::ZERO, packet, &mut delivered);
/// down.advance(Time::from_millis(19), &mut delivered);
/// assert_eq!(delivered.0, 0);
/// down.advance(Time::from_millis(20), &mut delivered);
/// assert_eq!(delivered.0, 1);
/// ```
pub trait Outcomes {
    /// Receives an outcome.
    fn tell(&mut self, outcome: Outcome);

    /// Receives two outcomes together: the packet departed from the bottleneck at `departed`, and was delivered at
    /// `at`.
    #[inline(always)]
    fn passed(&mut self, at: Time, packet: Packet, arrived: Time, departed: Time) {
        self.tell(Outcome::Departed {
            at: departed,
            packet,
            arrived,
        });
        self.tell(Outcome::Delivered {
            at,
            packet,
            queue_delay: departed.since(arrived),
            arrived,
        });
    }

    /// True if each outcome must be reported as it happens. Otherwise those of one packet may be reported together when
    /// it is delivered or dropped, and drops may be late. Deliveries are always in time.
    fn is_watching(&self) -> bool {
        true
    }
}

impl Outcomes for Vec<Outcome> {
    fn tell(&mut self, outcome: Outcome) {
        self.push(outcome);
    }
}
