// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tuned forms beside the original ones.
use super::cell::measure;
use super::{Cell, Figures, Reference, Traces, median};
use crate::LabError;
use alcc_cc::Registry;
use alcc_link::QueueSpec;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

/// An algorithm's `tuned` and its `original` on one trace, from the same starts.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Its name.
    pub algorithm: String,
    /// File name of the trace.
    pub link: String,
    /// Medians of both, or why there are none.
    pub medians: Result<[Figures; 2], String>,
}

/// The links on which `tuned` is compared: the way back is the trace's partner or 12 Mbit/s. 60 s
/// each, from five starts 100 ms apart.
const PAIR: &str = "40,60,50+100*5,1,0,0,,,,";

/// All pairs of these algorithms on every trace, trace by trace.
///
/// # Errors
/// [`LabError::Stopped`].
pub fn pairs(
    algorithms: &[String],
    traces: &Traces,
    registry: &Registry,
    workers: usize,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Pair>, LabError> {
    let partner = |name: &str| {
        let other = match name.rsplit_once('.')? {
            (stem, "up") => format!("{stem}.down"),
            (stem, "down") => format!("{stem}.up"),
            _ => return None,
        };
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
    let cells = measure(runs, traces, registry, workers, stop, progress)?;
    let figures = |cell: &Cell| {
        let ours = cell.ours.clone()?;
        let of =
            |f: fn(&Figures) -> Option<f64>| median(&ours.iter().filter_map(f).collect::<Vec<_>>());
        Ok::<_, String>(Figures {
            throughput: of(|f| Some(f.throughput)),
            utilization: of(|f| Some(f.utilization)),
            delay: Some(of(|f| f.delay)),
            p95: Some(of(|f| f.p95)),
            loss: Some(of(|f| f.loss)),
        })
    };
    let pair = |both: &[Cell]| Pair {
        algorithm: both[0].reference.flow.clone(),
        link: both[0].reference.link.clone(),
        medians: figures(&both[0]).and_then(|tuned| Ok([tuned, figures(&both[1])?])),
    };
    Ok(cells.chunks_exact(2).map(pair).collect())
}

impl Pair {
    /// In what `tuned` is behind; empty: in nothing. A tenth of a point and half a millisecond are
    /// nothing.
    pub fn behind(&self) -> Vec<String> {
        let Ok([tuned, original]) = &self.medians else {
            return Vec::new();
        };
        let mut behind = Vec::new();
        let points = 100.0 * (tuned.utilization - original.utilization);
        if points < -0.1 {
            behind.push(format!("{points:.1} points"));
        }
        for (what, ours, theirs) in [
            ("mean", tuned.delay, original.delay),
            ("p95", tuned.p95, original.p95),
        ] {
            let more = ours.unwrap_or(f64::NAN) - theirs.unwrap_or(f64::NAN);
            if more > 0.5 {
                behind.push(format!("{what} +{more:.0} ms"));
            }
        }
        behind
    }

    /// Its line of the table.
    pub fn line(&self) -> String {
        let [tuned, original] = match &self.medians {
            Ok(both) => both.map(|f| {
                let ms = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.0}"));
                format!(
                    "{:.1}, {}, {}",
                    f.utilization * 100.0,
                    ms(f.delay),
                    ms(f.p95)
                )
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
    use super::*;
    use std::fs;

    #[test]
    fn a_pair_says_in_what_tuned_is_behind() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Steady"), "1\n").unwrap();
        fs::write(folder.path().join("README.md"), "no trace").unwrap();
        let traces = Traces::below(folder.path()).unwrap();
        let stop = AtomicBool::new(false);
        let found = pairs(
            &["copa".to_owned()],
            &traces,
            &alcc_zoo::registry(),
            2,
            &stop,
            &mut |_| {},
        );
        let found = found.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].link, &*found[0].algorithm), ("Steady", "copa"));
        assert!(found[0].medians.is_ok());
        let figures = |utilization, delay, p95| Figures {
            throughput: 1.0,
            utilization,
            delay: Some(delay),
            p95: Some(p95),
            loss: None,
        };
        let with = |tuned, original| Pair {
            medians: Ok([tuned, original]),
            ..found[0].clone()
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
