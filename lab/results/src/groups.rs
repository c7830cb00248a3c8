// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repetitions of one scheme on one link, and their spread.
use crate::Row;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The repetitions of one scheme on one link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Group {
    /// The link.
    pub link: String,
    /// The scheme.
    pub scheme: String,
    /// See [`Row::side`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Number of repetitions with figures. Simulated ones that are equal are one: where nothing is
    /// random, another seed repeats nothing.
    pub runs: u32,
    /// Number of repetitions that failed.
    #[serde(default)]
    pub failed: u32,
    /// True if it is on the link's Pareto front of throughput and mean delay: no other scheme
    /// dominates it.
    #[serde(default)]
    pub front: bool,
    /// Per numeric field of [`Row`] that every repetition has, and `power`: median and extremes.
    pub fields: BTreeMap<String, Spread>,
}

/// Median and extremes of repetitions.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Median; the mean of the middle two of an even number.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

impl Group {
    /// Median of a field; `None` unless every repetition has it.
    pub fn median(&self, field: &str) -> Option<f64> {
        self.fields.get(field).map(|spread| spread.median)
    }
}

impl Spread {
    /// Median and extremes of `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { min, median, max })
    }

    /// `median (smallest to largest)`, each as `show` writes it.
    pub fn text(&self, show: impl Fn(f64) -> String) -> String {
        let [min, median, max] = [self.min, self.median, self.max].map(show);
        format!("{median} ({min} to {max})")
    }
}

/// The figures of repetitions, without simulated copies that are equal.
fn distinct<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<BTreeMap<String, f64>> {
    let mut numbers: Vec<BTreeMap<String, f64>> = Vec::new();
    for row in rows {
        let of_row = row.numbers();
        if !row.is_simulated() || !numbers.contains(&of_row) {
            numbers.push(of_row);
        }
    }
    numbers
}

/// 0.975 quantiles of Student's t distribution for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Mean, and half the length of its 95 % confidence interval by Student's t, which takes the
/// repetitions for independent and normal. `None` with fewer than two values.
pub fn mean_and_ci95(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let degrees = values.len().checked_sub(1).filter(|d| *d > 0)?;
    let t = T
        .get(degrees - 1)
        .copied()
        .unwrap_or(1.96 + 2.4 / degrees as f64);
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / degrees as f64;
    Some((mean, t * (variance / n).sqrt()))
}

impl Group {
    /// The values of a field in the group's repetitions, which are among `rows`.
    pub fn values(&self, rows: &[Row], field: &str) -> Vec<f64> {
        let mine = rows.iter().filter(|row| {
            let here = row.link == self.link && row.scheme == self.scheme;
            here && row.side == self.side && row.error.is_none()
        });
        let numbers = distinct(mine);
        numbers
            .iter()
            .filter_map(|n| n.get(field).copied())
            .collect()
    }
}

/// Groups the repetitions of each scheme on each link, in the order of their first rows. Does not
/// mark the Pareto front.
pub fn groups(rows: &[Row]) -> Vec<Group> {
    let mut groups: Vec<(Group, Vec<&Row>)> = Vec::new();
    for row in rows {
        let same = |g: &(Group, Vec<&Row>)| {
            g.0.link == row.link && g.0.scheme == row.scheme && g.0.side == row.side
        };
        let at = groups.iter().position(same);
        let at = at.unwrap_or_else(|| {
            let group = Group {
                link: row.link.clone(),
                scheme: row.scheme.clone(),
                side: row.side.clone(),
                ..Group::default()
            };
            groups.push((group, Vec::new()));
            groups.len() - 1
        });
        let (group, members) = &mut groups[at];
        if row.error.is_some() {
            group.failed += 1;
        } else {
            members.push(row);
        }
    }
    groups
        .into_iter()
        .map(|(mut group, members)| {
            let numbers = distinct(members.iter().copied());
            group.runs = numbers.len() as u32;
            for name in numbers.first().into_iter().flat_map(BTreeMap::keys) {
                let values: Vec<f64> = numbers
                    .iter()
                    .filter_map(|n| n.get(name).copied())
                    .collect();
                if values.len() == numbers.len()
                    && let Some(spread) = Spread::of(&values)
                {
                    group.fields.insert(name.clone(), spread);
                }
            }
            group
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 1, 2, 3, 4 have mean 2.5 and variance 5/3, so 3.182 sqrt(5/12) = 2.054.
    #[test]
    fn confidence_by_students_t() {
        let (mean, half) = mean_and_ci95(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!(
            (mean - 2.5).abs() < 1e-9 && (half - 2.054).abs() < 1e-3,
            "{half}"
        );
        assert_eq!(mean_and_ci95(&[1.0]), None);
    }

    #[test]
    fn equal_copies_are_one_run() {
        let row = |run, mbps| Row {
            side: Some(crate::SIMULATED.into()),
            run,
            seed: run.into(),
            throughput_mbps: Some(mbps),
            ..Row::default()
        };
        let group = |rows: &[Row]| groups(rows)[0].clone();
        let all = group(&[row(1, 5.0), row(2, 5.0), row(3, 7.0)]);
        assert_eq!((all.runs, all.median("throughput_mbps")), (2, Some(6.0)));
        let emulated = |row| Row {
            side: Some(crate::EMULATED.into()),
            ..row
        };
        assert_eq!(
            group(&[emulated(row(1, 5.0)), emulated(row(2, 5.0))]).runs,
            2
        );
    }

    #[test]
    fn groups_take_the_median_of_the_repetitions() {
        let row = |scheme: &str, mbps, loss| Row {
            scheme: scheme.into(),
            throughput_mbps: Some(mbps),
            loss,
            ..Row::default()
        };
        let rows = [
            row("a", 3.0, Some(0.0)),
            row("b", 9.0, None),
            row("a", 1.0, None),
            row("a", 2.0, Some(0.1)),
        ];
        let groups = groups(&rows);
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].scheme.as_str(), groups[0].runs), ("a", 3));
        let spread = groups[0].fields["throughput_mbps"];
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        assert!(
            !groups[0].fields.contains_key("loss"),
            "one repetition does not know it"
        );
        assert_eq!(Spread::of(&[1.0, 4.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(&[]), None);
    }
}
