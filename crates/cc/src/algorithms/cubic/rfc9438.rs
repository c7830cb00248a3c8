// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::{INITIAL, LARGEST, SMALLEST_THRESHOLD};
use crate::parts::{restart_window, rto, segments, window_bytes, window_used};
use crate::{
    AckBatch, Allowance, Controller, Cx, Event, LossBatch, Needs, Path, Recovery, RecoveryEnd, Rto,
    RttView, Spurious,
};
use alcc_units::{Bytes, Span, Time};

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Section 4.3: 3 (1 - beta) / (1 + beta).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// What a mistaken reduction has to be given back (section 4.9).
#[derive(Clone, Copy)]
struct State {
    /// Packets.
    window: f64,
    threshold: f64,
    /// Where the plateau of the cubic lies, packets.
    plateau: f64,
    /// When the plateau is reached, seconds after the epoch began.
    k: f64,
    /// Begin of congestion avoidance; `None` until the first acknowledgement of it.
    epoch: Option<Time>,
    /// What Reno would have, packets.
    reno: f64,
    /// Window before the last reduction.
    prior: f64,
    /// The next epoch starts on its own plateau: slow start was left without a loss, or after a timeout.
    flat: bool,
}

#[derive(Clone)]
pub(super) struct Cubic {
    mss: Bytes,
    s: State,
    undo: Option<State>,
    recovering: bool,
    last_ack: Time,
    rtt: RttView,
}

impl Cubic {
    pub(super) fn new() -> Self {
        let s = State {
            window: INITIAL,
            threshold: LARGEST,
            plateau: 0.0,
            k: 0.0,
            epoch: None,
            reno: 0.0,
            prior: LARGEST,
            flat: true,
        };
        Self {
            mss: Bytes::new(1448),
            s,
            undo: None,
            recovering: false,
            last_ack: Time::ZERO,
            rtt: RttView::default(),
        }
    }

    /// Section 4.6 and 4.7.
    fn reduce(&mut self, in_flight: Bytes) {
        self.undo = Some(self.s);
        let s = &mut self.s;
        s.plateau = if s.window < s.plateau {
            s.window * (1.0 + BETA) / 2.0
        } else {
            s.window
        };
        s.prior = s.window;
        s.threshold = (in_flight.packets(self.mss).min(s.window) * BETA).max(SMALLEST_THRESHOLD);
        s.epoch = None;
        s.flat = false;
    }

    fn begin_epoch(&mut self, now: Time) {
        let s = &mut self.s;
        s.epoch = Some(now);
        s.reno = s.window;
        if s.flat || s.plateau <= s.window {
            (s.k, s.plateau) = (0.0, s.window);
        } else {
            s.k = libm::cbrt((s.plateau - s.window) / C);
        }
    }

    /// Equation 1; `t` in seconds after the epoch began.
    fn cubic(&self, t: f64) -> f64 {
        let x = t - self.s.k;
        C * x * x * x + self.s.plateau
    }

    fn avoid(&mut self, now: Time, segments: f64) {
        if self.s.epoch.is_none() {
            self.begin_epoch(now);
        }
        let t = now.since(self.s.epoch.unwrap_or(now)).as_secs_f64();
        let window = self.s.window;
        let target = self
            .cubic(t + self.rtt.smoothed.as_secs_f64())
            .clamp(window, 1.5 * window);
        let alpha = if self.s.reno >= self.s.prior {
            1.0
        } else {
            ALPHA
        };
        self.s.reno = (self.s.reno + alpha * segments / window).min(LARGEST);
        // The published rule sets the window to Reno's; it never shrinks by that.
        self.s.window = if self.cubic(t) < self.s.reno {
            window.max(self.s.reno)
        } else {
            window + (segments * (target - window) / window).min(target - window)
        };
    }
}

impl Controller for Cubic {
    fn needs(&self) -> Needs {
        Needs {
            recovery: Recovery::Prr,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
    }

    fn on_path_change(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.rtt = ack.rtt;
        let quiet = cx.now.since(self.last_ack);
        self.last_ack = cx.now;
        if !ack.in_recovery {
            self.recovering = false;
        }
        if self.recovering {
            return;
        }
        if !window_used(ack, window_bytes(self.s.window, self.mss)) {
            // Section 5.8: time in which the application had nothing to send does not count.
            self.s.epoch = self.s.epoch.map(|e| e + quiet);
            return;
        }
        for packet in ack.acked {
            let n = segments(packet.len, self.mss) as f64;
            let fast = n.min((self.s.threshold - self.s.window).max(0.0));
            self.s.window += fast;
            if n > fast {
                self.avoid(cx.now, n - fast);
            }
            self.s.window = self.s.window.min(LARGEST);
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if !loss.new_episode {
            return;
        }
        let from = self.s.window;
        self.reduce(loss.in_flight + loss.lost.iter().map(|p| p.len).sum());
        self.s.window = self.s.threshold;
        self.recovering = true;
        cx.log.event(
            cx.now,
            Event::Decrease {
                why: "loss",
                from,
                to: self.s.window,
            },
        );
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let from = self.s.window;
        if rto.backoff <= 1 {
            self.reduce(rto.in_flight);
        }
        self.s.window = 1.0;
        self.s.epoch = None;
        self.s.flat = true;
        self.recovering = false;
        cx.log.event(
            cx.now,
            Event::Decrease {
                why: "timeout",
                from,
                to: 1.0,
            },
        );
        cx.log
            .event(cx.now, Event::SlowStartRestart { why: "timeout" });
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        if let Some(undo) = self.undo.take() {
            let window = self.s.window.max(undo.window);
            self.s = State { window, ..undo };
            self.recovering = false;
        }
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, _end: &RecoveryEnd) {
        self.recovering = false;
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, idle: Span) {
        self.s.epoch = self.s.epoch.map(|e| e + idle);
        let timeout = rto(&self.rtt);
        if idle >= timeout {
            self.s.threshold = self.s.threshold.max(0.75 * self.s.window);
            self.s.window = restart_window(self.s.window, INITIAL, idle, timeout);
            self.s.epoch = None;
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(window_bytes(self.s.window, self.mss))
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.s.window);
        put("ssthresh", self.s.threshold);
        put("w_max", self.s.plateau);
        put("k_s", self.s.k);
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-5 * b.abs().max(1.0)
    }

    #[test]
    fn the_published_curve() {
        let mut c = Cubic::new();
        c.s = State {
            window: 70.0,
            plateau: 100.0,
            flat: false,
            ..c.s
        };
        c.begin_epoch(Time::ZERO);
        assert!(near(c.s.k, 4.217_163));
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
        c.s.window = 100.0;
        c.reduce(c.mss * 100);
        assert_eq!((c.s.plateau, c.s.threshold), (100.0, 70.0));
        c.s.window = 80.0;
        c.reduce(c.mss * 80);
        assert!(near(c.s.plateau, 68.0) && near(c.s.threshold, 56.0));
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
}
