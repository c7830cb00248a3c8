// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::LabError;
use alcc_emu::PathSpec;
use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_trace::{SCENARIOS, Scenario, Trace, scenario};
use alcc_units::{Rate, Span};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// The scenario of the demo: LTE at 17 Mbit/s with fades and outages.
const DEMO: &str = "lte";

/// A link of an experiment: what is between the server and the client.
#[derive(Clone, Debug)]
pub struct Link {
    /// The row's `link`: file name of the trace without its ending, or the rate.
    pub name: String,
    /// Both directions.
    pub path: PathSpec,
}

impl Link {
    /// The experiments' default around a downlink trace: 20 ms each way, drop-tail of 2,000,000 bytes, uplink of constant
    /// 12 Mbit/s with a queue of the same size.
    pub fn cellular(name: impl Into<String>, down: Trace, seed: u64) -> Self {
        let direction = |rate| DirectionSpec {
            rate,
            queue: QueueSpec::default(),
            delay: Span::from_millis(20),
            loss: 0.0,
        };
        Self {
            name: name.into(),
            path: PathSpec {
                down: direction(RateSpec::Trace(down)),
                up: direction(RateSpec::Fixed(Rate::mbps(12))),
                seed,
            },
        }
    }

    /// The demo's link: the project's own synthetic LTE channel.
    pub fn synthetic(seed: u64) -> Self {
        // A test asks for it: an unknown name would be a slip of ours, and the first scenario no worse a link.
        let scenario = scenario(DEMO).unwrap_or(&SCENARIOS[0]);
        Self::of_scenario(scenario, seed)
    }

    /// [`Link::cellular`] around a scenario of the project's own generator.
    fn of_scenario(scenario: &Scenario, seed: u64) -> Self {
        let name = format!("synth:{}", scenario.name);
        Self::cellular(name, scenario.generate(seed, Scenario::LENGTH), seed)
    }

    /// What a user may call a link: a trace file, or a synthetic scenario as `synth:NAME` or, if there is no such file, as `NAME`.
    ///
    /// # Errors
    /// As [`Link::recorded`]; [`LabError::Trace`] for `synth:` and a name that is none.
    pub fn open(what: &Path, seed: u64) -> Result<Self, LabError> {
        let text = what.to_string_lossy();
        if let Some(name) = text.strip_prefix("synth:") {
            let known = || {
                SCENARIOS
                    .iter()
                    .map(|s| s.name)
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            return match scenario(name) {
                Some(scenario) => Ok(Self::of_scenario(scenario, seed)),
                None => Err(LabError::Trace {
                    path: what.to_owned(),
                    why: format!("no scenario has that name: there are {}", known()),
                }),
            };
        }
        match scenario(&text) {
            Some(scenario) if !what.exists() => Ok(Self::of_scenario(scenario, seed)),
            _ => Self::recorded(what, seed),
        }
    }

    /// [`Link::cellular`] around a trace file.
    ///
    /// # Errors
    /// [`LabError::Os`] if it cannot be opened, [`LabError::Trace`] with the line if it is no trace.
    pub fn recorded(file: &Path, seed: u64) -> Result<Self, LabError> {
        let opened =
            File::open(file).map_err(LabError::os(format!("open the trace {}", file.display())))?;
        let trace = Trace::read(BufReader::new(opened)).map_err(|e| LabError::Trace {
            path: file.to_owned(),
            why: e.to_string(),
        })?;
        let name = file
            .file_name()
            .unwrap_or(file.as_os_str())
            .to_string_lossy();
        let name = name.strip_suffix(".txt").unwrap_or(&name);
        Ok(Self::cellular(name, trace, seed))
    }

    /// One link for each that [`Link::open`] understands; of a folder every file directly in it that is no hidden one and no text about traces (`.md`), by name.
    ///
    /// # Errors
    /// As [`Link::open`]; also if there is none at all.
    pub fn open_all(paths: &[PathBuf], seed: u64) -> Result<Vec<Self>, LabError> {
        let mut files = Vec::new();
        for path in paths {
            if !path.is_dir() {
                files.push(path.clone());
                continue;
            }
            let folder = fs::read_dir(path)
                .map_err(LabError::os(format!("read the folder {}", path.display())))?;
            let mut inside: Vec<PathBuf> = folder
                .flatten()
                .map(|entry| entry.path())
                .filter(|file| file.is_file() && is_trace_name(file))
                .collect();
            inside.sort();
            files.extend(inside);
        }
        if files.is_empty() {
            return Err(LabError::Os {
                attempt: "look for trace files".to_owned(),
                source: io::Error::new(io::ErrorKind::NotFound, "the folders hold none"),
            });
        }
        files.iter().map(|file| Self::open(file, seed)).collect()
    }

    /// Round trip without queueing.
    pub fn min_rtt(&self) -> Span {
        self.path.down.delay + self.path.up.delay
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

fn is_trace_name(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with('.') && !name.ends_with(".md") && !name.ends_with(".csv")
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
    fn a_folder_gives_its_traces_by_name_and_a_bad_one_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        file("b.down", "1\n2\n");
        file("a", "3\n");
        file("README.md", "no trace");
        let paths = [folder.path().to_owned()];
        let links = Link::open_all(&paths, 1).unwrap();
        let names: Vec<_> = links.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["a", "b.down"]);
        assert_eq!(links[0].min_rtt(), Span::from_millis(40));
        file("c", "1\nx\n");
        let error = Link::open_all(&paths, 1).unwrap_err();
        assert!(
            error.to_string().contains("line 2") && error.is_environment(),
            "{error}"
        );
        assert!(Link::open_all(&[tempfile::tempdir().unwrap().path().to_owned()], 1).is_err());
        let named = |name: &str| Link::open(Path::new(name), 1);
        assert_eq!(named("city-driving").unwrap().name, "synth:city-driving");
        assert_eq!(named("synth:rapid").unwrap().name, "synth:rapid");
        let error = named("synth:city-drivin").unwrap_err().to_string();
        assert!(error.contains("city-driving"), "{error}");
        let gone = Link::open(Path::new("/no/such/trace"), 1)
            .unwrap_err()
            .to_string();
        assert!(gone.contains("/no/such/trace"), "{gone}");
    }
}
