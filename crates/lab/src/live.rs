// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real experiment: per scheme an nginx, an emulated link of its own and a curl, all at the same time.
use crate::client::Client;
use crate::link::Link;
use crate::meter::{Meter, Observed};
use crate::row::{Row, Series};
use crate::sampler::{self, Diagnosis, History};
use crate::scheme::Scheme;
use crate::server::{self, Server};
use crate::tools::Tools;
use crate::{LabError, cpu, route};
use alcc_emu::{Dir, Emulator, Namespace, Observer, Subnet};
use alcc_link::{DropReason, Outcome};
use alcc_units::{Bytes, Span, Time};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Width of a bin of the plots' series.
const BIN: Span = Span::from_millis(200);
/// A sparse file of this size is more than any window downloads: 1 Gbit/s for 9 minutes.
const DOWNLOAD: u64 = 64 << 30;

/// One run: the schemes beside each other.
pub struct Experiment<'a> {
    /// The link; every scheme gets one of its own.
    pub link: &'a Link,
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

/// What a run yielded.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// One per scheme, in their order; of a failed one with its error and without figures.
    pub rows: Vec<Row>,
    /// The series of those that did not fail.
    pub series: Vec<Series>,
    /// What a reader should know: losses outside the model, failures of the runtime.
    pub notes: Vec<String>,
}

/// Looks at the bottleneck of the downlink.
struct Watch(Arc<Mutex<Meter>>);

impl Observer for Watch {
    fn event(&mut self, dir: Dir, outcome: &Outcome, _: Time) {
        if dir != Dir::Down {
            return;
        }
        let mut meter = lock(&self.0);
        match *outcome {
            Outcome::Arrived { at, packet } => meter.arrived(at, packet.len),
            Outcome::Departed {
                at,
                packet,
                arrived,
            } => meter.delivered(at, packet.len, at.since(arrived)),
            Outcome::Dropped {
                why: DropReason::Loss,
                ..
            }
            | Outcome::Delivered { .. } => {}
            Outcome::Dropped { at, .. } => meter.dropped(at),
        }
    }
}

/// A panic in the relay thread surfaces when the emulator is stopped; until then the figures are readable.
fn lock(meter: &Mutex<Meter>) -> std::sync::MutexGuard<'_, Meter> {
    meter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One scheme with its link. Fields are dropped in their order: programs before the link they use.
struct Lane {
    client: Option<Client>,
    server: Option<Server>,
    emulator: Option<Emulator>,
    meter: Arc<Mutex<Meter>>,
    diagnosis: Diagnosis,
    history: History,
    origin: Instant,
    cpu: [Option<Span>; 2],
    /// The begin of the window, once known.
    started: Option<Time>,
    over: bool,
}

/// Runs it. `progress` is called some times per second with the part that is done, 0 to 1; `stop` ends it early.
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
    let scratch = tempfile::Builder::new()
        .prefix("alcc-")
        .tempdir()
        .map_err(LabError::os("make a temporary folder"))?;
    let files = scratch.path().join("files");
    fs::create_dir(&files)
        .and_then(|()| File::create(files.join(server::FILE)))
        .and_then(|file| file.set_len(DOWNLOAD))
        .map_err(LabError::os(format!(
            "make the file to download in {}",
            files.display()
        )))?;

    let mut lanes = start(experiment, scratch.path(), &files, stop)?;
    watch(&mut lanes, experiment, stop, progress)?;
    let mut measured = Measured::default();
    for (lane, scheme) in lanes.into_iter().zip(experiment.schemes) {
        match lane.and_then(|lane| lane.conclude(experiment, scheme, &mut measured.notes)) {
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
    Ok(measured)
}

/// A lane whose own programs failed carries its error on; what is wrong with the machine ends the run.
type Trial = Result<Lane, LabError>;

/// Servers first, since they take longest; then all links at once, so that the traces begin together; then the downloads.
fn start(
    experiment: &Experiment<'_>,
    scratch: &Path,
    files: &Path,
    stop: &AtomicBool,
) -> Result<Vec<Trial>, LabError> {
    let mut servers = Vec::new();
    for (i, scheme) in experiment.schemes.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Stopped);
        }
        let folder = scratch.join(i.to_string());
        fs::create_dir(&folder).map_err(LabError::os(format!("make {}", folder.display())))?;
        let (outside, inside) = (Namespace::new()?, Namespace::new()?);
        let server = Server::start(
            &outside,
            scheme,
            experiment.tools,
            &folder,
            files,
            experiment.log.as_deref(),
            server::FEW,
        );
        let server = match server {
            Err(e) if e.is_environment() => return Err(e),
            tried => tried,
        };
        servers.push((outside, inside, server));
    }
    let spaces: Vec<_> = servers
        .iter()
        .map(|(o, i, _)| (o.clone(), i.clone()))
        .collect();
    let links: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = spaces
            .iter()
            .map(|(outside, inside)| {
                scope.spawn(|| {
                    let meter = Arc::new(Mutex::new(Meter::new(
                        experiment.duration,
                        experiment.link.path.down.delay,
                        BIN,
                    )));
                    let watch = Box::new(Watch(Arc::clone(&meter)));
                    Emulator::start(
                        outside,
                        inside,
                        Subnet::default(),
                        experiment.link.path.clone(),
                        watch,
                    )
                    .map(|emulator| (emulator, meter))
                })
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
    let mut lanes = Vec::new();
    for (((outside, _, server), link), scheme) in
        servers.into_iter().zip(links).zip(experiment.schemes)
    {
        let (emulator, meter) = link?;
        let server = match server {
            Ok(server) => server,
            Err(failed) => {
                lanes.push(Err(failed));
                continue;
            }
        };
        let (local, peer) = (emulator.outside_addr(), emulator.inside_addr());
        let diagnosis = outside
            .run(|| {
                route::use_algorithm(local, peer, &scheme.kernel)?;
                Diagnosis::open()
            })?
            .map_err(LabError::os(format!(
                "{}: make the kernel use {}",
                scheme.name, scheme.kernel
            )))?;
        lanes.push(Ok(Lane {
            client: None,
            server: Some(server),
            origin: emulator.started(),
            emulator: Some(emulator),
            meter,
            diagnosis,
            history: History::default(),
            cpu: [None; 2],
            started: None,
            over: false,
        }));
    }
    for (lane, (_, inside)) in lanes.iter_mut().zip(&spaces) {
        if let Ok(lane) = lane
            && let Some(emulator) = &lane.emulator
        {
            let server = emulator.outside_addr();
            lane.client = Some(Client::start(
                inside,
                &experiment.tools.curl,
                server,
                lane.origin,
            )?);
        }
    }
    Ok(lanes)
}

/// Looks at every connection each [`sampler::PERIOD`] until all windows have passed.
fn watch(
    lanes: &mut [Trial],
    experiment: &Experiment<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<(), LabError> {
    // A link that is down at first opens the window late; one that never delivers must not hang us.
    let patience = Duration::from(experiment.duration) + Duration::from_secs(20);
    let began = Instant::now();
    let mut next = began;
    let mut ticks = 0u64;
    while !lanes.iter().flatten().all(|lane| lane.over) {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Stopped);
        }
        for (trial, scheme) in lanes.iter_mut().zip(experiment.schemes) {
            let Ok(lane) = trial else { continue };
            lane.look(experiment.duration);
            // Programs that end are noticed within a second.
            let mut failed = None;
            if ticks.is_multiple_of(100) {
                failed = lane.check(&scheme.name).err();
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
            if let Some(failed) = failed {
                *trial = Err(failed);
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

    fn look(&mut self, window: Span) {
        if self.over {
            return;
        }
        // A look that fails is a look that is missing: the rest carries on, and the fields stay null if all are missing.
        if let Ok(connections) = self.diagnosis.connections(server::PORT) {
            let now = self.now();
            self.history.add(now, connections);
        }
        let ran = || self.server.as_ref().and_then(|s| cpu::of_tree(s.id()));
        match self.started {
            None => {
                let started = lock(&self.meter).started();
                if started.is_some() {
                    self.cpu[0] = ran();
                    self.started = started;
                }
            }
            // The relay may be late with packets of the window; it is a few ms at worst on a machine that can do this at all.
            Some(started) if self.now().since(started) >= window + Span::from_millis(100) => {
                self.cpu[1] = ran();
                self.over = true;
            }
            Some(_) => {}
        }
    }

    fn check(&mut self, scheme: &str) -> Result<(), LabError> {
        if let Some(server) = &mut self.server
            && !server.is_alive()
        {
            return Err(server.failure("the server ended during the run"));
        }
        if !self.over && self.client.as_mut().is_some_and(|c| !c.is_alive()) {
            return Err(LabError::Run {
                scheme: scheme.to_owned(),
                why: "curl ended before the window did".to_owned(),
            });
        }
        Ok(())
    }

    fn conclude(
        mut self,
        experiment: &Experiment<'_>,
        scheme: &Scheme,
        notes: &mut Vec<String>,
    ) -> Result<(Row, Series), LabError> {
        let failed = |why: String| LabError::Run {
            scheme: scheme.name.clone(),
            why,
        };
        let reads = self.client.take().map(Client::stop).unwrap_or_default();
        let runtime = self.server.take().and_then(Server::stop);
        let emulated = match self.emulator.take() {
            Some(emulator) => emulator.stop()?,
            None => alcc_emu::EmuReport::default(),
        };
        let link = experiment.link;
        let model = link.path.model(Dir::Down);
        let seen: Observed = lock(&self.meter)
            .finish(|from, to| model.opportunity_bytes(from, to))
            .ok_or_else(|| failed("no data came to the link".to_owned()))?;

        let mut row = link.row(experiment.duration, experiment.run);
        scheme.describe(&mut row);
        seen.fill(&mut row);
        let (from, to) = (seen.started, seen.started + experiment.duration);
        let payload = reads
            .payload(from, to)
            .ok_or_else(|| failed("the server's answer was no success".to_owned()))?;
        row.bytes = Some(payload);
        row.goodput_mbps = Some(payload as f64 * 8.0 / 1e6 / experiment.duration.as_secs_f64());
        if let Some([median, p95]) = self.history.app_delay_ms(&reads.at, from, to) {
            row.app_delay_median_ms = Some(median);
            row.app_delay_p95_ms = Some(p95);
        }
        if let Some([mean, p95]) = self.history.rtt_ms(from, to) {
            row.rtt_mean_ms = Some(mean);
            row.rtt_p95_ms = Some(p95);
        }
        let last = self.history.last();
        if last.written > 0 {
            row.retransmits = Some(last.retransmits);
            row.timeouts = last.timeouts;
            if last.congestion != scheme.kernel {
                return Err(failed(format!(
                    "asked the kernel for {}, and the connection used {}",
                    scheme.kernel, last.congestion
                )));
            }
        }
        if let [Some(before), Some(after)] = self.cpu
            && seen.delivered > Bytes::ZERO
        {
            let gbit = seen.delivered.get() as f64 * 8.0 / 1e9;
            row.cpu_s_per_gbit = Some(after.saturating_sub(before).as_secs_f64() / gbit);
        }
        row.lateness_p99_ms = emulated.lateness_p99.map(Span::as_millis_f64);
        let hidden = emulated.down.hidden_drops() + emulated.up.hidden_drops();
        if hidden > 0 {
            notes.push(format!(
                "{}: {hidden} packets were lost outside the model: this machine could not keep up, the row is not to be trusted",
                scheme.name
            ));
        }
        if scheme.controlled.is_some() {
            let runtime = runtime.ok_or_else(|| failed("alcc run left no report".to_owned()))?;
            if runtime.connections == 0 {
                return Err(failed("alcc run controlled no connection".to_owned()));
            }
            row.feedback = runtime.feedback;
            row.enforcement = runtime.enforcement;
            if runtime.failures > 0 {
                notes.push(format!(
                    "{}: the runtime failed {} times and left the connection to plain TCP",
                    scheme.name, runtime.failures
                ));
            }
            if runtime.gate_closed == 0 && row.enforcement.contains("gate") {
                notes.push(format!(
                    "{}: the gate never closed: the algorithm's window was never the limit",
                    scheme.name
                ));
            }
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
