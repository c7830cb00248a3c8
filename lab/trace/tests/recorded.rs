// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Against recorded channels, which are not part of the repository: `ALCC_TRACES` or
//! `../shared/traces` beside it.
use alcc_trace::{Figure, SCENARIOS, Scenario, Trace, compare};
use std::path::PathBuf;

fn recordings() -> Option<PathBuf> {
    let beside = || {
        PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/traces"
        ))
    };
    let folder = std::env::var_os("ALCC_TRACES").map_or_else(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    skipped("no recorded traces");
    None
}

/// Past the harness, which hides what passing tests print.
fn skipped(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

fn read(folder: &std::path::Path, name: &str) -> Trace {
    let text = std::fs::read(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    Trace::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Length s, mean Mbit/s, CV in 100 ms, longest gap ms, as published with the recordings.
const PUBLISHED: &[(&str, f64, f64, f64, u32)] = &[
    ("alcc/CampusWalk", 300.0, 8.95, 0.41, 122),
    ("alcc/CityDrive", 300.0, 8.76, 0.39, 368),
    ("alcc/Corniche", 300.0, 10.33, 0.33, 202),
    ("alcc/highwayGold", 300.0, 15.86, 0.50, 234),
    ("alcc/rapidGold", 300.0, 9.98, 0.46, 818),
    (
        "mahimahi/ATT-LTE-driving-2016.down",
        120.0,
        4.56,
        1.04,
        1123,
    ),
    ("mahimahi/ATT-LTE-driving-2016.up", 120.0, 1.91, 1.22, 4061),
    ("mahimahi/TMobile-LTE-short.down", 140.0, 16.70, 0.69, 917),
    ("mahimahi/TMobile-LTE-short.up", 140.0, 13.32, 0.63, 724),
    ("mahimahi/Verizon-LTE-short.down", 140.0, 5.03, 0.71, 1447),
    ("mahimahi/Verizon-LTE-short.up", 140.0, 5.95, 0.59, 1718),
    ("verus-paper/Campus_Pedestrian.down", 317.0, 18.40, 0.29, 61),
    ("verus-paper/Campus_Pedestrian.up", 392.0, 1.84, 0.34, 114),
    ("verus-paper/City_Driving.down", 337.0, 16.47, 0.43, 368),
    ("verus-paper/City_Driving.up", 397.0, 3.96, 0.48, 220),
    ("verus-paper/HighWay.down", 316.0, 16.06, 0.49, 235),
    ("verus-paper/HighWay.up", 386.0, 4.99, 0.37, 145),
    ("cs244/TMobile-LTE-driving.down", 120.0, 22.31, 0.50, 523),
    ("cs244/TMobile-LTE-driving.up", 121.0, 10.14, 0.76, 1058),
    ("cs244/Verizon-EVDO-driving.up", 120.0, 0.88, 0.47, 895),
];

#[test]
fn statistics_of_recordings_are_those_published_with_them() {
    let Some(folder) = recordings() else { return };
    for &(name, seconds, mean, cv, longest) in PUBLISHED {
        if !folder.join(name).exists() {
            skipped(&format!("no recorded traces: {name} is not there"));
            continue;
        }
        let trace = read(&folder, name);
        let stats = trace.stats();
        assert_eq!(stats.period.as_secs_f64().round(), seconds, "{name}");
        assert!(
            (stats.mean_rate.as_mbps_f64() - mean).abs() <= 0.006,
            "{name}: {:?}",
            stats.mean_rate
        );
        let seen = stats.cv_100ms.expect("minutes long");
        assert!((seen - cv).abs() <= 0.006, "{name}: CV {seen}");
        // Published without the wait from the last opportunity to the first of the next round.
        let first = trace.opportunities()[0];
        assert_eq!(stats.gaps.max, longest.max(first), "{name}");
    }
}

#[test]
fn synthetic_traces_are_like_the_recordings_whatever_the_seed() {
    let Some(folder) = recordings() else { return };
    for s in SCENARIOS {
        let Some(name) = s.recording.filter(|name| folder.join(name).exists()) else {
            continue;
        };
        let recorded = read(&folder, name).stats();
        for seed in 1..=3 {
            let synthetic = s.generate(seed, Scenario::LENGTH).stats();
            let differ: Vec<Figure> = compare(&recorded, &synthetic)
                .into_iter()
                .filter(|f| !f.agrees())
                .collect();
            assert!(differ.is_empty(), "{} seed {seed}: {differ:#?}", s.name);
        }
    }
}
