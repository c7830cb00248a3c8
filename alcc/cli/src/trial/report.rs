// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output of a trial: a line, a table, metrics, JSON and a page.
use super::Known;
use super::left::MOST;
use crate::metrics::Page;
use crate::wording::count;
use alcc_observe::trial::{Effect, Metric, Tally};
use alcc_socket::now;
use alcc_units::Time;
use std::fmt::Write as _;
use std::time::SystemTime;

/// Facts about the trial for readers who did not start it.
#[derive(Default)]
pub(super) struct About {
    began: String,
    started: Time,
    host: String,
    command: String,
    /// The kernel's control of the plain group.
    plain: String,
}

impl About {
    /// A trial that begins now.
    pub(super) fn now(plain: &str) -> Self {
        let words = std::env::args_os().skip(1);
        let words: Vec<_> = words.map(|w| w.to_string_lossy().into_owned()).collect();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            began: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            started: now(),
            host: host.trim().to_owned(),
            command: format!("alcc {}", words.join(" ")),
            plain: plain.to_owned(),
        }
    }

    fn seconds(&self) -> f64 {
        now().since(self.started).as_secs_f64()
    }

    fn rows(&self) -> [(&'static str, String); 5] {
        [
            ("Began", self.began.clone()),
            ("Length", format!("{:.0} s", self.seconds())),
            ("Host", self.host.clone()),
            ("Command", self.command.clone()),
            ("Plain TCP", self.plain.clone()),
        ]
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The metrics of the short line.
const SHORT: [Metric; 3] = [Metric::RttP95, Metric::Rate, Metric::Time];

/// A change for people: percent, or percentage points.
fn percent(value: f64) -> String {
    alcc_units::signed(100.0 * value, 0)
}

fn unit(metric: Metric) -> &'static str {
    if metric.is_ratio() { "%" } else { "points" }
}

/// "RTT p95, ms -43 % (-48 to -37)".
pub(super) fn effect(e: &Effect) -> String {
    let (low, high) = (percent(e.low), percent(e.high));
    format!(
        "{} {} {} ({low} to {high})",
        e.metric.title(),
        percent(e.change),
        unit(e.metric)
    )
}

fn group(tally: &Tally) -> String {
    format!(
        "{} of {}",
        count(tally.transfers(), "transfer"),
        count(tally.clients() as u64, "client")
    )
}

/// The unfinished transfers of both groups, in words. `None`: there are none.
fn unended(known: &Known) -> Option<String> {
    if known.unended == [0, 0] {
        return None;
    }
    let of = |n: usize| {
        let share = 100.0 * known.unended_shares()[n];
        format!("{} ({share:.0} %)", known.unended[n])
    };
    let end = if known.is_whole() {
        ""
    } else {
        ". More than 10 % in one group: no verdict, because which ones are missing may depend on the group"
    };
    Some(format!(
        "Transfers without an observed end, which are not included: plain {}, treated {}{end}",
        of(0),
        of(1)
    ))
}

/// One line while it runs.
pub(super) fn line(name: &str, known: &Known) -> String {
    let effects = known.effects();
    let shown = (effects.iter()).filter(|e| e.is_whole && SHORT.contains(&e.metric));
    let shown: Vec<_> = shown.map(effect).collect();
    let what = if !known.is_whole() {
        "too many transfers have no observed end".to_owned()
    } else if shown.is_empty() {
        "too few to compare yet".to_owned()
    } else {
        shown.join(", ")
    };
    let (treated, plain) = (group(&known.treated), group(&known.plain));
    format!("alcc: trial: {name} {treated}, plain {plain}: {what}")
}

/// Value, in the unit of its title.
fn value(metric: Metric, value: f64) -> f64 {
    if metric.is_ratio() {
        value
    } else {
        100.0 * value
    }
}

fn verdict(known: &Known, e: &Effect) -> &'static str {
    if !(known.is_whole() && e.is_whole) {
        return "no verdict";
    }
    match (e.is_clear(), e.is_better()) {
        (false, _) => "no clear difference",
        (true, true) => "better",
        (true, false) => "worse",
    }
}

/// The table at the end.
pub(super) fn table(name: &str, known: &Known) -> String {
    let (treated, plain) = (group(&known.treated), group(&known.plain));
    let mut text = format!("alcc: trial of {name}: {treated}; plain TCP: {plain}");
    let effects = known.effects();
    if effects.is_empty() {
        text.push_str("\nalcc: too few to compare: both groups need 5 clients with transfers of 64 KiB or more");
    } else {
        let _ = write!(
            text,
            "\n  {:<18} {:>9} {:>9} {:>8}  {:<18} 99 % interval",
            "", "plain", "under it", "change", ""
        );
    }
    for e in &effects {
        let interval = format!(
            "{} to {} {}",
            percent(e.low),
            percent(e.high),
            unit(e.metric)
        );
        let _ = write!(
            text,
            "\n  {:<18} {:>9.1} {:>9.1} {:>8}  {:<18}  {}",
            e.metric.title(),
            value(e.metric, e.plain),
            value(e.metric, e.treated),
            percent(e.change),
            interval,
            verdict(known, e)
        );
    }
    for missing in missing(known) {
        let _ = write!(text, "\nalcc: {missing}");
    }
    text
}

/// Data that is missing from the comparison, in words.
fn missing(known: &Known) -> Vec<String> {
    let mut all: Vec<_> = unended(known).into_iter().collect();
    let [plain, treated] = [&known.plain, &known.treated].map(Tally::without_rtt);
    if plain + treated > 0 {
        let is_rtt = |e: &&Effect| e.metric == Metric::RttP95;
        let is_whole = known
            .effects()
            .iter()
            .find(is_rtt)
            .is_some_and(|e| e.is_whole);
        all.push(format!(
            "Transfers with fewer than five readings of the RTT, included in everything but the RTT: plain {plain}, treated {treated}{}",
            if is_whole { "" } else { ". So there is no verdict on the RTT" }
        ));
    }
    if known.lost > 0 {
        all.push(format!(
            "{} came too fast and are not included",
            count(known.lost, "reading")
        ));
    }
    if known.unseen > 0 {
        all.push(format!(
            "{} closed with bytes in flight and then not seen: their last data is not included",
            count(known.unseen, "connection")
        ));
    }
    if known.beyond > 0 {
        all.push(format!(
            "{} closed with bytes in flight while {MOST} others were followed: their last data is not included",
            count(known.beyond, "connection")
        ));
    }
    all
}

/// `alcc_trial_*`; one line is one metric.
#[rustfmt::skip]
pub(super) fn metrics(known: &Known, page: &mut Page) {
    let groups = [("plain", &known.plain), ("treated", &known.treated)];
    let label = |group| format!("group=\"{group}\"");
    let counts = |get: fn(&Tally) -> f64| groups.map(|(group, tally)| (label(group), get(tally)));
    let unended = groups.iter().zip(known.unended);
    let effects = known.effects();
    let values = effects.iter().flat_map(|e| {
        [("plain", e.plain), ("treated", e.treated)].map(|(group, value)| {
            let labels = format!("metric=\"{}\",group=\"{group}\"", e.metric.name());
            (labels, value)
        })
    });
    let changes = effects.iter().flat_map(|e| {
        [("low", e.low), ("estimate", e.change), ("high", e.high)].map(|(bound, value)| {
            let labels = format!("metric=\"{}\",bound=\"{bound}\"", e.metric.name());
            (labels, value)
        })
    });
    let stopped = f64::from(u8::from(known.stopped.is_some()));
    page.metric("alcc_trial_clients", "gauge", "Clients with a transfer.", counts(|t| t.clients() as f64));
    page.metric("alcc_trial_transfers_total", "counter", "Transfers of 64 KiB or more.", counts(|t| t.transfers() as f64));
    page.metric("alcc_trial_bytes_total", "counter", "Bytes of these transfers.", counts(|t| t.bytes().get() as f64));
    page.metric("alcc_trial_unended_total", "counter", "Transfers without an observed end.", unended.map(|((group, _), n)| (label(group), n as f64)));
    page.metric("alcc_trial_value", "gauge", "Mean over clients, geometric for times and rates.", values);
    page.metric("alcc_trial_change", "gauge", "Treated beside plain, and its 99 % interval: -0.2 is 20 % less.", changes);
    page.metric("alcc_trial_stopped", "gauge", "1 if the trial has ended itself.", [(String::new(), stopped)]);
}

pub(super) fn json(name: &str, known: &Known) -> serde_json::Value {
    let group = |t: &Tally, n: usize| {
        serde_json::json!({
            "clients": t.clients(), "transfers": t.transfers(), "bytes": t.bytes().get(),
            "unended": known.unended[n], "without_rtt": t.without_rtt(),
        })
    };
    let effects = known.effects();
    let effects = effects.iter().map(|e| {
        serde_json::json!({
            "metric": e.metric.name(), "plain": e.plain, "treated": e.treated,
            "change": e.change, "low": e.low, "high": e.high, "verdict": verdict(known, e),
        })
    });
    serde_json::json!({
        "algorithm": name, "plain": group(&known.plain, 0),
        "treated": group(&known.treated, 1),
        "began": known.about.began, "seconds": known.about.seconds(), "host": known.about.host,
        "command": known.about.command, "plain_control": known.about.plain,
        "confidence": 0.99, "effects": effects.collect::<Vec<_>>(),
        "stopped": known.stopped.map(|e| e.metric.name()), "readings_lost": known.lost,
        "connections_unseen": known.unseen, "connections_not_followed": known.beyond,
    })
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;\
background:#fff;color:#17212b}table{border-collapse:collapse;width:100%}td,th{padding:.4em .6em;\
text-align:right;border-bottom:1px solid #ccd3da}td:first-child,th:first-child{text-align:left}\
div{overflow-x:auto}:focus-visible{outline:3px solid #76808a}\
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}}";

/// One page that works without a network. The bars are the intervals around the changes.
pub(super) fn html(name: &str, known: &Known) -> String {
    let name = escaped(name);
    let effects = known.effects();
    let headline = [Metric::RttP95, Metric::Time]
        .into_iter()
        .find_map(|metric| effects.iter().find(|e| e.metric == metric && e.is_whole));
    let headline = headline.map_or_else(
        || "Too few clients to compare yet".to_owned(),
        |e| match known.is_whole() {
            true => format!("{}: {}", effect(e), verdict(known, e)),
            false => "No verdict: too many transfers have no observed end".to_owned(),
        },
    );
    let mut text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>alcc trial of {name}</title>\
         <style>{STYLE}</style><main><p>Trial of {name} on live traffic</p><h1>{headline}</h1>\
         <p>{name}: {}. Plain TCP: {}.</p>",
        group(&known.treated),
        group(&known.plain)
    );
    if let Some(why) = &known.stopped {
        let _ = write!(
            text,
            "<p><b>The trial has ended itself: {}.</b></p>",
            effect(why)
        );
    }
    text.push_str(
        "<div tabindex=\"0\" role=\"region\" aria-label=\"Both groups; scrolls sideways where it is narrow\">\
         <table><tr><th>Metric</th><th>Plain</th><th>Under it</th><th>Change</th>\
         <th>99 % interval</th><th>-100 % to +100 %</th><th>Verdict</th></tr>",
    );
    for e in &effects {
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{:.1}</td><td>{:.1}</td><td>{} {}</td><td>{} to {}</td><td>{}</td><td>{}</td></tr>",
            e.metric.title(),
            value(e.metric, e.plain),
            value(e.metric, e.treated),
            percent(e.change),
            unit(e.metric),
            percent(e.low),
            percent(e.high),
            bar(e),
            verdict(known, e)
        );
    }
    text.push_str("</table></div><dl>");
    for (title, value) in known.about.rows() {
        let _ = write!(text, "<dt>{title}</dt><dd>{}</dd>", escaped(&value));
    }
    let missing = missing(known);
    let _ = write!(
        text,
        "<dt>Not counted</dt><dd>{}</dd></dl>",
        if missing.is_empty() {
            "nothing".to_owned()
        } else {
            missing.join(". ")
        }
    );
    text.push_str(
        "<p>Each client counts once. Times and rates are geometric means over clients. \
         A bar that leaves out the middle is a clear difference.</p></main></html>",
    );
    text
}

/// The interval as a bar of 200 pixels around zero.
fn bar(e: &Effect) -> String {
    let x = |change: f64| 100.0 + 100.0 * change.clamp(-1.0, 1.0);
    let (low, high) = (x(e.low), x(e.high));
    let (width, colour) = (
        (high - low).max(2.0),
        if e.is_clear() { "#00707f" } else { "#76808a" },
    );
    format!(
        "<svg width=\"200\" height=\"16\" role=\"img\" aria-label=\"{} to {} percent\">\
         <rect x=\"{low:.1}\" y=\"4\" width=\"{width:.1}\" height=\"8\" fill=\"{colour}\"/>\
         <path d=\"M100 0V16\" stroke=\"#76808a\"/></svg>",
        percent(e.low),
        percent(e.high)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_observe::trial::{Rtt, Transfer};
    use alcc_units::{Bytes, Span};

    fn known() -> Known {
        let mut known = Known::default();
        for n in 0..30u64 {
            for (tally, rtt) in [(&mut known.plain, 400), (&mut known.treated, 80)] {
                let transfer = Transfer {
                    bytes: Bytes::new(1_000_000),
                    time: Span::from_millis(1000 + n % 3),
                    rtt: Some(Rtt {
                        median: Span::from_millis(50 + n % 5),
                        p95: Span::from_millis(rtt + n % 7),
                    }),
                    resent: Bytes::ZERO,
                };
                tally.add(n, &transfer);
            }
        }
        known
    }

    #[test]
    fn every_form_says_the_same() {
        let known = known();
        let line = line("budget", &known);
        assert!(line.contains("budget 30 transfers of 30 clients"), "{line}");
        assert!(line.contains("RTT p95, ms -79 %"), "{line}");
        let table = table("budget", &known);
        let row = table.lines().find(|l| l.contains("RTT p95")).unwrap();
        assert!(row.ends_with("better") && row.contains("402.8"), "{row}");
        let row = table.lines().find(|l| l.contains("transfer time")).unwrap();
        assert!(row.ends_with("no clear difference"), "{row}");
        assert!(
            table.lines().all(|line| line.chars().count() <= 100),
            "{table}"
        );
        let json = json("budget", &known);
        assert_eq!(json["effects"][1]["verdict"], "better");
        assert_eq!(json["treated"]["clients"], 30);
        let page = html("a<b", &known);
        assert!(page.contains("a&lt;b") && !page.contains("a<b"));
        assert!(page.contains("<h1>RTT p95, ms -79 %"), "{page}");
        for outside in ["http:", "https:", "src=", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_group_of_which_a_tenth_is_missing_gets_no_verdict() {
        let mut known = known();
        known.unended = [0, 3];
        assert!(table("copa", &known).contains("treated 3 (9 %)"));
        assert_eq!(json("copa", &known)["effects"][1]["verdict"], "better");
        known.unended = [0, 4];
        let said = table("copa", &known);
        assert!(
            said.contains("treated 4 (12 %)") && said.contains("no verdict"),
            "{said}"
        );
        assert!(!said.contains("better"), "{said}");
        assert_eq!(json("copa", &known)["effects"][1]["verdict"], "no verdict");
        assert_eq!(json("copa", &known)["treated"]["unended"], 4);
        let page = html("copa", &known);
        assert!(
            page.contains("<h1>No verdict") && page.contains("Not counted"),
            "{page}"
        );
        assert!(line("copa", &known).ends_with("no observed end"));
    }

    #[test]
    fn short_transfers_get_a_verdict_on_all_but_the_rtt() {
        let mut known = known();
        let short = Transfer {
            bytes: Bytes::new(100_000),
            time: Span::from_millis(10),
            rtt: None,
            resent: Bytes::ZERO,
        };
        (100..110).for_each(|client| known.treated.add(client, &short));
        let text = table("copa", &known);
        let row = |metric: &str| text.lines().find(|l| l.contains(metric)).unwrap();
        assert!(row("RTT p95").ends_with("no verdict"), "{text}");
        assert!(
            row("transfer time").ends_with("no clear difference"),
            "{text}"
        );
        assert!(
            text.contains("treated 10. So there is no verdict on the RTT"),
            "{text}"
        );
        assert_eq!(json("copa", &known)["treated"]["without_rtt"], 10);
        assert!(html("copa", &known).contains("<h1>transfer time"));
        assert!(!line("copa", &known).contains("RTT"));
    }

    #[test]
    fn the_page_says_what_was_tried_where_and_against_what() {
        let known = Known {
            about: About::now("bbr, the system's default"),
            ..known()
        };
        let page = html("copa", &known);
        for part in [
            "Began",
            "Length",
            "Host",
            "Command</dt><dd>alcc",
            "<dd>bbr, the system",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.contains("Not counted</dt><dd>nothing"), "{page}");
        assert_eq!(
            json("copa", &known)["plain_control"],
            "bbr, the system's default"
        );
    }

    #[test]
    fn a_trial_without_clients_says_so() {
        let known = Known::default();
        assert!(line("copa", &known).ends_with("too few to compare yet"));
        assert!(table("copa", &known).contains("both groups need 5 clients"));
        assert!(html("copa", &known).contains("<h1>Too few clients"));
        assert_eq!(json("copa", &known)["effects"], serde_json::json!([]));
    }
}
