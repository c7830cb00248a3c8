// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drop-tail: a queue with a limit in bytes, in packets, in both or in neither. A packet that does
//! not fit is dropped at arrival.
use super::{Enqueue, Queue, QueueKind, Queued};
use crate::{DropReason, Packet};
use alcc_units::{Bytes, OptionDoc, Options, Rng, SpecError, Time};
use std::collections::VecDeque;

pub(super) const QUEUE: QueueKind = QueueKind {
    name: "droptail",
    summary: "first in, first out; drops arriving packets when full; without a limit nothing is dropped",
    overtaking: false,
    options: &[BYTES, PACKETS],
    build: |options| Ok(Box::new(Droptail::built(options)?)),
};

pub(super) const BYTES: OptionDoc = OptionDoc {
    name: "bytes",
    default: "unlimited",
    help: "maximum queued IP bytes, 1 or more",
};

pub(super) const PACKETS: OptionDoc = OptionDoc {
    name: "packets",
    default: "unlimited",
    help: "maximum queued packets, 1 to 1000000000",
};

/// Drop-tail with a limit in bytes.
pub(super) fn bounded(limit: Bytes) -> Box<dyn Queue> {
    Box::new(Droptail::new(limit, u64::MAX))
}

/// The FIFO itself, which the managed queues use, too.
#[derive(Clone, Debug)]
pub(super) struct Droptail {
    waiting: VecDeque<Queued>,
    bytes: Bytes,
    limits: Limits,
}

/// The limits. A packet that just fills a limit is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    bytes: Bytes,
    packets: u64,
}

impl Limits {
    /// True if a packet of `len` may wait after this many packets and bytes.
    #[inline]
    pub(crate) fn fit(&self, packets: usize, bytes: Bytes, len: Bytes) -> bool {
        bytes + len <= self.bytes && (packets as u64) < self.packets
    }
}

impl Droptail {
    /// A queue with the options [`BYTES`] and [`PACKETS`].
    pub(super) fn built(options: &Options<'_>) -> Result<Self, SpecError> {
        Ok(Self::new(
            options.bytes(BYTES.name, Bytes::MAX, Bytes::new(1)..=Bytes::MAX)?,
            options.whole(PACKETS.name, u64::MAX, 1..=1_000_000_000)?,
        ))
    }

    pub(super) const fn new(max_bytes: Bytes, max_packets: u64) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: Bytes::ZERO,
            limits: Limits {
                bytes: max_bytes,
                packets: max_packets,
            },
        }
    }

    /// True if `packet` may wait.
    pub(super) fn fits(&self, packet: &Packet) -> bool {
        self.limits.fit(self.waiting.len(), self.bytes, packet.len)
    }

    pub(super) fn push(&mut self, arrived: Time, packet: Packet) -> Enqueue {
        if !self.fits(&packet) {
            return Enqueue::Refused(DropReason::Overflow);
        }
        self.bytes += packet.len;
        self.waiting.push_back(Queued { packet, arrived });
        Enqueue::Taken
    }

    /// The packet that departs next.
    pub(super) fn first(&self) -> Option<&Queued> {
        self.waiting.front()
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.packet.len;
        Some(first)
    }
}

impl Queue for Droptail {
    fn enqueue(&mut self, now: Time, packet: Packet, _: &mut Rng, _: &mut Vec<Packet>) -> Enqueue {
        self.push(now, packet)
    }

    fn dequeue(&mut self, _: Time, _: &mut Vec<Packet>) -> Option<Queued> {
        self.pop()
    }

    fn drop_tail(&self) -> Option<Limits> {
        Some(self.limits)
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> Bytes {
        self.bytes
    }

    fn duplicate(&self) -> Box<dyn Queue> {
        Box::new(self.clone())
    }
}
