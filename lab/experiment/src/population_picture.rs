// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Populations as the ALCC paper draws them, throughput over delay. Each flow has an outline
//! through the quartiles of its single seconds, and its sign at the medians.
use crate::definition::Definition;
use crate::distribution_picture::quartiles;
use crate::picture::{Picture, range, title};
use crate::run::Run;
use crate::seconds::{DELAY, THROUGHPUT};
use crate::seconds_picture::{Line, Panel, legend, panels};
use alcc_live::axis::Axis;
use alcc_live::chart::{Chart, Curve, Shape};

/// Points of an outline.
const POINTS: u32 = 72;

/// Lower quartile, median and upper quartile of delay and of throughput.
struct Region {
    look: usize,
    delay: [f64; 3],
    throughput: [f64; 3],
}

/// Quartiles of a line; none without values.
fn quartiles_of(line: &Line) -> Option<[f64; 3]> {
    let mut sorted: Vec<f64> = line.values().collect();
    sorted.sort_by(f64::total_cmp);
    quartiles(&sorted)
}

/// The way from a median in the direction `part`, of which 1 leads to the upper quartile.
fn towards([lower, median, upper]: [f64; 3], part: f64) -> f64 {
    let end = if part < 0.0 { lower } else { upper };
    median + (end - median) * part.abs()
}

impl Region {
    fn of(throughput: &Line, delay: &Line) -> Option<Self> {
        Some(Self {
            look: throughput.look,
            delay: quartiles_of(delay)?,
            throughput: quartiles_of(throughput)?,
        })
    }

    /// Around the medians: its four ends are the quartiles.
    fn outline(&self) -> Vec<(f64, f64)> {
        let point = |i: u32| {
            let angle = f64::from(i) / f64::from(POINTS) * std::f64::consts::TAU;
            let (sin, cos) = angle.sin_cos();
            (towards(self.delay, cos), towards(self.throughput, sin))
        };
        (0..=POINTS).map(point).collect()
    }

    fn in_words(&self) -> String {
        let [a, b, c] = self.throughput;
        let [d, e, f] = self.delay;
        format!("throughput {a:.1} to {c:.1}, median {b:.1}, delay {d:.1} to {f:.1}, median {e:.1}")
    }
}

/// Throughput over queueing delay, of the seconds of all starts.
pub(crate) fn populations(definition: &Definition, runs: &[Run]) -> Vec<Picture> {
    let delays = panels(definition, runs.iter(), DELAY);
    let of_delay = |panel: &Panel, line: &Line| {
        let panel = delays.iter().find(|one| one.name == panel.name)?;
        panel.lines.iter().find(|one| one.name == line.name)
    };
    let mut pictures = Vec::new();
    for panel in panels(definition, runs.iter(), THROUGHPUT) {
        let of = |line: &Line| {
            Some((
                line.name.clone(),
                Region::of(line, of_delay(&panel, line)?)?,
            ))
        };
        let named: Vec<(String, Region)> = panel.lines.iter().filter_map(of).collect();
        if named.is_empty() {
            continue;
        }
        let title = format!("{} over {}", title(THROUGHPUT), title(DELAY));
        let label = match panel.name.as_str() {
            "" => title,
            name => format!("{title}; {name}"),
        };
        let words = named.iter().map(|(name, region)| match name.as_str() {
            "" => region.in_words(),
            name => format!("{name}: {}", region.in_words()),
        });
        let words = words.collect::<Vec<_>>().join("; ");
        let caption = format!(
            "{label}. Outline: through the quartiles of the single seconds of all starts. Sign: medians."
        );
        let regions: Vec<Region> = named.into_iter().map(|(_, region)| region).collect();
        let alternative = format!("{label}, quartiles of single seconds. {words}");
        let picture = Picture::new(label, caption, true, chart(&regions, alternative));
        pictures.push(Picture {
            legend: Some(legend(&panel)),
            ..picture
        });
    }
    pictures
}

/// An axis with all these values. None is negative.
fn axis(values: impl Iterator<Item = f64>) -> Axis {
    let (from, to) = range(values, false);
    Axis::exactly(from.max(0.0), to)
}

fn chart(regions: &[Region], label: String) -> Chart {
    let outlines = regions.iter().flat_map(|region| {
        [Shape::Region, Shape::Line].map(|shape| (region, shape, region.outline()))
    });
    let medians = regions.iter().map(|region| {
        let median = (region.delay[1], region.throughput[1]);
        (region, Shape::Signs, vec![median])
    });
    let curve = |(region, shape, points): (&Region, Shape, Vec<(f64, f64)>)| Curve {
        class: region.look,
        shape,
        points,
    };
    Chart {
        label,
        x_title: title(DELAY),
        y_title: title(THROUGHPUT),
        x: axis(regions.iter().flat_map(|region| region.delay)),
        y: axis(regions.iter().flat_map(|region| region.throughput)),
        curves: outlines.chain(medians).map(curve).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seconds::Seconds;

    const TEXT: &str = "title = 't'\nsource = 's'\nstatement = 'x'\n[scenario]\nlink = '12mbit'\n
flow = '{form}'\n[[sweep]]\nkey = 'form'\nvalues = ['copa', 'cubic']\n
[[sweep]]\nkey = 'trace'\nvalues = ['a', 'b']\n[report]\nform = ['population', 'density']\n";

    fn run(cell: [&str; 2], repetition: u32, throughput: &[f64], delay: &[f64]) -> Run {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect();
        let seconds = Seconds {
            throughput_mbps: some(throughput),
            queue_delay_ms: some(delay),
            ..Seconds::default()
        };
        Run {
            cell: cell.map(str::to_owned).to_vec(),
            repetition,
            seconds: vec![seconds],
            ..Run::default()
        }
    }

    #[test]
    fn an_outline_goes_through_the_quartiles_of_all_starts() {
        let region = Region {
            look: 0,
            delay: [10.0, 12.0, 20.0],
            throughput: [1.0, 4.0, 5.0],
        };
        let outline = region.outline();
        let quarter = POINTS as usize / 4;
        let ends = [0, 1, 2, 3, 4].map(|n| outline[n * quarter]);
        let wanted = [
            (20.0, 4.0),
            (12.0, 5.0),
            (10.0, 4.0),
            (12.0, 1.0),
            (20.0, 4.0),
        ];
        for ((x, y), (a, b)) in ends.into_iter().zip(wanted) {
            assert!((x - a).abs() < 1e-9 && (y - b).abs() < 1e-9, "{ends:?}");
        }
    }

    #[test]
    fn each_trace_has_a_panel_with_all_schemes() {
        let definition = Definition::from_toml(TEXT, "e.toml").unwrap();
        let runs = [
            run(["copa", "a"], 1, &[1.0, 2.0], &[10.0, 20.0]),
            run(["copa", "a"], 2, &[3.0, 4.0, 5.0], &[30.0, 40.0, 50.0]),
            run(["cubic", "a"], 1, &[7.0], &[70.0]),
            run(["cubic", "b"], 1, &[8.0], &[80.0]),
            // Nothing came through.
            run(["copa", "b"], 1, &[0.0], &[]),
        ];
        let drawn = populations(&definition, &runs);
        let alternatives: Vec<&str> = drawn.iter().map(|one| one.chart.label.as_str()).collect();
        assert_eq!(
            alternatives,
            [
                "throughput, Mbit/s over queue delay, ms; trace: a, quartiles of single seconds. \
                 copa: throughput 2.0 to 4.0, median 3.0, delay 20.0 to 40.0, median 30.0; \
                 cubic: throughput 7.0 to 7.0, median 7.0, delay 70.0 to 70.0, median 70.0",
                "throughput, Mbit/s over queue delay, ms; trace: b, quartiles of single seconds. \
                 cubic: throughput 8.0 to 8.0, median 8.0, delay 80.0 to 80.0, median 80.0",
            ]
        );
        assert_eq!(drawn[0].legend.as_ref().unwrap().len(), 2);
        let svg = drawn[0].chart.svg(crate::picture::NARROW).unwrap();
        assert!(svg.contains("\nqueue delay, ms\n"), "{svg}");
        // An outline, its area and a sign.
        assert_eq!(svg.matches("class=\"k0\"").count(), 3, "{svg}");
        // Both forms, in their order.
        let all = crate::picture::pictures(&definition, &runs);
        let labels: Vec<&str> = all.iter().map(|one| one.label.as_str()).collect();
        assert_eq!(labels.len(), 4);
        assert!(
            labels[1].contains("over queue delay") && labels[2] == "throughput, Mbit/s; trace: a"
        );
    }
}
