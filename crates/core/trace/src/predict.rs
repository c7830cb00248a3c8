// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far simple predictors see (Zaki et al., SIGCOMM 2015, section 3). It shows why an algorithm
//! for such links measures rather than predicts.
use crate::Trace;
use alcc_units::Span;

/// How many past windows a predictor looks at.
const PAST: usize = 10;

/// Root mean square errors of predictions of the capacity of one window, each as a share of the
/// mean capacity. The coefficient of variation ([`Trace::variation`]) is the error of somebody who
/// always says the mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PredictionError {
    /// Length of the windows.
    pub window: Span,
    /// How many windows ahead, at least 1.
    pub steps: usize,
    /// The newest window again.
    pub last: f64,
    /// The mean of the last ten.
    pub mean: f64,
    /// The straight line through the last ten by least squares, not below zero.
    pub linear: f64,
    /// The best that a linear rule can say from the newest window alone. It knows the whole trace's
    /// mean and autocorrelation.
    pub k_step: f64,
}

/// What the predictors say of a series of windows, beside what came; in opportunities per window.
#[derive(Clone, PartialEq, Debug)]
pub struct Predictions {
    /// The number of the first window that is predicted; the others follow it.
    pub first: usize,
    /// What came.
    pub actual: Vec<f64>,
    /// As [`PredictionError::last`].
    pub last: Vec<f64>,
    /// As [`PredictionError::mean`].
    pub mean: Vec<f64>,
    /// As [`PredictionError::linear`].
    pub linear: Vec<f64>,
    /// As [`PredictionError::k_step`].
    pub k_step: Vec<f64>,
}

impl Trace {
    /// Predicts every window that has ten before the prediction, `steps` windows ahead. `None` if
    /// `steps` is 0, with fewer than two predictions, or without capacity.
    pub fn predictions(&self, window: Span, steps: usize) -> Option<Predictions> {
        let counts: Vec<f64> = self.windows(window).map(f64::from).collect();
        let predictions = (counts.len() + 1).checked_sub(PAST + steps)?;
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        if steps == 0 || predictions < 2 || mean == 0.0 {
            return None;
        }
        let correlation = autocorrelation(&counts, mean, steps);
        let first = PAST + steps - 1;
        let say = |rule: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            counts.windows(PAST).take(predictions).map(rule).collect()
        };
        let newest = |past: &[f64]| past[PAST - 1];
        Some(Predictions {
            first,
            actual: counts[first..].to_vec(),
            last: say(&newest),
            mean: say(&|past| past.iter().sum::<f64>() / PAST as f64),
            linear: say(&|past| line(past, steps)),
            k_step: say(&|past| mean + correlation * (newest(past) - mean)),
        })
    }

    /// How far the [`Trace::predictions`] are from what came. `None` where there are none.
    pub fn prediction_error(&self, window: Span, steps: usize) -> Option<PredictionError> {
        let said = self.predictions(window, steps)?;
        let (mut sum, mut count) = (0.0, 0u32);
        for n in self.windows(window) {
            sum += f64::from(n);
            count += 1;
        }
        let capacity = sum / f64::from(count);
        let error = |guesses: &[f64]| {
            let both = guesses.iter().zip(&said.actual);
            let squares: f64 = both.map(|(g, a)| (g - a) * (g - a)).sum();
            (squares / said.actual.len() as f64).sqrt() / capacity
        };
        Some(PredictionError {
            window,
            steps,
            last: error(&said.last),
            mean: error(&said.mean),
            linear: error(&said.linear),
            k_step: error(&said.k_step),
        })
    }
}

/// At this lag; 0 for a constant series.
fn autocorrelation(x: &[f64], mean: f64, lag: usize) -> f64 {
    let off = |a: &f64| a - mean;
    let variance: f64 = x.iter().map(|a| off(a) * off(a)).sum();
    let covariance: f64 = x.iter().zip(&x[lag..]).map(|(a, b)| off(a) * off(b)).sum();
    if variance == 0.0 {
        return 0.0;
    }
    covariance / variance
}

/// The least-squares line through `past` at equal distances, `steps` beyond its last point.
fn line(past: &[f64], steps: usize) -> f64 {
    let n = past.len() as f64;
    let centre = (n - 1.0) / 2.0;
    let mean = past.iter().sum::<f64>() / n;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (i, y) in past.iter().enumerate() {
        let x = i as f64 - centre;
        xy += x * y;
        xx += x * x;
    }
    (mean + xy / xx * (centre + steps as f64)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace with so many opportunities in each window of 10 ms.
    fn trace(counts: &[u32]) -> Trace {
        let mut all = Vec::new();
        for (n, count) in (0..).zip(counts) {
            all.extend((0..*count).map(|_| n * 10 + 5));
        }
        all.push(counts.len() as u32 * 10);
        Trace::new(all).unwrap()
    }

    #[test]
    fn a_ramp_is_a_line() {
        let ramp: Vec<u32> = (0..40).collect();
        let e = trace(&ramp)
            .prediction_error(Span::from_millis(10), 3)
            .unwrap();
        // The newest is three too low, the mean of ten 4.5 + 3 too low, the line exact; the mean
        // capacity is 19.5.
        assert!((e.last - 3.0 / 19.5).abs() < 1e-12, "{e:?}");
        assert!((e.mean - 7.5 / 19.5).abs() < 1e-12, "{e:?}");
        assert!(e.linear < 1e-12, "{e:?}");
    }

    #[test]
    fn what_alternates_is_foreseen_two_steps_ahead() {
        let zigzag: Vec<u32> = (0..1000).map(|n| 10 + 4 * (n % 2)).collect();
        let trace = trace(&zigzag);
        let error = |steps| {
            trace
                .prediction_error(Span::from_millis(10), steps)
                .unwrap()
        };
        assert!((error(1).last - 4.0 / 12.0).abs() < 1e-12);
        assert!(error(2).last < 1e-12);
        // One step ahead the correlation is -1: the k-step rule turns the newest around. Only the
        // edge of the sum is missing.
        assert!(error(1).k_step < 0.001, "{:?}", error(1));
        assert!((error(1).mean - 2.0 / 12.0).abs() < 1e-12);
    }

    #[test]
    fn too_little_is_not_judged() {
        let short = trace(&[1; 13]);
        assert!(short.prediction_error(Span::from_millis(10), 2).is_some());
        assert_eq!(short.prediction_error(Span::from_millis(10), 3), None);
        assert_eq!(short.prediction_error(Span::from_millis(10), 0), None);
    }
}
