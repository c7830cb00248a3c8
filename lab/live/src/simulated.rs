// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of a comparison in the simulator. It has a row as `alcc_results` makes it, and the
//! series of a meter at the bottleneck.
use crate::LabError;
use crate::link::Link;
use crate::live::Measured;
use crate::meter::Meter;
use crate::scheme::Scheme;
use alcc_cc::Registry;
use alcc_emu::Dir;
use alcc_results::simulated::{HELD_BY_BUFFER, rows};
use alcc_results::{Series, crowd};
use alcc_sim::{FlowSpec, PacketContent, PacketEvent, PacketStep, Probe, Scenario, SimError};
use alcc_units::{Span, Time};
use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Width of a bin of the plots' series. The time plots show the first repetition, so it has finer
/// bins than the others.
const BINS: [Span; 2] = [Span::from_millis(200), Span::from_secs(1)];

/// One run of a comparison: a scheme alone on a link, one flow or several.
pub struct Simulation<'a> {
    /// The link.
    pub link: &'a Link,
    /// The scheme that sends.
    pub scheme: &'a Scheme,
    /// The algorithms.
    pub registry: &'a Registry,
    /// Length of the window.
    pub duration: Span,
    /// Offset in the trace at which the flows begin.
    pub start: Span,
    /// Time from the start of the window that the fairness of several flows excludes.
    pub settle: Span,
    /// Number of the repetition, from 1.
    pub run: u32,
}

/// Callback for progress: gets the finished part of the run, 0 to 1, and returns whether to
/// continue.
pub type GoOn<'a> = &'a dyn Fn(f64) -> bool;

/// Runs it: one row, and its series if it did not fail. It depends on nothing but the arguments.
///
/// # Errors
/// [`LabError::Stopped`] if `go_on` became false meanwhile; whatever else goes wrong is the row's
/// error.
pub fn run(simulation: &Simulation<'_>, go_on: GoOn<'_>) -> Result<Measured, LabError> {
    let Simulation { scheme, .. } = simulation;
    // An algorithm that breaks its own rules ends its run and no other.
    let measured = catch_unwind(AssertUnwindSafe(|| measure(simulation, go_on)));
    let measured = measured.unwrap_or_else(|panic| {
        let said = message(panic.as_ref());
        Err(scheme.failed(format!("the simulation broke off: {said}")))
    });
    let why = match measured {
        Ok(Some(measured)) => return Ok(measured),
        Ok(None) => "no data came through the link".to_owned(),
        Err(LabError::Stopped) => return Err(LabError::Stopped),
        Err(LabError::Run { why, .. }) => why,
        Err(other) => other.to_string(),
    };
    let row = scheme.failed_row(simulation.link, simulation.duration, simulation.run, why);
    Ok(Measured {
        rows: vec![row],
        ..Measured::default()
    })
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default()
}

/// Its row and its series; `None` if nothing came through the link.
fn measure(simulation: &Simulation<'_>, go_on: GoOn<'_>) -> Result<Option<Measured>, LabError> {
    let Simulation {
        link, scheme, run, ..
    } = *simulation;
    let scenario = scenario(simulation)?;
    let bin = BINS[usize::from(run > 1)];
    let mut watch = Watch {
        meter: Meter::new(scenario.duration, link.path.down.delay, bin),
        waiting: HashMap::new(),
        counted: scenario.flows.iter().map(counts).collect(),
        go_on,
    };
    let report = match alcc_sim::run_with(&scenario, &mut watch) {
        Err(SimError::Stopped { .. }) => return Err(LabError::Stopped),
        other => other.map_err(|e| scheme.failed(e.to_string()))?,
    };
    let seen = link.observed(&watch.meter);
    let rows = rows(&link.name, &scenario, &report).into_iter();
    let (rows, shares): (Vec<_>, Vec<_>) = rows
        .zip(report.shares())
        .zip(&watch.counted)
        .filter_map(|(both, counts)| counts.then_some(both))
        .unzip();
    let Some(seen) = seen.filter(|_| !rows.is_empty()) else {
        return Ok(None);
    };
    let mut row = if scheme.is_crowd {
        let mut row = crowd::together(&rows, &shares, scenario.duration, simulation.settle);
        seen.fill(&mut row);
        row.flow = Some(scheme.flows.join(" "));
        row
    } else {
        rows.into_iter().next().unwrap_or_default()
    };
    if row.bytes.unwrap_or(0) == 0 {
        return Ok(None);
    }
    // A native form has the same triple here as between two programs.
    if scheme.is_native() {
        scheme.describe(&mut row);
    }
    row.scheme.clone_from(&scheme.name);
    row.run = run;
    link.configured().fill(&mut row);
    row.trace_start_s = link.trace_start.map(Span::as_secs_f64);
    let series = Series {
        scheme: scheme.name.clone(),
        link: link.name.clone(),
        run,
        ..seen.series
    };
    let held = (report.flows.iter()).any(|flow| flow.held_by_buffer);
    let notes = held.then(|| format!("{}: {HELD_BY_BUFFER}", scheme.name));
    Ok(Some(Measured {
        rows: vec![row],
        series: vec![series],
        notes: notes.into_iter().collect(),
        ..Measured::default()
    }))
}

pub(crate) fn scenario(simulation: &Simulation<'_>) -> Result<Scenario, LabError> {
    let Simulation { link, duration, .. } = *simulation;
    let mut scenario = (simulation.scheme).scenario(link, duration, simulation.registry)?;
    for flow in &mut scenario.flows {
        flow.start += simulation.start;
        flow.stop = flow.stop.map(|stop| stop + simulation.start);
    }
    Ok(scenario)
}

/// The flow's data go through the bottleneck that is looked at. Of a pair (`dir=both`) the way down
/// counts.
fn counts(flow: &FlowSpec) -> bool {
    flow.dir == Dir::Down
}

/// Watches the bottleneck with the meter that also watches emulated ones, and whether somebody
/// wants to stop.
struct Watch<'a> {
    meter: Meter,
    /// Arrival times of the packets in the queue, by flow and number.
    waiting: HashMap<(usize, u64), Time>,
    /// Flows that are measured.
    counted: Vec<bool>,
    go_on: GoOn<'a>,
}

impl Probe for Watch<'_> {
    fn packet(&mut self, event: &PacketEvent) {
        let PacketContent::Data { pn, .. } = event.content else {
            return;
        };
        if !self.counted[event.flow] {
            return;
        }
        let (at, key) = (event.at, (event.flow, pn));
        match event.what {
            PacketStep::Arrived(_) => {
                self.meter.arrived(at, event.len);
                self.waiting.insert(key, at);
            }
            PacketStep::Departed(_) => {
                if let Some(arrived) = self.waiting.remove(&key) {
                    self.meter.delivered(at, event.len, at.since(arrived));
                }
            }
            // Not what was lost before it reached the queue.
            PacketStep::Dropped(..) if self.waiting.remove(&key).is_some() => {
                self.meter.dropped(at);
            }
            _ => {}
        }
    }

    fn progress(&mut self, now: Time, end: Time) -> bool {
        (self.go_on)(now.as_secs_f64() / end.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::Side;
    use std::path::Path;

    fn measured(link: &str, scheme: &str) -> Measured {
        let registry = alcc_zoo::registry();
        let simulation = Simulation {
            link: &Link::open(Path::new(link), 1).unwrap(),
            scheme: &Scheme::parse(scheme, &registry, Side::Simulated).unwrap(),
            registry: &registry,
            duration: Span::from_secs(5),
            start: Span::from_millis(300),
            settle: Span::from_secs(1),
            run: 1,
        };
        run(&simulation, &|_| true).unwrap()
    }

    /// The lab's meter and the simulator's own count the same packets, except for those at the very
    /// end of the window.
    #[test]
    fn two_meters_agree() {
        for scheme in ["cubic", "copa/over=cubic"] {
            let Measured { rows, series, .. } = measured("synth:lte", scheme);
            let (row, series) = (&rows[0], &series[0]);
            assert!(row.started_s.unwrap() >= 0.3, "{row:?}");
            let bins = series.throughput_mbps.len() as f64;
            let mbps = series.throughput_mbps.iter().sum::<f64>() / bins;
            assert!((mbps / row.throughput_mbps.unwrap() - 1.0).abs() < 1e-3);
            let offered = series.capacity_mbps.iter().sum::<f64>() / bins;
            let utilization = mbps / offered;
            assert!((utilization / row.utilization.unwrap() - 1.0).abs() < 1e-3);
            let quantile = |q: f64| {
                let all = alcc_results::quantiles();
                let at = all
                    .iter()
                    .position(|known| (known - q).abs() < 1e-9)
                    .unwrap();
                series.delay_quantiles_ms[at]
            };
            for (q, want) in [(0.5, row.delay_median_ms), (0.95, row.delay_p95_ms)] {
                let want = want.unwrap();
                assert!(
                    (quantile(q) / want - 1.0).abs() < 0.002,
                    "{scheme} {q}: {want}"
                );
            }
        }
    }

    /// Sums of the flows of `alcc-lab sim`, and their fairness.
    #[test]
    fn several_flows_are_one_row() {
        let Measured { rows, series, .. } =
            measured("12mbit", "3*copa/stagger=103.3ms+cubic@2500ms");
        let [row] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!(row.scheme, "3*copa/stagger=103.3ms+cubic@2500ms");
        assert_eq!(
            (row.algorithm.as_str(), row.number_of_flows),
            ("copa+cubic", Some(4))
        );
        assert!(row.utilization.unwrap() > 0.9, "{row:?}");
        let phases = row.phases.as_ref().unwrap();
        let names: Vec<&str> = phases.iter().map(|p| p.phase.as_str()).collect();
        assert_eq!(names, ["1s-2s", "3s-5s"], "whole seconds between comings");
        assert!(phases[0].jain_1s > phases[1].jain_1s, "{phases:?}");
        let mbps: f64 = phases[1].throughput_mbps.iter().sum();
        assert!((11.0..12.1).contains(&mbps), "{phases:?}");
        assert!(
            row.jain_1s < Some(1.0) && row.jain_1s > Some(0.25),
            "{row:?}"
        );
        assert_eq!(row.worst_share_10s, None, "the window is shorter");
        assert!(row.fair_after_s.unwrap() > 0.0);
        assert!(row.queue_delay_p95_ms > row.queue_delay_mean_ms);
        let bins = series[0].throughput_mbps.len() as f64;
        let seen = series[0].throughput_mbps.iter().sum::<f64>() / bins;
        assert!((seen / row.throughput_mbps.unwrap() - 1.0).abs() < 1e-3);
        // Another seed, other phases of the flows.
        assert_eq!(measured("12mbit", &row.scheme).rows, rows);
    }

    #[test]
    fn a_stopped_run_has_no_result() {
        let registry = alcc_zoo::registry();
        let simulation = Simulation {
            link: &Link::synthetic(1),
            scheme: &Scheme::parse("cubic", &registry, Side::Simulated).unwrap(),
            registry: &registry,
            duration: Span::from_secs(3_600),
            start: Span::ZERO,
            settle: Span::ZERO,
            run: 1,
        };
        let stopped = run(&simulation, &|_| false);
        assert!(matches!(stopped, Err(LabError::Stopped)));
    }
}
