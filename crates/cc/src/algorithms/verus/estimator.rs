// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The delay estimator: the largest delay of an epoch, its average, and the running estimate D_est that equation 4 moves.
//!
//! Differs from the paper: the change of equation 3 is the sample against the old average (the same sign, since
//! `new - old = (1 - α)(sample - old)`), with the program's dead band; D_est never falls below D_min, where the paper's
//! third branch has no floor.
//!
//! Known weakness: steps of +2 and -1 ms drift upwards whenever rises and falls balance; only the ratio branch holds it.
use super::settings::{Empty, Settings};

/// A change below this many ms is none (program).
const DEAD_BAND: f64 = 0.0001;
/// D_min before the first sample, ms (program).
const D_MIN_START: f64 = 1000.0;
/// How much D_min grows when the flow is pinned to it with nothing to lose, ms (program).
const ESCAPE: f64 = 10.0;
/// Guard of every division by a delay, ms.
const SMALLEST: f64 = 1e-3;
/// Longest delay believed, ms.
const LONGEST: f64 = 60_000.0;

/// What one epoch learned and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochEnd {
    /// Time since the last acknowledgement, ms.
    pub(super) silence: f64,
    /// Packets in flight.
    pub(super) in_flight: u64,
    /// The ratio branch does nothing (slow start was left by delay and the loss phase is not over).
    pub(super) frozen: bool,
    /// The sender was not held back by us: no reason to probe upwards.
    pub(super) no_increase: bool,
    /// A sample above the limit may cut now (once per round trip).
    pub(super) may_cut: bool,
}

/// What the controller has to do about it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Verdict {
    /// Nothing may be sent in the coming epoch.
    pub(super) suppress: bool,
    /// D_est was cut in proportion.
    pub(super) cut: bool,
}

/// Delays in ms.
#[derive(Clone, Debug)]
pub(super) struct Estimator {
    /// Running estimate of the network delay, moved by equation 4.
    pub(super) d_est: f64,
    /// Smallest delay.
    pub(super) d_min: f64,
    /// Average of the epochs' largest delays, equation 2.
    pub(super) d_max: Option<f64>,
    /// Smoothed RTT, for the number of epochs in a round trip.
    rtt: Option<f64>,
    /// Largest sample since the last epoch.
    newest: Option<f64>,
    clean: Clean,
}

/// Samples that had almost no company in the network: near the base delay whatever the queue does elsewhere.
#[derive(Clone, Copy, Default, Debug)]
struct Clean {
    min: f64,
    count: u32,
}

impl Clean {
    /// So many clean samples in a row, all well above D_min, prove a longer route.
    const PROOF: u32 = 32;
    /// "Well above".
    const ABOVE: f64 = 1.5;
}

/// Whether a delay can be one: positive and at most a minute.
pub(super) fn plausible(ms: f64) -> bool {
    ms > 0.0 && ms <= LONGEST
}

impl Estimator {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            d_est: 0.0,
            d_min: D_MIN_START,
            d_max: None,
            rtt: settings.rtt_from_zero.then_some(0.0),
            newest: None,
            clean: Clean::default(),
        }
    }

    /// One delay sample in ms.
    pub(super) fn sample(&mut self, ms: f64, settings: &Settings) {
        self.newest = Some(self.newest.map_or(ms, |old| old.max(ms)));
        let k = settings.rtt_weight;
        self.rtt = Some(self.rtt.map_or(ms, |old| k * old + (1.0 - k) * ms));
        if ms < self.d_min {
            self.d_min = ms.max(SMALLEST);
            self.clean = Clean::default();
        }
    }

    /// A sample of a packet that had at most a few others in flight. The plain minimum never ages (with a standing queue
    /// a sliding one would call the queue the base delay); this is how it learns of a longer route.
    pub(super) fn clean_sample(&mut self, ms: f64) {
        if ms <= Clean::ABOVE * self.d_min {
            self.clean = Clean::default();
            return;
        }
        let first = self.clean.count == 0;
        self.clean.min = if first { ms } else { self.clean.min.min(ms) };
        self.clean.count += 1;
        if self.clean.count >= Clean::PROOF {
            self.d_min = self.clean.min;
            self.clean = Clean::default();
        }
    }

    /// Forgets the samples of the running epoch.
    pub(super) fn forget_epoch(&mut self) {
        self.newest = None;
    }

    /// Forgets what a pause has made stale; the smallest delay stays.
    pub(super) fn forget_recent(&mut self) {
        self.newest = None;
        self.d_max = None;
    }

    /// Smoothed RTT in ms; 0 before the first sample.
    pub(super) fn rtt(&self) -> f64 {
        self.rtt.unwrap_or(0.0)
    }

    /// Equations 2 to 4 for one epoch.
    pub(super) fn epoch(&mut self, end: &EpochEnd, settings: &Settings) -> Verdict {
        let mut verdict = Verdict::default();
        let sample = self.newest.take();
        let known = self.d_max.unwrap_or(0.0);
        let raw = sample.unwrap_or_else(|| known.max(end.silence));
        if !plausible(raw) {
            return verdict;
        }
        if sample.is_none() && settings.empty == Empty::Hold && end.silence <= known {
            return verdict;
        }
        let old = self.d_max.unwrap_or(raw);
        let new = settings.alpha * old + (1.0 - settings.alpha) * raw;
        let tested = if settings.ratio_on_new { new } else { old };
        let floor = self.d_min.max(SMALLEST);
        let limit = settings.ratio * floor;
        if settings.sharp && raw > limit {
            if end.may_cut && !end.frozen {
                self.d_est = floor.max(self.d_est.min(limit) * limit / raw);
                verdict.cut = true;
            }
        } else if tested / floor > settings.soft_ratio() {
            if !end.frozen {
                self.d_est = floor.max(self.d_est - settings.up);
                if settings.suppress && self.d_est <= floor {
                    if end.in_flight < 2 {
                        self.d_min += ESCAPE;
                    } else {
                        verdict.suppress = true;
                    }
                }
            }
        } else if raw - old > DEAD_BAND {
            self.d_est = floor.max(self.d_est - settings.down);
        } else if !end.no_increase {
            self.d_est += settings.up;
        }
        if settings.careful {
            self.d_est = self.d_est.min(limit);
        }
        self.d_max = Some(new);
        verdict
    }
}

/// Equation 5 in whole packets, as the program computes it: the in-flight term is truncated, and a round trip of at most
/// one epoch releases what is missing.
pub(super) fn release_whole(window: u64, in_flight: u64, epochs: u64) -> u64 {
    let keep = if epochs <= 1 {
        in_flight
    } else {
        (u128::from(in_flight) * u128::from(epochs - 2) / u128::from(epochs - 1)) as u64
    };
    window.saturating_sub(keep)
}

/// Equation 5 with its fraction; a round trip of at most two epochs releases what is missing (the formula would release a
/// whole window each time).
pub(super) fn release_exact(window: f64, in_flight: f64, epochs: u64) -> f64 {
    let share = if epochs <= 2 {
        1.0
    } else {
        (epochs - 2) as f64 / (epochs - 1) as f64
    };
    (window - in_flight * share).max(0.0)
}

/// Epochs in a round trip, rounded up, at least 1.
pub(super) fn epochs_in(rtt_ms: f64, epoch_ms: f64) -> u64 {
    ((rtt_ms / epoch_ms.max(SMALLEST)).ceil() as u64).max(1)
}
