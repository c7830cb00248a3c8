// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real experiment. Each scheme has a sender, a receiver and an emulated link (its own, or one
//! for all), all at the same time.
mod bulk;
pub(crate) mod programs;
mod web;
pub(crate) mod wire;

use crate::cpu::Work;
use crate::link::Link;
use crate::meter::Observed;
use crate::scheme::Scheme;
use crate::tools::Tools;
use crate::{LabError, sampler, server};
use alcc_emu::{Dir, EmuReport, Namespace};
use alcc_results::{Row, Series, crowd};
use alcc_sim::fairness::Share;
use alcc_units::{Bytes, Span, Time};
use programs::{Addresses, Namespaces, Programs, RunContext};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::{Meters, Wire};

/// Width of a bin of the plots' series.
const BIN: Span = Span::from_millis(200);
/// A sparse file of this size is more than any window downloads: 1 Gbit/s for 9 minutes.
const DOWNLOAD: u64 = 64 << 30;

/// One run: the schemes beside each other.
pub struct Experiment<'a> {
    /// The link; every scheme gets one of its own unless they share one.
    pub link: &'a Link,
    /// If all share one link: when each of them is there, in the order of the schemes.
    pub shared: Option<&'a [Times]>,
    /// If they are the flows of one scheme: then there is one row of all of them.
    pub crowd: Option<Crowd<'a>>,
    /// What is compared.
    pub schemes: &'a [Scheme],
    /// Length of the window.
    pub duration: Span,
    /// Number of the repetition, from 1.
    pub run: u32,
    /// The programs.
    pub tools: &'a Tools,
    /// Folder for the runtime's own log of its readings, one folder in it per controlled scheme.
    pub log: Option<PathBuf>,
}

/// The scheme whose flows run.
#[derive(Clone, Copy, Debug)]
pub struct Crowd<'a> {
    /// The scheme.
    pub scheme: &'a Scheme,
    /// How long after the window's begin its fairness begins to count.
    pub settle: Span,
}

/// When a flow is there, since its link's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Its client asks then.
    pub start: Span,
    /// Its client leaves then, if before the end.
    pub stop: Option<Span>,
}

/// In every note that says that this machine was too busy for the run.
pub(crate) const UNTRUSTED: &str = "not to be trusted";

/// What a run yielded.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// One per scheme, in their order; of a failed one with its error and without figures.
    pub rows: Vec<Row>,
    /// The series of those that did not fail.
    pub series: Vec<Series>,
    /// What a reader should know: losses outside the model, failures of the runtime.
    pub notes: Vec<String>,
    /// How often the sender's threads were woken per second, by scheme; nothing of crowds.
    #[serde(default)]
    pub wakeups_per_s: BTreeMap<String, f64>,
}

impl Measured {
    /// Its own notes say that the machine spoiled it.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.notes.iter().any(|note| note.contains(UNTRUSTED))
    }
}

/// One scheme: its programs, and what is seen of them at the link.
struct Lane {
    programs: Box<dyn Programs>,
    work: [Option<Work>; 2],
    times: Times,
    has_come: bool,
    has_gone: bool,
    origin: Instant,
    meters: Arc<Mutex<Meters>>,
    /// The begin of the window, once known.
    started: Option<Time>,
    over: bool,
}

/// A lane whose own programs failed carries its error on; what is wrong with the machine ends the
/// run.
type Trial = Result<Lane, LabError>;

/// Everything that runs. Fields are dropped in their order: programs before the links that they
/// use.
struct Running {
    lanes: Vec<Trial>,
    /// One per lane, or one for all.
    wires: Vec<Wire>,
}

/// Runs it. `progress` is called some times per second with the part that is done, 0 to 1; `stop`
/// ends it early.
///
/// [`alcc_emu::prepare`] must have succeeded before.
///
/// # Errors
/// [`LabError`]; whatever had been started is ended and removed, then and on success.
pub fn run(
    experiment: &Experiment<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Measured, LabError> {
    experiment
        .schemes
        .iter()
        .try_for_each(Scheme::check_kernel)?;
    let scratch = tempfile::Builder::new()
        .prefix("alcc-")
        .tempdir()
        .map_err(LabError::os("make a temporary folder (TMPDIR says where)"))?;
    let files = scratch.path().join("files");
    fs::create_dir(&files)
        .and_then(|()| File::create(files.join(server::FILE)))
        .and_then(|file| file.set_len(DOWNLOAD))
        .map_err(LabError::os(format!(
            "make the file to download in {}",
            files.display()
        )))?;

    let Running {
        mut lanes,
        mut wires,
    } = start(experiment, scratch.path(), &files, stop)?;
    // On an error the lanes must go before the wires.
    let watched = watch(&mut lanes, experiment, stop, progress);
    lanes
        .iter_mut()
        .flatten()
        .for_each(|lane| lane.programs.end());
    watched?;
    let mut reports = Vec::new();
    let mut meters = Vec::new();
    for wire in wires.drain(..) {
        reports.push(wire.emulator.stop()?);
        meters.push(wire.meters);
    }
    let mut measured = Measured::default();
    for (i, (lane, scheme)) in lanes.into_iter().zip(experiment.schemes).enumerate() {
        let report = &reports[i.min(reports.len() - 1)];
        let row = lane.and_then(|lane| lane.results(experiment, scheme, report, &mut measured));
        match row {
            Ok((row, series)) => {
                measured.rows.push(row);
                measured.series.push(series);
            }
            Err(LabError::Run { why, .. }) => {
                let mut row = experiment.link.row(experiment.duration, experiment.run);
                scheme.describe(&mut row);
                row.error = Some(why);
                measured.rows.push(row);
            }
            Err(other) => return Err(other),
        }
    }
    if let Some(crowd) = &experiment.crowd {
        let model = experiment.link.path.model(Dir::Down);
        let total = meters.first().and_then(|meters| {
            let meters = alcc_sys::lock(meters);
            meters
                .total()?
                .finish(|from, to| model.opportunity_bytes(from, to))
        });
        together(&mut measured, experiment, crowd, total);
    }
    Ok(measured)
}

/// The flows of one scheme as one row. If one of them failed, all have.
fn together(
    measured: &mut Measured,
    experiment: &Experiment<'_>,
    crowd: &Crowd<'_>,
    total: Option<Observed>,
) {
    let rows = std::mem::take(&mut measured.rows);
    let series = std::mem::take(&mut measured.series);
    let name = &crowd.scheme.name;
    let failed = rows.iter().find_map(|row| row.error.clone());
    let (row, series) = match (failed, total) {
        (None, Some(total)) => {
            let seconds: Vec<Vec<u64>> = series.iter().map(seconds).collect();
            let times = experiment.shared.unwrap_or_default();
            let shares = shares(&rows, &seconds, times, experiment.duration);
            let mut row = crowd::together(&rows, &shares, experiment.duration, crowd.settle);
            total.fill(&mut row);
            row.flow = Some(crowd.scheme.flows.join(" "));
            let series = Series {
                scheme: name.clone(),
                link: row.link.clone(),
                run: row.run,
                ..total.series
            };
            (row, vec![series])
        }
        (failed, _) => {
            let mut row = experiment.link.row(experiment.duration, experiment.run);
            row.error = failed.or_else(|| Some("no data came to the link".to_owned()));
            (row, Vec::new())
        }
    };
    measured.rows = vec![Row {
        scheme: name.clone(),
        ..row
    }];
    measured.series = series;
    measured.wakeups_per_s.clear();
}

/// What each flow had of the window. `seconds` are the bytes of its seconds.
pub(crate) fn shares<'a>(
    rows: &[Row],
    seconds: &'a [Vec<u64>],
    times: &[Times],
    window: Span,
) -> Vec<Share<'a>> {
    let since = |at: f64| Span::from_nanos((at.max(0.0) * 1e9) as u64);
    let began = rows.iter().filter_map(|row| row.started_s);
    let began = began.min_by(f64::total_cmp).unwrap_or_default();
    let flows = rows.iter().zip(times).zip(seconds);
    flows
        .map(|((row, times), seconds)| Share {
            from: since(row.started_s.unwrap_or(began) - began),
            to: times
                .stop
                .map_or(window, |stop| since(stop.as_secs_f64() - began).min(window)),
            seconds,
        })
        .collect()
}

/// The bytes of each whole second.
pub(crate) fn seconds(series: &Series) -> Vec<u64> {
    let bytes = |bins: &[f64]| bins.iter().sum::<f64>() * series.bin_s * 1e6 / 8.0;
    series.seconds().map(|bins| bytes(bins) as u64).collect()
}

/// Sets what any TCP of the sending host may have unsent.
fn limit_unsent(host: &Namespace, lowat: Bytes) -> Result<(), LabError> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_notsent_lowat";
    host.run(|| fs::write(FILE, lowat.get().to_string()))?
        .map_err(LabError::os(format!(
            "write {FILE} of the sender's namespace"
        )))
}

/// Programs that wait first, since they take longest; then all links at once, so that the traces
/// begin together; then those that connect, in the order of the schemes.
fn start(
    experiment: &Experiment<'_>,
    scratch: &Path,
    files: &Path,
    stop: &AtomicBool,
) -> Result<Running, LabError> {
    let shared = experiment.shared;
    let wires = if shared.is_some() {
        1
    } else {
        experiment.schemes.len()
    };
    let ends = (0..wires)
        .map(|_| {
            Ok(Namespaces {
                sender: Namespace::new()?,
                receiver: Namespace::new()?,
            })
        })
        .collect::<Result<Vec<_>, LabError>>()?;
    let mut waiting = Vec::new();
    for (i, scheme) in experiment.schemes.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Stopped);
        }
        if let Some(lowat) = scheme.notsent_lowat {
            limit_unsent(&ends[i.min(wires - 1)].sender, lowat)?;
        }
        let folder = scratch.join(i.to_string());
        fs::create_dir(&folder).map_err(LabError::os(format!("make {}", folder.display())))?;
        let context = RunContext {
            ends: &ends[i.min(wires - 1)],
            tools: experiment.tools,
            folder: &folder,
            files,
            log: experiment.log.as_deref(),
            number: if shared.is_some() { i as u16 } else { 0 },
            is_shared: shared.is_some(),
        };
        waiting.push(match programs::start(scheme, &context) {
            Err(e) if e.is_environment() => return Err(e),
            tried => tried,
        });
    }
    let links: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = ends
            .iter()
            .map(|ends| {
                let (link, duration) = (experiment.link, experiment.duration);
                scope.spawn(move || Wire::start(ends, link, duration, shared.is_some()))
            })
            .collect();
        threads
            .into_iter()
            .map(|t| {
                t.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let mut running = Running {
        lanes: Vec::new(),
        wires: links.into_iter().collect::<Result<_, _>>()?,
    };
    for (i, programs) in waiting.into_iter().enumerate() {
        let wire = &running.wires[i.min(wires - 1)];
        let addresses = Addresses {
            from: wire.emulator.outside_addr(),
            to: wire.emulator.inside_addr(),
            origin: wire.emulator.started(),
        };
        let lane = programs.and_then(|mut programs| {
            programs.prepare(addresses)?;
            Ok(Lane {
                programs,
                work: [None; 2],
                times: shared.map_or_else(Times::default, |times| times[i]),
                has_come: false,
                has_gone: false,
                origin: addresses.origin,
                meters: Arc::clone(&wire.meters),
                started: None,
                over: false,
            })
        });
        running.lanes.push(match lane {
            Err(e) if e.is_environment() => return Err(e),
            tried => tried,
        });
    }
    for lane in running.lanes.iter_mut().flatten() {
        lane.start_and_stop_clients()?;
    }
    Ok(running)
}

/// Looks at every connection each [`sampler::PERIOD`] until all windows have passed.
fn watch(
    lanes: &mut [Trial],
    experiment: &Experiment<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<(), LabError> {
    // A link that is down at first opens the window late; one that never delivers must not hang us.
    let late = experiment
        .shared
        .unwrap_or_default()
        .iter()
        .map(|t| t.start);
    let latest = late.max().unwrap_or_default();
    let patience = Duration::from(experiment.duration + latest) + Duration::from_secs(20);
    let began = Instant::now();
    let mut next = began;
    let mut ticks = 0u64;
    while !lanes.iter().flatten().all(|lane| lane.over) {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Stopped);
        }
        for (trial, scheme) in lanes.iter_mut().zip(experiment.schemes) {
            let Ok(lane) = trial else { continue };
            // Programs that end are noticed within half a second.
            let mut failed = lane.start_and_stop_clients().err();
            lane.observe(experiment.duration);
            if ticks.is_multiple_of(100) && failed.is_none() {
                failed = lane.programs.check(lane.over).err();
            }
            if !lane.over && began.elapsed() > patience {
                failed.get_or_insert_with(|| LabError::Run {
                    scheme: scheme.name.clone(),
                    why: format!(
                        "the window of {} did not pass within {} s",
                        experiment.duration,
                        patience.as_secs()
                    ),
                });
            }
            match failed {
                Some(failed) if failed.is_environment() => return Err(failed),
                Some(failed) => *trial = Err(failed),
                None => {}
            }
        }
        if ticks.is_multiple_of(50) {
            progress((began.elapsed().as_secs_f64() / experiment.duration.as_secs_f64()).min(1.0));
        }
        ticks += 1;
        next += Duration::from(sampler::PERIOD);
        let now = Instant::now();
        // After a stall no burst of looks.
        next = next.max(now);
        std::thread::sleep(next - now);
    }
    progress(1.0);
    Ok(())
}

impl Lane {
    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.origin.elapsed())
    }

    /// Whoever connects comes and goes when it is time.
    fn start_and_stop_clients(&mut self) -> Result<(), LabError> {
        let now = self.now().since(Time::ZERO);
        if self.times.stop.is_some_and(|stop| now >= stop) {
            if !self.has_gone {
                self.has_gone = true;
                self.programs.stop_client();
            }
        } else if !self.has_come && now >= self.times.start {
            self.has_come = true;
            self.programs.start_client()?;
        }
        Ok(())
    }

    fn observe(&mut self, window: Span) {
        if self.over {
            return;
        }
        self.programs.observe(self.now());
        let done = || self.programs.work();
        match self.started {
            None => {
                let started = alcc_sys::lock(&self.meters).started();
                if started.is_some() {
                    self.work[0] = done();
                    self.started = started;
                }
            }
            // The relay may be late with packets of the window; it is a few ms at worst on a
            // machine that can do this at all.
            Some(started) if self.now().since(started) >= window + Span::from_millis(100) => {
                self.work[1] = done();
                self.over = true;
            }
            Some(_) => {}
        }
    }

    fn results(
        mut self,
        experiment: &Experiment<'_>,
        scheme: &Scheme,
        emulated: &EmuReport,
        measured: &mut Measured,
    ) -> Result<(Row, Series), LabError> {
        let failed = |why: &str| LabError::Run {
            scheme: scheme.name.clone(),
            why: why.to_owned(),
        };
        let link = experiment.link;
        let model = link.path.model(Dir::Down);
        let seen: Observed = alcc_sys::lock(&self.meters)
            .find(emulated, |flow| self.programs.owns(flow))
            .and_then(|meter| meter.finish(|from, to| model.opportunity_bytes(from, to)))
            .ok_or_else(|| failed("no data came to the link"))?;

        let mut row = link.row(experiment.duration, experiment.run);
        scheme.describe(&mut row);
        seen.fill(&mut row);
        let window = [seen.started, seen.started + experiment.duration];
        self.programs
            .results(window, &mut row, &mut measured.notes)?;
        row.goodput_mbps = row
            .bytes
            .map(|bytes| bytes as f64 * 8.0 / 1e6 / experiment.duration.as_secs_f64());
        if let [Some(before), Some(after)] = self.work
            && seen.delivered > Bytes::ZERO
        {
            let gbit = seen.delivered.get() as f64 * 8.0 / 1e9;
            let work = after.since(before);
            row.cpu_s_per_gbit = Some(work.ran.as_secs_f64() / gbit);
            let seconds = experiment.duration.as_secs_f64();
            let per_s = work.sleeps as f64 / seconds;
            measured.wakeups_per_s.insert(scheme.name.clone(), per_s);
        }
        row.lateness_p99_ms = emulated.lateness_p99.map(Span::as_millis_f64);
        let hidden = emulated.down.hidden_drops() + emulated.up.hidden_drops();
        if hidden > 0 {
            measured.notes.push(format!(
                "{}: {hidden} packets were lost outside the model: this machine could not keep up, the row is {UNTRUSTED}",
                scheme.name
            ));
        }
        let series = Series {
            scheme: row.scheme.clone(),
            link: row.link.clone(),
            run: row.run,
            ..seen.series
        };
        Ok((row, series))
    }
}
