// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distributions over the flows of all starts as papers draw them. Each series has a curve
//! of shares (CDF), or a box with whiskers.
use crate::definition::{Aggregate, Axis, Definition};
use crate::judge::value;
use crate::picture::{Picture, fit, legend, range, scale, series, title, words};
use crate::run::Run;
use alcc_live::axis::Axis as Scale;
use alcc_live::chart::{Chart, Curve, Shape};
use alcc_results::percentile;

/// Maximum number of markers on a curve: enough to distinguish lines without hiding them.
const MARKS: usize = 8;
/// Length of the whiskers: they reach the last value within this many interquartile ranges of the
/// box.
const WHISKERS: f64 = 1.5;

/// The values of each series, sorted.
type Samples = Vec<Vec<f64>>;

/// One value for each flow, or for each run if `flows` names an aggregation.
fn samples<'a>(
    definition: &Definition,
    runs: impl Iterator<Item = &'a Run>,
    metric: &str,
) -> Samples {
    let axis = series(definition);
    let choices = axis.map_or(1, |i| definition.sweep[i].choices.len());
    let mut samples = vec![Vec::new(); choices];
    for run in runs {
        let place = axis.and_then(|i| {
            let found = |choice: &crate::definition::Choice| choice.name == run.cell[i];
            definition.sweep[i].choices.iter().position(found)
        });
        let of = &mut samples[place.unwrap_or(0)];
        match definition.report.flows {
            Some(how) => of.extend(value(run, metric, None, how)),
            None => of.extend(
                (1..=run.flows.len().max(1))
                    .filter_map(|flow| value(run, metric, Some(flow), Aggregate::Mean)),
            ),
        }
    }
    for of in &mut samples {
        of.sort_by(f64::total_cmp);
    }
    samples
}

/// The axis that is not the series, the last of several.
fn varied(definition: &Definition) -> Option<(usize, &Axis)> {
    let by_series = series(definition);
    let axes = definition.sweep.iter().enumerate();
    axes.rev().find(|(i, _)| Some(*i) != by_series)
}

/// Noun for a value of the figure.
fn what(definition: &Definition) -> &'static str {
    match definition.report.flows {
        None => "flows",
        Some(_) => "runs",
    }
}

fn all(samples: &Samples) -> impl Iterator<Item = f64> + Clone + '_ {
    samples.iter().flatten().copied()
}

/// A curve of shares for each series, in a panel for each choice of the other axis.
pub(crate) fn curves(definition: &Definition, runs: &[Run], metric: &str) -> Vec<Picture> {
    let panels: Vec<(String, Samples)> = match varied(definition) {
        None => vec![(title(metric), samples(definition, runs.iter(), metric))],
        Some((i, axis)) => {
            let one = |choice: &crate::definition::Choice| {
                let runs = runs.iter().filter(|run| run.cell[i] == choice.name);
                let label = format!("{}; {}: {}", title(metric), axis.key, choice.name);
                (label, samples(definition, runs, metric))
            };
            axis.choices.iter().map(one).collect()
        }
    };
    let drawn = panels
        .iter()
        .filter(|(_, samples)| all(samples).count() > 0);
    // One scale for all panels: they are to be compared.
    let (from, to) = range(drawn.clone().flat_map(|(_, samples)| all(samples)), false);
    let least = drawn.clone().flat_map(|(_, samples)| all(samples));
    let from = if least.fold(f64::INFINITY, f64::min) >= 0.0 {
        from.max(0.0)
    } else {
        from
    };
    let what = what(definition);
    drawn
        .map(|(label, samples)| {
            let caption = format!("{label}. The share of the {what} with at most so much.");
            let chart = curve(samples, metric, what, Scale::exactly(from, to));
            Picture::new(label.clone(), caption, true, chart)
        })
        .collect()
}

fn curve(samples: &Samples, metric: &str, what: &str, x: Scale) -> Chart {
    let mut curves = Vec::new();
    for (class, values) in samples.iter().enumerate() {
        let share = |count: usize| count as f64 / values.len() as f64;
        let step = |(i, v): (usize, &f64)| [(*v, share(i)), (*v, share(i + 1))];
        curves.push(Curve {
            class,
            shape: Shape::Whole,
            points: values.iter().enumerate().flat_map(step).collect(),
        });
        let each = values.len().div_ceil(MARKS).max(1);
        let marked = values.iter().enumerate().skip(each / 2).step_by(each);
        curves.push(Curve {
            class,
            shape: Shape::Signs,
            points: marked.map(|(i, value)| (*value, share(i + 1))).collect(),
        });
    }
    Chart {
        label: String::new(),
        x_title: title(metric),
        y_title: format!("share of the {what}"),
        x,
        y: Scale::exactly(0.0, 1.0),
        curves,
    }
}

/// Quartiles of values in ascending order; `None` without values.
pub(crate) fn quartiles(sorted: &[f64]) -> Option<[f64; 3]> {
    let at = |percent| percentile(sorted, percent);
    Some([at(25)?, at(50)?, at(75)?])
}

/// Quartiles, and the last values within the reach of the whiskers.
#[derive(PartialEq, Debug)]
struct Five {
    least: f64,
    quarter: f64,
    median: f64,
    three: f64,
    most: f64,
}

impl Five {
    fn of(sorted: &[f64]) -> Option<Self> {
        let [quarter, median, three] = quartiles(sorted)?;
        let reach = (three - quarter) * WHISKERS;
        let within = |v: &&f64| (quarter - reach..=three + reach).contains(*v);
        Some(Self {
            least: *sorted.iter().find(within)?,
            quarter,
            median,
            three,
            most: *sorted.iter().rev().find(within)?,
        })
    }
}

/// A box for each series at each choice of the other axis.
pub(crate) fn boxes(definition: &Definition, runs: &[Run], metric: &str) -> Vec<Picture> {
    let groups: Vec<(String, Samples)> = match varied(definition) {
        None => vec![(String::new(), samples(definition, runs.iter(), metric))],
        Some((i, axis)) => {
            let one = |choice: &crate::definition::Choice| {
                let runs = runs.iter().filter(|run| run.cell[i] == choice.name);
                (choice.name.clone(), samples(definition, runs, metric))
            };
            axis.choices.iter().map(one).collect()
        }
    };
    if groups.iter().all(|(_, samples)| all(samples).count() == 0) {
        return Vec::new();
    }
    let x = varied(definition).map_or("", |(_, axis)| axis.key.as_str());
    let what = what(definition);
    let caption = format!(
        "Box: from the lower to the upper quartile of the {what} of all starts. Sign: median. Cross: mean. \
             Line: to the last of them within {WHISKERS} times the height of the box."
    );
    let series = legend(definition).len().max(1);
    // A box needs more room than a name.
    let fits = fit(groups.iter().map(|(name, _)| name.as_str())) && groups.len() * series <= 12;
    let chart = box_chart(&groups, metric, x, series);
    vec![Picture::new(title(metric), caption, fits, chart)]
}

fn box_chart(groups: &[(String, Samples)], metric: &str, x: &str, series: usize) -> Chart {
    let fives = groups.iter().flat_map(|(_, samples)| samples);
    let fives = fives.filter_map(|values| Five::of(values));
    let each = 0.8 / series as f64;
    let middle = (series - 1) as f64 / 2.0;
    let mut curves = Vec::new();
    for (group, (_, samples)) in groups.iter().enumerate() {
        for (class, values) in samples.iter().enumerate() {
            let at = group as f64 + (class as f64 - middle) * each;
            curves.extend(one_box(values, class, at, each * 0.35));
        }
    }
    Chart {
        label: String::new(),
        x_title: words(x),
        y_title: title(metric),
        x: Scale::names(groups.iter().map(|(name, _)| name.clone()).collect()),
        y: scale(fives.flat_map(|five| [five.least, five.most]), true),
        curves,
    }
}

/// A box of these values at this place, twice so wide.
fn one_box(values: &[f64], class: usize, at: f64, half: f64) -> Vec<Curve> {
    let Some(five) = Five::of(values) else {
        return Vec::new();
    };
    let (left, right) = (at - half, at + half);
    let (quarter, three) = (five.quarter, five.three);
    let around = [
        (left, quarter),
        (right, quarter),
        (right, three),
        (left, three),
        (left, quarter),
    ];
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let parts: [(Shape, &[(f64, f64)]); 5] = [
        (Shape::Whole, &around),
        (Shape::Whole, &[(at, five.least), (at, quarter)]),
        (Shape::Whole, &[(at, three), (at, five.most)]),
        (Shape::Crosses, &[(at, mean)]),
        (Shape::Signs, &[(at, five.median)]),
    ];
    let curve = |(shape, points): (Shape, &[(f64, f64)])| Curve {
        class,
        shape,
        points: points.to_vec(),
    };
    parts.map(curve).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_have_quartiles_and_whiskers_that_leave_out_what_is_far() {
        let five = Five::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((five.quarter, five.median, five.three), (2.0, 3.0, 4.0));
        assert_eq!((five.least, five.most), (1.0, 5.0));
        // The whiskers reach 4 + 1.5 * 2 = 7 at most.
        let far = Five::of(&[1.0, 2.0, 3.0, 4.0, 8.0]).unwrap();
        assert_eq!((far.three, far.most), (4.0, 4.0));
        assert_eq!(Five::of(&[]), None);
        assert_eq!(Five::of(&[7.0]).unwrap().most, 7.0);
    }

    #[test]
    fn a_curve_of_shares_has_a_step_for_each_value_and_ends_at_one() {
        let samples = vec![vec![1.0, 2.0, 4.0], vec![3.0]];
        let chart = curve(&samples, "loss", "flows", Scale::exactly(0.0, 5.0));
        let lines = chart.curves.iter().filter(|c| c.shape == Shape::Whole);
        let ends: Vec<_> = lines
            .map(|c| (c.points.len(), c.points.last().unwrap().1))
            .collect();
        assert_eq!(ends, [(6, 1.0), (2, 1.0)]);
        assert_eq!(chart.y_title, "share of the flows");
    }
}
