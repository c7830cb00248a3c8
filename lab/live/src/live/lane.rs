// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One scheme of a run, from its first connection to its row.
use super::programs::{Addresses, Programs};
use super::wire::{Meters, Wire};
use super::{Experiment, Measured, Times, UNTRUSTED};
use crate::LabError;
use crate::cpu::Work;
use crate::scheme::Scheme;
use alcc_emu::EmuReport;
use alcc_results::{Row, Series};
use alcc_units::{Bytes, Span, Time};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// One scheme: its programs, and what is seen of them at the link.
pub(super) struct Lane {
    pub(super) programs: Box<dyn Programs>,
    work: [Option<Work>; 2],
    times: Times,
    has_come: bool,
    has_gone: bool,
    origin: Instant,
    meters: Arc<Mutex<Meters>>,
    /// The begin of the window, once known.
    started: Option<Time>,
    pub(super) over: bool,
}

/// A lane whose own programs failed carries its error on; what is wrong with the machine ends the
/// run.
pub(super) type Trial = Result<Lane, LabError>;

impl Lane {
    /// `programs` wait for their client, which connects over `wire`.
    pub(super) fn new(
        mut programs: Box<dyn Programs>,
        wire: &Wire,
        times: Times,
    ) -> Result<Self, LabError> {
        let origin = wire.emulator.started();
        programs.prepare(Addresses {
            from: wire.emulator.outside_addr(),
            to: wire.emulator.inside_addr(),
            origin,
        })?;
        Ok(Self {
            programs,
            work: [None; 2],
            times,
            has_come: false,
            has_gone: false,
            origin,
            meters: Arc::clone(&wire.meters),
            started: None,
            over: false,
        })
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.origin.elapsed())
    }

    /// Starts and stops the clients at their times.
    pub(super) fn start_and_stop_clients(&mut self) -> Result<(), LabError> {
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

    pub(super) fn observe(&mut self, window: Span) {
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
            // The relay may be late with packets of the window, by a few ms at worst on a machine
            // that is fast enough.
            Some(started) if self.now().since(started) >= window + Span::from_millis(100) => {
                self.work[1] = done();
                self.over = true;
            }
            Some(_) => {}
        }
    }

    pub(super) fn results(
        mut self,
        experiment: &Experiment<'_>,
        scheme: &Scheme,
        emulated: &EmuReport,
        measured: &mut Measured,
    ) -> Result<(Row, Series), LabError> {
        let link = experiment.link;
        let seen = alcc_sys::lock(&self.meters)
            .find(emulated, |flow| self.programs.owns(flow))
            .and_then(|meter| link.observed(meter))
            .ok_or_else(|| scheme.failed("no data came to the link"))?;

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
        let hidden = emulated.hidden_drops();
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
