// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of an experiment. There is one for each metric, with a point for each cell
//! with the spread of its repetitions.
use crate::definition::{Axis, Definition, Form};
use crate::distribution_picture::{boxes, curves};
use crate::judge::value;
use crate::population_picture::populations;
use crate::run::Run;
use crate::seconds::THROUGHPUT;
use crate::seconds_picture::{courses, densities};
use alcc_live::axis::Axis as Scale;
use alcc_live::chart::{Chart, Curve, Shape};
use alcc_results::Spread;
use std::collections::BTreeMap;

/// Width and height of a figure.
pub(crate) const WIDE: (u32, u32) = (760, 340);
/// Size of a figure for a phone, which shows all of it.
pub(crate) const NARROW: (u32, u32) = (380, 300);

/// Width of the series at one category; the way to the next category is 1.
const BESIDE: f64 = 0.4;

/// A figure of a page.
pub(crate) struct Picture {
    /// Its name.
    pub label: String,
    /// Legend of its signs.
    pub caption: String,
    /// Colour, sign and name of each series. None: those of [`legend`].
    pub legend: Option<Vec<(&'static str, String, String)>>,
    pub chart: Chart,
    /// The same for a phone. None: too much for one, so that it scrolls.
    pub narrow: Option<Chart>,
}

impl Picture {
    /// The figure with the signs of [`legend`]. A chart without a label gets one.
    pub(crate) fn new(label: String, caption: String, is_narrow: bool, mut chart: Chart) -> Self {
        if chart.label.is_empty() {
            chart.label = format!("{label} of each cell; the table below has the figures");
        }
        Self {
            label,
            caption,
            legend: None,
            narrow: is_narrow.then(|| chart.clone()),
            chart,
        }
    }
}

/// True if a narrow figure has room for these names below its axis.
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
    /// Title of the horizontal axis.
    x_title: String,
    categories: Vec<String>,
    /// The categories are the series, so the legend names them, too.
    by_series: bool,
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

/// True if the values of an axis are numbers, with units or without.
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

/// The figures for each metric of the report; none if nothing can be drawn.
pub(crate) fn pictures(definition: &Definition, runs: &[Run]) -> Vec<Picture> {
    let report = &definition.report;
    // Of real programs, single seconds are not kept.
    let has_seconds = runs.iter().any(|run| !run.seconds.is_empty());
    if report.has_seconds() && !has_seconds {
        let is_population = report.form.contains(&Form::Population);
        let x = is_population.then_some("queue_delay_median_ms");
        return medians(definition, runs, THROUGHPUT, x)
            .into_iter()
            .collect();
    }
    let metrics = match report.y.as_slice() {
        [] => &[THROUGHPUT.to_owned()],
        some => some,
    };
    let mut all = Vec::new();
    for form in report.forms() {
        if *form == Form::Population {
            all.extend(populations(definition, runs));
            continue;
        }
        for metric in metrics {
            match form {
                Form::Series => all.extend(courses(definition, runs, metric)),
                Form::Density => all.extend(densities(definition, runs, metric)),
                Form::Distribution => all.extend(curves(definition, runs, metric)),
                Form::Boxes => all.extend(boxes(definition, runs, metric)),
                Form::Cells => {}
                Form::Median | Form::Population => {
                    all.extend(medians(definition, runs, metric, report.x.as_deref()));
                }
            }
        }
    }
    all
}

/// The medians of the cells over `x`; none if nothing can be drawn.
fn medians(
    definition: &Definition,
    runs: &[Run],
    metric: &str,
    x: Option<&str>,
) -> Option<Picture> {
    let panel = panel(definition, runs, metric, x);
    if panel.points.is_empty() {
        return None;
    }
    let caption = match definition.starts {
        1 => String::new(),
        n => format!("Vertical line: from the smallest to the largest of {n} starts."),
    };
    Some(picture(&panel, caption))
}

fn picture(panel: &Panel<'_>, caption: String) -> Picture {
    let fits = fit(panel.categories.iter().map(String::as_str));
    let is_narrow = panel.by_series || fits;
    let mut picture = Picture::new(title(panel.metric), caption, is_narrow, chart(panel));
    if let Some(narrow) = picture.narrow.as_mut().filter(|_| !fits) {
        // Where names have no room, the legend alone names them.
        narrow.x = Scale::names(vec![String::new(); panel.categories.len()]);
    }
    picture
}

fn panel<'a>(
    definition: &'a Definition,
    runs: &[Run],
    metric: &'a str,
    x: Option<&'a str>,
) -> Panel<'a> {
    let by_series = series(definition);
    // Without a metric, the horizontal axis is the last axis that varies and is not the series.
    let other = |(i, _): &(usize, &Axis)| Some(*i) != by_series;
    let varies = |one: &(usize, &Axis)| other(one) && one.1.choices.len() > 1;
    let axes = definition.sweep.iter().enumerate();
    let varied = axes
        .clone()
        .rfind(varies)
        .or_else(|| axes.clone().rfind(other));
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
        // One cell has no name.
        (None, None) => vec![String::new()],
        (Some(_), _) => Vec::new(),
    };
    Panel {
        metric,
        x_title: match (x, varied) {
            (Some(x), _) => title(x),
            (None, Some((_, axis))) => words(&axis.key),
            (None, None) => String::new(),
        },
        categories,
        by_series: x.is_none() && varied.is_some_and(|(i, _)| by_series == Some(i)),
        log_x: definition.report.log_x && x.is_some(),
        joined: x.is_none() && is_line && definition.sweep.len() <= 2,
        points: points.collect(),
    }
}

/// Fields whose names have no unit, or no words that are understood.
const TITLES: &[(&str, &str)] = &[
    ("below_tcp", "window below TCP's, share of the time"),
    ("between_p50_ms", "median time between bursts, ms"),
    ("between_p95_ms", "time between bursts p95, ms"),
    ("burst_p50", "median burst, packets"),
    ("burst_p95", "burst p95, packets"),
    ("curve_error", "error of the curve, share of the delay"),
    ("curve_rise", "delay at the end, times that at the begin"),
    ("curve_slope", "slope of the curve, ms per packet"),
    (
        "curve_steeper",
        "slope at low throughput, times that at high",
    ),
    ("cv_100ms", "variation in 100 ms, share of the mean"),
    ("cv_20ms", "variation in 20 ms, share of the mean"),
    ("cwnd", "CWND, packets"),
    (
        "error_k_step_100ms",
        "k-step error in 100 ms, share of the variation",
    ),
    (
        "error_k_step_20ms",
        "k-step error in 20 ms, share of the variation",
    ),
    (
        "error_linear_100ms",
        "linear error in 100 ms, share of the variation",
    ),
    (
        "error_linear_20ms",
        "linear error in 20 ms, share of the variation",
    ),
    ("fair_after_s", "time to 80 % of an equal share, s"),
    ("fct_ms", "completion time, ms"),
    ("jain", "Jain's index"),
    ("jain_1s", "Jain's index of single seconds"),
    ("loss", "loss, share of the packets"),
    ("power", "power, Mbit/s per second of delay"),
    ("rtx_per_episode", "sent again per episode, segments"),
    ("tcp_cwnd_median", "TCP's median window, segments"),
    ("tcp_cwnd_range", "TCP's window, p95 divided by p5"),
    ("share", "share of all flows' throughput"),
    ("timeouts", "timeouts, count"),
    ("utilization", "utilization, share of the link"),
    ("worst_share_10s", "least share over 10 s, 1 is equal"),
];

/// The name of a field as the title of an axis: its words, and its unit.
pub(crate) fn title(field: &str) -> String {
    if let Some((_, title)) = TITLES.iter().find(|(name, _)| *name == field) {
        return (*title).to_owned();
    }
    let units = [
        ("_ms", "ms"),
        ("_mbps", "Mbit/s"),
        ("_s", "s"),
        ("_to_native", "times the native form"),
    ];
    let split = |(end, unit)| Some((field.strip_suffix(end)?, unit));
    match units.into_iter().find_map(split) {
        Some((name, unit)) => format!("{}, {unit}", words(name)),
        None => words(field),
    }
}

/// A name as words.
pub(crate) fn words(name: &str) -> String {
    let name = name.replace('_', " ");
    match name.strip_prefix("rtt") {
        Some(rest) => format!("RTT{rest}"),
        None => name,
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

/// An axis with all values and a margin, from zero if `from_zero` is set.
pub(crate) fn scale(values: impl Iterator<Item = f64>, from_zero: bool) -> Scale {
    let (from, to) = range(values, from_zero);
    Scale::exactly(from, to)
}

fn chart(panel: &Panel<'_>) -> Chart {
    let x = || panel.points.iter().map(|point| point.at.0);
    let y = panel.points.iter().flat_map(|m| [m.spread.0, m.spread.1]);
    Chart {
        label: String::new(),
        x_title: panel.x_title.clone(),
        y_title: title(panel.metric),
        x: if panel.log_x {
            Scale::log(x().map(|v| v.max(1e-3)), 0.0, 1.0)
        } else if panel.categories.is_empty() {
            scale(x(), true)
        } else {
            Scale::names(panel.categories.clone())
        },
        y: scale(y, true),
        curves: points(panel),
    }
}

fn points(panel: &Panel<'_>) -> Vec<Curve> {
    let curve = |class, shape, points| Curve {
        class,
        shape,
        points,
    };
    let last = panel.points.iter().map(|point| point.series).max();
    let lines = (0..=last.unwrap_or(0)).filter(|_| panel.joined);
    let lines = lines.map(|series| {
        let of = panel.points.iter().filter(|point| point.series == series);
        curve(series, Shape::Whole, of.map(|point| point.at).collect())
    });
    let mut curves: Vec<Curve> = lines.collect();
    // Beside one another, or those with equal values would hide one another.
    let beside = !panel.categories.is_empty() && !panel.joined && !panel.by_series;
    let count = if beside { last.unwrap_or(0) + 1 } else { 1 };
    for point in &panel.points {
        let middle = (count - 1) as f64 / 2.0;
        let aside = (point.series as f64 - middle) * BESIDE / count as f64;
        let x = point.at.0 + if beside { aside } else { 0.0 };
        let (least, most) = point.spread;
        curves.push(curve(
            point.series,
            Shape::Whole,
            vec![(x, least), (x, most)],
        ));
        curves.push(curve(point.series, Shape::Signs, vec![(x, point.at.1)]));
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_words_and_units() {
        let fields = ["rtt_p95_ms", "throughput_mbps", "jain_1s", "load_s", "loss"];
        let titles = [
            "RTT p95, ms",
            "throughput, Mbit/s",
            "Jain's index of single seconds",
            "load, s",
            "loss, share of the packets",
        ];
        assert_eq!(fields.map(title), titles);
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
        let joined = |axes: &[String]| panel(&of(axes), &[], "loss", None).joined;
        assert!(joined(std::slice::from_ref(&rtt)) && joined(&[flow.clone(), rtt.clone()]));
        assert!(!joined(std::slice::from_ref(&flow)) && !joined(&[rtt.clone(), flow.clone()]));
        // The values of one axis of numbers stand below it: a legend would say them again.
        assert!(legend(&of(std::slice::from_ref(&rtt))).is_empty());
        assert_eq!(legend(&of(&[rtt, flow])), ["20ms", "40ms"]);
    }

    #[test]
    fn one_cell_stands_in_the_middle_and_one_choice_is_no_axis() {
        let text = "title = 't'\nsource = 's'\nstatement = 'x'\n[scenario]\nlink = '12mbit'\n";
        let of = |axes: &str| Definition::from_toml(&format!("{text}{axes}"), "e.toml").unwrap();
        let alone = of("flow = 'copa'\n");
        assert_eq!(panel(&alone, &[], "loss", None).categories, [""]);
        let axis =
            |key: &str, values: &str| format!("[[sweep]]\nkey = '{key}'\nvalues = {values}\n");
        let three = axis("flow", "['copa', 'cubic']") + &axis("rtt", "['20ms', '40ms']");
        let three = of(&(three + &axis("queue", "['droptail']")));
        let shown = panel(&three, &[], "loss", None);
        assert_eq!((shown.x_title.as_str(), shown.categories.len()), ("RTT", 2));
    }

    #[test]
    fn series_stand_beside_one_another_unless_lines_join_them() {
        let places = |joined, by_series| {
            let points = [0, 1].map(|series| Point {
                series,
                at: (0.0, 1.0),
                spread: (1.0, 1.0),
            });
            let panel = Panel {
                metric: "loss",
                x_title: "trace".to_owned(),
                categories: vec!["a".to_owned()],
                by_series,
                log_x: false,
                joined,
                points: points.into(),
            };
            let curves = super::points(&panel);
            let signs: Vec<_> = curves.iter().filter(|c| c.shape == Shape::Signs).collect();
            signs[1].points[0].0 - signs[0].points[0].0
        };
        assert!(places(false, false) > 0.1, "{}", places(false, false));
        assert_eq!([places(true, false), places(false, true)], [0.0, 0.0]);
    }

    /// A phone has no room for the names of many schemes, but they are in the legend.
    #[test]
    fn a_narrow_figure_has_names_where_they_fit() {
        let of = |names: &[&str]| {
            let panel = Panel {
                metric: "loss",
                x_title: "scheme".to_owned(),
                categories: names.iter().map(|name| (*name).to_owned()).collect(),
                by_series: true,
                log_x: false,
                joined: false,
                points: Vec::new(),
            };
            let drawn = picture(&panel, String::new());
            let svgs = [(drawn.chart, WIDE), (drawn.narrow.unwrap(), NARROW)];
            svgs.map(|(chart, size)| chart.svg(size).unwrap().contains(names[0]))
        };
        assert_eq!(of(&["copa", "cubic"]), [true, true]);
        assert_eq!(of(&["a rather long name"; 3]), [true, false]);
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
                x_title: "loss".to_owned(),
                categories: Vec::new(),
                by_series: false,
                log_x: false,
                joined: false,
                points: points.into(),
            };
            let chart = chart(&panel);
            for axis in [chart.x, chart.y] {
                let mut texts: Vec<String> = axis.ticks().into_iter().map(|t| t.1).collect();
                let count = texts.len();
                texts.sort_unstable();
                texts.dedup();
                assert!(count >= 3 && texts.len() == count, "{values:?} {texts:?}");
            }
        }
    }
}
