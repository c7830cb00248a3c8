// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment with real programs. Each scheme has a sender, a receiver and an emulated link, its
//! own or one for all. All run at the same time.
mod bulk;
mod crowd;
mod datagrams;
mod lane;
pub(crate) mod programs;
mod start;
mod web;
pub(crate) mod wire;

use crate::cells::Outcome;
use crate::link::Link;
use crate::program::scratch_folder;
use crate::scheme::Scheme;
use crate::tools::Tools;
use crate::{LabError, sampler, server};
use alcc_results::{Row, Series};
use alcc_units::Span;
use lane::Trial;
use serde::{Deserialize, Serialize};
use start::{Running, start};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use crowd::{seconds, shares};

/// Width of a bin of the plots' series.
const BIN: Span = Span::from_millis(200);

/// One run: the schemes at the same time.
pub struct Experiment<'a> {
    /// The link; every scheme has its own link unless they share one.
    pub link: &'a Link,
    /// Start and stop time of each scheme, in the order of `schemes`, if all share one link; `None`:
    /// each has its own link.
    pub shared: Option<&'a [Times]>,
    /// Set if `schemes` are the flows of one scheme; the run then gives one row for all of them.
    pub crowd: Option<Crowd<'a>>,
    /// Schemes to compare.
    pub schemes: &'a [Scheme],
    /// Length of the window.
    pub duration: Span,
    /// Number of the repetition, from 1.
    pub run: u32,
    /// The programs.
    pub tools: &'a Tools,
    /// Folder for the logs of `alcc run` (the counters of each connection, over time), one folder in
    /// it per controlled scheme.
    pub log: Option<PathBuf>,
}

impl Experiment<'_> {
    /// The number of a scheme's link: its own, or the one that all share.
    fn link_of(&self, scheme: usize) -> usize {
        if self.shared.is_some() { 0 } else { scheme }
    }

    /// Number of links.
    fn links(&self) -> usize {
        match self.shared {
            Some(_) => 1,
            None => self.schemes.len(),
        }
    }

    /// Lifetime of a scheme.
    fn times(&self, scheme: usize) -> Times {
        self.shared
            .map_or_else(Times::default, |times| times[scheme])
    }

    /// The row of a scheme whose run failed.
    pub(crate) fn failed_row(&self, scheme: &Scheme, why: String) -> Row {
        scheme.failed_row(self.link, self.duration, self.run, why)
    }
}

/// The scheme whose flows run.
#[derive(Clone, Copy, Debug)]
pub struct Crowd<'a> {
    /// The scheme.
    pub scheme: &'a Scheme,
    /// Time from the start of the window that its fairness excludes.
    pub settle: Span,
}

/// Lifetime of a flow, since the start of its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Time of its client's request.
    pub start: Span,
    /// Its client leaves then, if before the end.
    pub stop: Option<Span>,
}

/// Part of every note that this machine was too busy for the run.
pub(crate) const UNTRUSTED: &str = "not to be trusted";

/// Result of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// One per scheme, in their order; of a failed one with its error and without figures.
    pub rows: Vec<Row>,
    /// The series of those that did not fail.
    pub series: Vec<Series>,
    /// Notes for the reader: losses outside the model, failures of the runtime.
    pub notes: Vec<String>,
    /// Wake-ups of the sender's threads per second, by scheme; empty for several flows.
    #[serde(default)]
    pub wakeups_per_s: BTreeMap<String, f64>,
}

impl Outcome for Measured {
    fn has_failed(&self) -> bool {
        self.rows.iter().any(|row| row.error.is_some())
    }
}

impl Measured {
    /// Its own notes say that the machine spoiled it.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.notes.iter().any(|note| note.contains(UNTRUSTED))
    }
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
    let scratch = scratch_folder()?;
    let files = scratch.path().join("files");
    server::make_download(&files)?;
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
        let report = &reports[experiment.link_of(i)];
        let row = lane.and_then(|lane| lane.results(experiment, scheme, report, &mut measured));
        match row {
            Ok((row, series)) => {
                measured.rows.push(row);
                measured.series.push(series);
            }
            Err(LabError::Run { why, .. }) => {
                measured.rows.push(experiment.failed_row(scheme, why));
            }
            Err(other) => return Err(other),
        }
    }
    if let Some(crowd) = &experiment.crowd {
        let total = meters
            .first()
            .and_then(|meters| experiment.link.observed(alcc_sys::lock(meters).total()?));
        crowd::together(&mut measured, experiment, crowd, total);
    }
    Ok(measured)
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
                failed.get_or_insert_with(|| {
                    scheme.failed(format!(
                        "the window of {} did not pass within {} s",
                        experiment.duration,
                        patience.as_secs()
                    ))
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
