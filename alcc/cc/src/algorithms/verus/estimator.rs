// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The delay estimator: the largest delay of an epoch, its average, and the running estimate D_est
//! that equation 4 moves.
//!
//! The constants are in `settings.rs` and just below.
//!
//! Differs from the paper: the change of equation 3 is the difference of the sample to the old
//! average, with the program's dead band. The sign is the same, because `new - old = (1 - α)(sample
//! - old)`. D_est never falls below D_min, while the paper's third branch has no lower bound.
//!
//! Known weakness: steps of +2 and -1 ms drift upwards if rises and falls are equally frequent.
//! Only the ratio branch limits the drift.
use super::MIN_DELAY;
use super::settings::{ALPHA, RTT_WEIGHT, Settings};

/// A change below this many ms counts as none (program).
const DEAD_BAND: f64 = 0.0001;
constants! { VERUS:
    /// D_min before the first sample, ms (program).
    D_MIN_START: f64 = 1000.0, of 1000;
}
/// Longest plausible delay, ms.
const MAX_DELAY: f64 = 60_000.0;

/// Observations of one epoch, and the state at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochEnd {
    /// Time since the last acknowledgement, ms.
    pub(super) silence: f64,
    /// The ratio branch is disabled (slow start was left by delay, and the loss phase is not over).
    pub(super) frozen: bool,
    /// This algorithm did not limit the sender, so there is no reason to probe upwards.
    pub(super) no_increase: bool,
    /// A sample above the limit may reduce D_est now (once per round trip).
    pub(super) may_cut: bool,
    /// Bound on the error of the samples, ms.
    pub(super) error: f64,
    /// W, packets.
    pub(super) window: f64,
}

/// The controller's tasks that follow from an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Verdict {
    /// D_est was reduced in proportion.
    pub(super) cut: bool,
    /// True if the delay is below the start of the ratio branch. `None`: there was no sample, or
    /// this algorithm did not limit the sender.
    pub(super) tolerable: Option<bool>,
}

/// The estimates of equations 2 to 4, delays in ms.
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
    /// True if there was a sample.
    sampled: bool,
}

/// True if a delay is plausible: positive and at most a minute.
pub fn plausible(ms: f64) -> bool {
    ms > 0.0 && ms <= MAX_DELAY
}

impl Estimator {
    pub(super) fn new() -> Self {
        Self {
            d_est: 0.0,
            d_min: D_MIN_START,
            d_max: None,
            rtt: None,
            newest: None,
            sampled: false,
        }
    }

    /// Takes one delay sample in ms.
    pub(super) fn sample(&mut self, ms: f64) {
        self.sampled = true;
        self.newest = Some(self.newest.map_or(ms, |old| old.max(ms)));
        let k = RTT_WEIGHT;
        self.rtt = Some(self.rtt.map_or(ms, |old| k * old + (1.0 - k) * ms));
        if ms < self.d_min {
            self.d_min = ms.max(MIN_DELAY);
        }
    }

    /// Largest sample since the last epoch.
    pub(super) fn newest(&self) -> Option<f64> {
        self.newest
    }

    /// D_min; 0 before the first sample.
    pub(super) fn min_rtt(&self) -> f64 {
        if self.sampled { self.d_min } else { 0.0 }
    }

    /// Forgets the samples of the running epoch.
    pub(super) fn forget_epoch(&mut self) {
        self.newest = None;
    }

    /// Forgets estimates that a pause makes stale; the smallest delay stays.
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
        if sample.is_none() && settings.hold_empty && end.silence <= known {
            return verdict;
        }
        let old = self.d_max.unwrap_or(raw);
        let new = ALPHA * old + (1.0 - ALPHA) * raw;
        let floor = self.d_min.max(MIN_DELAY);
        let tolerated = settings.tolerated(floor);
        let limit = floor + tolerated;
        let soft = floor + settings.soft_part(end.window) * tolerated;
        // A rise within the error of the samples does not count.
        let jitter = settings
            .jitter_floor
            .map_or(0.0, |share| share * tolerated + end.error);
        let calm = new <= soft && raw <= limit;
        verdict.tolerable = sample.filter(|_| !end.no_increase).map(|_| calm);
        if let Some(at_least) = settings.proportional_cut.filter(|_| raw > limit) {
            if end.may_cut && !end.frozen {
                let share = (limit / raw).max(at_least);
                self.d_est = floor.max(self.d_est.min(limit) * share);
                verdict.cut = true;
            }
        } else if new > soft {
            if !end.frozen {
                self.d_est = floor.max(self.d_est - settings.up);
            }
        } else if raw - old > DEAD_BAND && raw - floor >= jitter {
            self.d_est = floor.max(self.d_est - settings.down);
        } else if !end.no_increase {
            self.d_est += settings.up;
        }
        if settings.proportional_cut.is_some() {
            self.d_est = self.d_est.min(limit);
        }
        self.d_max = Some(new);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, want: f64) {
        assert!((found - want).abs() < 1e-4, "{found} is not {want}");
    }

    fn state(d_est: f64, d_min: f64, d_max: f64) -> Estimator {
        Estimator {
            d_est,
            d_min,
            d_max: Some(d_max),
            ..Estimator::new()
        }
    }

    const END: EpochEnd = EpochEnd {
        silence: 0.0,
        frozen: false,
        no_increase: false,
        may_cut: true,
        error: 0.0,
        window: 10.0,
    };

    /// One epoch with one sample; the sample is not allowed to be a new minimum here.
    fn step(e: &mut Estimator, raw: f64, end: &EpochEnd, settings: &Settings) -> Verdict {
        e.newest = Some(raw);
        e.epoch(end, settings)
    }

    #[test]
    fn the_rtt_average_starts_at_the_first_sample() {
        let mut ours = Estimator::new();
        ours.sample(100.0);
        close(ours.rtt(), 100.0);
    }

    #[test]
    fn equation_4_keeps_d_est_above_d_min_and_waits_while_frozen() {
        let two = Settings {
            ratio: 2.0,
            ..Settings::PAPER
        };
        // The paper's text would go to 39, below D_min.
        let mut e = state(41.0, 40.0, 81.0);
        step(&mut e, 81.0, &END, &two);
        assert_eq!(e.d_est, 40.0);
        let frozen = EpochEnd {
            frozen: true,
            ..END
        };
        let mut e = state(90.0, 40.0, 81.0);
        step(&mut e, 81.0, &frozen, &two);
        assert_eq!(e.d_est, 90.0);
    }

    #[test]
    fn equation_4_rising_and_not_rising() {
        for (d_est, raw, want) in [
            (70.0, 60.00005, 72.0),
            (70.0, 60.001, 69.0),
            (40.5, 61.0, 40.0),
        ] {
            let mut e = state(d_est, 40.0, 60.0);
            step(&mut e, raw, &END, &Settings::PAPER);
            assert_eq!(e.d_est, want, "{raw}");
        }
    }

    #[test]
    fn an_empty_epoch_probes_or_holds() {
        for (settings, calm) in [(Settings::PAPER, 72.0), (Settings::TUNED, 70.0)] {
            for (silence, want) in [(12.0, calm), (75.0, 69.0)] {
                let mut e = state(70.0, 40.0, 60.0);
                e.epoch(&EpochEnd { silence, ..END }, &settings);
                assert_eq!(e.d_est, want);
            }
        }
    }

    #[test]
    fn a_sample_above_the_limit_cuts_in_proportion_by_so_much_at_most_and_once() {
        // The limit is 240 ms; the estimate counts as no more than that.
        for (raw, d_est, want) in [
            (250.0, 200.0, 192.0),
            (480.0, 200.0, 170.0),
            (480.0, 900.0, 204.0),
        ] {
            let mut e = state(d_est, 40.0, 150.0);
            let verdict = step(&mut e, raw, &END, &Settings::TUNED);
            assert!(verdict.cut);
            close(e.d_est, want);
            let again = EpochEnd {
                may_cut: false,
                ..END
            };
            assert!(!step(&mut e, raw, &again, &Settings::TUNED).cut);
            close(e.d_est, want);
        }
    }
}
