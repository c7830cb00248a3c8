// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policer: a token bucket that lets nobody wait. Tokens come at a rate, up to a burst; a packet
//! that finds too few of them is dropped. Behind it waits what a bottleneck has not carried yet.
//!
//! The burst of 250 kB is what a policer of 20 Mbit/s lets pass within 100 ms; operators configure
//! such (Flach et al., An Internet-wide analysis of traffic policing, SIGCOMM 2016).
use super::droptail::{BYTES, Droptail, PACKETS};
use super::{Enqueue, Queue, QueueKind, Queued};
use crate::{DropReason, Packet};
use alcc_units::{Bytes, OptionDoc, Options, Rate, Rng, SpecError, Time};

pub(super) const QUEUE: QueueKind = QueueKind {
    name: "policer",
    summary: "a token bucket: drops what is beyond its rate and its burst, lets nobody wait for it",
    overtaking: false,
    options: &[
        BYTES,
        PACKETS,
        OptionDoc {
            name: "rate",
            default: "10000000",
            help: "bits per second that may pass, 1000 to 1000000000000",
        },
        OptionDoc {
            name: "burst",
            default: "250000",
            help: "bytes that may pass at once, 1500 or more",
        },
    ],
    build,
};

#[derive(Clone, Debug)]
struct Policer {
    waiting: Droptail,
    rate: Rate,
    burst: Bytes,
    /// When the bucket would have been empty, had nothing been taken beyond its rate.
    empty_at: i128,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Queue>, SpecError> {
    Ok(Box::new(Policer {
        waiting: Droptail::built(options)?,
        rate: Rate::bps(options.whole("rate", 10_000_000, 1000..=1_000_000_000_000)?),
        burst: options.bytes("burst", Bytes::new(250_000), Bytes::new(1500)..=Bytes::MAX)?,
        empty_at: i128::MIN / 2,
    }))
}

impl Policer {
    /// Takes the tokens of a packet, if there are enough.
    fn takes(&mut self, now: Time, len: Bytes) -> bool {
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
        if !self.takes(now, packet.len) {
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
