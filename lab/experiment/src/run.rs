// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulates the runs that are not stored yet, and stores each as a line of JSON. So an interrupted
//! experiment can be continued.
use crate::channel;
use crate::definition::Subject;
use crate::plan::{Plan, PlannedRun};
use crate::seconds::Seconds;
use alcc_cc::Registry;
use alcc_live::twin::Real;
use alcc_live::{LabError, Tools, applications, parallel};
use alcc_results::scenario::{Files, Resolved, Value};
use alcc_results::{DrawnProfile, Profiles, Row, simulated};
use alcc_sim::{FlowState, FlowText, Probe, run_with};
use alcc_units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Default limit on the events of a run, lost packets included. A storm of losses must not hold up
/// the others. The largest published scenario has 5 million.
const MAX_EVENTS: &str = "40000000";
/// Interval of the samples over time.
const SAMPLE_INTERVAL: Span = Span::from_millis(20);

/// Every fifth learned profile is drawn, as in figure 7b of the Verus paper.
const DRAWN_EACH: usize = 5;

/// The result of one run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The names of the choices, one for each axis.
    pub cell: Vec<String>,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// The command that runs the same.
    pub command: String,
    /// Everything besides the command that the run depends on: the program, the files that the
    /// scenario names, and the values that were recorded.
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
    /// Single seconds of each flow, to be drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<Seconds>,
    /// Notes on the results of real programs, such as a machine without idle processors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Error of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Error of an experiment without results.
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

/// Backend of the flows.
#[derive(Clone, Copy)]
pub enum Side<'a> {
    /// The simulator.
    Simulated,
    /// Real programs on emulated links. `alcc_emu::prepare` must have succeeded before.
    Emulated(&'a Tools),
}

/// Earlier runs of the same program, by version and command. Several are repetitions of one command.
#[derive(Debug, Default)]
pub struct StoredRuns {
    runs: BTreeMap<(String, String), VecDeque<Run>>,
    cut_off: bool,
}

impl StoredRuns {
    /// Reads lines of JSON. Skips truncated lines and those of other programs.
    ///
    /// # Errors
    /// The error of the system.
    pub fn read(mut from: impl Read, program: &str) -> io::Result<Self> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        let mut stored = Self {
            cut_off: bytes.last().is_some_and(|last| *last != b'\n'),
            ..Self::default()
        };
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok(run) = serde_json::from_slice::<Run>(line) else {
                continue;
            };
            if run.version.starts_with(program) && run.error.is_none() {
                let key = (run.version.clone(), run.command.clone());
                stored.runs.entry(key).or_default().push_back(run);
            }
        }
        Ok(stored)
    }
}

/// Files of a scenario. Records the file that was opened and is missing.
struct MissingFileRecorder<'a> {
    files: &'a (dyn Files + Sync),
    missing: OnceLock<String>,
}

impl<'a> MissingFileRecorder<'a> {
    fn new(files: &'a (dyn Files + Sync)) -> Self {
        let missing = OnceLock::new();
        Self { files, missing }
    }

    /// The error of a scenario that could not be resolved. That ends at the first file that is
    /// missing; without one, the experiment is wrong.
    fn error(self, wrong: String) -> RunError {
        let missing = self.missing.into_inner();
        missing.map_or(RunError::InvalidExperiment(wrong), RunError::MissingTrace)
    }
}

impl Files for MissingFileRecorder<'_> {
    fn find(&self, name: &str) -> Option<PathBuf> {
        self.files.find(name)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let opened = self.files.open(path);
        let name = path.to_string_lossy();
        // Without a file of its name, a synthetic trace is generated.
        if let Err(e) = &opened
            && e.kind() == io::ErrorKind::NotFound
            && alcc_trace::scenario(&name).is_none()
        {
            self.missing.get_or_init(|| name.into_owned());
        }
        opened
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
    /// Identifies what results depend on besides the scenario and its files: the program's version
    /// and bytes.
    pub version: &'a str,
    /// Number of parallel runs.
    pub workers: usize,
    /// Set to stop.
    pub stop: &'a AtomicBool,
    /// Backend of the flows.
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
        mut stored: StoredRuns,
        store: &mut dyn Write,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Run>, RunError> {
        if let Some(needs) = &plan.needs {
            return Err(RunError::MissingRequirement(needs.clone()));
        }
        let all = plan.runs.len();
        let mut done: Vec<Option<Run>> = vec![None; all];
        let mut missing: Vec<(usize, &PlannedRun, String)> = Vec::new();
        let mut hashes = BTreeMap::new();
        for (number, planned) in plan.runs.iter().enumerate() {
            let version = self.version_of(planned, &mut hashes);
            let key = (version, planned.command.clone());
            match stored.runs.get_mut(&key).and_then(VecDeque::pop_front) {
                // The cells may have been renamed since the run was stored.
                Some(run) => {
                    let (cell, repetition) = (planned.cell.clone(), planned.repetition);
                    done[number] = Some(Run {
                        cell,
                        repetition,
                        ..run
                    });
                }
                None => missing.push((number, planned, key.0)),
            }
        }
        let mut count = all - missing.len();
        progress(count, all);
        // A mistake in the last cell is found before the first has run.
        for (i, (_, planned, _)) in missing.iter().enumerate() {
            let again = i > 0 && missing[i - 1].1.cell == planned.cell;
            if planned.subject == Subject::Flows && !again {
                self.resolve(planned)?;
            }
        }
        let wrong = |e: io::Error| RunError::Storage(alcc_live::reason(&e));
        // What was written last may have been cut off: it must not spoil the next line.
        if stored.cut_off && !missing.is_empty() {
            store.write_all(b"\n").map_err(wrong)?;
        }
        parallel::each(
            &missing,
            self.workers,
            |(_, planned, _)| self.run_one(planned),
            |(number, _, version), run| {
                let version = version.clone();
                let run = Run { version, ..run? };
                let line =
                    serde_json::to_string(&run).map_err(|e| RunError::Storage(e.to_string()))?;
                // All of it at once: a line is there or is not.
                store
                    .write_all((line + "\n").as_bytes())
                    .and_then(|()| store.flush())
                    .map_err(wrong)?;
                done[*number] = Some(run);
                count += 1;
                progress(count, all);
                Ok(())
            },
        )?;
        Ok(done.into_iter().flatten().collect())
    }

    /// Everything besides the command that a run depends on. `hashes` are those of files that were
    /// read before.
    fn version_of(&self, planned: &PlannedRun, hashes: &mut BTreeMap<PathBuf, String>) -> String {
        let mut version = self.version.to_owned();
        planned.scenario.clone().for_each(&mut |key, value| {
            let flows = (key == "flow").then(|| FlowText::all(&value.text).ok());
            let named = alcc_live::named_files(&flows.flatten().unwrap_or_default());
            for path in self.files.find(&value.text).into_iter().chain(named) {
                let hash = hashes
                    .entry(path)
                    .or_insert_with_key(|path| alcc_live::hash_of_files([path.as_path()]));
                version += " ";
                version += &hash[..hash.len().min(16)];
            }
        });
        let watched = [
            (planned.series, " series"),
            (planned.seconds, " seconds"),
            (planned.profiles, " profiles"),
        ];
        for (_, word) in watched.iter().filter(|(watched, _)| *watched) {
            version += word;
        }
        version
    }

    /// The scenario with its algorithms and traces.
    fn resolve(&self, planned: &PlannedRun) -> Result<Resolved, RunError> {
        let recorder = MissingFileRecorder::new(self.files);
        let mut scenario = planned.scenario.clone();
        if scenario.max_events.is_none() {
            scenario.max_events = Some(Value::option("max-events", MAX_EVENTS));
        }
        let resolved = scenario.resolve(self.registry, &recorder);
        resolved.map_err(|wrong| recorder.error(wrong))
    }

    fn run_one(&self, planned: &PlannedRun) -> Result<Run, RunError> {
        if planned.subject == Subject::Channel {
            let recorder = MissingFileRecorder::new(self.files);
            let figures = channel::figures(&planned.scenario, &recorder);
            return Ok(Run {
                cell: planned.cell.clone(),
                repetition: planned.repetition,
                command: planned.command.clone(),
                channel: figures.map_err(|wrong| recorder.error(wrong))?,
                ..Run::default()
            });
        }
        let mut resolved = self.resolve(planned)?;
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
        let seconds = match &report {
            Ok(report) if planned.seconds => (report.flows.iter())
                .map(|flow| Seconds::of(&flow.series))
                .collect(),
            _ => Vec::new(),
        };
        let outcome = report.map_err(|e| e.to_string()).map(|report| {
            (
                simulated::Simulated::rows(&resolved, &report),
                simulated::Summary::of(&report, resolved.settle, &resolved.phases),
            )
        });
        Ok(Run {
            channel: learned,
            profiles: drawn,
            seconds,
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

    /// The error of a run that is impossible with real programs. A missing requirement ends the
    /// experiment.
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
            flows,
            summary,
            error,
            ..Run::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Definition;
    use std::fs;

    struct Folder(PathBuf);

    impl Files for Folder {
        fn find(&self, name: &str) -> Option<PathBuf> {
            Some(self.0.join(name)).filter(|path| path.is_file())
        }

        fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
            Ok(Box::new(fs::File::open(path)?))
        }
    }

    fn trace(at: &Path, step: usize) {
        let lines: Vec<String> = (1..2000).step_by(step).map(|n| n.to_string()).collect();
        fs::write(at.join("a.trace"), lines.join("\n") + "\n").unwrap();
    }

    const TEXT: &str = "title = 't'\nsource = 's'\nstatement = 'x'\nruns = 1\n
[scenario]\nlink = 'a.trace'\nflow = '{scheme}'\nduration = '1s'\n
[[sweep]]\nkey = 'scheme'\n
values = ['fixed:window=9', { name = 'same', scheme = 'fixed:window=9' }]\n";

    /// The runs, and how many were new.
    fn run(at: &Path, text: &str, store: &mut Vec<u8>) -> (Vec<Run>, usize) {
        let definition = Definition::from_toml(text, "e.toml").unwrap();
        let plan = Plan::new(&definition).unwrap();
        let runner = Runner {
            registry: &alcc_zoo::registry(),
            files: &Folder(at.to_owned()),
            version: "alcc 1",
            workers: 2,
            stop: &AtomicBool::new(false),
            side: Side::Simulated,
        };
        let stored = StoredRuns::read(&store[..], runner.version).unwrap();
        let mut known = None;
        let runs = runner.run(&plan, stored, store, &mut |done, _| {
            known.get_or_insert(done);
        });
        let runs = runs.unwrap();
        let new = runs.len() - known.unwrap();
        (runs, new)
    }

    #[test]
    fn cells_with_one_command_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        trace(folder.path(), 1);
        let mut store = Vec::new();
        let (runs, new) = run(folder.path(), TEXT, &mut store);
        let cells: Vec<&str> = runs.iter().map(|run| run.cell[0].as_str()).collect();
        assert_eq!((cells, new), (vec!["fixed:window=9", "same"], 2));
        let (runs, new) = run(folder.path(), TEXT, &mut store);
        assert_eq!((runs.len(), new), (2, 0));
    }

    /// A file that an option of a flow names is one of its inputs.
    #[test]
    fn another_table_of_the_same_name_is_another_run() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table.csv");
        let flow = format!("fixed:window={}", table.display());
        let text = TEXT.replacen("fixed:window=9", &flow, 1);
        let plan = Plan::new(&Definition::from_toml(&text, "e.toml").unwrap()).unwrap();
        let runner = Runner {
            registry: &alcc_zoo::registry(),
            files: &Folder(folder.path().to_owned()),
            version: "alcc 1",
            workers: 1,
            stop: &AtomicBool::new(false),
            side: Side::Simulated,
        };
        let versions = ["1", "2", "1"].map(|content| {
            fs::write(&table, content).unwrap();
            runner.version_of(&plan.runs[0], &mut BTreeMap::new())
        });
        assert_ne!(versions[0], versions[1]);
        assert_eq!(versions[0], versions[2]);
    }

    #[test]
    fn another_trace_of_the_same_name_is_run_again() {
        let folder = tempfile::tempdir().unwrap();
        trace(folder.path(), 1);
        let mut store = Vec::new();
        let (before, _) = run(folder.path(), TEXT, &mut store);
        trace(folder.path(), 9);
        let (after, new) = run(folder.path(), TEXT, &mut store);
        assert_eq!(new, 2);
        assert_ne!(
            before[0].flows[0].throughput_mbps,
            after[0].flows[0].throughput_mbps
        );
        // Both stay: the old trace comes back.
        trace(folder.path(), 1);
        assert_eq!(run(folder.path(), TEXT, &mut store).1, 0);
    }

    /// Figures of TCP's window come from samples, which the stored runs have not.
    #[test]
    fn a_report_that_asks_for_more_is_run_again() {
        let folder = tempfile::tempdir().unwrap();
        trace(folder.path(), 1);
        let mut store = Vec::new();
        let over = TEXT.replace("window=9'", "window=9/over=cubic'");
        run(folder.path(), &over, &mut store);
        let more = over + "[report]\ny = ['tcp_cwnd_median']\n";
        let (runs, new) = run(folder.path(), &more, &mut store);
        assert_eq!(new, 2);
        let median = |run: &Run| run.flows[0].numbers().get("tcp_cwnd_median").copied();
        assert!(median(&runs[0]).is_some(), "{:?}", runs[0].flows);
    }

    #[test]
    fn a_mistake_in_the_last_cell_is_found_before_the_first_runs() {
        let folder = tempfile::tempdir().unwrap();
        trace(folder.path(), 1);
        let text = TEXT.replace(
            "'same', scheme = 'fixed:window=9'",
            "'same', scheme = 'fixd'",
        );
        let plan = Plan::new(&Definition::from_toml(&text, "e.toml").unwrap()).unwrap();
        let runner = Runner {
            registry: &alcc_zoo::registry(),
            files: &Folder(folder.path().to_owned()),
            version: "alcc 1",
            workers: 1,
            stop: &AtomicBool::new(false),
            side: Side::Simulated,
        };
        let mut store = Vec::new();
        let wrong = runner.run(&plan, StoredRuns::default(), &mut store, &mut |_, _| {});
        let Err(RunError::InvalidExperiment(why)) = wrong else {
            panic!("{wrong:?}");
        };
        assert!(why.starts_with("e.toml:") && why.contains("fixd"), "{why}");
        assert!(store.is_empty());
    }

    /// A word that is no rate was taken for a trace that is missing, because the message of the
    /// mistake contains it.
    #[test]
    fn only_a_file_that_was_opened_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        trace(folder.path(), 1);
        for (from, to, missing) in [
            ("'a.trace'", "'12mbitt'", None),
            ("flow = '{scheme}'", "flow = ['{scheme}', 'a.trase']", None),
            ("'a.trace'", "'b.trace'", Some("b.trace")),
            // Generated: only the mistake after it counts.
            ("link = 'a.trace'", "link = 'lte'\nqueue = 'lte'", None),
        ] {
            let text = TEXT.replace(from, to);
            let plan = Plan::new(&Definition::from_toml(&text, "e.toml").unwrap()).unwrap();
            let runner = Runner {
                registry: &alcc_zoo::registry(),
                files: &Folder(folder.path().to_owned()),
                version: "alcc 1",
                workers: 1,
                stop: &AtomicBool::new(false),
                side: Side::Simulated,
            };
            let ended = runner.run(
                &plan,
                StoredRuns::default(),
                &mut Vec::new(),
                &mut |_, _| {},
            );
            match (missing, ended) {
                (None, Err(RunError::InvalidExperiment(_))) => {}
                (Some(name), Err(RunError::MissingTrace(found))) => assert_eq!(found, name),
                (_, ended) => panic!("{to}: {ended:?}"),
            }
        }
    }

    /// With `stop` set, an experiment ends before its first run, but after all its traces were looked for.
    #[test]
    fn without_traces_every_experiment_begins_or_names_the_one_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let runner = Runner {
            registry: &alcc_zoo::registry(),
            files: &Folder(folder.path().to_owned()),
            version: "alcc 1",
            workers: 1,
            stop: &AtomicBool::new(true),
            side: Side::Simulated,
        };
        let mut named = std::collections::BTreeSet::new();
        for entry in crate::catalogue::all() {
            let plan = Plan::new(&entry.definition().unwrap()).unwrap();
            let ended = runner.run(
                &plan,
                StoredRuns::default(),
                &mut Vec::new(),
                &mut |_, _| {},
            );
            match ended {
                Err(RunError::MissingTrace(name)) => drop(named.insert(name)),
                Err(RunError::Interrupted | RunError::MissingRequirement(_)) => (),
                ended => panic!("{}: {ended:?}", entry.id),
            }
        }
        assert!(named.iter().all(|name| name.contains('/')), "{named:?}");
        assert!(named.contains("verus-paper/HighWay.up"), "{named:?}");
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        trace(folder.path(), 1);
        let mut store = Vec::new();
        run(folder.path(), TEXT, &mut store);
        store.truncate(store.len() - 20);
        assert_eq!(run(folder.path(), TEXT, &mut store).1, 1);
        assert_eq!(run(folder.path(), TEXT, &mut store).1, 0);
        // Lines that are not UTF-8 are skipped as well.
        store.splice(0..0, [0xff, 0x00, b'\n']);
        assert_eq!(run(folder.path(), TEXT, &mut store).1, 0);
    }
}
