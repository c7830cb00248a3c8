// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated counterpart of an emulated run: results of real TCP in the emulator beside those
//! of the simulator, for the same scheme on the same link.
mod real;

use crate::board::{Plan, Run};
use crate::cells::Cells;
use crate::live::Measured;
use crate::parallel::processors;
use crate::simulated::{self, GoOn, Simulation};
use crate::{LabError, Link};
use alcc_cc::Registry;
use alcc_results::twins::Bounds;
use alcc_results::{EMULATED, Results, Row, SIMULATED, signed};
use alcc_units::Span;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

pub use real::Real;

/// Simulated runs beside each emulated one.
const SEEDS: u64 = 8;

/// A row of real programs, and the simulation beside it.
struct Counterpart<'a> {
    /// Index of the run.
    run: usize,
    row: &'a Row,
    /// Start of its window, seconds from the start of the link.
    started: f64,
    simulation: Simulation<'a>,
}

/// Adds the simulated counterpart of every row, after the last run: it would disturb real programs.
pub(crate) fn add(
    plan: &Plan,
    runs: &[Run<'_>],
    measured: &mut [Measured],
    registry: &Registry,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<(), LabError> {
    for Measured { rows, series, .. } in &mut *measured {
        let rows = rows.iter_mut().map(|row| &mut row.side);
        let sides = rows.chain(series.iter_mut().map(|series| &mut series.side));
        sides.for_each(|side| *side = Some(EMULATED.to_owned()));
    }
    let mut all = Vec::new();
    for (i, (run, measured)) in runs.iter().zip(&*measured).enumerate() {
        for row in measured.rows.iter().filter(|row| row.error.is_none()) {
            let scheme = run.schemes.iter().find(|s| s.name == row.scheme);
            let scheme = scheme.filter(|s| !s.flows.is_empty());
            let Some((scheme, started)) = scheme.zip(row.started_s) else {
                continue;
            };
            let begin = Span::from_secs_f64(started);
            all.push(Counterpart {
                run: i,
                row,
                started,
                simulation: Simulation {
                    link: run.link,
                    scheme,
                    registry,
                    duration: plan.duration,
                    start: begin.saturating_sub(run.link.path.down.delay),
                    settle: plan.settle,
                    run: run.number,
                },
            });
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    let mut cells = Cells::find(None, all.len(), |_| String::new())?;
    let work = |i: usize, go_on: GoOn<'_>| all[i].simulated(go_on);
    let twins = cells.run(processors(), stop, work, &mut |_, part, _| progress(part))?;
    let of: Vec<usize> = all.iter().map(|one| one.run).collect();
    for (run, twin) in of.into_iter().zip(twins) {
        measured[run].rows.extend(twin.rows);
        measured[run].series.extend(twin.series);
    }
    Ok(())
}

impl Counterpart<'_> {
    /// The simulated flow begins so that both windows begin at the same moment of the link.
    fn simulated(&self, go_on: GoOn<'_>) -> Result<Measured, LabError> {
        let Simulation { link, scheme, .. } = self.simulation;
        let run = |start: Span, link: &Link| {
            let simulation = Simulation {
                link,
                start,
                ..self.simulation
            };
            simulated::run(&simulation, &|_| go_on(0.0))
        };
        let mut start = self.simulation.start;
        let mut twin = run(start, link)?;
        // A sender that takes longer until its first full packet begins so much earlier.
        if let Some(late) = twin.rows.first().and_then(|row| row.started_s)
            && late > self.started
        {
            start = start.saturating_sub(Span::from_secs_f64(late - self.started));
            twin = run(start, link)?;
        }
        // One draw of what is random says little: a few more, as far as there is anything random.
        for seed in 1..SEEDS {
            let mut other = link.clone();
            other.path.seed = link.path.seed.wrapping_add(seed << 32);
            let again = run(start, &other)?;
            let numbers = |measured: &Measured| measured.rows.first().map(Row::numbers);
            if seed == 1 && numbers(&again) == numbers(&twin) {
                break;
            }
            twin.rows.extend(again.rows);
        }
        for row in &mut twin.rows {
            if scheme.is_crowd {
                // As its flows together are described on the other side.
                row.feedback.clone_from(&self.row.feedback);
                row.enforcement.clone_from(&self.row.enforcement);
                row.under.clone_from(&self.row.under);
            } else {
                scheme.describe(row);
            }
            row.side = Some(SIMULATED.to_owned());
        }
        for series in &mut twin.series {
            series.side = Some(SIMULATED.to_owned());
        }
        Ok(twin)
    }
}

/// The columns of Jain's index.
const JAIN: std::ops::Range<usize> = 13..15;

/// The comparison for a terminal.
pub fn table(results: &Results) -> String {
    let twins = &results.summary.twins;
    let heading = [
        "link",
        "scheme",
        "runs",
        "util % emu",
        "sim",
        "diff",
        "mean ms emu",
        "sim",
        "diff %",
        "p95 ms emu",
        "sim",
        "queueing mean ms emu",
        "sim",
        "Jain 1 s emu",
        "sim",
        "",
    ];
    let crowds = twins.iter().any(|twin| twin.jain_1s.is_some());
    // Only schemes of several flows have an index.
    let shown = |mut line: Vec<String>| {
        if !crowds {
            line.drain(JAIN);
        }
        line
    };
    let mut lines: Vec<Vec<String>> = vec![shown(heading.map(str::to_owned).to_vec())];
    for twin in twins {
        let [real, model] = twin.utilization.map(|u| format!("{:.1}", 100.0 * u));
        let [real_ms, model_ms] = twin.delay_mean_ms.map(|ms| format!("{ms:.1}"));
        let [real_p95, model_p95] = twin.delay_p95_ms.map(|ms| format!("{ms:.0}"));
        let [real_queue, model_queue] = twin.queue_delay_mean_ms.map(|ms| format!("{ms:.1}"));
        let [real_jain, model_jain] = match twin.jain_1s {
            Some(both) => both.map(|jain| format!("{jain:.3}")),
            None => ["-", "-"].map(str::to_owned),
        };
        lines.push(shown(vec![
            twin.link.clone(),
            results.label(&twin.scheme),
            twin.runs.to_string(),
            real,
            model,
            signed(twin.utilization_difference, 1),
            real_ms,
            model_ms,
            signed(twin.delay_mean_difference, 1),
            real_p95,
            model_p95,
            real_queue,
            model_queue,
            real_jain,
            model_jain,
            if twin.agrees { "" } else { "outside" }.to_owned(),
        ]));
    }
    let mut text = crate::board::aligned(&lines, 2);
    let agree = twins.iter().filter(|t| t.agrees).count();
    let _ = writeln!(
        text,
        "{agree} of {} twins within {} of utilization and {} of mean delay (medians of the distances to the range of the simulated draws){}{}",
        twins.len(),
        Bounds::ONE.utilization.describe(" points"),
        Bounds::ONE.delay.describe(" ms"),
        if crowds {
            let Bounds {
                utilization,
                delay,
                jain,
            } = Bounds::CROWD;
            format!(
                "; several flows {}, {} and {} of Jain's index",
                utilization.describe(" points"),
                delay.describe(" ms"),
                jain.describe("")
            )
        } else {
            String::new()
        },
        if twins.iter().any(|t| t.native) {
            let delay = Bounds::NATIVE_DELAY.describe(" ms");
            format!("; native forms {delay} of mean queueing delay")
        } else {
            String::new()
        }
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Backend;
    use crate::{PathDefaults, Scheme, Side, Tools};
    use alcc_results::{Summary, Twin};
    use std::collections::BTreeSet;
    use std::path::Path;

    /// A plan of one link, whose runs nobody does.
    fn plan(link: Link, schemes: Vec<Scheme>) -> Plan {
        Plan {
            links: vec![link],
            schemes,
            duration: Span::from_secs(2),
            settle: Span::ZERO,
            runs: 1,
            backend: Backend::Emulated {
                tools: Tools::new("alcc".into()),
                log: None,
                twin: None,
            },
            command: String::new(),
            keep: None,
        }
    }

    /// The seeds of the simulated rows beside an emulated one.
    fn seeds(loss: f64) -> Vec<u64> {
        let defaults = PathDefaults {
            loss: [loss, 0.0],
            ..PathDefaults::default()
        };
        let link = Link::open_in(Path::new("12mbit"), &defaults).unwrap();
        let registry = alcc_zoo::registry();
        let schemes = Scheme::list("cubic", &registry, &[Side::Emulated]).unwrap();
        let plan = plan(link, schemes);
        let runs = [Run {
            link: &plan.links[0],
            schemes: plan.schemes.clone(),
            number: 1,
        }];
        let mut row = plan.links[0].row(plan.duration, 1);
        plan.schemes[0].describe(&mut row);
        row.started_s = Some(0.1);
        let mut measured = [Measured {
            rows: vec![row],
            ..Measured::default()
        }];
        let stop = AtomicBool::new(false);
        add(&plan, &runs, &mut measured, &registry, &stop, &mut |_| {}).unwrap();
        let (real, simulated) = measured[0].rows.split_first().unwrap();
        assert_eq!(real.side.as_deref(), Some(EMULATED));
        assert!((simulated.iter()).all(|row| row.side.as_deref() == Some(SIMULATED)));
        simulated.iter().map(|row| row.seed).collect()
    }

    #[test]
    fn a_twin_draws_from_several_seeds_where_anything_is_random() {
        assert_eq!(seeds(0.0).len(), 1);
        let drawn = seeds(0.01);
        let distinct: BTreeSet<u64> = drawn.iter().copied().collect();
        assert_eq!((drawn.len(), distinct.len()), (8, 8), "{drawn:?}");
    }

    #[test]
    fn the_table_shows_differences_and_who_is_outside() {
        let table = |agrees: bool| {
            let twin = Twin {
                delay_mean_difference: 5.0,
                agrees,
                ..Twin::default()
            };
            let summary = Summary {
                twins: vec![twin],
                ..Summary::default()
            };
            table(&Results {
                summary,
                ..Results::default()
            })
        };
        let text = table(true);
        assert!(text.contains("+5.0") && !text.contains("outside"), "{text}");
        assert!(table(false).contains("outside"));
    }
}
