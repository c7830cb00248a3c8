// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A shaper: a token bucket in which packets wait. Tokens arrive at a rate, up to a burst; a packet
//! that finds too few of them waits for them. A burst passes at the link's own rate, so a
//! measurement by it overestimates the path's rate.
//!
//! The burst of 250 kB is the policer's. Linux's `tbf` with one bucket does the same.
use super::droptail::{BYTES, Droptail, PACKETS};
use super::policer::{BURST, Bucket, RATE};
use super::{Enqueue, Queue, QueueKind, Queued};
use crate::Packet;
use alcc_units::{Bytes, Options, Rng, SpecError, Time};

pub(super) const QUEUE: QueueKind = QueueKind {
    name: "shaper",
    summary: "token bucket with a queue: a burst passes at once, then packets leave at its rate",
    overtaking: false,
    options: &[BYTES, PACKETS, RATE, BURST],
    build,
};

#[derive(Clone, Debug)]
struct Shaper {
    waiting: Droptail,
    bucket: Bucket,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Queue>, SpecError> {
    Ok(Box::new(Shaper {
        waiting: Droptail::built(options)?,
        bucket: Bucket::built(options)?,
    }))
}

impl Queue for Shaper {
    fn enqueue(&mut self, now: Time, packet: Packet, _: &mut Rng, _: &mut Vec<Packet>) -> Enqueue {
        self.waiting.push(now, packet)
    }

    fn dequeue(&mut self, now: Time, _: &mut Vec<Packet>) -> Option<Queued> {
        let len = self.waiting.first()?.packet.len;
        self.bucket
            .takes_at_most(now, len)
            .then(|| self.waiting.pop())?
    }

    fn ready(&self) -> Time {
        self.waiting
            .first()
            .map_or(Time::ZERO, |first| self.bucket.ready(first.packet.len))
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> Bytes {
        self.waiting.bytes()
    }

    fn duplicate(&self) -> Box<dyn Queue> {
        Box::new(self.clone())
    }
}
