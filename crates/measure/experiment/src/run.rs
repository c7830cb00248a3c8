// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulates what is not stored yet, and stores it: a line of JSON for each run. An experiment that
//! was interrupted goes on where it was.
use crate::channel;
use crate::definition::Subject;
use crate::plan::{Plan, Planned};
use alcc_cc::Registry;
use alcc_lab::parallel;
use alcc_results::scenario::{Files, Value};
use alcc_results::{Row, simulated};
use alcc_sim::{Probe, run_with};
use alcc_units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A run gives up after so many events, lost packets included, unless its scenario says otherwise:
/// a storm of losses must not hold up the others. The largest published scenario has
/// 5 million.
const MAX_EVENTS: &str = "40000000";
/// Windows over time are looked at so often.
const SAMPLE: Span = Span::from_millis(20);

/// What one run gave.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The names of the choices, one for each axis.
    pub cell: Vec<String>,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// What gives the same on a command line.
    pub command: String,
    /// The program that ran it.
    pub version: String,
    /// One row for each flow; none if the run failed.
    pub flows: Vec<Row>,
    /// What concerns all flows.
    pub summary: Option<simulated::Summary>,
    /// What a channel is like.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub channel: BTreeMap<String, f64>,
    /// Why the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why an experiment has no results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unable {
    /// What the experiment says that it needs.
    Lacks(String),
    /// This trace is not there.
    Needs(String),
    /// One line: what is wrong with the experiment.
    Wrong(String),
    /// The results cannot be stored.
    Store(String),
    /// It was asked to end.
    Stopped,
}

/// Runs from earlier, by command. Other versions of the program do not count.
#[derive(Debug, Default)]
pub struct Stored {
    runs: BTreeMap<String, Run>,
}

impl Stored {
    /// Reads lines of JSON. A line that was cut off, or that another version wrote, is not there.
    ///
    /// # Errors
    /// As the system says.
    pub fn read(mut from: impl Read, version: &str) -> io::Result<Self> {
        let mut text = String::new();
        from.read_to_string(&mut text)?;
        let runs = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let known = runs.filter(|run: &Run| run.version == version && run.error.is_none());
        let runs = known.map(|run| (run.command.clone(), run)).collect();
        Ok(Self { runs })
    }
}

/// Files of a scenario, and those that were asked for and not found.
struct Noting<'a> {
    files: &'a (dyn Files + Sync),
    missing: Mutex<Option<String>>,
}

impl Files for Noting<'_> {
    fn find(&self, name: &str) -> Option<PathBuf> {
        let found = self.files.find(name);
        if found.is_none()
            && let Ok(mut missing) = self.missing.lock()
        {
            missing.get_or_insert_with(|| name.to_owned());
        }
        found
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        self.files.open(path)
    }
}

/// Ends a simulation when it is asked to.
struct Watch<'a>(&'a AtomicBool);

impl Probe for Watch<'_> {
    fn progress(&mut self, _now: Time, _end: Time) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// What runs need beside their scenarios.
pub struct Runner<'a> {
    /// The algorithms.
    pub registry: &'a Registry,
    /// Where traces are.
    pub files: &'a (dyn Files + Sync),
    /// What decides results beside the scenario: the program's version and bytes, and the traces.
    pub version: &'a str,
    /// How many runs go on at a time.
    pub workers: usize,
    /// Set by whoever wants an end.
    pub stop: &'a AtomicBool,
}

impl Runner<'_> {
    /// All runs of `plan`, in its order. New ones are written to `store` as soon as they are there,
    /// and `progress` hears how many of how many are done.
    ///
    /// # Errors
    /// See [`Unable`].
    pub fn run(
        &self,
        plan: &Plan,
        stored: &Stored,
        store: &mut dyn Write,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Run>, Unable> {
        if let Some(needs) = &plan.needs {
            return Err(Unable::Lacks(needs.clone()));
        }
        let all = plan.runs.len();
        let mut done: BTreeMap<&str, Run> = BTreeMap::new();
        let mut missing: Vec<&Planned> = Vec::new();
        for planned in &plan.runs {
            match stored.runs.get(&planned.command) {
                // The same runs may stand in a file that has other names for its cells now.
                Some(run) => {
                    let (cell, repetition) = (planned.cell.clone(), planned.repetition);
                    let run = Run {
                        cell,
                        repetition,
                        ..run.clone()
                    };
                    done.insert(&planned.command, run);
                }
                None => missing.push(planned),
            }
        }
        progress(done.len(), all);
        parallel::each(
            &missing,
            self.workers,
            |planned| self.one(planned),
            |planned, run| {
                let run = run?;
                let line = serde_json::to_string(&run).map_err(|e| Unable::Store(e.to_string()))?;
                writeln!(store, "{line}")
                    .and_then(|()| store.flush())
                    .map_err(|e| Unable::Store(alcc_lab::reason(&e)))?;
                done.insert(&planned.command, run);
                progress(done.len(), all);
                Ok(())
            },
        )?;
        let runs = plan.runs.iter();
        Ok(runs
            .filter_map(|planned| done.remove(planned.command.as_str()))
            .collect())
    }

    fn one(&self, planned: &Planned) -> Result<Run, Unable> {
        let noting = Noting {
            files: self.files,
            missing: Mutex::new(None),
        };
        let unable = |noting: Noting<'_>, wrong: String| {
            let missing = noting.missing.into_inner().ok().flatten();
            match missing.filter(|name| wrong.contains(name.as_str())) {
                Some(name) => Unable::Needs(name),
                None => Unable::Wrong(wrong),
            }
        };
        if planned.subject == Subject::Channel {
            let figures = channel::figures(&planned.scenario, &noting);
            return Ok(Run {
                cell: planned.cell.clone(),
                repetition: planned.repetition,
                command: planned.command.clone(),
                version: self.version.to_owned(),
                flows: Vec::new(),
                summary: None,
                channel: figures.map_err(|wrong| unable(noting, wrong))?,
                error: None,
            });
        }
        let mut scenario = planned.scenario.clone();
        if scenario.max_events.is_none() {
            scenario.max_events = Some(Value::option("max-events", MAX_EVENTS));
        }
        let resolved = scenario.resolve(self.registry, &noting);
        let mut resolved = resolved.map_err(|wrong| unable(noting, wrong))?;
        // What rows say of TCP's window over time comes from samples.
        resolved.scenario.series = planned.series.then_some(SAMPLE);
        let report = run_with(&resolved.scenario, &mut Watch(self.stop));
        if self.stop.load(Ordering::Relaxed) {
            return Err(Unable::Stopped);
        }
        let (flows, summary, error) = match report {
            Ok(report) => (
                simulated::rows(&resolved.link, &resolved.scenario, &report),
                Some(simulated::Summary::of(
                    &report,
                    resolved.settle,
                    &resolved.phases,
                )),
                None,
            ),
            Err(e) => (Vec::new(), None, Some(e.to_string())),
        };
        Ok(Run {
            cell: planned.cell.clone(),
            repetition: planned.repetition,
            command: planned.command.clone(),
            version: self.version.to_owned(),
            flows,
            summary,
            channel: BTreeMap::new(),
            error,
        })
    }
}
