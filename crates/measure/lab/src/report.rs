// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One self-contained, offline, interactive HTML page from [`Results`].
//!
//! The page carries the results as JSON and draws itself from them, so what a reader sees is what
//! `--json` prints.
use crate::palette;
use alcc_results::Results;
use plotly::Plot;
use std::collections::BTreeMap;

const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/page.css");
const SCRIPT: &str = include_str!("report/page.js");

/// The page. It loads nothing from anywhere; about 5 MB, nearly all of it plotly.js.
pub fn html(results: &Results) -> String {
    // "</script>" inside a string would end the element that holds the JSON.
    let json = |text: serde_json::Result<String>| {
        text.map_or_else(|_| "{}".to_owned(), |text| text.replace('<', "\\u003c"))
    };
    let looks: BTreeMap<_, _> = palette::looks(results).into_iter().collect();
    fill(
        PAGE,
        &[
            ("title", &escape(&format!("alcc: {}", results.about.link))),
            ("css", STYLE),
            ("plotly", &plotting_script()),
            ("results", &json(serde_json::to_string(results))),
            ("looks", &json(serde_json::to_string(&looks))),
            ("js", SCRIPT),
        ],
    )
}

/// The looks of every page.
pub fn style() -> &'static str {
    STYLE
}

/// plotly.js alone: the crate's sources hold a second script (MathJax) that we have no formula for.
pub fn plotting_script() -> String {
    let sources = Plot::offline_js_sources();
    let body = sources.split_once('>').map_or("", |(_, rest)| rest);
    body.split_once("</script>")
        .map_or(String::new(), |(script, _)| script.to_owned())
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_results::{About, Row};

    fn page() -> String {
        html(&Results {
            about: About {
                link: "LTE <b>".into(),
                command: "alcc demo --trace '</script>'".into(),
                ..About::default()
            },
            flows: vec![Row::default()],
            ..Results::default()
        })
    }

    /// Our part of the page: without plotly.js, which knows addresses of map tiles that our chart
    /// kinds never ask for.
    fn own_part() -> String {
        page().replace(&plotting_script(), "")
    }

    #[test]
    fn the_page_refers_to_nothing_outside() {
        assert!(plotting_script().len() > 1_000_000, "plotly.js is inside");
        let own = own_part();
        for outside in [
            "http:", "https:", "src=", "@import", "url(", "fetch(", "//cdn",
        ] {
            assert!(!own.contains(outside), "{outside}");
        }
        assert!(!page().contains("MathJax.js"));
        assert!(!own.contains("{{"), "every placeholder is filled");
    }

    #[test]
    fn text_from_outside_cannot_end_its_element() {
        let own = own_part();
        assert_eq!(
            own.matches("</script>").count(),
            4,
            "plotly, results, looks, our script"
        );
        assert!(own.contains("<title>alcc: LTE &lt;b&gt;</title>"));
        let (_, json) = own.split_once("id=\"results\">").unwrap();
        let (json, _) = json.split_once("</script>").unwrap();
        let back: Results = serde_json::from_str(json).unwrap();
        assert_eq!(back.about.command, "alcc demo --trace '</script>'");
    }
}
