// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated figures beside the published ones, and the verdict.
use super::{Figures, Reference, Traces};
use crate::{LabError, parallel};
use alcc_cc::Registry;
use alcc_results::{Compared, Spread, signed};
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

impl Cell {
    /// Utilization in per cent, or throughput in Mbit/s.
    pub fn share(&self) -> Option<Compared> {
        match self.reference.is_of_throughput() {
            true => self.compared(|f| Some(f.throughput)),
            false => self.compared(|f| Some(f.utilization * 100.0)),
        }
    }

    fn compared(&self, of: fn(&Figures) -> Option<f64>) -> Option<Compared> {
        let values = |all: &[Figures]| all.iter().filter_map(of).collect::<Vec<f64>>();
        let ours = values(self.ours.as_ref().ok()?);
        Compared::of(&ours, &values(&self.reference.runs))
    }

    /// Mean delay, ms.
    pub fn delay(&self) -> Option<Compared> {
        self.compared(|f| f.delay)
    }

    /// 95th percentile, ms.
    pub fn p95(&self) -> Option<Compared> {
        self.compared(|f| f.p95)
    }

    /// What the bounds say.
    pub fn verdict(&self) -> Verdict {
        let Some(share) = self.share() else {
            return Verdict::NotRun;
        };
        let bounds = self.reference.bounds();
        let delay = self.delay();
        let near = |c: &Compared| c.is_within(bounds.delay);
        if share.is_within(bounds.share) && delay.as_ref().is_none_or(near) {
            Verdict::Ok
        } else if share.overlaps() && delay.as_ref().is_none_or(Compared::overlaps) {
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
        let throughput = self.reference.is_of_throughput();
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
                let Spread { min, median, max } = d.ours;
                let off = signed(d.off_percent(), 0);
                format!("{median:.0} ({min:.0} to {max:.0}) | {off} %")
            },
        );
        let p95 = self
            .p95()
            .map_or_else(|| "-".to_owned(), |p| format!("{:.0}", p.ours.median));
        let Spread { min, median, max } = share.ours;
        format!(
            "| {link} | {flow} | {} | {median:.digits$} ({min:.digits$} to {max:.digits$}) | {off} | {} | {delay} | {} | {p95} | {} |",
            shares.join(" / "),
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
}
