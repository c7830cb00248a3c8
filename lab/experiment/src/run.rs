// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of an experiment: simulated, or of real programs.
use crate::channel;
use crate::definition::Subject;
use crate::plan::{Plan, PlannedRun};
use crate::seconds::Seconds;
use alcc_cc::Registry;
use alcc_live::cells::{Cells, Outcome, Store};
use alcc_live::simulated::GoOn;
use alcc_live::twin::Real;
use alcc_live::{LabError, Tools, applications};
use alcc_results::scenario::{Files, Resolved, Value};
use alcc_results::{DrawnProfile, Profiles, Row, simulated};
use alcc_sim::{FlowState, FlowText, Probe, run_with};
use alcc_units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read};
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

impl Run {
    /// With the rows and the summary, or why it failed.
    fn of(outcome: Result<(Vec<Row>, simulated::Summary), String>) -> Self {
        let (flows, summary, error) = match outcome {
            Ok((flows, summary)) => (flows, Some(summary), None),
            Err(why) => (Vec::new(), None, Some(why)),
        };
        Self {
            flows,
            summary,
            error,
            ..Self::default()
        }
    }
}

impl Outcome for Run {
    fn has_failed(&self) -> bool {
        self.error.is_some()
    }
}

/// Backend of the flows.
#[derive(Clone, Copy)]
pub enum Side<'a> {
    /// The simulator.
    Simulated,
    /// Real programs on emulated links. `alcc_emu::prepare` must have succeeded before.
    Emulated(&'a Tools),
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
    fn error(self, wrong: String) -> LabError {
        let missing = self.missing.into_inner();
        missing.map_or(LabError::Experiment(wrong), LabError::NoTrace)
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
    /// All runs of `plan`, in its order. With `keep`, a folder, those that are stored there are not
    /// run again, and new ones are stored. `progress` is called with the number of finished runs.
    ///
    /// # Errors
    /// [`LabError::Needs`] and [`LabError::NoTrace`] if something is missing for the experiment,
    /// [`LabError::Experiment`] if it is wrong, and as [`Cells::run`].
    pub fn run(
        &self,
        plan: &Plan,
        keep: Option<&Path>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Run>, LabError> {
        if let Some(needs) = &plan.needs {
            return Err(LabError::Needs(needs.clone()));
        }
        let store = keep.map(|folder| Store {
            folder: folder.to_owned(),
            program: self.version.to_owned(),
        });
        let mut hashes = BTreeMap::new();
        let versions = plan.runs.iter().map(|p| self.version_of(p, &mut hashes));
        let versions: Vec<String> = versions.collect();
        // Several may be repetitions of one command.
        let mut times: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        let mut cells = Cells::find(store, plan.runs.len(), |n| {
            let (version, command) = (&*versions[n], &*plan.runs[n].command);
            let time = times.entry((version, command)).or_default();
            *time += 1;
            format!("{command} {version} {time}")
        })?;
        // A mistake in the last cell is found before the first has run.
        let mut missing = cells.missing();
        missing.dedup_by(|a, b| plan.runs[*a].cell == plan.runs[*b].cell);
        for planned in missing.into_iter().map(|n| &plan.runs[n]) {
            if planned.subject == Subject::Flows {
                self.resolve(planned)?;
            }
        }
        let run = |n: usize, _: GoOn<'_>| self.run_one(&plan.runs[n]);
        let runs = cells.run(self.workers, self.stop, run, &mut |done, _, _| {
            progress(done);
        })?;
        let planned = plan.runs.iter().zip(versions);
        // The cells may have been renamed since a run was stored.
        let named = runs
            .into_iter()
            .zip(planned)
            .map(|(run, (p, version))| Run {
                cell: p.cell.clone(),
                repetition: p.repetition,
                command: p.command.clone(),
                version,
                ..run
            });
        Ok(named.collect())
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
    fn resolve(&self, planned: &PlannedRun) -> Result<Resolved, LabError> {
        let recorder = MissingFileRecorder::new(self.files);
        let mut scenario = planned.scenario.clone();
        if scenario.max_events.is_none() {
            scenario.max_events = Some(Value::option("max-events", MAX_EVENTS));
        }
        let resolved = scenario.resolve(self.registry, &recorder);
        resolved.map_err(|wrong| recorder.error(wrong))
    }

    fn run_one(&self, planned: &PlannedRun) -> Result<Run, LabError> {
        if planned.subject == Subject::Channel {
            let recorder = MissingFileRecorder::new(self.files);
            let figures = channel::figures(&planned.scenario, &recorder);
            return Ok(Run {
                channel: figures.map_err(|wrong| recorder.error(wrong))?,
                ..Run::default()
            });
        }
        let mut resolved = self.resolve(planned)?;
        if let Side::Emulated(tools) = self.side {
            return self.emulate(planned, &resolved, tools);
        }
        if let Subject::Application(name) = planned.subject {
            return Err(LabError::Needs(format!(
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
            return Err(LabError::Stopped);
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
            ..Run::of(outcome)
        })
    }

    /// Runs the flows as real programs. What these cannot do is the error of the run.
    fn emulate(
        &self,
        planned: &PlannedRun,
        resolved: &Resolved,
        tools: &Tools,
    ) -> Result<Run, LabError> {
        let real = Real::of(&resolved.link, &resolved.scenario, self.registry);
        if let Subject::Application(name) = planned.subject {
            return self.apply(real, name, tools);
        }
        let emulate =
            |real: Real| real.emulate(resolved.settle, &resolved.phases, tools, self.stop);
        match real.and_then(emulate) {
            Err(e) => not_emulated(e),
            Ok((rows, summary, notes)) => Ok(Run {
                notes,
                ..Run::of(Ok((rows, summary)))
            }),
        }
    }

    /// Runs a real application.
    fn apply(
        &self,
        real: Result<Real, LabError>,
        name: &str,
        tools: &Tools,
    ) -> Result<Run, LabError> {
        let application = applications::find(name)
            .ok_or_else(|| LabError::Experiment(format!("no application '{name}'")))?;
        match real.and_then(|real| real.apply(application, tools, self.stop)) {
            Err(e) => not_emulated(e),
            Ok(shown) => Ok(Run {
                channel: shown.figures,
                notes: shown.notes,
                ..Run::default()
            }),
        }
    }
}

/// The run that is impossible with real programs. A missing requirement ends the experiment.
fn not_emulated(why: LabError) -> Result<Run, LabError> {
    match why {
        LabError::Stopped => Err(why),
        LabError::Twin { .. } | LabError::Run { .. } | LabError::Scheme { .. } => {
            Ok(Run::of(Err(why.to_string())))
        }
        _ => Err(LabError::Needs(why.to_string())),
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

    /// The runs, and how many were new. The folder is also that of the stored ones.
    fn run(at: &Path, text: &str) -> (Vec<Run>, usize) {
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
        let mut known = None;
        let runs = runner.run(&plan, Some(&at.join("runs")), &mut |done| {
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
        let (runs, new) = run(folder.path(), TEXT);
        let cells: Vec<&str> = runs.iter().map(|run| run.cell[0].as_str()).collect();
        assert_eq!((cells, new), (vec!["fixed:window=9", "same"], 2));
        let (runs, new) = run(folder.path(), TEXT);
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
        let (before, _) = run(folder.path(), TEXT);
        trace(folder.path(), 9);
        let (after, new) = run(folder.path(), TEXT);
        assert_eq!(new, 2);
        assert_ne!(
            before[0].flows[0].throughput_mbps,
            after[0].flows[0].throughput_mbps
        );
        // Both stay: the old trace comes back.
        trace(folder.path(), 1);
        assert_eq!(run(folder.path(), TEXT).1, 0);
    }

    /// Figures of TCP's window come from samples, which the stored runs have not.
    #[test]
    fn a_report_that_asks_for_more_is_run_again() {
        let folder = tempfile::tempdir().unwrap();
        trace(folder.path(), 1);
        let over = TEXT.replace("window=9'", "window=9/over=cubic'");
        run(folder.path(), &over);
        let more = over + "[report]\ny = ['tcp_cwnd_median']\n";
        let (runs, new) = run(folder.path(), &more);
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
        let mut begun = false;
        let wrong = runner.run(&plan, None, &mut |_| begun = true);
        let Err(LabError::Experiment(why)) = wrong else {
            panic!("{wrong:?}");
        };
        assert!(why.starts_with("e.toml:") && why.contains("fixd"), "{why}");
        assert!(!begun);
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
            let ended = runner.run(&plan, None, &mut |_| {});
            match (missing, ended) {
                (None, Err(LabError::Experiment(_))) => {}
                (Some(name), Err(LabError::NoTrace(found))) => assert_eq!(found, name),
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
            let ended = runner.run(&plan, None, &mut |_| {});
            match ended {
                Err(LabError::NoTrace(name)) => drop(named.insert(name)),
                Err(LabError::Stopped | LabError::Needs(_)) => (),
                ended => panic!("{}: {ended:?}", entry.id),
            }
        }
        assert!(named.iter().all(|name| name.contains('/')), "{named:?}");
        assert!(named.contains("verus-paper/HighWay.up"), "{named:?}");
    }
}
