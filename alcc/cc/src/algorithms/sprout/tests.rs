// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memo's vectors: the authors' tables.
use super::belief::Belief;
use super::model::{BINS, HORIZON, Model, Phi};
use proptest::prelude::*;

fn original() -> &'static Model {
    Model::shared(Phi::Table)
}

fn text(forecast: [u32; HORIZON]) -> String {
    forecast.map(|k| k.to_string()).join(" ")
}

/// `n` packets in each of `ticks` ticks.
fn feed(belief: &mut Belief, n: f64, ticks: usize) {
    for _ in 0..ticks {
        belief.evolve();
        belief.observe(n);
    }
}

#[test]
fn forecasts_of_certainties_are_the_programs() {
    let vectors = [
        (0, "0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0"),
        (1, "0 0 0 0 0 0 0 1", "0 0 0 1 2 3 4 5"),
        (26, "0 1 2 3 5 6 8 9", "2 4 6 8 10 12 14 17"),
        (64, "2 5 9 13 17 21 25 29", "5 10 15 20 25 30 35 40"),
        (128, "5 13 21 30 39 47 56 65", "10 20 30 40 50 60 70 80"),
        (192, "9 21 34 48 61 75 88 102", "15 30 45 60 75 90 105 120"),
        (
            256,
            "13 30 47 65 82 100 118 136",
            "20 40 59 79 98 118 137 157",
        ),
    ];
    for (bin, cautious, median) in vectors {
        let mut p = [0.0; BINS];
        p[bin] = 1.0;
        let mut belief = Belief::with(original(), &p);
        assert_eq!(text(belief.forecast(0.05)), cautious, "bin {bin}");
        assert_eq!(text(belief.forecast(0.5)), median, "bin {bin}");
    }
    let mut prior = Belief::new(original());
    assert_eq!(text(prior.forecast(0.05)), "1 1 3 4 5 6 8 9");
    (0..49).for_each(|_| prior.evolve());
    assert_eq!(text(prior.forecast(0.05)), "2 4 7 9 12 15 17 20");
    assert!((prior.mean() - 565.6).abs() < 0.05, "{}", prior.mean());
}

#[test]
fn table_entries_are_the_programs() {
    let m = original();
    let p = |h: usize, k: usize, bin: usize| {
        m.at_most(h, k)[bin]
            - if k == 0 {
                0.0
            } else {
                m.at_most(h, k - 1)[bin]
            }
    };
    for (got, want, digits) in [
        (p(1, 0, 0), 0.994_180_446_672, 1e-12),
        (p(1, 1, 0), 0.004_165_787_814, 1e-12),
        (p(1, 2, 0), 0.001_241_072_120, 1e-12),
        (p(7, 0, 0), 0.520_731_8, 1e-7),
        (p(0, 0, 128), 4.366_069e-5, 1e-11),
    ] {
        assert!((got - want).abs() < digits, "{got} instead of {want}");
    }
    let mean = |h: usize, bin: usize| -> f64 {
        (0..=super::model::most(h))
            .map(|k| k as f64 * p(h, k, bin))
            .sum()
    };
    assert!((mean(7, 0) - 1.184_567).abs() < 1e-6);
    assert!((mean(0, 128) - 10.039_054).abs() < 1e-6);
    let mut to = [0.0; BINS];
    let mut certain = [0.0; BINS];
    certain[0] = 1.0;
    m.evolve(&certain, &mut to);
    assert!((to[0] - 0.544_351_683).abs() < 1e-9, "{}", to[0]);
    assert!((to.iter().sum::<f64>() - 0.5532).abs() < 1e-4);
}

#[test]
fn steady_input_ends_where_the_program_ends() {
    let vectors = [
        (0.0, 0.80, 5.66, "0 0 0 0 0 0 0 0"),
        (1.0, 68.0, 32.9, "0 0 0 1 1 2 3 4"),
        (2.0, 113.1, 40.3, "0 1 2 2 4 5 6 7"),
        (3.0, 160.7, 45.4, "0 2 3 5 7 8 10 12"),
        (5.0, 258.3, 52.7, "2 4 8 11 14 18 21 24"),
        (10.0, 505.8, 63.9, "5 12 20 27 35 43 51 59"),
        (15.0, 754.7, 71.4, "9 20 33 45 57 70 82 95"),
        (20.0, 953.4, 46.4, "12 28 44 61 77 94 111 128"),
        (40.0, 991.5, 16.3, "13 29 47 64 82 99 117 135"),
    ];
    for (n, mean, sd, forecast) in vectors {
        let mut belief = Belief::new(original());
        feed(&mut belief, n, 200);
        let got = belief.mean();
        let variance: f64 = (belief.p().iter().enumerate())
            .map(|(i, p)| p * (super::model::rate(i) - got) * (super::model::rate(i) - got))
            .sum();
        assert!((got - mean).abs() < 0.051, "{n}: mean {got}");
        assert!(
            (variance.sqrt() - sd).abs() < 0.051,
            "{n}: sd {}",
            variance.sqrt()
        );
        assert_eq!(text(belief.forecast(0.05)), forecast, "{n}");
    }
}

#[test]
fn an_outage_and_its_end_go_as_in_the_program() {
    let mut belief = Belief::new(original());
    let mut step = |n: f64, ticks: usize, mean: f64, forecast: &str| {
        feed(&mut belief, n, ticks);
        let got = belief.mean();
        assert!((got - mean).abs() < 1e-3, "{got} instead of {mean}");
        assert_eq!(text(belief.forecast(0.05)), forecast);
        belief.p()[0]
    };
    step(10.0, 1, 544.244, "4 10 16 22 28 34 40 47");
    step(10.0, 1, 525.207, "5 11 18 25 32 39 46 52");
    step(10.0, 8, 507.204, "5 12 20 27 35 43 51 59");
    step(0.0, 1, 410.718, "3 9 15 20 26 32 38 44");
    step(0.0, 1, 310.514, "2 6 9 13 17 21 25 29");
    step(0.0, 1, 205.093, "1 2 4 6 7 9 11 13");
    step(0.0, 1, 102.218, "0 0 0 0 0 0 1 2");
    belief_after(&mut belief, 1, 0.299);
}

/// Another empty tick, and how likely an outage is then.
fn belief_after(belief: &mut Belief, ticks: usize, outage: f64) {
    feed(belief, 0.0, ticks);
    assert_eq!(text(belief.forecast(0.05)), "0 0 0 0 0 0 0 0");
    assert!((belief.p()[0] - outage).abs() < 1e-3, "{}", belief.p()[0]);
    feed(belief, 0.0, 12 - 4 - ticks);
    let mut step = |ticks: usize, mean: f64| {
        feed(belief, 10.0, ticks);
        let got = belief.mean();
        assert!((got - mean).abs() < 1e-3, "{got} instead of {mean}");
    };
    step(1, 134.602);
    step(3, 290.414);
    step(8, 450.749);
    assert_eq!(text(belief.forecast(0.05)), "4 10 17 24 31 38 45 51");
}

/// Row `bin` of the tables by the definition: the distribution forward in time, tick by tick, and
/// its counts convolved.
fn forward(m: &Model, bin: usize) -> Vec<Vec<f64>> {
    let pmf = |mean: f64, k: usize| {
        libm::exp(k as f64 * libm::log(mean.max(1e-300)) - mean - libm::lgamma(k as f64 + 1.0))
    };
    let mut q = [0.0; BINS];
    q[bin] = 1.0;
    let mut sum = vec![1.0];
    let mut rows = Vec::new();
    for _ in 0..HORIZON {
        let tick: Vec<f64> = (0..30)
            .map(|k| {
                (0..BINS)
                    .map(|i| q[i] * pmf(super::model::rate(i) * 0.02, k))
                    .sum()
            })
            .collect();
        let mut next = vec![0.0; sum.len() + 29];
        for (i, s) in sum.iter().enumerate() {
            for (k, t) in tick.iter().enumerate() {
                next[i + k] += s * t;
            }
        }
        sum = next;
        rows.push(sum.clone());
        let mut to = [0.0; BINS];
        m.evolve(&q, &mut to);
        let total: f64 = to.iter().sum();
        q = to.map(|p| p / total);
    }
    rows
}

#[test]
fn the_backward_recursion_is_the_definition() {
    let m = Model::shared(Phi::Exact);
    for bin in [0, 1, 40, 200, 256] {
        for (h, row) in forward(m, bin).iter().enumerate() {
            let mut total = 0.0;
            for (k, p) in row.iter().enumerate() {
                total += p;
                let got = m.at_most(h, k)[bin];
                assert!(
                    (got - total).abs() < 1e-12,
                    "bin {bin}, {h}, {k}: {got} {total}"
                );
            }
        }
    }
}

/// The same bits on every platform.
#[test]
fn the_tables_are_these() {
    let sum = |how| {
        let m = Model::new(how);
        let all = (0..HORIZON).flat_map(|h| (0..=super::model::most(h)).map(move |k| (h, k)));
        all.flat_map(|(h, k)| m.at_most(h, k))
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, p| {
                (hash ^ p.to_bits()).wrapping_mul(0x100_0000_01b3)
            })
    };
    assert_eq!(sum(Phi::Table), 4_505_125_702_527_092_466);
    assert_eq!(sum(Phi::Exact), 10_456_382_123_150_390_608);
}

#[test]
fn more_arrivals_never_forecast_less() {
    let mut before = [0; HORIZON];
    for n in 0..40 {
        let mut belief = Belief::new(Model::shared(Phi::Exact));
        feed(&mut belief, f64::from(n), 150);
        let now = belief.forecast(0.05);
        assert!(
            before.iter().zip(&now).all(|(b, n)| b <= n),
            "{n}: {before:?} {now:?}"
        );
        before = now;
    }
}

#[test]
fn thousands_of_ticks_leave_a_distribution() {
    let mut rng = alcc_units::Rng::new(5);
    let mut belief = Belief::new(original());
    for tick in 0..10_000 {
        belief.evolve();
        if rng.chance(0.8) {
            belief.observe(rng.below(40) as f64);
        }
        let total: f64 = belief.p().iter().sum();
        assert!((total - 1.0).abs() < 1e-12, "tick {tick}: {total}");
    }
}

#[derive(Clone, Debug)]
enum Tick {
    Count(f64),
    Unseen,
    Fold,
    Spread,
}

fn ticks() -> impl Strategy<Value = Vec<Tick>> {
    let tick = prop_oneof![
        8 => (0u32..60).prop_map(|n| Tick::Count(f64::from(n))),
        4 => Just(Tick::Count(0.0)),
        2 => (0.0..30.0).prop_map(Tick::Count),
        1 => (0.0..1e6).prop_map(Tick::Count),
        2 => Just(Tick::Unseen),
        1 => Just(Tick::Fold),
        1 => Just(Tick::Spread),
    ];
    proptest::collection::vec(tick, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_arrives_it_stays_a_distribution(ticks in ticks()) {
        let mut belief = Belief::new(Model::shared(Phi::Exact));
        for tick in ticks {
            belief.evolve();
            match tick {
                Tick::Count(n) => belief.observe(n),
                Tick::Unseen => {}
                Tick::Fold => belief.fold(),
                Tick::Spread => belief.spread(),
            }
            let total: f64 = belief.p().iter().sum();
            prop_assert!((total - 1.0).abs() < 1e-12);
            prop_assert!(belief.p().iter().all(|p| (0.0..=1.0).contains(p)));
            prop_assert!((0.0..=1002.0).contains(&belief.mean()));
            let (cautious, median) = (belief.forecast(0.05), belief.forecast(0.5));
            prop_assert!(cautious.is_sorted() && median.is_sorted());
            prop_assert!(cautious.iter().zip(&median).all(|(c, m)| c <= m));
            // A fresh search has the same result as one that begins at the last result.
            let mut fresh = Belief::with(Model::shared(Phi::Exact), belief.p());
            prop_assert_eq!(fresh.forecast(0.05), cautious);
        }
    }
}
