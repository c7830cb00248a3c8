// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NewReno: additive increase, multiplicative decrease. RFC 5681 (window), RFC 6582 (one reduction per loss episode).
//!
//! One packet more per round trip, half of the window on loss; slow start doubles per round trip below the threshold. Loss
//! detection and the shape of recovery belong to the host (proportional rate reduction, RFC 6937).
//!
//! | constant | value | source |
//! |---|---|---|
//! | initial window | 10 packets | RFC 6928 |
//! | decrease | 1/2 of what was in flight | RFC 5681, eq. 4 |
//! | smallest threshold | 2 packets | RFC 5681, eq. 4 |
//! | window after a timeout | 1 packet | RFC 5681, section 3.1 |
//!
//! **Differs from the text**: growth counts acknowledged segments, not acknowledgements (RFC 3465, unlimited); the window does
//! not grow unless it was what limited the sender; after idling it is halved per timeout instead of reset (Linux).
//!
//! **Known weakness**: fills every buffer; one lost packet per window at random holds it at 1.2/sqrt(p) packets.
use crate::parts::{restart_window, rto, segments, window_bytes, window_used};
use crate::{
    AckBatch, Algorithm, Allowance, Controller, Cx, Event, LossBatch, Needs, Options, Path,
    Recovery, RecoveryEnd, Rto, RttView, SpecError, Spurious,
};
use alcc_units::{Bytes, Span};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "reno",
    summary: "NewReno: one packet more per round trip, half of the window on loss",
    profiles: &[],
    options: &[],
    build,
};

const INITIAL: f64 = 10.0;
const SMALLEST_THRESHOLD: f64 = 2.0;
const LARGEST: f64 = 1e9;

#[derive(Clone)]
struct Reno {
    mss: Bytes,
    /// Packets.
    window: f64,
    threshold: f64,
    /// Acknowledged segments not yet turned into growth.
    credit: f64,
    /// Between a loss and its repair the window holds still; after a timeout it grows.
    recovering: bool,
    /// Window and threshold before the last reduction.
    undo: Option<(f64, f64)>,
    rtt: RttView,
}

fn build(_: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    Ok(Box::new(Reno {
        mss: Bytes::new(1448),
        window: INITIAL,
        threshold: LARGEST,
        credit: 0.0,
        recovering: false,
        undo: None,
        rtt: RttView::default(),
    }))
}

impl Reno {
    fn reduce(&mut self, in_flight: Bytes) {
        self.undo = Some((self.window, self.threshold));
        // RFC 5681 halves what is in flight, which may exceed a window that has just shrunk.
        let flight = in_flight.packets(self.mss).min(self.window);
        self.threshold = (flight / 2.0).max(SMALLEST_THRESHOLD);
        self.credit = 0.0;
    }

    fn grow(&mut self, segments: f64) {
        let fast = segments.min((self.threshold - self.window).max(0.0));
        self.window += fast;
        self.credit += segments - fast;
        while self.credit >= self.window {
            self.credit -= self.window;
            self.window += 1.0;
        }
        self.window = self.window.min(LARGEST);
    }
}

impl Controller for Reno {
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

    fn on_ack(&mut self, _cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.rtt = ack.rtt;
        if !ack.in_recovery {
            self.recovering = false;
        }
        if self.recovering || !window_used(ack, window_bytes(self.window, self.mss)) {
            return;
        }
        for packet in ack.acked {
            self.grow(segments(packet.len, self.mss) as f64);
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if !loss.new_episode {
            return;
        }
        let from = self.window;
        self.reduce(loss.in_flight + loss.lost.iter().map(|p| p.len).sum());
        self.window = self.threshold;
        self.recovering = true;
        cx.log.event(
            cx.now,
            Event::Decrease {
                why: "loss",
                from,
                to: self.window,
            },
        );
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let from = self.window;
        // Only the first expiry for the same data tells something about the path.
        if rto.backoff <= 1 {
            self.reduce(rto.in_flight);
        }
        self.window = 1.0;
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
        if let Some((window, threshold)) = self.undo.take() {
            self.window = self.window.max(window);
            self.threshold = threshold;
            self.recovering = false;
        }
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, _end: &RecoveryEnd) {
        self.recovering = false;
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, idle: Span) {
        let timeout = rto(&self.rtt);
        if idle >= timeout {
            self.threshold = self.threshold.max(0.75 * self.window);
            self.window = restart_window(self.window, INITIAL, idle, timeout);
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(window_bytes(self.window, self.mss))
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.window);
        put("ssthresh", self.threshold);
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn slow_start_doubles_then_one_packet_per_round() {
        let mut b = Bench::of("reno");
        b.round();
        assert_eq!(b.window(), 20.0);
        b.round();
        assert_eq!(b.window(), 40.0);
        b.lose_one();
        assert_eq!(b.window(), 20.0);
        b.recovered();
        for expected in [21.0, 22.0, 23.0] {
            b.round();
            assert_eq!(b.window(), expected);
        }
    }

    #[test]
    fn one_reduction_per_episode_and_none_below_two() {
        let mut b = Bench::of("reno");
        b.lose_one();
        b.lose_more();
        assert_eq!(b.window(), 5.0);
        for expected in [2.5, 2.0, 2.0] {
            b.recovered();
            b.lose_one();
            assert_eq!(b.window(), expected);
        }
    }

    #[test]
    fn a_timeout_restarts_at_one_and_remembers_half() {
        let mut b = Bench::of("reno");
        b.timeout(1);
        assert_eq!((b.window(), b.gauge("ssthresh")), (1.0, 5.0));
        b.timeout(2);
        assert_eq!((b.window(), b.gauge("ssthresh")), (1.0, 5.0));
        for expected in [2.0, 4.0, 5.0, 6.0] {
            b.round();
            assert_eq!(b.window(), expected);
        }
    }

    #[test]
    fn a_mistaken_reduction_is_undone() {
        let mut b = Bench::of("reno");
        b.round();
        b.lose_one();
        b.spurious();
        assert_eq!(b.window(), 20.0);
        b.round();
        assert_eq!(b.window(), 40.0);
    }

    #[test]
    fn an_application_that_sends_little_does_not_grow_the_window() {
        let mut b = Bench::of("reno");
        b.application_limited_round(10);
        assert_eq!(b.window(), 10.0);
    }
}
