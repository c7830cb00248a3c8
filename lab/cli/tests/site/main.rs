// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of `alcc-lab reproduce` and `alcc-lab sweep`, and reports, in a real browser: on a phone and
//! on a desk, light and dark, by keyboard, and by the rules of axe-core.
mod browser;
#[path = "../../../../alcc/cli/tests/support/built.rs"]
mod built;
mod reports;
#[path = "../../../../alcc/cli/tests/support/root.rs"]
mod root;

use browser::Browser;
use root::root;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXPERIMENT: &str = r#"title = "Windows that never grow"
source = "this test"
statement = "They build no queue."
runs = 2

[scenario]
link = "12mbit"
flow = "{scheme}"
rtt = "{rtt}"
duration = "2s"

[[sweep]]
key = "scheme"
values = ["fixed:window=2", "fixed:window=4", "fixed:window=6", "fixed:window=8", "fixed:window=10", { name = "Cubic", scheme = "cubic" }]

[[sweep]]
key = "rtt"
values = ["20ms", "80ms"]

[report]
y = ["throughput_mbps", "queue_delay_mean_ms"]

[[expect]]
says = "its queue is a tenth of Cubic's or less"
metric = "queue_delay_mean_ms"
of = { scheme = "fixed:window=2" }
over = { scheme = "Cubic" }
published = 0
at-most = 0.1

[[expect]]
says = "a window of two packets fills the link"
metric = "throughput_mbps"
of = { scheme = "fixed:window=2" }
at-least = 11
"#;

/// Delay profiles of Verus as figure 5 of its paper draws them, and as figure 7b.
const LEARNED: &str = r#"title = "What Verus learns"
source = "this test"
statement = "Its curve rises."
runs = 1

[scenario]
link = "12mbit"
flow = "{scheme}"
duration = "40s"
steps = "every=5s,rate=4mbit..12mbit"

[[sweep]]
key = "scheme"
values = [{ name = "Verus", scheme = "verus:profile=original" }, "cubic"]

[report]
y = ["curve_rise"]
profile = "FORM"

[[expect]]
says = "it rises"
metric = "curve_rise"
of = { scheme = "Verus" }
at-least = 1.01
"#;

/// Single seconds over time.
const OVER_TIME: &str = r#"title = "A window below another one"
source = "this test"
statement = "It follows the link."
runs = 1

[scenario]
link = "12mbit"
flow = "{scheme}"
duration = "8s"
steps = "every=2s,rate=4mbit..12mbit"

[[sweep]]
key = "scheme"
values = [{ name = "Copa above Cubic", scheme = "copa/over=cubic" }, "cubic"]

[report]
form = "series"
y = ["throughput_mbps", "cwnd"]
log-y = ["cwnd"]
columns = ["utilization"]

[[expect]]
says = "it has throughput"
metric = "throughput_mbps"
of = { scheme = "cubic" }
at-least = 1
"#;

/// Widths of a phone, of a small window and of a desk, in CSS pixels.
const WIDTHS: [u32; 4] = [390, 800, 1280, 1400];
const TAB: u32 = 9;

/// Texts of figures that stand on one another or outside, one a line.
const COVERED: &str = "[...document.querySelectorAll('svg')].filter(e => e.getClientRects().length).flatMap(svg => {
  const box = svg.getBoundingClientRect(), found = [];
  const texts = [...svg.querySelectorAll('text')].filter(e => e.textContent.trim());
  const places = texts.map(e => e.getBoundingClientRect());
  places.forEach((a, i) => {
    if (a.left < box.left - 1 || a.right > box.right + 1 || a.top < box.top - 1 || a.bottom > box.bottom + 1)
      found.push(texts[i].textContent.trim());
    places.slice(0, i).forEach((b, j) => {
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
        found.push(texts[i].textContent.trim() + ' on ' + texts[j].textContent.trim());
    });
  });
  return found;
}).join('\\n')";

/// The smallest font that is seen, in pixels of the page: figures scale with it.
const SMALLEST_FONT: &str = "Math.min(...[...document.querySelectorAll('p, span, b, small, button, td, th, a, li, code, figcaption, svg text')]
  .filter(e => e.textContent.trim() && e.getClientRects().length)
  .map(e => parseFloat(getComputedStyle(e).fontSize) * (e.ownerSVGElement ? e.ownerSVGElement.getScreenCTM().a : 1)))";

/// Pixels of the page beyond the screen. On a phone `innerWidth` would grow with the page.
fn beyond(browser: &mut Browser, width: u32) -> i64 {
    let wide = browser.value("document.documentElement.scrollWidth");
    wide.as_i64().unwrap() - i64::from(width)
}

struct Site {
    browser: Browser,
    _folder: tempfile::TempDir,
    /// An index, an experiment, one that was not run, two with delay profiles, a sweep, one over time.
    pages: Vec<PathBuf>,
}

fn alcc(folder: &Path, words: &[&str]) {
    let mut command = Command::new(built::program(words[0]));
    let output = command
        .args(words)
        .env_remove("ALCC_TRACES")
        .env("XDG_STATE_HOME", folder)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns `None`, and prints why, if there is no browser.
fn site() -> Option<Site> {
    let Some(chromium) = browser::find() else {
        println!("skipped: needs chromium (apt install chromium)");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("static/experiment.toml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, EXPERIMENT).unwrap();
    std::fs::write(file.with_file_name("README.md"), "# static\n\nWhy?\n").unwrap();
    for form in ["points", "curves"] {
        let file = folder.path().join(form).join("experiment.toml");
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        std::fs::write(&file, LEARNED.replace("FORM", form)).unwrap();
    }
    let file = folder.path().join("time/experiment.toml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, OVER_TIME).unwrap();
    let files =
        ["static", "points", "curves", "time"].map(|name| format!("{name}/experiment.toml"));
    let files = files.iter().map(String::as_str);
    let words = ["reproduce", "mdi-rapid"].into_iter().chain(files);
    alcc(folder.path(), &words.collect::<Vec<_>>());
    let sweep = [
        "sweep",
        "--link",
        "12mbit",
        "--duration",
        "2s",
        "--runs",
        "1",
    ];
    let vary = ["--flow", "cubic", "--vary", "rtt=20ms,40ms"];
    alcc(folder.path(), &[&sweep[..], &vary].concat());
    let pages = [
        "reproduced/index",
        "reproduced/static",
        "reproduced/mdi-rapid",
        "reproduced/points",
        "reproduced/curves",
        "swept/sweep",
        "reproduced/time",
    ];
    let pages = pages.map(|page| folder.path().join(format!("{page}.html")));
    Some(Site {
        browser: Browser::start(&chromium),
        pages: pages.to_vec(),
        _folder: folder,
    })
}

#[test]
fn pages_fit_and_show_what_they_have() {
    let Some(mut site) = site() else { return };
    let browser = &mut site.browser;
    for page in &site.pages {
        let size = std::fs::metadata(page).unwrap().len();
        assert!(size < 1_000_000, "{}: {size} bytes", page.display());
        for width in WIDTHS {
            browser.open(page, width, "light");
            let at = format!("{} at {width}", page.display());
            // Only what is marked so scrolls sideways, not the page.
            assert!(beyond(browser, width) <= 0, "{at}");
            assert_eq!(
                browser.value("performance.getEntriesByType('resource').length"),
                0,
                "{at}"
            );
            assert_eq!(browser.value("document.scripts.length"), 0, "{at}");
            let heading =
                browser.value("document.querySelector('h1').getBoundingClientRect().height");
            assert!(heading.as_f64().unwrap() > 20.0, "{at}: {heading}");
            // Rows on a phone are as wide as it is.
            let wide = "[...document.querySelectorAll('.stacked .wide')].filter(e => e.scrollWidth > e.clientWidth + 1).length";
            assert_eq!(browser.value(wide), 0, "{at}");
            assert_eq!(browser.value(COVERED), "", "{at}");
            let small = browser.value(SMALLEST_FONT);
            assert!(small.as_f64().unwrap() >= 9.0, "{at}: {small}");
        }
    }
    browser.open(&site.pages[1], 390, "light");
    // Two figures of twelve points each, with an entry of the legend for every scheme.
    let points = "[...document.querySelectorAll('svg')].filter(e => e.getClientRects().length).map(svg => svg.querySelectorAll('circle, polygon').length)";
    assert_eq!(browser.value(points), serde_json::json!([12, 12]));
    let legend = "document.querySelector('.legend').children.length";
    assert_eq!(browser.value(legend), 7);
    let drawn = browser.value(
        "Math.min(...[...document.querySelectorAll('svg circle, svg polygon')].filter(e => e.getClientRects().length).map(e => e.getBoundingClientRect().width))",
    );
    assert!(drawn.as_f64().unwrap() >= 8.0, "{drawn}");
    let data =
        "[...document.querySelectorAll('main a')].map(a => a.getAttribute('href')).join(' ')";
    assert_eq!(browser.value(data), "index.html static.csv static.parquet");
    for name in ["static.csv", "static.parquet"] {
        assert!(site.pages[1].with_file_name(name).is_file(), "{name}");
    }
}

/// Points and a dashed curve; curves in three colours and three kinds of line. All of them are
/// inside the drawing, large enough to be seen, and explained.
#[test]
fn delay_profiles_are_drawn_as_the_paper_draws_them() {
    let Some(mut site) = site() else { return };
    let browser = &mut site.browser;
    for width in WIDTHS {
        browser.open(&site.pages[3], width, "light");
        let number = |browser: &mut Browser, what: &str| browser.value(what).as_f64().unwrap();
        let points = "document.querySelectorAll('.profile circle').length";
        assert!(number(browser, points) > 20.0, "at {width}");
        let dashes =
            "getComputedStyle(document.querySelector('.profile polyline.k1')).strokeDasharray";
        assert_eq!(browser.value(dashes), "9px, 4px");
        let names = "document.querySelector('.profile .legend').innerText";
        let names = browser.value(names);
        assert!(
            names.as_str().unwrap().contains("the curve through them"),
            "{names}"
        );

        browser.open(&site.pages[4], width, "light");
        let kinds = "JSON.stringify([...new Set([...document.querySelectorAll('.profile polyline')]\
            .filter(e => parseFloat(getComputedStyle(e).strokeWidth) == 2)\
            .map(e => getComputedStyle(e).stroke + getComputedStyle(e).strokeDasharray))].length)";
        assert_eq!(browser.value(kinds), "3", "colours and dashes at {width}");
        // Cubic learns none.
        assert_eq!(
            browser.value("document.querySelectorAll('.profile').length"),
            1
        );
        let seen =
            "[...document.querySelectorAll('.profile svg')].find(e => e.getClientRects().length)";
        let outside = format!("(() => {{ const svg = {seen}, box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('polyline')].map(e => e.getBoundingClientRect())
              .filter(r => r.left < box.left || r.right > box.right || r.top < box.top || r.bottom > box.bottom).length; }})()");
        assert_eq!(browser.value(&outside), 0, "at {width}");
        let tall = format!("{seen}.getBoundingClientRect().height");
        assert!(number(browser, &tall) > 250.0, "at {width}");
        // A phone shows all of it.
        let scrolls = "[...document.querySelectorAll('.plot')].filter(e => e.scrollWidth > e.clientWidth + 1).length";
        assert_eq!(browser.value(scrolls), 0, "at {width}");
    }
}

/// A phone shows all of a figure at once. Lines have dashes, signs and names.
#[test]
fn figures_over_time_fit_a_phone() {
    let Some(mut site) = site() else { return };
    let browser = &mut site.browser;
    for width in WIDTHS {
        browser.open(&site.pages[6], width, "light");
        let shown = "[...document.querySelectorAll('figure svg')].filter(e => e.getClientRects().length).length";
        // Throughput of both together, and windows of each.
        assert_eq!(browser.value(shown), 3, "at {width}");
        let wide = "[...document.querySelectorAll('.plot')].filter(e => e.scrollWidth > e.clientWidth + 1).length";
        assert_eq!(browser.value(wide), 0, "at {width}");
        let dashed = "[...document.querySelectorAll('figure polyline')].some(e => getComputedStyle(e).strokeDasharray != 'none')";
        assert_eq!(browser.value(dashed), true, "at {width}");
        let names = "document.querySelector('.legend').innerText";
        let names = browser.value(names);
        let names = names.as_str().unwrap();
        for name in ["Copa above Cubic", "cubic", "offered by the link"] {
            assert!(names.contains(name), "{names}");
        }
        let says = "document.querySelector('figure [role=img]').getAttribute('aria-label')";
        let says = browser.value(says);
        assert!(
            says.as_str()
                .unwrap()
                .contains("over 8 s. Copa above Cubic: "),
            "{says}"
        );
        let numbers = "[...document.querySelectorAll('th.n')].every(e => getComputedStyle(e).textAlign == 'right')";
        assert_eq!(browser.value(numbers), true);
        // One start has no median.
        let words = browser.value("document.body.innerText");
        let words = words.as_str().unwrap();
        assert!(words.contains("One start") && !words.contains("1 starts"));
    }
}

/// Every verdict and every number can be read in the dark: text has 4.5:1, what is drawn 3:1.
#[test]
fn colours_follow_the_page_into_the_dark() {
    let Some(mut site) = site() else { return };
    let browser = &mut site.browser;
    for (scheme, background) in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(18, 18, 18)")] {
        browser.open(&site.pages[1], 1400, scheme);
        assert_eq!(
            browser.value("getComputedStyle(document.body).backgroundColor"),
            background
        );
        let contrast = |of: &str, attribute: &str| {
            format!(
                "(() => {{
                  const light = c => {{
                    const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
                      .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
                    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2] + 0.05;
                  }};
                  const page = light(getComputedStyle(document.body).backgroundColor);
                  return Math.min(...[...document.querySelectorAll('{of}')].map(e => {{
                    const own = light(getComputedStyle(e).{attribute});
                    return Math.max(own, page) / Math.min(own, page);
                  }}));
                }})()"
            )
        };
        for (of, attribute, least) in [
            ("h1, h2, p, td, th, a, pre, figcaption", "color", 4.5),
            ("svg text", "fill", 4.5),
            ("svg circle, svg polygon", "fill", 3.0),
            (".legend span span", "color", 3.0),
        ] {
            let found = browser.value(&contrast(of, attribute));
            assert!(
                found.as_f64().unwrap() >= least,
                "{of} in the {scheme}: {found}"
            );
        }
    }
}

/// With the tabulator alone one gets to every link and to everything that scrolls, in the order in
/// which they stand, and sees where one is.
#[test]
fn the_keyboard_reaches_everything_in_order() {
    let Some(mut site) = site() else { return };
    let browser = &mut site.browser;
    for page in &site.pages {
        browser.open(page, 390, "light");
        let wanted = browser.value(
            "(() => { const all = [...document.querySelectorAll('a, summary, [tabindex]')];
               all.forEach((e, i) => e.dataset.number = i); return all.length; })()",
        );
        let wanted = wanted.as_u64().unwrap();
        assert!(wanted > 0, "{}", page.display());
        for number in 0..wanted {
            browser.press("Tab", TAB);
            let seen = browser.value(
                "(() => { const e = document.activeElement, s = getComputedStyle(e);
                   return [e.dataset.number ?? e.tagName, s.outlineStyle, parseFloat(s.outlineWidth) >= 2].join(' '); })()",
            );
            assert_eq!(seen, format!("{number} solid true"), "{}", page.display());
        }
        let scrolls = browser.value(
            "[...document.querySelectorAll('main *, footer *')].filter(e => e.scrollWidth > e.clientWidth + 1 \
             && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0).length",
        );
        assert_eq!(
            scrolls,
            0,
            "{}: something scrolls by pointer alone",
            page.display()
        );
    }
}

/// Returns `None`, and prints why, if it was not fetched.
fn axe() -> Option<String> {
    let axe = std::fs::read_to_string(root().join("target/deps/axe/axe.min.js")).ok();
    if axe.is_none() {
        println!("skipped: needs axe-core (scripts/setup test fetches it)");
    }
    axe
}

#[test]
fn axe_finds_nothing() {
    let Some(axe) = axe() else { return };
    let Some(mut site) = site() else { return };
    let browser = &mut site.browser;
    for page in &site.pages {
        for (width, scheme) in [(390, "light"), (1400, "dark")] {
            browser.open(page, width, scheme);
            browser.value(&format!("{axe};0"));
            let found = browser.value(
                "axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).slice(0, 2).join(' ')).join('; '))",
            );
            assert_eq!(found, "", "{} at {width}", page.display());
            let passed = browser.value("axe.run().then(r => r.passes.length)");
            assert!(passed.as_u64().unwrap() > 10, "{passed}");
        }
    }
    // It can find something.
    browser.value("document.documentElement.removeAttribute('lang')");
    let found = browser.value("axe.run().then(r => r.violations.map(v => v.id).join(' '))");
    assert!(found.as_str().unwrap().contains("html-has-lang"), "{found}");
}
