// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The distributions of the teacher's changes, from which the authors choose a grid.
use alcc_live::axis::Axis;
use alcc_live::chart::{Chart, Curve, Shape};
use alcc_live::mdi::Changes;
use alcc_live::report::{Panel, page};
use alcc_zoo::model_driven::{Axis as Bins, Grid};

/// The page; it loads nothing from anywhere.
///
/// # Errors
/// The error of the drawing library.
pub(super) fn distributions(changes: &[Changes; 2], grid: &Grid) -> Result<String, String> {
    let mut panels = Vec::new();
    let mut beyond = Vec::new();
    for (class, (changes, (name, bins))) in changes
        .iter()
        .zip([("delay", &grid.delay), ("window", &grid.window)])
        .enumerate()
    {
        let all: u64 = changes.values().sum();
        let share = |n: u64| 100.0 * n as f64 / all.max(1) as f64;
        let mut sum = 0;
        let points = changes.iter().map(|(tenths, n)| {
            sum += n;
            (*tenths as f64 / 10.0, share(sum))
        });
        let curve = Curve {
            class,
            shape: Shape::Steps,
            points: points.collect(),
        };
        let (first, last) = edges(bins);
        let outside = changes.iter().filter(|(tenths, _)| {
            let value = **tenths as f64 / 10.0;
            value < first || value > last
        });
        let outside = share(outside.map(|(_, n)| n).sum());
        let said = format!("{name}: bins from {first} to {last}, {outside:.2} % beyond");
        panels.push(Panel {
            title: format!("Change of the {name}"),
            chart: Chart {
                label: format!("Share of the epochs at or below a change. {said}"),
                x_title: "per cent times log10".into(),
                y_title: "% of the epochs at or below".into(),
                x: Axis::exactly(1.5 * first, 1.5 * last),
                y: Axis::exactly(0.0, 100.0),
                curves: vec![curve],
            },
            is_half: true,
        });
        beyond.push(said);
    }
    let legend = [("delay", "#0072b2"), ("window", "#d55e00")];
    let legend = legend.map(|(name, colour)| (name.to_owned(), colour, ""));
    page(
        "Changes of delay and window",
        &beyond.join("; "),
        &legend,
        &panels,
    )
}

fn edges(bins: &Bins) -> (f64, f64) {
    (f64::from(bins.min), bins.max())
}
