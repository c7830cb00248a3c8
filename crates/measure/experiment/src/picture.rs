// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figure of an experiment as SVG: a panel for each metric, a point for each cell with the
//! spread of its repetitions. Series differ in colour and in the shape of their points.
use crate::definition::{Axis, Definition, Form};
use crate::distribution_picture::{boxes, curves};
use crate::judge::{number, value};
use crate::run::Run;
use crate::seconds_picture::{courses, densities};
use alcc_results::Spread;
use plotters::coord::CoordTranslate;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::collections::BTreeMap;

/// Six colours of medium lightness, since pages are light or dark. They are the best that a search
/// found for what the tests ask of them.
pub const COLOURS: [&str; 6] = [
    "#3c4bf0", "#f0690f", "#874b96", "#3c96f0", "#b43c00", "#b48796",
];

/// Width and height of a figure.
pub(crate) type Size = (u32, u32);
pub(crate) const WIDE: Size = (760, 340);
/// On a phone, which shows all of it.
const NARROW: Size = (380, 300);

/// A figure of a page.
pub(crate) struct Picture {
    /// Its name.
    pub label: String,
    /// What it shows, for who does not see it.
    pub alternative: String,
    /// What its signs mean.
    pub caption: String,
    /// Colour, sign and name of each series. None: those of [`legend`].
    pub legend: Option<Vec<(&'static str, String, String)>>,
    pub svg: String,
    /// The same for a phone. None: too much for one, so that it scrolls.
    pub narrow: Option<String>,
}

impl Picture {
    /// With the signs of [`legend`]; `draw` draws it in a size.
    pub(crate) fn new(
        label: String,
        caption: String,
        is_narrow: bool,
        draw: impl Fn(Size) -> Result<String, String>,
    ) -> Result<Self, String> {
        Ok(Self {
            alternative: format!("{label} of each cell; the table below has the figures"),
            label,
            caption,
            legend: None,
            svg: draw(WIDE)?,
            narrow: is_narrow.then(|| draw(NARROW)).transpose()?,
        })
    }
}

/// Ticks with numbers on a horizontal axis.
pub(crate) fn x_labels(size: Size) -> usize {
    size.0 as usize / 90
}

/// Whether a narrow figure has room for these names below its axis.
pub(crate) fn fit<'a>(names: impl Iterator<Item = &'a str> + Clone) -> bool {
    let longest = names.clone().map(|name| name.chars().count()).max();
    // The room without the vertical axis, and about the width of a letter.
    names.count() * (longest.unwrap_or(0) + 1) * 7 <= NARROW.0 as usize - 80
}

/// A point of a figure.
struct Point {
    series: usize,
    at: (f64, f64),
    /// Smallest and largest value of the repetitions.
    spread: (f64, f64),
}

/// A panel.
struct Panel<'a> {
    metric: &'a str,
    /// Label of the horizontal axis.
    x_label: &'a str,
    categories: Vec<String>,
    log_x: bool,
    /// The horizontal axis has numbers in order, and each series one point at each: lines join them.
    joined: bool,
    points: Vec<Point>,
}

/// Index of the axis whose choices are the series: `scheme`, or else the first of several. Numbers
/// alone are one series.
pub(crate) fn series(definition: &Definition) -> Option<usize> {
    let schemes = definition
        .sweep
        .iter()
        .position(|axis| axis.key == "scheme");
    schemes.or_else(|| match &definition.sweep[..] {
        [] => None,
        [only] if is_numeric(only) => None,
        _ => Some(0),
    })
}

/// Whether the values of an axis are numbers, with units or without.
fn is_numeric(axis: &Axis) -> bool {
    let number = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
    axis.choices.iter().all(|choice| number(&choice.name))
}

/// The names of the series, in the order of their colours.
pub fn legend(definition: &Definition) -> Vec<&str> {
    let axis = series(definition).and_then(|i| definition.sweep.get(i));
    let choices = axis.into_iter().flat_map(|axis| &axis.choices);
    choices.map(|choice| choice.name.as_str()).collect()
}

/// Colour and shape of the points of a series, as text.
pub fn marker(series: usize) -> (&'static str, char) {
    // Five shapes and six colours: neighbours differ in both, and up to five series in shape alone.
    let shape = ['●', '▲', '■', '◆', '▼'][series % 5];
    (COLOURS[series % COLOURS.len()], shape)
}

/// The figures for each metric of the report; none if nothing can be drawn.
///
/// # Errors
/// The error of the drawing library.
pub(crate) fn pictures(definition: &Definition, runs: &[Run]) -> Result<Vec<Picture>, String> {
    let standard = ["throughput_mbps".to_owned()];
    let metrics = match definition.report.y.as_slice() {
        [] => &standard,
        some => some,
    };
    let mut form = definition.report.form;
    // Of real programs, single seconds are not kept.
    let has_seconds = runs.iter().any(|run| !run.seconds.is_empty());
    let mut metrics = metrics;
    if form.has_seconds() && !has_seconds {
        (form, metrics) = (Form::Median, &standard);
    }
    let mut all = Vec::new();
    for metric in metrics {
        match form {
            Form::Series => all.extend(courses(definition, runs, metric)?),
            Form::Density => all.extend(densities(definition, runs, metric)?),
            Form::Distribution => all.extend(curves(definition, runs, metric)?),
            Form::Boxes => all.extend(boxes(definition, runs, metric)?),
            Form::Median => {
                let panel = panel(definition, runs, metric);
                if !panel.points.is_empty() {
                    let fits = fit(panel.categories.iter().map(String::as_str));
                    let caption = match definition.starts {
                        1 => String::new(),
                        n => format!(
                            "Vertical line: from the smallest to the largest of {n} starts."
                        ),
                    };
                    let draw = |size| draw(&panel, size);
                    all.push(Picture::new(title(metric), caption, fits, draw)?);
                }
            }
        }
    }
    Ok(all)
}

fn panel<'a>(definition: &'a Definition, runs: &[Run], metric: &'a str) -> Panel<'a> {
    let by_series = series(definition);
    // Without a metric, the horizontal axis is the last axis that is not the series.
    let other = |(i, _): &(usize, &Axis)| Some(*i) != by_series;
    let varied = definition.sweep.iter().enumerate().rfind(other);
    let varied = varied.or_else(|| by_series.map(|i| (i, &definition.sweep[i])));
    let is_line = varied.is_some_and(|(i, axis)| by_series != Some(i) && is_numeric(axis));
    let mut cells: BTreeMap<Vec<usize>, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let axes = definition.sweep.iter().zip(&run.cell);
        let index = axes.map(|(axis, name)| axis.choices.iter().position(|c| c.name == *name));
        if let Some(index) = index.collect() {
            cells.entry(index).or_default().push(run);
        }
    }
    let of = |runs: &[&Run], metric: &str| {
        let values = runs.iter().filter_map(|run| {
            value(
                run,
                metric,
                None,
                definition.report.flows.unwrap_or_default(),
            )
        });
        Spread::of(&values.collect::<Vec<_>>())
    };
    let x = definition.report.x.as_deref();
    let points = cells.iter().filter_map(|(index, runs)| {
        let y = of(runs, metric)?;
        let x_value = match (x, varied) {
            (Some(x), _) => of(runs, x)?.median,
            (None, Some((axis, _))) => index[axis] as f64,
            (None, None) => 0.0,
        };
        Some(Point {
            series: by_series.map_or(0, |i| index[i]),
            at: (x_value, y.median),
            spread: (y.min, y.max),
        })
    });
    let categories = match (x, varied) {
        (None, Some((_, axis))) => axis.choices.iter().map(|c| c.name.clone()).collect(),
        _ => Vec::new(),
    };
    Panel {
        metric,
        x_label: x
            .or_else(|| varied.map(|(_, axis)| axis.key.as_str()))
            .unwrap_or(""),
        categories,
        log_x: definition.report.log_x && x.is_some(),
        joined: x.is_none() && is_line && definition.sweep.len() <= 2,
        points: points.collect(),
    }
}

/// The name of a field as the title of an axis: its words, and its unit.
pub(crate) fn title(field: &str) -> String {
    match field {
        "cwnd" => return "CWND, packets".to_owned(),
        "jain" => return "Jain's index".to_owned(),
        "jain_1s" => return "Jain's index of single seconds".to_owned(),
        _ => {}
    }
    let units = [("_ms", "ms"), ("_mbps", "Mbit/s"), ("_s", "s")];
    let split = |(end, unit)| Some((field.strip_suffix(end)?, unit));
    let words = |name: &str| {
        let name = name.replace('_', " ");
        match name.strip_prefix("rtt") {
            Some(rest) => format!("RTT{rest}"),
            None => name,
        }
    };
    match units.into_iter().find_map(split) {
        Some((name, unit)) => format!("{}, {unit}", words(name)),
        None => words(field),
    }
}

/// The range of the values, with a margin.
pub(crate) fn range(values: impl Iterator<Item = f64>, from_zero: bool) -> (f64, f64) {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
        (a.min(v), b.max(v))
    });
    let least = if from_zero { least.min(0.0) } else { least };
    let room = ((most - least) * 0.08).max(most.abs() * 0.02);
    let room = if room > 0.0 { room } else { 1.0 };
    (
        if least == 0.0 && from_zero {
            0.0
        } else {
            least - room
        },
        most + room,
    )
}

/// A tick of an axis so wide: neighbours differ in their text, however small or close their values.
pub(crate) fn tick(value: f64, wide: f64) -> String {
    let digits = 2 - wide.log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 15) as usize);
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

fn draw(panel: &Panel<'_>, size: Size) -> Result<String, String> {
    let mut svg = String::new();
    let x_label = panel.points.iter().map(|point| point.at.0);
    let y = panel.points.iter().flat_map(|m| [m.spread.0, m.spread.1]);
    let y = range(y, true);
    if panel.log_x {
        let least = x_label.clone().fold(f64::INFINITY, f64::min).max(1e-3);
        let most = x_label.fold(least, f64::max);
        let x = (least / 1.3..most * 1.3).log_scale().base(2.0);
        chart(panel, size, &mut svg, x, y, &number)?;
    } else if panel.categories.is_empty() {
        let (from, to) = range(x_label, true);
        chart(panel, size, &mut svg, from..to, y, &|at| {
            tick(at, to - from)
        })?;
    } else {
        chart(
            panel,
            size,
            &mut svg,
            -0.5..panel.categories.len() as f64 - 0.5,
            y,
            &number,
        )?;
    }
    Ok(page_colours(&svg))
}

/// Text and lines take the colour of the page.
pub(crate) fn page_colours(svg: &str) -> String {
    svg.replace("\"#000000\"", "\"currentColor\"")
}

/// Draws the sign of a series.
pub(crate) fn mark<C: CoordTranslate<From = (f64, f64)>>(
    area: &DrawingArea<SVGBackend<'_>, C>,
    series: usize,
    at: (f64, f64),
) -> Result<(), String> {
    let colour = colour(series).filled();
    let shape =
        |points: &[(i32, i32)]| EmptyElement::at(at) + Polygon::new(points.to_vec(), colour);
    let drawn = match marker(series).1 {
        '●' => area.draw(&Circle::new(at, 5, colour)),
        '▲' => area.draw(&shape(&[(0, -6), (6, 5), (-6, 5)])),
        '■' => area.draw(&shape(&[(-5, -5), (5, -5), (5, 5), (-5, 5)])),
        '▼' => area.draw(&shape(&[(0, 6), (6, -5), (-6, -5)])),
        _ => area.draw(&shape(&[(0, -7), (6, 0), (0, 7), (-6, 0)])),
    };
    drawn.map_err(|e| e.to_string())
}

fn chart<X>(
    panel: &Panel<'_>,
    size: Size,
    svg: &mut String,
    x: X,
    y: (f64, f64),
    x_tick: &dyn Fn(f64) -> String,
) -> Result<(), String>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let text = |e: &dyn std::fmt::Display| format!("draw {}: {e}", panel.metric);
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y.0..y.1)
        .map_err(|e| text(&e))?;
    let categories = &panel.categories;
    let word = |at: &f64| {
        if categories.is_empty() {
            return x_tick(*at);
        }
        // A tick between two categories has no name.
        let whole = (at - at.round()).abs() < 1e-6 && *at > -0.5;
        let found = whole.then(|| categories.get(at.round() as usize)).flatten();
        found.cloned().unwrap_or_default()
    };
    let labels = if categories.is_empty() {
        x_labels(size)
    } else {
        2 * categories.len() + 1
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(128, 128, 128).mix(0.3))
        .x_labels(labels)
        .x_label_formatter(&word)
        .y_label_formatter(&|v| tick(*v, y.1 - y.0))
        .x_desc(title(panel.x_label))
        .y_desc(title(panel.metric))
        .draw()
        .map_err(|e| text(&e))?;
    let last = panel.points.iter().map(|point| point.series).max();
    for series in (0..=last.unwrap_or(0)).filter(|_| panel.joined) {
        let of = panel.points.iter().filter(|point| point.series == series);
        let line = PathElement::new(of.map(|p| p.at).collect::<Vec<_>>(), colour(series));
        chart.plotting_area().draw(&line).map_err(|e| text(&e))?;
    }
    for point in &panel.points {
        let colour = colour(point.series);
        let (least, most) = point.spread;
        let line = [(point.at.0, least), (point.at.0, most)];
        let line = PathElement::new(line, colour.stroke_width(1));
        chart.plotting_area().draw(&line).map_err(|e| text(&e))?;
        mark(chart.plotting_area(), point.series, point.at).map_err(|e| text(&e))?;
    }
    area.present().map_err(|e| text(&e))
}

pub(crate) fn colour(series: usize) -> RGBColor {
    let hex = marker(series).0;
    let part = |from: usize| {
        let digits = hex.get(from..from + 2).unwrap_or("80");
        u8::from_str_radix(digits, 16).unwrap_or(128)
    };
    RGBColor(part(1), part(3), part(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How people see colours, in linear light: all, and those without one of three kinds of cones.
    /// Machado, Oliveira and Fernandes 2009, table 1, severity 1.
    const VISIONS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ];

    fn times(matrix: [[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
    }

    fn linear(hex: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let byte = u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let v = f64::from(byte) / 255.0;
            if v <= 0.04045 {
                v / 12.92
            } else {
                ((v + 0.055) / 1.055).powf(2.4)
            }
        })
    }

    /// WCAG 2.1, "contrast ratio".
    fn contrast(one: &str, other: &str) -> f64 {
        let light = |hex| {
            let [r, g, b] = linear(hex);
            0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
        };
        let (a, b) = (light(one), light(other));
        a.max(b) / a.min(b)
    }

    /// Ottosson 2020: distances in this space are about those that people see.
    fn oklab(rgb: [f64; 3]) -> [f64; 3] {
        let cones = times(
            [
                [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
                [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
                [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
            ],
            rgb.map(|v| v.clamp(0.0, 1.0)),
        );
        times(
            [
                [0.210_454_255_3, 0.793_617_785, -0.004_072_046_8],
                [1.977_998_495_1, -2.428_592_205, 0.450_593_709_9],
                [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766],
            ],
            cones.map(f64::cbrt),
        )
    }

    fn distance(one: &str, other: &str, vision: [[f64; 3]; 3]) -> f64 {
        let of = |hex| oklab(times(vision, linear(hex)));
        let (a, b) = (of(one), of(other));
        (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn axes_have_words_and_units() {
        let fields = ["rtt_p95_ms", "throughput_mbps", "jain_1s", "fct_s", "loss"];
        let titles = [
            "RTT p95, ms",
            "throughput, Mbit/s",
            "Jain's index of single seconds",
            "fct, s",
            "loss",
        ];
        assert_eq!(fields.map(title), titles);
    }

    #[test]
    fn five_series_differ_in_shape_and_twelve_in_shape_or_colour() {
        use std::collections::BTreeSet;
        let shapes: BTreeSet<char> = (0..5).map(|i| marker(i).1).collect();
        let both: BTreeSet<(&str, char)> = (0..12).map(marker).collect();
        assert_eq!((shapes.len(), both.len()), (5, 12));
    }

    #[test]
    fn numbers_are_one_series_or_lines() {
        let text = "title = 't'\nsource = 's'\nstatement = 'x'\n[scenario]\nlink = '12mbit'\n";
        let axis =
            |key: &str, values: &str| format!("[[sweep]]\nkey = '{key}'\nvalues = {values}\n");
        let of = |axes: &[String]| {
            Definition::from_toml(&(text.to_owned() + &axes.concat()), "e.toml").unwrap()
        };
        let rtt = axis("rtt", "['20ms', '40ms']");
        let flow = axis("flow", "['copa', 'cubic']");
        let joined = |axes: &[String]| panel(&of(axes), &[], "loss").joined;
        assert!(joined(std::slice::from_ref(&rtt)) && joined(&[flow.clone(), rtt.clone()]));
        assert!(!joined(std::slice::from_ref(&flow)) && !joined(&[rtt.clone(), flow.clone()]));
        // The values of one axis of numbers stand below it: a legend would say them again.
        assert!(legend(&of(std::slice::from_ref(&rtt))).is_empty());
        assert_eq!(legend(&of(&[rtt, flow])), ["20ms", "40ms"]);
    }

    #[test]
    fn no_two_ticks_have_the_same_text() {
        for values in [
            [0.0, 3e-7],
            [0.0, 0.0],
            [0.0, 4e-5],
            [2e3, 5e5],
            [1e-12, 2e-12],
        ] {
            let points = values.map(|v| Point {
                series: 0,
                at: (v, v),
                spread: (v, v),
            });
            let panel = Panel {
                metric: "loss",
                x_label: "loss",
                categories: Vec::new(),
                log_x: false,
                joined: false,
                points: points.into(),
            };
            let svg = draw(&panel, WIDE).unwrap();
            let mut texts: Vec<&str> = (svg.lines())
                .filter(|line| line.parse::<f64>().is_ok())
                .collect();
            assert!(texts.len() > 6, "{values:?} {texts:?}");
            texts.sort_unstable();
            let twice = |text: &&str| texts.iter().filter(|t| *t == text).count() > 2;
            // Once on each axis.
            assert!(!texts.iter().any(twice), "{values:?} {texts:?}");
        }
    }

    #[test]
    fn the_formulas_have_their_known_values() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        assert!((contrast("#767676", "#ffffff") - 4.54).abs() < 0.01);
        assert!((distance("#000000", "#ffffff", VISIONS[0]) - 1.0).abs() < 1e-3);
        // Red and green of equal lightness are alike for who lacks the cones for green.
        assert!(
            distance("#b04000", "#707000", VISIONS[2])
                < distance("#b04000", "#707000", VISIONS[0]) / 2.0
        );
    }

    #[test]
    fn every_colour_is_seen_on_light_and_dark_pages() {
        for colour in COLOURS {
            for background in ["#ffffff", "#121212"] {
                let found = contrast(colour, background);
                // WCAG 2.1, 1.4.11: graphical objects.
                assert!(found >= 3.0, "{colour} on {background}: {found:.2}");
            }
        }
    }

    #[test]
    fn no_two_colours_are_alike_to_anyone() {
        for (i, one) in COLOURS.iter().enumerate() {
            for other in &COLOURS[..i] {
                for (v, vision) in VISIONS.into_iter().enumerate() {
                    let found = distance(one, other, vision);
                    // About ten times what is just noticed. With Okabe and Ito's six it is 0.08.
                    assert!(found >= 0.13, "{one} and {other}, vision {v}: {found:.3}");
                }
            }
        }
    }
}
