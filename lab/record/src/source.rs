// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending times of a load's packets.
use crate::plan::{Load, Plan};
use crate::wire::Report;
use alcc_units::{Span, Time};

/// A round trip (own queue, other queue, propagation) below this means that the queues are too
/// short. Sprout's saturator has 750 ms (Winstein et al., NSDI 2013), and its reports come back
/// over a separate path. Ours share the path, so that each direction has half of it.
const MIN_QUEUE_RTT: Span = Span::from_millis(750 / 2);
/// A round trip above this means that the queue is longer than needed: Sprout's upper bound. It is
/// ignored if the queue was found full, because sending more then does not make it longer.
const MAX_QUEUE_RTT: Span = Span::from_millis(3000);
/// Minimum of the assumed rate, as a share of the recent peak, because a channel may become fast
/// again sooner than this end is informed.
const MIN_SHARE_OF_PEAK: f64 = 0.25;
/// Sending rate, as a factor of the arrival rate, while a queue is longer than [`MAX_QUEUE_RTT`].
const DRAIN_GAIN: f64 = 0.5;
/// Sending rate, as a factor of the recent peak, while the queue is long enough.
const PROBE_GAIN: f64 = 1.25;
/// The same while the queue is too short, or was never found full.
const STARTUP_GAIN: f64 = 2.0;
/// The initial rate, bit/s.
const INITIAL_RATE: f64 = 1e6;
/// Lost share above which the queue counts as full: sending more does not add delay.
const MAX_LOSS: f64 = 0.1;
/// Time for which a full queue is remembered.
const MAX_LOSS_MEMORY: Span = Span::from_secs(120);
/// Time over which the lost share is measured.
const LOSS_WINDOW: Span = Span::from_secs(1);
/// Silence of the other end after which the rate is reduced to a minimum: an outage, or the end has
/// gone.
pub(crate) const MAX_SILENCE: Span = Span::from_secs(10);
/// The minimum rate: one packet per this interval.
const KEEPALIVE_INTERVAL: Span = Span::from_millis(50);
/// Time whose packets a delayed sender may send at once. A saturator may send more, because the
/// queue has drained in the meantime.
const MAX_CATCH_UP: Span = Span::from_millis(50);
const MAX_CATCH_UP_SATURATE: Span = Span::from_millis(500);

/// The packets of one direction, with their sending times.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    load: Load,
    bits: f64,
    limit: f64,
    rate: f64,
    next: Time,
    to: Time,
    last_received: Time,
    sent: u64,
    skipped: u64,
    /// Start of the time over which loss is measured, and the numbers sent and received at that
    /// time.
    since: (Time, u64, u64),
    /// Time at which the queue was last found full.
    full: Option<Time>,
}

impl Source {
    pub(crate) fn new(plan: &Plan, load: Load, from: Time, to: Time) -> Self {
        Self {
            load,
            bits: plan.ip_len() as f64 * 8.0,
            limit: plan.limit.as_bps() as f64,
            rate: INITIAL_RATE,
            next: from,
            to,
            last_received: from,
            sent: 0,
            skipped: 0,
            since: (from, 0, 0),
            full: None,
        }
    }

    /// Any packet has arrived from the other end.
    pub(crate) fn last_received(&mut self, now: Time) {
        self.last_received = self.last_received.max(now);
    }

    /// Takes a report of the arrivals there, which only a saturator uses.
    pub(crate) fn report(&mut self, now: Time, round_trip: Span, report: &Report) {
        if self.load != Load::Saturate || report.received == 0 || report.below > self.sent {
            return;
        }
        let (since, below, received) = self.since;
        if now.since(since) >= LOSS_WINDOW && report.below > below {
            let sent = (report.below - below) as f64;
            let came = report.received.saturating_sub(received) as f64;
            if came / sent < 1.0 - MAX_LOSS {
                self.full = Some(now);
            }
            self.since = (now, report.below, report.received);
        }
        let own = report.delay.saturating_sub(report.least);
        let short = own < MIN_QUEUE_RTT.as_nanos().cast_signed();
        let factor = if short || self.full.is_none() {
            STARTUP_GAIN
        } else {
            PROBE_GAIN
        };
        self.rate = (report.peak as f64 * factor).clamp(INITIAL_RATE, self.limit.max(INITIAL_RATE));
        // The bytes not yet reported as arrived, divided by the current rate, are the round trip of
        // a packet sent now. The other direction's queue does not matter here.
        let full = self.full.is_some_and(|at| now.since(at) < MAX_LOSS_MEMORY);
        let other = round_trip.as_secs_f64() - own as f64 / 1e9;
        let waiting = (self.sent - report.below) as f64 * self.bits;
        let rate = (report.rate as f64).max(report.peak as f64 * MIN_SHARE_OF_PEAK);
        let ahead = waiting - rate * (other.max(0.0) + MAX_QUEUE_RTT.as_secs_f64());
        if !full && !short && ahead > 0.0 {
            self.rate = (rate * DRAIN_GAIN).max(self.bits / KEEPALIVE_INTERVAL.as_secs_f64());
        }
    }

    /// Interval between two packets.
    fn interval(&self, now: Time) -> Span {
        if now.since(self.last_received) > MAX_SILENCE {
            return KEEPALIVE_INTERVAL;
        }
        match self.load {
            Load::Nothing => Span::MAX,
            Load::Every(interval) => interval,
            Load::Saturate => Span::from_secs_f64(self.bits / self.rate),
        }
    }

    /// Sending time of the next packet.
    pub(crate) fn due(&self) -> Option<Time> {
        (self.load != Load::Nothing && self.next < self.to).then_some(self.next)
    }

    /// The number of a packet that is due now, and the time since which it is due.
    pub(crate) fn take(&mut self, now: Time) -> Option<(u64, Time)> {
        let due = self.due().filter(|&due| due <= now)?;
        let interval = self.interval(now);
        let late = now.since(due);
        let arrears = match self.load {
            Load::Saturate => MAX_CATCH_UP_SATURATE,
            _ => MAX_CATCH_UP,
        };
        if late > arrears {
            // Packets that were due while the machine slept are not sent at once.
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
