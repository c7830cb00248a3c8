// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated figures beside the published ones, and the verdict.
use super::{Reference, Traces};
use crate::cells::Cells;
use crate::simulated::{self, GoOn, Simulation};
use crate::{LabError, Link, Scheme};
use alcc_cc::Registry;
use alcc_results::{Compared, Row, signed};
use alcc_units::Span;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

/// A reference and what the simulator makes of it.
#[derive(Debug)]
pub struct Cell {
    /// The scenario and its published figures.
    pub reference: Reference,
    /// Ours, one per start; or why there are none.
    pub ours: Result<Vec<Row>, LabError>,
}

/// Result of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Within the bounds.
    Ok,
    /// Our median is not, but their figures lie among those of our runs.
    InSpread,
    /// Neither.
    Differs,
    /// No results to compare.
    NotRun,
}

impl Verdict {
    /// The word in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::InSpread => "in spread",
            Self::Differs => "differs",
            Self::NotRun => "not run",
        }
    }
}

/// Runs scenarios from several starts.
pub struct Runner<'a> {
    /// Traces of the references.
    pub traces: &'a Traces,
    /// The algorithms.
    pub registry: &'a Registry,
    /// Runs at the same time.
    pub workers: usize,
    /// Set it to stop the run.
    pub stop: &'a AtomicBool,
    /// Called as `progress(done, total, part)` with the number of runs and the finished part of all.
    pub progress: &'a mut dyn FnMut(usize, usize, f64),
}

impl Runner<'_> {
    /// The cells of these references, in their order.
    ///
    /// # Errors
    /// [`LabError::Stopped`].
    pub fn measure(self, references: Vec<Reference>) -> Result<Vec<Cell>, LabError> {
        let open = |reference: &Reference| reference.open(self.traces, self.registry);
        let opened: Vec<Result<(Link, Scheme), LabError>> = references.iter().map(open).collect();
        let mut simulations = Vec::new();
        for (reference, opened) in references.iter().zip(&opened) {
            let Ok((link, scheme)) = opened else { continue };
            simulations.extend(reference.starts.iter().map(|start| Simulation {
                link,
                scheme,
                registry: self.registry,
                duration: reference.duration,
                start: *start,
                settle: Span::ZERO,
                run: 1,
            }));
        }
        let simulate = |n: usize, go_on: GoOn<'_>| simulated::run(&simulations[n], go_on);
        let of = simulations.len();
        let mut cells = Cells::find(None, of, |_| String::new())?;
        let runs = cells.run(self.workers, self.stop, simulate, &mut |done, part, _| {
            (self.progress)(done, of, part);
        })?;
        let mut rows = runs.into_iter().flat_map(|run| run.rows);
        let mut cells = Vec::new();
        for (reference, opened) in references.into_iter().zip(opened) {
            let ours = opened.and_then(|(_, scheme)| {
                let rows: Vec<Row> = rows.by_ref().take(reference.starts.len()).collect();
                match rows.iter().find_map(|row| row.error.clone()) {
                    Some(why) => Err(scheme.failed(why)),
                    None => Ok(rows),
                }
            });
            cells.push(Cell { reference, ours });
        }
        Ok(cells)
    }
}

impl Cell {
    /// Utilization in per cent, or throughput in Mbit/s.
    pub fn share(&self) -> Option<Compared> {
        self.compared(|row| self.reference.share(row))
    }

    fn compared(&self, of: impl Fn(&Row) -> Option<f64>) -> Option<Compared> {
        let values = |all: &[Row]| all.iter().filter_map(&of).collect::<Vec<f64>>();
        let ours = values(self.ours.as_ref().ok()?);
        Compared::of(&ours, &values(&self.reference.runs))
    }

    /// Mean delay, ms.
    pub fn delay(&self) -> Option<Compared> {
        self.compared(|row| self.reference.delays(row)[0])
    }

    /// 95th percentile, ms.
    pub fn p95(&self) -> Option<Compared> {
        self.compared(|row| self.reference.delays(row)[1])
    }

    /// The verdict by the bounds.
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
        let share = match (self.share(), &self.ours) {
            (Some(share), Ok(_)) => share,
            (_, ours) => {
                let why = ours.as_ref().err().map(LabError::to_string);
                let why = why.unwrap_or_default();
                return format!("| {link} | {flow} | | | | | | | | | not run: {why} |");
            }
        };
        let throughput = self.reference.is_of_throughput();
        let digits = if throughput { 2 } else { 1 };
        let off = if throughput {
            format!("{} %", signed(share.off_percent(), 1))
        } else {
            signed(share.off(), 1)
        };
        let runs = |digits: usize, of: &dyn Fn(&Row) -> Option<f64>| {
            let each = self.reference.runs.iter().filter_map(of);
            let each: Vec<String> = each.map(|v| format!("{v:.digits$}")).collect();
            each.join(" / ")
        };
        let delay = self.delay().map_or_else(
            || "- | -".to_owned(),
            |d| {
                let off = signed(d.off_percent(), 0);
                format!("{} | {off} %", d.ours.text(|ms| format!("{ms:.0}")))
            },
        );
        let p95 = self
            .p95()
            .map_or_else(|| "-".to_owned(), |p| format!("{:.0}", p.ours.median));
        format!(
            "| {link} | {flow} | {} | {} | {off} | {} | {delay} | {} | {p95} | {} |",
            runs(digits, &|row| self.reference.share(row)),
            share.ours.text(|share| format!("{share:.digits$}")),
            runs(0, &|row| self.reference.delays(row)[0]),
            runs(0, &|row| self.reference.delays(row)[1]),
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
        let published = &mut found[0].runs[0];
        published.utilization = Some(0.48);
        published.delay_mean_ms = Some(21.0);
        let folder = tempfile::tempdir().unwrap();
        let traces = Traces::below(folder.path()).unwrap();
        let stop = AtomicBool::new(false);
        let mut done = (0, 0);
        let runner = Runner {
            traces: &traces,
            registry: &alcc_zoo::registry(),
            workers: 2,
            stop: &stop,
            progress: &mut |n, of, _| done = (n, of),
        };
        let cells = runner.measure(found);
        let mut cells = cells.unwrap();
        assert_eq!(done, (2, 2));
        assert_eq!(cells[0].verdict(), Verdict::Ok, "{}", cells[0].line());
        let mut wrong = cells.remove(0);
        let mut published = |utilization, delay| {
            let row = &mut wrong.reference.runs[0];
            (row.utilization, row.delay_mean_ms) = (Some(utilization), Some(delay));
            wrong.verdict()
        };
        assert_eq!(published(0.6, 21.0), Verdict::Differs);
        assert_eq!(published(0.48, 30.0), Verdict::Differs);
        assert!(markdown(&[wrong]).contains("1 differs."));
    }
}
