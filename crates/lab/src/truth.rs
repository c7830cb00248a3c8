// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulator beside published figures: one scenario per line of a reference file, run from several starting points, and a
//! verdict by fixed bounds.
//!
//! | figures of | share of the link | mean delay |
//! |---|---|---|
//! | `prototypes`: `cubic`, `reno`, `bbr` | 2 points of utilization | 15 % |
//! | `prototypes`: the rest | 5 points of utilization | 20 % |
//! | `cs244` | 5 % of the throughput | 15 % of the queueing delay |
//!
//! What counts is the distance of our median from the nearest of their runs. A trace link depends on nothing random, but on when
//! in the trace the flow begins, which nobody knows to the millisecond: repetitions begin at different times.
use crate::link::walk;
use crate::parallel;
use crate::{LabError, simulated};
use alcc_cc::Registry;
use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_sim::{FlowSpec, Scenario, Timing};
use alcc_trace::Trace;
use alcc_units::{Rate, Span, Time};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What was found in one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Mbit/s.
    pub throughput: f64,
    /// 0 to 1.
    pub utilization: f64,
    /// Mean delay, ms: one way, or queueing alone, as the set has it.
    pub delay: Option<f64>,
    /// Its 95th percentile, ms.
    pub p95: Option<f64>,
    /// Of the packets, 0 to 1.
    pub loss: Option<f64>,
}

/// A scenario with the figures that somebody else found in it.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Whose figures they are; decides bounds and the kind of delay.
    pub set: String,
    /// Name of the trace's file, or a rate.
    pub link: String,
    /// Only so much of the trace.
    pub cut: Option<Span>,
    /// The way back: a trace, a rate or `same`.
    pub up: String,
    /// In both directions.
    pub queue: QueueSpec,
    /// Without queueing.
    pub rtt: Span,
    /// Of the window.
    pub duration: Span,
    /// When the flow begins, one run each.
    pub starts: Vec<Span>,
    /// As `alcc sim --flow` reads it.
    pub flow: String,
    /// Their runs, at least one.
    pub runs: Vec<Figures>,
}

/// How far our figures may be from theirs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Points of utilization, or per cent of the throughput.
    pub share: f64,
    /// Of the throughput and not of the link.
    pub of_throughput: bool,
    /// Per cent of the mean delay.
    pub delay: f64,
}

/// A reference and what the simulator makes of it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The scenario and their figures.
    pub reference: Reference,
    /// Ours, one per start; or why there are none.
    pub ours: Result<Vec<Figures>, String>,
}

/// What a cell says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Within the bounds.
    Ok,
    /// Our median is not, but their figures lie among those of our runs.
    InSpread,
    /// Neither.
    Differs,
    /// There is nothing to compare.
    NotRun,
}

impl Verdict {
    /// As the table has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::InSpread => "in spread",
            Self::Differs => "differs",
            Self::NotRun => "not run",
        }
    }
}

const HEADING: &str = "set,link,cut_s,up,queue,rtt_ms,duration_s,starts,run,throughput_mbps,utilization,delay_mean_ms,\
delay_p95_ms,loss,flow";

impl Reference {
    /// Those of a reference file; lines of the same scenario are runs of one. `#` begins a comment.
    ///
    /// # Errors
    /// The line, what was found and what was expected.
    pub fn read(text: &str) -> Result<Vec<Self>, String> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, l)| !l.starts_with('#'));
        match lines.next() {
            Some((_, heading)) if heading == HEADING => {}
            other => {
                let found = other.map_or("nothing", |o| o.1);
                return Err(format!("the heading is '{found}': it must be '{HEADING}'"));
            }
        }
        let mut found: Vec<Self> = Vec::new();
        for (number, line) in lines.filter(|(_, l)| !l.is_empty()) {
            let one = Self::line(line).map_err(|why| format!("line {number}: {why}"))?;
            let same = |r: &&mut Self| {
                (&r.set, &r.link, &r.flow, &r.starts)
                    == (&one.set, &one.link, &one.flow, &one.starts)
            };
            match found.iter_mut().find(same) {
                Some(known) => known.runs.extend(one.runs),
                None => found.push(one),
            }
        }
        Ok(found)
    }

    fn line(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.splitn(15, ',').collect();
        let &[
            set,
            link,
            cut,
            up,
            queue,
            rtt,
            duration,
            starts,
            _,
            throughput,
            utilization,
            delay,
            p95,
            loss,
            flow,
        ] = &fields[..]
        else {
            return Err(format!("{} fields: there must be 15", fields.len()));
        };
        let number = |what: &str, text: &str| {
            let value = text.parse::<f64>().ok().filter(|v| (0.0..1e9).contains(v));
            value.ok_or_else(|| format!("{what} is '{text}': it must be a number, 0 or more"))
        };
        let perhaps = |what: &str, text: &str| match text {
            "" => Ok(None),
            text => number(what, text).map(Some),
        };
        let ms = |value: f64| Span::from_secs_f64(value / 1e3);
        Ok(Self {
            set: set.to_owned(),
            link: link.to_owned(),
            cut: perhaps("cut_s", cut)?.map(Span::from_secs_f64),
            up: up.to_owned(),
            queue: queue.parse().map_err(|e| format!("{e}"))?,
            rtt: ms(number("rtt_ms", rtt)?),
            duration: Span::from_secs_f64(number("duration_s", duration)?),
            starts: several(starts).ok_or_else(|| {
                format!(
                    "starts is '{starts}': it must be FIRST+STEP*COUNT in ms, 1 to 1000 of them"
                )
            })?,
            flow: flow.to_owned(),
            runs: vec![Figures {
                throughput: number("throughput_mbps", throughput)?,
                utilization: number("utilization", utilization)?,
                delay: perhaps("delay_mean_ms", delay)?,
                p95: perhaps("delay_p95_ms", p95)?,
                loss: perhaps("loss", loss)?,
            }],
        })
    }

    /// The bounds of its set.
    pub fn bounds(&self) -> Bounds {
        let (share, delay) = match (&*self.set, &*self.flow) {
            ("cs244", _) => (5.0, 15.0),
            (_, "cubic" | "reno" | "bbr") => (2.0, 15.0),
            _ => (5.0, 20.0),
        };
        Bounds {
            share,
            of_throughput: self.set == "cs244",
            delay,
        }
    }

    /// Runs it once from each start.
    ///
    /// # Errors
    /// What kept it from running, one line.
    pub fn run(&self, traces: &Traces, registry: &Registry) -> Result<Vec<Figures>, String> {
        let down = traces.rate(&self.link, self.cut)?;
        let up = match &*self.up {
            "same" => down.clone(),
            other => traces.rate(other, None)?,
        };
        let direction = |rate, delay| DirectionSpec {
            rate,
            queue: self.queue.clone(),
            delay,
            ..DirectionSpec::default()
        };
        let there = self.rtt / 2;
        let (down, up) = (direction(down, there), direction(up, self.rtt - there));
        let once = |start: &Span| {
            let mut flows = FlowSpec::parse(&self.flow, registry, Timing::default())
                .map_err(|e| e.to_string())?;
            for flow in &mut flows {
                flow.start = Time::ZERO + *start;
            }
            let scenario = Scenario {
                flows,
                duration: self.duration,
                ..Scenario::one_link(down.clone(), up.clone())
            };
            let report = alcc_sim::run(&scenario).map_err(|e| e.to_string())?;
            let rows = simulated::rows(&self.link, &scenario, &report);
            let row = rows.first().ok_or("there is no flow")?;
            let queueing = self.bounds().of_throughput;
            let (delay, p95) = if queueing {
                (row.queue_delay_mean_ms, row.queue_delay_p95_ms)
            } else {
                (row.delay_mean_ms, row.delay_p95_ms)
            };
            Ok(Figures {
                throughput: row.throughput_mbps.unwrap_or_default(),
                utilization: row.utilization.unwrap_or_default(),
                delay,
                p95,
                loss: row.loss,
            })
        };
        self.starts.iter().map(once).collect()
    }
}

/// `FIRST+STEP*COUNT`, or one number.
fn several(text: &str) -> Option<Vec<Span>> {
    let ms = |text: &str| text.parse::<u64>().ok().map(Span::from_millis);
    let Some((first, rest)) = text.split_once('+') else {
        return Some(vec![ms(text)?]);
    };
    let (step, count) = rest.split_once('*')?;
    let (first, step) = (ms(first)?, ms(step)?);
    let count: u64 = count.parse().ok().filter(|n| (1..=1000).contains(n))?;
    Some((0..count).map(|n| first + step * n).collect())
}

/// The trace files below a folder, by name.
pub struct Traces {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

impl Traces {
    /// Looks for them; of two with the same name the first in alphabetical order counts.
    ///
    /// # Errors
    /// [`LabError::Os`] if the folder cannot be read.
    pub fn below(folder: &Path) -> Result<Self, LabError> {
        let mut all = Vec::new();
        walk(folder, 4, &mut all)?;
        let mut files = BTreeMap::new();
        for file in all {
            if let Some(name) = file.file_name() {
                files
                    .entry(name.to_string_lossy().into_owned())
                    .or_insert(file);
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
        })
    }

    /// A rate is a trace of constant opportunities, too: the emulators of the references have nothing else.
    fn rate(&self, name: &str, cut: Option<Span>) -> Result<RateSpec, String> {
        if let Ok(rate) = name.parse::<Rate>() {
            return Ok(Trace::constant(rate).map_or(RateSpec::Fixed(rate), RateSpec::Trace));
        }
        let file = self
            .files
            .get(name)
            .ok_or_else(|| format!("no trace '{name}' below {}", self.folder.display()))?;
        let text = fs::read(file).map_err(|e| format!("read {}: {e}", file.display()))?;
        let wrong = |e| format!("read {}: {e}", file.display());
        let trace = Trace::parse(&text).map_err(wrong)?;
        Ok(RateSpec::Trace(match cut {
            Some(length) => trace.cut(Span::ZERO, length).map_err(wrong)?,
            None => trace,
        }))
    }
}

/// Runs all of them on `workers` threads; the cells are in the order of `references`. `progress` gets how many are done.
///
/// # Errors
/// [`LabError::Stopped`].
pub fn measure(
    references: Vec<Reference>,
    traces: &Traces,
    registry: &Registry,
    workers: usize,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Cell>, LabError> {
    let mut cells: Vec<Cell> = references
        .into_iter()
        .map(|reference| Cell {
            reference,
            ours: Err(String::new()),
        })
        .collect();
    let mut found = Vec::new();
    let numbers: Vec<usize> = (0..cells.len()).collect();
    parallel::each(
        &numbers,
        workers,
        |n| cells[*n].reference.run(traces, registry),
        |n, ours| {
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Stopped);
            }
            found.push((*n, ours));
            progress(found.len());
            Ok(())
        },
    )?;
    for (n, ours) in found {
        cells[n].ours = ours;
    }
    Ok(cells)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len().saturating_sub(1)) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(a), Some(b)) => (a + b) / 2.0,
        _ => f64::NAN,
    }
}

/// Smallest and largest.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

/// Ours, and how far it is from the nearest of theirs; negative: below.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compared {
    /// Median of our runs.
    pub ours: f64,
    /// Smallest and largest of ours.
    pub spread: (f64, f64),
    /// Smallest and largest of theirs.
    pub theirs: (f64, f64),
}

impl Compared {
    fn new(ours: impl Iterator<Item = f64> + Clone, theirs: impl Iterator<Item = f64>) -> Self {
        Self {
            ours: median(ours.clone().collect()),
            spread: ends(ours),
            theirs: ends(theirs),
        }
    }

    /// Distance to the nearest of theirs.
    pub fn off(&self) -> f64 {
        self.ours - self.ours.clamp(self.theirs.0, self.theirs.1)
    }

    /// The same in per cent of theirs.
    pub fn off_percent(&self) -> f64 {
        let nearest = self.ours.clamp(self.theirs.0, self.theirs.1);
        100.0 * self.off() / nearest.max(1e-9)
    }

    fn in_spread(&self) -> bool {
        self.spread.0 <= self.theirs.1 && self.theirs.0 <= self.spread.1
    }
}

impl Cell {
    /// Utilization in per cent, or throughput in Mbit/s.
    pub fn share(&self) -> Option<Compared> {
        let ours = self.ours.as_ref().ok()?;
        let value = |f: &Figures| {
            if self.reference.bounds().of_throughput {
                f.throughput
            } else {
                f.utilization * 100.0
            }
        };
        let theirs = self.reference.runs.iter();
        Some(Compared::new(ours.iter().map(value), theirs.map(value)))
    }

    fn delays(&self, of: fn(&Figures) -> Option<f64>) -> Option<Compared> {
        let ours = self.ours.as_ref().ok()?.iter().filter_map(of);
        let theirs = self.reference.runs.iter().filter_map(of);
        let known = ours.clone().next().is_some() && theirs.clone().next().is_some();
        known.then(|| Compared::new(ours, theirs))
    }

    /// Mean delay, ms.
    pub fn delay(&self) -> Option<Compared> {
        self.delays(|f| f.delay)
    }

    /// 95th percentile, ms.
    pub fn p95(&self) -> Option<Compared> {
        self.delays(|f| f.p95)
    }

    /// What the bounds say.
    pub fn verdict(&self) -> Verdict {
        let Some(share) = self.share() else {
            return Verdict::NotRun;
        };
        let bounds = self.reference.bounds();
        let off = if bounds.of_throughput {
            share.off_percent()
        } else {
            share.off()
        };
        let delay = self.delay();
        let near = |c: &Compared| c.off_percent().abs() <= bounds.delay;
        if off.abs() <= bounds.share && delay.as_ref().is_none_or(near) {
            Verdict::Ok
        } else if share.in_spread() && delay.as_ref().is_none_or(Compared::in_spread) {
            Verdict::InSpread
        } else {
            Verdict::Differs
        }
    }

    /// Its line of the table.
    pub fn line(&self) -> String {
        let Reference { link, flow, .. } = &self.reference;
        let (Some(share), Ok(_)) = (self.share(), &self.ours) else {
            let why = self.ours.as_ref().err().map_or("", String::as_str);
            return format!("| {link} | {flow} | | | | | | | | | not run: {why} |");
        };
        let throughput = self.reference.bounds().of_throughput;
        let digits = if throughput { 2 } else { 1 };
        let off = if throughput {
            format!("{:+.1} %", share.off_percent())
        } else {
            format!("{:+.1}", share.off())
        };
        let runs = |of: fn(&Figures) -> Option<f64>| {
            let each = self.reference.runs.iter().filter_map(of);
            let each: Vec<String> = each.map(|v| format!("{v:.0}")).collect();
            each.join(" / ")
        };
        let shares: Vec<String> = self
            .reference
            .runs
            .iter()
            .map(|f| {
                if throughput {
                    format!("{:.2}", f.throughput)
                } else {
                    format!("{:.1}", f.utilization * 100.0)
                }
            })
            .collect();
        let delay = self.delay().map_or_else(
            || "- | -".to_owned(),
            |d| {
                let (low, high) = d.spread;
                format!(
                    "{:.0} ({low:.0} to {high:.0}) | {:+.0} %",
                    d.ours,
                    d.off_percent()
                )
            },
        );
        let p95 = self
            .p95()
            .map_or_else(|| "-".to_owned(), |p| format!("{:.0}", p.ours));
        let (low, high) = share.spread;
        format!(
            "| {link} | {flow} | {} | {:.digits$} ({low:.digits$} to {high:.digits$}) | {off} | {} | {delay} | {} | {p95} | {} |",
            shares.join(" / "),
            share.ours,
            runs(|f| f.delay),
            runs(|f| f.p95),
            self.verdict().name(),
        )
    }
}

/// One table in Markdown per set, in the order of the cells, each with its count of verdicts.
pub fn markdown(cells: &[Cell]) -> String {
    let mut sets: Vec<&str> = Vec::new();
    for cell in cells {
        if !sets.contains(&cell.reference.set.as_str()) {
            sets.push(&cell.reference.set);
        }
    }
    let mut text = String::new();
    for set in sets {
        let of_set = cells.iter().filter(|c| c.reference.set == set);
        let (share, delay) = if set == "cs244" {
            ("Mbit/s", "queueing")
        } else {
            ("util %", "one-way")
        };
        let _ = writeln!(
            text,
            "### {set}\n\n| link | flow | {share}: theirs | ours | off | mean {delay} ms: theirs | ours | off | p95 ms: theirs | ours | verdict |\n\
             |---|---|---|---|---|---|---|---|---|---|---|"
        );
        for cell in of_set.clone() {
            let _ = writeln!(text, "{}", cell.line());
        }
        let count = |v: Verdict| of_set.clone().filter(|c| c.verdict() == v).count();
        let all = [
            Verdict::Ok,
            Verdict::InSpread,
            Verdict::Differs,
            Verdict::NotRun,
        ];
        let counts: Vec<String> = all
            .iter()
            .map(|v| (count(*v), v.name()))
            .filter(|(n, _)| *n > 0)
            .map(|(n, name)| format!("{n} {name}"))
            .collect();
        let _ = writeln!(text, "\n{}.\n", counts.join(", "));
    }
    text
}

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

/// Where `tuned` is to be compared: the trace's partner or 12 Mbit/s back, 60 s from five starts 100 ms apart.
const PAIR: &str = "40,60,50+100*5,1,0,0,,,,";

/// All pairs of these algorithms on every trace, trace by trace.
///
/// # Errors
/// [`LabError::Stopped`].
pub fn pairs(
    algorithms: &[&str],
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
        let of = |f: fn(&Figures) -> Option<f64>| median(ours.iter().filter_map(f).collect());
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
    /// In what `tuned` is behind; empty: in nothing. A tenth of a point and half a millisecond are nothing.
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

    const LINE: &str = "prototypes,12mbit,,12mbit,droptail:bytes=2000000,40,2,0+5*2,1,10.8,0.90,40,80,0,fixed:window=20";

    fn read(lines: &str) -> Result<Vec<Reference>, String> {
        Reference::read(&format!("# comment\n{HEADING}\n{lines}\n"))
    }

    #[test]
    fn lines_of_one_scenario_are_its_runs() {
        let second = LINE.replace(",1,10.8,0.90", ",2,11.4,0.95");
        let found = read(&format!("{LINE}\n{second}\n{}", LINE.replace("=20", "=21"))).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].runs.len(), found[0].starts.len()), (2, 2));
        assert_eq!(found[0].runs[1].utilization, 0.95);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (from, to, want) in [
            (
                ",40,2,",
                ",forty,2,",
                "line 3: rtt_ms is 'forty': it must be a number, 0 or more",
            ),
            ("0+5*2", "0+5*0", "line 3: starts is '0+5*0'"),
            ("droptail:bytes=2000000", "tail", "line 3: "),
            (
                ",fixed:window=20",
                "",
                "line 3: 14 fields: there must be 15",
            ),
        ] {
            let error = read(&LINE.replace(from, to)).unwrap_err();
            assert!(error.starts_with(want), "{error}");
        }
        assert!(
            Reference::read("set,link\n")
                .unwrap_err()
                .contains("heading")
        );
    }

    #[test]
    fn a_window_of_half_a_path_has_half_the_link() {
        // 20 packets per 42 ms (40 ms, and a millisecond's opportunity each way) are 5.7 of 12 Mbit/s; no queue.
        let mut found = read(LINE).unwrap();
        found[0].runs[0] = Figures {
            utilization: 0.48,
            delay: Some(21.0),
            ..found[0].runs[0]
        };
        let folder = tempfile::tempdir().unwrap();
        let traces = Traces::below(folder.path()).unwrap();
        let stop = AtomicBool::new(false);
        let mut done = 0;
        let cells = measure(found, &traces, &Registry::builtin(), 2, &stop, &mut |n| {
            done = n;
        });
        let cells = cells.unwrap();
        assert_eq!(done, 1);
        assert_eq!(cells[0].verdict(), Verdict::Ok, "{}", cells[0].line());
        let mut wrong = cells[0].clone();
        wrong.reference.runs[0].utilization = 0.6;
        assert_eq!(wrong.verdict(), Verdict::Differs);
        wrong.reference.runs[0].utilization = 0.48;
        wrong.reference.runs[0].delay = Some(30.0);
        assert_eq!(wrong.verdict(), Verdict::Differs);
        assert!(markdown(&[wrong]).contains("1 differs."));
    }

    #[test]
    fn a_missing_trace_is_not_run() {
        let found = read(&LINE.replace("12mbit,,", "Nowhere,,")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let traces = Traces::below(folder.path()).unwrap();
        let error = found[0].run(&traces, &Registry::builtin()).unwrap_err();
        assert!(error.starts_with("no trace 'Nowhere' below "), "{error}");
    }

    #[test]
    fn a_pair_says_in_what_tuned_is_behind() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Steady"), "1\n").unwrap();
        fs::write(folder.path().join("README.md"), "no trace").unwrap();
        let traces = Traces::below(folder.path()).unwrap();
        let stop = AtomicBool::new(false);
        let found = pairs(
            &["copa"],
            &traces,
            &Registry::builtin(),
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

    #[test]
    fn the_nearest_run_counts_and_the_median_of_ours() {
        let c = Compared::new([60.0, 70.0, 90.0].into_iter(), [75.0, 80.0].into_iter());
        assert_eq!((c.ours, c.off(), c.in_spread()), (70.0, -5.0, true));
        assert!((c.off_percent() + 100.0 * 5.0 / 75.0).abs() < 1e-9);
        let inside = Compared::new([77.0].into_iter(), [75.0, 80.0].into_iter());
        assert_eq!((inside.off(), inside.ours), (0.0, 77.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
