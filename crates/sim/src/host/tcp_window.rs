// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated kernel's congestion window: slow start, Reno (RFC 5681) or Cubic (RFC 9438 with the constants and the
//! slow-start exit of Linux), and Linux's rule that a window which is not used does not grow and, in time, shrinks.
//!
//! | constant | value | source |
//! |---|---|---|
//! | initial window | 10 segments | RFC 6928 |
//! | Reno decrease | 0.5 | RFC 5681, equation 4 |
//! | Cubic β, C | 0.7, 0.4 | RFC 9438, section 4 |
//! | HyStart from | 16 segments, 8 samples, min RTT / 8 within 4 to 16 ms, gap 2 ms | Linux `tcp_cubic.c` |
use alcc_units::{Span, Time};

const INITIAL: f64 = 10.0;
const CUBIC_BETA: f64 = 0.7;
const CUBIC_C: f64 = 0.4;
const HYSTART_FROM: f64 = 16.0;
const HYSTART_SAMPLES: u32 = 8;
const HYSTART_GAP: Span = Span::from_millis(2);

/// Which congestion control the simulated kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpCc {
    /// RFC 5681.
    Reno,
    /// Linux's Cubic.
    Cubic,
}

impl TcpCc {
    /// The name: `reno`, `cubic`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
        }
    }
}

/// What an acknowledgement tells the window.
pub(super) struct Acked {
    pub(super) now: Time,
    pub(super) segments: f64,
    pub(super) rtt: Option<Span>,
    pub(super) min_rtt: Span,
    pub(super) round_start: bool,
    pub(super) recovering: bool,
}

#[derive(Clone, Debug)]
pub(super) struct TcpWindow {
    cc: TcpCc,
    cwnd: f64,
    ssthresh: f64,
    cubic: Cubic,
    hystart: HyStart,
    usage: Usage,
    undo: Option<(f64, f64)>,
}

#[derive(Clone, Debug, Default)]
struct Cubic {
    w_max: f64,
    epoch: Option<Time>,
    origin: f64,
    k: f64,
    w_est: f64,
}

#[derive(Clone, Debug, Default)]
struct HyStart {
    round_began: Time,
    last_ack: Time,
    round_min: Option<Span>,
    samples: u32,
}

/// How much of the window is used.
#[derive(Clone, Debug, Default)]
struct Usage {
    limited: bool,
    most_out: u64,
    /// The measurement covers the flight that ends here.
    until: u64,
    used: u64,
    stamp: Time,
}

impl TcpWindow {
    pub(super) fn new(cc: TcpCc, now: Time) -> Self {
        Self {
            cc,
            cwnd: INITIAL,
            ssthresh: f64::INFINITY,
            cubic: Cubic::default(),
            hystart: HyStart::default(),
            usage: Usage {
                stamp: now,
                ..Usage::default()
            },
            undo: None,
        }
    }

    /// Whole segments.
    pub(super) fn segments(&self) -> u64 {
        self.cwnd as u64
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Linux's test before growth: in slow start half a window in use is enough.
    fn is_limited(&self) -> bool {
        self.usage.limited || (self.in_slow_start() && self.cwnd < 2.0 * self.usage.most_out as f64)
    }

    /// After sending: `out` segments are under way, `limited` if the window stopped the sender. `acked` and `next` are
    /// stream positions.
    pub(super) fn used(&mut self, now: Time, out: u64, limited: bool, at: (u64, u64), rto: Span) {
        let (acked, next) = at;
        let usage = &mut self.usage;
        if acked >= usage.until || limited || (!usage.limited && out > usage.most_out) {
            usage.limited = limited;
            usage.most_out = out;
            usage.until = next;
        }
        if self.is_limited() {
            self.usage.used = 0;
            self.usage.stamp = now;
            return;
        }
        self.usage.used = self.usage.used.max(out);
        if now.since(self.usage.stamp) >= rto {
            // Congestion window validation (RFC 2861): halfway to what was used.
            let used = (self.usage.used as f64).max(INITIAL);
            if used < self.cwnd {
                self.ssthresh = self.ssthresh.max(0.75 * self.cwnd);
                self.cwnd = ((self.cwnd + used) / 2.0).floor();
            }
            self.usage.used = 0;
            self.usage.stamp = now;
        }
    }

    pub(super) fn acked(&mut self, ack: &Acked) {
        if self.cc == TcpCc::Cubic && self.in_slow_start() {
            self.hystart(ack);
        }
        if ack.recovering || !self.is_limited() {
            return;
        }
        let mut segments = ack.segments;
        if self.in_slow_start() {
            let grown = (self.cwnd + segments).min(self.ssthresh);
            segments -= grown - self.cwnd;
            self.cwnd = grown;
        }
        if segments > 0.0 {
            self.cwnd += match self.cc {
                TcpCc::Reno => segments / self.cwnd,
                TcpCc::Cubic => self.cubic.growth(self.cwnd, segments, ack),
            };
        }
    }

    /// Leaves slow start when acknowledgements have arrived back to back for half a smallest RTT, or when the smallest RTT
    /// of a round has risen.
    fn hystart(&mut self, ack: &Acked) {
        let h = &mut self.hystart;
        if ack.round_start {
            *h = HyStart {
                round_began: ack.now,
                last_ack: ack.now,
                ..HyStart::default()
            };
        }
        if self.cwnd < HYSTART_FROM {
            return;
        }
        let mut found = false;
        if ack.now.since(h.last_ack) <= HYSTART_GAP {
            h.last_ack = ack.now;
            found = ack.now.since(h.round_began) > ack.min_rtt / 2;
        }
        if let Some(rtt) = ack.rtt {
            let round_min = h.round_min.map_or(rtt, |min| min.min(rtt));
            h.round_min = Some(round_min);
            h.samples += 1;
            let margin = (ack.min_rtt / 8).clamp(Span::from_millis(4), Span::from_millis(16));
            found |= h.samples >= HYSTART_SAMPLES && round_min > ack.min_rtt + margin;
        }
        if found {
            self.ssthresh = self.cwnd;
        }
    }

    /// A loss episode begins.
    pub(super) fn on_loss(&mut self) {
        self.undo = Some((self.cwnd, self.ssthresh));
        self.ssthresh = self.reduced();
        self.cwnd = self.ssthresh;
    }

    /// The retransmission timer expired.
    pub(super) fn on_timeout(&mut self, first: bool) {
        if first {
            self.undo = Some((self.cwnd, self.ssthresh));
            self.ssthresh = self.reduced();
        }
        self.cwnd = 1.0;
    }

    /// The last reduction was a mistake.
    pub(super) fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.undo.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    fn reduced(&mut self) -> f64 {
        let factor = match self.cc {
            TcpCc::Reno => 0.5,
            TcpCc::Cubic => {
                // Fast convergence (RFC 9438, section 4.7).
                let shrinks = self.cwnd < self.cubic.w_max;
                self.cubic = Cubic {
                    w_max: if shrinks {
                        self.cwnd * (1.0 + CUBIC_BETA) / 2.0
                    } else {
                        self.cwnd
                    },
                    ..Cubic::default()
                };
                CUBIC_BETA
            }
        };
        (self.cwnd * factor).floor().max(2.0)
    }
}

impl Cubic {
    /// By how much `segments` acknowledged segments widen the window.
    fn growth(&mut self, cwnd: f64, segments: f64, ack: &Acked) -> f64 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.w_est = cwnd;
            self.origin = self.w_max.max(cwnd);
            self.k = libm::cbrt((self.origin - cwnd) / CUBIC_C);
            ack.now
        });
        // One round trip ahead: growth takes effect then.
        let t = (ack.now.since(epoch) + ack.min_rtt).as_secs_f64() - self.k;
        let target = self.origin + CUBIC_C * t * t * t;
        let mut per_segment = if target > cwnd {
            (target - cwnd) / cwnd
        } else {
            0.01 / cwnd
        };
        if self.w_max == 0.0 {
            // Linux: before the first loss at least one segment per 20.
            per_segment = per_segment.max(0.05);
        }
        // As fast as Reno with this β (RFC 9438, section 4.3).
        self.w_est += 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA) * segments / cwnd;
        if self.w_est > cwnd {
            per_segment = per_segment.max((self.w_est - cwnd) / cwnd);
        }
        per_segment.min(0.5) * segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(ms: u64, segments: f64) -> Acked {
        Acked {
            now: Time::from_millis(ms),
            segments,
            rtt: Some(Span::from_millis(40)),
            min_rtt: Span::from_millis(40),
            round_start: true,
            recovering: false,
        }
    }

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn reno_doubles_then_adds_one_per_round() {
        let mut window = TcpWindow::new(TcpCc::Reno, at(0));
        window.used(at(0), 10, true, (0, 10), Span::from_secs(1));
        window.acked(&ack(40, 10.0));
        assert_eq!(window.segments(), 20);
        window.on_loss();
        assert_eq!(window.segments(), 10);
        window.acked(&ack(80, 10.0));
        assert_eq!(window.segments(), 11);
    }

    #[test]
    fn a_window_in_half_use_grows_in_slow_start_and_not_after() {
        let mut window = TcpWindow::new(TcpCc::Reno, at(0));
        let rto = Span::from_secs(1);
        window.used(at(0), 6, false, (0, 6), rto);
        window.acked(&ack(40, 6.0));
        assert_eq!(window.segments(), 16, "10 < 2 * 6");
        window.used(at(40), 6, false, (6, 12), rto);
        window.acked(&ack(80, 6.0));
        assert_eq!(window.segments(), 16, "16 > 2 * 6");
        window.used(at(1100), 6, false, (12, 18), rto);
        assert_eq!(
            window.segments(),
            13,
            "unused for a timeout: halfway to the initial 10"
        );
    }

    #[test]
    fn cubic_returns_to_its_maximum_after_k() {
        // W_max 100, cwnd 70: K = cbrt(30 / 0.4) = 4.217 s (RFC 9438, equation 2). With an RTT of 200 ms Reno is slower.
        let mut window = TcpWindow::new(TcpCc::Cubic, at(0));
        window.cwnd = 100.0;
        window.on_loss();
        assert_eq!(window.segments(), 70);
        let mut reached = None;
        for round in 1..100 {
            let ms = round * 200;
            let segments = window.segments();
            window.used(at(ms), segments, true, (round, round), Span::from_secs(1));
            let mut all = ack(ms, segments as f64);
            all.min_rtt = Span::from_millis(200);
            window.acked(&all);
            if reached.is_none() && window.cwnd >= 99.0 {
                reached = Some(ms);
            }
        }
        // 0.4 * (t - 4.217)^3 = -1 at t = 2.86 s; the epoch begins at 0.2 s, and growth looks one round ahead.
        assert_eq!(reached, Some(3_000));
    }

    #[test]
    fn a_risen_round_trip_ends_slow_start() {
        let mut window = TcpWindow::new(TcpCc::Cubic, at(0));
        window.cwnd = 20.0;
        window.used(at(0), 20, true, (0, 20), Span::from_secs(1));
        for i in 0..8 {
            let mut sample = ack(100 + 5 * i, 1.0);
            sample.round_start = i == 0;
            sample.rtt = Some(Span::from_millis(47));
            assert!(window.in_slow_start());
            window.acked(&sample);
        }
        assert!(!window.in_slow_start());
    }

    #[test]
    fn a_mistaken_timeout_is_undone() {
        let mut window = TcpWindow::new(TcpCc::Reno, at(0));
        window.cwnd = 40.0;
        window.on_timeout(true);
        window.on_timeout(false);
        assert_eq!(window.segments(), 1);
        window.undo();
        assert_eq!(window.segments(), 40);
        assert!(window.in_slow_start());
    }
}
