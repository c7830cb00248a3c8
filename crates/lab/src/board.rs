// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A comparison from beginning to end: links times schemes times repetitions, then table, sentence and files.
use crate::link::Link;
use crate::live::{self, Experiment};
use crate::row::{self, About, Group, Results, Row, Summary};
use crate::scheme::Scheme;
use crate::tools::Tools;
use crate::{LabError, report};
use alcc_units::Span;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

/// What to compare with what on what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The links, at least one.
    pub links: Vec<Link>,
    /// The schemes, at least one; on every link they run beside each other.
    pub schemes: Vec<Scheme>,
    /// Length of each window.
    pub duration: Span,
    /// Repetitions of each link, at least 1.
    pub runs: u32,
    /// The programs.
    pub tools: Tools,
    /// The command line, for the report.
    pub command: String,
    /// Folder for the runtime's logs: LINK/RUN/SCHEME/PROCESS.csv in it.
    pub log: Option<PathBuf>,
}

/// Carries it out. `progress` gets the part that is done, 0 to 1, and what is being done.
///
/// [`alcc_emu::prepare`] must have succeeded before.
///
/// # Errors
/// The first [`LabError`]; what was measured before is lost, and nothing is left running.
pub fn compare(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<Results, LabError> {
    let mut results = Results {
        about: about(plan),
        ..Results::default()
    };
    let total = plan.links.len() as f64 * f64::from(plan.runs);
    let mut done = 0.0;
    for link in &plan.links {
        for run in 1..=plan.runs {
            let what = if plan.runs > 1 {
                format!("{} run {run} of {}", link.name, plan.runs)
            } else {
                link.name.clone()
            };
            let experiment = Experiment {
                link,
                schemes: &plan.schemes,
                duration: plan.duration,
                run,
                tools: &plan.tools,
                log: plan
                    .log
                    .as_ref()
                    .map(|log| log.join(&link.name).join(run.to_string())),
            };
            let measured = live::run(&experiment, stop, &mut |part| {
                progress((done + part) / total, &what);
            })?;
            results.flows.extend(measured.rows);
            results.series.extend(measured.series);
            let notes = measured
                .notes
                .into_iter()
                .map(|note| format!("{what}: {note}"));
            results.notes.extend(notes);
            done += 1.0;
        }
    }
    results.summary = summary(&results.flows);
    Ok(results)
}

fn about(plan: &Plan) -> About {
    let read = |file: &str| {
        fs::read_to_string(file)
            .map(|t| t.trim().to_owned())
            .unwrap_or_default()
    };
    let link = match &plan.links[..] {
        [one] => one.describe(),
        many => format!(
            "{} links, {} runs of {} each",
            many.len(),
            plan.runs,
            plan.duration
        ),
    };
    About {
        program: format!("alcc {}", env!("CARGO_PKG_VERSION")),
        command: plan.command.clone(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        link,
        seed: plan.links.first().map_or(0, |l| l.path.seed),
    }
}

/// Groups and the sentence of these rows.
pub fn summary(rows: &[Row]) -> Summary {
    let groups = row::groups(rows);
    let sentence = sentence(rows, &groups);
    Summary { sentence, groups }
}

/// Throughput and mean delay of a scheme: geometric mean over the links of the medians over the repetitions.
fn standing(groups: &[Group], scheme: &str) -> Option<[f64; 2]> {
    let mean = |field: &str| {
        let logs: Vec<f64> = groups
            .iter()
            .filter(|g| g.scheme == scheme)
            .map(|g| g.fields.get(field).map(|s| s.median.max(1e-3).ln()))
            .collect::<Option<_>>()?;
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    Some([mean("throughput_mbps")?, mean("delay_mean_ms")?])
}

/// The controlled scheme that keeps at least nine tenths of the plain one's throughput with the least delay (if none keeps
/// that much, the one with the most throughput), beside the plain one: `cubic` if it is there, else the first.
fn sentence(rows: &[Row], groups: &[Group]) -> String {
    let mut schemes: Vec<&Row> = Vec::new();
    for row in rows {
        if !schemes.iter().any(|s| s.scheme == row.scheme) {
            schemes.push(row);
        }
    }
    let (plain, ours): (Vec<&Row>, Vec<&Row>) =
        schemes.into_iter().partition(|r| r.feedback == "kernel");
    let Some(base) = plain
        .iter()
        .find(|r| r.scheme == "cubic")
        .or_else(|| plain.first())
    else {
        return String::new();
    };
    let Some([base_mbps, base_ms]) = standing(groups, &base.scheme) else {
        return String::new();
    };
    let measured: Vec<(&str, [f64; 2])> = ours
        .iter()
        .filter_map(|r| Some((r.scheme.as_str(), standing(groups, &r.scheme)?)))
        .collect();
    let best = measured
        .iter()
        .filter(|(_, s)| s[0] >= 0.9 * base_mbps)
        .min_by(|a, b| a.1[1].total_cmp(&b.1[1]))
        .or_else(|| measured.iter().max_by(|a, b| a.1[0].total_cmp(&b.1[0])));
    let Some((name, [mbps, ms])) = best else {
        return String::new();
    };
    let share = 100.0 * mbps / base_mbps;
    let times = base_ms / ms;
    let part = match times {
        t if t >= 1.5 => format!("{} of its mean delay", part_of(t.round() as u64)),
        t => format!("{:.0} % of its mean delay", 100.0 / t),
    };
    format!(
        "{name} has {share:.0} % of {}'s throughput at {part}: {} instead of {}.",
        base.scheme,
        milliseconds(*ms),
        milliseconds(base_ms)
    )
}

/// "half", "a ninth", "an eighth".
fn part_of(n: u64) -> String {
    let word = ordinal(n);
    match n {
        2 => word,
        // Spoken with a vowel: eighth, eleventh, eighteenth, eighty-first to eighty-ninth.
        8 | 11 | 18 | 80..=89 => format!("an {word}"),
        _ => format!("a {word}"),
    }
}

fn ordinal(n: u64) -> String {
    match n {
        2 => "half".to_owned(),
        3 => "third".to_owned(),
        4 => "quarter".to_owned(),
        5 => "fifth".to_owned(),
        6 => "sixth".to_owned(),
        7 => "seventh".to_owned(),
        8 => "eighth".to_owned(),
        9 => "ninth".to_owned(),
        10 => "tenth".to_owned(),
        n => match n % 10 {
            1 if n % 100 != 11 => format!("{n}st"),
            2 if n % 100 != 12 => format!("{n}nd"),
            3 if n % 100 != 13 => format!("{n}rd"),
            _ => format!("{n}th"),
        },
    }
}

fn milliseconds(ms: f64) -> String {
    if ms >= 1000.0 {
        format!("{:.2} s", ms / 1000.0)
    } else {
        format!("{ms:.0} ms")
    }
}

/// Column of the table: field, heading, factor, digits.
const COLUMNS: &[(&str, &str, f64, usize)] = &[
    ("throughput_mbps", "Mbit/s", 1.0, 2),
    ("utilization", "util %", 100.0, 1),
    ("delay_mean_ms", "delay mean ms", 1.0, 0),
    ("delay_median_ms", "median", 1.0, 0),
    ("delay_p95_ms", "p95", 1.0, 0),
    ("app_delay_median_ms", "app median", 1.0, 0),
    ("loss", "loss %", 100.0, 2),
    ("cpu_s_per_gbit", "CPU s/Gbit", 1.0, 3),
    ("lateness_p99_ms", "late p99 ms", 1.0, 2),
];

/// The table for a terminal; with repetitions the median and, in parentheses, smallest and largest.
pub fn table(results: &Results) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    let heading = ["link", "scheme"]
        .into_iter()
        .chain(COLUMNS.iter().map(|c| c.1));
    lines.push(heading.map(str::to_owned).collect());
    for group in &results.summary.groups {
        let mut cells = vec![group.link.clone(), group.scheme.clone()];
        for (field, _, factor, digits) in COLUMNS {
            cells.push(group.fields.get(*field).map_or_else(
                || "-".to_owned(),
                |s| {
                    let show = |v: f64| format!("{:.*}", *digits, v * factor);
                    if group.runs > 1 {
                        format!("{} ({}-{})", show(s.median), show(s.min), show(s.max))
                    } else {
                        show(s.median)
                    }
                },
            ));
        }
        lines.push(cells);
    }
    let widths: Vec<usize> = (0..COLUMNS.len() + 2)
        .map(|i| {
            lines
                .iter()
                .map(|l| l[i].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for line in &lines {
        for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            let _ = if i < 2 {
                write!(text, "{cell:<width$}  ")
            } else {
                write!(text, "{cell:>width$}  ")
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Writes `report.html`, `results.json` and `flows.csv` into `folder`, which is made if missing. Returns the report's path.
///
/// # Errors
/// [`LabError::Os`] with the file that could not be written.
pub fn write(results: &Results, folder: &Path) -> Result<PathBuf, LabError> {
    fs::create_dir_all(folder).map_err(LabError::os(format!(
        "make the folder {}",
        folder.display()
    )))?;
    let page = folder.join("report.html");
    let json = serde_json::to_string(results).unwrap_or_default();
    for (file, content) in [
        (page.clone(), report::html(results)),
        (folder.join("results.json"), json + "\n"),
        (folder.join("flows.csv"), row::csv(&results.flows)),
    ] {
        fs::write(&file, content).map_err(LabError::os(format!("write {}", file.display())))?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(link: &str, scheme: &str, mbps: f64, ms: f64) -> Row {
        Row {
            link: link.into(),
            scheme: scheme.into(),
            feedback: if scheme.starts_with("alcc") {
                "tcp-info"
            } else {
                "kernel"
            }
            .into(),
            throughput_mbps: Some(mbps),
            delay_mean_ms: Some(ms),
            ..Row::default()
        }
    }

    #[test]
    fn the_sentence_names_who_keeps_the_throughput_with_the_least_delay() {
        let rows = [
            row("l", "bbr", 9.6, 120.0),
            row("l", "cubic", 10.0, 1400.0),
            row("l", "alcc-verus", 9.5, 140.0),
            row("l", "alcc-copa", 7.0, 35.0),
        ];
        assert_eq!(
            summary(&rows).sentence,
            "alcc-verus has 95 % of cubic's throughput at a tenth of its mean delay: 140 ms instead of 1.40 s."
        );
        // Nobody keeps nine tenths: the one with the most.
        let slow = [
            rows[1].clone(),
            row("l", "alcc-copa", 7.0, 1300.0),
            row("l", "alcc-fixed", 5.0, 30.0),
        ];
        assert_eq!(
            summary(&slow).sentence,
            "alcc-copa has 70 % of cubic's throughput at 93 % of its mean delay: 1300 ms instead of 1.40 s."
                .replace("1300 ms", "1.30 s")
        );
        assert_eq!(summary(&rows[..2]).sentence, "");
        assert_eq!(summary(&rows[2..]).sentence, "");
    }

    #[test]
    fn several_links_count_by_their_geometric_mean() {
        let rows = [
            row("a", "cubic", 1.0, 100.0),
            row("b", "cubic", 100.0, 10_000.0),
            row("a", "alcc-verus", 1.0, 100.0),
            row("b", "alcc-verus", 100.0, 100.0),
        ];
        // sqrt(1 * 100) both; sqrt(100 * 10000) = 1000 ms against 100 ms.
        assert_eq!(
            summary(&rows).sentence,
            "alcc-verus has 100 % of cubic's throughput at a tenth of its mean delay: 100 ms instead of 1.00 s."
        );
    }

    #[test]
    fn the_table_lines_up() {
        let flows = vec![
            row("trace", "cubic", 10.0, 1400.0),
            row("trace", "alcc-verus", 9.5, 140.0),
        ];
        let results = Results {
            summary: summary(&flows),
            flows,
            ..Results::default()
        };
        let text = table(&results);
        let at: Vec<usize> = text
            .lines()
            .map(|l| l.rfind("1400").or_else(|| l.rfind(" 140")).unwrap_or(0))
            .collect();
        assert_eq!(text.lines().count(), 3);
        assert_eq!(at[1], at[2], "{text}");
        assert!(
            text.lines().nth(1).unwrap().starts_with("trace  cubic "),
            "{text}"
        );
    }

    #[test]
    fn words_for_parts() {
        let all: Vec<String> = [2, 9, 11, 12, 13, 21, 22, 23, 101, 111]
            .into_iter()
            .map(ordinal)
            .collect();
        assert_eq!(
            all,
            [
                "half", "ninth", "11th", "12th", "13th", "21st", "22nd", "23rd", "101st", "111th"
            ]
        );
        assert_eq!([2, 8, 9].map(part_of), ["half", "an eighth", "a ninth"]);
    }
}
