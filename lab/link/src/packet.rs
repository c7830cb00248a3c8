// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::{Bytes, Span, Time};

/// Explicit Congestion Notification: the last two bits of an IP packet's traffic class (RFC 3168,
/// section 5).
///
/// It is as wide as its neighbour in a [`Packet`]: without padding, a packet is copied in whole
/// words.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u32)]
pub enum Ecn {
    /// The sender does not understand marks.
    #[default]
    NotEct,
    /// The sender understands marks: ECT(1).
    Ect1,
    /// The sender understands marks: ECT(0).
    Ect0,
    /// Congestion experienced: a queue has marked the packet.
    Ce,
}

impl Ecn {
    /// From a traffic class.
    pub const fn of_bits(class: u8) -> Self {
        match class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// A packet as a model sees it; the host keeps the content under `id`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The host's name for it. The models never look at it.
    pub id: u64,
    /// The flow it belongs to, for queues that tell flows apart.
    pub flow: u32,
    /// Its length in IP bytes: what the bottleneck has to carry.
    pub len: Bytes,
    /// Whether it may be marked, or is marked.
    pub ecn: Ecn,
}

impl Packet {
    /// Marks the packet if its sender understands marks; `false` if it does not.
    pub(crate) fn mark(&mut self) -> bool {
        let capable = self.ecn != Ecn::NotEct;
        if capable {
            self.ecn = Ecn::Ce;
        }
        capable
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// Random loss before the bottleneck.
    Loss,
    /// Random loss behind the bottleneck, on the radio link.
    Radio,
    /// It arrived with wrong bits: the receiver discards it. A host with real packets delivers it so.
    Corrupt,
    /// The queue was full.
    Overflow,
    /// The queue's active management chose it.
    Aqm,
}

/// The fate of a packet. Times are those of the model, not of the call that learned of it: a late
/// call reports the same.
///
/// Every packet that was pushed ends in exactly one `Delivered` or `Dropped`. On its way it gives
/// one `Arrived` when it reaches the bottleneck, and one `Departed` when it leaves it. These two
/// are for logs and meters. A packet that arrives twice gives one `Repeated` as well.
///
/// The kind has its own field, not a niche of another one. Code that makes an outcome knows its
/// kind, so nothing has to be tested again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Outcome {
    /// It reached the bottleneck. The queue may refuse it at once: then a `Dropped` follows at the
    /// same time.
    Arrived {
        /// When.
        at: Time,
        /// Which.
        packet: Packet,
    },
    /// Its last byte left the bottleneck.
    Departed {
        /// When.
        at: Time,
        /// Which.
        packet: Packet,
        /// When it had reached the bottleneck.
        arrived: Time,
    },
    /// It has passed the whole direction, including the delay.
    Delivered {
        /// When.
        at: Time,
        /// Which.
        packet: Packet,
        /// Time at the bottleneck, from `arrived` until its last byte left. It is waiting and, on a
        /// link of fixed rate, its own serialisation.
        queue_delay: Span,
        /// When it had reached the bottleneck.
        arrived: Time,
    },
    /// A copy of it arrives, and its own `Delivered` follows.
    Repeated {
        /// When.
        at: Time,
        /// Which.
        packet: Packet,
    },
    /// It was dropped.
    Dropped {
        /// When.
        at: Time,
        /// Which.
        packet: Packet,
        /// Why.
        why: DropReason,
    },
}

/// Receives the outcomes of packets, in the order in which they happen, as they happen.
pub trait Outcomes {
    /// This became of a packet.
    fn tell(&mut self, outcome: Outcome);

    /// It left the bottleneck at `departed`, and is through at `at`: two outcomes that are reported
    /// together.
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

    /// Whether each outcome must be reported as it happens. If not, those of one packet may be
    /// reported together when it is delivered or dropped, and drops late. Deliveries come as
    /// always.
    fn is_watching(&self) -> bool {
        true
    }
}

impl Outcomes for Vec<Outcome> {
    fn tell(&mut self, outcome: Outcome) {
        self.push(outcome);
    }
}
