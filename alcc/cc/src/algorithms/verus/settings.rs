// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All numbers and choices of the current form in one place: `tuned` and `paper`.
//!
//! Source: Zaki et al., "Adaptive Congestion Control for Unpredictable Cellular Networks", SIGCOMM
//! 2015 (P). The authors' program, repository yzaki/verus, June 2017 (C).
//!
//! | constant | tuned | paper | unit | where |
//! |---|---|---|---|---|
//! | `epoch` (ε) | 10 | 5 | ms | P section 5 |
//! | `ratio` (R) | 6 | 6 | – | P eq. 4 evaluates 2, 4, 6; C: 6 |
//! | `soft` | 0.95 at `start_window`, a tenth less per doubling of W × `like`/D_min | 1 | share of (R-1) | ours: where equation 4 begins to push back |
//! | `ALPHA` | 0.2 | 0.2 | weight of the old | P eq. 2 gives no number; C |
//! | `POINT_WEIGHT` | 0.875 | 0.875 | weight of the old | P no number; C |
//! | `RTT_WEIGHT` | 0.875 | 0.875 | weight of the old | C |
//! | `down` (δ1) | 1 | 1 | ms | P eq. 4; C |
//! | `up` (δ2) | 2 | 2 | ms | P eq. 4; C |
//! | `DECREASE` (M) | 0.7 | 0.7 | – | P eq. 6 no number; C |
//! | `refit` | 1 | 1 | s | P section 5; C |
//! | `rho` | 1 | 2 | – | C: the smoothing of its curve fit |
//! | `like` | 40 | – | ms | ours: R refers to it, not to D_min, so that unlike round trips tolerate one queue |
//! | slow start ends at | `D_min + 0.3 like` | `15 D_min` | RTT | P "e.g. 15" |
//! | `start_window` | 10 | 1 | packets | RFC 6928 for ours; P |
//! | `jitter_floor` | 0.15 | – | share of (R-1) | ours: a queue below it is jitter |
//! | `proportional_cut` | 0.85 | – | share of D_est | ours: what the cut by one sample leaves at least |
//! | `stale` | 4 | – | – | ours: D_est's queue over the queue seen that disproves the curve |
//! | `flight_cap` | 1.25 | – | × W | ours |
//! | `rate_cap` | yes | no | – | ours: `delivery rate × (D_min + (R-1) like)` |
//! | `policer` | yes | no | – | ours: see [`Policer`](crate::parts::Policer) |
//! | `company` | yes | no | – | ours: see `company.rs` |
//! | a loss that counts leaves | M × in flight, +1 packet per RTT × D_min/`like`, after a second 10 more per second | – | packets | ours |
//! | a longer route | a jump of 40 ms and 3 times the gap that lasts and that no drain shortens | – | RTT | as Budget's, `parts::Route` |
//! | floor under W | 2 to 50 × D_min/`like`, +1 packet per RTT × its square, at most W/16, × M per RTT of intolerable delay | – | packets | ours |
use alcc_units::Span;

constants! { VERUS:
    /// ε: length of an epoch.
    EPOCH: Span = Span::from_millis(10);
    /// R: the tolerated ratio of the largest to the smallest delay.
    RATIO: f64 = 6.0;
    /// RTT to which R refers, ms, so that paths with unequal RTTs tolerate the same queue.
    LIKE: f64 = 40.0, of 1000;
    /// Smallest ratio of a path's RTT to LIKE that counts.
    LONG_LEAST: f64 = 0.25, of 256;
    /// Largest ratio of a path's RTT to LIKE that counts.
    LONG_MOST: f64 = 4.0, of 256;
    /// α of equation 2: weight of the old.
    pub(super) ALPHA: f64 = 0.2, of 5;
    /// Weight of the old delay of a point.
    pub(super) POINT_WEIGHT: f64 = 0.875, of 8;
    /// Weight of the old smoothed RTT.
    pub(super) RTT_WEIGHT: f64 = 0.875, of 8;
    /// δ1 of equation 4, ms.
    DOWN: f64 = 1.0, of 1000;
    /// δ2 of equation 4, ms.
    UP: f64 = 2.0, of 1000;
    /// M of equation 6.
    pub(super) DECREASE: f64 = 0.7, of 10;
    /// Time between two fits of the curve.
    REFIT: Span = Span::from_secs(1);
    /// The first window, packets.
    START: f64 = 10.0;
    /// Part of the tolerated queue from which equation 4 pushes back, with the first window.
    SOFT: f64 = 0.95, of 65_536;
    /// Reduction of SOFT per doubling of the window.
    YIELD: f64 = 0.1, of 10;
    /// Smallest SOFT.
    LEAST_SOFT: f64 = 0.1, of 65_536;
    /// Part of the tolerated queue that ends slow start.
    EXIT: f64 = 0.3, of 10;
    /// Part of the tolerated queue below which a queue counts as jitter.
    JITTER: f64 = 0.15, of 20;
    /// Smallest part of D_est that remains after the cut by one sample.
    CUT: f64 = 0.85, of 65_536;
    /// The curve is disproved if D_est allows this multiple of the measured queue.
    STALE: f64 = 4.0;
}

/// The condition that ends slow start, besides a loss and a timeout.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum ExitAt {
    /// A sample above this multiple of the smallest delay (paper).
    Multiple(f64),
    /// A sample above `D_min × (1 + share × (R - 1))`, at least `floor` and at most `cap` ms above
    /// D_min.
    Queue {
        /// Share of the tolerated queue.
        share: f64,
        /// Jitter that is ignored, ms.
        floor: f64,
        /// Largest queueing delay to wait for, ms.
        cap: f64,
    },
}

/// All choices. The profiles are constants of this type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Settings {
    pub(super) epoch: Span,
    /// δ1 and δ2 of equation 4, ms.
    pub(super) down: f64,
    pub(super) up: f64,
    /// Time between two fits of the curve.
    pub(super) refit: Span,
    /// R: tolerated ratio of the largest to the smallest delay.
    pub(super) ratio: f64,
    /// The ratio branch begins at `1 + soft × (R - 1)`.
    pub(super) soft: f64,
    pub(super) rho: f64,
    /// Base delay, ms, for which R tolerates its queue; used instead of this path's D_min.
    pub(super) like: Option<f64>,
    pub(super) exit_at: ExitAt,
    pub(super) start_window: f64,
    /// An epoch without an ACK changes nothing while the silence is still normal. Otherwise such an
    /// epoch counts as "the delay did not grow" and probes upwards.
    pub(super) hold_empty: bool,
    /// The packets in flight stay below this multiple of W.
    pub(super) flight_cap: Option<f64>,
    /// The packets in flight stay below `delivery rate × R × D_min`.
    pub(super) rate_cap: bool,
    /// D_est stays below `R × D_min`. A sample above it reduces D_est in proportion, once per round
    /// trip, to no less than this share. The bound is needed because after an outage the sample
    /// measures the outage, not the path.
    pub(super) proportional_cut: Option<f64>,
    /// Queueing below this share of the tolerated one, or within the error of the samples, is
    /// jitter. The rising branch of equation 4 does not apply to it.
    pub(super) jitter_floor: Option<f64>,
    /// If the queueing in D_est is above this multiple of the measured queueing for two round
    /// trips, the curve is out of date, and is learned again.
    pub(super) stale: Option<f64>,
    /// Packets are recorded under the number in flight if that is less than W. A window that is not
    /// used does not grow.
    pub(super) validate_app_limited: bool,
    /// Rules for sharing a path. Common drains give D_min, and the soft limit falls with W. Losses
    /// are judged, and set a ceiling on W that rises slowly. A floor under W lets a flow gain a
    /// share. Pacing keeps bursts from deciding whose packets are lost. See `company.rs`.
    pub(super) company: bool,
    /// Equation 5 uses the actual length of epochs, which a host with many flows extends.
    pub(super) measured_epochs: bool,
    /// Detects a policer: packets are lost without queueing, and sending less loses less. The rate
    /// is then limited to the delivered rate.
    pub(super) policer: bool,
}

impl Settings {
    /// The values of the paper; where it is silent, the program's.
    pub(super) const PAPER: Self = Self {
        epoch: Span::from_millis(5),
        down: DOWN,
        up: UP,
        refit: REFIT,
        ratio: RATIO,
        soft: 1.0,
        rho: 2.0,
        like: None,
        exit_at: ExitAt::Multiple(15.0),
        start_window: 1.0,
        hold_empty: false,
        flight_cap: None,
        rate_cap: false,
        proportional_cut: None,
        jitter_floor: None,
        stale: None,
        validate_app_limited: false,
        company: false,
        measured_epochs: false,
        policer: false,
    };

    /// Our values, for tuning.
    pub(super) const TUNED: Self = Self {
        epoch: EPOCH,
        soft: SOFT,
        rho: 1.0,
        like: Some(LIKE),
        exit_at: ExitAt::Queue {
            share: EXIT,
            floor: 5.0,
            cap: 250.0,
        },
        start_window: START,
        hold_empty: true,
        flight_cap: Some(1.25),
        rate_cap: true,
        proportional_cut: Some(CUT),
        jitter_floor: Some(JITTER),
        stale: Some(STALE),
        validate_app_limited: true,
        company: true,
        measured_epochs: true,
        policer: true,
        ..Self::PAPER
    };

    /// The queueing delay that R tolerates, ms. The paper's is R - 1 times D_min, with which the
    /// flow of the longest round trip keeps the longest queue, and so the whole link.
    pub(super) fn tolerated(&self, d_min: f64) -> f64 {
        (self.ratio - 1.0) * self.like.unwrap_or(d_min)
    }

    /// Ratio of this path's RTT to `like`, within bounds.
    pub(super) fn long(&self, rtt: f64) -> f64 {
        self.like
            .map_or(1.0, |like| (rtt / like).clamp(LONG_LEAST, LONG_MOST))
    }

    /// The share of the tolerated queue at which the ratio branch of equation 4 begins, for this
    /// window in packets.
    pub(super) fn soft_part(&self, window: f64) -> f64 {
        if self.company {
            let doublings = libm::log2(window.max(1.0) / self.start_window);
            (self.soft * (1.0 - YIELD * doublings)).clamp(LEAST_SOFT, 1.0)
        } else {
            self.soft
        }
    }

    /// RTT in ms above which slow start ends.
    pub(super) fn exit_rtt(&self, d_min: f64) -> f64 {
        match self.exit_at {
            ExitAt::Multiple(n) => n * d_min,
            ExitAt::Queue { share, floor, cap } => {
                d_min + (share * self.tolerated(d_min)).clamp(floor, cap)
            }
        }
    }
}
