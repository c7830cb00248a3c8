// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the packets of a load are due.
use crate::plan::{Load, Plan};
use crate::wire::Report;
use alcc_units::{Span, Time};

/// A round trip (own queue, other queue, propagation) below this means that the queues are too short. Sprout's saturator has
/// 750 ms (Winstein et al., NSDI 2013), and its reports come back over a path of their own. Ours share the path, so that each
/// direction has half of it.
const SHORT: Span = Span::from_millis(750 / 2);
/// Above this a queue is longer than needed: Sprout's upper bound of the round trip. Not kept where the queue was found full: then
/// what is sent makes it no longer.
const LONG: Span = Span::from_millis(3000);
/// A channel that is slower than this share of its recent peak counts as that fast: it will be fast again sooner than we hear of it.
const SLOW: f64 = 0.25;
/// Then sending is slower than what arrives by this factor.
const DRAIN: f64 = 0.5;
/// Sending is faster than the channel ever was of late by this factor...
const AHEAD: f64 = 1.25;
/// ...and by this one while the queue is too short, or its end was not yet found.
const GROW: f64 = 2.0;
/// The first rate, bit/s.
const FIRST: f64 = 1e6;
/// Losing this share of what is sent means that the queue's end is found: then delay does not grow by what is sent.
const FULL: f64 = 0.1;
/// For so long that is remembered.
const FULL_FOR: Span = Span::from_secs(120);
/// Over which time that share is taken.
const LOSS_TIME: Span = Span::from_secs(1);
/// Silence from the other end after which only a trickle goes out: an outage, or nobody is there.
pub(crate) const PATIENCE: Span = Span::from_secs(10);
/// The trickle: one packet in this time.
const TRICKLE: Span = Span::from_millis(50);
/// What a sender that was held up may send at once; a saturator more, since the queue has been emptied meanwhile.
const ARREARS: Span = Span::from_millis(50);
const ARREARS_SATURATE: Span = Span::from_millis(500);

/// The packets of one direction, in time.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    load: Load,
    bits: f64,
    limit: f64,
    rate: f64,
    next: Time,
    to: Time,
    heard: Time,
    sent: u64,
    skipped: u64,
    /// Numbers sent and received at the beginning of the time over which loss is taken.
    since: (Time, u64, u64),
    /// When the queue was last found full.
    full: Option<Time>,
}

impl Source {
    pub(crate) fn new(plan: &Plan, load: Load, from: Time, to: Time) -> Self {
        Self {
            load,
            bits: plan.ip_len() as f64 * 8.0,
            limit: plan.limit.as_bps() as f64,
            rate: FIRST,
            next: from,
            to,
            heard: from,
            sent: 0,
            skipped: 0,
            since: (from, 0, 0),
            full: None,
        }
    }

    /// Anything has come from the other end.
    pub(crate) fn heard(&mut self, now: Time) {
        self.heard = self.heard.max(now);
    }

    /// What has arrived there. Only a saturator cares.
    pub(crate) fn report(&mut self, now: Time, round_trip: Span, report: &Report) {
        if self.load != Load::Saturate || report.received == 0 || report.below > self.sent {
            return;
        }
        let (since, below, received) = self.since;
        if now.since(since) >= LOSS_TIME && report.below > below {
            let sent = (report.below - below) as f64;
            let came = report.received.saturating_sub(received) as f64;
            if came / sent < 1.0 - FULL {
                self.full = Some(now);
            }
            self.since = (now, report.below, report.received);
        }
        let own = report.delay.saturating_sub(report.least);
        let short = own < SHORT.as_nanos().cast_signed();
        let factor = if short || self.full.is_none() {
            GROW
        } else {
            AHEAD
        };
        self.rate = (report.peak as f64 * factor).clamp(FIRST, self.limit.max(FIRST));
        // What is not yet reported as arrived, in time at the present rate, is the round trip of a packet sent now. The other
        // direction's queue is no matter of ours.
        let full = self.full.is_some_and(|at| now.since(at) < FULL_FOR);
        let other = round_trip.as_secs_f64() - own as f64 / 1e9;
        let waiting = (self.sent - report.below) as f64 * self.bits;
        let rate = (report.rate as f64).max(report.peak as f64 * SLOW);
        let ahead = waiting - rate * (other.max(0.0) + LONG.as_secs_f64());
        if !full && !short && ahead > 0.0 {
            self.rate = (rate * DRAIN).max(self.bits / TRICKLE.as_secs_f64());
        }
    }

    /// Time between two packets.
    fn interval(&self, now: Time) -> Span {
        if now.since(self.heard) > PATIENCE {
            return TRICKLE;
        }
        match self.load {
            Load::Nothing => Span::MAX,
            Load::Every(interval) => interval,
            Load::Saturate => Span::from_secs_f64(self.bits / self.rate),
        }
    }

    /// When the next packet is due.
    pub(crate) fn due(&self) -> Option<Time> {
        (self.load != Load::Nothing && self.next < self.to).then_some(self.next)
    }

    /// The number of a packet that is due now, and since when it is.
    pub(crate) fn take(&mut self, now: Time) -> Option<(u64, Time)> {
        let due = self.due().filter(|&due| due <= now)?;
        let interval = self.interval(now);
        let late = now.since(due);
        let arrears = match self.load {
            Load::Saturate => ARREARS_SATURATE,
            _ => ARREARS,
        };
        if late > arrears {
            // What a sleeping machine did not send it does not send at once.
            self.skipped += (late.as_nanos() - arrears.as_nanos()) / interval.as_nanos().max(1);
            self.next = Time::from_nanos(now.as_nanos() - arrears.as_nanos());
        }
        self.next += interval;
        self.sent += 1;
        Some((self.sent - 1, due))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.load == Load::Nothing
    }

    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) const fn skipped(&self) -> u64 {
        self.skipped
    }
}
