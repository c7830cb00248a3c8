// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The field's picture of a comparison as SVG: throughput against delay, the delay's axis
//! logarithmic and reversed, so that up and right is better. A large mark is the median of a
//! scheme's runs, a dot a run, an ellipse one standard deviation of the runs; with several links a
//! panel over all (large: mean, dot: link) stands above one for each.
use crate::axis::Axis;
use crate::chart::escape;
use crate::palette;
use crate::report::Look;
use alcc_results::{Results, Row};
use std::fmt::Write as _;

const WIDTH: f64 = 1200.0;
/// Height of the panel over all, and of the only one.
const LARGE: f64 = 560.0;
const SMALL: f64 = 300.0;
/// Small panels in a row.
const COLUMNS: usize = 3;
const HEAD: f64 = 84.0;
/// Around the plot inside a panel: left, right, top, bottom.
const MARGIN: [f64; 4] = [58.0, 18.0, 34.0, 44.0];

/// A scheme in a panel.
struct Mark<'a> {
    name: &'a str,
    colour: &'a str,
    /// Attribute of its elements on a page, which may hide them.
    class: String,
    /// Delay in ms, and what is carried.
    at: [f64; 2],
    dots: Vec<[f64; 2]>,
    front: bool,
}

struct Panel<'a> {
    title: String,
    /// What the vertical axis shows, with its unit.
    carried: &'a str,
    marks: Vec<Mark<'a>>,
    ellipses: bool,
    labels: bool,
}

/// Size of a panel that stands by itself on a page.
const ALONE: [f64; 2] = [600.0, 396.0];
/// The same for the panel over all.
const OVERALL: [f64; 2] = [1000.0, 440.0];

/// The picture; empty if there are no figures. Of twins it shows the emulated side.
pub fn svg(results: &Results) -> String {
    let colours = colours(results);
    let colour = |name: &str, _: Option<&str>| {
        let found = colours.iter().find(|(known, _)| *known == name);
        (
            found.map_or("#666666", |(_, colour)| *colour),
            String::new(),
        )
    };
    let links = links(results);
    let mut panels: Vec<Panel<'_>> = over_all(results, &links, &colour).into_iter().collect();
    for link in &links {
        panels.push(one(results, link, links.len() == 1, &colour));
    }
    panels.retain(|panel| !panel.marks.is_empty());
    if panels.is_empty() {
        return String::new();
    }
    page(results, &panels, &colours)
}

/// The panel of a link for a page.
pub(crate) fn of_link(results: &Results, link: &str, looks: &[Look]) -> String {
    let panel = one(results, link, true, &|name, side| look(looks, name, side));
    alone(&panel, ALONE)
}

/// The panel over all links for a page; empty if there is one link only.
pub(crate) fn overall(results: &Results, looks: &[Look]) -> String {
    let panel = over_all(results, &links(results), &|name, side| {
        look(looks, name, side)
    });
    panel.map_or_else(String::new, |panel| alone(&panel, OVERALL))
}

/// Colour and class of a side of a scheme.
fn look<'a>(looks: &[Look], scheme: &str, side: Option<&str>) -> (&'a str, String) {
    let found = looks
        .iter()
        .position(|l| l.scheme == scheme && l.side.as_deref() == side);
    let class = found.map_or_else(String::new, |n| format!(" class=\"k{n}\""));
    let colour = found
        .and_then(|n| looks.get(n))
        .map_or("#666666", |l| l.colour);
    (colour, class)
}

fn alone(panel: &Panel<'_>, [width, height]: [f64; 2]) -> String {
    let figures = panel.marks.iter().map(|m| {
        format!(
            "{} {:.1} {}, {:.0} ms",
            m.name, m.at[1], panel.carried, m.at[0]
        )
    });
    let label = format!(
        "{}: {}",
        panel.title,
        figures.collect::<Vec<_>>().join("; ")
    );
    let mut text = format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" font-size=\"13\" fill=\"#17212b\">\n",
        escape(&label)
    );
    draw(&mut text, panel, [0.0, 0.0, width, height]);
    text.push_str("</svg>\n");
    text
}

fn links(results: &Results) -> Vec<&str> {
    let mut links: Vec<&str> = Vec::new();
    for group in &results.summary.groups {
        if !links.contains(&group.link.as_str()) {
            links.push(&group.link);
        }
    }
    links
}

fn is_shown(side: Option<&str>) -> bool {
    side != Some(alcc_results::SIMULATED)
}

/// Colour and attribute of a side of a scheme.
type Colours<'a, 'c> = dyn Fn(&str, Option<&str>) -> (&'a str, String) + 'c;

/// The panel over several links.
fn over_all<'a>(
    results: &'a Results,
    links: &[&str],
    colour: &Colours<'a, '_>,
) -> Option<Panel<'a>> {
    if links.len() < 2 {
        return None;
    }
    let everywhere = results
        .summary
        .overall
        .iter()
        .filter(|o| is_shown(o.side.as_deref()));
    let has = |field: &str| everywhere.clone().all(|o| o.fields.contains_key(field));
    let (field, carried, factor) = if has("utilization") {
        ("utilization", "utilization %", 100.0)
    } else {
        ("throughput_mbps", "Mbit/s", 1.0)
    };
    let marks = everywhere
        .filter_map(|all| {
            let of_link = |link: &&str| {
                let group =
                    results.summary.groups.iter().find(|g| {
                        g.link == *link && g.scheme == all.scheme && g.side == all.side
                    })?;
                Some([
                    group.median("delay_mean_ms")?,
                    factor * group.median(field)?,
                ])
            };
            let (colour, class) = colour(&all.scheme, all.side.as_deref());
            Some(Mark {
                name: &all.scheme,
                colour,
                class,
                at: [
                    *all.fields.get("delay_mean_ms")?,
                    factor * all.fields.get(field)?,
                ],
                dots: links.iter().filter_map(of_link).collect(),
                front: all.front,
            })
        })
        .collect();
    Some(Panel {
        title: format!("all {} links: means (dots: links)", links.len()),
        carried,
        marks,
        ellipses: false,
        labels: true,
    })
}

/// The panel of one link.
fn one<'a>(results: &'a Results, link: &str, labels: bool, colour: &Colours<'a, '_>) -> Panel<'a> {
    let groups = results.summary.groups.iter();
    let marks = groups
        .filter(|g| g.link == link && is_shown(g.side.as_deref()))
        .filter_map(|group| {
            let of_run = |row: &Row| Some([row.delay_mean_ms?, row.throughput_mbps?]);
            let runs = results.flows.iter().filter(|row| {
                row.link == link && row.scheme == group.scheme && row.side == group.side
            });
            let (colour, class) = colour(&group.scheme, group.side.as_deref());
            Some(Mark {
                name: &group.scheme,
                colour,
                class,
                at: [
                    group.median("delay_mean_ms")?,
                    group.median("throughput_mbps")?,
                ],
                dots: if group.runs > 1 {
                    runs.filter_map(of_run).collect()
                } else {
                    Vec::new()
                },
                front: group.front,
            })
        })
        .collect();
    Panel {
        title: link.to_owned(),
        carried: "Mbit/s",
        marks,
        ellipses: true,
        labels,
    }
}

/// Every scheme with its colour, in order of appearance.
fn colours(results: &Results) -> Vec<(&str, &'static str)> {
    let looks = palette::looks(results).into_iter();
    looks.map(|(name, look)| (name, look.colour)).collect()
}

fn page(results: &Results, panels: &[Panel<'_>], colours: &[(&str, &str)]) -> String {
    let large = panels[0].labels;
    let small = panels.len() - usize::from(large);
    let rows = small.div_ceil(COLUMNS) as f64;
    let head = HEAD + if large { LARGE } else { 0.0 };
    let height = head + rows * SMALL + 12.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\" font-size=\"13\" fill=\"#17212b\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let about = &results.about;
    let _ = writeln!(
        text,
        "<text x=\"24\" y=\"32\" font-size=\"20\" font-weight=\"600\">Throughput against delay</text>\n\
         <text x=\"24\" y=\"52\" fill=\"#5d6b78\">{} · {} · up and right is better · dashed: Pareto front</text>",
        escape(&about.link),
        escape(&about.mode)
    );
    legend(&mut text, colours);
    let each = WIDTH / COLUMNS as f64;
    for (i, panel) in panels.iter().enumerate() {
        let frame = if large && i == 0 {
            [0.0, HEAD, WIDTH, LARGE]
        } else {
            let n = i - usize::from(large);
            let (column, row) = (n % COLUMNS, n / COLUMNS);
            [column as f64 * each, head + row as f64 * SMALL, each, SMALL]
        };
        draw(&mut text, panel, frame);
    }
    text.push_str("</svg>\n");
    text
}

fn legend(text: &mut String, colours: &[(&str, &str)]) {
    let mut x = 24.0;
    for (name, colour) in colours {
        let _ = writeln!(
            text,
            "<circle cx=\"{:.1}\" cy=\"71\" r=\"5\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"75\" font-size=\"12.5\">{}</text>",
            x + 5.0,
            x + 15.0,
            escape(name)
        );
        x += 34.0 + 7.0 * name.chars().count() as f64;
    }
}

fn draw(text: &mut String, panel: &Panel<'_>, [left, top, width, height]: [f64; 4]) {
    let [l, r, t, b] = MARGIN;
    let (x0, x1) = (left + l, left + width - r);
    let (y0, y1) = (top + height - b, top + t);
    let points = || {
        let marks = panel.marks.iter();
        marks.flat_map(|m| m.dots.iter().copied().chain([m.at]))
    };
    // More delay is further left.
    let x = Axis::log(points().map(|p| p[0].max(1e-3)), x1, x0);
    let y = Axis::linear(points().map(|p| p[1]), y0, y1);
    let place = |p: [f64; 2]| [x.place_inside(p[0]), y.place(p[1])];
    let _ = writeln!(
        text,
        "<text x=\"{x0:.1}\" y=\"{:.1}\" font-weight=\"600\">{}</text>",
        y1 - 12.0,
        escape(&panel.title)
    );
    for (value, label) in y.ticks() {
        let at = y.place(value);
        let _ = writeln!(
            text,
            "<line x1=\"{x0:.1}\" x2=\"{x1:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#eef1f4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#5d6b78\" font-size=\"12\">{label}</text>",
            x0 - 8.0,
            at + 4.0
        );
    }
    for (value, label) in x.ticks() {
        let at = x.place(value);
        let _ = writeln!(
            text,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{y1:.1}\" y2=\"{y0:.1}\" stroke=\"#eef1f4\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#5d6b78\" font-size=\"12\">{label}</text>",
            y0 + 17.0
        );
    }
    let _ = writeln!(
        text,
        "<path d=\"M{x0:.1} {y1:.1}V{y0:.1}H{x1:.1}\" fill=\"none\" stroke=\"#c9d1d9\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#5d6b78\" font-size=\"12\">mean one-way delay, ms</text>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#5d6b78\" font-size=\"12\" transform=\"rotate(-90 {:.1} {:.1})\">{}</text>",
        (x0 + x1) / 2.0,
        y0 + 34.0,
        left + 16.0,
        (y0 + y1) / 2.0,
        left + 16.0,
        (y0 + y1) / 2.0,
        panel.carried
    );
    front(text, panel, &place);
    for mark in &panel.marks {
        let dots: Vec<[f64; 2]> = mark.dots.iter().map(|d| place(*d)).collect();
        if let Some(([cx, cy], [rx, ry], angle)) =
            ellipse(&dots).filter(|_| panel.ellipses && dots.len() > 2)
        {
            let _ = writeln!(
                text,
                "<ellipse cx=\"{cx:.1}\" cy=\"{cy:.1}\" rx=\"{rx:.1}\" ry=\"{ry:.1}\" transform=\"rotate({angle:.1} {cx:.1} {cy:.1})\" \
                 fill=\"{0}\" fill-opacity=\"0.16\" stroke=\"{0}\" stroke-opacity=\"0.5\"{1}/>",
                mark.colour, mark.class
            );
        }
        for [cx, cy] in dots {
            let _ = writeln!(
                text,
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"{}\" fill-opacity=\"0.4\"{}/>",
                mark.colour, mark.class
            );
        }
    }
    let radius = if panel.labels { 8.0 } else { 5.5 };
    for mark in &panel.marks {
        let [cx, cy] = place(mark.at);
        let _ = writeln!(
            text,
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"{radius}\" fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"2\"{}><title>{}: {:.2} {}, {:.0} ms</title></circle>",
            mark.colour,
            mark.class,
            escape(mark.name),
            mark.at[1],
            panel.carried,
            mark.at[0]
        );
    }
    if panel.labels {
        labels(text, panel, &place, [x0, x1]);
    }
}

/// A dashed line along those on the front.
fn front(text: &mut String, panel: &Panel<'_>, place: &dyn Fn([f64; 2]) -> [f64; 2]) {
    let mut on_it: Vec<[f64; 2]> = panel
        .marks
        .iter()
        .filter(|m| m.front)
        .map(|m| place(m.at))
        .collect();
    on_it.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let line: Vec<String> = on_it
        .iter()
        .map(|[x, y]| format!("{x:.1},{y:.1}"))
        .collect();
    let _ = writeln!(
        text,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#9aa6b2\" stroke-width=\"1.5\" stroke-dasharray=\"5 4\"/>",
        line.join(" ")
    );
}

/// A name beside each large mark, where it covers least.
fn labels(
    text: &mut String,
    panel: &Panel<'_>,
    place: &dyn Fn([f64; 2]) -> [f64; 2],
    [x0, x1]: [f64; 2],
) {
    // Left, top, right, bottom.
    let mut taken: Vec<[f64; 4]> = panel
        .marks
        .iter()
        .map(|m| place(m.at))
        .map(|[x, y]| [x - 9.0, y - 9.0, x + 9.0, y + 9.0])
        .collect();
    let common = |a: &[f64; 4], b: &[f64; 4]| {
        let wide = a[2].min(b[2]) - a[0].max(b[0]);
        let high = a[3].min(b[3]) - a[1].max(b[1]);
        wide.max(0.0) * high.max(0.0)
    };
    for mark in &panel.marks {
        let [x, y] = place(mark.at);
        let wide = 7.6 * mark.name.chars().count() as f64;
        let mut best: Option<(f64, [f64; 4])> = None;
        for (dx, dy) in [
            (12.0, -16.0),
            (12.0, 4.0),
            (-12.0 - wide, -16.0),
            (-12.0 - wide, 4.0),
            (-wide / 2.0, -28.0),
            (-wide / 2.0, 14.0),
            (12.0, -34.0),
            (12.0, 22.0),
        ] {
            let place = [x + dx, y + dy, x + dx + wide, y + dy + 14.0];
            let outside = (x0 - place[0]).max(0.0) + (place[2] - x1).max(0.0);
            let cost = 50.0 * outside + taken.iter().map(|t| common(t, &place)).sum::<f64>();
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, place));
            }
        }
        let Some((_, place)) = best else { continue };
        taken.push(place);
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-weight=\"600\" fill=\"{}\"{}>{}</text>",
            place[0],
            place[1] + 11.0,
            mark.colour,
            mark.class,
            escape(mark.name)
        );
    }
}

/// One standard deviation around the mean of these points: centre, radii, and angle in degrees of
/// the first radius. `None` of fewer than two, and of points that are one to the eye.
fn ellipse(points: &[[f64; 2]]) -> Option<([f64; 2], [f64; 2], f64)> {
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
    use alcc_results::summary;

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
    }

    /// x and y of the large mark of a scheme, of the first panel that has it.
    fn mark(svg: &str, scheme: &str) -> [f64; 2] {
        let at = svg.find(&format!("<title>{scheme}: ")).unwrap();
        let circle = &svg[svg[..at].rfind("<circle").unwrap()..at];
        ["cx=\"", "cy=\""].map(|key| {
            let rest = circle.split_once(key).unwrap().1;
            rest.split('"').next().unwrap().parse().unwrap()
        })
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
        let front = svg.split_once("<polyline points=\"").unwrap().1;
        assert_eq!(front.split('"').next().unwrap().split(' ').count(), 2);
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
        assert_eq!(svg.matches("<polyline").count(), 3);
        // Cubic's runs spread, bbr's are one point.
        assert_eq!(svg.matches("<ellipse").count(), 2);
        assert_eq!(svg.matches("<title>cubic: ").count(), 3);
        assert!(svg.contains("all 2 links"));
    }

    #[test]
    fn an_ellipse_of_points_on_a_line() {
        // Along y = x: standard deviation sqrt((8 + 0 + 8) / 2) = 2.83 along it, none across it.
        let (centre, radii, angle) = ellipse(&[[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]).unwrap();
        assert_eq!(centre, [2.0, 2.0]);
        assert!((radii[0] - 8f64.sqrt()).abs() < 1e-9 && radii[1] == 1.0);
        assert!((angle - 45.0).abs() < 1e-9);
        assert_eq!(ellipse(&[[1.0, 1.0], [1.0, 1.0]]), None);
    }
}
