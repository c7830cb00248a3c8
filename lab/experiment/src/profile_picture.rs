// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Learned delay profiles as the Verus paper draws them. These are points with the curve through
//! them (figure 5), or curves over time (figure 7b). Delay in ms over the window in packets.
use crate::definition::{Definition, ProfileForm};
use crate::run::Run;
use crate::signs::{self, COLOURS};
use alcc_live::axis::Axis;
use alcc_live::chart::{Chart, Curve, Shape};
use alcc_results::DrawnProfile;

/// Maximum number of points of a curve: more cannot be distinguished and would make the page large.
const CURVE_POINTS: usize = 60;
/// Most measured points of a picture.
const POINTS: usize = 400;
/// The profiles of one cell.
pub struct Picture {
    /// The names of the cell's choices.
    pub cell: String,
    /// The drawing.
    pub chart: Chart,
    /// Legend: colour, sign, meaning.
    pub legend: Vec<(&'static str, String, String)>,
}

/// One curve with its look.
struct Line<'a> {
    third: usize,
    of: &'a DrawnProfile,
}

/// A picture for each cell with profiles, of its first start.
pub fn pictures(definition: &Definition, runs: &[Run]) -> Vec<Picture> {
    let Some(form) = definition.report.profile else {
        return Vec::new();
    };
    let drawn = runs.iter().filter(|run| !run.profiles.is_empty());
    drawn.map(|run| picture(form, run)).collect()
}

fn picture(form: ProfileForm, run: &Run) -> Picture {
    let cell = run.cell.join(", ");
    let profiles = run.profiles.as_slice();
    match (form, profiles) {
        (ProfileForm::Points, [.., last]) => {
            let line = [Line { third: 1, of: last }];
            let points = thinned(&last.points, POINTS);
            let label = format!(
                "{cell}: {} points and the curve through them after {:.0} s",
                last.points.len(),
                last.at_s
            );
            Picture {
                chart: chart(label, &line, points),
                legend: vec![
                    (
                        COLOURS[0],
                        "●".to_owned(),
                        "measured delay of a window".to_owned(),
                    ),
                    (
                        COLOURS[1],
                        signs::line(1).repeat(2),
                        "the curve through them".to_owned(),
                    ),
                ],
                cell,
            }
        }
        _ => {
            let (thirds, bounds) = thirds(profiles);
            let lines: Vec<Line<'_>> = profiles
                .iter()
                .zip(thirds)
                .map(|(of, third)| Line { third, of })
                .collect();
            let label = format!("{cell}: {} curves, one every five seconds", lines.len());
            let [low, high] = bounds;
            let names = [
                format!("seconds below {low:.1} Mbit/s"),
                format!("seconds from {low:.1} to {high:.1} Mbit/s"),
                format!("seconds above {high:.1} Mbit/s"),
            ];
            let signs = [0, 1, 2].map(|third| signs::line(third).repeat(2));
            let looks = COLOURS.into_iter().zip(signs).zip(names);
            Picture {
                chart: chart(label, &lines, Vec::new()),
                legend: looks.map(|((c, s), name)| (c, s, name)).collect(),
                cell,
            }
        }
    }
}

/// By throughput: the lower, the middle or the upper third, and the two bounds between them, Mbit/s.
fn thirds(profiles: &[DrawnProfile]) -> (Vec<usize>, [f64; 2]) {
    let mut sorted: Vec<f64> = profiles.iter().map(|one| one.throughput_mbps).collect();
    sorted.sort_by(f64::total_cmp);
    let bounds = [1, 2].map(|n| sorted.get(sorted.len() * n / 3).copied().unwrap_or(0.0));
    let third = |one: &DrawnProfile| bounds.iter().filter(|b| one.throughput_mbps >= **b).count();
    (profiles.iter().map(third).collect(), bounds)
}

/// At most `most` points, evenly chosen, including the last one.
fn thinned(points: &[(u32, f64)], most: usize) -> Vec<(f64, f64)> {
    let each = points.len().div_ceil(most.max(1)).max(1);
    let last = points.len().saturating_sub(1);
    let chosen = points.iter().enumerate();
    let chosen = chosen.filter(|(i, _)| i % each == 0 || *i == last);
    chosen
        .map(|(_, &(window, delay))| (f64::from(window), delay))
        .collect()
}

fn chart(label: String, lines: &[Line<'_>], points: Vec<(f64, f64)>) -> Chart {
    let dots = Curve {
        class: 0,
        shape: Shape::Dots,
        points,
    };
    let lines = lines.iter().map(|line| Curve {
        class: line.third,
        shape: Shape::Line,
        points: thinned(&line.of.curve, CURVE_POINTS),
    });
    let curves: Vec<Curve> = [dots].into_iter().chain(lines).collect();
    let all = curves.iter().flat_map(|curve| &curve.points);
    let (window, delay) = all.fold((1.0_f64, 1.0_f64), |(w, d), p| (w.max(p.0), d.max(p.1)));
    Chart {
        label,
        x_title: "sending window, packets".to_owned(),
        y_title: "delay, ms".to_owned(),
        x: Axis::exactly(0.0, window * 1.04),
        y: Axis::exactly(0.0, delay * 1.04),
        curves,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(at_s: f64, throughput_mbps: f64) -> DrawnProfile {
        DrawnProfile {
            at_s,
            throughput_mbps,
            points: (1..=900).map(|w| (w, f64::from(w))).collect(),
            curve: (1..=900).map(|w| (w, f64::from(w) * 1.1)).collect(),
        }
    }

    fn run(profiles: Vec<DrawnProfile>) -> Run {
        Run {
            cell: vec!["Verus".to_owned()],
            repetition: 1,
            profiles,
            ..Run::default()
        }
    }

    #[test]
    fn points_are_dots_and_the_last_curve_is_dashed() {
        let run = run(vec![profile(1.0, 1.0), profile(2.0, 1.0)]);
        let picture = picture(ProfileForm::Points, &run);
        let [dots, line] = &picture.chart.curves[..] else {
            panic!("{:?}", picture.chart)
        };
        assert!((300..=POINTS + 1).contains(&dots.points.len()));
        assert_eq!((line.class, signs::dashes(line.class)), (1, 1));
        let label = &picture.chart.label;
        assert!(label.contains("after 2 s"), "{label}");
        assert_eq!(picture.legend.len(), 2);
    }

    #[test]
    fn curves_are_told_apart_by_the_throughput_of_their_second() {
        let all: Vec<_> = [5.0, 1.0, 9.0, 2.0, 6.0, 8.0]
            .into_iter()
            .map(|mbps| profile(0.0, mbps))
            .collect();
        assert_eq!(thirds(&all), (vec![1, 0, 2, 0, 1, 2], [5.0, 8.0]));
        let picture = picture(ProfileForm::Curves, &run(all));
        let classes =
            [0, 1, 2].map(|n| picture.chart.curves.iter().filter(|c| c.class == n).count());
        // The dots, of which there are none, have the first class, too.
        assert_eq!(classes, [3, 2, 2]);
        let svg = picture.chart.svg(crate::picture::WIDE).unwrap();
        assert!(svg.len() < 100_000, "{}", svg.len());
        assert_eq!(picture.legend[0].2, "seconds below 5.0 Mbit/s");
    }

    #[test]
    fn without_profiles_there_is_no_picture() {
        assert_eq!(thinned(&[], 3), Vec::new());
        let ends = thinned(&[(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)], 2);
        assert_eq!(ends, [(1.0, 1.0), (3.0, 3.0), (4.0, 4.0)]);
        assert_eq!(thirds(&[]).0, Vec::<usize>::new());
    }
}
