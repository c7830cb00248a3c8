// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The field's picture of a comparison as SVG: throughput against delay. The delay's axis is
//! logarithmic and reversed, so that up and right is better. A large mark is the median of a
//! scheme's runs, and a dot is a run. An ellipse is one standard deviation of the runs. With
//! several links a panel over all stands above one for each. There a large mark is the mean, a dot
//! a link.
mod panel;

use crate::axis::Axis;
use crate::chart::{self, Area, FINE, FONT, Failure, RULE, SOFT, escape, numbered};
use crate::palette;
use crate::report::Look;
use alcc_results::Results;
use panel::{Panel, links, one, over_all};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 1200;
/// Height of the panel over all, and of the only one.
const LARGE: u32 = 560;
const SMALL: u32 = 300;
/// Small panels in a row.
const COLUMNS: u32 = 3;
const HEAD: u32 = 84;
/// Room for a panel's title.
const TITLE: u32 = 34;
/// The same without one.
pub(crate) const NO_TITLE: u32 = 16;
/// Offset of the plot inside a panel.
const LEFT: u32 = 62;
/// Radius of a large mark with a name beside it, of one without, and of a dot.
const RADII: [u32; 3] = [8, 6, 3];
pub(crate) const INK: RGBColor = RGBColor(0x17, 0x21, 0x2b);

/// The fonts of a picture that stands alone.
pub(crate) const FAMILY: &str =
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/// Makes the picture dark where pages are, and alone in a window also what is around it. White
/// becomes black, and colours keep their hues.
const DARK: &str = "svg{color-scheme:light dark}@media(prefers-color-scheme:dark){svg{filter:invert(1) hue-rotate(180deg)}}";

/// The picture; empty without figures. Of simulated and emulated rows it shows the emulated ones.
///
/// # Errors
/// The error of the drawing library.
pub fn svg(results: &Results) -> Result<String, String> {
    let looks = palette::looks(results);
    let number = |name: &str, _: Option<&str>| {
        let found = looks.iter().position(|(known, _)| *known == name);
        found.unwrap_or(looks.len())
    };
    let links = links(results);
    let mut panels: Vec<Panel<'_>> = over_all(results, &links, &number).into_iter().collect();
    for link in &links {
        panels.push(one(results, link, links.len() == 1, &number));
    }
    panels.retain(|panel| !panel.marks.is_empty());
    if panels.is_empty() {
        return Ok(String::new());
    }
    page(results, &panels, &looks).map_err(|e| format!("draw the picture: {e}"))
}

/// The panel of a link for a page, with width and height in page units.
pub(crate) fn of_link(
    results: &Results,
    link: &str,
    looks: &[Look],
    size: (u32, u32),
) -> Result<String, String> {
    let panel = one(results, link, true, &|name, side| look(looks, name, side));
    alone(&panel, size)
}

/// Draws the panel of a link into an area, at that place, so wide and high.
pub(crate) fn draw_link(
    area: &Area<'_>,
    results: &Results,
    link: &str,
    looks: &[Look],
    (at, size): ((u32, u32), (u32, u32)),
) -> Result<(), Failure> {
    let mut panel = one(results, link, true, &|name, side| look(looks, name, side));
    panel.title.clear();
    panel.carried = "throughput, Mbit/s";
    if panel.marks.is_empty() {
        return Ok(());
    }
    draw(area, &panel, at, size)
}

/// The panel over all links for a page; empty if there is one link only.
pub(crate) fn overall(
    results: &Results,
    looks: &[Look],
    size: (u32, u32),
) -> Result<String, String> {
    let panel = over_all(results, &links(results), &|name, side| {
        look(looks, name, side)
    });
    panel.map_or_else(|| Ok(String::new()), |panel| alone(&panel, size))
}

/// Number of a side of a scheme.
fn look(looks: &[Look], scheme: &str, side: Option<&str>) -> usize {
    let found = looks
        .iter()
        .position(|l| l.scheme == scheme && l.side.as_deref() == side);
    found.unwrap_or(looks.len())
}

fn alone(panel: &Panel<'_>, (width, height): (u32, u32)) -> Result<String, String> {
    let figures = panel.marks.iter().map(|m| m.says(panel));
    let figures = figures.collect::<Vec<_>>().join("; ");
    let label = format!("{}: {figures}", panel.title);
    let size = (width, height);
    let drawn = chart::drawing(size, |area| draw(area, panel, (0, 0), size));
    let (content, ()) = drawn.map_err(|e| format!("draw {label}: {e}"))?;
    Ok(format!(
        "<svg role=\"img\" class=\"plane\" aria-label=\"{}\" viewBox=\"0 0 {} {}\">{}",
        escape(&label),
        width * FINE,
        height * FINE,
        titled(
            &chart::dressed(&chart::said_elsewhere(&content), chart::class),
            [panel]
        )
    ))
}

/// Converts units of the page to those of the drawing.
pub(crate) fn fine(length: u32) -> i32 {
    i32::try_from(length * FINE).unwrap_or(i32::MAX)
}

pub(crate) fn text_style<'a>(size: u32, colour: &RGBColor, bold: bool) -> TextStyle<'a> {
    let style = if bold {
        FontStyle::Bold
    } else {
        FontStyle::Normal
    };
    let font = ("sans-serif", chart::font(size), style).into_font();
    font.color(colour).pos(Pos::new(HPos::Left, VPos::Bottom))
}

/// A name is written over the upper edge of its place, so it does not depend on the reader's font.
pub(crate) fn write(
    area: &Area<'_>,
    text: &str,
    style: TextStyle<'_>,
    [x, y]: [i32; 2],
) -> Result<(), Failure> {
    area.draw(&Text::new(text.to_owned(), (x, y), style))?;
    Ok(())
}

fn page(
    results: &Results,
    panels: &[Panel<'_>],
    looks: &[(&str, palette::Look)],
) -> Result<String, Failure> {
    let large = panels.first().is_some_and(|panel| panel.labels);
    let small = u32::try_from(panels.len())? - u32::from(large);
    let head = HEAD + if large { LARGE } else { 0 };
    let height = head + small.div_ceil(COLUMNS) * SMALL + 12;
    let (content, ()) = chart::drawing((WIDTH, height), |area| {
        area.fill(&WHITE)?;
        let about = &results.about;
        let title = "Throughput against delay";
        write(
            area,
            title,
            text_style(20, &INK, true),
            [fine(24), fine(34)],
        )?;
        let how = format!(
            "{} · {} · up and right is better · dashed: Pareto front",
            about.link, about.mode
        );
        write(
            area,
            &how,
            text_style(13, &SOFT, false),
            [fine(24), fine(55)],
        )?;
        let mut x = 24;
        for (number, (scheme, _)) in looks.iter().enumerate() {
            let name = results.label(scheme);
            let dot = (fine(x + 5), fine(71));
            area.draw(&Circle::new(dot, fine(5), numbered(number).filled()))?;
            write(
                area,
                &name,
                text_style(FONT, &INK, false),
                [fine(x + 15), fine(78)],
            )?;
            x += 34 + 7 * u32::try_from(name.chars().count())?;
        }
        let each = WIDTH / COLUMNS;
        for (panel, n) in panels.iter().zip(0..) {
            let (at, size) = match n {
                0 if large => ((0, HEAD), (WIDTH, LARGE)),
                _ => {
                    let n = n - u32::from(large);
                    (
                        (n % COLUMNS * each, head + n / COLUMNS * SMALL),
                        (each, SMALL),
                    )
                }
            };
            draw(area, panel, at, size)?;
        }
        Ok(())
    })?;
    let look = |number: usize, attribute: &str| match number {
        RULE => format!("{attribute}=\"#9aa6b2\" stroke-dasharray=\"15 12\""),
        _ => {
            let look = looks.get(number);
            let colour = look.map_or("#666666", |(_, look)| look.colour);
            format!("{attribute}=\"{colour}\"")
        }
    };
    let content = standing_alone(&content);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"{FAMILY}\">{}<style>{DARK}</style>{}",
        WIDTH * FINE,
        height * FINE,
        chart::metadata(&results.about),
        titled(&chart::dressed(&content, look), panels)
    ))
}

/// The drawing in the fonts of its root, and with lines of axes and of the grid that are not one of
/// the library's units wide.
pub(crate) fn standing_alone(content: &str) -> String {
    let content = content.replace(" font-family=\"sans-serif\"", "");
    content.replace(" stroke-width=\"1\"", " stroke-width=\"3\"")
}

/// A panel, at that place of the page, so wide and high.
fn draw(
    page: &Area<'_>,
    panel: &Panel<'_>,
    (left, top): (u32, u32),
    (width, height): (u32, u32),
) -> Result<(), Failure> {
    let points = || {
        let marks = panel.marks.iter();
        marks.flat_map(|m| m.dots.iter().copied().chain([m.at]))
    };
    // More delay is further left.
    let x = Axis::log(points().map(|p| p[0].max(1e-3)), 1.0, 0.0);
    let y = Axis::linear(points().map(|p| p[1]), 0.0, 1.0);
    let area = page
        .clone()
        .shrink((left * FINE, top * FINE), (width * FINE, height * FINE));
    let titles = ["mean one-way delay, ms", panel.carried];
    let room = if panel.title.is_empty() {
        NO_TITLE
    } else {
        TITLE
    };
    let axes = chart::axes(&area, [&x, &y], titles, room)?;
    let plot = axes.plotting_area();
    let place = |[x, y]: [f64; 2]| {
        let (x, y) = plot.map_coordinate(&(x, y));
        [x, y]
    };
    let above = [fine(left + LEFT), fine(top + TITLE - 8)];
    if !panel.title.is_empty() {
        write(page, &panel.title, text_style(13, &INK, true), above)?;
    }
    front(page, panel, &place)?;
    let [large, small, dot] = RADII;
    for mark in &panel.marks {
        let dots: Vec<[i32; 2]> = mark.dots.iter().map(|d| place(*d)).collect();
        let colour = numbered(mark.number);
        let ellipse = ellipse(&dots).filter(|_| panel.ellipses && dots.len() > 2);
        if let Some(outline) = ellipse.map(outline) {
            page.draw(&Polygon::new(outline, colour.mix(0.2).filled()))?;
        }
        for [x, y] in dots {
            page.draw(&Circle::new((x, y), fine(dot), colour.mix(0.4).filled()))?;
        }
    }
    let radius = if panel.labels { large } else { small };
    for mark in &panel.marks {
        let [x, y] = place(mark.at);
        page.draw(&Circle::new((x, y), fine(radius + 1), WHITE.filled()))?;
        page.draw(&Circle::new(
            (x, y),
            fine(radius),
            numbered(mark.number).filled(),
        ))?;
    }
    if panel.labels {
        let right = fine(left + width) - 14 * fine(1);
        labels(page, panel, &place, [fine(left + LEFT), right])?;
    }
    Ok(())
}

/// A dashed line along those on the front.
fn front(
    page: &Area<'_>,
    panel: &Panel<'_>,
    place: &dyn Fn([f64; 2]) -> [i32; 2],
) -> Result<(), Failure> {
    let mut on_it: Vec<(i32, i32)> = panel
        .marks
        .iter()
        .filter(|m| m.front)
        .map(|m| place(m.at).into())
        .collect();
    on_it.sort_unstable();
    let line = numbered(RULE).stroke_width(FINE + 1);
    page.draw(&PathElement::new(on_it, line))?;
    Ok(())
}

/// A name beside each large mark, where it covers least.
fn labels(
    page: &Area<'_>,
    panel: &Panel<'_>,
    place: &dyn Fn([f64; 2]) -> [i32; 2],
    [x0, x1]: [i32; 2],
) -> Result<(), Failure> {
    let unit = fine(1);
    // Left, top, right, bottom.
    let mut taken: Vec<[i32; 4]> = panel
        .marks
        .iter()
        .map(|m| place(m.at))
        .map(|[x, y]| [x - 9 * unit, y - 9 * unit, x + 9 * unit, y + 9 * unit])
        .collect();
    let common = |a: &[i32; 4], b: &[i32; 4]| {
        let wide = a[2].min(b[2]) - a[0].max(b[0]);
        let high = a[3].min(b[3]) - a[1].max(b[1]);
        i64::from(wide.max(0)) * i64::from(high.max(0))
    };
    for mark in &panel.marks {
        let [x, y] = place(mark.at);
        let wide = fine(76 * u32::try_from(mark.name.chars().count())?) / 10;
        let (right, over) = (12 * unit, -16 * unit);
        let places = [
            (right, over),
            (right, 4 * unit),
            (-right - wide, over),
            (-right - wide, 4 * unit),
            (-wide / 2, -28 * unit),
            (-wide / 2, 14 * unit),
            (right, -34 * unit),
            (right, 22 * unit),
        ];
        let places = places.map(|(dx, dy)| [x + dx, y + dy, x + dx + wide, y + dy + 14 * unit]);
        let cost = |place: &[i32; 4]| {
            let outside = (x0 - place[0]).max(0) + (place[2] - x1).max(0);
            let covered = taken.iter().map(|t| common(t, place)).sum::<i64>();
            i64::from(50 * unit * outside) + covered
        };
        let Some(best) = places.into_iter().min_by_key(cost) else {
            continue;
        };
        taken.push(best);
        let style = text_style(13, &numbered(mark.number), true);
        write(page, &mark.name, style, [best[0], best[3]])?;
    }
    Ok(())
}

/// The drawing with the figures of each large mark, for a pointer that rests on it.
fn titled<'a, 'b: 'a>(svg: &str, panels: impl IntoIterator<Item = &'a Panel<'b>>) -> String {
    let [large, small, _] = RADII.map(|radius| format!(" r=\"{}\" ", radius * FINE));
    let mut marks = panels
        .into_iter()
        .flat_map(|panel| panel.marks.iter().map(move |mark| mark.says(panel)));
    let mut text = String::with_capacity(svg.len());
    for line in svg.lines() {
        let is_mark =
            line.starts_with("<circle") && (line.contains(&large) || line.contains(&small));
        let mark = if is_mark { marks.next() } else { None };
        match (mark, line.strip_suffix("/>")) {
            (Some(says), Some(circle)) => {
                text.extend([circle, "><title>", &escape(&says), "</title></circle>"]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// Points around an ellipse.
fn outline(([cx, cy], [a, b], angle): ([f64; 2], [f64; 2], f64)) -> Vec<(i32, i32)> {
    let (sin, cos) = angle.to_radians().sin_cos();
    let point = |i: u32| {
        let (s, c) = (f64::from(i) * std::f64::consts::TAU / 36.0).sin_cos();
        let (x, y) = (a * c, b * s);
        let place = [cx + x * cos - y * sin, cy + x * sin + y * cos];
        place.map(|v| v.round() as i32).into()
    };
    (0..36).map(point).collect()
}

/// One standard deviation around the mean of these points: centre, radii, and angle in degrees of
/// the first radius. `None` of fewer than two, and of points that are one to the eye.
fn ellipse(points: &[[i32; 2]]) -> Option<([f64; 2], [f64; 2], f64)> {
    let points: Vec<[f64; 2]> = points.iter().map(|p| p.map(f64::from)).collect();
    let n = points.len() as f64;
    if n < 2.0 {
        return None;
    }
    let mean = [0, 1].map(|i| points.iter().map(|p| p[i]).sum::<f64>() / n);
    let moment = |i: usize, j: usize| {
        let sum: f64 = points
            .iter()
            .map(|p| (p[i] - mean[i]) * (p[j] - mean[j]))
            .sum();
        sum / (n - 1.0)
    };
    let (xx, yy, xy) = (moment(0, 0), moment(1, 1), moment(0, 1));
    let (half, apart) = (f64::midpoint(xx, yy), ((xx - yy) / 2.0).hypot(xy));
    let radii = [half + apart, half - apart].map(|v| v.max(0.0).sqrt());
    let angle = (2.0 * xy).atan2(xx - yy) / 2.0;
    (radii[0] >= 1.0).then(|| (mean, radii.map(|r| r.max(1.0)), angle.to_degrees()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_results::{Row, summary};

    fn row(link: &str, scheme: &str, run: u32, mbps: f64, ms: f64) -> Row {
        Row {
            run,
            utilization: Some(mbps / 12.0),
            ..crate::board::samples::sample(link, scheme, mbps, ms)
        }
    }

    fn picture(flows: Vec<Row>) -> String {
        svg(&Results {
            summary: summary(&flows),
            flows,
            ..Results::default()
        })
        .unwrap()
    }

    /// x and y of the large mark of a scheme, of the first panel that has it.
    fn mark(svg: &str, scheme: &str) -> [f64; 2] {
        let at = svg.find(&format!("<title>{scheme} ")).unwrap();
        let circle = &svg[svg[..at].rfind("<circle").unwrap()..at];
        ["cx=\"", "cy=\""].map(|key| {
            let rest = circle.split_once(key).unwrap().1;
            rest.split('"').next().unwrap().parse().unwrap()
        })
    }

    /// Such a figure could be mistaken for one of the published algorithm.
    #[test]
    fn tuned_forms_say_so() {
        let tuned = |scheme: &str| Row {
            profile: Some("tuned".to_owned()),
            ..row("a", scheme, 1, 10.0, 40.0)
        };
        let svg = picture(vec![
            tuned("copa"),
            tuned("verus:profile=tuned"),
            row("a", "cubic", 1, 11.0, 90.0),
        ]);
        // In the legend, and beside its mark.
        assert!(svg.matches("copa (tuned)").count() >= 2, "{svg}");
        assert!(!svg.contains("verus:profile=tuned (tuned)") && !svg.contains("cubic ("));
    }

    #[test]
    fn better_is_up_and_right() {
        let svg = picture(vec![
            row("l", "cubic", 1, 11.9, 1400.0),
            row("l", "alcc-copa", 1, 8.0, 35.0),
            row("l", "a<b", 1, 5.0, 300.0),
        ]);
        let [cubic, copa] = ["cubic", "alcc-copa"].map(|s| mark(&svg, s));
        assert!(copa[0] > cubic[0], "less delay is further right");
        assert!(cubic[1] < copa[1], "more throughput is further up");
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        // The front is cubic and copa: one line with two points.
        let front = svg
            .lines()
            .find(|l| l.contains("stroke-dasharray"))
            .unwrap();
        let front = front.split_once("points=\"").unwrap().1;
        assert_eq!(
            front.split('"').next().unwrap().trim().split(' ').count(),
            2
        );
        assert_eq!(picture(Vec::new()), "");
    }

    #[test]
    fn several_links_have_a_panel_each_and_one_over_all() {
        let mut flows = Vec::new();
        for link in ["a", "b"] {
            for run in 1..=3 {
                let f = f64::from(run);
                flows.push(row(link, "cubic", run, 11.0 + f / 10.0, 1000.0 + 100.0 * f));
                flows.push(row(link, "bbr", run, 10.0, 100.0));
            }
        }
        let svg = picture(flows);
        assert_eq!(svg.matches("stroke-dasharray").count(), 3);
        // Cubic's runs spread, bbr's are one point.
        assert_eq!(svg.matches("<polygon").count(), 2);
        assert_eq!(svg.matches("<title>cubic ").count(), 3);
        assert!(svg.contains("all 2 links"));
    }

    #[test]
    fn an_ellipse_of_points_on_a_line() {
        // Along y = x: standard deviation sqrt((8 + 0 + 8) / 2) = 2.83 along it, none across it.
        let (centre, radii, angle) = ellipse(&[[0, 0], [2, 2], [4, 4]]).unwrap();
        assert_eq!(centre, [2.0, 2.0]);
        assert!((radii[0] - 8f64.sqrt()).abs() < 1e-9 && radii[1] == 1.0);
        assert!((angle - 45.0).abs() < 1e-9);
        assert_eq!(ellipse(&[[1, 1], [1, 1]]), None);
    }
}
