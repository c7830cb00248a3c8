// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of simple predictors of capacity (Zaki et al., SIGCOMM 2015, section 3). They show why an
//! algorithm for such links measures rather than predicts.
use crate::Trace;
use alcc_units::Span;

/// Number of past windows that a predictor uses.
const PAST: usize = 10;

/// Root mean square errors of predictions of the capacity of one window, each as a share of the
/// mean capacity. The coefficient of variation ([`Trace::variation`]) is the error of always
/// predicting the mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PredictionError {
    /// Length of the windows.
    pub window: Span,
    /// Number of windows ahead, at least 1.
    pub steps: usize,
    /// Predictor: the newest window again.
    pub last: f64,
    /// Predictor: the mean of the last ten.
    pub mean: f64,
    /// Predictor: the straight line through the last ten by least squares, not below zero.
    pub linear: f64,
    /// Predictor: the best linear rule from the newest window alone, with knowledge of the whole
    /// trace's mean and autocorrelation.
    pub k_step: f64,
}

/// The predictions for a series of windows, with the actual values; in opportunities per window.
#[derive(Clone, PartialEq, Debug)]
pub struct Predictions {
    /// The number of the first window that is predicted; the others follow it.
    pub first: usize,
    /// The actual values.
    pub actual: Vec<f64>,
    /// The predictions of [`PredictionError::last`].
    pub last: Vec<f64>,
    /// The predictions of [`PredictionError::mean`].
    pub mean: Vec<f64>,
    /// The predictions of [`PredictionError::linear`].
    pub linear: Vec<f64>,
    /// The predictions of [`PredictionError::k_step`].
    pub k_step: Vec<f64>,
}

impl Trace {
    /// Predicts windows `steps` ahead from the ten before the prediction: the first `most` of
    /// these. `None` if `steps` is 0, with fewer than two predictions, or without capacity.
    pub fn predictions(&self, window: Span, steps: usize, most: usize) -> Option<Predictions> {
        let series = Series::of(self, window, steps)?;
        let first = PAST + steps - 1;
        let shown = self.windows(window).take(first.saturating_add(most));
        let counts: Vec<f64> = shown.map(f64::from).collect();
        let say = |rule: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            let predictions = counts.len().saturating_sub(first);
            counts.windows(PAST).take(predictions).map(rule).collect()
        };
        Some(Predictions {
            first,
            actual: counts.get(first..).unwrap_or_default().to_vec(),
            last: say(&newest),
            mean: say(&mean_of),
            linear: say(&|past| line(past, steps)),
            k_step: say(&|past| series.k_step(past)),
        })
    }

    /// The errors of the predictions of all windows, as in [`Trace::predictions`]. `None` if there
    /// are none.
    pub fn prediction_error(&self, window: Span, steps: usize) -> Option<PredictionError> {
        let series = Series::of(self, window, steps)?;
        let mut squares = [0.0; 4];
        series.walk(PAST + steps, |values, times| {
            let (past, actual) = (&values[..PAST], values[PAST + steps - 1]);
            let guesses = [
                newest(past),
                mean_of(past),
                line(past, steps),
                series.k_step(past),
            ];
            for (sum, guess) in squares.iter_mut().zip(guesses) {
                *sum += (guess - actual) * (guess - actual) * times;
            }
        });
        let predictions = (series.count - (PAST + steps - 1) as u64) as f64;
        let [last, mean, linear, k_step] =
            squares.map(|sum| (sum / predictions).sqrt() / series.mean);
        Some(PredictionError {
            window,
            steps,
            last,
            mean,
            linear,
            k_step,
        })
    }
}

/// The capacity of all windows of a trace. Only non-empty ones are visited, because a trace of two
/// lines may have 2^32.
struct Series<'a> {
    trace: &'a Trace,
    window: Span,
    count: u64,
    mean: f64,
    /// Autocorrelation at the lag of `steps`.
    correlation: f64,
}

impl<'a> Series<'a> {
    /// A series; `None` if there are too few windows for a prediction.
    fn of(trace: &'a Trace, window: Span, steps: usize) -> Option<Self> {
        let count = trace.complete_windows(window);
        let predictions = (count + 1).checked_sub((PAST + steps) as u64)?;
        let sum: u64 = trace.occupied(window).map(|(_, n)| u64::from(n)).sum();
        if steps == 0 || predictions < 2 || sum == 0 {
            return None;
        }
        let mut series = Self {
            trace,
            window,
            count,
            mean: sum as f64 / count as f64,
            correlation: 0.0,
        };
        series.correlation = series.autocorrelation(steps);
        Some(series)
    }

    /// Calls `visit` for each run of `depth` windows, in order, with its number of repetitions,
    /// which is above 1 only for runs of empty windows.
    fn walk(&self, depth: usize, mut visit: impl FnMut(&[f64], f64)) {
        /// Number of values after which they are moved to the front.
        const KEPT: usize = 4096;
        let mut recent = Vec::with_capacity(KEPT + depth);
        let mut push = |value: f64, times: u64| {
            recent.push(value);
            if let Some(from) = recent.len().checked_sub(depth) {
                visit(&recent[from..], times as f64);
                if recent.len() == KEPT + depth {
                    recent.drain(..=from);
                }
            }
        };
        let mut next = 0;
        let end = std::iter::once((self.count, 0));
        for (at, count) in self.trace.occupied(self.window).chain(end) {
            let silent = at - next;
            let single = silent.min(depth as u64);
            (0..single).for_each(|_| push(0.0, 1));
            if silent > single {
                push(0.0, silent - single);
            }
            if at < self.count {
                push(f64::from(count), 1);
            }
            next = at + 1;
        }
    }

    /// The autocorrelation at this lag; 0 for a constant series.
    fn autocorrelation(&self, lag: usize) -> f64 {
        let (mut variance, mut covariance) = (0.0, 0.0);
        let off = |a: f64| a - self.mean;
        self.walk(1, |x, times| variance += off(x[0]) * off(x[0]) * times);
        self.walk(lag + 1, |x, times| {
            covariance += off(x[0]) * off(x[lag]) * times;
        });
        if variance == 0.0 {
            return 0.0;
        }
        covariance / variance
    }

    fn k_step(&self, past: &[f64]) -> f64 {
        self.mean + self.correlation * (newest(past) - self.mean)
    }
}

fn newest(past: &[f64]) -> f64 {
    past[PAST - 1]
}

fn mean_of(past: &[f64]) -> f64 {
    past.iter().sum::<f64>() / PAST as f64
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

    /// A trace with this number of opportunities in each window of 10 ms.
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

    /// Silence is added up at once, and must come to what its windows come to one by one.
    #[test]
    fn silence_counts_as_its_windows_do() {
        let mut counts = vec![0; 30];
        counts.extend([3, 0, 0, 9, 1]);
        counts.extend([0; 57]);
        counts.extend([2, 2, 7]);
        counts.extend([0; 5000]);
        let trace = trace(&counts);
        for steps in [1, 2, 5] {
            let all = trace
                .predictions(Span::from_millis(10), steps, usize::MAX)
                .unwrap();
            let mean = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
            let error = |said: &[f64]| {
                let squares = said.iter().zip(&all.actual).map(|(s, a)| (s - a) * (s - a));
                (squares.sum::<f64>() / all.actual.len() as f64).sqrt() / mean
            };
            let found = trace
                .prediction_error(Span::from_millis(10), steps)
                .unwrap();
            for (found, want) in [
                (found.last, error(&all.last)),
                (found.mean, error(&all.mean)),
                (found.linear, error(&all.linear)),
                (found.k_step, error(&all.k_step)),
            ] {
                assert!((found - want).abs() < 1e-9 * want, "{found} {want}");
            }
        }
        let weeks = Trace::new(vec![1, u32::MAX]).unwrap();
        let found = weeks.prediction_error(Span::from_millis(20), 10).unwrap();
        assert!(found.k_step > 0.0 && found.last.is_finite(), "{found:?}");
        let some = weeks.predictions(Span::from_millis(20), 1, 7).unwrap();
        assert_eq!((some.actual.len(), some.k_step.len()), (7, 7));
    }

    #[test]
    fn too_little_is_not_judged() {
        let short = trace(&[1; 13]);
        assert!(short.prediction_error(Span::from_millis(10), 2).is_some());
        assert_eq!(short.prediction_error(Span::from_millis(10), 3), None);
        assert_eq!(short.prediction_error(Span::from_millis(10), 0), None);
    }
}
