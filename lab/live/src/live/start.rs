// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The start of a run. First come the programs that wait, since they take longest. Then all links
//! begin at once, and so do their traces. Then the clients connect, in the order of the schemes.
use super::Experiment;
use super::lane::{Lane, Trial};
use super::programs::{self, Namespaces, Programs, RunContext};
use super::wire::Wire;
use crate::LabError;
use alcc_emu::Namespace;
use alcc_units::Bytes;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Everything that runs. Fields are dropped in their order: programs before the links that they
/// use.
pub(super) struct Running {
    pub(super) lanes: Vec<Trial>,
    /// One per lane, or one for all.
    pub(super) wires: Vec<Wire>,
}

/// Starts everything. `scratch` is a folder for the run, `files` holds what servers serve.
pub(super) fn start(
    experiment: &Experiment<'_>,
    scratch: &Path,
    files: &Path,
    stop: &AtomicBool,
) -> Result<Running, LabError> {
    let ends = (0..experiment.links())
        .map(|_| Namespaces::new())
        .collect::<Result<Vec<_>, _>>()?;
    let mut waiting = Vec::new();
    for number in 0..experiment.schemes.len() {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Stopped);
        }
        let ends = &ends[experiment.link_of(number)];
        waiting.push(programs_that_wait(
            experiment, number, ends, scratch, files,
        )?);
    }
    let mut running = Running {
        lanes: Vec::new(),
        wires: start_links(experiment, &ends)?,
    };
    for (number, programs) in waiting.into_iter().enumerate() {
        let wire = &running.wires[experiment.link_of(number)];
        let lane = programs.and_then(|it| Lane::new(it, wire, experiment.times(number)));
        running.lanes.push(unless_environment(lane)?);
    }
    for lane in running.lanes.iter_mut().flatten() {
        lane.start_and_stop_clients()?;
    }
    Ok(running)
}

/// An error of a scheme's own programs is its result. What is wrong with the machine ends the run.
fn unless_environment<T>(tried: Result<T, LabError>) -> Result<Result<T, LabError>, LabError> {
    match tried {
        Err(e) if e.is_environment() => Err(e),
        tried => Ok(tried),
    }
}

/// Starts those of a scheme's programs that wait for their peer.
fn programs_that_wait(
    experiment: &Experiment<'_>,
    number: usize,
    ends: &Namespaces,
    scratch: &Path,
    files: &Path,
) -> Result<Result<Box<dyn Programs>, LabError>, LabError> {
    let scheme = &experiment.schemes[number];
    let is_shared = experiment.shared.is_some();
    if let Some(lowat) = scheme.notsent_lowat {
        limit_unsent(&ends.sender, lowat)?;
    }
    let folder = scratch.join(number.to_string());
    fs::create_dir(&folder).map_err(LabError::os(format!("make {}", folder.display())))?;
    let context = RunContext {
        ends,
        tools: experiment.tools,
        folder: &folder,
        files,
        log: experiment.log.as_deref(),
        number: if is_shared { number as u16 } else { 0 },
        is_shared,
    };
    unless_environment(programs::start(scheme, &context))
}

/// Sets what any TCP of the sending host may have unsent.
fn limit_unsent(host: &Namespace, lowat: Bytes) -> Result<(), LabError> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_notsent_lowat";
    host.run(|| fs::write(FILE, lowat.get().to_string()))?
        .map_err(LabError::os(format!(
            "write {FILE} of the sender's namespace"
        )))
}

/// Starts all links at the same moment, each in its own thread.
fn start_links(experiment: &Experiment<'_>, ends: &[Namespaces]) -> Result<Vec<Wire>, LabError> {
    let (link, duration) = (experiment.link, experiment.duration);
    let apart = experiment.shared.is_some();
    let links: Vec<_> = std::thread::scope(|scope| {
        let start = |ends| scope.spawn(move || Wire::start(ends, link, duration, apart));
        let threads: Vec<_> = ends.iter().map(start).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    links.into_iter().collect()
}
