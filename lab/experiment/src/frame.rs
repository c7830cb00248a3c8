// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The frame of every figure: two axes with titles, ticks and a grid. Text and lines take the
//! colour of the page.
use plotters::coord::combinators::{BindKeyPoints, WithKeyPoints};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// Width and height of a figure.
pub(crate) type Size = (u32, u32);

/// Lengths of dash and gap of a line, and what stands for them beside a name. None is a full line.
pub(crate) const DASHES: [(&str, &str); 3] = [("", "━"), ("9 4", "╍"), ("2 4", "┉")];

/// What goes wrong while something is drawn.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// The inside of a frame. Its places are values of both axes.
pub(crate) type Plot<'a, X, Y> = DrawingArea<
    SVGBackend<'a>,
    Cartesian2d<<X as AsRangedCoord>::CoordDescType, <Y as AsRangedCoord>::CoordDescType>,
>;

/// How the frame looks.
pub(crate) struct Frame<'a> {
    pub(crate) size: Size,
    /// Titles of the horizontal and of the vertical axis, with their units.
    pub(crate) titles: [&'a str; 2],
    /// Texts of the ticks of both.
    pub(crate) ticks: [&'a dyn Fn(f64) -> String; 2],
    /// Ticks of the horizontal axis at most.
    pub(crate) x_ticks: usize,
    /// Outline of a grey area behind the grid; without points there is none.
    pub(crate) behind: Vec<(f64, f64)>,
}

impl Frame<'_> {
    /// The figure as SVG, with what `inside` draws.
    ///
    /// # Errors
    /// The error of the drawing library, and what was to be drawn.
    pub(crate) fn draw<X, Y>(
        self,
        x: X,
        y: Y,
        inside: impl FnOnce(&Plot<'_, X, Y>) -> Result<(), Failure>,
    ) -> Result<String, String>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let what = self.titles[1].to_owned();
        let svg = self.try_draw(x, y, inside);
        svg.map_err(|e| format!("draw {what}: {e}"))
    }

    fn try_draw<X, Y>(
        self,
        x: X,
        y: Y,
        inside: impl FnOnce(&Plot<'_, X, Y>) -> Result<(), Failure>,
    ) -> Result<String, Failure>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, self.size).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        if !self.behind.is_empty() {
            let grey = RGBColor(128, 128, 128).mix(0.25);
            chart
                .plotting_area()
                .draw(&Polygon::new(self.behind, grey))?;
        }
        let [x_tick, y_tick] = self.ticks;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(128, 128, 128).mix(0.3))
            .x_labels(self.x_ticks)
            .x_label_formatter(&|v| x_tick(*v))
            .y_label_formatter(&|v| y_tick(*v))
            .x_desc(self.titles[0])
            .y_desc(self.titles[1])
            .draw()?;
        inside(chart.plotting_area())?;
        area.present()?;
        drop(chart);
        drop(area);
        // The drawing library has no dashes, so the opacity of a line says which ones it has.
        for (number, (dashes, _)) in DASHES.iter().enumerate().skip(1) {
            let opacity = format!("opacity=\"{}\"", opacity(number));
            svg = svg.replace(&opacity, &format!("stroke-dasharray=\"{dashes}\""));
        }
        Ok(svg.replace("\"#000000\"", "\"currentColor\""))
    }
}

/// Stands for the dashes of a line until it is drawn.
fn opacity(number: usize) -> f64 {
    [1.0, 0.99, 0.98][number % DASHES.len()]
}

/// A line with this colour, and with the dashes of this number.
pub(crate) fn line(colour: RGBColor, number: usize) -> ShapeStyle {
    colour.mix(opacity(number)).stroke_width(2)
}

/// What a tick of a logarithmic axis may be a power of ten times of, from many ticks to few.
const ROUND: [&[f64]; 4] = [
    &[1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    &[1.0, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 2.0, 5.0],
    &[1.0],
];

/// A logarithmic axis with at most so many ticks, unless it has more powers of ten.
pub(crate) fn log_axis(values: Range<f64>, most: usize) -> WithKeyPoints<LogCoord<f64>> {
    let ticks = log_ticks(&values, most);
    values.log_scale().with_key_points(ticks)
}

fn log_ticks(values: &Range<f64>, most: usize) -> Vec<f64> {
    let powers = (values.start.log10().floor() as i32)..=(values.end.log10().ceil() as i32);
    let of = |round: &'static [f64]| {
        let all = powers.clone().map(|power| 10f64.powi(power));
        let all = all.flat_map(|power| round.iter().map(move |r| r * power));
        all.filter(|tick| values.contains(tick)).collect::<Vec<_>>()
    };
    let found = ROUND.map(of).into_iter().reduce(|many, few| {
        let fits = many.len() <= most;
        if fits { many } else { few }
    });
    found.unwrap_or_default()
}

/// Ticks with numbers on a horizontal axis.
pub(crate) fn number_ticks(size: Size) -> usize {
    size.0 as usize / 90
}

/// Ticks on a horizontal axis with so many names, see [`name_at`].
pub(crate) fn name_ticks(names: usize) -> usize {
    2 * names + 1
}

/// The name at a tick: they stand at 0, 1, 2 and so on. A tick between two of them has none.
pub(crate) fn name_at<'a>(names: impl Iterator<Item = &'a str>, at: f64) -> String {
    let is_whole = (at - at.round()).abs() < 1e-6 && at > -0.5;
    let mut names = names.skip(at.round().max(0.0) as usize);
    let name = is_whole.then(|| names.next()).flatten();
    name.unwrap_or_default().to_owned()
}

/// A tick of an axis so wide: neighbours differ in their text, however small or close their values.
pub(crate) fn tick(value: f64, wide: f64) -> String {
    let digits = 2 - wide.log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 15) as usize);
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_titles_and_nothing_that_is_black() {
        let frame = Frame {
            size: (400, 300),
            titles: ["time, s", "loss"],
            ticks: [&|v| format!("x{v}"), &|v| format!("y{v}")],
            x_ticks: 3,
            behind: vec![(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)],
        };
        let svg = frame.draw(0.0..2.0, 0.0..1.0, |plot| {
            plot.draw(&Circle::new((1.0, 0.5), 3, RED.filled()))?;
            plot.draw(&PathElement::new([(0.0, 0.5), (1.0, 0.5)], line(RED, 0)))?;
            plot.draw(&PathElement::new([(0.0, 0.2), (1.0, 0.2)], line(RED, 1)))?;
            Ok(())
        });
        let svg = svg.unwrap();
        for part in ["time, s", "loss", "\nx1\n", "\ny0.5\n", "currentColor"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("#000000"), "{svg}");
        assert_eq!(svg.matches("stroke-dasharray=\"9 4\"").count(), 1, "{svg}");
        // The area, then the grid, then what is inside.
        let at = |part: &str| svg.find(part).unwrap();
        assert!(at("<polygon") < at("<line") && at("<line") < at("<circle"));
    }

    #[test]
    fn what_fails_says_what_was_to_be_drawn() {
        let frame = Frame {
            size: (400, 300),
            titles: ["time, s", "loss"],
            ticks: [&|v| v.to_string(), &|v| v.to_string()],
            x_ticks: 3,
            behind: Vec::new(),
        };
        let wrong = frame.draw(0.0..1.0, 0.0..1.0, |_| Err("no ink".into()));
        assert_eq!(wrong.unwrap_err(), "draw loss: no ink");
    }

    #[test]
    fn a_logarithmic_axis_has_round_ticks_that_fit() {
        assert_eq!(log_ticks(&(70.0..460.0), 3), [100.0, 200.0]);
        assert_eq!(log_ticks(&(70.0..460.0), 5), [70.0, 100.0, 200.0, 300.0]);
        assert_eq!(
            log_ticks(&(0.1..1500.0), 8),
            [0.1, 1.0, 10.0, 100.0, 1000.0]
        );
        assert_eq!(log_ticks(&(41.0..59.0), 8), [50.0]);
    }

    #[test]
    fn names_stand_at_whole_numbers_alone() {
        let name = |at| name_at(["a", "b"].into_iter(), at);
        assert_eq!(
            [-1.0, -0.5, 0.0, 0.5, 1.0, 2.0].map(name),
            ["", "", "a", "", "b", ""]
        );
    }
}
