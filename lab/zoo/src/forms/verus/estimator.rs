// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Equations 2 to 4 as the program computes them.
//!
//! Differs from the paper: the ratio test uses D_max of the last epoch. D_est is at least D_min; a
//! flow at this bound does not send. With fewer than two packets in flight, D_min is raised by 10
//! ms. The change of equation 3 is the difference of the sample to the old average, with a dead
//! band.
use alcc_cc::parts::verus::Asked;
use alcc_cc::parts::verus::{MIN_DELAY, plausible};

const ALPHA: f64 = 0.2;
const RTT_WEIGHT: f64 = 0.875;
/// A change below this many ms counts as none.
const DEAD_BAND: f64 = 0.0001;
/// D_min before the first sample, ms.
const D_MIN_START: f64 = 1000.0;
/// Increase of D_min, ms, when the flow is at this bound with too little in flight.
const ESCAPE: f64 = 10.0;

/// The estimates, delays in ms.
#[derive(Clone, Debug)]
pub(super) struct Estimator {
    pub(super) d_est: f64,
    pub(super) d_min: f64,
    /// Average of the epochs' largest delays, equation 2.
    pub(super) d_max: Option<f64>,
    /// Smoothed RTT. It starts at zero.
    rtt: f64,
    /// Largest sample since the last epoch.
    newest: Option<f64>,
    sampled: bool,
}

impl Default for Estimator {
    fn default() -> Self {
        Self {
            d_est: 0.0,
            d_min: D_MIN_START,
            d_max: None,
            rtt: 0.0,
            newest: None,
            sampled: false,
        }
    }
}

impl Estimator {
    /// One delay sample in ms.
    pub(super) fn sample(&mut self, ms: f64) {
        self.sampled = true;
        self.newest = Some(self.newest.map_or(ms, |old| old.max(ms)));
        self.rtt = RTT_WEIGHT * self.rtt + (1.0 - RTT_WEIGHT) * ms;
        if ms < self.d_min {
            self.d_min = ms.max(MIN_DELAY);
        }
    }

    /// D_min; 0 before the first sample.
    pub(super) fn min_rtt(&self) -> f64 {
        if self.sampled { self.d_min } else { 0.0 }
    }

    /// Forgets the samples of the current epoch.
    pub(super) fn forget_epoch(&mut self) {
        self.newest = None;
    }

    /// Forgets estimates that a pause makes stale; the smallest delay stays.
    pub(super) fn forget_recent(&mut self) {
        self.newest = None;
        self.d_max = None;
    }

    pub(super) fn smoothed_rtt(&self) -> f64 {
        self.rtt
    }

    /// Ends an epoch. `silence`: ms since the last ACK. True if nothing may be sent in the next
    /// one.
    pub(super) fn epoch(
        &mut self,
        silence: f64,
        in_flight: u64,
        frozen: bool,
        settings: &Asked,
    ) -> bool {
        let mut suppress = false;
        let sample = self.newest.take();
        let known = self.d_max.unwrap_or(0.0);
        let raw = sample.unwrap_or_else(|| known.max(silence));
        if !plausible(raw) || sample.is_none() && settings.hold_empty && silence <= known {
            return false;
        }
        let old = self.d_max.unwrap_or(raw);
        let floor = self.d_min.max(MIN_DELAY);
        if old / floor > settings.ratio {
            if !frozen {
                self.d_est = floor.max(self.d_est - settings.up);
                if self.d_est <= floor {
                    if in_flight < 2 {
                        self.d_min += ESCAPE;
                    } else {
                        suppress = true;
                    }
                }
            }
        } else if raw - old > DEAD_BAND && raw >= floor {
            self.d_est = floor.max(self.d_est - settings.down);
        } else {
            self.d_est += settings.up;
        }
        self.d_max = Some(ALPHA * old + (1.0 - ALPHA) * raw);
        suppress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: Asked = Asked::PUBLISHED;

    fn close(found: f64, want: f64) {
        assert!((found - want).abs() < 1e-4, "{found} is not {want}");
    }

    fn state(d_est: f64, d_min: f64, d_max: f64) -> Estimator {
        Estimator {
            d_est,
            d_min,
            d_max: Some(d_max),
            ..Estimator::default()
        }
    }

    fn with_ratio(ratio: f64) -> Asked {
        Asked { ratio, ..CODE }
    }

    /// One epoch with one sample; the sample is not allowed to be a new minimum here.
    fn step(e: &mut Estimator, raw: f64, in_flight: u64, settings: &Asked) -> bool {
        e.newest = Some(raw);
        e.epoch(0.0, in_flight, false, settings)
    }

    #[test]
    fn equations_2_and_3() {
        let mut e = state(100.0, 10.0, 50.0);
        let mut old = 50.0;
        for (raw, d_max, change, of_averages) in [
            (60.0, 58.0, 10.0, 8.0),
            (60.0, 59.6, 2.0, 1.6),
            (55.0, 55.92, -4.6, -3.68),
            (55.0, 55.184, -0.92, -0.736),
            (80.0, 75.0368, 24.816, 19.8528),
        ] {
            step(&mut e, raw, 5, &with_ratio(20.0));
            let new = e.d_max.unwrap();
            close(new, d_max);
            close(raw - old, change);
            close(new - old, of_averages);
            old = new;
        }
    }

    #[test]
    fn the_programs_rtt_average_starts_at_zero() {
        let mut e = Estimator::default();
        for (n, want) in (1..).zip([12.5, 23.4375, 33.007_812_5, 41.381_8]) {
            e.sample(100.0);
            let found = e.smoothed_rtt();
            assert!((found - want).abs() < 1e-3, "{n}: {found}");
        }
        for (more, want) in [(4, 65.6391), (8, 88.1933), (8, 95.9431)] {
            (0..more).for_each(|_| e.sample(100.0));
            close(e.smoothed_rtt(), want);
        }
    }

    #[test]
    fn equation_4_the_ratio_branch() {
        let two = with_ratio(2.0);
        // (D_est, in flight) -> (D_est, D_min, suppressed)
        for ((d_est, in_flight), (want, d_min, suppressed)) in [
            ((90.0, 5), (88.0, 40.0, false)),
            ((41.0, 5), (40.0, 40.0, true)),
            ((41.0, 1), (40.0, 50.0, false)),
        ] {
            let mut e = state(d_est, 40.0, 81.0);
            let found = step(&mut e, 81.0, in_flight, &two);
            assert_eq!((e.d_est, e.d_min, found), (want, d_min, suppressed));
        }
        // Exactly R is tolerated; the average of before counts.
        let mut e = state(90.0, 40.0, 80.0);
        step(&mut e, 80.0, 5, &two);
        assert_eq!(e.d_est, 92.0);
        let mut e = state(90.0, 40.0, 81.0);
        e.newest = Some(81.0);
        e.epoch(0.0, 5, true, &two);
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
            step(&mut e, raw, 5, &CODE);
            assert_eq!(e.d_est, want, "{raw}");
        }
    }

    #[test]
    fn an_empty_epoch_probes_or_holds() {
        for (silence, d_est, d_max) in [(12.0, 72.0, 60.0), (75.0, 69.0, 72.0)] {
            let mut e = state(70.0, 40.0, 60.0);
            e.epoch(silence, 5, false, &CODE);
            assert_eq!(e.d_est, d_est);
            close(e.d_max.unwrap(), d_max);
        }
        let hold = Asked {
            hold_empty: true,
            ..CODE
        };
        for (silence, d_est) in [(12.0, 70.0), (75.0, 69.0)] {
            let mut e = state(70.0, 40.0, 60.0);
            e.epoch(silence, 5, false, &hold);
            assert_eq!(e.d_est, d_est);
        }
    }
}
