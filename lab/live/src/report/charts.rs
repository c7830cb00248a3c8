// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The charts of a comparison, link by link.
use super::Look;
use crate::axis::Axis;
use crate::chart::{Chart, Curve, Shape};
use crate::picture;
use alcc_results::{Results, SIMULATED, Series, quantiles};
use maud::{Markup, PreEscaped, html};

/// Size of a chart where the page is wide, and on a phone: it would show the words of the wide one
/// too small to read.
pub(super) type Sizes = [(u32, u32); 2];
/// A chart over time.
const OVER_TIME: Sizes = [(880, 250), (380, 240)];
/// Size of one of two charts in a row; its text is readable on a phone, too.
pub(super) const HALF: (u32, u32) = (450, 340);
/// The same for throughput against delay, which has smaller names inside.
const PLANE: (u32, u32) = (400, 302);
/// Throughput against delay over all links.
const OVERALL: Sizes = [(880, 420), (380, 360)];
/// Bytes of all curves over time together; a page is to stay below 1 MB.
const MAX_BYTES: usize = 280_000;
/// Bytes of a curve's point.
const POINT: usize = 10;
/// Number of points of a curve over time: as many as can be distinguished.
pub(super) const POINTS: (usize, usize) = (36, 400);

/// All charts of a link; a chart that cannot be drawn has the reason.
pub(super) struct Links<'a> {
    results: &'a Results,
    looks: &'a [Look],
    points: usize,
}

/// x and y of each.
type Points = Vec<(f64, f64)>;
/// A series with the number of its class.
pub(super) type Shown<'a> = (usize, &'a Series);

fn drawn(svg: Result<String, String>) -> Markup {
    match svg {
        Ok(svg) => html! { (PreEscaped(svg)) },
        Err(why) => html! { p { (why) } },
    }
}

/// The chart in two sizes, of which the page shows one. `draw` gets the size, and whether it is the
/// narrow one.
fn twice(sizes: Sizes, draw: impl Fn((u32, u32), bool) -> Markup) -> Markup {
    let [wide, narrow] = sizes;
    html! {
        div class="wide" { (draw(wide, false)) }
        div class="narrow" { (draw(narrow, true)) }
    }
}

/// A chart: it takes the pointer and the keys.
fn figure(classes: &str, chart: &Chart, size: (u32, u32)) -> Markup {
    html! { div class={ "plot " (classes) } tabindex="0" { (drawn(chart.svg(size))) } }
}

/// Throughput against delay over all links; nothing of one.
pub(super) fn overall(results: &Results, looks: &[Look]) -> Markup {
    twice(OVERALL, |size, _| {
        html! { div class="plot" { (drawn(picture::overall(results, looks, size))) } }
    })
}

fn panel(title: &str, note: &str, more: &Markup, content: &Markup) -> Markup {
    html! {
        section class="panel" {
            div class="head" { h2 { (title) } span { (note) } (more) }
            (content)
        }
    }
}

/// Averages neighbours, so that the eye sees the course and not single packets. Then joins bins
/// until there are at most `points`.
fn course(values: &[Option<f64>], bin_s: f64, points: usize) -> Vec<(f64, f64)> {
    let mean = |values: &[Option<f64>]| {
        let known: Vec<f64> = values.iter().copied().flatten().collect();
        if known.is_empty() {
            f64::NAN
        } else {
            known.iter().sum::<f64>() / known.len() as f64
        }
    };
    let each = values.len().div_ceil(points.max(1)).max(1);
    let reach = usize::from(each == 1);
    let places = (0..values.len()).step_by(each);
    places
        .map(|from| {
            let to = (from + each).min(values.len());
            let around = from.saturating_sub(reach)..(to + reach).min(values.len());
            let at = (from + to) as f64 / 2.0 * bin_s;
            (at, values.get(around).map_or(f64::NAN, mean))
        })
        .collect()
}

impl<'a> Links<'a> {
    pub(super) fn new(results: &'a Results, looks: &'a [Look]) -> Self {
        // Throughput, and delay on two scales, each wide and narrow.
        let curves = 3 * (results.series.len() + 1);
        let points = MAX_BYTES / POINT / curves * 2 / 3;
        let points = points.clamp(POINTS.0, POINTS.1);
        Self {
            results,
            looks,
            points,
        }
    }

    fn class(&self, series: &Series) -> usize {
        let mine = |l: &Look| l.scheme == series.scheme && l.side == series.side;
        self.looks.iter().position(mine).unwrap_or_default()
    }

    /// The series of the link's first repetition.
    pub(super) fn shown(&self, link: &str) -> Vec<Shown<'a>> {
        let all = || self.results.series.iter().filter(|s| s.link == link);
        let first = all().map(|s| s.run).min();
        let of_first = all().filter(|s| Some(s.run) == first);
        of_first.map(|s| (self.class(s), s)).collect()
    }

    /// The label of a chart with a figure of each scheme.
    fn label(&self, what: &str, link: &str, field: &str, unit: &str) -> String {
        let groups = self
            .results
            .summary
            .groups
            .iter()
            .filter(|g| g.link == link);
        let figures = groups.filter_map(|g| {
            let value = g.median(field)?;
            Some(format!(
                "{} {value:.1} {unit}",
                super::name(&self.results.label(&g.scheme), g.side.as_deref())
            ))
        });
        let figures: Vec<String> = figures.collect();
        format!("{what} on {link}: {}", figures.join(", "))
    }

    /// All panels of a link.
    pub(super) fn panels(&self, link: &str) -> Markup {
        let shown = self.shown(link);
        let plane = drawn(picture::of_link(self.results, link, self.looks, PLANE));
        let repeated = self
            .results
            .summary
            .groups
            .iter()
            .any(|g| g.link == link && g.runs > 2);
        let ellipses = if repeated {
            "large: median of the runs; ellipse: one standard deviation; "
        } else {
            ""
        };
        let plane_note = format!(
            "{ellipses}dashed: Pareto front; less delay is to the right: up and right is better"
        );
        let switch = html! {
            span class="switch" {
                button type="button" data-scale="log" aria-pressed="true" { "log" }
                button type="button" data-scale="linear" aria-pressed="false" { "linear" }
            }
        };
        let linear =
            html! { div class="scale-linear" hidden { (self.delay(link, &shown, false)) } };
        html! {
            @if !shown.is_empty() {
                (panel("Throughput", "what the bottleneck delivered, over what the link could carry (grey)", &html! {}, &self.throughput(link, &shown)))
                (panel("One-way delay", "waiting at the bottleneck + propagation, mean of the packets of each moment; thin line: propagation alone",
                    &switch, &html! { div class="scale-log" { (self.delay(link, &shown, true)) } (linear) }))
            }
            div class="pair" {
                @if !shown.is_empty() {
                    (panel("Delay distribution", "packets that took no longer than", &html! {}, &self.distribution(link, &shown)))
                }
                (panel("Throughput against delay", &plane_note, &html! {}, &html! { div class="plot" { (plane) } }))
            }
        }
    }

    fn over_time(&self, shown: &[Shown<'_>]) -> Axis {
        let length = |(_, s): &Shown<'_>| s.bin_s * s.throughput_mbps.len() as f64;
        Axis::exactly(0.0, shown.iter().map(length).fold(0.0, f64::max).max(1e-3))
    }

    fn course_chart(&self, chart: impl Fn(usize) -> Chart) -> Markup {
        twice(OVER_TIME, |size, is_narrow| {
            let points = if is_narrow {
                (self.points / 2).min(150)
            } else {
                self.points
            };
            figure("time", &chart(points), size)
        })
    }

    fn throughput(&self, link: &str, shown: &[Shown<'_>]) -> Markup {
        self.course_chart(|points| self.throughput_chart(link, shown, points))
    }

    /// Throughput over time, by curves of `points` points.
    pub(super) fn throughput_chart(&self, link: &str, shown: &[Shown<'_>], points: usize) -> Chart {
        let course = |values: &[f64], bin_s| {
            let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            course(&values, bin_s, points)
        };
        // One area for all: the schemes see the same trace from the same moment. Flows of one link
        // begin at different times and may go both ways: then it is the most that any could have.
        let bins = shown.iter().map(|(_, s)| s.capacity_mbps.len()).max();
        let most = |bin: usize| {
            let all = shown.iter().filter_map(|(_, s)| s.capacity_mbps.get(bin));
            all.copied()
                .filter(|mbps: &f64| mbps.is_finite())
                .reduce(f64::max)
        };
        let capacity: Vec<Option<f64>> = (0..bins.unwrap_or(0)).map(most).collect();
        let area = shown.first().map(|(class, s)| Curve {
            class: *class,
            shape: Shape::Area,
            points: self::course(&capacity, s.bin_s, points),
        });
        let lines = shown.iter().map(|(class, s)| Curve {
            class: *class,
            shape: Shape::Line,
            points: course(&s.throughput_mbps, s.bin_s),
        });
        let curves: Vec<Curve> = area.into_iter().chain(lines).collect();
        let y = curves.iter().flat_map(|c| &c.points).map(|p| p.1);
        Chart {
            label: self.label("Throughput over time", link, "throughput_mbps", "Mbit/s"),
            x_title: "s".into(),
            y_title: "Mbit/s".into(),
            x: self.over_time(shown),
            y: Axis::linear(y.filter(|v| v.is_finite()).chain([0.0]), 0.0, 1.0),
            curves,
        }
    }

    fn delay(&self, link: &str, shown: &[Shown<'_>], log: bool) -> Markup {
        self.course_chart(|points| self.delay_chart(link, shown, log, points))
    }

    /// Delay over time, by curves of `points` points.
    pub(super) fn delay_chart(
        &self,
        link: &str,
        shown: &[Shown<'_>],
        log: bool,
        points: usize,
    ) -> Chart {
        let propagation = self.results.flows.iter().filter(|f| f.link == link);
        let propagation = propagation
            .filter_map(|f| f.min_rtt_ms)
            .next()
            .map(|ms| ms / 2.0);
        let x = self.over_time(shown);
        let lines = shown.iter().map(|(class, s)| Curve {
            class: *class,
            shape: Shape::Line,
            points: course(&s.delay_ms, s.bin_s, points),
        });
        let rule = propagation.map(|ms| Curve {
            class: 0,
            shape: Shape::Rule,
            points: vec![(x.values().0, ms), (x.values().1, ms)],
        });
        let curves: Vec<Curve> = rule.into_iter().chain(lines).collect();
        let values = curves.iter().flat_map(|c| &c.points).map(|p| p.1);
        let values = values.filter(|v| v.is_finite());
        let y = if log {
            Axis::log(values, 0.0, 1.0)
        } else {
            Axis::linear(values.chain([0.0]), 0.0, 1.0)
        };
        Chart {
            label: self.label("Mean one-way delay over time", link, "delay_mean_ms", "ms"),
            x_title: "s".into(),
            y_title: "ms".into(),
            x,
            y,
            curves,
        }
    }

    fn distribution(&self, link: &str, shown: &[Shown<'_>]) -> Markup {
        figure("", &self.distribution_chart(link, shown), HALF)
    }

    /// The share of packets by their delay.
    pub(super) fn distribution_chart(&self, link: &str, shown: &[Shown<'_>]) -> Chart {
        let levels = quantiles();
        let curve = |(class, s): &Shown<'_>| Curve {
            class: *class,
            shape: Shape::Line,
            points: s
                .delay_quantiles_ms
                .iter()
                .copied()
                .zip(levels.iter().map(|q| 100.0 * q))
                .collect(),
        };
        let curves: Vec<Curve> = shown.iter().map(curve).collect();
        let x = curves.iter().flat_map(|c| &c.points).map(|p| p.0);
        Chart {
            label: self.label(
                "Share of packets by one-way delay",
                link,
                "delay_p95_ms",
                "ms at 95 %",
            ),
            x_title: "ms".into(),
            y_title: "%".into(),
            x: Axis::log(x.filter(|v| v.is_finite()), 0.0, 1.0),
            y: Axis::exactly(0.0, 100.0),
            curves,
        }
    }

    /// Native forms and what was measured beside them: the distributions of all runs.
    pub(super) fn kin(&self, link: &str) -> Vec<(&'a str, Markup)> {
        let pairs = || self.results.summary.pairs.iter().filter(|p| p.link == link);
        let mut natives: Vec<&str> = Vec::new();
        for pair in pairs() {
            if !natives.contains(&pair.native.as_str()) {
                natives.push(&pair.native);
            }
        }
        let of = |native: &'a str| {
            let names: Vec<&str> = [native]
                .into_iter()
                .chain(
                    pairs()
                        .filter(|p| p.native == native)
                        .map(|p| p.scheme.as_str()),
                )
                .collect();
            let charts = [("ms", 0.99), ("Mbit/s", 1.0)].map(|(unit, fit)| {
                let values: Vec<(usize, Vec<f64>)> = names
                    .iter()
                    .filter_map(|name| self.pooled(link, name, unit))
                    .collect();
                self.both(link, native, unit, fit, &values)
            });
            (
                native,
                html! { div class="pair" { @for chart in &charts { div { (chart) } } } },
            )
        };
        natives.into_iter().map(of).collect()
    }

    /// All packets' delays (the hundredths of each run), or the throughput of all single seconds.
    fn pooled(&self, link: &str, shown_as: &str, unit: &str) -> Option<(usize, Vec<f64>)> {
        let levels = quantiles();
        let is_hundredth = |q: f64| (100.0 * q - (100.0 * q).round()).abs() < 1e-9;
        let mut class = None;
        let mut all = Vec::new();
        for series in self.results.series.iter().filter(|s| s.link == link) {
            if series.scheme != shown_as || series.side.as_deref() == Some(SIMULATED) {
                continue;
            }
            class = Some(self.class(series));
            if unit == "ms" {
                let hundredths = series
                    .delay_quantiles_ms
                    .iter()
                    .zip(&levels)
                    .filter(|(_, q)| is_hundredth(**q));
                all.extend(hundredths.map(|(ms, _)| *ms));
            } else {
                all.extend(series.seconds_mbps());
            }
        }
        all.retain(|v| v.is_finite());
        all.sort_by(f64::total_cmp);
        class.filter(|_| !all.is_empty()).map(|class| (class, all))
    }

    /// Density and cumulated shares.
    fn both(
        &self,
        link: &str,
        native: &str,
        unit: &str,
        fit: f64,
        all: &[(usize, Vec<f64>)],
    ) -> Markup {
        let last = |values: &[f64]| {
            values
                .get((fit * (values.len() - 1) as f64) as usize)
                .copied()
        };
        let to = all.iter().filter_map(|(_, v)| last(v)).fold(1e-3, f64::max) * 1.05;
        let x = Axis::exactly(0.0, to);
        let chart = |what: &str,
                     y_title: &str,
                     y: Option<Axis>,
                     points: &dyn Fn(&[f64]) -> Points| {
            let curve = |(class, values): &(usize, Vec<f64>)| Curve {
                class: *class,
                shape: Shape::Line,
                points: points(values).into_iter().filter(|p| p.0 <= to).collect(),
            };
            let curves: Vec<Curve> = all.iter().map(curve).collect();
            let values = curves
                .iter()
                .flat_map(|c| &c.points)
                .map(|p| p.1)
                .chain([0.0]);
            let y = y.unwrap_or_else(|| Axis::linear(values, 0.0, 1.0));
            let label = format!(
                "{what} of {unit} on {link}, {native} and over TCP; the table below has the figures"
            );
            let chart = Chart {
                label,
                x_title: unit.into(),
                y_title: y_title.into(),
                x: x.clone(),
                y,
                curves,
            };
            figure("", &chart, HALF)
        };
        let cumulated = |values: &[f64]| {
            let n = values.len() as f64;
            values
                .iter()
                .enumerate()
                .map(|(i, v)| (*v, 100.0 * (i + 1) as f64 / n))
                .collect()
        };
        html! {
            (chart("Density", "density", None, &|values| density(values, to)))
            (chart("Cumulated distribution", "%", Some(Axis::exactly(0.0, 100.0)), &cumulated))
        }
    }
}

/// Scott's width of a kernel for these values; 0 of fewer than two.
pub fn bandwidth(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    1.06 * (squares / (n - 1.0)).sqrt() * n.powf(-0.2)
}

/// Estimated density of the values from zero to `to`: Gaussian kernels of Scott's width.
pub fn density(values: &[f64], to: f64) -> Vec<(f64, f64)> {
    let n = values.len() as f64;
    let h = bandwidth(values).max(to / 500.0);
    let at = |i: u32| {
        let x = f64::from(i) * to / 160.0;
        let sum: f64 = values
            .iter()
            .map(|v| (-((x - v) / h).powi(2) / 2.0).exp())
            .sum();
        (x, sum / (n * h * std::f64::consts::TAU.sqrt()))
    };
    (0..=160).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_has_at_most_so_many_points_and_knows_its_gaps() {
        let all: Vec<Option<f64>> = (0..10).map(|i| (i != 4).then(|| f64::from(i))).collect();
        let two = course(&all, 0.5, 2);
        assert_eq!(two, [(1.25, 1.5), (3.75, 7.0)]);
        // One by one, with a neighbour on both sides.
        let ten = course(&all, 1.0, 10);
        assert_eq!((ten.len(), ten[0], ten[4]), (10, (0.5, 0.5), (4.5, 4.0)));
        assert!(course(&[None], 1.0, 5)[0].1.is_nan());
    }

    /// 1.06 times the standard deviation times the fifth root of 1 / n, by hand.
    #[test]
    fn a_kernel_has_the_width_of_scott() {
        // Their standard deviation is 2.
        let width = bandwidth(&[1.0, 3.0, 5.0]);
        assert!(
            (width - 1.06 * 2.0 / 3f64.powf(0.2)).abs() < 1e-12,
            "{width}"
        );
        assert_eq!([bandwidth(&[7.0]), bandwidth(&[])], [0.0, 0.0]);
    }

    #[test]
    fn a_density_is_one_in_all() {
        let curve = density(&[10.0, 12.0, 14.0, 15.0], 40.0);
        let sum: f64 = curve.iter().map(|p| p.1 * 40.0 / 160.0).sum();
        assert!((sum - 1.0).abs() < 0.01, "{sum}");
    }
}
