// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every synthetic scenario, for any seed.
use alcc_trace::{SCENARIOS, Scenario, Trace, scenario};
use alcc_units::Span;
use proptest::prelude::*;

fn any_scenario() -> impl Strategy<Value = &'static Scenario> {
    (0..SCENARIOS.len()).prop_map(|n| &SCENARIOS[n])
}

/// FNV-1a over the written form.
fn digest(trace: &Trace) -> u64 {
    let mut text = Vec::new();
    trace.write(&mut text).expect("memory takes it");
    text.iter().fold(0xcbf2_9ce4_8422_2325, |h, &byte| {
        (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn same_seed_same_trace_and_a_shorter_one_is_a_prefix(s in any_scenario(), seed: u64, ms in 1u64..40_000) {
        let trace = s.generate(seed, Span::from_millis(ms));
        prop_assert_eq!(&trace, &s.generate(seed, Span::from_millis(ms)));
        prop_assert_eq!(trace.period(), Span::from_millis(ms));
        let longer = s.generate(seed, Span::from_millis(ms + 500));
        let n = trace.len() - 1;
        prop_assert_eq!(&trace.opportunities()[..n], &longer.opportunities()[..n]);
    }

    #[test]
    fn every_seed_has_the_scenario_s_mean(s in any_scenario(), seed: u64) {
        let mean = s.generate(seed, Scenario::LENGTH).mean_rate().as_mbps_f64();
        prop_assert!((mean / s.model.mean_mbps - 1.0).abs() < 0.05, "{}: {mean}", s.name);
    }
}

#[test]
fn the_seven_names_of_the_verus_paper_come_first() {
    let names: Vec<_> = SCENARIOS.iter().take(7).map(|s| s.name).collect();
    assert_eq!(
        names,
        [
            "campus-stationary",
            "campus-pedestrian",
            "city-stationary",
            "city-driving",
            "highway-driving",
            "shopping-mall",
            "waterfront"
        ]
    );
    for s in SCENARIOS {
        assert_eq!(scenario(s.name).map(|found| found.about), Some(s.about));
    }
}

#[test]
fn other_seeds_give_other_traces() {
    for s in SCENARIOS {
        let length = Span::from_secs(2);
        assert_ne!(s.generate(1, length), s.generate(2, length), "{}", s.name);
    }
}

/// If this fails, published results on synthetic traces no longer repeat: change it only together
/// with the parameters. The same figures must come out on every platform.
#[test]
fn the_bytes_of_each_scenario_are_pinned() {
    let seen: Vec<_> = SCENARIOS
        .iter()
        .map(|s| {
            format!(
                "{} {:016x}",
                s.name,
                digest(&s.generate(1, Scenario::LENGTH))
            )
        })
        .collect();
    let pinned: Vec<_> = include_str!("pinned-scenarios.txt").lines().collect();
    assert_eq!(seen, pinned, "now:\n{}", seen.join("\n"));
}

#[test]
fn scenarios_of_one_seed_do_not_rise_and_fall_together() {
    let second = Span::from_secs(1);
    let courses: Vec<Vec<f64>> = SCENARIOS
        .iter()
        .map(|s| {
            let trace = s.generate(1, Scenario::LENGTH);
            let mean = trace.len() as f64 / 300.0;
            let deviations: Vec<f64> = trace.windows(second).map(|n| f64::from(n) - mean).collect();
            deviations
        })
        .collect();
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(x, y)| x * y).sum() };
    for (n, a) in courses.iter().enumerate() {
        for (m, b) in courses.iter().enumerate().skip(n + 1) {
            let r = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
            // Slow processes of 300 s with a memory of up to 15 s have some tens of independent
            // values.
            assert!(
                r.abs() < 0.6,
                "{} and {}: {r}",
                SCENARIOS[n].name,
                SCENARIOS[m].name
            );
        }
    }
}
