// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cubic:profile=rfc9438`: the text of the RFC. Its constants are beside the kernels' in the
//! product's `cubic.rs`.
use alcc_cc::parts::{Growth, LossBased, UNLIMITED, Window};
use alcc_cc::{AckBatch, Build, Cx, Form, Instance};
use alcc_units::{Span, Time};

pub(crate) const RFC9438: Form = Form {
    profile: "rfc9438",
    options: &[],
    build: Build::Function(|_| Ok(Instance::new(LossBased::new(Cubic::new())))),
};

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Section 4.3: 3 (1 - beta) / (1 + beta).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[derive(Clone)]
struct Cubic {
    /// The window at the plateau of the cubic, packets.
    plateau: f64,
    /// Time of the plateau, seconds after the start of the epoch.
    k: f64,
    /// Start of congestion avoidance; `None` until its first acknowledgement.
    epoch: Option<Time>,
    /// The window of Reno, packets.
    reno: f64,
    /// The window before the last reduction, packets.
    prior: f64,
    /// True if the next epoch starts at its own plateau: slow start was left without a loss, or
    /// after a timeout.
    flat: bool,
    last_ack: Time,
}

impl Cubic {
    fn new() -> Self {
        Self {
            plateau: 0.0,
            k: 0.0,
            epoch: None,
            reno: 0.0,
            prior: UNLIMITED,
            flat: true,
            last_ack: Time::ZERO,
        }
    }

    fn begin_epoch(&mut self, now: Time, cwnd: f64) {
        self.epoch = Some(now);
        self.reno = cwnd;
        if self.flat || self.plateau <= cwnd {
            (self.k, self.plateau) = (0.0, cwnd);
        } else {
            self.k = libm::cbrt((self.plateau - cwnd) / C);
        }
    }

    /// Equation 1; `t` in seconds after the epoch began.
    fn cubic(&self, t: f64) -> f64 {
        let x = t - self.k;
        C * x * x * x + self.plateau
    }
}

impl Growth for Cubic {
    fn on_ack(&mut self, cx: &mut Cx<'_>, _w: &mut Window, _ack: &AckBatch<'_>, used: bool) {
        let quiet = cx.now.since(self.last_ack);
        self.last_ack = cx.now;
        if !used {
            // Section 5.8: time in which the application had no data does not count.
            self.epoch = self.epoch.map(|e| e + quiet);
        }
    }

    fn congestion_avoidance(&mut self, cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        if self.epoch.is_none() {
            self.begin_epoch(cx.now, w.cwnd);
        }
        let t = cx.now.since(self.epoch.unwrap_or(cx.now)).as_secs_f64();
        let window = w.cwnd;
        let target = self
            .cubic(t + w.rtt.smoothed.as_secs_f64())
            .clamp(window, 1.5 * window);
        let alpha = if self.reno >= self.prior { 1.0 } else { ALPHA };
        self.reno = (self.reno + alpha * segments / window).min(UNLIMITED);
        // The published rule sets the window to Reno's; that never shrinks it.
        w.cwnd = if self.cubic(t) < self.reno {
            window.max(self.reno)
        } else {
            window + (segments * (target - window) / window).min(target - window)
        };
    }

    /// Sections 4.6 and 4.7.
    fn ssthresh(&mut self, w: &Window, flight: f64) -> f64 {
        self.plateau = if w.cwnd < self.plateau {
            w.cwnd * (1.0 + BETA) / 2.0
        } else {
            w.cwnd
        };
        self.prior = w.cwnd;
        self.epoch = None;
        self.flat = false;
        flight * BETA
    }

    fn on_rto(&mut self, _cx: &mut Cx<'_>, _w: &mut Window) {
        self.epoch = None;
        self.flat = true;
    }

    /// Section 4.9.
    fn undo(&mut self, before: Self) {
        *self = Self {
            last_ack: self.last_ack,
            ..before
        };
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, idle: Span, restarted: bool) {
        self.epoch = self.epoch.filter(|_| !restarted).map(|e| e + idle);
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("w_max", self.plateau);
        put("k_s", self.k);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use alcc_cc::RttView;
    use alcc_units::Bytes;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-5 * b.abs().max(1.0)
    }

    #[test]
    fn the_published_curve() {
        let mut c = Cubic::new();
        (c.plateau, c.flat) = (100.0, false);
        c.begin_epoch(Time::ZERO, 70.0);
        assert!(near(c.k, 4.217_163));
        let expected = [70.0, 86.6808, 95.6403, 99.2787, 99.9959, 100.1919, 102.2667];
        for (t, w) in expected.into_iter().enumerate() {
            assert!(near(c.cubic(t as f64), w), "W({t}) = {}", c.cubic(t as f64));
        }
        assert!(near(c.cubic(8.0), 121.6527));
        assert!(near(ALPHA, 0.529_412));
    }

    #[test]
    fn a_second_loss_below_the_first_gives_way() {
        let mut c = Cubic::new();
        let at = |cwnd| Window {
            cwnd,
            ssthresh: UNLIMITED,
            mss: Bytes::new(1000),
            rtt: RttView::default(),
            sent: 0,
            sent_segments: 0,
        };
        assert_eq!((c.ssthresh(&at(100.0), 100.0), c.plateau), (70.0, 100.0));
        let threshold = c.ssthresh(&at(80.0), 80.0);
        assert!(near(c.plateau, 68.0) && near(threshold, 56.0));
    }

    #[test]
    fn in_congestion_avoidance_the_window_follows_the_curve_or_reno() {
        let mut b = Bench::of("cubic:profile=rfc9438");
        for _ in 0..4 {
            b.round();
        }
        assert_eq!(b.window(), 160.0);
        b.lose_one();
        assert_eq!(b.window(), 112.0);
        b.recovered();
        // K = cbrt(48 / 0.4) = 4.93 s: the old window is back then, at least, and not long before.
        for _ in 0..40 {
            b.round();
        }
        assert!(b.window() > 150.0 && b.window() < 161.0, "{}", b.window());
        for _ in 0..15 {
            b.round();
        }
        assert!(b.window() >= 159.0, "{}", b.window());
    }

    #[test]
    fn a_mistaken_reduction_is_undone() {
        let mut b = Bench::of("cubic:profile=rfc9438");
        b.lose_one();
        assert_eq!(b.window(), 7.0);
        b.spurious();
        assert_eq!(b.window(), 10.0);
        b.round();
        assert_eq!(b.window(), 20.0);
    }

    /// One packet in 100,000 is lost at an RTT of 100 ms. By equation 5 that is 1.054 (0.1 s *
    /// 100,000)^(3/4) = 1054 packets on average. Reno would have 387. The equation takes the window
    /// as flowing on; ours is paced by rounds.
    #[test]
    fn the_mean_window_of_periodic_loss() {
        // The kernel's integers, too.
        for spec in ["cubic:profile=rfc9438", "cubic:hystart=off"] {
            let mut b = Bench::of(spec);
            (0..7).for_each(|_| b.round());
            b.lose_one();
            b.recovered();
            let mean = b.mean_window_when_one_is_lost_in(100_000, 2_000_000);
            assert!((1001..=1107).contains(&mean), "{spec}: {mean}");
        }
    }
}
