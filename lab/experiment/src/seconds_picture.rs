// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single seconds as papers draw them: over time, a line for each flow, or as densities. Lines
//! differ in colour, in the shape of their signs and in their dashes.
use crate::definition::Definition;
use crate::picture::{Picture, range, series, title};
use crate::run::Run;
use crate::seconds::THROUGHPUT;
use crate::signs::{self, marker};
use alcc_live::axis::Axis;
use alcc_live::chart::{Chart, Curve, Shape};
use alcc_live::report::{bandwidth, density};
use std::collections::BTreeMap;

/// Number of signs on one line: enough to distinguish lines without hiding them.
const MARKS: usize = 6;
/// The begin of a logarithmic axis at least: no queue is shorter than one packet on a fast link.
const LEAST: f64 = 0.1;

/// A point of a line; without a value the line is interrupted.
type Point = (f64, Option<f64>);

/// A line of a panel.
pub(crate) struct Line {
    /// Number of its look.
    pub(crate) look: usize,
    pub(crate) name: String,
    points: Vec<Point>,
}

/// The lines that are drawn together.
pub(crate) struct Panel {
    /// The cells that it shows, unless it shows all of them.
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
    /// Capacity of the link in each second, if it varies.
    capacity: Vec<Point>,
}

impl Line {
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        self.points.iter().filter_map(|(_, value)| *value)
    }
}

/// The panels of the cells, with the lines of these runs.
pub(crate) fn panels<'a>(
    definition: &Definition,
    runs: impl Iterator<Item = &'a Run>,
    metric: &str,
) -> Vec<Panel> {
    let runs: Vec<&Run> = runs.filter(|run| !run.seconds.is_empty()).collect();
    let lines = |run: &Run| {
        run.seconds
            .iter()
            .map(|s| s.lines(metric).len())
            .sum::<usize>()
    };
    // Several lines of one cell have a panel of their own. Otherwise schemes are compared in one.
    let by_cell = runs.iter().any(|run| lines(run) > 1);
    let axis = series(definition).filter(|_| !by_cell);
    let place = |i: usize, name: &str| {
        let choices = &definition.sweep[i].choices;
        choices.iter().position(|choice| choice.name == name)
    };
    let mut panels: BTreeMap<Vec<Option<usize>>, Panel> = BTreeMap::new();
    for run in runs {
        let cell = run.cell.iter().enumerate();
        let of_panel = cell.filter(|(i, _)| Some(*i) != axis);
        let key = of_panel.clone().map(|(i, name)| place(i, name)).collect();
        let names = of_panel.map(|(i, name)| format!("{}: {name}", definition.sweep[i].key));
        let panel = panels.entry(key).or_insert_with(|| Panel {
            name: names.collect::<Vec<_>>().join(", "),
            lines: Vec::new(),
            capacity: Vec::new(),
        });
        if panel.capacity.is_empty() {
            panel.capacity = changing(run, metric);
        }
        let mut number = 0;
        for (flow, seconds) in run.seconds.iter().enumerate() {
            for (what, values) in seconds.lines(metric) {
                let flow = match run.seconds.len() {
                    1 => String::new(),
                    _ => format!("flow {}", flow + 1),
                };
                let scheme = axis.map_or("", |i| run.cell[i].as_str());
                let words = [scheme, &flow, what];
                let words = words.into_iter().filter(|word| !word.is_empty());
                let name = words.collect::<Vec<_>>().join(", ");
                let look = match axis {
                    Some(i) => place(i, scheme).unwrap_or(0),
                    None => number,
                };
                number += 1;
                // A mean over a second stands in its middle.
                let points = values.iter().enumerate();
                let points = points.map(|(second, value)| (second as f64 + 0.5, *value));
                match panel.lines.iter_mut().find(|line| line.name == name) {
                    Some(line) => line.points.extend(points),
                    None => panel.lines.push(Line {
                        look,
                        name,
                        points: points.collect(),
                    }),
                }
            }
        }
    }
    let mut panels: Vec<Panel> = panels.into_values().collect();
    panels.retain(|panel| !panel.lines.is_empty());
    for panel in &mut panels {
        panel.lines.sort_by_key(|line| line.look);
    }
    panels
}

/// Capacity of the link, unless it is constant.
fn changing(run: &Run, metric: &str) -> Vec<Point> {
    let longest = run.seconds.iter().max_by_key(|s| s.capacity_mbps.len());
    let values = longest.map_or(&[][..], |seconds| &seconds.capacity_mbps);
    let known = values.iter().flatten();
    let least = known.clone().fold(f64::INFINITY, |a, b| a.min(*b));
    let most = known.fold(0.0_f64, |a, b| a.max(*b));
    if metric != THROUGHPUT || most <= least * 1.05 {
        return Vec::new();
    }
    let seconds = values.iter().enumerate();
    let steps = seconds.flat_map(|(s, v)| [(s as f64, *v), (s as f64 + 1.0, *v)]);
    steps.collect()
}

/// Median of the values, and the smallest and the largest, in words.
fn in_words(values: impl Iterator<Item = f64>) -> String {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.as_slice() {
        [] => "nothing".to_owned(),
        [least, ..] => {
            let most = sorted[sorted.len() - 1];
            let median = sorted[sorted.len() / 2];
            format!("{least:.1} to {most:.1}, median {median:.1}")
        }
    }
}

/// The looks and the names of the lines.
pub(crate) fn legend(panel: &Panel) -> Vec<(&'static str, String, String)> {
    let of = |line: &Line| {
        let (colour, shape) = marker(line.look);
        let dashes = signs::line(line.look);
        (
            colour,
            format!("{dashes}{shape}{dashes}"),
            line.name.clone(),
        )
    };
    let named = panel.lines.iter().filter(|line| !line.name.is_empty());
    named.map(of).collect()
}

fn picture(panel: &Panel, metric: &str, over: &str, caption: &str, mut chart: Chart) -> Picture {
    let title = title(metric);
    let label = match panel.name.as_str() {
        "" => title,
        name => format!("{title}; {name}"),
    };
    let lines = panel.lines.iter().map(|line| {
        let values = in_words(line.values());
        match line.name.as_str() {
            "" => values,
            name => format!("{name}: {values}"),
        }
    });
    chart.label = format!("{label}, {over}. {}", lines.collect::<Vec<_>>().join("; "));
    let mut legend = legend(panel);
    if !panel.capacity.is_empty() {
        legend.push(("#808080", "▒".to_owned(), "offered by the link".to_owned()));
    }
    Picture {
        legend: Some(legend),
        ..Picture::new(label.clone(), format!("{label}. {caption}"), true, chart)
    }
}

/// Second by second, of the first start.
pub(crate) fn courses(definition: &Definition, runs: &[Run], metric: &str) -> Vec<Picture> {
    let first = runs.iter().filter(|run| run.repetition == 1);
    let panels = panels(definition, first, metric);
    let report = &definition.report;
    let log_y = report.log_y.iter().any(|one| one == metric);
    let lines = panels.iter().flat_map(|panel| &panel.lines);
    let last = lines.map(|line| line.points.len()).max().unwrap_or(1) as f64;
    let over = format!("second by second over {last} s");
    let drawn = panels.iter().map(|panel| {
        let mut values: Vec<f64> = panel.lines.iter().flat_map(Line::values).collect();
        values.extend(panel.capacity.iter().filter_map(|(_, value)| *value));
        let reach = report.reach.get(metric).copied();
        let short = values.iter().any(|value| *value < LEAST);
        let y = if log_y {
            let positive = values.iter().map(|value| value.max(LEAST));
            Axis::log(positive.chain(reach), 0.0, 1.0)
        } else {
            let to = range(values.into_iter(), true).1;
            Axis::exactly(0.0, to.max(reach.unwrap_or(0.0)))
        };
        let chart = Chart {
            label: String::new(),
            x_title: "time, s".to_owned(),
            y_title: title(metric),
            x: Axis::exactly(0.0, last),
            y,
            curves: curves(panel),
        };
        let mut caption = "Means of single seconds of the first start.".to_owned();
        if log_y && short {
            caption += " Less than 0.1 is drawn as 0.1.";
        }
        picture(panel, metric, &over, &caption, chart)
    });
    drawn.collect()
}

/// The density of the seconds of all starts.
pub(crate) fn densities(definition: &Definition, runs: &[Run], metric: &str) -> Vec<Picture> {
    let x_title = title(metric);
    let unit = x_title.rsplit_once(", ").map_or("unit", |(_, unit)| unit);
    let y_title = format!("density, per {unit}");
    let drawn = panels(definition, runs.iter(), metric)
        .into_iter()
        .map(|mut panel| {
            panel.capacity = Vec::new();
            // The kernels of the largest values reach beyond them.
            let end = |line: &Line| {
                let values: Vec<f64> = line.values().collect();
                values.iter().copied().fold(0.0, f64::max) + 3.0 * bandwidth(&values)
            };
            let (_, to) = range(panel.lines.iter().map(end), true);
            let dense = |line: &Line| {
                let values: Vec<f64> = line.values().collect();
                let curve = if values.is_empty() {
                    Vec::new()
                } else {
                    density(&values, to)
                };
                let points = curve.into_iter().map(|(at, dense)| (at, Some(dense)));
                Line {
                    look: line.look,
                    name: String::new(),
                    points: points.collect(),
                }
            };
            let dense = Panel {
                name: String::new(),
                lines: panel.lines.iter().map(dense).collect(),
                capacity: Vec::new(),
            };
            let most = dense.lines.iter().flat_map(Line::values);
            let chart = Chart {
                label: String::new(),
                x_title: x_title.clone(),
                y_title: y_title.clone(),
                x: Axis::exactly(0.0, to),
                y: Axis::exactly(0.0, range(most, true).1),
                curves: curves(&dense),
            };
            let caption =
                "Density of the single seconds of all starts: Gaussian kernels of Scott's width.";
            let over = "density of single seconds";
            picture(&panel, metric, over, caption, chart)
        });
    drawn.collect()
}

/// The capacity of the link, and lines with signs.
fn curves(panel: &Panel) -> Vec<Curve> {
    let mut curves = Vec::new();
    let offered = panel.capacity.iter().map(|(at, v)| (*at, v.unwrap_or(0.0)));
    curves.push(Curve {
        class: 0,
        shape: Shape::Area,
        points: offered.collect(),
    });
    let count = panel.lines.len().max(1);
    for (number, line) in panel.lines.iter().enumerate() {
        let points = line.points.iter();
        curves.push(Curve {
            class: line.look,
            shape: Shape::Line,
            points: points
                .map(|(at, value)| (*at, value.unwrap_or(f64::NAN)))
                .collect(),
        });
        // Not at the same places: lines that are alike must not hide one another's signs.
        let known = line
            .points
            .iter()
            .filter_map(|(at, value)| Some((*at, (*value)?)));
        let all: Vec<(f64, f64)> = known.collect();
        let each = all.len().div_ceil(MARKS).max(1);
        let first = each * (2 * number + 1) / (2 * count);
        curves.push(Curve {
            class: line.look,
            shape: Shape::Signs,
            points: all.iter().skip(first).step_by(each).copied().collect(),
        });
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seconds::Seconds;

    const TEXT: &str = "title = 't'\nsource = 's'\nstatement = 'x'\n[scenario]\nlink = '12mbit'\n
flow = '{flow}'\n[[sweep]]\nkey = 'form'\nvalues = [{ name = 'native', flow = 'copa' }, { name = 'above', flow = 'copa/over=cubic' }]\n
[[sweep]]\nkey = 'trace'\nvalues = ['a', 'b']\n[report]\nform = 'series'\ny = ['throughput_mbps']\n";

    fn definition(text: &str) -> Definition {
        Definition::from_toml(text, "e.toml").unwrap()
    }

    fn run(cell: &[&str], repetition: u32, seconds: Vec<Seconds>) -> Run {
        Run {
            cell: cell.iter().map(|&name| name.to_owned()).collect(),
            repetition,
            seconds,
            ..Run::default()
        }
    }

    fn seconds(values: &[f64]) -> Seconds {
        let some = |factor: f64| values.iter().map(|v| Some(v * factor)).collect();
        Seconds {
            capacity_mbps: some(2.0),
            throughput_mbps: some(1.0),
            queue_delay_ms: some(10.0),
            window: some(3.0),
            tcp_window: Vec::new(),
        }
    }

    #[test]
    fn forms_are_lines_of_a_panel_for_each_trace() {
        let cells = [
            ["native", "a"],
            ["native", "b"],
            ["above", "a"],
            ["above", "b"],
        ];
        let of = |(n, cell): (usize, &[&str; 2])| {
            let values = seconds(&[1.0, 2.0, n as f64 + 3.0]);
            [
                run(cell, 1, vec![values]),
                run(cell, 2, vec![seconds(&[99.0])]),
            ]
        };
        let runs: Vec<Run> = cells.iter().enumerate().flat_map(of).collect();
        let drawn = courses(&definition(TEXT), &runs, THROUGHPUT);
        let labels: Vec<&str> = drawn.iter().map(|one| one.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "throughput, Mbit/s; trace: a",
                "throughput, Mbit/s; trace: b"
            ]
        );
        // The first start alone.
        assert_eq!(
            drawn[0].chart.label,
            "throughput, Mbit/s; trace: a, second by second over 3 s. \
             native: 1.0 to 3.0, median 2.0; above: 1.0 to 5.0, median 2.0"
        );
        let legend = drawn[0].legend.as_ref().unwrap();
        let signs: Vec<(&str, &str)> = legend
            .iter()
            .map(|(_, s, n)| (s.as_str(), n.as_str()))
            .collect();
        assert_eq!(
            signs,
            [
                ("━●━", "native"),
                ("╍▲╍", "above"),
                ("▒", "offered by the link")
            ]
        );
        let svg = drawn[0].chart.svg(crate::picture::NARROW).unwrap();
        assert!(svg.contains("time, s") && svg.len() < 10_000, "{svg}");
        assert_eq!(svg.matches("class=\"area\"").count(), 1, "{svg}");
    }

    #[test]
    fn flows_and_windows_of_a_cell_have_a_panel_of_their_own() {
        let flows = vec![seconds(&[1.0, 2.0]), seconds(&[3.0])];
        let runs = [run(&["native", "a"], 1, flows)];
        let drawn = courses(&definition(TEXT), &runs, THROUGHPUT);
        assert_eq!(drawn[0].label, "throughput, Mbit/s; form: native, trace: a");
        assert!(
            drawn[0]
                .chart
                .label
                .ends_with("flow 1: 1.0 to 2.0, median 2.0; flow 2: 3.0 to 3.0, median 3.0")
        );

        let mut above = seconds(&[1.0, 2.0]);
        above.tcp_window = vec![Some(90.0), Some(91.0)];
        let runs = [run(&["above", "a"], 1, vec![above])];
        let drawn = courses(&definition(TEXT), &runs, "cwnd");
        let names: Vec<String> = drawn[0]
            .legend
            .iter()
            .flatten()
            .map(|(_, _, n)| n.clone())
            .collect();
        assert_eq!(names, ["window of the algorithm", "cwnd of TCP"]);
    }

    #[test]
    fn ten_lines_differ_without_colour_and_eighteen_without_signs() {
        use std::collections::BTreeSet;
        let shapes: BTreeSet<_> = (0..10).map(|i| (marker(i).1, signs::dashes(i))).collect();
        let colours: BTreeSet<_> = (0..18).map(|i| (marker(i).0, signs::dashes(i))).collect();
        assert_eq!((shapes.len(), colours.len()), (10, 18));
    }

    #[test]
    fn an_axis_reaches_as_far_as_it_is_told_and_a_logarithm_takes_an_empty_queue() {
        let text =
            TEXT.to_owned() + "reach = { throughput_mbps = 400 }\nlog-y = ['throughput_mbps']\n";
        let runs = [run(&["native", "a"], 1, vec![seconds(&[0.0, 2.0])])];
        let drawn = courses(&definition(&text), &runs, THROUGHPUT);
        let svg = drawn[0].chart.svg(crate::picture::WIDE).unwrap();
        assert!(svg.contains("\n100\n"), "{svg}");
        assert!(
            drawn[0].caption.contains("drawn as 0.1"),
            "{}",
            drawn[0].caption
        );
    }

    #[test]
    fn a_density_is_of_all_starts() {
        let text = TEXT.replace("'series'", "'density'");
        let one = |n, v| run(&["native", "a"], n, vec![seconds(&[v, v + 1.0])]);
        let drawn = densities(&definition(&text), &[one(1, 4.0), one(2, 8.0)], THROUGHPUT);
        assert!(
            drawn[0]
                .chart
                .label
                .ends_with("native: 4.0 to 9.0, median 8.0"),
            "{}",
            drawn[0].chart.label
        );
        assert_eq!(drawn[0].chart.y_title, "density, per Mbit/s");
        assert!(drawn[0].caption.contains("Scott"));
        // It ends on the axis.
        let lines = drawn[0]
            .chart
            .curves
            .iter()
            .filter(|c| c.shape == Shape::Line);
        assert!(lines.clone().count() == 1);
        for line in lines {
            assert!(line.points.last().unwrap().1 < 0.005, "{line:?}");
        }
    }
}
