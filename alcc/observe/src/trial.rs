// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The statistics of a trial on live traffic: some clients under an algorithm, the others plain.
//!
//! The unit is the client, because clients were assigned to groups, and because the transfers of
//! one client are similar. Each transfer gives a value of every [`Metric`], each client the mean of
//! its transfers. Yuen's t-test, which is Welch's for trimmed means, compares the clients of both
//! groups. A tenth at each end of a group does not count, because a few clients could otherwise
//! manipulate the trial. Positive values are compared by their logarithms; the result is a ratio of
//! geometric means.
mod transfers;

pub use transfers::{Reading, Rtt, Transfer, Transfers};

use alcc_units::{Bytes, Span};
use std::collections::BTreeMap;

/// Maximum number of clients that are distinguished. Above it several count as one.
const MAX_CLIENTS: u64 = 16_384;
/// Maximum share of a group's transfers without a value. Above it there is no verdict, because the
/// missing transfers may depend on the group.
pub const MAX_MISSING: f64 = 0.1;
/// Minimum number of clients in a group for a result.
const MIN_CLIENTS: usize = 5;
/// Minimum number of clients in a group for the guard.
const GUARD_CLIENTS: usize = 20;
/// Reciprocal of the share of clients that is trimmed at each end of a group.
const TRIMMED: usize = 10;
/// Quantile of the standard normal distribution: 99 % of it lie within. 95 % would not suffice for
/// five comparisons.
const Z_99: f64 = 2.575_829;
/// 99.9 % lie within. The guard repeats its test, so it needs a higher confidence.
const Z_999: f64 = 3.290_527;
/// An increase of the retransmitted share by this many percentage points is worse, whatever the
/// bound.
const WORSE_RESENT: f64 = 0.02;

/// A metric of transfers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Metric {
    /// Median RTT of a transfer, ms.
    RttMedian,
    /// 95th percentile of the RTT of a transfer, ms.
    RttP95,
    /// Bytes of a transfer over its time, Mbit/s.
    Rate,
    /// Time of a transfer, ms.
    Time,
    /// Bytes retransmitted over bytes delivered, 0 to 1.
    Resent,
}

impl Metric {
    /// All metrics, in the order of tables.
    pub const ALL: [Self; 5] = [
        Self::RttMedian,
        Self::RttP95,
        Self::Rate,
        Self::Time,
        Self::Resent,
    ];

    /// The word for metrics and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::RttMedian => "rtt_median_ms",
            Self::RttP95 => "rtt_p95_ms",
            Self::Rate => "rate_mbps",
            Self::Time => "time_ms",
            Self::Resent => "resent",
        }
    }

    /// The title for people, with the unit.
    pub fn title(self) -> &'static str {
        match self {
            Self::RttMedian => "RTT median, ms",
            Self::RttP95 => "RTT p95, ms",
            Self::Rate => "rate, Mbit/s",
            Self::Time => "transfer time, ms",
            Self::Resent => "sent again, %",
        }
    }

    /// True if it is compared by logarithms, so that the change is a ratio minus 1. Otherwise the
    /// change is a difference.
    pub fn is_ratio(self) -> bool {
        self != Self::Resent
    }

    /// True if a larger value is worse.
    fn more_is_worse(self) -> bool {
        self != Self::Rate
    }

    /// The value of a transfer; `None`: the transfer was too short for it.
    fn of(self, transfer: &Transfer) -> Option<f64> {
        let ms = |span: Span| span.as_millis_f64().max(1e-3);
        Some(match self {
            Self::RttMedian => ms(transfer.rtt?.median),
            Self::RttP95 => ms(transfer.rtt?.p95),
            Self::Rate => {
                (transfer.bytes.get() as f64 * 8.0 / 1000.0 / ms(transfer.time)).max(1e-6)
            }
            Self::Time => ms(transfer.time),
            Self::Resent => {
                let all = transfer.bytes.max(Bytes::new(1)).get() as f64;
                (transfer.resent.get() as f64 / all).min(1.0)
            }
        })
    }
}

/// Sums over one client's transfers, of each metric.
#[derive(Clone, Copy, Default, Debug)]
struct Client {
    sums: [Sum; Metric::ALL.len()],
}

#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    transfers: u32,
    value: f64,
}

/// All transfers of one group.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    clients: BTreeMap<u64, Client>,
    transfers: u64,
    without_rtt: u64,
    bytes: u64,
}

impl Tally {
    /// Adds a transfer of a client.
    pub fn add(&mut self, client: u64, transfer: &Transfer) {
        let entry = self.clients.entry(client % MAX_CLIENTS).or_default();
        for (sum, metric) in entry.sums.iter_mut().zip(Metric::ALL) {
            if let Some(value) = metric.of(transfer) {
                sum.transfers += 1;
                sum.value += if metric.is_ratio() { value.ln() } else { value };
            }
        }
        self.transfers += 1;
        self.without_rtt += u64::from(transfer.rtt.is_none());
        self.bytes = self.bytes.saturating_add(transfer.bytes.get());
    }

    /// Number of clients with a transfer.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Number of transfers.
    pub fn transfers(&self) -> u64 {
        self.transfers
    }

    /// Number of transfers that were too short for percentiles of the RTT.
    pub fn without_rtt(&self) -> u64 {
        self.without_rtt
    }

    /// The share of the transfers without a value of this metric.
    fn missing(&self, metric: Metric) -> f64 {
        match metric {
            Metric::RttMedian | Metric::RttP95 => {
                self.without_rtt as f64 / self.transfers.max(1) as f64
            }
            Metric::Rate | Metric::Time | Metric::Resent => 0.0,
        }
    }

    /// Bytes of all transfers.
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes)
    }

    /// The trimmed mean of the clients' values. `None`: fewer than `least` clients have one.
    fn trimmed(&self, metric: Metric, least: usize) -> Option<Trimmed> {
        let sums = self.clients.values().map(|c| &c.sums[metric as usize]);
        let mut values: Vec<f64> = sums
            .filter(|sum| sum.transfers > 0)
            .map(|sum| sum.value / f64::from(sum.transfers))
            .collect();
        if values.len() < least {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let cut = values.len() / TRIMMED;
        let kept = &values[cut..values.len() - cut];
        let n = kept.len() as f64;
        // Trimmed clients count for the variance as the outermost of the others.
        let ends = [kept[0], kept[kept.len() - 1]];
        let all = || {
            let ends = ends.iter().flat_map(|end| std::iter::repeat_n(end, cut));
            kept.iter().chain(ends)
        };
        let centre = all().sum::<f64>() / values.len() as f64;
        let squares = all().map(|v| (v - centre) * (v - centre)).sum::<f64>();
        Some(Trimmed {
            mean: kept.iter().sum::<f64>() / n,
            error: squares / (n * (n - 1.0)),
            freedom: n - 1.0,
        })
    }
}

/// A group's trimmed mean.
struct Trimmed {
    mean: f64,
    /// Square of its standard error, from the winsorized variance.
    error: f64,
    freedom: f64,
}

/// The comparison of a metric between both groups.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effect {
    /// The metric.
    pub metric: Metric,
    /// Mean of the plain group; a geometric mean if the metric is a ratio.
    pub plain: f64,
    /// Mean of the treated group.
    pub treated: f64,
    /// Change of the treated group against the plain one: -0.2 is 20 % less, or for
    /// [`Metric::Resent`] 20 percentage points less.
    pub change: f64,
    /// The lower end of its confidence interval, in the same unit.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// False if more than [`MAX_MISSING`] of a group's transfers have no value of this metric.
    pub is_whole: bool,
}

impl Effect {
    /// True if the interval excludes zero: the groups differ.
    pub fn is_clear(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// True if the treated group is better, with this confidence.
    pub fn is_better(&self) -> bool {
        self.is_clear() && (self.change > 0.0) != self.metric.more_is_worse()
    }

    /// True if the treated group is worse by more than `bound` (0.2: 20 %), with the whole
    /// interval.
    fn is_worse_by(&self, bound: f64) -> bool {
        match self.metric {
            Metric::Resent => self.low > WORSE_RESENT,
            Metric::Rate => self.high < 1.0 / (1.0 + bound) - 1.0,
            _ => self.low > bound,
        }
    }
}

/// The results so far: an effect for each metric for which both groups have 5 clients, with 99 %
/// confidence.
pub fn effects(plain: &Tally, treated: &Tally) -> Vec<Effect> {
    let all = Metric::ALL.into_iter();
    all.filter_map(|metric| effect(metric, [plain, treated], MIN_CLIENTS, Z_99))
        .collect()
}

/// The effect for which a trial should end: the treated clients are worse by more than `bound`,
/// with 99.9 % confidence. `None` also while a group has fewer than 20 clients.
pub fn harm(plain: &Tally, treated: &Tally, bound: f64) -> Option<Effect> {
    let all = Metric::ALL.into_iter();
    all.filter_map(|metric| effect(metric, [plain, treated], GUARD_CLIENTS, Z_999))
        .find(|effect| effect.is_whole && effect.is_worse_by(bound))
}

fn effect(metric: Metric, groups: [&Tally; 2], least: usize, z: f64) -> Option<Effect> {
    let is_whole = groups.iter().all(|g| g.missing(metric) <= MAX_MISSING);
    let [plain, treated] = groups.map(|group| group.trimmed(metric, least));
    let (plain, treated) = (plain?, treated?);
    let variance = plain.error + treated.error;
    // Degrees of freedom by Welch and Satterthwaite.
    let freedom = if variance > 0.0 {
        let part = |group: &Trimmed| group.error * group.error / group.freedom;
        variance * variance / (part(&plain) + part(&treated))
    } else {
        plain.freedom + treated.freedom
    };
    let reach = student(z, freedom) * variance.sqrt();
    let (plain, treated) = (plain.mean, treated.mean);
    let difference = treated - plain;
    let value = |x: f64| if metric.is_ratio() { x.exp() } else { x };
    let change = |x: f64| if metric.is_ratio() { x.exp_m1() } else { x };
    Some(Effect {
        metric,
        plain: value(plain),
        treated: value(treated),
        change: change(difference),
        low: change(difference - reach),
        high: change(difference + reach),
        is_whole,
    })
}

/// The quantile of Student's t distribution that corresponds to the normal distribution's `z`
/// (Abramowitz and Stegun, 26.7.5). Within 5 % from 4 degrees of freedom on.
fn student(z: f64, freedom: f64) -> f64 {
    let (z2, v) = (z * z, freedom.max(1.0));
    let first = z * (z2 + 1.0) / 4.0;
    let second = z * ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0;
    let third = z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0;
    z + first / v + second / (v * v) + third / (v * v * v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_units::Rng;

    #[test]
    fn students_quantiles_are_those_of_the_tables() {
        for (z, freedom, wanted) in [
            (Z_99, 5.0, 4.032),
            (Z_99, 10.0, 3.169),
            (Z_99, 30.0, 2.750),
            (Z_999, 20.0, 3.850),
            (Z_999, 1e9, 3.291),
        ] {
            let found = student(z, freedom);
            assert!((found / wanted - 1.0).abs() < 0.02, "{freedom}: {found}");
        }
    }

    /// A sample of the standard normal distribution: twelve uniform ones minus their mean.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    fn ms(value: f64) -> Span {
        Span::from_nanos((value * 1e6) as u64)
    }

    /// Transfers of clients whose RTT differs by 30 %, one standard deviation of the logarithm.
    /// From transfer to transfer it differs by 20 %.
    struct World {
        transfers: u32,
        /// Number of transfers of each client.
        each: u32,
        share: f64,
        /// The treated group's RTT p95 beside the other's.
        factor: f64,
    }

    impl World {
        fn run(&self, seed: u64) -> [Tally; 2] {
            let mut rng = Rng::new(seed);
            let mut groups = [Tally::default(), Tally::default()];
            for client in 0..self.transfers / self.each {
                let treated = rng.chance(self.share);
                let own = 0.3 * normal(&mut rng);
                for _ in 0..self.each {
                    let median = 60.0 * (own + 0.2 * normal(&mut rng)).exp();
                    let factor = if treated { self.factor } else { 1.0 };
                    let transfer = Transfer {
                        bytes: Bytes::new(500_000),
                        time: ms(2000.0 * (0.5 * normal(&mut rng)).exp()),
                        rtt: Some(Rtt {
                            median: ms(median),
                            p95: ms(median * 2.0 * factor),
                        }),
                        resent: Bytes::ZERO,
                    };
                    groups[usize::from(treated)].add(client.into(), &transfer);
                }
            }
            groups
        }

        /// In how many of 100 runs the RTT p95 is said to differ.
        fn found(&self) -> usize {
            let p95 =
                |groups: &[Tally; 2]| effect(Metric::RttP95, groups.each_ref(), MIN_CLIENTS, Z_99);
            let clear = (0..100).filter(|seed| p95(&self.run(*seed)).is_some_and(|e| e.is_clear()));
            clear.count()
        }
    }

    const NOTHING: World = World {
        transfers: 500,
        each: 1,
        share: 0.5,
        factor: 1.0,
    };

    #[test]
    fn twenty_percent_are_found_with_500_transfers() {
        for (share, each, least) in [(0.5, 1, 99), (0.5, 2, 95), (0.1, 1, 80)] {
            let world = World {
                share,
                each,
                factor: 0.8,
                ..NOTHING
            };
            let found = world.found();
            assert!(found >= least, "share {share}, {each} each: {found} of 100");
        }
    }

    #[test]
    fn where_there_is_nothing_nothing_is_found() {
        for (share, each) in [(0.5, 1), (0.1, 1), (0.1, 5)] {
            let found = World {
                share,
                each,
                ..NOTHING
            }
            .found();
            assert!(found <= 4, "share {share}, {each} each: {found} of 100");
        }
    }

    #[test]
    fn the_figures_are_those_of_the_groups() {
        let [plain, treated] = World {
            factor: 0.8,
            ..NOTHING
        }
        .run(1);
        assert_eq!(plain.transfers() + treated.transfers(), 500);
        let all = effects(&plain, &treated);
        assert_eq!(all.len(), Metric::ALL.len());
        let p95 = all[1];
        assert!((p95.treated / p95.plain - 1.0 - p95.change).abs() < 1e-9);
        assert!((-0.26..-0.14).contains(&p95.change), "{p95:?}");
        assert!(p95.low < p95.change && p95.change < p95.high && p95.is_better());
        let rate = all[2];
        assert!((1.5..2.6).contains(&rate.plain), "{rate:?}");
        assert!(
            !all[4].is_clear() && all[4].change == 0.0,
            "nothing was sent again"
        );
    }

    #[test]
    fn the_guard_ends_what_harms_and_nothing_else() {
        let world = |factor| World { factor, ..NOTHING };
        let harmed = |factor: f64, seed| {
            let [plain, treated] = world(factor).run(seed);
            harm(&plain, &treated, 0.2)
        };
        for seed in 0..50 {
            let found = harmed(1.6, seed).expect("60 % worse");
            assert_eq!(found.metric, Metric::RttP95);
            // As bad as is allowed, and better: it goes on.
            assert_eq!(harmed(1.2, seed), None);
            assert_eq!(harmed(0.5, seed), None);
        }
        let few = World {
            transfers: 30,
            ..world(3.0)
        };
        let [plain, treated] = few.run(3);
        assert_eq!(harm(&plain, &treated, 0.2), None, "too few to say");
        assert!(effects(&Tally::default(), &plain).is_empty());
    }

    /// Every second transfer of one group is too short for an RTT, and which ones may depend on the
    /// group.
    #[test]
    fn short_transfers_count_by_their_time_and_leave_the_rtt_without_a_verdict() {
        let mut groups = World {
            factor: 1.6,
            ..NOTHING
        }
        .run(1);
        assert!(effects(&groups[0], &groups[1]).iter().all(|e| e.is_whole));
        let short = Transfer {
            bytes: Bytes::new(100_000),
            time: ms(10.0),
            rtt: None,
            resent: Bytes::ZERO,
        };
        for client in 1000..1250 {
            groups[1].add(client, &short);
        }
        let [plain, treated] = &groups;
        assert_eq!((plain.without_rtt(), treated.without_rtt()), (0, 250));
        let all = effects(plain, treated);
        let whole: Vec<_> = all.iter().map(|e| e.is_whole).collect();
        assert_eq!(whole, [false, false, true, true, true]);
        assert!(all[3].is_better(), "{:?}", all[3]);
        assert_eq!(harm(plain, treated, 0.2), None);
        let mut short_only = Tally::default();
        (0..30).for_each(|client| short_only.add(client, &short));
        assert_eq!(effects(&short_only, &short_only).len(), 3);
    }

    /// 240 honest clients without a difference between the groups, and 24 whose transfers take
    /// `factor` times as long: those of the treated group the first, those of the other the second.
    fn attacked(share: f64, factors: [f64; 2], seed: u64) -> [Tally; 2] {
        let honest = World {
            transfers: 240,
            share,
            ..NOTHING
        };
        let mut groups = honest.run(seed);
        let mut rng = Rng::new(seed ^ 0xBAD);
        for client in 1000..1024 {
            let treated = rng.chance(share);
            let factor = factors[usize::from(!treated)];
            let transfer = Transfer {
                bytes: Bytes::new(500_000),
                time: ms(2000.0 * factor),
                rtt: Some(Rtt {
                    median: ms(60.0 * factor),
                    p95: ms(120.0 * factor),
                }),
                resent: Bytes::new(if factor > 1.0 { 500_000 } else { 0 }),
            };
            // Each comes again and again: a client counts once.
            for _ in 0..50 {
                groups[usize::from(treated)].add(client, &transfer);
            }
        }
        groups
    }

    #[test]
    fn a_tenth_of_the_clients_neither_ends_nor_flatters_a_trial() {
        // Slow and fast clients that do not know their group, since its salt is secret.
        for share in [0.5, 0.1] {
            for factors in [[100.0; 2], [0.01; 2]] {
                let clear = (0..100).filter(|seed| {
                    let [plain, treated] = attacked(share, factors, *seed);
                    assert_eq!(
                        harm(&plain, &treated, 0.2),
                        None,
                        "{share} {factors:?} {seed}"
                    );
                    effects(&plain, &treated).iter().any(Effect::is_clear)
                });
                let clear = clear.count();
                assert!(clear <= 8, "share {share}, {factors:?}: {clear} of 100");
            }
        }
        // Clients that have found out their group by what it does, and turn against it.
        for seed in 0..100 {
            let [plain, treated] = attacked(0.5, [100.0, 0.01], seed);
            assert_eq!(harm(&plain, &treated, 0.2), None, "{seed}");
        }
        // The same for it. Trimming does not take all of that: in a fifth of the trials the RTT is found to be shorter.
        let flattered = (0..100).filter(|seed| {
            let [plain, treated] = attacked(0.5, [0.01, 100.0], *seed);
            let all = effects(&plain, &treated);
            let rtt = all.iter().find(|effect| effect.metric == Metric::RttP95);
            let rtt = rtt.expect("the RTT");
            assert!(rtt.change > -0.35, "{seed}: {rtt:?}");
            rtt.is_clear()
        });
        let flattered = flattered.count();
        assert!(flattered <= 20, "{flattered} of 100");
    }

    /// 200 looks at one growing trial without a difference: the guard must not fire by chance.
    #[test]
    fn looking_often_ends_no_harmless_trial() {
        let ended = (0..100).filter(|seed| {
            let whole = World {
                transfers: 1000,
                ..NOTHING
            };
            let [plain, treated] = whole.run(*seed);
            let part = |group: &Tally, n: usize| {
                let clients = group.clients.iter().take(n).map(|(k, v)| (*k, *v));
                Tally {
                    clients: clients.collect(),
                    ..group.clone()
                }
            };
            (20..420)
                .step_by(2)
                .any(|n| harm(&part(&plain, n), &part(&treated, n), 0.2).is_some())
        });
        assert_eq!(ended.count(), 0);
    }
}
