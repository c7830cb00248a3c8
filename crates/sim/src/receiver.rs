// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::meter::Meter;
use alcc_cc::{Header, Pn, Report};
use alcc_units::{Bytes, Span, Time};
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
    /// For the algorithm's receiver half.
    pub(crate) header: Header,
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
pub(crate) struct Receiver {
    policy: AckPolicy,
    /// Arrivals that the sender has not heard of, in order; the first is number `heard`.
    log: VecDeque<Pn>,
    heard: u64,
    complete: u64,
    early: BTreeMap<u64, (u64, Time)>,
    unacknowledged: u64,
    due: Option<Time>,
    /// The algorithm's own half.
    half: Option<Box<dyn alcc_cc::Receiver>>,
    /// Its reports under way; the first is number `reported`.
    reports: VecDeque<Report>,
    reported: u64,
}

impl Receiver {
    pub(crate) fn new(policy: AckPolicy, half: Option<Box<dyn alcc_cc::Receiver>>) -> Self {
        Self {
            half,
            reports: VecDeque::new(),
            reported: 0,
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

    pub(crate) fn next_wake(&self) -> Option<Time> {
        let half = self.half.as_ref().and_then(|half| half.next_timer());
        crate::host::earlier(self.due, half)
    }

    /// The algorithm's own half wants to say something: the number of the report to send, and its length.
    pub(crate) fn report(&mut self, now: Time) -> Option<(u64, Bytes)> {
        let report = self.half.as_mut()?.report(now)?;
        self.reports.push_back(report);
        let number = self.reported + self.reports.len() as u64 - 1;
        Some((number, Bytes::new(report.len() as u64)))
    }

    /// Report `number` has reached the sender; those before it have not, or will be too old.
    pub(crate) fn reported(&mut self, number: u64) -> Option<Report> {
        let index = number.checked_sub(self.reported)?;
        self.reported = number + 1;
        self.reports.drain(..=index as usize).next_back()
    }

    /// Data arrives; the answer is an acknowledgement to send, if one is due.
    pub(crate) fn on_data(&mut self, now: Time, data: &Data, meter: &mut Meter) -> Option<Ack> {
        if let Some(half) = &mut self.half {
            half.on_packet(now, data.pn, Bytes::new(data.len), &data.header);
        }
        self.log.push_back(data.pn);
        self.unacknowledged += 1;
        let in_order = data.start == self.complete;
        let end = data.start + data.len;
        if data.len == 0 {
            // A probe: acknowledged, but no part of the stream.
        } else if in_order {
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

    /// The delay of an acknowledgement is over, or a timer of the algorithm's half is due.
    pub(crate) fn on_wake(&mut self, now: Time) -> Option<Ack> {
        if let Some(half) = &mut self.half
            && half.next_timer().is_some_and(|at| at <= now)
        {
            half.on_timer(now);
        }
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
