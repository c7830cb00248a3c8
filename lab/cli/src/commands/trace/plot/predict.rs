// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predictions and outcomes (as in figure 4 of Zaki et al., SIGCOMM 2015), and their errors.
use super::{COLOURS, from_zero, line, time_axis};
use crate::trace_arg::LinkTrace;
use alcc_live::chart::{Chart, Curve};
use alcc_live::report::Panel;
use alcc_trace::{OPPORTUNITY, PredictionError, Predictions};
use alcc_units::Span;

/// Windows, and how much of the first trace is shown in them. About as many fit as can be told
/// apart.
const SHOWN: [(u64, u64); 2] = [(100, 12_000), (20, 2_400)];
/// Names of the predictions that are drawn.
const AHEAD: usize = 1;
/// Maximum number of windows ahead for which errors are shown.
const STEPS: [usize; 8] = [1, 2, 3, 5, 7, 10, 15, 20];

/// Curves of the first trace, with their dashes.
const COURSES: [(&str, &str); 3] = [
    ("received", ""),
    ("predicted: line through ten windows", ""),
    ("predicted: k-step, best linear rule", "8,3"),
];
/// Predictors whose errors are drawn, with their dashes.
const RULES: [(&str, &str); 4] = [
    ("line through ten", ""),
    ("k-step, best linear", "8,3"),
    ("newest", "2,3"),
    ("the mean (CV)", "10,3,2,3"),
];

/// The first trace in windows of 100 and of 20 ms, with two predictions one window ahead. One is
/// the line through ten windows, the other the best linear rule from the newest window. For all
/// traces: the error over the time ahead.
pub(super) fn page(traces: &[LinkTrace], sentence: &str) -> Result<String, String> {
    let mut legend: Vec<(String, &str, &str)> = Vec::new();
    for ((name, dash), colour) in COURSES.into_iter().zip(COLOURS) {
        legend.push((name.to_owned(), colour, dash));
    }
    for (LinkTrace { name, .. }, colour) in traces.iter().zip(COLOURS.iter().cycle()) {
        for (rule, dash) in RULES {
            legend.push((format!("{name}: {rule}"), colour, dash));
        }
    }
    let mut panels = Vec::new();
    if let Some(LinkTrace { name, trace, .. }) = traces.first() {
        for (ms, shown) in SHOWN {
            if let Some(said) =
                trace.predictions(Span::from_millis(ms), AHEAD, (shown / ms) as usize)
            {
                panels.push(courses(name, &said, ms));
            }
        }
    }
    panels.extend(SHOWN.map(|(ms, _)| errors(traces, ms)));
    alcc_live::report::page("Prediction of capacity", sentence, &legend, &panels)
}

fn courses(name: &str, said: &Predictions, ms: u64) -> Panel {
    let mbps = OPPORTUNITY.get() as f64 * 8.0 / 1e3 / ms as f64;
    let rows = [&said.actual, &said.linear, &said.k_step];
    let curve = |(class, values): (usize, &Vec<f64>)| {
        let points = values.iter().enumerate();
        let points = points.map(|(n, v)| ((said.first + n) as f64 * ms as f64 / 1e3, v * mbps));
        line(class, points.collect())
    };
    let curves: Vec<Curve> = rows.into_iter().enumerate().map(curve).collect();
    let title = format!("{name}: windows of {ms} ms, and what was predicted one window before");
    Panel {
        chart: Chart {
            label: title.clone(),
            x_title: "s".into(),
            y_title: "Mbit/s".into(),
            x: time_axis(&curves),
            y: from_zero(&curves),
            curves,
        },
        title,
        is_half: false,
    }
}

fn errors(traces: &[LinkTrace], ms: u64) -> Panel {
    let window = Span::from_millis(ms);
    let mut curves = Vec::new();
    for LinkTrace { trace, .. } in traces {
        let found = STEPS
            .iter()
            .filter_map(|&k| trace.prediction_error(window, k));
        let found: Vec<PredictionError> = found.collect();
        let mean = trace.variation(window).unwrap_or(f64::NAN);
        let rules: [&dyn Fn(&PredictionError) -> f64; 4] =
            [&|e| e.linear, &|e| e.k_step, &|e| e.last, &|_| mean];
        for rule in rules {
            let points = found
                .iter()
                .map(|e| ((e.steps as u64 * ms) as f64, rule(e)));
            curves.push(line(COURSES.len() + curves.len(), points.collect()));
        }
    }
    let title = format!("Error, windows of {ms} ms");
    Panel {
        chart: Chart {
            label: format!("{title}, over the time ahead"),
            x_title: "time ahead, ms".into(),
            y_title: "error / mean capacity".into(),
            x: time_axis(&curves),
            y: from_zero(&curves),
            curves,
        },
        title,
        is_half: true,
    }
}
