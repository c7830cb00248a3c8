// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every number and every choice of Verus in one place, for the three profiles.
//!
//! Source: Zaki et al., "Adaptive Congestion Control for Unpredictable Cellular Networks", SIGCOMM 2015 (P), and the
//! authors' program, repository yzaki/verus, June 2017 (C).
//!
//! | constant | tuned | paper | original | unit | where |
//! |---|---|---|---|---|---|
//! | `epoch` (ε) | 10 | 5 | 5 | ms | P section 5 |
//! | `ratio` (R) | 6 | 6 | 6 | – | P eq. 4 evaluates 2, 4, 6; C: 6 |
//! | `soft` | 0.8 | 1 | 1 | share of (R-1) | ours: where equation 4 begins to push back |
//! | `alpha` | 0.2 | 0.2 | 0.2 | weight of the old | P eq. 2 gives no number; C |
//! | `point_weight` | 0.875 | 0.875 | 0.875 | weight of the old | P no number; C |
//! | `rtt_weight` | 0.875 | 0.875 | 0.875 | weight of the old | C |
//! | `down` (δ1) | 1 | 1 | 1 | ms | P eq. 4; C |
//! | `up` (δ2) | 2 | 2 | 2 | ms | P eq. 4; C |
//! | `decrease` (M) | 0.7 | 0.7 | 0.7 | – | P eq. 6 no number; C |
//! | `refit` | 1 | 1 | 1 | s | P section 5; C |
//! | `rho` | 1 | 2 | 2 | – | C: the smoothing of its curve fit |
//! | `least_base` | 20 | – | – | ms | ours: the least base delay that R refers to |
//! | slow start ends at | `D_min (1 + 0.3 )` | `15 D_min` | 500 ms | RTT | P "e.g. 15"; C |
//! | `start_window` | 10 | 1 | 1 | packets | RFC 6928 for ours; P, C |
//! | `quiet` | 0.15 | – | – | share of (R-1) | ours: a queue below it is jitter |
//! | `least_cut` | 0.85 | – | – | share of D_est | ours: what the cut by one sample leaves at least |
//! | `stale` | 4 | – | – | – | ours: D_est's queue over the queue seen that disproves the curve |
//! | `flight_cap` | 1.25 | – | – | × W | ours |
//! | `rate_cap` | yes | no | no | – | ours: `delivery rate × R × D_min` |
//! | ceiling after a loss | M × in flight, +1 packet and 2 % per RTT | – | – | packets | ours |
//! | floor under W | 2 to `start_window`, +1 packet per RTT, × M per RTT of intolerable delay | – | – | packets | ours |
//! | `sharp` | yes | no | no | – | ours: a sample above `R × D_min` cuts in proportion |
use alcc_units::Span;

/// Guard of every division by a delay, ms.
pub(super) const SMALLEST: f64 = 1e-3;

/// What ends slow start besides a loss and a timeout.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum ExitAt {
    /// A sample above this many milliseconds (original).
    Fixed(f64),
    /// A sample above this multiple of the smallest delay (paper).
    Multiple(f64),
    /// A sample above `D_min × (1 + share × (R - 1))`, at least `floor` and at most `cap` milliseconds above `D_min`.
    Queue {
        /// Share of the tolerated queue.
        share: f64,
        /// Jitter that does not count, ms.
        floor: f64,
        /// Largest queue worth waiting for, ms.
        cap: f64,
    },
}

/// What an epoch without any acknowledgement does while the silence is not yet remarkable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Empty {
    /// Counts as "the delay did not grow": probe upwards.
    Increase,
    /// Nothing was learned: nothing changes.
    Hold,
}

/// All choices. The profiles are constants of this type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Settings {
    pub(super) epoch: Span,
    /// R: tolerated ratio of the largest to the smallest delay.
    pub(super) ratio: f64,
    /// The ratio branch begins at `1 + soft × (R - 1)`.
    pub(super) soft: f64,
    pub(super) alpha: f64,
    pub(super) point_weight: f64,
    pub(super) rtt_weight: f64,
    /// The RTT average begins at zero (the program) and not at its first sample.
    pub(super) rtt_from_zero: bool,
    pub(super) down: f64,
    pub(super) up: f64,
    pub(super) decrease: f64,
    pub(super) refit: Span,
    pub(super) rho: f64,
    /// A smaller base delay counts as this many ms: on a short path the tolerated queue would be less than the jitter.
    pub(super) least_base: f64,
    /// The curve's node divisor, once lowered, stays low until a restart.
    pub(super) sticky_divisor: bool,
    pub(super) exit_at: ExitAt,
    pub(super) start_window: f64,
    pub(super) empty: Empty,
    /// The ratio test sees D_max of this epoch, not of the last.
    pub(super) ratio_on_new: bool,
    /// Pinned at D_min with two packets in flight: nothing is sent; with fewer: D_min grows by 10 ms.
    pub(super) suppress: bool,
    /// A delay that the profile does not reach restarts slow start.
    pub(super) restart_unmappable: bool,
    /// Equation 5 in whole numbers, truncated as the program does; otherwise with a credit for the fraction.
    pub(super) whole_packets: bool,
    /// Recovery also waits for a packet sent after the loss was noticed.
    pub(super) recovery_point: bool,
    /// In flight stays below this multiple of W.
    pub(super) flight_cap: Option<f64>,
    /// In flight stays below `delivery rate × R × D_min`.
    pub(super) rate_cap: bool,
    /// A sample above `R × D_min` reduces D_est in proportion, once per round trip.
    pub(super) sharp: bool,
    /// ... but to no less than this share of it: after an outage the sample says how long that was, not what the path holds.
    pub(super) least_cut: f64,
    /// A queue below this share of the tolerated one is jitter: the rising branch of equation 4 does not apply.
    pub(super) quiet: f64,
    /// The queue that D_est allows above this multiple of the queue seen, for two round trips: the curve is out of date,
    /// learn it anew.
    pub(super) stale: Option<f64>,
    /// Our care for idle, application-limited and re-routed flows.
    pub(super) careful: bool,
    /// What is in flight and what a timeout means as in the program: it counts by itself, and after a timeout (D_est = D_min)
    /// or a loss that ends slow start it forgets what is still under way. Otherwise the host counts, and a timeout multiplies
    /// the window by M.
    pub(super) own_count: bool,
}

impl Settings {
    /// What the authors' program does.
    pub(super) const ORIGINAL: Self = Self {
        epoch: Span::from_millis(5),
        ratio: 6.0,
        soft: 1.0,
        alpha: 0.2,
        point_weight: 0.875,
        rtt_weight: 0.875,
        rtt_from_zero: true,
        down: 1.0,
        up: 2.0,
        decrease: 0.7,
        refit: Span::from_secs(1),
        rho: 2.0,
        least_base: 0.0,
        sticky_divisor: true,
        exit_at: ExitAt::Fixed(500.0),
        start_window: 1.0,
        empty: Empty::Increase,
        ratio_on_new: false,
        suppress: true,
        restart_unmappable: true,
        whole_packets: true,
        recovery_point: false,
        flight_cap: None,
        rate_cap: false,
        sharp: false,
        least_cut: 0.0,
        quiet: 0.0,
        stale: None,
        careful: false,
        own_count: true,
    };

    /// What the text says; where it is silent, the program.
    pub(super) const PAPER: Self = Self {
        rtt_from_zero: false,
        own_count: false,
        sticky_divisor: false,
        exit_at: ExitAt::Multiple(15.0),
        ratio_on_new: true,
        suppress: false,
        restart_unmappable: false,
        whole_packets: false,
        recovery_point: true,
        ..Self::ORIGINAL
    };

    /// Ours. Numbers below are the ones to tune.
    pub(super) const TUNED: Self = Self {
        epoch: Span::from_millis(10),
        soft: 0.8,
        rho: 1.0,
        least_base: 20.0,
        exit_at: ExitAt::Queue {
            share: 0.3,
            floor: 5.0,
            cap: 250.0,
        },
        start_window: 10.0,
        empty: Empty::Hold,
        flight_cap: Some(1.25),
        rate_cap: true,
        sharp: true,
        least_cut: 0.85,
        quiet: 0.15,
        stale: Some(4.0),
        careful: true,
        ..Self::PAPER
    };

    /// The base delay that ratios refer to, ms.
    pub(super) fn base(&self, d_min: f64) -> f64 {
        d_min.max(self.least_base)
    }

    /// Where the ratio branch of equation 4 begins.
    pub(super) fn soft_ratio(&self) -> f64 {
        1.0 + self.soft * (self.ratio - 1.0)
    }

    /// RTT in ms above which slow start ends.
    pub(super) fn exit_rtt(&self, d_min: f64) -> f64 {
        match self.exit_at {
            ExitAt::Fixed(ms) => ms,
            ExitAt::Multiple(n) => n * d_min,
            ExitAt::Queue { share, floor, cap } => {
                d_min + (share * (self.ratio - 1.0) * self.base(d_min)).clamp(floor, cap)
            }
        }
    }
}
