// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figure of an experiment as SVG: a panel for each metric, a mark for each cell with the spread
//! of its repetitions. Series differ in colour and in the form of their marks.
use crate::definition::{Axis, Definition, Over};
use crate::judge::{number, value};
use crate::run::Run;
use alcc_results::Spread;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::collections::BTreeMap;

/// Okabe and Ito's palette, which colour-blind readers can tell apart, without its yellow and black:
/// pages are light or dark.
pub const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00",
];

const WIDTH: u32 = 760;
const HEIGHT: u32 = 340;

/// A mark.
struct Mark {
    series: usize,
    at: (f64, f64),
    /// From the smallest to the largest of the repetitions.
    spread: (f64, f64),
}

/// A panel.
struct Panel<'a> {
    metric: &'a str,
    /// Name of the horizontal axis, and what stands at its marks if they are words.
    across: &'a str,
    words: Vec<String>,
    log_x: bool,
    marks: Vec<Mark>,
}

/// The axis whose choices are series: the schemes, or else the first.
fn series(definition: &Definition) -> Option<usize> {
    let schemes = definition
        .sweep
        .iter()
        .position(|axis| axis.key == "scheme");
    schemes.or_else(|| (!definition.sweep.is_empty()).then_some(0))
}

/// The names of the series, in the order of their colours.
pub fn legend(definition: &Definition) -> Vec<&str> {
    let axis = series(definition).and_then(|i| definition.sweep.get(i));
    let choices = axis.into_iter().flat_map(|axis| &axis.choices);
    choices.map(|choice| choice.name.as_str()).collect()
}

/// Colour and form of the mark of a series, as text.
pub fn sign(series: usize) -> (&'static str, char) {
    // Four forms and six colours: neighbours differ in both.
    let form = ['●', '▲', '■', '◆'][series % 4];
    (COLOURS[series % COLOURS.len()], form)
}

/// One SVG for each metric of the report; none if nothing can be drawn.
///
/// # Errors
/// What the drawing library says.
pub fn svgs(definition: &Definition, runs: &[Run]) -> Result<Vec<(String, String)>, String> {
    let standard = ["throughput_mbps".to_owned()];
    let metrics = match definition.report.y.as_slice() {
        [] => &standard,
        some => some,
    };
    let mut all = Vec::new();
    for metric in metrics {
        let panel = panel(definition, runs, metric);
        if !panel.marks.is_empty() {
            all.push((metric.clone(), draw(&panel)?));
        }
    }
    Ok(all)
}

fn panel<'a>(definition: &'a Definition, runs: &[Run], metric: &'a str) -> Panel<'a> {
    let by_series = series(definition);
    // Without a metric of its own, the horizontal axis is what is varied beside the series.
    let other = |(i, _): &(usize, &Axis)| Some(*i) != by_series;
    let varied = definition.sweep.iter().enumerate().rfind(other);
    let varied = varied.or_else(|| by_series.map(|i| (i, &definition.sweep[i])));
    let mut cells: BTreeMap<Vec<usize>, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let axes = definition.sweep.iter().zip(&run.cell);
        let index = axes.map(|(axis, name)| axis.choices.iter().position(|c| c.name == *name));
        if let Some(index) = index.collect() {
            cells.entry(index).or_default().push(run);
        }
    }
    let of = |runs: &[&Run], metric: &str| {
        let values = runs
            .iter()
            .filter_map(|run| value(run, metric, None, Over::Mean));
        Spread::of(&values.collect::<Vec<_>>())
    };
    let x = definition.report.x.as_deref();
    let marks = cells.iter().filter_map(|(index, runs)| {
        let up = of(runs, metric)?;
        let along = match (x, varied) {
            (Some(x), _) => of(runs, x)?.median,
            (None, Some((axis, _))) => index[axis] as f64,
            (None, None) => 0.0,
        };
        Some(Mark {
            series: by_series.map_or(0, |i| index[i]),
            at: (along, up.median),
            spread: (up.min, up.max),
        })
    });
    let words = match (x, varied) {
        (None, Some((_, axis))) => axis.choices.iter().map(|c| c.name.clone()).collect(),
        _ => Vec::new(),
    };
    Panel {
        metric,
        across: x
            .or_else(|| varied.map(|(_, axis)| axis.key.as_str()))
            .unwrap_or(""),
        words,
        log_x: definition.report.log_x && x.is_some(),
        marks: marks.collect(),
    }
}

/// A tenth more on each side than what is there.
fn range(values: impl Iterator<Item = f64>, from_zero: bool) -> (f64, f64) {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
        (a.min(v), b.max(v))
    });
    let least = if from_zero { least.min(0.0) } else { least };
    let room = ((most - least) * 0.08).max(most.abs() * 0.02).max(1e-6);
    (
        if least == 0.0 && from_zero {
            0.0
        } else {
            least - room
        },
        most + room,
    )
}

fn draw(panel: &Panel<'_>) -> Result<String, String> {
    let mut svg = String::new();
    let across = panel.marks.iter().map(|mark| mark.at.0);
    let up = panel.marks.iter().flat_map(|m| [m.spread.0, m.spread.1]);
    let y = range(up, true);
    if panel.log_x {
        let least = across.clone().fold(f64::INFINITY, f64::min).max(1e-3);
        let most = across.fold(least, f64::max);
        let x = (least / 1.3..most * 1.3).log_scale().base(2.0);
        chart(panel, &mut svg, x, y)?;
    } else if panel.words.is_empty() {
        let (from, to) = range(across, true);
        chart(panel, &mut svg, from..to, y)?;
    } else {
        chart(panel, &mut svg, -0.5..panel.words.len() as f64 - 0.5, y)?;
    }
    // The colour of text and lines is the page's.
    Ok(svg.replace("\"#000000\"", "\"currentColor\""))
}

fn chart<X>(panel: &Panel<'_>, svg: &mut String, x: X, y: (f64, f64)) -> Result<(), String>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let text = |e: &dyn std::fmt::Display| format!("draw {}: {e}", panel.metric);
    let area = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y.0..y.1)
        .map_err(|e| text(&e))?;
    let words = &panel.words;
    let word = |at: &f64| {
        if words.is_empty() {
            return number(*at);
        }
        // A mark between two words has no name.
        let whole = (at - at.round()).abs() < 1e-6 && *at > -0.5;
        let found = whole.then(|| words.get(at.round() as usize)).flatten();
        found.cloned().unwrap_or_default()
    };
    let labels = if words.is_empty() {
        8
    } else {
        2 * words.len() + 1
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(128, 128, 128).mix(0.3))
        .x_labels(labels)
        .x_label_formatter(&word)
        .y_label_formatter(&|v| number(*v))
        .x_desc(panel.across)
        .y_desc(panel.metric)
        .draw()
        .map_err(|e| text(&e))?;
    for mark in &panel.marks {
        let colour = colour(mark.series).filled();
        let (least, most) = mark.spread;
        let line = [(mark.at.0, least), (mark.at.0, most)];
        let line = PathElement::new(line, colour.stroke_width(1));
        chart.plotting_area().draw(&line).map_err(|e| text(&e))?;
        let form = |points: &[(i32, i32)]| {
            EmptyElement::at(mark.at) + Polygon::new(points.to_vec(), colour)
        };
        let plotting = chart.plotting_area();
        let drawn = match sign(mark.series).1 {
            '●' => plotting.draw(&Circle::new(mark.at, 5, colour)),
            '▲' => plotting.draw(&form(&[(0, -6), (6, 5), (-6, 5)])),
            '■' => plotting.draw(&form(&[(-5, -5), (5, -5), (5, 5), (-5, 5)])),
            _ => plotting.draw(&form(&[(0, -7), (6, 0), (0, 7), (-6, 0)])),
        };
        drawn.map_err(|e| text(&e))?;
    }
    area.present().map_err(|e| text(&e))
}

fn colour(series: usize) -> RGBColor {
    let hex = sign(series).0;
    let part = |from: usize| {
        let digits = hex.get(from..from + 2).unwrap_or("80");
        u8::from_str_radix(digits, 16).unwrap_or(128)
    };
    RGBColor(part(1), part(3), part(5))
}
