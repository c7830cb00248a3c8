// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulates the runs that are not stored yet, and stores each as a line of JSON. So an interrupted
//! experiment can be continued.
use crate::channel;
use crate::definition::Subject;
use crate::plan::{Plan, PlannedRun};
use alcc_cc::Registry;
use alcc_lab::twin::Real;
use alcc_lab::{LabError, Tools, applications, parallel};
use alcc_results::scenario::{Files, Resolved, Value};
use alcc_results::{DrawnProfile, Profiles, Row, simulated};
use alcc_sim::{FlowState, Probe, run_with};
use alcc_units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Default limit on the events of a run, lost packets included: a storm of losses must not hold up
/// the others. The largest published scenario has 5 million.
const MAX_EVENTS: &str = "40000000";
/// Interval of the samples over time.
const SAMPLE_INTERVAL: Span = Span::from_millis(20);

/// One of so many learned profiles is drawn, as in figure 7b of the Verus paper.
const DRAWN_EACH: usize = 5;

/// The result of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The names of the choices, one for each axis.
    pub cell: Vec<String>,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// The command that runs the same.
    pub command: String,
    /// Version of the program that ran it.
    pub version: String,
    /// One row for each flow; none if the run failed.
    pub flows: Vec<Row>,
    /// Summary of all flows.
    pub summary: Option<simulated::Summary>,
    /// Figures of a channel, of an application, or of a learned delay profile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub channel: BTreeMap<String, f64>,
    /// Learned delay profiles to be drawn, of the first start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<DrawnProfile>,
    /// What is to be said beside the figures of real programs: that the machine was full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why an experiment has no results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// The requirement that the experiment names.
    MissingRequirement(String),
    /// The name of a missing trace.
    MissingTrace(String),
    /// One line: what is wrong with the experiment.
    InvalidExperiment(String),
    /// The results cannot be stored.
    Storage(String),
    /// Stopped by the user.
    Interrupted,
}

/// Where the flows run.
#[derive(Clone, Copy)]
pub enum Side<'a> {
    /// In the simulator.
    Simulated,
    /// As real programs on emulated links. `alcc_emu::prepare` must have succeeded before.
    Emulated(&'a Tools),
}

/// Earlier runs by command, of the same version of the program.
#[derive(Debug, Default)]
pub struct StoredRuns {
    runs: BTreeMap<String, Run>,
}

impl StoredRuns {
    /// Reads lines of JSON. Skips truncated lines and those of other versions.
    ///
    /// # Errors
    /// The error of the system.
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

/// Files of a scenario. Records the first one that was not found.
struct MissingFileRecorder<'a> {
    files: &'a (dyn Files + Sync),
    missing: Mutex<Option<String>>,
}

impl Files for MissingFileRecorder<'_> {
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

/// Ends a simulation when `stop` is set. Takes delay profiles if they are wanted.
struct RunProbe<'a> {
    stop: &'a AtomicBool,
    profiles: Option<Profiles>,
}

impl Probe for RunProbe<'_> {
    fn is_enabled(&self) -> bool {
        self.profiles.is_some()
    }

    fn flow(&mut self, state: &FlowState<'_>) {
        if let Some(profiles) = &mut self.profiles {
            profiles.look(state);
        }
    }

    fn progress(&mut self, _now: Time, _end: Time) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Context of the runs.
pub struct Runner<'a> {
    /// The algorithms.
    pub registry: &'a Registry,
    /// Access to traces.
    pub files: &'a (dyn Files + Sync),
    /// Identifies what results depend on besides the scenario: the program's version and bytes, and
    /// the traces.
    pub version: &'a str,
    /// Number of parallel runs.
    pub workers: usize,
    /// Set to stop.
    pub stop: &'a AtomicBool,
    /// Where the flows run.
    pub side: Side<'a>,
}

impl Runner<'_> {
    /// All runs of `plan`, in its order. New ones are written to `store` as soon as they are done.
    /// `progress` is called with the number of finished runs and of all runs.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn run(
        &self,
        plan: &Plan,
        stored: &StoredRuns,
        store: &mut dyn Write,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Run>, RunError> {
        if let Some(needs) = &plan.needs {
            return Err(RunError::MissingRequirement(needs.clone()));
        }
        let all = plan.runs.len();
        let mut done: BTreeMap<&str, Run> = BTreeMap::new();
        let mut missing: Vec<&PlannedRun> = Vec::new();
        for planned in &plan.runs {
            match stored.runs.get(&planned.command) {
                // The cells may have been renamed since the run was stored.
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
            |planned| self.run_one(planned),
            |planned, run| {
                let run = run?;
                let line =
                    serde_json::to_string(&run).map_err(|e| RunError::Storage(e.to_string()))?;
                writeln!(store, "{line}")
                    .and_then(|()| store.flush())
                    .map_err(|e| RunError::Storage(alcc_lab::reason(&e)))?;
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

    fn run_one(&self, planned: &PlannedRun) -> Result<Run, RunError> {
        let recorder = MissingFileRecorder {
            files: self.files,
            missing: Mutex::new(None),
        };
        let run_error = |recorder: MissingFileRecorder<'_>, wrong: String| {
            let missing = recorder.missing.into_inner().ok().flatten();
            match missing.filter(|name| wrong.contains(name.as_str())) {
                Some(name) => RunError::MissingTrace(name),
                None => RunError::InvalidExperiment(wrong),
            }
        };
        if planned.subject == Subject::Channel {
            let figures = channel::figures(&planned.scenario, &recorder);
            return Ok(Run {
                cell: planned.cell.clone(),
                repetition: planned.repetition,
                command: planned.command.clone(),
                version: self.version.to_owned(),
                flows: Vec::new(),
                summary: None,
                channel: figures.map_err(|wrong| run_error(recorder, wrong))?,
                profiles: Vec::new(),
                notes: Vec::new(),
                error: None,
            });
        }
        let mut scenario = planned.scenario.clone();
        if scenario.max_events.is_none() {
            scenario.max_events = Some(Value::option("max-events", MAX_EVENTS));
        }
        let resolved = scenario.resolve(self.registry, &recorder);
        let mut resolved = resolved.map_err(|wrong| run_error(recorder, wrong))?;
        if let Side::Emulated(tools) = self.side {
            return self.emulate(planned, &resolved, tools);
        }
        if let Subject::Application(name) = planned.subject {
            return Err(RunError::MissingRequirement(format!(
                "real programs ({name}), which the simulator has not: give --emu --full"
            )));
        }
        // Fields of rows about TCP's cwnd over time come from samples.
        resolved.scenario.series = planned.series.then_some(SAMPLE_INTERVAL);
        let mut probe = RunProbe {
            stop: self.stop,
            profiles: planned.profiles.then(Profiles::default),
        };
        let report = run_with(&resolved.scenario, &mut probe);
        if self.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let (mut learned, mut drawn) = (BTreeMap::new(), Vec::new());
        if let (Some(profiles), Ok(report)) = (&probe.profiles, &report) {
            learned = profiles.figures(report);
            if planned.repetition == 1 {
                drawn = profiles.drawn(report, DRAWN_EACH);
            }
        }
        let outcome = report.map_err(|e| e.to_string()).map(|report| {
            (
                simulated::rows(&resolved.link, &resolved.scenario, &report),
                simulated::Summary::of(&report, resolved.settle, &resolved.phases),
            )
        });
        Ok(Run {
            channel: learned,
            profiles: drawn,
            ..self.done(planned, outcome)
        })
    }

    /// Runs the flows as real programs. What these cannot do is the error of the run.
    fn emulate(
        &self,
        planned: &PlannedRun,
        resolved: &Resolved,
        tools: &Tools,
    ) -> Result<Run, RunError> {
        let real = Real::of(&resolved.link, &resolved.scenario, self.registry);
        if let Subject::Application(name) = planned.subject {
            return self.apply(planned, real, name, tools);
        }
        let emulate =
            |real: Real| real.emulate(resolved.settle, &resolved.phases, tools, self.stop);
        match real.and_then(emulate) {
            Err(e) => self.not_emulated(planned, e),
            Ok((rows, summary, notes)) => Ok(Run {
                notes,
                ..self.done(planned, Ok((rows, summary)))
            }),
        }
    }

    /// Runs a real application.
    fn apply(
        &self,
        planned: &PlannedRun,
        real: Result<Real, LabError>,
        name: &str,
        tools: &Tools,
    ) -> Result<Run, RunError> {
        let application = applications::find(name)
            .ok_or_else(|| RunError::InvalidExperiment(format!("no application '{name}'")))?;
        match real.and_then(|real| real.apply(application, tools, self.stop)) {
            Err(e) => self.not_emulated(planned, e),
            Ok(shown) => Ok(Run {
                channel: shown.figures,
                notes: shown.notes,
                summary: None,
                ..self.done(planned, Ok(Default::default()))
            }),
        }
    }

    /// What real programs cannot do is the error of the run; what is missing ends the experiment.
    fn not_emulated(&self, planned: &PlannedRun, why: LabError) -> Result<Run, RunError> {
        match why {
            LabError::Stopped => Err(RunError::Interrupted),
            e @ (LabError::Twin { .. } | LabError::Run { .. } | LabError::Scheme { .. }) => {
                Ok(self.done(planned, Err(e.to_string())))
            }
            e => Err(RunError::MissingRequirement(e.to_string())),
        }
    }

    /// The rows and the summary of a run, or why it failed.
    fn done(
        &self,
        planned: &PlannedRun,
        outcome: Result<(Vec<Row>, simulated::Summary), String>,
    ) -> Run {
        let (flows, summary, error) = match outcome {
            Ok((flows, summary)) => (flows, Some(summary), None),
            Err(why) => (Vec::new(), None, Some(why)),
        };
        Run {
            cell: planned.cell.clone(),
            repetition: planned.repetition,
            command: planned.command.clone(),
            version: self.version.to_owned(),
            flows,
            summary,
            channel: BTreeMap::new(),
            profiles: Vec::new(),
            notes: Vec::new(),
            error,
        }
    }
}
