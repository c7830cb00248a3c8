// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The distributions of the teacher's changes, by which the authors choose a grid.
use alcc_cc::model_driven::{Axis, Grid};
use alcc_lab::mdi::Changes;
use alcc_lab::report::plotting_script;
use plotly::common::{Line, LineShape, Mode, Title};
use plotly::layout::{Axis as PlotAxis, GridPattern, LayoutGrid};
use plotly::{Layout, Plot, Scatter};

/// The page; it loads nothing from anywhere.
pub(super) fn distributions(changes: &[Changes; 2], grid: &Grid) -> String {
    let mut plot = Plot::new();
    let axes = [
        ("delay", &grid.delay, "x", "y"),
        ("window", &grid.window, "x2", "y2"),
    ];
    let mut beyond = Vec::new();
    for (changes, (name, axis, x, y)) in changes.iter().zip(axes) {
        let all: u64 = changes.values().sum();
        let share = |n: u64| n as f64 / all.max(1) as f64;
        let mut sum = 0;
        let (values, shares): (Vec<f64>, Vec<f64>) = changes
            .iter()
            .map(|(tenths, n)| {
                sum += n;
                (*tenths as f64 / 10.0, share(sum))
            })
            .unzip();
        let curve = Scatter::new(values, shares)
            .name(name)
            .mode(Mode::Lines)
            .line(Line::new().shape(LineShape::Hv))
            .x_axis(x)
            .y_axis(y);
        plot.add_trace(curve);
        let edges = |axis: &Axis| (f64::from(axis.min), axis.max());
        let (first, last) = edges(axis);
        let outside = changes.iter().filter(|(tenths, _)| {
            let value = **tenths as f64 / 10.0;
            value < first || value > last
        });
        let outside = share(outside.map(|(_, n)| n).sum());
        beyond.push(format!(
            "{name}: bins from {first} to {last}, {:.2} % beyond",
            outside * 100.0
        ));
    }
    let range = |axis: &Axis| vec![f64::from(axis.min) * 1.5, axis.max() * 1.5];
    let title =
        |what: &str| Title::with_text(format!("change of the {what}: per cent times log10"));
    let share = || PlotAxis::new().title(Title::with_text("share of the epochs at or below"));
    plot.set_layout(
        Layout::new()
            .title(Title::with_text(beyond.join("; ")))
            .grid(
                LayoutGrid::new()
                    .rows(1)
                    .columns(2)
                    .pattern(GridPattern::Independent),
            )
            .x_axis(
                PlotAxis::new()
                    .title(title("delay"))
                    .range(range(&grid.delay)),
            )
            .x_axis2(
                PlotAxis::new()
                    .title(title("window"))
                    .range(range(&grid.window)),
            )
            .y_axis(share())
            .y_axis2(share()),
    );
    let figure = plot.to_json().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Changes of delay and window</title>\n\
         <script>{}</script></head>\n<body style=\"margin:0\"><div id=\"plot\" style=\"height:100vh\"></div>\n\
         <script>const figure = {figure};\n\
         Plotly.newPlot('plot', figure.data, figure.layout, {{responsive: true, displaylogo: false}});</script>\n\
         </body></html>\n",
        plotting_script()
    )
}
