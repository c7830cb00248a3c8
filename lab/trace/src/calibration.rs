// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The check whether a synthetic trace resembles a recorded one: the figures that are compared, and
//! their tolerances.
use crate::Stats;

/// Limits of equality: a figure of a synthetic trace counts as equal to that of the recorded trace if the ratio of the
/// two figures, or their difference, is within its limit. The limit of the difference is for small times and counts:
/// these are whole milliseconds or packets, so their ratio is too coarse.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Agreement {
    /// Maximum ratio of the larger to the smaller.
    pub factor: f64,
    /// Maximum difference, in the figure's unit.
    pub within: f64,
}

impl Agreement {
    const fn factor(factor: f64) -> Self {
        Self::or(factor, 0.0)
    }

    const fn or(factor: f64, within: f64) -> Self {
        Self { factor, within }
    }
}

/// One figure of both traces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    /// The name of the figure, with its unit.
    pub name: &'static str,
    /// Its value for the recording.
    pub recorded: f64,
    /// Its value for the synthetic trace.
    pub synthetic: f64,
    /// The tolerance.
    pub bound: Agreement,
}

impl Figure {
    /// Synthetic over recorded; infinite or NaN if the recorded value is 0.
    pub fn ratio(&self) -> f64 {
        self.synthetic / self.recorded
    }

    /// True if the figure is within its tolerance.
    pub fn agrees(&self) -> bool {
        let ratio = self.ratio();
        (self.synthetic - self.recorded).abs() <= self.bound.within
            || (ratio <= self.bound.factor && ratio >= 1.0 / self.bound.factor)
    }
}

/// The figures in which a synthetic trace must agree with its recording. The mean is within 5 %,
/// variability within 15 %, quantiles within 25 % or one whole unit. The extremes are within a
/// factor, because a recording has only one sample of them.
pub fn compare(recorded: &Stats, synthetic: &Stats) -> Vec<Figure> {
    const MEAN: Agreement = Agreement::factor(1.05);
    const VARIATION: Agreement = Agreement::factor(1.15);
    const QUANTILE: Agreement = Agreement::or(1.25, 1.0);
    const TAIL: Agreement = Agreement::or(1.35, 1.0);
    const LONGEST: Agreement = Agreement::factor(2.0);
    const OUTAGES: Agreement = Agreement::or(1.5, 0.5);
    const OUTAGE_TIME: Agreement = Agreement::or(1.6, 100.0);
    let ms = |n: u32| f64::from(n);
    let outage_ms = |s: &Stats| s.outage_time.as_millis_f64() * 60.0 / s.period.as_secs_f64();
    let cv = |cv: Option<f64>| cv.unwrap_or(f64::NAN);
    let figure = |name, bound, of: &dyn Fn(&Stats) -> f64| Figure {
        name,
        recorded: of(recorded),
        synthetic: of(synthetic),
        bound,
    };
    vec![
        figure("mean Mbit/s", MEAN, &|s| s.mean_rate.as_mbps_f64()),
        figure("CV @20 ms", VARIATION, &|s| cv(s.cv_20ms)),
        figure("CV @100 ms", VARIATION, &|s| cv(s.cv_100ms)),
        figure("CV @1 s", VARIATION, &|s| cv(s.cv_1s)),
        figure("gap p50 ms", QUANTILE, &|s| ms(s.gaps.p50)),
        figure("gap p95 ms", QUANTILE, &|s| ms(s.gaps.p95)),
        figure("gap p99 ms", TAIL, &|s| ms(s.gaps.p99)),
        figure("gap longest ms", LONGEST, &|s| ms(s.gaps.max)),
        figure("burst p50 packets", QUANTILE, &|s| ms(s.bursts.p50)),
        figure("burst p95 packets", QUANTILE, &|s| ms(s.bursts.p95)),
        figure("between bursts p50 ms", QUANTILE, &|s| {
            ms(s.between_bursts.p50)
        }),
        figure("between bursts p95 ms", QUANTILE, &|s| {
            ms(s.between_bursts.p95)
        }),
        figure("outages /min", OUTAGES, &|s| s.outages_per_minute()),
        figure("outage ms/min", OUTAGE_TIME, &outage_ms),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trace;

    fn figure(recorded: f64, synthetic: f64, bound: Agreement) -> Figure {
        Figure {
            name: "",
            recorded,
            synthetic,
            bound,
        }
    }

    #[test]
    fn bounds_hold_both_ways() {
        let tight = Agreement::factor(1.05);
        assert!(figure(100.0, 105.0, tight).agrees());
        assert!(!figure(100.0, 106.0, tight).agrees());
        assert!(!figure(100.0, 95.0, tight).agrees());
        let either = Agreement::or(1.25, 1.0);
        assert!(figure(2.0, 3.0, either).agrees());
        assert!(!figure(2.0, 4.0, either).agrees());
        assert!(figure(0.0, 0.0, either).agrees());
        assert!(!figure(f64::NAN, 1.0, either).agrees());
    }

    #[test]
    fn a_trace_agrees_with_itself_and_not_with_half_of_it() {
        let times: Vec<u32> = (1..=40_000).map(|n| n * 3 / 2 + (n % 7)).collect();
        let mut sorted = times;
        sorted.sort_unstable();
        let trace = Trace::new(sorted).unwrap();
        let stats = trace.stats();
        assert!(compare(&stats, &stats).iter().all(Figure::agrees));
        let half = trace.scale(0.5).unwrap().stats();
        let differ: Vec<_> = compare(&stats, &half)
            .into_iter()
            .filter(|f| !f.agrees())
            .map(|f| f.name)
            .collect();
        assert!(differ.contains(&"mean Mbit/s"), "{differ:?}");
    }
}
