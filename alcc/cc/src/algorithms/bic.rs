// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BIC: a binary search for the window of the last loss, then probing beyond it. Xu, Harfoush and
//! Rhee, INFOCOM 2004, in the form of Linux (`tcp_bic`, the same constants from 2.6.24 on).
//!
//! Below the window of the last loss the step is a quarter of the distance to it. Above it the
//! steps grow again. Both are at most 16 packets per round trip. Small windows grow as in Reno.
//!
//! | constant | value | source |
//! |---|---|---|
//! | fast convergence | (1024+819)/2048 | tcp_bic |
//! | segments per acknowledgement, 1/16ths | moving average, weight 1/16, from 32 | ACK_RATIO_SHIFT |
//! | initial window, packets | 10; `linux-2.6.24` 3 | RFC 6928; RFC 3390 |
//! | one packet more per | `linux`: period; older: period + 1 acknowledgements | tcp_cong_avoid_ai |
//! | window after a mistaken loss | `linux`: as before; older: that of the loss before, converged | bictcp_undo_cwnd |
//!
//! **Differs from the paper**: as Linux does, in integers. **Differs from Linux**: the window grows
//! only if it limited the sender.
//!
//! **Known weakness**: fills every buffer and takes more than its share beside Reno; CUBIC replaced
//! it for that reason. If each segment is acknowledged, the ratio settles at 31/16 by rounding, so
//! that the window grows nearly twice as fast as intended.
use crate::parts::{AckRatio, Counting, Credit, Growth, LossBased, UNLIMITED, Window, segments};
use crate::{AckBatch, Algorithm, Build, Built, Cx, Instance, Options};
use alcc_units::{Span, Time};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "bic",
    summary: "BIC: a binary search for the window of the last loss",
    profiles: Cow::Borrowed(&["linux", "linux-3.16", "linux-2.6.24"]),
    options: &[],
    build: Build::Function(build),
};

constants! { BIC:
    /// Divisor of the distance to the old window: the growth per round (BICTCP_B).
    PART: u64 = 4;
    /// Largest step, packets per round (max_increment).
    MAX_STEP: u64 = 16;
    /// Rounds for the last PART packets below the old window (smooth_part).
    SMOOTH: u64 = 20;
    /// Up to this window it grows and falls as Reno's (low_window).
    LOW_WINDOW: u64 = 14;
    /// Part of the window that remains after a loss, of 1024 (beta).
    BETA: u64 = 819;
    /// The step is computed again after 1/32 s.
    STALE: Span = Span::from_micros(31_250);
    /// Before the first loss the window grows by at least one packet per this many ACKed.
    FIRST_PERIOD: u64 = 20;
}

#[derive(Clone)]
struct Bic {
    last_max: u64,
    /// The window grows by one packet per this many acknowledged; then the time and the window of
    /// the computation.
    period: u64,
    found: Option<(Time, u64)>,
    credit: Credit,
    ratio: AckRatio,
    /// Before Linux 4.1: growth takes one acknowledgement more, and an undo returns to another
    /// window.
    old: bool,
}

fn build(options: &Options<'_>) -> Built {
    let mut kernel = super::reno::kernel(options.profile());
    let old = kernel.counts_ones();
    if !old {
        // The ratio already accounts for delayed acknowledgements, so each one counts once.
        kernel.counting = Counting::SegmentsThenOne;
    }
    Ok(Instance::new(LossBased::of(kernel, Bic::new(old))))
}

impl Bic {
    fn new(old: bool) -> Self {
        Self {
            last_max: 0,
            period: 1,
            found: None,
            credit: Credit::default(),
            ratio: AckRatio::DELAYED,
            old,
        }
    }

    fn period(&self, w: u64) -> u64 {
        if w <= LOW_WINDOW {
            return w.max(1);
        }
        let period = if w < self.last_max {
            match (self.last_max - w) / PART {
                0 | 1 => w * SMOOTH / PART,
                step if step > MAX_STEP => w / MAX_STEP,
                step => w / step,
            }
        } else if w < self.last_max + PART {
            w * SMOOTH / PART
        } else if w < self.last_max + MAX_STEP * (PART - 1) {
            w * (PART - 1) / (w - self.last_max)
        } else {
            w / MAX_STEP
        };
        let period = if self.last_max == 0 {
            period.min(FIRST_PERIOD)
        } else {
            period
        };
        self.ratio.period(period)
    }
}

impl Growth for Bic {
    fn on_ack(&mut self, _cx: &mut Cx<'_>, w: &mut Window, ack: &AckBatch<'_>, _used: bool) {
        if !ack.in_recovery {
            let n: u64 = ack.acked.iter().map(|p| segments(p.len, w.mss)).sum();
            self.ratio.add(n, u64::MAX);
        }
    }

    fn congestion_avoidance(&mut self, cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        let window = w.cwnd as u64;
        let stale = |(at, for_window)| for_window != window || cx.now.since(at) > STALE;
        if self.found.is_none_or(stale) {
            self.found = Some((cx.now, window));
            self.period = self.period(window);
        }
        let grown = if self.old {
            self.credit.add_one(self.period)
        } else {
            self.credit.add(segments as u64, self.period)
        };
        w.cwnd = (w.cwnd + grown as f64).min(UNLIMITED);
    }

    /// Old kernels return to the window of the last loss, as remembered after convergence.
    fn undo_cwnd(&self, cwnd: f64) -> f64 {
        if self.old { self.last_max as f64 } else { cwnd }
    }

    fn ssthresh(&mut self, w: &Window, _flight: f64) -> f64 {
        let w = w.cwnd as u64;
        self.last_max = if w < self.last_max {
            w * (1024 + BETA) / 2048
        } else {
            w
        };
        self.found = None;
        self.credit.clear();
        let reduced = if w <= LOW_WINDOW {
            w / 2
        } else {
            w * BETA / 1024
        };
        reduced as f64
    }

    fn on_rto(&mut self, _cx: &mut Cx<'_>, _w: &mut Window) {
        *self = Self::new(self.old);
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("w_max", self.last_max as f64);
        put("cnt", self.period as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn periods_of_the_search_and_of_the_probing() {
        let of = |last_max, ratio, w| {
            Bic {
                last_max,
                ratio: AckRatio::of(ratio),
                ..Bic::new(false)
            }
            .period(w)
        };
        // Every second segment acknowledged, every one acknowledged. At 79: 79 / (21 / 4) = 15,
        // halved 7.
        let expected = [
            (10, 10, 10),
            (20, 1, 1),
            (79, 7, 15),
            (97, 242, 485),
            (100, 250, 500),
            (103, 257, 515),
            (110, 16, 33),
            (140, 5, 10),
            (160, 5, 10),
            (200, 6, 12),
        ];
        for (w, delayed, each) in expected {
            assert_eq!((of(100, 32, w), of(100, 16, w)), (delayed, each), "at {w}");
        }
        assert_eq!(of(0, 32, 200), 6);
    }

    #[test]
    fn a_loss_leaves_four_fifths_and_a_small_window_half() {
        let mut b = Bench::of("bic");
        b.round();
        b.round();
        assert_eq!(b.window(), 40.0);
        b.lose_one();
        // 40 * 819 / 1024 = 31.99
        assert_eq!((b.window(), b.gauge("w_max")), (31.0, 40.0));
        b.recovered();
        b.lose_one();
        // 31 * 1843 / 2048 = 27.9
        assert_eq!((b.window(), b.gauge("w_max")), (24.0, 27.0));
        let mut b = Bench::of("bic");
        b.lose_one();
        assert_eq!(b.window(), 5.0);
    }

    #[test]
    fn the_search_returns_to_the_old_window_and_lingers() {
        let mut b = Bench::of("bic");
        (0..4).for_each(|_| b.round());
        b.lose_one();
        b.recovered();
        let after = b.window();
        assert_eq!(after, 127.0);
        (0..8).for_each(|_| b.round());
        let found = b.window();
        assert!(found > 150.0 && found < 164.0, "{found}");
    }
}
