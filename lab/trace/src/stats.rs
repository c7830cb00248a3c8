// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of a trace: the figures by which recorded and synthetic traces are compared.
use crate::Trace;
use alcc_units::{Rate, Span};

/// A gap longer than this counts as an outage.
pub const OUTAGE: Span = Span::from_millis(100);

/// Nearest-rank quantiles of a set of whole numbers; all 0 if the set is empty.
///
/// ```
/// use alcc_trace::Distribution;
///
/// let gaps = Distribution::of(vec![1, 1, 2, 40]);
/// assert_eq!((gaps.count, gaps.p50, gaps.max), (4, 1, 40));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// The smallest value.
    pub min: u32,
    /// 5 % are at most this.
    pub p05: u32,
    /// Half of the numbers are at most this.
    pub p50: u32,
    /// 95 % are at most this.
    pub p95: u32,
    /// 99 % are at most this.
    pub p99: u32,
    /// The largest.
    pub max: u32,
}

impl Distribution {
    /// The distribution of `numbers`, in any order.
    pub fn of(numbers: Vec<u32>) -> Self {
        Self::with_zeros(numbers, 0)
    }

    /// The distribution of `numbers`, in any order, and `zeros` zeros, which take no memory.
    pub fn with_zeros(mut numbers: Vec<u32>, zeros: u64) -> Self {
        numbers.sort_unstable();
        let count = zeros + numbers.len() as u64;
        if count == 0 {
            return Self::default();
        }
        let ranked = |rank: u64| match rank.checked_sub(zeros) {
            None => 0,
            Some(rank) => numbers[rank as usize],
        };
        // Without u128 the product could be too large.
        let quantile =
            |percent: u128| ranked((u128::from(count) * percent).div_ceil(100) as u64 - 1);
        Self {
            count,
            min: ranked(0),
            p05: quantile(5),
            p50: quantile(50),
            p95: quantile(95),
            p99: quantile(99),
            max: ranked(count - 1),
        }
    }
}

/// The statistics of a trace, over one period. The trace repeats, so the wait before its first
/// opportunity is the gap between the last opportunity and the next period's first.
#[derive(Clone, PartialEq, Debug)]
pub struct Stats {
    /// Length of the trace.
    pub period: Span,
    /// Number of opportunities: packets of 1500 bytes that it can carry.
    pub opportunities: u64,
    /// Capacity per time.
    pub mean_rate: Rate,
    /// Coefficient of variation of the capacity in windows of 20 ms; see [`Trace::variation`].
    pub cv_20ms: Option<f64>,
    /// The same in windows of 100 ms.
    pub cv_100ms: Option<f64>,
    /// The same in windows of 1 s.
    pub cv_1s: Option<f64>,
    /// Opportunities in each complete window of 20 ms.
    pub in_20ms: Distribution,
    /// Opportunities in each complete window of 100 ms.
    pub in_100ms: Distribution,
    /// Times from a millisecond with an opportunity to the next such millisecond, in ms.
    pub gaps: Distribution,
    /// Opportunities per burst. A burst is a run of opportunities in the same or adjacent
    /// milliseconds. It is the visible part of the base station's schedule for a receiver (Zaki et
    /// al., SIGCOMM 2015, section 3).
    pub bursts: Distribution,
    /// Times from the end of a burst to the start of the next, in ms.
    pub between_bursts: Distribution,
    /// Number of gaps longer than [`OUTAGE`].
    pub outages: u64,
    /// Total length of these.
    pub outage_time: Span,
}

impl Stats {
    /// Outages per minute of trace.
    pub fn outages_per_minute(&self) -> f64 {
        self.outages as f64 * 60.0 / self.period.as_secs_f64()
    }
}

/// Every gap and every burst of a trace, in order. The last gap is that to the next period's first
/// opportunity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bursts {
    /// The values of [`Stats::gaps`].
    pub gaps: Vec<u32>,
    /// The values of [`Stats::bursts`].
    pub sizes: Vec<u32>,
    /// The values of [`Stats::between_bursts`].
    pub between: Vec<u32>,
}

impl Trace {
    /// All gaps and bursts.
    pub fn bursts(&self) -> Bursts {
        let (mut gaps, mut sizes, mut between) = (Vec::new(), Vec::new(), Vec::new());
        let mut burst = 1;
        for pair in self.opportunities().windows(2) {
            let gap = pair[1] - pair[0];
            if gap > 0 {
                gaps.push(gap);
            }
            if gap > 1 {
                sizes.push(burst);
                between.push(gap);
                burst = 0;
            }
            burst += 1;
        }
        sizes.push(burst);
        // The trace repeats.
        let first = self.opportunities()[0];
        gaps.extend((first > 0).then_some(first));
        between.extend((first > 1).then_some(first));
        Bursts {
            gaps,
            sizes,
            between,
        }
    }

    /// Measures the trace.
    pub fn stats(&self) -> Stats {
        let Bursts {
            gaps,
            sizes,
            between,
        } = self.bursts();
        let outage = |gap: &&u32| Span::from_millis(u64::from(**gap)) > OUTAGE;
        let inside = |ms| {
            let window = Span::from_millis(ms);
            let counts: Vec<u32> = self.occupied(window).map(|(_, count)| count).collect();
            let silent = self.complete_windows(window) - counts.len() as u64;
            Distribution::with_zeros(counts, silent)
        };
        Stats {
            period: self.period(),
            opportunities: self.len() as u64,
            mean_rate: self.mean_rate(),
            cv_20ms: self.variation(Span::from_millis(20)),
            cv_100ms: self.variation(Span::from_millis(100)),
            cv_1s: self.variation(Span::from_secs(1)),
            in_20ms: inside(20),
            in_100ms: inside(100),
            outages: gaps.iter().filter(outage).count() as u64,
            outage_time: Span::from_millis(
                gaps.iter().filter(outage).map(|&gap| u64::from(gap)).sum(),
            ),
            gaps: Distribution::of(gaps),
            bursts: Distribution::of(sizes),
            between_bursts: Distribution::of(between),
        }
    }

    /// Opportunities in each complete window of the period, from its start. Windows are whole
    /// milliseconds, at least 1. A trace of a few bytes may have 2^32 of them, so computations on
    /// whole traces use only non-empty ones.
    pub fn windows(&self, window: Span) -> impl Iterator<Item = u32> + '_ {
        let mut occupied = self.occupied(window).peekable();
        (0..self.complete_windows(window)).map(move |n| {
            let holds = occupied.next_if(|(at, _)| *at == n);
            holds.map_or(0, |(_, count)| count)
        })
    }

    /// Number of complete windows in the period.
    pub fn complete_windows(&self, window: Span) -> u64 {
        u64::from(self.period_ms()) / width_ms(window)
    }

    /// The non-empty complete windows: their number from 0, and the opportunities in each.
    pub(crate) fn occupied(&self, window: Span) -> impl Iterator<Item = (u64, u32)> + '_ {
        let width = width_ms(window);
        let complete = self.complete_windows(window);
        let mut rest = self.opportunities();
        std::iter::from_fn(move || {
            let n = u64::from(*rest.first()?) / width;
            if n >= complete {
                return None;
            }
            let end = (n + 1) * width;
            let inside = rest.partition_point(|&at| u64::from(at) < end);
            rest = &rest[inside..];
            Some((n, inside as u32))
        })
    }

    /// Coefficient of variation (population standard deviation / mean) of the capacity in complete
    /// windows of this length. `None` with fewer than two windows, or if all are empty.
    pub fn variation(&self, window: Span) -> Option<f64> {
        let n = self.complete_windows(window);
        let (mut sum, mut squares) = (0u128, 0u128);
        for (_, count) in self.occupied(window) {
            sum += u128::from(count);
            squares += u128::from(count) * u128::from(count);
        }
        if n < 2 || sum == 0 {
            return None;
        }
        // n * squares >= sum^2 holds exactly in integers, so the root is never of a negative
        // number.
        let variance = (u128::from(n) * squares - sum * sum) as f64;
        Some(variance.sqrt() / sum as f64)
    }
}

fn width_ms(window: Span) -> u64 {
    (window.as_nanos() / 1_000_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank_quantiles() {
        let all = Distribution::of((1..=200).rev().collect());
        assert_eq!((all.count, all.p50, all.p95), (200, 100, 190));
        assert_eq!((all.min, all.p05), (1, 10));
        assert_eq!((all.p99, all.max), (198, 200));
        assert_eq!(Distribution::of(vec![7]).p50, 7);
        assert_eq!(Distribution::of(vec![]), Distribution::default());
        for zeros in [1, 7, 100] {
            let numbers: Vec<u32> = (1..=50).collect();
            let mut all = numbers.clone();
            all.resize(50 + zeros, 0);
            let sparse = Distribution::with_zeros(numbers, zeros as u64);
            assert_eq!(sparse, Distribution::of(all), "{zeros}");
        }
        assert_eq!(Distribution::with_zeros(vec![], 3).count, 3);
    }

    /// Windows that were counted one by one would take minutes here, and 10 GB if they were kept.
    #[test]
    fn seven_weeks_of_silence_are_measured_at_once() {
        let trace = Trace::new(vec![1, u32::MAX]).unwrap();
        let stats = trace.stats();
        assert_eq!(stats.in_20ms.count, u64::from(u32::MAX) / 20);
        assert_eq!((stats.in_20ms.p99, stats.in_20ms.max), (0, 1));
        // One window of n has one opportunity: the variance is (n - 1) / n^2, the mean 1 / n.
        let n = (u64::from(u32::MAX) / 1000) as f64;
        let cv = stats.cv_1s.unwrap();
        assert!((cv - (n - 1.0).sqrt()).abs() < 1e-6 * cv, "{cv}");
        assert_eq!(trace.windows(Span::from_secs(100_000)).count(), 42);
    }

    #[test]
    fn variation_by_hand() {
        // windows of 10 ms hold 3, 1 and 2 (the opportunity at 30 is past the last): mean 2,
        // variance 2/3
        let trace = Trace::new(vec![0, 1, 9, 10, 25, 29, 30]).unwrap();
        let windows: Vec<_> = trace.windows(Span::from_millis(10)).collect();
        assert_eq!(windows, [3, 1, 2]);
        let cv = trace.variation(Span::from_millis(10)).unwrap();
        assert!((cv - (2.0f64 / 3.0).sqrt() / 2.0).abs() < 1e-12, "{cv}");
        assert_eq!(trace.variation(Span::from_millis(20)), None);
    }

    #[test]
    fn bursts_and_outages_by_hand() {
        // bursts: 0 0 1 | 5 | 7 8 9 | 210 | 311; gaps between milliseconds: 1 4 2 1 1 201 101
        let stats = Trace::new(vec![0, 0, 1, 5, 7, 8, 9, 210, 311])
            .unwrap()
            .stats();
        assert_eq!(stats.gaps.count, 7);
        assert_eq!((stats.gaps.p50, stats.gaps.max), (2, 201));
        assert_eq!(
            (stats.bursts.count, stats.bursts.p50, stats.bursts.max),
            (5, 1, 3)
        );
        assert_eq!(
            (stats.between_bursts.count, stats.between_bursts.p50),
            (4, 4)
        );
        assert_eq!(stats.outages, 2);
        assert_eq!(stats.outage_time, Span::from_millis(302));
    }

    #[test]
    fn silence_before_the_first_opportunity_is_a_gap() {
        let stats = Trace::new(vec![120_000, 120_001]).unwrap().stats();
        assert_eq!((stats.gaps.count, stats.gaps.max), (2, 120_000));
        assert_eq!(stats.between_bursts.max, 120_000);
        assert_eq!(stats.outages, 1);
        assert_eq!(stats.outage_time, Span::from_secs(120));
    }
}
