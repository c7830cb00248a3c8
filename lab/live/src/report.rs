// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One self-contained, offline HTML page from [`Results`]. The charts are drawn here. A small
//! script writes the figures, which the page carries as JSON. It reads the charts' points.
mod charts;
mod figure;
mod pdf;

use crate::chart::{self, Chart, escape};
use crate::palette;
use alcc_results::{Results, SIMULATED};
use charts::{HALF, Links, Sizes};
pub use charts::{bandwidth, density};
pub use figure::{Part, figure};
use maud::{DOCTYPE, Markup, PreEscaped, html};
pub use pdf::pdf;

const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/page.css");
const FIGURES: &str = include_str!("report/figures.js");
const SCRIPT: &str = include_str!("report/page.js");
/// A chart of the whole width, on a page that is not a comparison.
const WHOLE: Sizes = [(880, 300), (380, 240)];

/// Style of a scheme, or of a side of it. Its index in the list is the number of its class.
pub(crate) struct Look {
    pub(crate) scheme: String,
    pub(crate) side: Option<String>,
    pub(crate) colour: &'static str,
    dash: &'static str,
}

/// Name of a side of a scheme for readers.
fn name(scheme: &str, side: Option<&str>) -> String {
    side.map_or_else(|| scheme.to_owned(), |side| format!("{scheme} {side}"))
}

fn looks(results: &Results) -> Vec<Look> {
    let known = palette::looks(results);
    let mut looks: Vec<Look> = Vec::new();
    for row in &results.flows {
        if looks
            .iter()
            .any(|l| l.scheme == row.scheme && l.side == row.side)
        {
            continue;
        }
        let Some((_, look)) = known.iter().find(|(scheme, _)| *scheme == row.scheme) else {
            continue;
        };
        // Both sides of a scheme have its colour, and the simulated one is dotted.
        let is_simulated = row.side.as_deref() == Some(SIMULATED);
        looks.push(Look {
            scheme: row.scheme.clone(),
            side: row.side.clone(),
            colour: look.colour,
            dash: if is_simulated { "1,3" } else { look.dash },
        });
    }
    looks
}

/// The page. It loads nothing from anywhere, and is below 1 MB but for very many links.
pub fn html(results: &Results) -> String {
    // "</script>" inside a string would end the element that holds the JSON.
    let json = |text: serde_json::Result<String>| {
        text.map_or_else(|_| "{}".to_owned(), |text| text.replace('<', "\\u003c"))
    };
    let looks = looks(results);
    let mut links: Vec<&str> = Vec::new();
    for row in &results.flows {
        if !links.contains(&row.link.as_str()) {
            links.push(&row.link);
        }
    }
    let drawn = Links::new(results, &looks);
    let charts = html! {
        @for (n, link) in links.iter().enumerate() {
            div class="of-link" data-link=(link) hidden[n > 0] { (drawn.panels(link)) }
        }
    };
    let overview = charts::overall(results, &looks);
    let kin = html! {
        @for link in &links { @for (native, charts) in drawn.kin(link) {
            div class="of-kin" data-link=(link) data-native=(native) hidden { (charts) }
        } }
    };
    let names = looks
        .iter()
        .map(|look| name(&results.label(&look.scheme), look.side.as_deref()));
    let legend: Vec<(String, &str, &str)> = names
        .zip(&looks)
        .map(|(n, l)| (n, l.colour, l.dash))
        .collect();
    // The series are drawn; their text is not needed here.
    let text = Results {
        series: Vec::new(),
        ..results.clone()
    };
    fill(
        PAGE,
        &[
            ("title", &escape(&format!("alcc: {}", results.about.link))),
            ("css", &(chart::STYLE.to_owned() + STYLE)),
            ("classes", &classes(&legend)),
            ("legend", &buttons(&legend).into_string()),
            ("charts", &charts.into_string()),
            ("overview", &overview.into_string()),
            ("kin", &kin.into_string()),
            ("results", &json(serde_json::to_string(&text))),
            ("figures", FIGURES),
            ("js", SCRIPT),
        ],
    )
}

/// Styles of the curves' classes, as CSS.
pub fn classes(legend: &[(String, &str, &str)]) -> String {
    let one = |(n, (_, colour, dash)): (usize, &(String, &str, &str))| {
        let dash = if dash.is_empty() { "none" } else { dash };
        format!(".k{n}{{--c:{colour};--d:{dash}}}.no-k{n} .k{n}{{display:none}}\n")
    };
    legend.iter().enumerate().map(one).collect()
}

/// A button for each scheme shows or hides it in all charts.
fn buttons(legend: &[(String, &str, &str)]) -> Markup {
    html! {
        nav id="legend" aria-label="Schemes in the charts" {
            @for (n, (name, _, _)) in legend.iter().enumerate() {
                button type="button" aria-pressed="true" data-class={ "k" (n) } {
                    span class={ "swatch k" (n) } { (PreEscaped("<svg viewBox=\"0 0 26 8\" width=\"26\" height=\"8\" aria-hidden=\"true\"><polyline points=\"0,4 26,4\"/></svg>")) }
                    (name)
                }
            }
        }
    }
}

/// A chart with its heading, for a page that is not a comparison.
pub struct Panel {
    /// Its heading.
    pub title: String,
    /// The chart.
    pub chart: Chart,
    /// True if it takes half of the width.
    pub is_half: bool,
}

/// A page of charts: a sentence, a legend of names with colour and dash, and panels.
///
/// # Errors
/// The error of the drawing library.
pub fn page(
    title: &str,
    sentence: &str,
    legend: &[(String, &str, &str)],
    panels: &[Panel],
) -> Result<String, String> {
    let mut drawn = Vec::new();
    for panel in panels {
        let sizes: &[_] = if panel.is_half {
            &[("plot", HALF)]
        } else {
            &[("plot wide", WHOLE[0]), ("plot narrow", WHOLE[1])]
        };
        let figures = sizes
            .iter()
            .map(|(class, size)| Ok((*class, panel.chart.svg(*size)?)));
        drawn.push((panel, figures.collect::<Result<Vec<_>, String>>()?));
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                link rel="icon" href="data:,";
                title { "alcc: " (title) }
                style { (PreEscaped(chart::STYLE)) (PreEscaped(STYLE)) (PreEscaped(classes(legend))) }
            }
            body {
                main {
                    p id="title" { (title) }
                    h1 id="sentence" { (sentence) }
                    (buttons(legend))
                    div class="panels" {
                        @for (panel, figures) in &drawn {
                            section class=(if panel.is_half { "panel half" } else { "panel" }) {
                                div class="head" { h2 { (panel.title) } }
                                @for (class, svg) in figures {
                                    div class=(class) tabindex="0" { (PreEscaped(svg)) }
                                }
                            }
                        }
                    }
                }
                script { (PreEscaped(FIGURES)) }
            }
        }
    };
    Ok(page.into_string())
}

/// Replaces each `{{name}}` of the template once, in one pass: what is put in is never looked at
/// again.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut page =
        String::with_capacity(template.len() + values.iter().map(|v| v.1.len()).sum::<usize>());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        if let Some((_, value)) = values.iter().find(|(known, _)| *known == name) {
            page.push_str(value);
        }
        rest = after;
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_results::{About, Row, Series, quantiles, summary};

    fn results(links: usize, schemes: usize) -> Results {
        let mut flows = Vec::new();
        let mut series = Vec::new();
        for link in 0..links {
            for scheme in 0..schemes {
                let (link, scheme) = (format!("link {link}"), format!("scheme {scheme}"));
                flows.push(crate::board::samples::sample(&link, &scheme, 10.0, 50.0));
                series.push(Series {
                    scheme,
                    link,
                    run: flows.last().map_or(0, |row: &Row| row.run),
                    side: None,
                    bin_s: 0.1,
                    throughput_mbps: (0..600).map(|i| f64::from(i % 17) * 1.234_567).collect(),
                    capacity_mbps: vec![20.0; 600],
                    delay_ms: (0..600).map(|i| Some(20.0 + f64::from(i % 71))).collect(),
                    delay_quantiles_ms: quantiles().iter().map(|q| 20.0 + 70.0 * q).collect(),
                });
            }
        }
        Results {
            summary: summary(&flows),
            flows,
            series,
            about: About {
                link: "LTE <b>".into(),
                command: "alcc-lab demo --trace '</script>'".into(),
                ..About::default()
            },
            ..Results::default()
        }
    }

    #[test]
    fn the_page_refers_to_nothing_outside() {
        let page = html(&results(1, 2));
        for outside in [
            "http:", "https:", " src=", "@import", "url(", "fetch(", "//cdn",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(!page.contains("{{"), "every placeholder is filled");
    }

    #[test]
    fn a_page_is_light() {
        for (links, schemes, most) in [(1, 5, 250_000), (15, 10, 1_000_000)] {
            let found = html(&results(links, schemes)).len();
            assert!(
                found < most,
                "{links} links, {schemes} schemes: {found} bytes"
            );
        }
    }

    #[test]
    fn every_scheme_has_curves_a_button_and_a_look() {
        let page = html(&results(2, 3));
        // Throughput, delay on two scales, each twice; and the distribution.
        for n in 0..3 {
            let lines = page
                .lines()
                .filter(|l| l.starts_with("<polyline") && l.contains(&format!("class=\"k{n}\"")));
            assert_eq!(lines.count(), 2 * 7, "k{n}");
            assert!(
                page.contains(&format!("data-class=\"k{n}\""))
                    && page.contains(&format!(".k{n}{{--c:#"))
            );
        }
        assert!(page.contains("Throughput over time on link 0: scheme 0 10.0 Mbit/s, scheme 1"));
    }

    #[test]
    fn text_from_outside_cannot_end_its_element() {
        let page = html(&results(1, 1));
        assert_eq!(
            page.matches("</script>").count(),
            2,
            "the results and the script"
        );
        assert!(page.contains("<title>alcc: LTE &lt;b&gt;</title>"));
        let (_, json) = page.split_once("id=\"results\">").unwrap();
        let (json, _) = json.split_once("</script>").unwrap();
        let back: Results = serde_json::from_str(json).unwrap();
        assert_eq!(back.about.command, "alcc-lab demo --trace '</script>'");
        assert!(!page.contains("<b>\"") && !page.contains("<script>\""));
    }
}
