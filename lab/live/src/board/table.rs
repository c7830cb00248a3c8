// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The score table for a terminal and as CSV: one table per link and one over all.
use alcc_results::row::csv_cell;
use alcc_results::{Results, Spread, mean_and_ci95};
use std::fmt::Write as _;
use std::str::FromStr;

/// Column of the table: field, heading, factor, digits.
const COLUMNS: &[(&str, &str, f64, usize)] = &[
    ("utilization", "util %", 100.0, 1),
    ("throughput_mbps", "Mbit/s", 1.0, 2),
    ("delay_mean_ms", "delay mean ms", 1.0, 0),
    ("delay_p95_ms", "p95 ms", 1.0, 0),
    ("jain_1s", "Jain 1 s", 1.0, 3),
    ("worst_share_10s", "worst share %", 100.0, 0),
    ("fair_after_s", "fair after s", 1.0, 1),
    ("power", "power", 1.0, 0),
    ("app_delay_median_ms", "app median ms", 1.0, 0),
    ("app_delay_p95_ms", "app p95 ms", 1.0, 0),
    ("loss", "loss %", 100.0, 2),
    ("cpu_s_per_gbit", "CPU s/Gbit", 1.0, 3),
    ("lateness_p99_ms", "late p99 ms", 1.0, 2),
];

/// Meaning of the star.
const FRONT: &str = "* on the Pareto front: no other has at least its throughput at no more mean delay, one of the two better";

/// Explanations of columns, each with a field; shown if that field is known.
const LEGEND: &[(&str, &str)] = &[
    ("utilization", "util: delivered of what the link offered"),
    (
        "delay_mean_ms",
        "delay, p95: one way, queueing and propagation",
    ),
    (
        "power",
        "power: throughput / mean delay, in Mbit/s per second of delay",
    ),
    (
        "app_delay_median_ms",
        "app: from one program's write to the other, with what waits to be sent",
    ),
    (
        "cpu_s_per_gbit",
        "CPU: of the server or sender, with the runtime",
    ),
    ("lateness_p99_ms", "late: the emulator's timers"),
];

/// Explanations of the columns for schemes of several flows.
const CROWDS: &str = "several flows: delays are of all packets, Jain 1 s and worst share (of 10 s, 100 % being an equal one) from the settling time on,
fair after: from the coming of the slowest until its first second with 80 % of an equal share
";

/// Statistics in a cell of several repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interval {
    /// The median and, in parentheses, smallest and largest.
    #[default]
    Range,
    /// The mean and half its 95 % confidence interval.
    Ci95,
}

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "range" => Ok(Self::Range),
            "ci95" => Ok(Self::Ci95),
            _ => Err("range or ci95".to_owned()),
        }
    }
}

/// One table per link, and one over all if there are several. Tables of several repetitions show
/// their number and `interval`.
pub fn table(results: &Results, interval: Interval) -> String {
    let mut text = String::new();
    let mut links: Vec<&str> = Vec::new();
    for group in &results.summary.groups {
        if !links.contains(&group.link.as_str()) {
            links.push(&group.link);
        }
    }
    let known = |field: &str| {
        let mut groups = results.summary.groups.iter();
        groups.any(|g| g.fields.contains_key(field))
    };
    let columns: Vec<_> = COLUMNS.iter().filter(|c| known(c.0)).collect();
    let repeated = results.summary.groups.iter().any(|g| g.runs > 1);
    let heading = |what: &str| {
        let mut line = vec![format!("  {what}")];
        line.extend(repeated.then(|| "n".to_owned()));
        line.extend(columns.iter().map(|c| c.1.to_owned()));
        line
    };
    let label = |scheme: &str| results.label(scheme);
    for link in &links {
        let mut lines = vec![heading(link)];
        for group in results.summary.groups.iter().filter(|g| g.link == *link) {
            let mut line = vec![name(
                &label(&group.scheme),
                group.side.as_deref(),
                group.front,
            )];
            line.extend(repeated.then(|| group.runs.to_string()));
            for (field, _, factor, digits) in &columns {
                let show = |v: f64| format!("{:.*}", *digits, v * factor);
                let values = || group.values(&results.flows, field);
                line.push(cell(
                    group.fields.get(*field).copied(),
                    interval,
                    values,
                    show,
                ));
            }
            if group.failed > 0 {
                line.push(format!("{} failed", group.failed));
            }
            lines.push(line);
        }
        text.push_str(&aligned(&lines, 1));
        text.push('\n');
    }
    if let Some(first) = results.summary.overall.first() {
        let mut lines = vec![heading(&format!("all: means of {} links", first.links))];
        for all in &results.summary.overall {
            let mut line = vec![name(&label(&all.scheme), all.side.as_deref(), all.front)];
            line.extend(repeated.then(|| all.links.to_string()));
            for (field, _, factor, digits) in &columns {
                let value = all.fields.get(*field);
                line.push(
                    value.map_or_else(|| "-".to_owned(), |v| format!("{:.*}", *digits, v * factor)),
                );
            }
            lines.push(line);
        }
        text.push_str(&aligned(&lines, 1));
        text.push('\n');
    }
    text.push_str(FRONT);
    if repeated {
        text.push_str(match interval {
            Interval::Range => "\nn: repetitions; median (smallest-largest)",
            Interval::Ci95 => {
                "\nn: repetitions; mean ± half its 95 % confidence interval (Student's t)"
            }
        });
    }
    let legend = LEGEND.iter().filter(|(field, _)| known(field));
    for (n, (_, words)) in legend.enumerate() {
        text.push_str(if n % 3 == 0 { "\n" } else { "; " });
        text.push_str(words);
    }
    if !results.summary.overall.is_empty() {
        text.push_str("\nall: each link counts the same, the front is of utilization and mean delay, power is the geometric mean");
    }
    text.push('\n');
    if known("jain_1s") || known("fair_after_s") {
        text.push_str(CROWDS);
    }
    text
}

fn name(scheme: &str, side: Option<&str>, front: bool) -> String {
    let mark = if front { '*' } else { ' ' };
    let side = side.map_or_else(String::new, |side| format!(" {side}"));
    format!("{mark} {scheme}{side}")
}

/// A figure of several repetitions; `-` if there is none.
pub fn statistics(values: &[f64], interval: Interval, show: impl Fn(f64) -> String) -> String {
    cell(Spread::of(values), interval, || values.to_vec(), show)
}

fn cell(
    spread: Option<Spread>,
    interval: Interval,
    values: impl Fn() -> Vec<f64>,
    show: impl Fn(f64) -> String,
) -> String {
    let mean = (interval == Interval::Ci95).then(|| mean_and_ci95(&values()));
    if let Some((mean, half)) = mean.flatten() {
        return format!("{} ±{}", show(mean), show(half));
    }
    let Some(spread) = spread else {
        return "-".to_owned();
    };
    let [least, median, most] = [spread.min, spread.median, spread.max].map(show);
    if least == most {
        median
    } else {
        format!("{median} ({least}-{most})")
    }
}

/// Cells in columns: the first `names` columns are aligned left, the others right.
pub fn aligned(lines: &[Vec<String>], names: usize) -> String {
    let mut text = String::new();
    let most = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..most)
        .map(|i| {
            let cells = lines.iter().filter_map(|l| l.get(i));
            cells.map(|c| c.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for line in lines {
        for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let between = if i == 0 { "" } else { "  " };
            let _ = if i < names {
                write!(text, "{between}{cell:<width$}")
            } else {
                write!(text, "{between}{cell:>width$}")
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// The same as CSV. Per link and scheme it has the median, smallest and largest of each column, in
/// the fields' own units, and the profile of the algorithm. Then come the means over all links,
/// whose `link` is empty.
pub fn csv(results: &Results) -> String {
    let mut text = "link,scheme,side,front,links,runs,failed".to_owned();
    for (field, ..) in COLUMNS {
        let _ = write!(text, ",{field},{field}_min,{field}_max");
    }
    text.push_str(",profile\n");
    let side = |side: &Option<String>| side.clone().unwrap_or_default();
    let profile = |scheme: &str, side: &Option<String>| {
        let is_it = |row: &&alcc_results::Row| row.scheme == scheme && row.side == *side;
        let row = results.flows.iter().find(is_it);
        let profile = row.and_then(|row| row.profile.as_deref());
        csv_cell(profile.unwrap_or_default())
    };
    for group in &results.summary.groups {
        let _ = write!(
            text,
            "{},{},{},{},1,{},{}",
            csv_cell(&group.link),
            csv_cell(&group.scheme),
            side(&group.side),
            group.front,
            group.runs,
            group.failed
        );
        for (field, ..) in COLUMNS {
            let _ = match group.fields.get(*field) {
                Some(s) => write!(text, ",{},{},{}", s.median, s.min, s.max),
                None => write!(text, ",,,"),
            };
        }
        let _ = writeln!(text, ",{}", profile(&group.scheme, &group.side));
    }
    for all in &results.summary.overall {
        let _ = write!(
            text,
            ",{},{},{},{},,",
            csv_cell(&all.scheme),
            side(&all.side),
            all.front,
            all.links
        );
        for (field, ..) in COLUMNS {
            let value = all.fields.get(*field);
            let _ = write!(
                text,
                ",{},,",
                value.map_or_else(String::new, f64::to_string)
            );
        }
        let _ = writeln!(text, ",{}", profile(&all.scheme, &all.side));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::samples::{failed, sample as row};
    use alcc_results::{Row, summary};

    #[test]
    fn columns_line_up() {
        let rows = [["a", "b"], ["cc", "100"]].map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows, 1), "a     b\ncc  100\n");
    }

    fn results(flows: Vec<Row>) -> Results {
        Results {
            summary: summary(&flows),
            flows,
            ..Results::default()
        }
    }

    #[test]
    fn the_table_lines_up_and_marks_the_front() {
        let text = table(
            &results(vec![
                row("trace", "cubic", 10.0, 1400.0),
                row("trace", "alcc-verus", 9.5, 140.0),
                row("trace", "alcc-slow", 9.4, 150.0),
            ]),
            Interval::Range,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  trace "), "{text}");
        assert!(lines[1].starts_with("* cubic "), "{text}");
        assert!(lines[2].starts_with("* alcc-verus "), "{text}");
        assert!(lines[3].starts_with("  alcc-slow "), "{text}");
        let ends: Vec<usize> = lines[..4].iter().map(|l| l.len()).collect();
        assert!(ends.iter().all(|e| *e == ends[0]), "{text}");
        // 10 Mbit/s / 1.4 s.
        assert!(lines[1].ends_with("1400      7"), "{text}");
        assert!(!text.contains("util"), "nobody knows it");
        assert!(!text.contains("all:"));
    }

    #[test]
    fn spread_failure_and_means_are_shown() {
        let results = results(vec![
            row("a", "cubic", 1.0, 100.0),
            row("a", "cubic", 3.0, 100.0),
            failed("a", "cubic"),
            row("b", "cubic", 4.0, 300.0),
        ]);
        let text = table(&results, Interval::Range);
        let line = text.lines().nth(1).unwrap();
        assert!(line.contains("2.00 (1.00-3.00)"), "{text}");
        assert!(
            line.contains(" 100 ") && line.ends_with("1 failed"),
            "{text}"
        );
        let mut all = text.lines().skip_while(|l| !l.contains("all: means of 2"));
        // (2 + 4) / 2 and (100 + 300) / 2; sqrt(2 / 0.1 * 4 / 0.3) = sqrt(266.7) = 16.3.
        let cells: Vec<&str> = all.nth(1).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["*", "cubic", "2", "3.00", "200", "16"]);
        // Of 1 and 3: mean 2, 12.706 * sqrt(2 / 2).
        let text = table(&results, Interval::Ci95);
        assert!(text.contains(" 2  2.00 ±12.71 "), "{text}");
        let csv = csv(&results);
        let names = csv.lines().next().unwrap().split(',').count();
        assert!(csv.lines().all(|l| l.split(',').count() == names), "{csv}");
        assert!(csv.contains("a,cubic,,true,1,2,1,"), "{csv}");
    }
}
