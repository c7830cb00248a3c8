// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of pages as SVG. A curve has the class of its scheme instead of a colour. So the page
//! says how it looks, may hide it, and reads its points.
use crate::axis::Axis;
use alcc_results::About;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// Units of the drawing for one of the page: places are whole numbers.
pub(crate) const FINE: u32 = 3;
/// Size of small text.
pub(crate) const FONT: u32 = 12;
/// First byte of the colours that stand for a number; the other bytes are the number.
const NUMBERED: &str = "\"#01";
/// Number of the capacity's area, which belongs to no scheme.
pub(crate) const AREA: usize = 255;
/// Line number at a value that is not a measurement.
pub(crate) const RULE: usize = 254;
/// From this number on lines are those of the class below it, without dashes.
const WHOLE: usize = 256;

/// Style sheet of charts in pages: its classes set colour `--c` and dashes `--d` of each scheme.
pub const STYLE: &str = include_str!("chart.css");
/// Colour of text that is not the name of a scheme.
pub(crate) const SOFT: RGBColor = RGBColor(0x5d, 0x6b, 0x78);

/// Font size for text of `size` page units: the drawing library divides by 1.24.
pub(crate) fn font(size: u32) -> f64 {
    f64::from(size * FINE) * 1.24
}

/// A placeholder colour that holds a number, which gives the style, see [`dressed`].
pub(crate) fn numbered(number: usize) -> RGBColor {
    let [.., high, low] = number.to_be_bytes();
    RGBColor(1, high, low)
}

/// Form of points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A line through the points, with a gap at each NaN.
    Line,
    /// A value holds until the next one.
    Steps,
    /// Filled down to the axis, grey.
    Area,
    /// A thin line at a value, which is explained elsewhere.
    Rule,
    /// A thin line through the points, without dashes.
    Whole,
    /// The sign of the class at each point.
    Signs,
    /// A cross at each point.
    Crosses,
    /// A small dot at each point.
    Dots,
    /// A pale area within the points.
    Region,
}

/// Points that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// The number of its class.
    pub class: usize,
    /// Form of the curve.
    pub shape: Shape,
    /// x and y.
    pub points: Vec<(f64, f64)>,
}

/// Two axes and curves.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Text for users who cannot see the chart.
    pub label: String,
    /// Title of the horizontal axis.
    pub x_title: String,
    /// Title of the vertical axis.
    pub y_title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, the last on top.
    pub curves: Vec<Curve>,
}

/// An axis for the drawing library.
pub(crate) struct Coordinate {
    axis: Axis,
    ticks: Vec<(f64, String)>,
}

impl Coordinate {
    fn new(axis: &Axis) -> Self {
        Self {
            axis: axis.clone(),
            ticks: axis.ticks(),
        }
    }
}

impl Ranged for Coordinate {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let place = self.axis.place_inside(*value);
        from + (place * f64::from(to - from)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|(value, _)| *value).collect()
    }

    fn range(&self) -> Range<f64> {
        let (from, to) = self.axis.values();
        from..to
    }
}

impl ValueFormatter<f64> for Coordinate {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(at, _)| at == value);
        tick.map_or_else(String::new, |(_, text)| text.clone())
    }
}

impl Chart {
    /// The drawing as SVG, with width and height in page units. It scales with the page.
    ///
    /// # Errors
    /// The error of the drawing library.
    pub fn svg(&self, (width, height): (u32, u32)) -> Result<String, String> {
        let (x, y) = (&self.x, &self.y);
        // The page says how wide lines are.
        let drawn = drawing((width, height), |area| Ok(self.draw(area, 8, 2)?));
        let (content, (across, down)) = drawn.map_err(|e| format!("draw {}: {e}", self.label))?;
        let inside = [across.start, across.end, down.start, down.end].map(|v| v.to_string());
        let scale = |axis: &Axis| {
            let (from, to) = axis.values();
            format!(
                "{from} {to} {}",
                if axis.is_log() { "log" } else { "linear" }
            )
        };
        let mut root = format!(
            "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" data-inside=\"{}\" data-x=\"{}\" data-y=\"{}\" data-units=\"{}|{}\">",
            escape(&self.label),
            width * FINE,
            height * FINE,
            inside.join(" "),
            scale(x),
            scale(y),
            escape(&self.x_title),
            escape(&self.y_title),
        );
        root.push_str(&dressed(&said_elsewhere(&content), class));
        Ok(root)
    }

    /// Draws into an area. The offset below its upper edge is in page units, the width of lines in
    /// drawing units. Returns the area of the curves.
    pub(crate) fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        top: u32,
        line: u32,
    ) -> Result<(Pixels, Pixels), DrawingAreaErrorKind<DB::ErrorType>> {
        let titles = [self.x_title.as_str(), &self.y_title];
        let chart = axes(area, [&self.x, &self.y], titles, top)?;
        let plotting = chart.plotting_area();
        for curve in &self.curves {
            let colour = numbered(curve.number());
            let places = || curve.points.iter().copied().filter(is_known);
            match curve.shape {
                Shape::Signs => {
                    for at in places() {
                        sign(plotting, curve.class, at)?;
                    }
                }
                Shape::Crosses => {
                    let arm = 5 * FINE as i32;
                    for at in places() {
                        for (x, y) in [(arm, arm), (arm, -arm)] {
                            let line =
                                PathElement::new([(-x, -y), (x, y)], colour.stroke_width(line));
                            plotting.draw(&(EmptyElement::at(at) + line))?;
                        }
                    }
                }
                Shape::Dots => {
                    for at in places() {
                        plotting.draw(&Circle::new(at, 3 * FINE, colour.filled()))?;
                    }
                }
                Shape::Region => {
                    let points: Vec<_> = places().collect();
                    plotting.draw(&Polygon::new(points, colour.mix(0.12).filled()))?;
                }
                Shape::Area | Shape::Line | Shape::Steps | Shape::Rule | Shape::Whole => {
                    for piece in curve.pieces(&self.y) {
                        if curve.shape == Shape::Area {
                            plotting.draw(&Polygon::new(piece, colour.filled()))?;
                        } else {
                            plotting.draw(&PathElement::new(piece, colour.stroke_width(line)))?;
                        }
                    }
                }
            }
        }
        Ok(plotting.get_pixel_range())
    }
}

fn is_known((x, y): &(f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

/// The signs of classes, in their order: they differ without colours, too.
pub const SIGNS: [char; 5] = ['●', '▲', '■', '◆', '▼'];

/// Draws the sign of a class.
fn sign<DB: DrawingBackend>(
    plotting: &DrawingArea<DB, Cartesian2d<Coordinate, Coordinate>>,
    class: usize,
    at: (f64, f64),
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let style = numbered(class).filled();
    let shape = |points: &[(i32, i32)]| {
        let fine = |(x, y): &(i32, i32)| (x * FINE as i32, y * FINE as i32);
        let points: Vec<_> = points.iter().map(fine).collect();
        EmptyElement::at(at) + Polygon::new(points, style)
    };
    match SIGNS[class % SIGNS.len()] {
        '●' => plotting.draw(&Circle::new(at, 5 * FINE, style)),
        '▲' => plotting.draw(&shape(&[(0, -6), (6, 5), (-6, 5)])),
        '■' => plotting.draw(&shape(&[(-5, -5), (5, -5), (5, 5), (-5, 5)])),
        '▼' => plotting.draw(&shape(&[(0, 6), (6, -5), (-6, -5)])),
        _ => plotting.draw(&shape(&[(0, -7), (6, 0), (0, 7), (-6, 0)])),
    }
}

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Failure = Box<dyn std::error::Error>;

/// An SVG drawing of this size in page units, without the root element, and the result of `draw`.
pub(crate) fn drawing<T>(
    (width, height): (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<T, Failure>,
) -> Result<(String, T), Failure> {
    let mut svg = String::new();
    let size = (width * FINE, height * FINE);
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let result = draw(&area)?;
    area.present()?;
    drop(area);
    let content = svg.split_once('>').map_or("", |(_, content)| content);
    Ok((content.to_owned(), result))
}

/// Interval in units of the drawing.
type Pixels = Range<i32>;

/// Two axes with their titles in an area, below its upper edge by an offset in page units.
pub(crate) fn axes<'a, DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    [x, y]: [&Axis; 2],
    [x_title, y_title]: [&str; 2],
    top: u32,
) -> Result<Axes<'a, DB>, DrawingAreaErrorKind<DB::ErrorType>> {
    let titles = [x_title, y_title].map(|title| u32::from(!title.is_empty()));
    let mut chart = ChartBuilder::on(area)
        .margin_top(top * FINE)
        .margin_right(14 * FINE)
        .margin_left(4 * FINE)
        .x_label_area_size((24 + 18 * titles[0]) * FINE)
        .y_label_area_size((42 + 16 * titles[1]) * FINE)
        .build_cartesian_2d(Coordinate::new(x), Coordinate::new(y))?;
    let small = ("sans-serif", font(FONT)).into_font().color(&SOFT);
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(0xe3, 0xe8, 0xed))
        .axis_style(RGBColor(0xc9, 0xd1, 0xd9))
        // The texts stand twice so far from the axes: those of zero would be one.
        .set_all_tick_mark_size(2 * FINE)
        .label_style(small.clone())
        .axis_desc_style(small)
        .x_desc(x_title)
        .y_desc(y_title)
        .draw()?;
    Ok(chart)
}

/// The result of [`axes`].
pub(crate) type Axes<'a, DB> = ChartContext<'a, DB, Cartesian2d<Coordinate, Coordinate>>;

impl Curve {
    fn number(&self) -> usize {
        match self.shape {
            Shape::Area => AREA,
            Shape::Rule => RULE,
            Shape::Whole | Shape::Crosses => WHOLE + self.class.min(RULE - 1),
            _ => self.class.min(RULE - 1),
        }
    }

    /// Its points without NaN.
    fn pieces(&self, y: &Axis) -> Vec<Vec<(f64, f64)>> {
        let mut pieces = vec![Vec::new()];
        let mut last: Option<(f64, f64)> = None;
        for &(at, value) in &self.points {
            if !is_known(&(at, value)) {
                pieces.push(Vec::new());
                last = None;
                continue;
            }
            let place = (at, value);
            let piece = pieces.last_mut().filter(|_| last != Some(place));
            if let Some(piece) = piece {
                if let (Shape::Steps, Some((_, before))) = (self.shape, last) {
                    piece.push((place.0, before));
                }
                piece.push(place);
            }
            last = Some(place);
        }
        if self.shape == Shape::Area {
            for piece in &mut pieces {
                if let (Some(first), Some(last)) = (piece.first(), piece.last()) {
                    let least = y.values().0;
                    let ends = [(last.0, least), (first.0, least)];
                    piece.extend(ends);
                }
            }
        }
        pieces.retain(|piece| piece.len() > 1);
        pieces
    }
}

/// Attributes that the page's style sets for all charts; removing them halves a drawing.
const SAID_ELSEWHERE: [&str; 6] = [
    " opacity=\"1\"",
    " font-family=\"sans-serif\"",
    " font-size=\"36\"",
    " fill=\"#5D6B78\"",
    " stroke=\"#E3E8ED\"",
    " stroke-width=\"1\"",
];

/// The drawing without the attributes that the page's style sets.
pub(crate) fn said_elsewhere(svg: &str) -> String {
    let said = SAID_ELSEWHERE.iter();
    said.fold(svg.to_owned(), |svg, part| svg.replace(part, ""))
}

/// The attribute by which a page knows a number.
pub(crate) fn class(number: usize, _: &str) -> String {
    match number {
        AREA => "class=\"area\"".to_owned(),
        RULE => "class=\"rule\"".to_owned(),
        WHOLE.. => format!("class=\"k{} whole\"", number - WHOLE),
        scheme => format!("class=\"k{scheme}\""),
    }
}

/// The drawing with attributes in the place of the colours that stand for a number. They are told
/// the number, and whether it stands for "stroke" or "fill".
pub(crate) fn dressed(svg: &str, attributes: impl Fn(usize, &str) -> String) -> String {
    let mut parts = svg.split(NUMBERED);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once('"').unwrap_or((part, ""));
        let number = usize::from_str_radix(number, 16).unwrap_or(RULE);
        // "stroke=" or "fill=".
        let at = text.rfind(' ').map_or(0, |at| at + 1);
        let attribute = text.split_off(at);
        text.push_str(&attributes(number, attribute.trim_end_matches('=')));
        text.push_str(rest);
    }
    text
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Metadata of a drawing that stands alone.
pub(crate) fn metadata(about: &About) -> String {
    let about = serde_json::to_string(about).unwrap_or_default();
    format!("<metadata>{}</metadata>", escape(&about))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(curves: Vec<Curve>) -> String {
        let chart = Chart {
            label: "a <b>".into(),
            x_title: "s".into(),
            y_title: "Mbit/s".into(),
            x: Axis::exactly(0.0, 10.0),
            y: Axis::linear([0.0, 100.0].into_iter(), 0.0, 1.0),
            curves,
        };
        chart.svg((400, 200)).unwrap()
    }

    fn curve(shape: Shape, points: &[(f64, f64)]) -> Curve {
        Curve {
            class: 3,
            shape,
            points: points.to_vec(),
        }
    }

    /// The points of the elements with this class.
    fn points(svg: &str, class: &str) -> Vec<Vec<[i32; 2]>> {
        let mine = svg
            .lines()
            .filter(|l| l.contains(&format!("class=\"{class}\"")));
        mine.map(|line| {
            let points = line.split_once("points=\"").unwrap().1;
            let points = points.split('"').next().unwrap().split_whitespace();
            points
                .map(|p| {
                    let (x, y) = p.split_once(',').unwrap();
                    [x.parse().unwrap(), y.parse().unwrap()]
                })
                .collect()
        })
        .collect()
    }

    #[test]
    fn curves_have_classes_and_gaps_and_stay_inside() {
        let nan = f64::NAN;
        let all = [
            (0.0, 1.0),
            (1.0, 50.0),
            (2.0, nan),
            (3.0, 50.0),
            (4.0, 1e9),
            (5.0, nan),
        ];
        let svg = chart(vec![curve(Shape::Line, &all)]);
        let lines = points(&svg, "k3");
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        assert!(lines[0][1][1] < lines[0][0][1], "more is further up");
        let inside = svg.split_once("data-inside=\"").unwrap().1;
        let inside = inside.split('"').next().unwrap().split(' ');
        let inside: Vec<i32> = inside.map(|v| v.parse().unwrap()).collect();
        assert_eq!(lines[0][0][0], inside[0], "zero seconds are at the left");
        assert_eq!(
            lines[1][1][1], inside[2],
            "what is too large ends at the top"
        );
        assert!(svg.contains("aria-label=\"a &lt;b&gt;\"") && !svg.contains("#0100"));
        assert!(svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn steps_hold_their_value_and_areas_reach_the_axis() {
        let two = [(0.0, 10.0), (5.0, 90.0)];
        let steps = points(&chart(vec![curve(Shape::Steps, &two)]), "k3");
        let [a, b, c] = steps[0][..] else {
            panic!("{steps:?}")
        };
        assert!(a[1] == b[1] && b[0] == c[0], "across, then up: {steps:?}");
        let area = points(&chart(vec![curve(Shape::Area, &two)]), "area");
        assert_eq!(area[0].len(), 4);
        assert_eq!(area[0][2][1], area[0][3][1]);
        assert_eq!(
            points(&chart(vec![curve(Shape::Rule, &two)]), "rule").len(),
            1
        );
    }
}
