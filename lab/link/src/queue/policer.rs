// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policer: a token bucket in which no packet waits. Tokens arrive at a rate, up to a burst; a
//! packet that finds too few of them is dropped. Packets wait after it, for the bottleneck.
//!
//! The burst of 250 kB is the data of a policer of 20 Mbit/s in 100 ms. Operators configure such
//! policers (Flach et al., An Internet-wide analysis of traffic policing, SIGCOMM 2016).
use super::droptail::{BYTES, Droptail, PACKETS};
use super::{Enqueue, Queue, QueueKind, Queued};
use crate::{DropReason, Packet};
use alcc_units::{Bytes, OptionDoc, Options, Rate, Rng, SpecError, Time};

pub(super) const QUEUE: QueueKind = QueueKind {
    name: "policer",
    summary: "token bucket: drops packets beyond its rate and burst, without delaying any",
    overtaking: false,
    options: &[BYTES, PACKETS, RATE, BURST],
    build,
};

pub(super) const RATE: OptionDoc = OptionDoc {
    name: "rate",
    default: "10000000",
    help: "rate, 1000 to 1000000000000 bits per second; also as 10mbit",
};

pub(super) const BURST: OptionDoc = OptionDoc {
    name: "burst",
    default: "250000",
    help: "burst in bytes, 1500 or more",
};

#[derive(Clone, Debug)]
struct Policer {
    waiting: Droptail,
    bucket: Bucket,
}

/// A token bucket, with one token per byte.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    burst: Bytes,
    /// Time at which the bucket would have been empty without taking beyond its rate, ns.
    empty_at: i128,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Queue>, SpecError> {
    Ok(Box::new(Policer {
        waiting: Droptail::built(options)?,
        bucket: Bucket::built(options)?,
    }))
}

/// Parses the option [`RATE`], in bits per second or with a unit.
fn rate(options: &Options<'_>) -> Result<Rate, SpecError> {
    let range = 1000..=1_000_000_000_000;
    match options.text(RATE.name).map(str::parse::<Rate>) {
        Some(Ok(rate)) if range.contains(&rate.as_bps()) => Ok(rate),
        _ => options
            .whole(RATE.name, 10_000_000, range)
            .map(Rate::bps)
            .map_err(|_| options.wrong(RATE.name, "a rate from 1kbit to 1000gbit, such as 10mbit")),
    }
}

impl Bucket {
    /// A full bucket with the options [`RATE`] and [`BURST`].
    pub(super) fn built(options: &Options<'_>) -> Result<Self, SpecError> {
        let burst = Bytes::new(1500)..=Bytes::MAX;
        Ok(Self {
            rate: rate(options)?,
            burst: options.bytes(BURST.name, Bytes::new(250_000), burst)?,
            empty_at: i128::MIN / 2,
        })
    }

    /// Time at which there are tokens for this many bytes, limited to the size of the bucket.
    pub(super) fn ready(&self, len: Bytes) -> Time {
        let wait = i128::from(self.rate.time_for(len.min(self.burst)).as_nanos());
        let at = self
            .empty_at
            .saturating_add(wait)
            .clamp(0, i128::from(u64::MAX));
        Time::from_nanos(at as u64)
    }

    /// The same as [`Self::takes`], but a packet larger than the bucket takes all of it.
    pub(super) fn takes_at_most(&mut self, now: Time, len: Bytes) -> bool {
        self.takes(now, len.min(self.burst))
    }

    /// Takes the tokens of a packet, if there are enough.
    pub(super) fn takes(&mut self, now: Time, len: Bytes) -> bool {
        let now = i128::from(now.as_nanos());
        let full = i128::from(self.rate.time_for(self.burst).as_nanos());
        let empty_at =
            self.empty_at.max(now - full) + i128::from(self.rate.time_for(len).as_nanos());
        let enough = empty_at <= now;
        if enough {
            self.empty_at = empty_at;
        }
        enough
    }
}

impl Queue for Policer {
    fn enqueue(&mut self, now: Time, packet: Packet, _: &mut Rng, _: &mut Vec<Packet>) -> Enqueue {
        if !self.waiting.fits(&packet) {
            return Enqueue::Refused(DropReason::Overflow);
        }
        if !self.bucket.takes(now, packet.len) {
            return Enqueue::Refused(DropReason::Aqm);
        }
        self.waiting.push(now, packet)
    }

    fn dequeue(&mut self, _: Time, _: &mut Vec<Packet>) -> Option<Queued> {
        self.waiting.pop()
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
