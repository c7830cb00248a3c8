// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares an algorithm over TCP with its native form: their differences, and whether these are
//! within the bounds.
//!
//! Each repetition is a pair: both forms ran at the same time on links of their own. Differences
//! are taken within a pair. The report has their median and their 90 % interval over the
//! repetitions: 5th to 95th percentile by nearest rank.
use crate::Tolerance;
use crate::groups::Spread;
use crate::row::{Row, SIMULATED};
use crate::series::{Series, quantiles};
use alcc_units::percentile;
use serde::{Deserialize, Serialize};

/// Maximum distance of the medians.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Bound of the throughputs, in % of the native form.
    pub throughput: Tolerance,
    /// Bound of the queueing delays, in ms.
    pub delay: Tolerance,
}

impl Bounds {
    /// Bounds of most forms.
    pub const USUAL: Self = Self {
        throughput: Tolerance::absolute(3.0),
        delay: Tolerance::percent(5.0).or(2.0),
    };
    /// Bounds for a window that the kernel enforces exactly (enforcement `bpf`).
    pub const IN_KERNEL: Self = Self {
        throughput: Tolerance::absolute(2.0),
        delay: Tolerance::percent(3.0).or(1.0),
    };

    fn of(row: &Row) -> Self {
        if row.enforcement == "bpf" {
            Self::IN_KERNEL
        } else {
            Self::USUAL
        }
    }
}

/// Maximum width of a 90 % interval. For differences it is a multiple of their bound, for the
/// distribution a multiple of the native one's.
pub const MAX_INTERVAL_FACTOR: f64 = 2.0;

/// Native and over TCP on one link. Of two values the first is the native's.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Pair {
    /// The link.
    pub link: String,
    /// The native scheme.
    pub native: String,
    /// The scheme that is compared with it.
    pub scheme: String,
    /// Algorithm, feedback, enforcement and what is under it, of both.
    pub triples: [String; 2],
    /// Number of repetitions that both finished.
    pub runs: u32,
    /// Median over the seconds of a run, median of the runs, Mbit/s.
    pub throughput_mbps: [f64; 2],
    /// Difference per run, in % of the native scheme's value: the scheme's value minus the native
    /// one's.
    pub throughput_difference: Spread,
    /// Its 5th and 95th percentile.
    pub throughput_interval: [f64; 2],
    /// Median over the packets of a run, median of the runs, without propagation, ms.
    pub queue_delay_ms: [f64; 2],
    /// Difference per run, in ms: the scheme's value minus the native one's.
    pub queue_delay_difference_ms: Spread,
    /// Its 5th and 95th percentile.
    pub queue_delay_interval_ms: [f64; 2],
    /// 5th and 95th percentile of the throughput of single seconds, medians of the runs, Mbit/s.
    pub throughput_90: [[f64; 2]; 2],
    /// 5th and 95th percentile of the one-way delay of packets, medians of the runs, ms.
    pub delay_90_ms: [[f64; 2]; 2],
    /// True for each bound that holds.
    pub within: BoundsHeld,
}

/// True for each bound that holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BoundsHeld {
    /// The median throughput differs by no more than the [`Bounds`] say.
    pub throughput: bool,
    /// The median queueing delay differs by no more than the [`Bounds`] say.
    pub delay: bool,
    /// The 90 % intervals of both differences are inside [`MAX_INTERVAL_FACTOR`] times the bounds.
    pub interval: bool,
    /// The 90 % intervals of single seconds' throughput and single packets' delay are inside the
    /// native's, widened about its middle by [`MAX_INTERVAL_FACTOR`].
    pub distribution: bool,
}

impl BoundsHeld {
    /// True if all bounds hold.
    pub fn all(self) -> bool {
        self.throughput && self.delay && self.interval && self.distribution
    }
}

/// One run of one of the two forms.
struct PairedRun<'a> {
    row: &'a Row,
    throughput: Vec<f64>,
    series: &'a Series,
    queue_delay_ms: f64,
}

impl<'a> PairedRun<'a> {
    fn of(row: &'a Row, series: &'a [Series]) -> Option<Self> {
        let same_run = |s: &&Series| {
            s.scheme == row.scheme && s.link == row.link && s.run == row.run && s.side == row.side
        };
        let series = series.iter().find(same_run)?;
        let mut throughput: Vec<f64> = series.seconds_mbps().collect();
        throughput.sort_by(f64::total_cmp);
        Some(Self {
            row,
            throughput,
            series,
            queue_delay_ms: row.queue_delay_median_ms?,
        })
    }

    /// Median throughput of its seconds.
    fn median(&self) -> f64 {
        Spread::of(&self.throughput).unwrap_or_default().median
    }

    fn throughput_90(&self) -> [f64; 2] {
        interval(&self.throughput)
    }

    fn delay_90(&self) -> Option<[f64; 2]> {
        let at = |q: f64| {
            let all = quantiles();
            let i = all.iter().position(|known| (known - q).abs() < 1e-9)?;
            self.series.delay_quantiles_ms.get(i).copied()
        };
        Some([at(0.05)?, at(0.95)?])
    }
}

/// 5th and 95th percentile of sorted values, by nearest rank; zeros of none.
fn interval(sorted: &[f64]) -> [f64; 2] {
    [5, 95].map(|percent| percentile(sorted, percent).unwrap_or_default())
}

/// Pairs every form of an algorithm with the first native one, on each link.
pub fn pairs(rows: &[Row], series: &[Series]) -> Vec<Pair> {
    let mut schemes: Vec<&Row> = Vec::new();
    let not_simulated = |row: &&Row| row.side.as_deref() != Some(SIMULATED);
    for row in rows.iter().filter(not_simulated) {
        let same = |r: &&Row| r.link == row.link && r.scheme == row.scheme;
        if !schemes.iter().any(same) {
            schemes.push(row);
        }
    }
    let mut found = Vec::new();
    for (i, native) in schemes.iter().enumerate() {
        let same_algorithm = |row: &Row| {
            (&row.link, &row.algorithm, &row.options)
                == (&native.link, &native.algorithm, &native.options)
        };
        let first = |row: &&Row| row.is_native() && same_algorithm(row);
        if !native.is_native() || schemes[..i].iter().any(first) {
            continue;
        }
        let others = schemes
            .iter()
            .filter(|r| same_algorithm(r) && r.scheme != native.scheme);
        for other in others.filter(|r| r.feedback != "kernel") {
            found.extend(pair(native, other, rows, series));
        }
    }
    found
}

fn pair(native: &Row, other: &Row, rows: &[Row], series: &[Series]) -> Option<Pair> {
    let run = |scheme: &Row, number: u32| {
        let row = rows.iter().find(|r| {
            (&r.link, &r.scheme, &r.side, r.run)
                == (&scheme.link, &scheme.scheme, &scheme.side, number)
        });
        row.filter(|r| r.error.is_none())
            .and_then(|r| PairedRun::of(r, series))
    };
    let numbers = rows.iter().filter(|r| r.scheme == native.scheme);
    let mut numbers: Vec<u32> = numbers.map(|r| r.run).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let both: Vec<[PairedRun<'_>; 2]> = numbers
        .into_iter()
        .filter_map(|number| Some([run(native, number)?, run(other, number)?]))
        .filter(|[n, _]| n.median() > 0.0)
        .collect();
    let first = both.first()?;
    let medians = |value: &dyn Fn(&PairedRun<'_>) -> f64| {
        [0, 1].map(|side| {
            let all: Vec<f64> = both.iter().map(|pair| value(&pair[side])).collect();
            Spread::of(&all).unwrap_or_default().median
        })
    };
    let differences = |value: &dyn Fn(&[PairedRun<'_>; 2]) -> f64| {
        let mut all: Vec<f64> = both.iter().map(value).collect();
        all.sort_by(f64::total_cmp);
        (Spread::of(&all).unwrap_or_default(), interval(&all))
    };
    let (throughput_difference, throughput_interval) =
        differences(&|[n, o]| 100.0 * (o.median() / n.median() - 1.0));
    let (queue_delay_difference_ms, queue_delay_interval_ms) =
        differences(&|[n, o]| o.queue_delay_ms - n.queue_delay_ms);
    let percentiles = |value: &dyn Fn(&PairedRun<'_>) -> [f64; 2]| {
        let [low, high] = [0, 1].map(|end| medians(&|run| value(run)[end]));
        [[low[0], high[0]], [low[1], high[1]]]
    };
    let queue_delay_ms = medians(&|run| run.queue_delay_ms);
    let throughput_90 = percentiles(&|run| run.throughput_90());
    let delay_90_ms = percentiles(&|run| run.delay_90().unwrap_or_default());
    let bounds = Bounds::of(first[1].row);
    let throughput_bound = bounds.throughput.absolute;
    let delay_bound = bounds.delay.around(queue_delay_ms[0]);
    let is_within = |[low, high]: [f64; 2], bound: f64| low >= -bound && high <= bound;
    Some(Pair {
        link: native.link.clone(),
        native: native.scheme.clone(),
        scheme: other.scheme.clone(),
        triples: [first[0].row, first[1].row].map(Row::triple),
        runs: both.len() as u32,
        throughput_mbps: medians(&|run| run.median()),
        throughput_difference,
        throughput_interval,
        queue_delay_ms,
        queue_delay_difference_ms,
        queue_delay_interval_ms,
        throughput_90,
        delay_90_ms,
        within: BoundsHeld {
            throughput: throughput_difference.median.abs() <= throughput_bound,
            delay: queue_delay_difference_ms.median.abs() <= delay_bound,
            interval: is_within(throughput_interval, MAX_INTERVAL_FACTOR * throughput_bound)
                && is_within(queue_delay_interval_ms, MAX_INTERVAL_FACTOR * delay_bound),
            distribution: is_inside_widened(throughput_90) && is_inside_widened(delay_90_ms),
        },
    })
}

/// True if the second interval is inside the first one, widened about its middle by
/// [`MAX_INTERVAL_FACTOR`].
fn is_inside_widened([[low, high], other]: [[f64; 2]; 2]) -> bool {
    let middle = f64::midpoint(low, high);
    let half = MAX_INTERVAL_FACTOR * (high - low) / 2.0;
    other[0] >= middle - half && other[1] <= middle + half
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row and its series. It has throughput of five bins per second, delays evenly from `ms` to
    /// 3 `ms`, and propagation of 20 ms.
    fn run(scheme: &str, number: u32, seconds: &[f64], ms: f64) -> (Row, Series) {
        let native = scheme.ends_with("-udp");
        let row = Row {
            scheme: scheme.into(),
            algorithm: "verus".into(),
            feedback: if native { "udp" } else { "in-band" }.into(),
            enforcement: if native { "native" } else { "queue" }.into(),
            under: (!native).then(|| "cubic".into()),
            link: "l".into(),
            run: number,
            queue_delay_median_ms: Some(2.0 * ms),
            ..Row::default()
        };
        let series = Series {
            scheme: scheme.into(),
            link: "l".into(),
            run: number,
            bin_s: 0.2,
            // Unequal bins with the same mean.
            throughput_mbps: seconds
                .iter()
                .flat_map(|s| [s - 1.0, s + 1.0, s - 0.5, s + 0.5, *s])
                .collect(),
            delay_quantiles_ms: quantiles()
                .iter()
                .map(|q| 20.0 + ms * (1.0 + 2.0 * q))
                .collect(),
            ..Series::default()
        };
        (row, series)
    }

    fn found(all: &[(Row, Series)]) -> Vec<Pair> {
        let (rows, series): (Vec<_>, Vec<_>) = all.iter().cloned().unzip();
        pairs(&rows, &series)
    }

    #[test]
    fn differences_are_taken_inside_a_pair() {
        let all = [
            run("verus-udp", 1, &[8.0, 10.0, 12.0], 50.0),
            run("alcc-verus-inband", 1, &[8.0, 10.2, 12.0], 51.0),
            run("verus-udp", 2, &[8.0, 11.0, 12.0], 60.0),
            run("alcc-verus-inband", 2, &[8.0, 11.0, 12.0], 61.0),
            run("verus-udp", 3, &[8.0, 12.0, 12.5], 55.0),
            run("alcc-verus-inband", 3, &[8.0, 11.4, 12.5], 53.5),
            // A row without another form of its algorithm.
            run("verus-udp", 4, &[1.0], 500.0),
        ];
        let found = found(&all);
        let [pair] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((pair.native.as_str(), pair.runs), ("verus-udp", 3));
        assert_eq!(pair.triples[1], "verus / in-band / queue over cubic");
        // Medians 10, 11, 12 beside 10.2, 11, 11.4: +2 %, 0 %, -5 %.
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(pair.throughput_mbps[0], 11.0);
        near(pair.throughput_mbps[1], 11.0);
        near(pair.throughput_difference.median, 0.0);
        near(pair.throughput_interval[0], -5.0);
        near(pair.throughput_interval[1], 2.0);
        // Queueing 100, 120, 110 beside 102, 122, 107.
        near(pair.queue_delay_ms[0], 110.0);
        near(pair.queue_delay_difference_ms.median, 2.0);
        near(pair.queue_delay_interval_ms[0], -3.0);
        // 5 % and 95 % of 50 (1 + 2 q) + 20 is 75 and 165 in the first run; the median run is the
        // third with 55.
        near(pair.delay_90_ms[0][0], 20.0 + 55.0 * 1.1);
        near(pair.delay_90_ms[0][1], 20.0 + 55.0 * 2.9);
        assert!(pair.within.all(), "{:?}", pair.within);
    }

    #[test]
    fn each_bound_can_be_missed() {
        let pair = |seconds: &[f64], ms: f64| {
            let all = [
                run("verus-udp", 1, &[8.0, 10.0, 12.0], 10.0),
                run("alcc-verus-inband", 1, seconds, ms),
            ];
            found(&all)[0].within
        };
        let good = pair(&[8.0, 10.0, 12.0], 10.0);
        assert!(good.all());
        // 4 % less: outside 3 %, inside twice that.
        let slow = pair(&[8.0, 9.6, 12.0], 10.0);
        assert!(!slow.throughput && slow.delay && slow.interval);
        // 7 % less is outside that, too.
        assert!(!pair(&[8.0, 9.3, 12.0], 10.0).interval);
        // Queueing 20 ms: 2 ms more is allowed, 3 not, and 5 is outside the interval.
        assert!(pair(&[8.0, 10.0, 12.0], 11.0).delay);
        let late = pair(&[8.0, 10.0, 12.0], 11.5);
        assert!(!late.delay && late.interval);
        assert!(!pair(&[8.0, 10.0, 12.0], 12.5).interval);
        // Seconds of 5.9 to 14: the native's 8 to 12 stretched is 6 to 14.
        assert!(!pair(&[5.9, 10.0, 14.0], 10.0).distribution);
        assert!(pair(&[6.0, 10.0, 14.0], 10.0).distribution);
    }

    #[test]
    fn a_window_in_the_kernel_is_to_be_nearer() {
        let within = |enforcement: &str, seconds: &[f64], ms: f64| {
            let mut all = [
                run("verus-udp", 1, &[8.0, 10.0, 12.0], 10.0),
                run("alcc-verus", 1, seconds, ms),
            ];
            all[1].0.enforcement = enforcement.into();
            found(&all)[0].within
        };
        // 2.5 % less, then 1.5 ms more of 20.
        let less = [8.0, 9.75, 12.0];
        assert!(within("gate+pacing", &less, 10.0).throughput);
        assert!(!within("bpf", &less, 10.0).throughput);
        assert!(within("gate+pacing", &[8.0, 10.0, 12.0], 10.75).delay);
        assert!(!within("bpf", &[8.0, 10.0, 12.0], 10.75).delay);
        assert!(within("bpf", &[8.0, 10.0, 12.0], 10.4).all());
    }

    #[test]
    fn only_forms_of_one_algorithm_are_paired() {
        let mut all = vec![
            run("verus-udp", 1, &[8.0], 10.0),
            run("alcc-verus-inband", 1, &[8.0], 10.0),
            run("alcc-verus-inband", 2, &[8.0], 10.0),
        ];
        all[1].0.options = "r=4".into();
        all[2].0.options = "r=4".into();
        assert!(found(&all).is_empty());
        all[1].0.options = String::new();
        assert_eq!(found(&all).len(), 1);
        all[1].0.error = Some("it broke".into());
        assert!(found(&all).is_empty(), "no run that both finished");
        all[1].0.error = None;
        all[0].0.side = Some(SIMULATED.into());
        assert!(
            found(&all).is_empty(),
            "a simulated native form is not a reference"
        );
    }
}
