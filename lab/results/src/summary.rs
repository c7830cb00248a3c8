// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Summaries of several rows: groups, Pareto fronts, means over the links, one sentence.
use crate::groups::{Group, groups};
use crate::row::{Row, SIMULATED};
use crate::{Pair, Twin, twins};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Summary of several flows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// One sentence that compares the schemes.
    pub sentence: String,
    /// One entry per link and scheme.
    pub groups: Vec<Group>,
    /// One entry per scheme, if there are several links.
    #[serde(default)]
    pub overall: Vec<Overall>,
    /// One entry per link and scheme that was emulated and simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub twins: Vec<Twin>,
    /// One entry per link and form of an algorithm whose native form was measured beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
}

/// One scheme over all links on which every scheme has figures. Values are means over the links of
/// the medians over the repetitions; `power` is a geometric mean.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Overall {
    /// The scheme.
    pub scheme: String,
    /// See [`Row::side`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Number of links that count.
    pub links: u32,
    /// True if it is on the Pareto front of mean utilization (throughput if unknown) and mean
    /// delay.
    pub front: bool,
    /// Per numeric field that all of the scheme's groups have.
    pub fields: BTreeMap<String, f64>,
}

/// Summarizes these rows.
pub fn summary(rows: &[Row]) -> Summary {
    let mut groups = groups(rows);
    mark_pareto_front(&mut groups);
    let overall = overall(&groups);
    Summary {
        sentence: sentence(rows, &Figures::new(&groups, &overall)),
        twins: twins::twins(rows, &groups),
        groups,
        overall,
        ..Summary::default()
    }
}

/// Which points (throughput, delay) are on the Pareto front: no other one dominates them. Points
/// without figures are not on it. Equal points are on it together.
fn pareto_front(points: &[Option<[f64; 2]>]) -> Vec<bool> {
    let dominates =
        |a: [f64; 2], b: [f64; 2]| a[0] >= b[0] && a[1] <= b[1] && (a[0] > b[0] || a[1] < b[1]);
    points
        .iter()
        .map(|point| {
            point.is_some_and(|p| !points.iter().flatten().any(|other| dominates(*other, p)))
        })
        .collect()
}

/// Marks the Pareto front of each link and side.
fn mark_pareto_front(groups: &mut [Group]) {
    let place = |g: &Group| (g.link.clone(), g.side.clone());
    let mut places: Vec<_> = groups.iter().map(place).collect();
    places.sort();
    places.dedup();
    for here in places {
        let beside: Vec<usize> = (0..groups.len())
            .filter(|i| place(&groups[*i]) == here)
            .collect();
        let points: Vec<_> = beside
            .iter()
            .map(|i| {
                let median = |field| groups[*i].median(field);
                Some([median("throughput_mbps")?, median("delay_mean_ms")?])
            })
            .collect();
        for (i, on_it) in beside.into_iter().zip(pareto_front(&points)) {
            groups[i].front = on_it;
        }
    }
}

/// Means over the links on which no scheme failed. Empty unless there are at least two links.
fn overall(groups: &[Group]) -> Vec<Overall> {
    let mut links: Vec<&str> = Vec::new();
    let mut schemes: Vec<(&str, &Option<String>)> = Vec::new();
    for group in groups {
        if !links.contains(&group.link.as_str()) {
            links.push(&group.link);
        }
        if !schemes.contains(&(group.scheme.as_str(), &group.side)) {
            schemes.push((&group.scheme, &group.side));
        }
    }
    if links.len() < 2 {
        return Vec::new();
    }
    links.retain(|link| {
        let good = groups
            .iter()
            .filter(|g| g.link == *link && g.median("throughput_mbps").is_some());
        good.count() == schemes.len()
    });
    let mut all: Vec<Overall> = schemes
        .into_iter()
        .map(|(scheme, side)| {
            let mine: Vec<&Group> = links
                .iter()
                .filter_map(|link| {
                    groups
                        .iter()
                        .find(|g| g.link == *link && g.scheme == scheme && g.side == *side)
                })
                .collect();
            Overall {
                scheme: scheme.to_owned(),
                side: side.clone(),
                links: mine.len() as u32,
                front: false,
                fields: means(&mine),
            }
        })
        .collect();
    let mut sides: Vec<_> = all.iter().map(|o| o.side.clone()).collect();
    sides.dedup();
    for side in sides {
        let beside: Vec<usize> = (0..all.len()).filter(|i| all[*i].side == side).collect();
        let point = |o: &Overall| {
            let carried = o.fields.get("utilization");
            let carried = carried.or_else(|| o.fields.get("throughput_mbps"))?;
            Some([*carried, *o.fields.get("delay_mean_ms")?])
        };
        let points: Vec<_> = beside.iter().map(|i| point(&all[*i])).collect();
        for (i, on_it) in beside.into_iter().zip(pareto_front(&points)) {
            all[i].front = on_it;
        }
    }
    all
}

/// Means of the medians of the fields that all groups have. For `power`: the geometric mean.
fn means(groups: &[&Group]) -> BTreeMap<String, f64> {
    let n = groups.len() as f64;
    let names = groups.first().into_iter().flat_map(|g| g.fields.keys());
    names
        .filter_map(|name| {
            let values: Vec<f64> = groups
                .iter()
                .map(|g| g.median(name))
                .collect::<Option<_>>()?;
            let mean = if name == "power" {
                (values.iter().map(|v| v.max(1e-9).ln()).sum::<f64>() / n).exp()
            } else {
                values.iter().sum::<f64>() / n
            };
            Some((name.clone(), mean))
        })
        .collect()
}

/// The figures of each scheme: with one link those of its group, with several the means.
struct Figures<'a> {
    /// Rows without simulated counterparts.
    groups: Vec<&'a Group>,
    overall: &'a [Overall],
}

impl<'a> Figures<'a> {
    fn new(groups: &'a [Group], overall: &'a [Overall]) -> Self {
        let real = |side: &Option<String>| side.as_deref() != Some(SIMULATED);
        Self {
            groups: groups.iter().filter(|g| real(&g.side)).collect(),
            overall,
        }
    }

    fn of(&self, scheme: &str, field: &str) -> Option<f64> {
        let simulated = Some(SIMULATED);
        if self.overall.is_empty() {
            let line = self.groups.iter().find(|g| g.scheme == scheme);
            return line?.median(field);
        }
        let mut lines = self.overall.iter();
        let line = lines.find(|o| o.scheme == scheme && o.side.as_deref() != simulated);
        line?.fields.get(field).copied()
    }

    /// Throughput and mean delay.
    fn throughput_and_delay(&self, scheme: &str) -> Option<[f64; 2]> {
        Some([
            self.of(scheme, "throughput_mbps")?,
            self.of(scheme, "delay_mean_ms")?,
        ])
    }

    /// Those of the rows' schemes, as far as they are known.
    fn of_rows<'r>(&self, rows: Vec<&'r Row>) -> Vec<(&'r Row, [f64; 2])> {
        let of = |row: &'r Row| Some((row, self.throughput_and_delay(&row.scheme)?));
        rows.into_iter().filter_map(of).collect()
    }

    /// Number of runs and links behind the figures of these schemes, in words.
    fn sample_size(&self, schemes: &[&str]) -> String {
        let mine = |g: &&&Group| g.runs > 0 && schemes.contains(&g.scheme.as_str());
        let runs = || self.groups.iter().filter(mine).map(|g| g.runs);
        let (least, most) = (runs().min().unwrap_or(0), runs().max().unwrap_or(0));
        let behind = match most {
            0 | 1 => "In one run".to_owned(),
            // Equal copies of a simulated run are one, and a run may have failed.
            most if least < most => format!("In the median of {least} to {most} runs"),
            most => format!("In the median of {most} runs"),
        };
        match self.overall.first().map_or(1, |all| all.links) {
            1 => behind,
            links => format!("{behind} on each of {links} links"),
        }
    }
}

/// True for plain TCP: a control that Linux brings, or an algorithm of the same name in the
/// simulator.
fn is_baseline(row: &Row) -> bool {
    let of_linux = row.feedback == "kernel" && !row.scheme.starts_with("alcc_");
    of_linux || ["cubic", "reno", "bbr"].contains(&row.scheme.as_str())
}

/// Compares the best controlled scheme with the baseline: `cubic`, or else the first plain TCP.
/// Best is the least delay with at least nine tenths of the baseline's throughput. If none keeps
/// that much, it is the most throughput. `bbr` is compared too, because it is the usual
/// alternative.
fn sentence(rows: &[Row], figures: &Figures<'_>) -> String {
    let mut schemes: Vec<&Row> = Vec::new();
    for row in rows {
        if !schemes.iter().any(|s| s.scheme == row.scheme) {
            schemes.push(row);
        }
    }
    let (baselines, controlled): (Vec<&Row>, Vec<&Row>) =
        schemes.into_iter().partition(|r| is_baseline(r));
    let (baselines, controlled) = (figures.of_rows(baselines), figures.of_rows(controlled));
    let named = |name: &str| baselines.iter().find(|(row, _)| row.scheme == name);
    let Some(base) = named("cubic").or_else(|| baselines.first()) else {
        return String::new();
    };
    let best = controlled
        .iter()
        .filter(|(_, s)| s[0] >= 0.9 * base.1[0])
        .min_by(|a, b| a.1[1].total_cmp(&b.1[1]))
        .or_else(|| controlled.iter().max_by(|a, b| a.1[0].total_cmp(&b.1[0])));
    let Some((chosen, best)) = best else {
        return String::new();
    };
    let beside = |other: &(&Row, [f64; 2])| {
        let (row, [mbps, ms]) = other;
        let share = 100.0 * best[0] / mbps;
        let part = match ms / best[1] {
            t if t >= 1.5 => format!("{} of its mean delay", unit_fraction(t.round() as u64)),
            t => format!("{:.0} % of its mean delay", 100.0 / t),
        };
        format!(
            "{share:.0} % of {}'s throughput at {part} ({} instead of {})",
            row.label(),
            milliseconds(best[1]),
            milliseconds(*ms)
        )
    };
    let also = named("bbr").filter(|bbr| *bbr != base);
    let all: Vec<&str> = [Some(base), also]
        .into_iter()
        .flatten()
        .map(|(row, _)| row.scheme.as_str())
        .chain([chosen.scheme.as_str()])
        .collect();
    let also = also.map_or_else(String::new, |bbr| format!(", and {}", beside(bbr)));
    format!(
        "{}, {} has {}{also}.",
        figures.sample_size(&all),
        chosen.label(),
        beside(base)
    )
}

/// 1/n in words: "half", "a ninth", "an eighth".
fn unit_fraction(n: u64) -> String {
    let word = ordinal(n);
    match n {
        2 => word,
        // Words that begin with a vowel: eighth, eleventh, eighteenth, eighty-first to
        // eighty-ninth.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(link: &str, scheme: &str, mbps: f64, ms: f64) -> Row {
        let controlled = scheme.starts_with("alcc");
        Row {
            feedback: if controlled { "tcp-info" } else { "kernel" }.to_owned(),
            ..crate::row::sample(link, scheme, mbps, ms)
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
        // 9.5 / 10, 1400 / 140, 9.5 / 9.6, 140 / 120.
        assert_eq!(
            summary(&rows).sentence,
            "In one run, alcc-verus has 95 % of cubic's throughput at a tenth of its mean delay (140 ms instead of 1.40 s), \
             and 99 % of bbr's throughput at 117 % of its mean delay (140 ms instead of 120 ms)."
        );
        // None keeps nine tenths: the one with the most throughput counts.
        let slow = [
            rows[1].clone(),
            row("l", "alcc-copa", 7.0, 1300.0),
            row("l", "alcc-fixed", 5.0, 30.0),
        ];
        assert_eq!(
            summary(&slow).sentence,
            "In one run, alcc-copa has 70 % of cubic's throughput at 93 % of its mean delay (1.30 s instead of 1.40 s)."
        );
        // A control of alcc in the kernel is not a baseline.
        let kernel = Row {
            feedback: "kernel".to_owned(),
            ..row("l", "alcc_budget", 9.7, 100.0)
        };
        assert_eq!(
            summary(&[rows[1].clone(), kernel]).sentence,
            "In one run, alcc_budget has 97 % of cubic's throughput at a 14th of its mean delay (100 ms instead of 1.40 s)."
        );
        assert_eq!(summary(&rows[..2]).sentence, "");
        assert_eq!(summary(&rows[2..]).sentence, "");
        // Failed schemes do not count.
        let one_failed = [
            crate::row::failed("l", "bbr"),
            rows[1].clone(),
            rows[2].clone(),
            crate::row::failed("l", "alcc-copa"),
        ];
        assert_eq!(
            summary(&one_failed).sentence,
            "In one run, alcc-verus has 95 % of cubic's throughput at a tenth of its mean delay (140 ms instead of 1.40 s)."
        );
    }

    #[test]
    fn the_sentence_says_how_many_runs_it_stands_on() {
        let rows = [
            row("l", "cubic", 10.0, 900.0),
            row("l", "cubic", 10.0, 1000.0),
            row("l", "cubic", 10.0, 3000.0),
            row("l", "alcc-verus", 9.0, 100.0),
            row("l", "alcc-verus", 10.0, 100.0),
            row("l", "alcc-verus", 11.0, 400.0),
        ];
        assert_eq!(
            summary(&rows).sentence,
            "In the median of 3 runs, alcc-verus has 100 % of cubic's throughput at a tenth of its mean delay (100 ms instead of 1.00 s)."
        );
        assert!(
            summary(&rows[2..4])
                .sentence
                .starts_with("In one run, alcc-verus")
        );
    }

    #[test]
    fn the_sentence_says_the_least_and_the_most_runs_of_its_schemes() {
        let rows = [
            row("l", "cubic", 10.0, 1000.0),
            row("l", "alcc-verus", 9.0, 100.0),
            row("l", "alcc-verus", 11.0, 100.0),
        ];
        let said = summary(&rows).sentence;
        assert!(
            said.starts_with("In the median of 1 to 2 runs, alcc-verus"),
            "{said}"
        );
    }

    #[test]
    fn of_several_links_the_sentence_has_the_means_of_the_table() {
        let rows = [
            row("a", "cubic", 1.0, 100.0),
            row("b", "cubic", 99.0, 1900.0),
            row("a", "alcc-verus", 1.0, 100.0),
            row("b", "alcc-verus", 99.0, 150.0),
            // Not every scheme has figures on this link: it is not part of the means.
            row("c", "cubic", 1.0, 9000.0),
            crate::row::failed("c", "alcc-verus"),
        ];
        let summary = summary(&rows);
        let of = |scheme: &str| {
            let line = summary.overall.iter().find(|o| o.scheme == scheme);
            line.unwrap().fields["delay_mean_ms"]
        };
        // (100 + 1900) / 2 and (100 + 150) / 2.
        assert_eq!((of("cubic"), of("alcc-verus")), (1000.0, 125.0));
        assert_eq!(
            summary.sentence,
            "In one run on each of 2 links, alcc-verus has 100 % of cubic's throughput at an eighth of its mean delay \
             (125 ms instead of 1.00 s)."
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
        assert_eq!(
            [2, 8, 9].map(unit_fraction),
            ["half", "an eighth", "a ninth"]
        );
    }

    #[test]
    fn the_front_is_who_nobody_beats() {
        let points = [
            Some([10.0, 1400.0]),
            Some([9.6, 120.0]),
            Some([9.5, 140.0]),
            None,
            Some([7.0, 35.0]),
            Some([7.0, 35.0]),
            Some([7.0, 36.0]),
        ];
        // The second dominates the third. The fifth dominates the last. Equal points stay.
        assert_eq!(
            pareto_front(&points),
            [true, true, false, false, true, true, false]
        );
        assert_eq!(pareto_front(&[]), Vec::<bool>::new());
    }

    #[test]
    fn means_are_over_links_that_everyone_finished() {
        let rows = [
            row("a", "cubic", 1.0, 100.0),
            row("a", "alcc-verus", 1.0, 50.0),
            row("b", "cubic", 4.0, 300.0),
            row("b", "alcc-verus", 3.0, 150.0),
            row("c", "cubic", 50.0, 1.0),
            crate::row::failed("c", "alcc-verus"),
        ];
        let all = summary(&rows);
        assert_eq!(all.groups.len(), 6);
        assert_eq!((all.groups[5].runs, all.groups[5].failed), (0, 1));
        assert!(all.groups[4].front && !all.groups[5].front);
        // On a the second dominates (same throughput, less delay); on b both are on the front.
        let fronts: Vec<bool> = all.groups[..4].iter().map(|g| g.front).collect();
        assert_eq!(fronts, [false, true, true, true]);
        let [cubic, verus] = &all.overall[..] else {
            panic!("two schemes")
        };
        assert_eq!((cubic.links, verus.links), (2, 2));
        assert_eq!(cubic.fields["throughput_mbps"], 2.5);
        assert_eq!(verus.fields["delay_mean_ms"], 100.0);
        // Powers 1 / 0.05 = 20 and 3 / 0.15 = 20 Mbit/s per s.
        assert!((verus.fields["power"] - 20.0).abs() < 1e-9);
        assert!(cubic.front && verus.front);
        assert!(summary(&rows[..2]).overall.is_empty());
    }
}
