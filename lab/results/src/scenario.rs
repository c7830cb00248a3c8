// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulated scenarios from options of the command line, a TOML file, or both.
//!
//! Values are kept as written, with their location, until all are known. Then they are resolved,
//! and an error names the location. From a text to results:
//!
//! ```
//! use alcc_cc::Registry;
//! use alcc_results::{Row, scenario::ScenarioOptions, simulated};
//! use alcc_sim::Simulation;
//! use alcc_units::Time;
//!
//! let text = r#"
//! link = "12mbit"
//! flow = ["cubic", "copa/rtt=80ms@1s"]
//! duration = "5s"
//! "#;
//! let options = ScenarioOptions::from_toml(text, "two.toml")?;
//! // Rates and synthetic traces need no files: `()` has none.
//! let resolved = options.resolve(&alcc_zoo::registry(), &())?;
//! let mut simulation = Simulation::new(&resolved.scenario).map_err(|e| e.to_string())?;
//! simulation.run_until(Time::MAX).map_err(|e| e.to_string())?;
//! let report = simulation.report();
//! let rows: Vec<Row> = simulated::rows(&resolved.link, &resolved.scenario, &report);
//! assert_eq!(rows[1].flow.as_deref(), Some("copa/rtt=80ms@1s"));
//! assert!(rows[0].throughput_mbps > rows[1].throughput_mbps);
//! # Ok::<(), String>(())
//! ```
mod changes;
mod file;
mod files;
mod list;
mod options;

use crate::Configured;
use alcc_cc::Registry;
use alcc_link::{DirectionSpec, QueueSpec, RadioSpec, RateSpec, Step};
use alcc_sim::{FlowSpec, FlowText, LinkSpec, Scenario, Timing, Under};
use alcc_trace::Trace;
use alcc_units::{Rate, Span, Time, one_line, positive};
use std::path::Path;

pub use alcc_units::reason;
pub use files::{Files, LinkTrace, open_trace, random_start, synthetic, why_not_read};
pub use list::parts;
pub use options::{Link, LinkOptions, ScenarioOptions, Study, StudyOptions, Value};

/// A scenario with all values resolved.
pub struct Resolved {
    /// Name of the bottleneck. For a chain: the names of its links in order.
    pub link: String,
    /// The scenario for the simulator.
    pub scenario: Scenario,
    /// Fairness of single seconds counts from this time in the window.
    pub settle: Span,
    /// Start within the recorded trace of the first link that has one.
    pub trace_start: Option<Span>,
    /// The parameters in rows, as written.
    pub configured: Configured,
    /// Parts of the window whose throughputs are reported.
    pub phases: Vec<Phase>,
}

/// A part of the window, in whole seconds since the start of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phase {
    /// First second.
    pub from: u64,
    /// Second after the last one.
    pub to: u64,
}

impl std::str::FromStr for Phase {
    type Err = String;

    /// Reads `30s-60s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}': expected whole seconds, FROM-TO, such as 30s-60s");
        let whole = |part: &str| {
            let span: Span = part.parse().ok()?;
            let seconds = span.as_nanos() / 1_000_000_000;
            (Span::from_secs(seconds) == span).then_some(seconds)
        };
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        match (whole(from), whole(to)) {
            (Some(from), Some(to)) if from < to => Ok(Self { from, to }),
            (Some(from), Some(to)) => Err(format!(
                "'{text}': it must end after its start of {from}s, and ends at {to}s: write the earlier time first, such as 30s-60s"
            )),
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}s-{}s", self.from, self.to)
    }
}

const LINK: &str = "12mbit";
/// The default of `alcc run`, over a TCP.
const FLOW: &str = "budget/over=cubic";
const RTT: Span = Span::from_millis(40);
const SETTLE: Span = Span::from_secs(20);
/// With this seed recorded traces start at 0. Other seeds draw a start.
const SEED: u64 = 1;

/// Context of `resolve`.
struct Resolver<'a> {
    files: &'a dyn Files,
    seed: u64,
    /// Start within recorded traces, if given.
    start: Option<Span>,
}

impl ScenarioOptions {
    /// Resolves all values, with the algorithms of `registry`. Missing values have their defaults.
    ///
    /// # Errors
    /// One line: the location, what is wrong, and what would be right.
    pub fn resolve(&self, registry: &Registry, files: &dyn Files) -> Result<Resolved, String> {
        let mut options = self.clone();
        if options.link.is_empty() {
            options.link.push(Value::option("link", LINK).into());
        }
        if options.flow.is_empty() {
            options.flow.push(Value::option("flow", FLOW));
        }
        let resolved = options.resolve_all(registry, files);
        // Values of a file may have several lines, also those in messages of other crates.
        resolved.map_err(|why| one_line(&why))
    }

    /// Values that have no effect on the flows: the location of each, and what is missing.
    /// A value of a file has effect on the flows of that file, so it is not for those of the
    /// command line.
    pub fn idle(&self, flows: &[FlowSpec]) -> Vec<String> {
        let above_tcp = flows.iter().any(|flow| matches!(flow.under, Under::Tcp(_)));
        let timing = "no flow is over TCP: give one, such as budget/over=cubic, or leave it out";
        let alone = "it is for the fairness of several flows: give another flow, or leave it out";
        let typed_flows = !self.flow.is_empty() && self.flow.iter().all(Value::is_option);
        let all = [
            (&self.lateness, !above_tcp, timing),
            (&self.jitter, !above_tcp, timing),
            (&self.wake, !above_tcp, timing),
            (&self.settle, flows.len() < 2, alone),
        ];
        let idle = all.into_iter().filter_map(|(value, is_idle, why)| {
            let value = value.as_ref().filter(|_| is_idle)?;
            (value.is_option() || !typed_flows).then(|| value.error(why))
        });
        idle.collect()
    }

    /// Steps and flows without effect in `scenario`, because they come after the end of the run, at
    /// `end`: the location of each, and what is wrong.
    pub fn late(&self, scenario: &Scenario, end: Time) -> Vec<String> {
        let run = format!("the end of the run, at {}", end.since(Time::ZERO));
        let is_late = |step: &Step| step.at >= end;
        let own = || self.link.iter().map(|link| &link.options);
        let typed = own().chain([&self.defaults]).flat_map(|link| &link.step);
        let typed = typed.filter(|value| value.parse().is_ok_and(|step| is_late(&step)));
        let mut late: Vec<String> = typed
            .map(|value| {
                let text = &value.text;
                value.error(format!(
                    "'{text}' comes after {run}: give a longer duration"
                ))
            })
            .collect();
        let files = own()
            .chain([&self.defaults])
            .filter_map(|link| link.steps.as_ref());
        let mut steps = scenario
            .links
            .iter()
            .flat_map(|link| &link.down.changes.steps);
        if steps.all(is_late) {
            late.extend(files.map(|value| {
                value.error(format!(
                    "all steps come after {run}: give a longer duration"
                ))
            }));
        }
        for (n, flow) in (1..)
            .zip(&scenario.flows)
            .filter(|(_, flow)| flow.start >= end)
        {
            let begins = flow.start.since(Time::ZERO);
            let why = format!("a flow begins at {begins}, after {run}: give a longer duration");
            late.extend(self.value_of_flow(n).map(|value| value.error(why)));
        }
        late
    }

    fn resolve_all(&self, registry: &Registry, files: &dyn Files) -> Result<Resolved, String> {
        let resolver = Resolver {
            files,
            seed: self.seed.as_ref().map_or(Ok(SEED), Value::parse)?,
            start: self.start.as_ref().map(Value::parse).transpose()?,
        };
        let flows = self.flows(registry)?;
        let mut names = Vec::new();
        let mut links = Vec::new();
        let mut trace_start = None;
        for link in &self.link {
            let own = self.defaults.clone().overridden_by(link.options.clone());
            let (name, spec, at) = resolver.link(link.rate.as_ref(), &own)?;
            names.push(name);
            links.push(spec);
            trace_start = trace_start.or(at);
        }
        self.refuse_idle_queue()?;
        if let (Some(value), None) = (&self.start, trace_start) {
            return Err(value.error("no link follows a recorded trace that could begin elsewhere"));
        }
        let rtt = self.rtt.as_ref().map(Value::parse).transpose()?;
        let flows = self.round_trips(rtt, &mut links, flows)?;
        let mut scenario = Scenario::one_link(DirectionSpec::default(), DirectionSpec::default());
        scenario.links = links;
        scenario.flows = flows;
        scenario.seed = resolver.seed;
        if let Some(value) = &self.duration {
            scenario.duration = positive(&value.text).map_err(|e| value.error(e))?;
        }
        if let Some(value) = &self.max_events {
            scenario.max_events = value.parse()?;
        }
        let settle = self.settle.as_ref().map_or(Ok(SETTLE), Value::parse)?;
        scenario.check().map_err(|e| self.locate_error(&e))?;
        Ok(Resolved {
            link: names.join(" > "),
            phases: self.phases(scenario.duration)?,
            configured: self.configured(&scenario.links),
            scenario,
            settle,
            trace_start,
        })
    }

    /// Configuration of a chain: its losses are those of all links together, and its texts those of one after the other.
    fn configured(&self, links: &[LinkSpec]) -> Configured {
        let own: Vec<LinkOptions> = (self.link.iter())
            .map(|link| self.defaults.clone().overridden_by(link.options.clone()))
            .collect();
        let joined = |texts: &dyn Fn(&LinkOptions) -> Vec<String>| {
            let of_links = own.iter().map(|link| texts(link).join(" "));
            let mut of_links: Vec<String> = of_links.collect();
            of_links.dedup();
            let said = of_links.iter().any(|text| !text.is_empty());
            said.then(|| of_links.join(" > "))
        };
        let loss = |of: &dyn Fn(&LinkSpec) -> f64| match links {
            [one] => of(one),
            all => 1.0 - all.iter().map(|link| 1.0 - of(link)).product::<f64>(),
        };
        let list = |values: &[Value]| values.iter().map(|v| v.text.clone()).collect::<Vec<_>>();
        let text = |value: &Option<Value>| list(value.as_slice());
        Configured {
            loss: [
                Some(loss(&|link| link.down.loss)),
                Some(loss(&|link| link.up.loss)),
            ],
            up: joined(&|link| text(&link.up)),
            radio: [
                joined(&|link| list(&link.radio)),
                joined(&|link| list(&link.radio_up)),
            ],
            steps: joined(&|link| {
                [text(&link.steps), list(&link.step), text(&link.outages)].concat()
            }),
            wake: self.wake.as_ref().map(|value| value.text.clone()),
        }
    }

    /// A queue of the way back stands before a bottleneck there.
    fn refuse_idle_queue(&self) -> Result<(), String> {
        if self.defaults.up.is_some() {
            return Ok(());
        }
        let without_up = |link: &&Link| link.options.up.is_none();
        let mut without = self.link.iter().filter(without_up);
        let own = without.find_map(|link| link.options.queue_up.as_ref());
        // A default may be for some of the links.
        let nowhere = self.link.iter().all(|link| without_up(&link));
        let default = self.defaults.queue_up.as_ref().filter(|_| nowhere);
        own.or(default).map_or(Ok(()), |value| {
            Err(value
                .error("a queue needs a bottleneck, and the reverse direction has none: add a rate or a trace as up"))
        })
    }

    fn phases(&self, duration: Span) -> Result<Vec<Phase>, String> {
        let one = |value: &Value| {
            let phase: Phase = value.text.parse().map_err(|e: String| value.error(e))?;
            if Span::from_secs(phase.to) > duration {
                return Err(value.error(format!(
                    "it ends after the window of {duration}: end it earlier, or give a longer duration"
                )));
            }
            Ok(phase)
        };
        self.phase.iter().map(one).collect()
    }

    fn flows(&self, registry: &Registry) -> Result<Vec<FlowSpec>, String> {
        let mut timing = Timing::default();
        for (value, span) in [
            (&self.lateness, &mut timing.lateness),
            (&self.jitter, &mut timing.jitter),
            (&self.wake, &mut timing.wake),
        ] {
            if let Some(value) = value {
                *span = value.parse()?;
            }
        }
        let mut flows = Vec::new();
        for value in &self.flow {
            let parsed = FlowSpec::parse(&value.text, registry, timing);
            flows.extend(parsed.map_err(|e| value.error(e))?);
        }
        Ok(flows)
    }

    /// Adds the location to an error of the scenario's check.
    fn locate_error(&self, error: &alcc_sim::SimError) -> String {
        use alcc_sim::SimError::{Flows, NoLink, NoWindow, Route, Rtt, Stop};
        let value = match error {
            Route { flow, .. } | Rtt { flow, .. } | Stop { flow, .. } => {
                self.value_of_flow(*flow as u64).or(self.rtt.as_ref())
            }
            NoWindow => self.duration.as_ref(),
            Flows { .. } => self.flow.last(),
            NoLink | _ => None,
        };
        match value {
            Some(value) => value.error(error),
            None => error.to_string(),
        }
    }

    /// The value that declares flow number `flow`, counted from 1.
    fn value_of_flow(&self, flow: u64) -> Option<&Value> {
        let mut before = 0;
        self.flow.iter().find(|value| {
            let flows = FlowText::all(&value.text).unwrap_or_default();
            before += flows.iter().map(FlowText::flows).sum::<u64>();
            flow <= before
        })
    }

    /// Sets the delays of links without one, and the RTT of flows over all links.
    fn round_trips(
        &self,
        rtt: Option<Span>,
        links: &mut [LinkSpec],
        mut flows: Vec<FlowSpec>,
    ) -> Result<Vec<FlowSpec>, String> {
        let own = |index: usize| {
            self.link[index].options.delay.is_some() || self.defaults.delay.is_some()
        };
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
        if let Some(value) = &self.rtt
            && wanted < fixed
        {
            return Err(value.error(format!(
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

impl Resolver<'_> {
    /// Name and specification of a link, and the start within its recorded trace.
    fn link(
        &self,
        rate: Option<&Value>,
        options: &LinkOptions,
    ) -> Result<(String, LinkSpec, Option<Span>), String> {
        // Both directions were recorded together, so both start at the same point.
        let mut start = None;
        let mut capacity = |value: Option<&Value>| match value {
            None => Ok(("unlimited".to_owned(), RateSpec::Unlimited, [&[][..]; 2])),
            Some(value) => {
                let (name, rate, recorded, radio) = self.capacity(value)?;
                let rate = match rate {
                    RateSpec::Trace(trace) if recorded => {
                        let at = *start.get_or_insert_with(|| self.trace_start(&trace));
                        RateSpec::Trace(trace.begun_at(at))
                    }
                    rate => rate,
                };
                Ok::<_, String>((name, rate, radio))
            }
        };
        let loss = |value: &Option<Value>| match value {
            None => Ok(0.0),
            Some(value) => probability(&value.text).map_err(|e| value.error(e)),
        };
        let delay = options
            .delay
            .as_ref()
            .map_or(Ok(Span::ZERO), Value::parse)?;
        let (name, down, own) = capacity(rate)?;
        let [radio, radio_up] = radio(options, own)?;
        let constant = match &down {
            RateSpec::Fixed(rate) => Some(*rate),
            _ => None,
        };
        let changes = self.changes(options, constant)?;
        let queue = options.queue.as_ref();
        let down = DirectionSpec {
            rate: down,
            queue: queue.map_or_else(|| Ok(QueueSpec::default()), Value::parse)?,
            delay,
            loss: loss(&options.loss)?,
            changes: changes.there(rate.is_some()),
            radio,
        };
        let up = DirectionSpec {
            rate: capacity(options.up.as_ref())?.1,
            queue: match &options.queue_up {
                None => down.queue.clone(),
                Some(value) => value.parse()?,
            },
            delay,
            loss: loss(&options.loss_up)?,
            changes: changes.back(options.up.is_some()),
            radio: radio_up,
        };
        Ok((name, LinkSpec { down, up }, start))
    }

    /// Start within a recorded trace.
    fn trace_start(&self, trace: &Trace) -> Span {
        match self.start {
            Some(at) => at,
            None if self.seed == SEED => Span::ZERO,
            None => random_start(trace, self.seed),
        }
    }

    /// Name, rate, whether it was recorded, and what its radio link adds.
    fn capacity(&self, value: &Value) -> Result<(String, RateSpec, bool, Radios), String> {
        if value.text == "unlimited" {
            return Ok(("unlimited".to_owned(), RateSpec::Unlimited, false, [&[]; 2]));
        }
        let file = self.files.find(&value.text);
        // A text that begins like a number is a rate, unless a file has this name.
        if looks_like_a_rate(&value.text) && file.is_none() {
            let rate: Rate = positive(&value.text)
                .map_err(|e| value.error(format!("{e}, or name a trace file")))?;
            return Ok((rate.to_string(), RateSpec::Fixed(rate), false, [&[]; 2]));
        }
        let name = file.map_or_else(|| value.text.clone(), |f| f.display().to_string());
        let opened = open_trace(&name, self.seed, || self.files.open(Path::new(&name)));
        let opened = opened.map_err(|e| value.error(e))?;
        let rate = RateSpec::Trace(opened.trace);
        Ok((opened.name, rate, opened.recorded, opened.radio))
    }
}

/// True if a text begins like a number, with or without a sign, so that it is not the name of a
/// trace.
pub fn looks_like_a_rate(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// Towards the client, and from it.
type Radios = [&'static [&'static str]; 2];

/// Radio links in both directions: the given ones, else those of the synthetic trace.
fn radio(options: &LinkOptions, own: Radios) -> Result<[Vec<RadioSpec>; 2], String> {
    let read = |values: &[Value]| {
        values
            .iter()
            .map(Value::parse)
            .collect::<Result<Vec<_>, _>>()
    };
    let asked = [read(&options.radio)?, read(&options.radio_up)?];
    RadioSpec::both(asked, own).map_err(|e| e.to_string())
}

/// Parses a probability: `1%` or `0.01`.
///
/// # Errors
/// One line with a value that would be valid.
pub fn probability(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 0.01),
        None => (text, 1.0),
    };
    let number = number.parse::<f64>().ok().map(|p| p * scale);
    number
        .filter(|p| (0.0..=1.0).contains(p))
        .ok_or_else(|| format!("'{text}' is not a probability: write 0% to 100%, or 0 to 1"))
}

#[cfg(test)]
mod tests;
