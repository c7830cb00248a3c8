// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The charts of a comparison as one SVG file that stands alone, for a paper: no title inside, no
//! script, and colours that do not depend on a page. Each link has a row of panels.
use super::charts::{Links, POINTS};
use super::{Look, looks, name};
use crate::chart::{
    AREA, Area, Chart, FINE, FONT, Failure, RULE, SOFT, drawing, dressed, escape, metadata,
    numbered,
};
use crate::picture::{self, FAMILY, INK, NO_TITLE, fine, standing_alone, text_style, write};
use alcc_results::Results;
use plotters::prelude::*;
use std::str::FromStr;

/// A panel of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Throughput against delay.
    Plane,
    /// The share of packets by their delay.
    Distribution,
    /// Throughput and delay over time, two panels.
    Series,
}

impl Part {
    /// All of them, in the order of a figure.
    pub const ALL: [Self; 3] = [Self::Plane, Self::Distribution, Self::Series];
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plane" => Ok(Self::Plane),
            "distribution" => Ok(Self::Distribution),
            "series" => Ok(Self::Series),
            _ => Err("plane, distribution or series".to_owned()),
        }
    }
}

/// Size of a panel.
const PANEL: (u32, u32) = (440, 300);
/// Panels in a row.
const COLUMNS: u32 = 2;
/// Height of a row of the legend, and of a link's name.
const LINE: u32 = 24;

/// The figure, as SVG. Of several repetitions the panels over time and of the distribution show the
/// first one.
///
/// # Errors
/// The error of the drawing library; nothing that could be drawn.
pub fn figure(results: &Results, parts: &[Part]) -> Result<String, String> {
    let looks = looks(results);
    let drawn = Links::new(results, &looks);
    let mut links: Vec<&str> = Vec::new();
    for row in &results.flows {
        if !links.contains(&row.link.as_str()) {
            links.push(&row.link);
        }
    }
    let rows: Vec<_> = links
        .iter()
        .map(|link| (*link, panels(&drawn, results, link, parts)))
        .filter(|(_, panels)| !panels.is_empty())
        .collect();
    if rows.is_empty() {
        return Err("there is nothing to draw".to_owned());
    }
    page(results, &looks, &rows).map_err(|e| format!("draw the figure: {e}"))
}

enum Panel {
    Plane,
    Chart(Box<Chart>),
}

fn panels(drawn: &Links<'_>, results: &Results, link: &str, parts: &[Part]) -> Vec<Panel> {
    let shown = drawn.shown(link);
    let titled = |mut chart: Chart, x: &str, y: &str| {
        (chart.x_title, chart.y_title) = (x.to_owned(), y.to_owned());
        Panel::Chart(Box::new(chart))
    };
    let has_figures =
        |g: &alcc_results::Group| g.link == link && g.median("delay_mean_ms").is_some();
    let mut panels = Vec::new();
    for part in Part::ALL.iter().filter(|part| parts.contains(part)) {
        match part {
            Part::Plane if results.summary.groups.iter().any(has_figures) => {
                panels.push(Panel::Plane);
            }
            Part::Distribution if !shown.is_empty() => {
                let chart = drawn.distribution_chart(link, &shown);
                panels.push(titled(chart, "one-way delay, ms", "packets, %"));
            }
            Part::Series if !shown.is_empty() => {
                let chart = drawn.throughput_chart(link, &shown, POINTS.1);
                panels.push(titled(chart, "time, s", "throughput, Mbit/s"));
                let chart = drawn.delay_chart(link, &shown, true, POINTS.1);
                panels.push(titled(chart, "time, s", "one-way delay, ms"));
            }
            _ => {}
        }
    }
    panels
}

/// Names with their lines, a row after the other. Returns their height.
fn legend(
    area: Option<&Area<'_>>,
    results: &Results,
    looks: &[Look],
    width: u32,
) -> Result<u32, Failure> {
    let (mut x, mut y) = (16, 0);
    for (number, look) in looks.iter().enumerate() {
        let name = name(&results.label(&look.scheme), look.side.as_deref());
        let wide = 56 + 7 * u32::try_from(name.chars().count())?;
        if x + wide > width && x > 16 {
            (x, y) = (16, y + LINE);
        }
        if let Some(area) = area {
            let line = [x, x + 26].map(|x| (fine(x), fine(y + 16)));
            let style = numbered(number).stroke_width(2 * FINE);
            area.draw(&PathElement::new(line, style))?;
            let style = text_style(FONT, &INK, false);
            write(area, &name, style, [fine(x + 32), fine(y + 22)])?;
        }
        x += wide;
    }
    Ok(y + LINE)
}

fn page(results: &Results, looks: &[Look], rows: &[(&str, Vec<Panel>)]) -> Result<String, Failure> {
    let most = rows.iter().map(|(_, panels)| panels.len()).max();
    let columns = u32::try_from(most.unwrap_or(1))?.min(COLUMNS);
    let width = columns * PANEL.0;
    let top = legend(None, results, looks, width)?;
    let head = if rows.len() > 1 { LINE } else { 0 };
    let mut height = top;
    for (_, panels) in rows {
        height += head + u32::try_from(panels.len())?.div_ceil(columns) * PANEL.1;
    }
    let (content, ()) = drawing((width, height), |area| {
        area.fill(&WHITE)?;
        legend(Some(area), results, looks, width)?;
        let mut y = top;
        for (link, panels) in rows {
            if head > 0 {
                write(
                    area,
                    link,
                    text_style(13, &INK, true),
                    [fine(16), fine(y + 20)],
                )?;
            }
            y += head;
            for (panel, n) in panels.iter().zip(0..) {
                let at = (n % columns * PANEL.0, y + n / columns * PANEL.1);
                match panel {
                    Panel::Plane => picture::draw_link(area, results, link, looks, (at, PANEL))?,
                    Panel::Chart(chart) => {
                        let place = (at.0 * FINE, at.1 * FINE);
                        let size = (PANEL.0 * FINE, PANEL.1 * FINE);
                        let part = area.clone().shrink(place, size);
                        chart.draw(&part, NO_TITLE, 2 * FINE)?;
                    }
                }
            }
            y += u32::try_from(panels.len())?.div_ceil(columns) * PANEL.1;
        }
        Ok(())
    })?;
    let soft = format!("#{:02x}{:02x}{:02x}", SOFT.0, SOFT.1, SOFT.2);
    let dashed = |dash: &str| {
        let dash = dash.split(',').filter_map(|n| n.parse::<u32>().ok());
        let dash: Vec<_> = dash.map(|n| (n * FINE).to_string()).collect();
        let dash = dash.join(" ");
        if dash.is_empty() {
            dash
        } else {
            format!(" stroke-dasharray=\"{dash}\"")
        }
    };
    let look = |number: usize, attribute: &str| match (number, looks.get(number)) {
        (AREA, _) => format!("{attribute}=\"#e4e9ee\""),
        (RULE, _) => format!("{attribute}=\"#9aa6b2\"{}", dashed("2,3")),
        (_, Some(look)) if attribute == "stroke" => {
            format!("{attribute}=\"{}\"{}", look.colour, dashed(look.dash))
        }
        (_, look) => format!(
            "{attribute}=\"{}\"",
            look.map_or(&*soft, |look| look.colour)
        ),
    };
    let links: Vec<&str> = rows.iter().map(|(link, _)| *link).collect();
    let label = format!("Throughput and delay on {}", links.join(", "));
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"{FAMILY}\">{}{}",
        escape(&label),
        width * FINE,
        height * FINE,
        metadata(&results.about),
        dressed(&standing_alone(&content), look)
    ))
}
