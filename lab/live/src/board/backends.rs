// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Backends of a comparison: real programs on emulated links, or the simulator.
use super::{Finished, Plan, Progress, Run, name};
use crate::link::Link;
use crate::live::{self, Crowd, Experiment, Measured};
use crate::scheme::Scheme;
use crate::simulated::{self, GoOn, Simulation};
use crate::tools::Tools;
use crate::twin::Real;
use crate::{LabError, parallel, twin};
use alcc_cc::Registry;
use alcc_units::Span;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Runs real programs on emulated links, one run after the other.
pub(super) struct RealPrograms<'a> {
    pub(super) plan: &'a Plan,
    pub(super) tools: &'a Tools,
    pub(super) log: Option<&'a Path>,
    pub(super) twin: Option<&'a Registry>,
    pub(super) stop: &'a AtomicBool,
}

impl RealPrograms<'_> {
    /// Refuses schemes that are impossible with real programs, before anything runs.
    pub(super) fn check(&self) -> Result<(), LabError> {
        for scheme in &self.plan.schemes {
            if !scheme.is_crowd {
                self.tools.check(scheme)?;
                continue;
            }
            for link in &self.plan.links {
                let flows = self.crowd(link, scheme)?.schemes;
                flows.iter().try_for_each(|flow| self.tools.check(flow))?;
            }
        }
        Ok(())
    }

    pub(super) fn run_all(
        &self,
        runs: &[Run<'_>],
        finished: &mut Finished<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), LabError> {
        let of = runs.len();
        for i in finished.missing() {
            let (what, done) = (&name(self.plan, &runs[i]), finished.done);
            let measured = self.run(&runs[i], done > 0, &mut |part| {
                let part = (done as f64 + part) / of as f64;
                progress(Progress {
                    done,
                    of,
                    part,
                    what,
                });
            })?;
            finished.add(i, measured)?;
        }
        Ok(())
    }

    /// One run. If it fails after others have run, that is its result: what fails at once fails
    /// always.
    fn run(
        &self,
        run: &Run<'_>,
        others_ran: bool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measured, LabError> {
        let crowd = run.schemes.iter().find(|scheme| scheme.is_crowd);
        let real = crowd.map(|scheme| self.crowd(run.link, scheme));
        let real = real.transpose()?;
        let experiment = Experiment {
            link: run.link,
            shared: real.as_ref().map(|real| &real.times[..]),
            crowd: crowd.map(|scheme| Crowd {
                scheme,
                settle: self.plan.settle,
            }),
            schemes: real.as_ref().map_or(&run.schemes[..], |real| &real.schemes),
            duration: self.plan.duration,
            run: run.number,
            tools: self.tools,
            log: (self.log).map(|log| log.join(&run.link.name).join(run.number.to_string())),
        };
        let mut measured = match live::run(&experiment, self.stop, progress) {
            Err(e) if others_ran && !matches!(e, LabError::Stopped) => failed(&experiment, &e),
            tried => tried?,
        };
        if let Some(registry) = self.twin {
            twin::add(
                &mut measured,
                &experiment,
                &run.schemes,
                registry,
                self.stop,
            )?;
        }
        Ok(measured)
    }

    /// The flows of a scheme of several as real programs.
    fn crowd(&self, link: &Link, scheme: &Scheme) -> Result<Real, LabError> {
        Real::crowd(link, scheme, self.plan.duration, &self.tools.registry)
    }
}

/// A run whose schemes have all failed with it.
fn failed(experiment: &Experiment<'_>, error: &LabError) -> Measured {
    let row = |scheme: &Scheme| experiment.failed_row(scheme, error.to_string());
    let rows = match &experiment.crowd {
        Some(crowd) => vec![row(crowd.scheme)],
        None => experiment.schemes.iter().map(row).collect(),
    };
    Measured {
        rows,
        ..Measured::default()
    }
}

/// Runs the simulator, several runs at the same time.
pub(super) struct Simulator<'a> {
    pub(super) plan: &'a Plan,
    pub(super) registry: &'a Registry,
    pub(super) workers: usize,
    pub(super) start: Span,
    pub(super) stop: &'a AtomicBool,
}

impl Simulator<'_> {
    pub(super) fn run_all(
        &self,
        runs: &[Run<'_>],
        finished: &mut Finished<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), LabError> {
        let of = runs.len();
        let missing = finished.missing();
        let parts = Parts::of(runs.len(), finished.done);
        let work = |i: &usize| {
            let measured = self.run(&runs[*i], &|part| {
                parts.set(*i, part);
                !self.stop.load(Ordering::Relaxed)
            });
            parts.set(*i, 1.0);
            measured
        };
        let mut last = missing.first().copied();
        let mut show = |finished: &Finished<'_>, last: Option<usize>| {
            progress(Progress {
                done: finished.done,
                of,
                part: parts.mean(),
                what: &last.map_or_else(String::new, |i| name(self.plan, &runs[i])),
            });
        };
        show(finished, last);
        parallel::each_watched(&missing, self.workers, work, |ready| {
            if let Some((i, measured)) = ready {
                finished.add(*i, measured?)?;
                last = Some(*i);
            }
            show(finished, last);
            Ok::<(), LabError>(())
        })
    }

    fn run(&self, run: &Run<'_>, go_on: GoOn<'_>) -> Result<Measured, LabError> {
        let simulation = Simulation {
            link: run.link,
            scheme: &run.schemes[0],
            registry: self.registry,
            duration: self.plan.duration,
            start: self.start,
            settle: self.plan.settle,
            run: run.number,
        };
        simulated::run(&simulation, go_on)
    }
}

/// Finished part of each run, in millionths, set by several threads.
struct Parts {
    /// Runs of an earlier attempt.
    before: usize,
    of: Vec<AtomicU32>,
}

impl Parts {
    fn of(runs: usize, before: usize) -> Self {
        let of = (0..runs).map(|_| AtomicU32::new(0)).collect();
        Self { before, of }
    }

    fn set(&self, run: usize, part: f64) {
        self.of[run].store((part * 1e6) as u32, Ordering::Relaxed);
    }

    /// Finished part of all runs, 0 to 1.
    fn mean(&self) -> f64 {
        let parts = self.of.iter().map(|part| part.load(Ordering::Relaxed));
        let sum: f64 = parts.map(f64::from).sum();
        (self.before as f64 + sum / 1e6) / self.of.len().max(1) as f64
    }
}
