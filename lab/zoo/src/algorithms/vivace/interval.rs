// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A monitor interval: the packets sent at one rate, their fate, and the utility.
use alcc_cc::Packet;
use alcc_units::{Bytes, Span, Time};

/// Weights of the utility (paper, section 4.1).
const EXPONENT: f64 = 0.9;
const SLOPE_WEIGHT: f64 = 900.0;
const LOSS_WEIGHT: f64 = 11.35;

/// Sums for a line through points.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    pub(super) fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.yy += y * y;
    }

    /// The slope by least squares, and its standard error; zero if no slope can be computed.
    pub(super) fn slope(&self) -> (f64, f64) {
        let spread = self.xx - self.x * self.x / self.n.max(1.0);
        if self.n < 2.0 || spread <= 1e-12 {
            return (0.0, 0.0);
        }
        let both = self.xy - self.x * self.y / self.n;
        let slope = both / spread;
        let residual = (self.yy - self.y * self.y / self.n - slope * both).max(0.0);
        let error = libm::sqrt(residual / (self.n - 2.0).max(1.0) / spread);
        (slope, error)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Interval {
    /// The configured rate, Mbit/s.
    pub(super) rate: f64,
    /// True if a decision waits for it.
    pub(super) useful: bool,
    pub(super) began: Time,
    pub(super) ends: Time,
    /// True if the application had less data than the rate allowed.
    pub(super) limited: bool,
    pub(super) closed: bool,
    last_sent: Time,
    pub(super) packets: u32,
    bytes: Bytes,
    answered: u32,
    lost: Bytes,
    /// RTT in seconds over the time of sending.
    rtt: Line,
    first_rtt: Option<Span>,
    /// The largest error of a sample.
    pub(super) error: Span,
}

impl Interval {
    pub(super) fn new(rate: f64, useful: bool, now: Time, length: Span) -> Self {
        Self {
            rate,
            useful,
            began: now,
            ends: now + length,
            limited: false,
            closed: false,
            last_sent: now,
            packets: 0,
            bytes: Bytes::ZERO,
            answered: 0,
            lost: Bytes::ZERO,
            rtt: Line::default(),
            first_rtt: None,
            error: Span::ZERO,
        }
    }

    pub(super) fn sent(&mut self, now: Time, len: Bytes) {
        self.packets = self.packets.saturating_add(1);
        self.bytes += len;
        self.last_sent = now;
    }

    pub(super) fn acked(&mut self, packet: &Packet) {
        self.answered = self.answered.saturating_add(1);
        if let Some(rtt) = packet.rtt {
            // Relative to the first sample, because sums of small numbers are exact enough.
            let first = *self.first_rtt.get_or_insert(rtt);
            let at = packet.sent_at.since(self.began).as_secs_f64();
            self.rtt.add(at, rtt.as_secs_f64() - first.as_secs_f64());
        }
    }

    pub(super) fn lost(&mut self, packet: &Packet) {
        self.answered = self.answered.saturating_add(1);
        self.lost += packet.len;
    }

    /// True if every packet has arrived or is lost.
    pub(super) fn is_known(&self) -> bool {
        self.closed && self.answered >= self.packets
    }

    /// Its utility. A slope within `errors` standard errors counts as zero; so does one below
    /// `filter`.
    pub(super) fn utility(&self, errors: f64, filter: f64) -> f64 {
        let (slope, error) = self.rtt.slope();
        let length = self.last_sent.since(self.began).as_secs_f64();
        // Each sample has an independent error of up to `error`, per reading of that length: the
        // standard error of the resulting line.
        let error_s = self.error.as_secs_f64();
        let blur = if length > 0.0 {
            error_s / length * libm::sqrt(error_s / length)
        } else {
            0.0
        };
        let noise = (errors * error).max(filter).max(blur);
        let slope = if slope <= noise { 0.0 } else { slope };
        let loss = self.lost.get() as f64 / self.bytes.get().max(1) as f64;
        utility(self.sending_rate(), slope, loss)
    }

    /// The actual sending rate, Mbit/s: from the first packet to the last, plus the time of one
    /// packet.
    fn sending_rate(&self) -> f64 {
        let gaps = f64::from(self.packets.saturating_sub(1));
        let length = self.last_sent.since(self.began).as_secs_f64();
        if gaps < 1.0 || length <= 0.0 {
            return self.rate;
        }
        let mean = self.bytes.get() as f64 / f64::from(self.packets);
        (mean * gaps * 8.0 / length / 1e6).min(self.rate * 1.5)
    }
}

/// The utility of sending `x` Mbit/s while the RTT rises by `slope` seconds per second and a share
/// `loss` is lost.
pub(super) fn utility(x: f64, slope: f64, loss: f64) -> f64 {
    libm::pow(x, EXPONENT) - SLOPE_WEIGHT * x * slope.max(0.0) - LOSS_WEIGHT * x * loss
}
