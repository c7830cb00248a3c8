// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated figures beside the published ones, and the verdict.
use super::{Figures, Reference, Traces, median};
use crate::{LabError, parallel};
use alcc_cc::Registry;
use alcc_results::signed;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// A reference and what the simulator makes of it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The scenario and its published figures.
    pub reference: Reference,
    /// Ours, one per start; or why there are none.
    pub ours: Result<Vec<Figures>, String>,
}

/// What a cell says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Within the bounds.
    Ok,
    /// Our median is not, but their figures lie among those of our runs.
    InSpread,
    /// Neither.
    Differs,
    /// There is nothing to compare.
    NotRun,
}

impl Verdict {
    /// As the table has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::InSpread => "in spread",
            Self::Differs => "differs",
            Self::NotRun => "not run",
        }
    }
}

/// Runs all of them on `workers` threads; the cells are in the order of `references`. `progress`
/// gets how many are done.
///
/// # Errors
/// [`LabError::Stopped`].
pub fn measure(
    references: Vec<Reference>,
    traces: &Traces,
    registry: &Registry,
    workers: usize,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Cell>, LabError> {
    let mut cells: Vec<Cell> = references
        .into_iter()
        .map(|reference| Cell {
            reference,
            ours: Err(String::new()),
        })
        .collect();
    let mut found = Vec::new();
    let numbers: Vec<usize> = (0..cells.len()).collect();
    parallel::each(
        &numbers,
        workers,
        |n| cells[*n].reference.run(traces, registry),
        |n, ours| {
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Stopped);
            }
            found.push((*n, ours));
            progress(found.len());
            Ok(())
        },
    )?;
    for (n, ours) in found {
        cells[n].ours = ours;
    }
    Ok(cells)
}

/// Smallest and largest.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

/// The simulated value, and how far it is from the nearest published one. Negative: below.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compared {
    /// Median of the simulated runs.
    pub ours: f64,
    /// Smallest and largest simulated value.
    pub spread: (f64, f64),
    /// Smallest and largest published value.
    pub theirs: (f64, f64),
}

impl Compared {
    fn new(ours: impl Iterator<Item = f64> + Clone, theirs: impl Iterator<Item = f64>) -> Self {
        Self {
            ours: median(&ours.clone().collect::<Vec<_>>()),
            spread: ends(ours),
            theirs: ends(theirs),
        }
    }

    /// Distance to the nearest published value.
    pub fn off(&self) -> f64 {
        self.ours - self.ours.clamp(self.theirs.0, self.theirs.1)
    }

    /// The same in per cent of the published value.
    pub fn off_percent(&self) -> f64 {
        let nearest = self.ours.clamp(self.theirs.0, self.theirs.1);
        100.0 * self.off() / nearest.max(1e-9)
    }

    fn in_spread(&self) -> bool {
        self.spread.0 <= self.theirs.1 && self.theirs.0 <= self.spread.1
    }
}

impl Cell {
    /// Utilization in per cent, or throughput in Mbit/s.
    pub fn share(&self) -> Option<Compared> {
        let ours = self.ours.as_ref().ok()?;
        let value = |f: &Figures| {
            if self.reference.bounds().of_throughput {
                f.throughput
            } else {
                f.utilization * 100.0
            }
        };
        let theirs = self.reference.runs.iter();
        Some(Compared::new(ours.iter().map(value), theirs.map(value)))
    }

    fn delays(&self, of: fn(&Figures) -> Option<f64>) -> Option<Compared> {
        let ours = self.ours.as_ref().ok()?.iter().filter_map(of);
        let theirs = self.reference.runs.iter().filter_map(of);
        let known = ours.clone().next().is_some() && theirs.clone().next().is_some();
        known.then(|| Compared::new(ours, theirs))
    }

    /// Mean delay, ms.
    pub fn delay(&self) -> Option<Compared> {
        self.delays(|f| f.delay)
    }

    /// 95th percentile, ms.
    pub fn p95(&self) -> Option<Compared> {
        self.delays(|f| f.p95)
    }

    /// What the bounds say.
    pub fn verdict(&self) -> Verdict {
        let Some(share) = self.share() else {
            return Verdict::NotRun;
        };
        let bounds = self.reference.bounds();
        let off = if bounds.of_throughput {
            share.off_percent()
        } else {
            share.off()
        };
        let delay = self.delay();
        let near = |c: &Compared| c.off_percent().abs() <= bounds.delay;
        if off.abs() <= bounds.share && delay.as_ref().is_none_or(near) {
            Verdict::Ok
        } else if share.in_spread() && delay.as_ref().is_none_or(Compared::in_spread) {
            Verdict::InSpread
        } else {
            Verdict::Differs
        }
    }

    /// Its line of the table.
    pub fn line(&self) -> String {
        let Reference { link, flow, .. } = &self.reference;
        let (Some(share), Ok(_)) = (self.share(), &self.ours) else {
            let why = self.ours.as_ref().err().map_or("", String::as_str);
            return format!("| {link} | {flow} | | | | | | | | | not run: {why} |");
        };
        let throughput = self.reference.bounds().of_throughput;
        let digits = if throughput { 2 } else { 1 };
        let off = if throughput {
            format!("{} %", signed(share.off_percent(), 1))
        } else {
            signed(share.off(), 1)
        };
        let runs = |of: fn(&Figures) -> Option<f64>| {
            let each = self.reference.runs.iter().filter_map(of);
            let each: Vec<String> = each.map(|v| format!("{v:.0}")).collect();
            each.join(" / ")
        };
        let shares: Vec<String> = self
            .reference
            .runs
            .iter()
            .map(|f| {
                if throughput {
                    format!("{:.2}", f.throughput)
                } else {
                    format!("{:.1}", f.utilization * 100.0)
                }
            })
            .collect();
        let delay = self.delay().map_or_else(
            || "- | -".to_owned(),
            |d| {
                let (low, high) = d.spread;
                format!(
                    "{:.0} ({low:.0} to {high:.0}) | {} %",
                    d.ours,
                    signed(d.off_percent(), 0)
                )
            },
        );
        let p95 = self
            .p95()
            .map_or_else(|| "-".to_owned(), |p| format!("{:.0}", p.ours));
        let (low, high) = share.spread;
        format!(
            "| {link} | {flow} | {} | {:.digits$} ({low:.digits$} to {high:.digits$}) | {off} | {} | {delay} | {} | {p95} | {} |",
            shares.join(" / "),
            share.ours,
            runs(|f| f.delay),
            runs(|f| f.p95),
            self.verdict().name(),
        )
    }
}

/// One table in Markdown per set, in the order of the cells, each with its count of verdicts.
pub fn markdown(cells: &[Cell]) -> String {
    let mut sets: Vec<&str> = Vec::new();
    for cell in cells {
        if !sets.contains(&cell.reference.set.as_str()) {
            sets.push(&cell.reference.set);
        }
    }
    let mut text = String::new();
    for set in sets {
        let of_set = cells.iter().filter(|c| c.reference.set == set);
        let (share, delay) = if set == "cs244" {
            ("Mbit/s", "queueing")
        } else {
            ("util %", "one-way")
        };
        let _ = writeln!(
            text,
            "### {set}\n\n| link | flow | {share}: theirs | ours | off | mean {delay} ms: theirs | ours | off | p95 ms: theirs | ours | verdict |\n\
             |---|---|---|---|---|---|---|---|---|---|---|"
        );
        for cell in of_set.clone() {
            let _ = writeln!(text, "{}", cell.line());
        }
        let count = |v: Verdict| of_set.clone().filter(|c| c.verdict() == v).count();
        let all = [
            Verdict::Ok,
            Verdict::InSpread,
            Verdict::Differs,
            Verdict::NotRun,
        ];
        let counts: Vec<String> = all
            .iter()
            .map(|v| (count(*v), v.name()))
            .filter(|(n, _)| *n > 0)
            .map(|(n, name)| format!("{n} {name}"))
            .collect();
        let _ = writeln!(text, "\n{}.\n", counts.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::reference::tests::{LINE, read};
    use super::*;

    #[test]
    fn a_window_of_half_a_path_has_half_the_link() {
        // 20 packets per 42 ms (40 ms, and a millisecond's opportunity each way) are 5.7 of 12
        // Mbit/s; no queue.
        let mut found = read(LINE).unwrap();
        found[0].runs[0] = Figures {
            utilization: 0.48,
            delay: Some(21.0),
            ..found[0].runs[0]
        };
        let folder = tempfile::tempdir().unwrap();
        let traces = Traces::below(folder.path()).unwrap();
        let stop = AtomicBool::new(false);
        let mut done = 0;
        let cells = measure(found, &traces, &alcc_zoo::registry(), 2, &stop, &mut |n| {
            done = n;
        });
        let cells = cells.unwrap();
        assert_eq!(done, 1);
        assert_eq!(cells[0].verdict(), Verdict::Ok, "{}", cells[0].line());
        let mut wrong = cells[0].clone();
        wrong.reference.runs[0].utilization = 0.6;
        assert_eq!(wrong.verdict(), Verdict::Differs);
        wrong.reference.runs[0].utilization = 0.48;
        wrong.reference.runs[0].delay = Some(30.0);
        assert_eq!(wrong.verdict(), Verdict::Differs);
        assert!(markdown(&[wrong]).contains("1 differs."));
    }

    #[test]
    fn the_nearest_run_counts_and_the_median_of_ours() {
        let c = Compared::new([60.0, 70.0, 90.0].into_iter(), [75.0, 80.0].into_iter());
        assert_eq!((c.ours, c.off(), c.in_spread()), (70.0, -5.0, true));
        assert!((c.off_percent() + 100.0 * 5.0 / 75.0).abs() < 1e-9);
        let inside = Compared::new([77.0].into_iter(), [75.0, 80.0].into_iter());
        assert_eq!((inside.off(), inside.ours), (0.0, 77.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
