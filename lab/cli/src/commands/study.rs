// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The study of a comparison: traces, schemes and parameters, from options and a file.
use crate::failure::Failure;
use alcc_cc::Registry;
use alcc_live::{Link, Links, PathDefaults, Scheme, Side, Up, parts};
use alcc_results::scenario::{self, StudyOptions, Value, probability};
use alcc_sim::{FlowSpec, Timing};
use alcc_units::Span;
use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Default schemes: the kernel's algorithms, BBR with a limit of unsent data (`sysctl`), and this
/// project's algorithms over TCP. The default algorithm of `alcc run` is one of them.
pub(crate) const SCHEMES: &str =
    "cubic,bbr,bbr/lowat=16384B,verus/over=cubic,copa/over=cubic,budget/over=cubic";

/// A study with all values parsed.
pub(super) struct Study {
    /// The options of the command line and the file, as text.
    pub(super) options: StudyOptions,
    /// The traces, each with its location in the file.
    pub(super) traces: Vec<(PathBuf, Option<Value>)>,
    /// Paths around the traces: one for each combination of round-trip time and queue.
    around: Vec<PathDefaults>,
    /// Length of each measurement.
    pub(super) duration: Span,
    /// Repetitions, if given.
    pub(super) runs: Option<u32>,
    /// Offset in the trace at which every run begins, if given.
    pub(super) start: Option<Span>,
    /// Time from the start of the window that fairness excludes.
    pub(super) settle: Span,
}

impl Study {
    /// Reads the study of a file, of the command line's traces and options, or of both. The command
    /// line overrides the file.
    pub(super) fn of(
        path: Option<&Path>,
        typed: &[PathBuf],
        options: &StudyOptions,
    ) -> Result<Self, Failure> {
        let mut file = match path {
            None => scenario::Study::default(),
            Some(path) => alcc_files::read_study(path).map_err(Failure::usage)?,
        };
        let folder = path.and_then(Path::parent);
        let beside = |text: &str| {
            let file = folder.map(|folder| folder.join(text));
            let file = file.filter(|file| file.exists());
            file.unwrap_or_else(|| text.into())
        };
        if let Some(up) = &mut file.options.up {
            up.text = beside(&up.text).display().to_string();
        }
        // ALCC_TRACES is a default, so the file overrides it.
        let are_typed = std::env::var_os("ALCC_TRACES").is_none_or(|all| typed != [all]);
        let own = file
            .traces
            .into_iter()
            .map(|it| (beside(&it.text), Some(it)));
        let mut traces: Vec<_> = own.collect();
        if traces.is_empty() || (are_typed && !typed.is_empty()) {
            traces = typed.iter().map(|path| (path.clone(), None)).collect();
        }
        if traces.is_empty() {
            let study = path.unwrap_or_else(|| Path::new("study")).display();
            return Err(Failure::usage(format!(
                "{study}: it has no traces: write them, such as traces = [\"walk.down\", \"12mbit\"]"
            )));
        }
        Self::read(file.options.overridden_by(options.clone()), traces).map_err(Failure::usage)
    }

    fn read(options: StudyOptions, traces: Vec<(PathBuf, Option<Value>)>) -> Result<Self, String> {
        let loss = |value: &Option<Value>| match value {
            None => Ok(0.0),
            Some(value) => probability(&value.text).map_err(|e| value.error(e)),
        };
        let loss = [loss(&options.loss)?, loss(&options.loss_up)?];
        let up = options
            .up
            .as_ref()
            .map_or_else(|| Ok(Up::default()), Value::parse)?;
        let seed = options.seed.as_ref().map_or(Ok(1), Value::parse)?;
        let standard = PathDefaults::default();
        let rtts = several(&options.rtt, "round-trip time", standard.rtt)?;
        let queues = several(&options.queue, "queue", standard.queue)?;
        let mut around = Vec::new();
        for rtt in rtts {
            for queue in queues.clone() {
                let up = up.clone();
                around.push(PathDefaults {
                    rtt,
                    queue,
                    up,
                    loss,
                    seed,
                });
            }
        }
        let duration = match &options.duration {
            None => Span::from_secs(60),
            Some(value) => in_hour(value.parse()?).map_err(|e| value.error(e))?,
        };
        let runs = options.runs.as_ref().map(|value| {
            let runs = value
                .text
                .parse()
                .ok()
                .filter(|runs| (1..=1000).contains(runs));
            runs.ok_or_else(|| value.error(format!("'{}': want 1 to 1000", value.text)))
        });
        let start = options.start.as_ref().map(Value::parse).transpose()?;
        let settle = match &options.settle {
            None => Span::from_secs(20),
            Some(value) => within(value.parse()?, duration).map_err(|e| value.error(e))?,
        };
        Ok(Self {
            duration,
            runs: runs.transpose()?,
            start,
            settle,
            around,
            traces,
            options,
        })
    }

    /// Each trace with each path around it. If there are several round-trip times or queues, the
    /// link's name includes them.
    pub(super) fn links(&self) -> Result<Links, Failure> {
        let paths: Vec<PathBuf> = self.traces.iter().map(|(path, _)| path.clone()).collect();
        let mut all = Links::default();
        let standard = &self.around[0];
        if let (Up::Trace(file), Some(up)) = (&standard.up, &self.options.up) {
            Link::open(file, standard.seed).map_err(|e| Failure::usage(up.error(e)))?;
        }
        let differ = |f: fn(&PathDefaults) -> String| {
            let first = f(standard);
            self.around.iter().any(|around| f(around) != first)
        };
        let (rtts, queues) = (
            differ(|a| a.rtt.to_string()),
            differ(|a| a.queue.to_string()),
        );
        for around in &self.around {
            let found = Link::open_all(&paths, around).map_err(|error| {
                // Finds the trace in the file that causes the error.
                let of = |path: &PathBuf| Link::open_all(std::slice::from_ref(path), around).err();
                let mut wrong = self.traces.iter();
                let wrong = wrong.find_map(|(path, value)| Some((value.as_ref()?, of(path)?)));
                Failure::usage(match wrong {
                    Some((value, why)) => value.error(why),
                    None => error.to_string(),
                })
            })?;
            for mut link in found.links {
                if rtts {
                    let _ = write!(link.name, " rtt={}", around.rtt);
                }
                if queues {
                    let _ = write!(link.name, " queue={}", around.queue);
                }
                all.links.push(link);
            }
            all.skipped = found.skipped;
            all.without_partner = found.without_partner;
        }
        Ok(all)
    }

    /// The schemes, each with the cross traffic.
    pub(super) fn schemes(
        &self,
        registry: &Registry,
        sides: &[Side],
    ) -> Result<Vec<Scheme>, Failure> {
        let standard = [Value::option("schemes", SCHEMES)];
        let values = match &self.options.schemes[..] {
            [] => &standard,
            some => some,
        };
        let mut all = Vec::new();
        if let Some(cross) = &self.options.cross {
            FlowSpec::parse(&cross.text, registry, Timing::default())
                .map_err(|e| Failure::usage(cross.error(e)))?;
        }
        for value in values {
            let mut text = value.text.clone();
            if let Some(cross) = &self.options.cross {
                let parts = parts(&text, "scheme").map_err(|e| Failure::usage(value.error(e)))?;
                let beside = parts.iter().map(|part| format!("{part}+{}", cross.text));
                text = beside.collect::<Vec<_>>().join(",");
            }
            let read = Scheme::list(&text, registry, sides);
            all.extend(read.map_err(|e| Failure::usage(value.error(e)))?);
        }
        Scheme::differ(&all).map_err(Failure::usage)?;
        Ok(all)
    }
}

/// The values of one or several lists, each once; `standard` if there are none.
fn several<T: FromStr<Err: Display> + Display>(
    values: &[Value],
    what: &str,
    standard: T,
) -> Result<Vec<T>, String> {
    let mut all = Vec::new();
    for value in values {
        for text in parts(&value.text, what).map_err(|e| value.error(e))? {
            let location = value.location.clone();
            let one = Value { text, location };
            let read: T = one.parse()?;
            let is_it = |other: &T| other.to_string() == read.to_string();
            if all.iter().any(is_it) {
                return Err(one.error(format!(
                    "'{}' is given twice; 'alcc-lab compare --runs N' repeats",
                    one.text
                )));
            }
            all.push(read);
        }
    }
    if all.is_empty() {
        all.push(standard);
    }
    Ok(all)
}

/// Checks that a whole second follows the settling time, because fairness is of whole seconds.
fn within(settle: Span, duration: Span) -> Result<Span, String> {
    match settle + Span::from_secs(1) <= duration {
        true => Ok(settle),
        false => Err(format!(
            "'{settle}': no whole second follows in a window of {duration}: give a shorter one, or a longer duration"
        )),
    }
}

/// Checks that a duration is 1 s to 1 h, the longest time for which delays are measured.
pub(crate) fn in_hour(duration: Span) -> Result<Span, String> {
    match (Span::from_secs(1)..=Span::from_secs(3_600)).contains(&duration) {
        true => Ok(duration),
        false => Err(format!("'{duration}': want 1s to 3600s")),
    }
}
