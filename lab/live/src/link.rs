// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links of an experiment: rates, traces and synthetic scenarios.
use crate::LabError;
use crate::meter::{Meter, Observed};
use alcc_emu::{Dir, PathSpec};
use alcc_link::{DirectionSpec, QueueSpec, RadioSpec, RateSpec};
use alcc_results::scenario::{parts, random_start, why_not_read};
use alcc_results::{Configured, Row};
use alcc_trace::{SCENARIOS, Scenario, Trace, scenario};
use alcc_units::{Rate, Span, UnitError, positive};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The scenario of the demo: LTE at 17 Mbit/s with fades and outages.
const DEMO: &str = "lte";

/// The direction of the acknowledgements in the experiments.
const UPLINK: Rate = Rate::mbps(12);

/// A link of an experiment: what is between the server and the client.
#[derive(Clone, Debug)]
pub struct Link {
    /// The row's `link`: file name of the trace without its ending, or the rate. Below a folder
    /// that was named, the name has its sub-folders.
    pub name: String,
    /// Specification of both directions.
    pub path: PathSpec,
    /// Offset in its recorded traces, if it does not begin at their start.
    pub trace_start: Option<Span>,
    /// The recordings of both directions.
    pub files: Vec<PathBuf>,
    /// The scenario from which the downlink was generated.
    scenario: Option<&'static Scenario>,
}

/// Parameters of the path around the trace of a downlink.
#[derive(Clone, Debug)]
pub struct PathDefaults {
    /// Round trip without queueing, half of it each way.
    pub rtt: Span,
    /// The queue before each bottleneck.
    pub queue: QueueSpec,
    /// The other direction.
    pub up: Up,
    /// Probability of random loss towards the receivers and on the way back, 0 to 1.
    pub loss: [f64; 2],
    /// Seed of all random numbers of the links, including synthetic traces.
    pub seed: u64,
}

/// The direction that carries the acknowledgements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Up {
    /// The same constant rate everywhere.
    Rate(Rate),
    /// The recording of the other direction: `NAME.up` beside `NAME.down`, and the other way round;
    /// [`Up::default`] where there is none.
    Partner,
    /// This trace.
    Trace(PathBuf),
}

impl Default for Up {
    fn default() -> Self {
        Self::Rate(UPLINK)
    }
}

impl FromStr for Up {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        Ok(match text {
            "partner" => Self::Partner,
            text if text.parse::<Rate>().is_ok() => Self::Rate(positive(text)?),
            file => Self::Trace(file.into()),
        })
    }
}

impl Default for PathDefaults {
    /// The experiments' default: 20 ms each way, drop-tail of 2,000,000 bytes, an uplink of
    /// constant 12 Mbit/s.
    fn default() -> Self {
        Self {
            rtt: Span::from_millis(40),
            queue: QueueSpec::default(),
            up: Up::default(),
            loss: [0.0; 2],
            seed: 1,
        }
    }
}

/// The links below some folders.
#[derive(Clone, Default, Debug)]
pub struct Links {
    /// By name, in the order of the folders.
    pub links: Vec<Link>,
    /// Files that are not traces, with the reason, one line each.
    pub skipped: Vec<String>,
    /// Names of the links that have no recording of their other direction, which was wanted.
    pub without_partner: Vec<String>,
}

impl Links {
    /// Notes for the user about these links, one line each.
    pub fn notes(&self) -> Vec<String> {
        let skipped = self.skipped.iter().map(|file| format!("skipped: {file}"));
        let mut notes: Vec<String> = skipped.collect();
        if let [first, others @ ..] = &self.without_partner[..] {
            let others = match others.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            notes.push(format!(
                "{first}{others} without a partner (a recording of the other direction): the uplink there is {UPLINK}"
            ));
        }
        notes
    }
}

/// Folders inside folders, at most this deep.
const MAX_DEPTH: usize = 8;

impl Link {
    /// The experiments' default around a downlink trace.
    pub fn cellular(name: impl Into<String>, down: Trace, seed: u64) -> Self {
        let defaults = PathDefaults {
            seed,
            ..PathDefaults::default()
        };
        let up = RateSpec::Fixed(UPLINK);
        Self::defaults(name.into(), RateSpec::Trace(down), up, &defaults)
    }

    /// Adds this scenario's radio link. A test checks that all its texts are valid.
    fn on_air(&mut self, scenario: &'static Scenario) {
        self.scenario = Some(scenario);
        let none = || [Vec::new(), Vec::new()];
        let both = RadioSpec::both(none(), scenario.radio).unwrap_or_else(|_| none());
        [self.path.down.radio, self.path.up.radio] = both;
    }

    pub(crate) fn defaults(
        name: String,
        down: RateSpec,
        up: RateSpec,
        defaults: &PathDefaults,
    ) -> Self {
        let direction = |rate, delay, loss| DirectionSpec {
            rate,
            queue: defaults.queue.clone(),
            delay,
            loss,
            ..DirectionSpec::default()
        };
        let there = defaults.rtt / 2;
        Self {
            name,
            path: PathSpec {
                down: direction(down, there, defaults.loss[0]),
                up: direction(up, defaults.rtt - there, defaults.loss[1]),
                seed: defaults.seed,
            },
            trace_start: None,
            files: Vec::new(),
            scenario: None,
        }
    }

    /// A link from a description of both directions.
    pub(crate) fn of(name: &str, path: PathSpec) -> Self {
        Self {
            name: name.to_owned(),
            path,
            trace_start: None,
            files: Vec::new(),
            scenario: None,
        }
    }

    /// The demo's link: the project's own synthetic LTE channel.
    pub fn synthetic(seed: u64) -> Self {
        // A test checks that the name is known. Otherwise the first scenario would do as well.
        let scenario = scenario(DEMO).unwrap_or(&SCENARIOS[0]);
        let mut link = Self::cellular(
            format!("synth:{}", scenario.name),
            scenario.generate(seed, Scenario::LENGTH),
            seed,
        );
        link.on_air(scenario);
        link
    }

    /// The same link with another seed. A synthetic channel is then another channel of its kind,
    /// and a recorded one begins elsewhere. On that nothing else may be random, and repetitions
    /// would be the same to the byte.
    #[must_use]
    pub fn reseeded(&self, seed: u64) -> Self {
        let mut link = self.clone();
        if seed != link.path.seed {
            if let Some(scenario) = link.scenario {
                link.path.down.rate = RateSpec::Trace(scenario.generate(seed, Scenario::LENGTH));
            } else if let RateSpec::Trace(trace) = &link.path.down.rate {
                let at = random_start(trace, seed);
                link.path.down.rate = RateSpec::Trace(trace.begun_at(at));
                if let RateSpec::Trace(up) = &link.path.up.rate {
                    link.path.up.rate = RateSpec::Trace(up.begun_at(at));
                }
                link.trace_start = Some(at);
            }
        }
        link.path.seed = seed;
        link
    }

    /// A link from its name: a rate (`12mbit`), a trace file, or a synthetic scenario as
    /// `synth:NAME`. If there is no such file, `NAME` is a scenario, too. The path around it is the
    /// experiments' default.
    ///
    /// # Errors
    /// [`LabError::Os`] if a file cannot be opened. [`LabError::Trace`] with the line if it is no
    /// trace, and for `synth:` and a name that is none.
    pub fn open(what: &Path, seed: u64) -> Result<Self, LabError> {
        let defaults = PathDefaults {
            seed,
            ..PathDefaults::default()
        };
        Self::open_in(what, &defaults)
    }

    /// [`Link::open`] with something else around it.
    ///
    /// # Errors
    /// The same; also for the uplink's trace.
    pub fn open_in(what: &Path, defaults: &PathDefaults) -> Result<Self, LabError> {
        let text = what.to_string_lossy();
        let named = match text.strip_prefix("synth:") {
            Some(name) => Some(scenario(name).ok_or_else(|| {
                let known: Vec<_> = SCENARIOS.iter().map(|s| s.name).collect();
                LabError::Trace {
                    path: what.to_owned(),
                    why: format!("no scenario has that name: there are {}", known.join(", ")),
                }
            })?),
            None if what.exists() => None,
            None => scenario(&text),
        };
        let (up, partner) = uplink(what, defaults)?;
        if let Some(scenario) = named {
            let trace = scenario.generate(defaults.seed, Scenario::LENGTH);
            let name = format!("synth:{}", scenario.name);
            let mut link = Self::defaults(name, RateSpec::Trace(trace), up, defaults);
            link.files.extend(partner);
            link.on_air(scenario);
            return Ok(link);
        }
        if !what.exists() && text.parse::<Rate>().is_ok() {
            let rate = positive::<Rate>(&text).map_err(|e| LabError::Trace {
                path: what.to_owned(),
                why: e.to_string(),
            })?;
            let mut link = Self::defaults(rate.to_string(), RateSpec::Fixed(rate), up, defaults);
            link.files.extend(partner);
            return Ok(link);
        }
        let trace = RateSpec::Trace(recording(what)?);
        let mut link = Self::defaults(file_name(what), trace, up, defaults);
        link.files.push(what.to_owned());
        link.files.extend(partner);
        Ok(link)
    }

    /// One link for each that [`Link::open`] understands. A folder gives every trace in it and in
    /// its folders, by name. What is in it and is no trace is [`Links::skipped`], hidden files
    /// apart.
    ///
    /// # Errors
    /// As [`Link::open`]; also if there is none at all, or the same one twice.
    pub fn open_all(paths: &[PathBuf], defaults: &PathDefaults) -> Result<Links, LabError> {
        let mut found = Links::default();
        for path in paths {
            if path.is_dir() {
                let mut files = Vec::new();
                walk(path, MAX_DEPTH, &mut files)?;
                for file in files {
                    match Self::open_in(&file, defaults) {
                        Ok(mut link) => {
                            let below = file.strip_prefix(path).unwrap_or(&file);
                            link.name = below.with_file_name(&link.name).display().to_string();
                            found.links.push(link);
                        }
                        Err(e @ LabError::Trace { .. }) => found.skipped.push(e.to_string()),
                        Err(e) => return Err(e),
                    }
                }
                continue;
            }
            let text = path.to_string_lossy();
            // Several links may share an argument that is not the name of a file.
            let several = !path.exists() && text.contains(',');
            if !several {
                // Not by its text: a name need not be UTF-8.
                found.links.push(Self::open_in(path, defaults)?);
                continue;
            }
            let typed = parts(&text, "trace").map_err(|why| LabError::Traces {
                list: text.to_string(),
                why,
            })?;
            for part in typed {
                found.links.push(Self::open_in(Path::new(&part), defaults)?);
            }
        }
        if found.links.is_empty() {
            let looked: Vec<_> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let why = match found.skipped.first() {
                Some(first) => format!("there is no trace in it: {first}"),
                None => "there is no file in it: name a folder of traces, or a synthetic link such as synth:lte".to_owned(),
            };
            return Err(LabError::Traces {
                list: looked.join(" "),
                why,
            });
        }
        if defaults.up == Up::Partner {
            let without = |l: &&Self| !matches!(l.path.up.rate, RateSpec::Trace(_));
            let without = found.links.iter().filter(without);
            found.without_partner = without.map(|l| l.name.clone()).collect();
        }
        let mut names: Vec<&str> = found.links.iter().map(|l| l.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return Err(LabError::Trace {
                path: twice[0].into(),
                why: "there are two of that name: name the folder above both".to_owned(),
            });
        }
        Ok(found)
    }

    /// Round trip without queueing.
    pub fn min_rtt(&self) -> Span {
        self.path.down.delay + self.path.up.delay
    }

    /// The measurement of `meter` at the bottleneck of the downlink; `None` without any full-size
    /// packet.
    pub fn observed(&self, meter: &Meter) -> Option<Observed> {
        let model = self.path.model(Dir::Down);
        meter.finish(|from, to| model.opportunity_bytes(from, to))
    }

    /// The fields of a row about its link.
    pub(crate) fn row(&self, duration: Span, run: u32) -> Row {
        let mut row = Row {
            link: self.name.clone(),
            queue: self.path.down.queue.to_string(),
            min_rtt_ms: Some(self.min_rtt().as_millis_f64()),
            duration_s: duration.as_secs_f64(),
            seed: self.path.seed,
            run,
            ..Row::default()
        };
        self.configured().fill(&mut row);
        row
    }

    /// The parameters of the path around the downlink.
    pub(crate) fn configured(&self) -> Configured {
        let PathSpec { down, up, .. } = &self.path;
        let radio = |direction: &DirectionSpec| {
            let kinds: Vec<String> = direction.radio.iter().map(ToString::to_string).collect();
            (!kinds.is_empty()).then(|| kinds.join(" "))
        };
        Configured {
            loss: [Some(down.loss), Some(up.loss)],
            up: match &up.rate {
                RateSpec::Fixed(rate) => Some(rate.to_string()),
                RateSpec::Trace(_) => Some("trace".to_owned()),
                RateSpec::Unlimited => None,
            },
            radio: [radio(down), radio(up)],
            ..Configured::default()
        }
    }

    /// The path in one line, for the report.
    pub fn describe(&self) -> String {
        format!(
            "link {} · round trip {} · queue {}",
            self.name,
            self.min_rtt(),
            self.path.down.queue
        )
    }
}

pub(crate) fn recording(file: &Path) -> Result<Trace, LabError> {
    let opened =
        File::open(file).map_err(LabError::os(format!("open the trace {}", file.display())))?;
    Trace::read(BufReader::new(opened)).map_err(|e| LabError::Trace {
        path: file.to_owned(),
        why: why_not_read(&e),
    })
}

fn file_name(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    let name = name.to_string_lossy();
    name.strip_suffix(".txt").unwrap_or(&name).to_owned()
}

/// The way back, and its recording.
fn uplink(down: &Path, defaults: &PathDefaults) -> Result<(RateSpec, Option<PathBuf>), LabError> {
    Ok(match &defaults.up {
        Up::Rate(rate) => (RateSpec::Fixed(*rate), None),
        Up::Trace(file) => {
            let mut link = Link::open(file, defaults.seed)?;
            match link.path.down.rate {
                RateSpec::Fixed(_) | RateSpec::Unlimited => (RateSpec::Fixed(UPLINK), None),
                trace => (trace, link.files.pop()),
            }
        }
        Up::Partner => match partner(down) {
            Some(file) if file.is_file() => (RateSpec::Trace(recording(&file)?), Some(file)),
            _ => (RateSpec::Fixed(UPLINK), None),
        },
    })
}

/// The name of the recording of the other direction, if this name contains its direction.
pub(crate) fn partner(file: &Path) -> Option<PathBuf> {
    let other = match file.extension()?.to_str()? {
        "down" => "up",
        "up" => "down",
        _ => return None,
    };
    Some(file.with_extension(other))
}

/// Every file below `folder` that is not hidden, by name.
pub(crate) fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), LabError> {
    let read = || LabError::os::<io::Error>(format!("read the folder {}", folder.display()));
    let mut inside: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(read())?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()
        .map_err(read())?;
    inside.sort();
    for path in inside {
        let hidden = path
            .file_name()
            .is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        if path.is_file() {
            files.push(path);
        } else if path.is_dir() && depth > 0 {
            walk(&path, depth - 1, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_link_is_the_scenario_that_it_says() {
        assert!(scenario(DEMO).is_some());
        let link = Link::synthetic(1);
        assert_eq!(link.name, "synth:lte");
        let RateSpec::Trace(trace) = link.path.down.rate else {
            panic!("the downlink follows a trace");
        };
        let mbps = trace.mean_rate().as_mbps_f64();
        assert!((10.0..25.0).contains(&mbps), "{mbps}");
    }

    #[test]
    fn a_folder_gives_its_traces_by_name_and_what_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("deep/er")).unwrap();
        let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        file("b.down", "1\n2\n");
        file("b.up", "1\n5\n");
        file("deep/er/a.txt", "3\n");
        file("README.md", "no trace");
        file(".hidden", "no trace");
        file("c", "1\nx\n");
        let paths = [folder.path().to_owned()];
        let defaults = PathDefaults {
            up: Up::Partner,
            ..PathDefaults::default()
        };
        let found = Link::open_all(&paths, &defaults).unwrap();
        let names: Vec<_> = found.links.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["b.down", "b.up", "deep/er/a"]);
        assert_eq!(found.links[0].min_rtt(), Span::from_millis(40));
        let up = |n: usize| match &found.links[n].path.up.rate {
            RateSpec::Trace(trace) => trace.opportunities().to_vec(),
            _ => Vec::new(),
        };
        assert_eq!((up(0), up(1)), (vec![1, 5], vec![1, 2]));
        assert!(matches!(found.links[2].path.up.rate, RateSpec::Fixed(_)));
        assert_eq!(found.without_partner, [found.links[2].name.clone()]);
        assert_eq!(
            found.notes()[2],
            "deep/er/a without a partner (a recording of the other direction): the uplink there is 12mbit"
        );
        assert_eq!(found.skipped.len(), 2);
        assert!(
            found.skipped[0].contains("README.md"),
            "{:?}",
            found.skipped
        );
        assert!(found.skipped[1].contains("line 2"), "{:?}", found.skipped);
        // Named itself it is an error.
        let named = |paths: &[PathBuf]| Link::open_all(paths, &defaults);
        let error = named(&[folder.path().join("c")]).unwrap_err();
        assert!(
            error.to_string().contains("line 2") && error.is_environment(),
            "{error}"
        );
        assert!(named(&[tempfile::tempdir().unwrap().path().to_owned()]).is_err());
        let twice = named(&[folder.path().join("b.up"), folder.path().join("b.up")]);
        assert!(twice.unwrap_err().to_string().contains("two of that name"));
    }

    #[test]
    fn links_by_other_names() {
        let named = |name: &str| Link::open(Path::new(name), 1);
        assert_eq!(named("city-driving").unwrap().name, "synth:city-driving");
        assert_eq!(named("synth:rapid").unwrap().name, "synth:rapid");
        let fixed = named("12mbit").unwrap();
        assert!(matches!(fixed.path.down.rate, RateSpec::Fixed(r) if r == Rate::mbps(12)));
        let error = named("synth:city-drivin").unwrap_err().to_string();
        assert!(error.contains("city-driving"), "{error}");
        let gone = named("/no/such/trace").unwrap_err().to_string();
        assert!(gone.contains("/no/such/trace"), "{gone}");
        let several =
            Link::open_all(&["synth:lte,rapid".into()], &PathDefaults::default()).unwrap();
        let names: Vec<_> = several.links.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["synth:lte", "synth:rapid"]);
        // Another seed, another channel of that kind; the same seed, the same channel.
        let trace = |link: &Link| match &link.path.down.rate {
            RateSpec::Trace(trace) => trace.clone(),
            _ => panic!("a trace"),
        };
        let [one, other] = [1, 2].map(|seed| trace(&several.links[0].reseeded(seed)));
        assert_eq!(one, trace(&several.links[0]));
        assert_ne!(one, other);
        assert_eq!(
            other,
            trace(&Link::open(Path::new("synth:lte"), 2).unwrap())
        );
    }
}
