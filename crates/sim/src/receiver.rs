// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::meter::Meter;
use alcc_cc::Pn;
use alcc_units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// When a receiver acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AckPolicy {
    /// Each packet at once, as the UDP prototypes do.
    EveryPacket,
    /// Every second segment, or after 40 ms; at once out of order and for the first 16 (Linux's quick ACKs).
    Delayed,
}

const DELAY: Span = Span::from_millis(40);
const QUICK: u64 = 16;

/// A packet of data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub(crate) pn: Pn,
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) written_at: Time,
}

/// An acknowledgement: everything that had arrived when it left, however many earlier ones were lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    /// Stands for the first so many arrivals.
    arrivals: u64,
    /// The stream is complete up to here.
    pub(crate) complete: u64,
}

/// The receiving host of one flow.
#[derive(Debug)]
pub(crate) struct Receiver {
    policy: AckPolicy,
    /// Arrivals that the sender has not heard of, in order; the first is number `heard`.
    log: VecDeque<Pn>,
    heard: u64,
    complete: u64,
    early: BTreeMap<u64, (u64, Time)>,
    unacknowledged: u64,
    due: Option<Time>,
}

impl Receiver {
    pub(crate) const fn new(policy: AckPolicy) -> Self {
        Self {
            policy,
            log: VecDeque::new(),
            heard: 0,
            complete: 0,
            early: BTreeMap::new(),
            unacknowledged: 0,
            due: None,
        }
    }

    /// The stream is complete up to here: payload that reached the application.
    pub(crate) const fn complete(&self) -> u64 {
        self.complete
    }

    pub(crate) const fn next_wake(&self) -> Option<Time> {
        self.due
    }

    /// Data arrives; the answer is an acknowledgement to send, if one is due.
    pub(crate) fn on_data(&mut self, now: Time, data: &Data, meter: &mut Meter) -> Option<Ack> {
        self.log.push_back(data.pn);
        self.unacknowledged += 1;
        let in_order = data.start == self.complete;
        let end = data.start + data.len;
        if in_order {
            self.complete = end;
            meter.delivered_to_application(now.since(data.written_at));
            while let Some(next) = self
                .early
                .first_entry()
                .filter(|e| *e.key() <= self.complete)
            {
                let (end, written_at) = next.remove();
                if end > self.complete {
                    self.complete = end;
                    meter.delivered_to_application(now.since(written_at));
                }
            }
        } else if data.start > self.complete {
            self.early.insert(data.start, (end, data.written_at));
        }
        let at_once = match self.policy {
            AckPolicy::EveryPacket => true,
            AckPolicy::Delayed => {
                !in_order
                    || !self.early.is_empty()
                    || self.unacknowledged >= 2
                    || self.heard + self.log.len() as u64 <= QUICK
            }
        };
        if at_once {
            return Some(self.acknowledge());
        }
        self.due = self.due.or(Some(now + DELAY));
        None
    }

    /// The delay of an acknowledgement is over.
    pub(crate) fn on_wake(&mut self, now: Time) -> Option<Ack> {
        (self.due? <= now).then(|| self.acknowledge())
    }

    fn acknowledge(&mut self) -> Ack {
        self.unacknowledged = 0;
        self.due = None;
        Ack {
            arrivals: self.heard + self.log.len() as u64,
            complete: self.complete,
        }
    }

    /// What `ack` tells a sender that has heard all earlier ones: arrivals, in order of arrival.
    pub(crate) fn news(&mut self, ack: &Ack, pns: &mut Vec<Pn>) {
        pns.clear();
        let count = ack.arrivals.saturating_sub(self.heard) as usize;
        pns.extend(self.log.drain(..count.min(self.log.len())));
        self.heard += pns.len() as u64;
    }
}
