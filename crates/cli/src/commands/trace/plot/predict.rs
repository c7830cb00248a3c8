// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predictions and what came (as figure 4 of Zaki et al., SIGCOMM 2015), and their errors.
use super::{COLOURS, PAPER, axis, line};
use crate::trace_arg::LinkTrace;
use alcc_trace::{OPPORTUNITY, Predictions};
use alcc_units::Span;
use plotly::common::{DashType, Mode, Title};
use plotly::layout::{Annotation, Margin};
use plotly::{Layout, Plot, Scatter};

/// Windows, and how much of the first trace is shown in them: about as many windows as can be told
/// apart.
const SHOWN: [(u64, u64); 2] = [(100, 12_000), (20, 2_400)];
/// Names of the predictions that are drawn.
const AHEAD: usize = 1;
/// Maximum number of windows ahead for which errors are shown.
const STEPS: [usize; 8] = [1, 2, 3, 5, 7, 10, 15, 20];

/// The first trace in windows of 100 and of 20 ms with two predictions one window ahead: the line
/// through ten windows, and the best linear rule from the newest one. For all traces: the error
/// over the time ahead.
pub(super) fn figure(traces: &[LinkTrace]) -> Plot {
    let mut plot = Plot::new();
    let mut titles = Vec::new();
    if let Some(LinkTrace { name, trace, .. }) = traces.first() {
        for ((ms, shown), (x, y)) in SHOWN.into_iter().zip([("x", "y"), ("x2", "y2")]) {
            let Some(said) = trace.predictions(Span::from_millis(ms), AHEAD) else {
                continue;
            };
            curves(&mut plot, &said, ms, shown, (x, y));
            titles.push((
                y,
                format!("{name}: windows of {ms} ms, and what was predicted one window before"),
            ));
        }
    }
    for (LinkTrace { name, trace, .. }, colour) in traces.iter().zip(COLOURS.iter().cycle()) {
        for ((ms, _), x) in SHOWN.into_iter().zip(["x3", "x4"]) {
            let window = Span::from_millis(ms);
            let errors: Vec<_> = STEPS
                .iter()
                .filter_map(|&k| trace.prediction_error(window, k))
                .collect();
            let ahead: Vec<u64> = errors.iter().map(|e| e.steps as u64 * ms).collect();
            let mean = vec![trace.variation(window).unwrap_or(f64::NAN); ahead.len()];
            let rules: [(&str, DashType, Vec<f64>); 4] = [
                (
                    "line through ten",
                    DashType::Solid,
                    errors.iter().map(|e| e.linear).collect(),
                ),
                (
                    "k-step, best linear",
                    DashType::Dash,
                    errors.iter().map(|e| e.k_step).collect(),
                ),
                (
                    "newest",
                    DashType::Dot,
                    errors.iter().map(|e| e.last).collect(),
                ),
                ("the mean (CV)", DashType::LongDashDot, mean),
            ];
            for (rule, dash, values) in rules {
                let curve = Scatter::new(ahead.clone(), values)
                    .name(format!("{name}: {rule}"))
                    .legend_group(name)
                    .show_legend(x == "x3")
                    .mode(Mode::LinesMarkers)
                    .line(line(colour).dash(dash))
                    .x_axis(x)
                    .y_axis(x.replace('x', "y"));
                plot.add_trace(curve);
            }
            titles.push((
                if x == "x3" { "y3" } else { "y4" },
                format!("error, windows of {ms} ms"),
            ));
        }
    }
    plot.set_layout(layout(&titles));
    plot
}

fn curves(plot: &mut Plot, said: &Predictions, ms: u64, shown: u64, (x, y): (&str, &str)) {
    let mbps = OPPORTUNITY.get() as f64 * 8.0 / 1e3 / ms as f64;
    let count = (shown / ms) as usize;
    let rows = [
        ("received", &said.actual, COLOURS[0], DashType::Solid),
        (
            "predicted: line through ten windows",
            &said.linear,
            COLOURS[1],
            DashType::Solid,
        ),
        (
            "predicted: k-step, best linear rule",
            &said.k_step,
            COLOURS[2],
            DashType::Dash,
        ),
    ];
    for (name, values, colour, dash) in rows {
        let seconds: Vec<f64> = (0..values.len().min(count))
            .map(|n| (said.first + n) as f64 * ms as f64 / 1e3)
            .collect();
        let rates: Vec<f64> = values.iter().take(count).map(|v| v * mbps).collect();
        let curve = Scatter::new(seconds, rates)
            .name(name)
            .legend_group(name)
            .show_legend(x == "x")
            .mode(Mode::Lines)
            .line(line(colour).dash(dash))
            .x_axis(x)
            .y_axis(y);
        plot.add_trace(curve);
    }
}

fn layout(titles: &[(&str, String)]) -> Layout {
    let over = |y: &str| match y {
        "y" => (0.0, 1.0),
        "y2" => (0.0, 0.64),
        "y3" => (0.0, 0.26),
        _ => (0.55, 0.26),
    };
    let mut said: Vec<&(&str, String)> = titles.iter().collect();
    said.sort();
    said.dedup();
    let notes = said.into_iter().map(|(y, text)| {
        let (left, top) = over(y);
        Annotation::new()
            .text(text.replace('<', "&lt;"))
            .x_ref("paper")
            .y_ref("paper")
            .x(left)
            .y(top + 0.005)
            .x_anchor(plotly::common::Anchor::Left)
            .y_anchor(plotly::common::Anchor::Bottom)
            .show_arrow(false)
    });
    let ahead = |y: &str, domain: &[f64]| axis("time ahead, ms").anchor(y).domain(domain);
    let errors = || axis("error / mean capacity").domain(&[0.0, 0.26]);
    Layout::new()
        .title(Title::with_text("Prediction of capacity"))
        .margin(Margin::new().top(70))
        .plot_background_color(PAPER)
        .annotations(notes.collect())
        .x_axis(axis("").anchor("y"))
        .y_axis(axis("Mbit/s").domain(&[0.74, 1.0]))
        .x_axis2(axis("time, s").anchor("y2"))
        .y_axis2(axis("Mbit/s").domain(&[0.38, 0.64]))
        .x_axis3(ahead("y3", &[0.0, 0.45]))
        .y_axis3(errors())
        .x_axis4(ahead("y4", &[0.55, 1.0]))
        .y_axis4(errors().anchor("x4"))
}
