// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of a comparison with real programs on emulated links.
use super::{Plan, Run};
use crate::LabError;
use crate::link::Link;
use crate::live::{self, Crowd, Experiment, Measured};
use crate::scheme::Scheme;
use crate::simulated::GoOn;
use crate::tools::Tools;
use crate::twin::Real;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs real programs on emulated links.
pub(super) struct RealPrograms<'a> {
    pub(super) plan: &'a Plan,
    pub(super) tools: &'a Tools,
    pub(super) log: Option<&'a Path>,
    pub(super) stop: &'a AtomicBool,
    /// A run has been finished, now or by an earlier command.
    pub(super) others_ran: AtomicBool,
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

    /// One run. If it fails after another has succeeded, the failure is its result. If none has
    /// succeeded yet, its error is returned, because probably every run would fail.
    pub(super) fn run(&self, run: &Run<'_>, go_on: GoOn<'_>) -> Result<Measured, LabError> {
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
        let others_ran = self.others_ran.load(Ordering::Relaxed);
        let tried = live::run(&experiment, self.stop, &mut |part| {
            go_on(part);
        });
        let measured = match tried {
            Err(e) if others_ran && !matches!(e, LabError::Stopped) => failed(&experiment, &e),
            tried => tried?,
        };
        self.others_ran.store(true, Ordering::Relaxed);
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
