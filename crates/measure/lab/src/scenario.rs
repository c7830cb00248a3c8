// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated scenario as people write it: options of the command line, a TOML file, or both. What is said is kept as words
//! with the place where it was said until all of it is known; then it is understood, and a mistake is named with its place.
mod changes;
mod file;

use crate::error::reason;
use crate::link::drawn_start;
use alcc_cc::Registry;
use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_sim::{FlowSpec, LinkSpec, Scenario, Timing};
use alcc_trace::Trace;
use alcc_units::{Rate, Span, positive, want_number};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Something said, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// As written.
    pub text: String,
    /// Of an option: `--rtt`. Of a file: its name, line and key.
    pub place: String,
}

impl Word {
    /// The value of an option of the command line.
    pub fn option(name: &str, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            place: format!("--{name}"),
        }
    }

    fn wrong(&self, why: impl Display) -> String {
        format!("{}: {why}", self.place)
    }

    fn read<T: std::str::FromStr<Err: Display>>(&self) -> Result<T, String> {
        self.text
            .parse()
            .map_err(|e: T::Err| self.wrong(want_number(&e.to_string())))
    }
}

/// What is said of a scenario. `None` and empty lists: nothing. Options of the command line and keys of a file have the same
/// names and meanings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words {
    /// `link`: the bottleneck, or the links of a chain.
    pub link: Vec<LinkWords>,
    /// What is said of all links that do not say it of themselves.
    pub each: LinkWords,
    /// `rtt`: the round trip over all links without queueing.
    pub rtt: Option<Word>,
    /// `flow`: who sends.
    pub flow: Vec<Word>,
    /// `duration`: length of the measured window.
    pub duration: Option<Word>,
    /// `seed`: of everything random.
    pub seed: Option<Word>,
    /// `start`: where in recorded traces the links begin.
    pub start: Option<Word>,
    /// `settle`: fairness of single seconds counts from so long after the window's begin.
    pub settle: Option<Word>,
    /// `lateness`: above TCP, by how much a reading is late at least.
    pub lateness: Option<Word>,
    /// `jitter`: by how much more at most.
    pub jitter: Option<Word>,
    /// `wake`: from the opening of the gate to the program's next write.
    pub wake: Option<Word>,
    /// `max-events`: when to give up.
    pub max_events: Option<Word>,
    /// Where the file is that said it: traces are looked for there first.
    pub folder: Option<PathBuf>,
}

/// Opens a trace file, or makes the synthetic trace of that name with this seed.
pub type OpenTrace<'a> = &'a dyn Fn(&str, u64) -> Result<LinkTrace, String>;

/// A trace that was asked for.
#[derive(Clone, Debug)]
pub struct LinkTrace {
    /// What to call it.
    pub name: String,
    /// Its opportunities.
    pub trace: Trace,
    /// From a file: another seed gives no other trace.
    pub recorded: bool,
}

/// What is said of a link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkWords {
    /// `link`, in a table `rate`: a rate or a trace.
    pub rate: Option<Word>,
    /// `up`: the rate or trace of the way back; without one nothing limits it.
    pub up: Option<Word>,
    /// `delay`: propagation in each direction; without one the link takes its part of `rtt`.
    pub delay: Option<Word>,
    /// `queue`.
    pub queue: Option<Word>,
    /// `queue-up`; as `queue` if not given.
    pub queue_up: Option<Word>,
    /// `loss`: probability of random loss towards the receivers.
    pub loss: Option<Word>,
    /// `loss-up`; none if not given.
    pub loss_up: Option<Word>,
    /// `step`: changes at a time, in both directions (`loss-up`: on the way back alone); rates only where there is a bottleneck.
    pub step: Vec<Word>,
    /// `steps`: changes from a CSV file, or drawn with the seed.
    pub steps: Option<Word>,
    /// `repeat`: after so long the link is as at its start and the steps come again.
    pub repeat: Option<Word>,
    /// `reorder`: yes if a delay that becomes shorter reorders packets.
    pub reorder: Option<Word>,
}

/// A scenario, understood.
pub struct Described {
    /// What to call the bottleneck; the links of a chain in order.
    pub link: String,
    /// What is to be run.
    pub scenario: Scenario,
    /// The flows as written, in order.
    pub flows: Vec<String>,
    /// From when on the fairness of single seconds counts.
    pub settle: Span,
    /// Where in its recorded trace the first link that has one begins.
    pub trace_start: Option<Span>,
}

const RTT: Span = Span::from_millis(40);
const SETTLE: Span = Span::from_secs(20);
/// With this seed recorded traces begin at their beginning.
const SEED: u64 = 1;

impl Words {
    /// Reads a file.
    ///
    /// # Errors
    /// One line: the file, the line in it, what was found and what was expected.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("read the scenario {name}: {}", reason(&e)))?;
        let mut words = file::parse(&text, &name)?;
        words.folder = path.parent().map(Path::to_owned);
        Ok(words)
    }

    /// What `other` says counts more; its links or flows replace ours.
    #[must_use]
    pub fn overruled_by(self, other: Self) -> Self {
        Self {
            link: if other.link.is_empty() {
                self.link
            } else {
                other.link
            },
            each: self.each.overruled_by(other.each),
            rtt: other.rtt.or(self.rtt),
            flow: if other.flow.is_empty() {
                self.flow
            } else {
                other.flow
            },
            duration: other.duration.or(self.duration),
            seed: other.seed.or(self.seed),
            start: other.start.or(self.start),
            settle: other.settle.or(self.settle),
            lateness: other.lateness.or(self.lateness),
            jitter: other.jitter.or(self.jitter),
            wake: other.wake.or(self.wake),
            max_events: other.max_events.or(self.max_events),
            folder: other.folder.or(self.folder),
        }
    }

    /// Understands it. `open` reads traces.
    ///
    /// # Errors
    /// One line: the place, what is wrong there, what would be right.
    pub fn understood(
        &self,
        registry: &Registry,
        open: OpenTrace<'_>,
    ) -> Result<Described, String> {
        let seed = match &self.seed {
            Some(word) => word.read()?,
            None => SEED,
        };
        let start = self.start.as_ref().map(Word::read).transpose()?;
        let begin = |trace: &Trace| match start {
            Some(at) => at,
            None if seed == SEED => Span::ZERO,
            None => drawn_start(trace, seed),
        };
        let mut timing = Timing::default();
        for (word, value) in [
            (&self.lateness, &mut timing.lateness),
            (&self.jitter, &mut timing.jitter),
            (&self.wake, &mut timing.wake),
        ] {
            if let Some(word) = word {
                *value = word.read()?;
            }
        }
        let (mut flows, mut texts) = (Vec::new(), Vec::new());
        for word in &self.flow {
            let parsed =
                FlowSpec::parse(&word.text, registry, timing).map_err(|e| word.wrong(e))?;
            texts.push(word.text.clone());
            flows.extend(parsed);
        }
        let mut names = Vec::new();
        let mut links = Vec::new();
        let mut trace_start = None;
        for link in &self.link {
            let link = self.each.clone().overruled_by(link.clone());
            let (name, spec, at) = self.link(&link, seed, open, &begin)?;
            names.push(name);
            links.push(spec);
            trace_start = trace_start.or(at);
        }
        if let (Some(word), None) = (&self.start, trace_start) {
            return Err(word.wrong("no link follows a recorded trace that could begin elsewhere"));
        }
        let rtt = self.rtt.as_ref().map(Word::read).transpose()?;
        let flows = self.round_trips(rtt, &mut links, flows)?;
        let mut scenario = Scenario::one_link(DirectionSpec::default(), DirectionSpec::default());
        scenario.links = links;
        scenario.flows = flows;
        scenario.seed = seed;
        if let Some(word) = &self.duration {
            scenario.duration = positive(&word.text).map_err(|e| word.wrong(e))?;
        }
        if let Some(word) = &self.max_events {
            scenario.most_events = word.read()?;
        }
        let settle = self.settle.as_ref().map(Word::read).transpose()?;
        scenario.check().map_err(|e| self.blamed(&e))?;
        Ok(Described {
            link: names.join(" > "),
            scenario,
            flows: texts,
            settle: settle.unwrap_or(SETTLE),
            trace_start,
        })
    }

    /// Where the mistake is that a scenario's check found.
    fn blamed(&self, error: &alcc_sim::SimError) -> String {
        use alcc_sim::SimError::{Flows, NoLink, NoWindow, Route, Rtt, Stop};
        let word = match error {
            Route { flow, .. } | Rtt { flow, .. } | Stop { flow, .. } => {
                self.word_of_flow(*flow).or(self.rtt.as_ref())
            }
            NoWindow => self.duration.as_ref(),
            Flows { .. } => self.flow.last(),
            NoLink | _ => None,
        };
        match word {
            Some(word) => word.wrong(error),
            None => error.to_string(),
        }
    }

    /// Which words made flow number `flow`, counted from 1.
    fn word_of_flow(&self, flow: usize) -> Option<&Word> {
        let mut before = 0;
        self.flow.iter().find(|word| {
            let count = word.text.split_once('*').map_or("1", |(n, _)| n);
            before += count.parse::<usize>().unwrap_or(1);
            flow <= before
        })
    }

    fn link(
        &self,
        words: &LinkWords,
        seed: u64,
        open: OpenTrace<'_>,
        begin: &dyn Fn(&Trace) -> Span,
    ) -> Result<(String, LinkSpec, Option<Span>), String> {
        // Recordings of both directions begin at the same moment.
        let mut start = None;
        let mut rate = |word: &Option<Word>| match word {
            None => Ok(("unlimited".to_owned(), RateSpec::Unlimited)),
            Some(word) => {
                let (name, rate, recorded) = self.capacity(word, seed, open)?;
                Ok::<_, String>(match rate {
                    RateSpec::Trace(trace) if recorded => {
                        let at = *start.get_or_insert_with(|| begin(&trace));
                        (name, RateSpec::Trace(trace.begun_at(at)))
                    }
                    rate => (name, rate),
                })
            }
        };
        let queue = |word: &Option<Word>| match word {
            None => Ok(QueueSpec::default()),
            Some(word) => word.read(),
        };
        let loss = |word: &Option<Word>| match word {
            None => Ok(0.0),
            Some(word) => probability(&word.text).map_err(|e| word.wrong(e)),
        };
        let delay = match &words.delay {
            None => Span::ZERO,
            Some(word) => word.read()?,
        };
        let changes = self.changes(words, seed)?;
        let (name, down) = rate(&words.rate)?;
        let down = DirectionSpec {
            rate: down,
            queue: queue(&words.queue)?,
            delay,
            loss: loss(&words.loss)?,
            changes: changes.there(words.rate.is_some()),
        };
        let up = DirectionSpec {
            rate: rate(&words.up)?.1,
            queue: match &words.queue_up {
                None => down.queue.clone(),
                Some(word) => word.read()?,
            },
            delay,
            loss: loss(&words.loss_up)?,
            changes: changes.back(words.up.is_some()),
        };
        Ok((name, LinkSpec { down, up }, start))
    }

    fn capacity(
        &self,
        word: &Word,
        seed: u64,
        open: OpenTrace<'_>,
    ) -> Result<(String, RateSpec, bool), String> {
        if word.text == "unlimited" {
            return Ok(("unlimited".to_owned(), RateSpec::Unlimited, false));
        }
        let beside = self.folder.as_ref().map(|folder| folder.join(&word.text));
        let file = beside.filter(|file| file.is_file());
        // What begins like a number is meant as a rate, unless there is such a file.
        let number = word
            .text
            .starts_with(|c: char| c.is_ascii_digit() || c == '.');
        if number && file.is_none() && !Path::new(&word.text).is_file() {
            let rate: Rate = positive(&word.text)
                .map_err(|e| word.wrong(format!("{e}, or name a trace file")))?;
            return Ok((rate.to_string(), RateSpec::Fixed(rate), false));
        }
        let name = file.map_or_else(|| word.text.clone(), |f| f.display().to_string());
        let opened = open(&name, seed).map_err(|e| word.wrong(e))?;
        Ok((opened.name, RateSpec::Trace(opened.trace), opened.recorded))
    }

    /// Gives the links the delays that they do not have of their own, and the flows over all links the round trip.
    fn round_trips(
        &self,
        rtt: Option<Span>,
        links: &mut [LinkSpec],
        mut flows: Vec<FlowSpec>,
    ) -> Result<Vec<FlowSpec>, String> {
        let own = |index: usize| self.link[index].delay.is_some() || self.each.delay.is_some();
        let without: Vec<usize> = (0..links.len()).filter(|i| !own(*i)).collect();
        if without.is_empty() && rtt.is_none() {
            return Ok(flows);
        }
        let wanted = rtt.unwrap_or(RTT);
        let over_all = flows.iter().filter(|flow| flow.links.is_none());
        let least = over_all.filter_map(|f| f.rtt).fold(wanted, Span::min);
        let fixed = links
            .iter()
            .map(|link| link.down.delay + link.up.delay)
            .fold(Span::ZERO, |a, b| a + b);
        let share = least.saturating_sub(fixed) / 2 / (without.len().max(1) as u64);
        for index in without {
            links[index].down.delay = share;
            links[index].up.delay = share;
        }
        if let Some(word) = &self.rtt
            && wanted < fixed
        {
            return Err(word.wrong(format!(
                "the links' own delays are a round trip of {fixed} already: give a longer rtt, or none"
            )));
        }
        for flow in &mut flows {
            if flow.links.is_none() && flow.rtt.is_none() {
                flow.rtt = Some(wanted);
            }
        }
        Ok(flows)
    }
}

impl LinkWords {
    fn overruled_by(self, other: Self) -> Self {
        Self {
            rate: other.rate.or(self.rate),
            up: other.up.or(self.up),
            delay: other.delay.or(self.delay),
            queue: other.queue.or(self.queue),
            queue_up: other.queue_up.or(self.queue_up),
            loss: other.loss.or(self.loss),
            loss_up: other.loss_up.or(self.loss_up),
            step: if other.step.is_empty() {
                self.step
            } else {
                other.step
            },
            steps: other.steps.or(self.steps),
            repeat: other.repeat.or(self.repeat),
            reorder: other.reorder.or(self.reorder),
        }
    }
}

/// `1%` or `0.01`.
///
/// # Errors
/// What would be right.
pub fn probability(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 0.01),
        None => (text, 1.0),
    };
    let number = number.parse::<f64>().ok().map(|p| p * scale);
    number
        .filter(|p| (0.0..=1.0).contains(p))
        .ok_or_else(|| format!("'{text}' is no probability: write 0% to 100%, or 0 to 1"))
}

#[cfg(test)]
mod tests;
