// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pairs for a terminal and for a page of documentation.
use alcc_results::pairs::{Bounds, MAX_INTERVAL_FACTOR, Pair};
use alcc_results::{Group, Results, Spread};
use std::fmt::Write as _;

/// The table for a terminal.
pub fn table(results: &Results) -> String {
    let pairs = &results.summary.pairs;
    let heading = [
        "link",
        "native",
        "beside it",
        "runs",
        "Mbit/s native",
        "its",
        "diff %",
        "queue ms native",
        "its",
        "diff ms",
        "",
    ];
    let mut lines: Vec<Vec<String>> = vec![heading.map(str::to_owned).to_vec()];
    for pair in pairs {
        let [native, own] = pair.throughput_mbps.map(|v| format!("{v:.2}"));
        let [native_ms, own_ms] = pair.queue_delay_ms.map(|v| format!("{v:.1}"));
        lines.push(vec![
            pair.link.clone(),
            results.label(&pair.native),
            results.label(&pair.scheme),
            pair.runs.to_string(),
            native,
            own,
            difference(pair.throughput_difference, pair.runs, 1),
            native_ms,
            own_ms,
            difference(pair.queue_delay_difference_ms, pair.runs, 1),
            verdict(pair),
        ]);
    }
    let mut text = crate::board::aligned(&lines, 3);
    let _ = writeln!(
        text,
        "{} of {} within; {}",
        pairs.iter().filter(|p| p.within.all()).count(),
        pairs.len(),
        asked()
    );
    text
}

fn asked() -> String {
    let [usual, bpf] = [Bounds::USUAL, Bounds::IN_KERNEL];
    let of = |bounds: Bounds| {
        (
            bounds.throughput.describe(" %"),
            bounds.delay.describe(" ms"),
        )
    };
    let [(share, delay), (bpf_share, bpf_delay)] = [usual, bpf].map(of);
    format!(
        "asked: median throughput (1-s bins) within {share}, median queueing delay within {delay} (enforcement bpf: {bpf_share}, {bpf_delay}), the 90 % interval of both differences inside {MAX_INTERVAL_FACTOR} times that, the 5th to 95th percentiles of seconds and \
         packets inside the native's stretched {MAX_INTERVAL_FACTOR} times"
    )
}

/// `+1.2 (-0.5 to +2.0)`.
fn difference(spread: Spread, runs: u32, digits: usize) -> String {
    let show = |v: f64| alcc_results::signed(v, digits);
    if runs > 1 {
        spread.text(show)
    } else {
        show(spread.median)
    }
}

/// `yes`, or which bounds are missed.
fn verdict(pair: &Pair) -> String {
    let within = pair.within;
    let missed: Vec<&str> = [
        (within.throughput, "throughput"),
        (within.delay, "delay"),
        (within.interval, "interval"),
        (within.distribution, "distribution"),
    ]
    .into_iter()
    .filter_map(|(holds, name)| (!holds).then_some(name))
    .collect();
    if missed.is_empty() {
        "yes".to_owned()
    } else {
        format!("no: {}", missed.join(", "))
    }
}

/// For a page of documentation: what was run, every row's figures, every pair, and the twins if
/// there are any.
pub fn markdown(results: &Results) -> String {
    let about = &results.about;
    let runs = results.summary.groups.iter().map(|g| g.runs + g.failed);
    let mut text = format!("```console\n$ {}\n```\n\n", about.command);
    let late = results.flows.iter().filter_map(|f| f.lateness_p99_ms);
    let late = late.fold(None, |most: Option<f64>, v| {
        Some(most.map_or(v, |m| m.max(v)))
    });
    let _ = writeln!(
        text,
        "{}; {} of each; medians of the runs, smallest to largest in parentheses. {}{}",
        about.link,
        count(runs.max().unwrap_or(0), "run"),
        about.program,
        if about.kernel.is_empty() {
            ".".to_owned()
        } else {
            format!(
                ", Linux {}, {}, {}.",
                about.kernel,
                count(about.cpus as u32, "processor"),
                about.date
            )
        }
    );
    if let Some(late) = late {
        let _ = writeln!(
            text,
            "The emulator's timers were at most {late:.2} ms late in 99 % of cases."
        );
    }
    text.push_str("\n### Every form\n\n");
    rows(&mut text, results);
    text.push_str("\n### Native and over TCP\n\n");
    beside(&mut text, results);
    if !results.summary.twins.is_empty() {
        text.push_str("\n### Emulated and simulated\n\n");
        twins(&mut text, results);
    }
    for note in &results.notes {
        let _ = write!(text, "\n* {note}");
    }
    if !results.notes.is_empty() {
        text.push('\n');
    }
    text
}

pub(crate) fn count(n: u32, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn rows(text: &mut String, results: &Results) {
    text.push_str(
        "| link | scheme | feedback / enforcement, under | Mbit/s | goodput Mbit/s | utilization % | queueing ms: median | mean | p95 | app delay ms: median | p95 | RTT ms | CPU s/Gbit |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for group in &results.summary.groups {
        let row = results.flows.iter().find(|r| {
            r.error.is_none()
                && (&r.link, &r.scheme, &r.side) == (&group.link, &group.scheme, &group.side)
        });
        let how = row.map_or_else(String::new, |r| {
            let under = r.under.as_ref();
            let under = under.map_or_else(String::new, |u| format!(", {u}"));
            format!("{} / {}{under}", r.feedback, r.enforcement)
        });
        let side = group
            .side
            .as_ref()
            .map_or_else(String::new, |side| format!(" ({side})"));
        let cell = |field: &str, factor: f64, digits: usize| cell(group, field, factor, digits);
        let cells = [
            cell("throughput_mbps", 1.0, 2),
            cell("goodput_mbps", 1.0, 2),
            cell("utilization", 100.0, 1),
            cell("queue_delay_median_ms", 1.0, 1),
            cell("queue_delay_mean_ms", 1.0, 1),
            cell("queue_delay_p95_ms", 1.0, 1),
            cell("app_delay_median_ms", 1.0, 1),
            cell("app_delay_p95_ms", 1.0, 1),
            cell("rtt_mean_ms", 1.0, 1),
            cell("cpu_s_per_gbit", 1.0, 3),
        ];
        let failed = match group.failed {
            0 => String::new(),
            n => format!(" ({n} failed)"),
        };
        let _ = writeln!(
            text,
            "| {} | {}{side}{failed} | {how} | {} |",
            group.link,
            results.label(&group.scheme),
            cells.join(" | ")
        );
    }
}

fn cell(group: &Group, field: &str, factor: f64, digits: usize) -> String {
    let Some(spread) = group.fields.get(field) else {
        return "-".to_owned();
    };
    let show = |v: f64| format!("{:.digits$}", v * factor);
    if group.runs > 1 && show(spread.min) != show(spread.max) {
        spread.text(show)
    } else {
        show(spread.median)
    }
}

fn beside(text: &mut String, results: &Results) {
    let pairs = &results.summary.pairs;
    let mut asked = asked();
    asked[..1].make_ascii_uppercase();
    let _ = writeln!(
        text,
        "{asked}. Differences are the form's minus the native's of the same run.\n\n\
         | link | native | beside it | median Mbit/s: native, its | difference % | median queueing ms: native, its | difference ms | seconds p5 to p95 Mbit/s: native, its | packets p5 to p95 ms: native, its | within |\n\
         |---|---|---|---|---|---|---|---|---|---|"
    );
    for pair in pairs {
        let [native, own] = pair.throughput_mbps;
        let [native_ms, own_ms] = pair.queue_delay_ms;
        let range =
            |[low, high]: [f64; 2], digits: usize| format!("{low:.digits$} to {high:.digits$}");
        let _ = writeln!(
            text,
            "| {} | {} | {} | {native:.2}, {own:.2} | {} | {native_ms:.1}, {own_ms:.1} | {} | {}, {} | {}, {} | {} |",
            pair.link,
            results.label(&pair.native),
            results.label(&pair.scheme),
            difference(pair.throughput_difference, pair.runs, 1),
            difference(pair.queue_delay_difference_ms, pair.runs, 1),
            range(pair.throughput_90[0], 1),
            range(pair.throughput_90[1], 1),
            range(pair.delay_90_ms[0], 0),
            range(pair.delay_90_ms[1], 0),
            verdict(pair),
        );
    }
    let good = pairs.iter().filter(|p| p.within.all()).count();
    let _ = writeln!(text, "\n{good} of {} within all bounds.", pairs.len());
}

fn twins(text: &mut String, results: &Results) {
    text.push_str(
        "| link | scheme | utilization %: emulated, simulated | mean queueing ms: emulated, simulated | within |\n|---|---|---|---|---|\n",
    );
    for twin in &results.summary.twins {
        let [real, model] = twin.utilization.map(|u| 100.0 * u);
        let [real_ms, model_ms] = twin.queue_delay_mean_ms;
        let _ = writeln!(
            text,
            "| {} | {} | {real:.1}, {model:.1} | {real_ms:.1}, {model_ms:.1} | {} |",
            twin.link,
            results.label(&twin.scheme),
            if twin.agrees { "yes" } else { "no" }
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign_unless_they_are_none() {
        let spread = |min, median, max| Spread { min, median, max };
        assert_eq!(
            difference(spread(-0.04, 1.25, 2.0), 3, 1),
            "+1.2 (0.0 to +2.0)"
        );
        assert_eq!(difference(spread(-3.0, -3.0, -3.0), 1, 1), "-3.0");
        assert_eq!(count(1, "run"), "1 run");
    }

    #[test]
    fn what_is_missed_is_named() {
        let mut pair = Pair {
            link: "trace".into(),
            native: "verus-udp".into(),
            scheme: "alcc-verus".into(),
            runs: 5,
            throughput_mbps: [10.0, 10.5],
            ..Pair::default()
        };
        pair.within.delay = true;
        let results = Results {
            summary: alcc_results::Summary {
                pairs: vec![pair],
                ..Default::default()
            },
            ..Results::default()
        };
        let text = table(&results);
        assert!(
            text.contains("no: throughput, interval, distribution"),
            "{text}"
        );
        assert!(text.contains("0 of 1 within"), "{text}");
        let page = markdown(&results);
        assert!(
            page.contains("| trace | verus-udp | alcc-verus | 10.00, 10.50 |"),
            "{page}"
        );
        let tables = page.lines().filter(|l| l.starts_with('|')).count();
        assert_eq!(tables, 2 + 3, "{page}");
    }
}
