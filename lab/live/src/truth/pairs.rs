// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tuned forms beside the original ones.
use super::{Cell, Reference, Runner};
use crate::LabError;
use crate::link::partner;
use alcc_link::QueueSpec;
use alcc_results::{Row, Spread};
use std::fmt::Write as _;
use std::path::Path;

/// An algorithm's `tuned` and its `original` on one trace, from the same starts.
#[derive(Debug)]
pub struct Pair {
    /// Its name.
    pub algorithm: String,
    /// File name of the trace.
    pub link: String,
    /// Medians of both, or why there are none.
    pub medians: Result<[Row; 2], LabError>,
}

/// The links on which `tuned` is compared: the way back is the trace's partner or 12 Mbit/s. 60 s
/// each, from five starts 100 ms apart.
const PAIR: &str = "40,60,50+100*5,1,0,0,,,,";

impl Runner<'_> {
    /// All pairs of these algorithms on every trace, trace by trace.
    ///
    /// # Errors
    /// [`LabError::Stopped`].
    pub fn pairs(self, algorithms: &[String]) -> Result<Vec<Pair>, LabError> {
        let traces = self.traces;
        let partner = |name: &str| {
            let other = partner(Path::new(name))?.display().to_string();
            traces.files.contains_key(&other).then_some(other)
        };
        let mut runs = Vec::new();
        for algorithm in algorithms {
            for name in traces
                .files
                .keys()
                .filter(|name| traces.rate(name, None).is_ok())
            {
                let up = partner(name).unwrap_or_else(|| "12mbit".to_owned());
                for options in ["", ":profile=original"] {
                    let queue = QueueSpec::default();
                    let line = format!("pair,{name},,{up},{queue},{PAIR}{algorithm}{options}");
                    runs.extend(Reference::line(&line));
                }
            }
        }
        let cells = self.measure(runs)?;
        let medians = |cell: Cell| {
            let ours = cell.ours?;
            let of = |figure: fn(&Row) -> Option<f64>| {
                let all: Vec<f64> = ours.iter().filter_map(figure).collect();
                Spread::of(&all).map(|spread| spread.median)
            };
            Ok(Row {
                utilization: of(|row| row.utilization),
                delay_mean_ms: of(|row| row.delay_mean_ms),
                delay_p95_ms: of(|row| row.delay_p95_ms),
                ..Row::default()
            })
        };
        let mut cells = cells.into_iter();
        let pair = || {
            let (tuned, original) = (cells.next()?, cells.next()?);
            Some(Pair {
                algorithm: tuned.reference.flow.clone(),
                link: tuned.reference.link.clone(),
                medians: medians(tuned).and_then(|tuned| Ok([tuned, medians(original)?])),
            })
        };
        Ok(std::iter::from_fn(pair).collect())
    }
}

impl Pair {
    /// The measures in which `tuned` is worse than `original`. Differences of up to a tenth of a
    /// point or half a millisecond do not count.
    pub fn behind(&self) -> Vec<String> {
        let Ok([tuned, original]) = &self.medians else {
            return Vec::new();
        };
        let more = |of: fn(&Row) -> Option<f64>| {
            let [tuned, original] = [tuned, original].map(|row| of(row).unwrap_or(f64::NAN));
            tuned - original
        };
        let mut behind = Vec::new();
        let points = 100.0 * more(|row| row.utilization);
        if points < -0.1 {
            behind.push(format!("{points:.1} points"));
        }
        for (what, more) in [
            ("mean", more(|row| row.delay_mean_ms)),
            ("p95", more(|row| row.delay_p95_ms)),
        ] {
            if more > 0.5 {
                behind.push(format!("{what} +{more:.0} ms"));
            }
        }
        behind
    }

    /// Its line of the table.
    pub fn line(&self) -> String {
        let [tuned, original] = match &self.medians {
            Ok(both) => both.each_ref().map(|row| {
                let ms = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.0}"));
                let utilization = 100.0 * row.utilization.unwrap_or(f64::NAN);
                let (mean, p95) = (ms(row.delay_mean_ms), ms(row.delay_p95_ms));
                format!("{utilization:.1}, {mean}, {p95}")
            }),
            Err(why) => {
                return format!(
                    "| {} | {} | not run: {why} | | |",
                    self.link, self.algorithm
                );
            }
        };
        let behind = self.behind();
        let verdict = if behind.is_empty() {
            "at least as good".to_owned()
        } else {
            format!("behind by {}", behind.join(", "))
        };
        format!(
            "| {} | {} | {tuned} | {original} | {verdict} |",
            self.link, self.algorithm
        )
    }
}

/// One table in Markdown.
pub fn markdown_of_pairs(pairs: &[Pair]) -> String {
    let mut text = String::from(
        "| link | algorithm | tuned: util %, mean, p95 ms | original | tuned is |\n|---|---|---|---|---|\n",
    );
    for pair in pairs {
        let _ = writeln!(text, "{}", pair.line());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Traces;
    use super::*;
    use std::fs;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_pair_says_in_what_tuned_is_behind() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Steady"), "1\n").unwrap();
        fs::write(folder.path().join("README.md"), "no trace").unwrap();
        let traces = Traces::below(folder.path()).unwrap();
        let stop = AtomicBool::new(false);
        let runner = Runner {
            traces: &traces,
            registry: &alcc_zoo::registry(),
            workers: 2,
            stop: &stop,
            progress: &mut |_, _, _| {},
        };
        let found = runner.pairs(&["copa".to_owned()]).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].link, &*found[0].algorithm), ("Steady", "copa"));
        assert!(found[0].medians.is_ok());
        let figures = |utilization, delay, p95| Row {
            utilization: Some(utilization),
            delay_mean_ms: Some(delay),
            delay_p95_ms: Some(p95),
            ..Row::default()
        };
        let with = |tuned, original| Pair {
            medians: Ok([tuned, original]),
            algorithm: String::new(),
            link: String::new(),
        };
        let better = with(figures(0.9, 30.0, 40.0), figures(0.9005, 30.3, 40.0));
        assert_eq!(better.behind(), Vec::<String>::new());
        let worse = with(figures(0.8, 40.0, 39.0), figures(0.9, 30.0, 40.0));
        assert_eq!(worse.behind(), ["-10.0 points", "mean +10 ms"]);
        assert!(
            worse
                .line()
                .ends_with("| behind by -10.0 points, mean +10 ms |")
        );
    }
}
