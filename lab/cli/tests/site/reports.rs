// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reports of `alcc-lab compare --out`, `alcc-lab demo` and `alcc trial --html` in a real browser.
use super::browser::{self, Browser};
use super::{SMALLEST_FONT, TAB, WIDTHS, alcc, axe, beyond};
use std::path::{Path, PathBuf};

struct Reports {
    browser: Browser,
    _folder: tempfile::TempDir,
    pages: Vec<PathBuf>,
}

/// Returns `None`, and prints why, if there is no browser.
fn reports() -> Option<Reports> {
    let Some(chromium) = browser::find() else {
        println!("skipped: needs chromium (apt install chromium)");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut pages = vec![at.join("board/report.html"), at.join("trial.html")];
    let compare = [
        "compare",
        "--sim",
        "--traces",
        "synth:lte,12mbit",
        "--duration",
        "5s",
        "--runs",
        "3",
    ];
    let schemes = [
        "--schemes",
        "cubic,bbr,verus/over=cubic,budget/over=cubic",
        "--out",
        "board",
    ];
    alcc(at, &[&compare[..], &schemes].concat());
    // Nobody asked its server: the page has the frame, and a table without lines.
    alcc(at, &["trial", "--html", "trial.html", "--", "true"]);
    if let Err(why) = alcc_emu::available() {
        println!("skipped: the demo's report needs namespaces: {why}");
    } else {
        alcc(at, &["demo", "--duration", "1s", "--out", "demo"]);
        pages.push(at.join("demo/report.html"));
    }
    Some(Reports {
        browser: Browser::start(&chromium),
        pages,
        _folder: folder,
    })
}

/// Elements that the Tab key should reach, numbered in their order.
const REACHABLE: &str = "(() => {
  const all = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex=\"0\"]')]
    .filter(e => e.checkVisibility({ visibilityProperty: true }) && !e.disabled);
  all.forEach((e, i) => e.dataset.number = i);
  return all.length;
})()";

/// Asks whether the background of texts is dark: one answer, if all agree.
const GROUNDS: &str = "[...new Set([...document.querySelectorAll('body, .card, .panel, .scroll td, pre')]
  .map(e => getComputedStyle(e).backgroundColor.match(/[\\d.]+/g)).filter(c => c[3] !== '0').map(c => c[0] < 128))]";

fn check(browser: &mut Browser, page: &Path, axe: &str) {
    for (width, scheme) in WIDTHS.into_iter().flat_map(|w| [(w, "light"), (w, "dark")]) {
        browser.open(page, width, scheme);
        let at = format!("{} at {width}, {scheme}", page.display());
        let wide = beyond(browser, width);
        assert!(
            wide <= 0,
            "{at}: the page scrolls sideways by {wide} pixels"
        );
        let small = browser.value(SMALLEST_FONT);
        assert!(small.as_f64().unwrap() >= 9.0, "{at}: {small}");
        assert_eq!(
            browser.value("performance.getEntriesByType('resource').length"),
            0,
            "{at}: it needs a network"
        );
        let grounds = browser.value(GROUNDS);
        let dark = scheme == "dark";
        assert_eq!(grounds, serde_json::json!([dark]), "{at}: which are dark");
        if !axe.is_empty() {
            browser.value(&format!("{axe};0"));
            let found = browser.value(
                "axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).slice(0, 2).join(' ')).join('; '))",
            );
            assert_eq!(found, "", "{at}");
        }
    }
    browser.open(page, 390, "light");
    let wanted = browser.value(REACHABLE).as_u64().unwrap();
    for number in 0..wanted {
        browser.press("Tab", TAB);
        let seen = browser.value(
            "(() => { const e = document.activeElement, s = getComputedStyle(e);
               return [e.dataset.number ?? e.tagName, s.outlineStyle != 'none'].join(' '); })()",
        );
        assert_eq!(seen, format!("{number} true"), "{}", page.display());
    }
    let scrolls = browser.value(
        "[...document.querySelectorAll('main *')].filter(e => e.scrollWidth > e.clientWidth + 1 \
         && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0).map(e => e.outerHTML.slice(0, 80)).join('; ')",
    );
    assert_eq!(scrolls, "", "{}: by pointer alone", page.display());
}

#[test]
fn reports_can_be_read_by_everybody() {
    let axe = axe().unwrap_or_default();
    let Some(mut reports) = reports() else { return };
    for page in &reports.pages {
        check(&mut reports.browser, page, &axe);
    }
}
