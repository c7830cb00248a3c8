// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of a trace by name, for experiments about a channel without flows.
use alcc_results::scenario::{Files, ScenarioOptions, open_trace};
use alcc_trace::Trace;
use alcc_units::Span;
use std::collections::BTreeMap;
use std::path::Path;

/// Names of the figures. Bursts are in opportunities of 1500 bytes, the rest in ms, Mbit/s or as a
/// share of the mean. `error_*` is the error of a simple predictor one window ahead, divided by the
/// coefficient of variation. The latter is the error of predicting the mean.
pub const METRICS: &[&str] = &[
    "mean_mbps",
    "cv_20ms",
    "cv_100ms",
    "cv_1s",
    "burst_p50",
    "burst_p95",
    "between_p50_ms",
    "between_p95_ms",
    "gap_max_ms",
    "outages_per_minute",
    "error_newest_20ms",
    "error_linear_20ms",
    "error_k_step_20ms",
    "error_newest_100ms",
    "error_linear_100ms",
    "error_k_step_100ms",
];

/// The figures of the trace that is the link of `scenario`.
///
/// # Errors
/// One line: the trace that cannot be read.
pub fn figures(
    scenario: &ScenarioOptions,
    files: &dyn Files,
) -> Result<BTreeMap<String, f64>, String> {
    let link = scenario.link.iter().find_map(|link| link.rate.as_ref());
    let value = link.ok_or("[channel]: it names no link")?;
    let file = files.find(&value.text);
    let name = file.map_or_else(|| value.text.clone(), |file| file.display().to_string());
    let opened = open_trace(&name, 1, || files.open(Path::new(&name)));
    let opened = opened.map_err(|e| format!("{}: {e}", value.location))?;
    Ok(of(&opened.trace))
}

fn of(trace: &Trace) -> BTreeMap<String, f64> {
    let stats = trace.stats();
    let mut figures = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            figures.insert(name.to_owned(), value);
        }
    };
    put("mean_mbps", Some(stats.mean_rate.as_mbps_f64()));
    put("cv_20ms", stats.cv_20ms);
    put("cv_100ms", stats.cv_100ms);
    put("cv_1s", stats.cv_1s);
    put("burst_p50", Some(stats.bursts.p50.into()));
    put("burst_p95", Some(stats.bursts.p95.into()));
    put("between_p50_ms", Some(stats.between_bursts.p50.into()));
    put("between_p95_ms", Some(stats.between_bursts.p95.into()));
    put("gap_max_ms", Some(stats.gaps.max.into()));
    put("outages_per_minute", Some(stats.outages_per_minute()));
    for (ms, cv) in [(20, stats.cv_20ms), (100, stats.cv_100ms)] {
        let Some((error, cv)) = trace.prediction_error(Span::from_millis(ms), 1).zip(cv) else {
            continue;
        };
        put(&format!("error_newest_{ms}ms"), Some(error.last / cv));
        put(&format!("error_linear_{ms}ms"), Some(error.linear / cv));
        put(&format!("error_k_step_{ms}ms"), Some(error.k_step / cv));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An opportunity in each second millisecond: bursts of one, two milliseconds apart, and no
    /// window differs from another.
    #[test]
    fn a_regular_channel_has_the_figures_that_follow_from_it() {
        let text = "2\n4\n6\n8\n10\n12\n14\n16\n18\n20\n";
        let figures = of(&Trace::read(text.as_bytes()).unwrap());
        for (name, want) in [
            ("mean_mbps", 6.0),
            ("burst_p50", 1.0),
            ("burst_p95", 1.0),
            ("between_p50_ms", 2.0),
            ("gap_max_ms", 2.0),
            ("outages_per_minute", 0.0),
        ] {
            assert_eq!(figures[name], want, "{name}");
        }
        assert!(figures.keys().all(|name| METRICS.contains(&name.as_str())));
    }
}
