// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fixed grids of scenarios around the faults that the search has found, each with a bound.
use super::Drawn;
use crate::Run;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of a full packet, in which short queues are counted.
const PACKET: f64 = 1500.0;

/// A grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grid {
    /// The route becomes longer or shorter at 20 s.
    Route,
    /// Persistent loss from 10 s on.
    Persistent,
    /// Random loss that must be survived.
    Survived,
    /// Short queues with random loss.
    Short,
    /// Several flows in short queues.
    Crowd,
    /// One TCP flow beside it.
    Neighbour,
    /// UDP that does not yield.
    Unresponsive,
}

impl Grid {
    /// All, with the names of the command line.
    pub const ALL: [(&'static str, Self); 7] = [
        ("route", Self::Route),
        ("persistent", Self::Persistent),
        ("survived", Self::Survived),
        ("short", Self::Short),
        ("crowd", Self::Crowd),
        ("neighbour", Self::Neighbour),
        ("unresponsive", Self::Unresponsive),
    ];

    /// The scenarios, numbered from `first`.
    pub fn scenarios(self, first: u64) -> Vec<Drawn> {
        let mut all = Vec::new();
        let mut add = |rate: f64,
                       rtt: f64,
                       queue: f64,
                       more: &[(&'static str, String)],
                       cross: Option<String>,
                       flow: &str| {
            let duration = match self {
                Self::Survived | Self::Short | Self::Neighbour => "60s",
                Self::Unresponsive => "40s",
                _ => "35s",
            };
            let mut options = vec![
                ("link", format!("{rate}mbit")),
                ("rtt", format!("{rtt}ms")),
                ("queue", format!("droptail:bytes={queue:.0}")),
                ("duration", duration.to_owned()),
            ];
            options.extend_from_slice(more);
            all.push(Drawn {
                number: first + all.len() as u64,
                kinds: Vec::new(),
                options,
                flows: vec![flow.to_owned()],
                cross,
                sized: false,
            });
        };
        let bdp = |rate: f64, rtt: f64| rate * 125.0 * rtt;
        let lossy = |loss: f64| [("loss", format!("{loss}%")), ("loss-up", "0".to_owned())];
        match self {
            Self::Route => {
                for (rate, base, rise) in product(
                    &[5.0, 20.0, 100.0],
                    &[30.0, 100.0],
                    &[10.0, 35.0, 70.0, 100.0, 300.0],
                ) {
                    for (from, to) in [(base, base + rise), (base + rise, base)] {
                        let more = [
                            ("step", format!("20s:delay={}ms", to / 2.0)),
                            ("phase", phase_after_step(to)),
                        ];
                        add(rate, from, 500_000.0, &more, None, "W");
                    }
                }
            }
            Self::Persistent => {
                for loss in [10, 20, 30, 50] {
                    let more = [
                        ("step", format!("10s:loss={loss}%,loss-up=0")),
                        ("phase", "15s-30s".to_owned()),
                    ];
                    add(20.0, 80.0, 200_000.0, &more, None, "W");
                }
            }
            Self::Survived => {
                for (loss, queue, _) in product(&[0.1, 0.3, 1.0, 3.0], &[1.0, 2.0], &[0.0]) {
                    add(20.0, 80.0, queue * bdp(20.0, 80.0), &lossy(loss), None, "W");
                }
            }
            Self::Short => {
                for (rate, rtt, queue) in product(
                    &[20.0, 40.0, 200.0],
                    &[4.0, 20.0, 40.0, 100.0],
                    &[0.25, 0.5, 1.0],
                ) {
                    let bytes = queue * bdp(rate, rtt);
                    for loss in [0.01, 0.1, 1.0] {
                        if bytes >= 6.0 * PACKET {
                            add(rate, rtt, bytes, &lossy(loss), None, "W");
                        }
                    }
                }
            }
            Self::Crowd => {
                for (rate, rtt, queue) in
                    product(&[20.0, 100.0, 1000.0], &[2.0, 10.0, 40.0], &[0.5, 1.0, 2.0])
                {
                    let bytes = queue * bdp(rate, rtt);
                    for flow in ["2*W", "4*W", "10*W", "20*W"] {
                        if bytes >= 20.0 * PACKET {
                            add(rate, rtt, bytes, &[], None, flow);
                        }
                    }
                }
            }
            Self::Neighbour => {
                for (rate, rtt) in [(40.0, 11.0), (20.0, 40.0)] {
                    for (queue, loss, _) in product(&[0.4, 0.5, 1.0], &[0.0, 0.1], &[0.0]) {
                        for other in ["cubic", "bbr"] {
                            let other = Some(other.to_owned());
                            add(rate, rtt, queue * bdp(rate, rtt), &lossy(loss), other, "W");
                        }
                    }
                }
            }
            Self::Unresponsive => {
                for (udp, queue, _) in product(
                    &[10.0, 16.0, 19.5],
                    &[30.0 * PACKET, bdp(20.0, 40.0)],
                    &[0.0],
                ) {
                    add(
                        20.0,
                        40.0,
                        queue,
                        &[],
                        Some(format!("udp:rate={udp}mbit")),
                        "W",
                    );
                }
            }
        }
        all
    }

    /// The figures of a run with their bounds. `of` finds the run of a reference.
    fn checks(self, drawn: &Drawn, mine: &Run, of: &dyn Fn(&str) -> Option<Run>) -> Vec<Check> {
        let reference = |name: &str, figure: &dyn Fn(&Run) -> f64| {
            of(name).map_or(f64::NAN, |run| figure(&run))
        };
        let least = |what, value: f64, bound: f64| Check {
            what,
            value,
            bound,
            holds: value >= bound,
        };
        let most = |what, value: f64, bound: f64| Check {
            what,
            value,
            bound,
            holds: value <= bound,
        };
        let option = |name: &str| {
            let mut options = drawn.options.iter();
            options
                .find(|(key, _)| *key == name)
                .map_or("", |(_, value)| value)
        };
        let rate: f64 = number(option("link"));
        let random: f64 = number(option("loss"));
        let beyond = |run: &Run| 100.0 * loss(run) - random;
        let share = |run: &Run| 100.0 * phase(run) / rate;
        let utilization = |run: &Run| {
            let down = run
                .summary
                .as_ref()
                .and_then(|summary| summary.links.first());
            100.0 * down.and_then(|link| link.down.utilization).unwrap_or(0.0)
        };
        let jain = |run: &Run| {
            run.summary
                .as_ref()
                .and_then(|summary| summary.jain_1s)
                .unwrap_or(0.0)
        };
        let goodput = |run: &Run, flow: usize| {
            run.flows
                .get(flow)
                .and_then(|row| row.goodput_mbps)
                .unwrap_or(0.0)
        };
        match self {
            Self::Route => {
                let bound = 90_f64.min(reference("bbr", &share) - 3.0);
                vec![least("% of the link", share(mine), bound)]
            }
            Self::Persistent => {
                let loss = option("step").split("loss=").nth(1).map_or(0.0, number);
                let bound = [(10.0, 75.0), (20.0, 40.0), (30.0, 16.0), (50.0, 12.0)];
                let bound = bound
                    .iter()
                    .find(|(at, _)| *at == loss)
                    .map_or(0.0, |(_, bound)| *bound);
                // What the queue drops is not in it.
                vec![most(
                    "% of the link sent",
                    share(mine) / (1.0 - loss / 100.0),
                    bound,
                )]
            }
            Self::Survived => vec![
                least("% of the link", utilization(mine), 95.0),
                most("% lost beyond", beyond(mine), 1.0),
            ],
            Self::Short => vec![
                most(
                    "% lost beyond",
                    beyond(mine),
                    reference("bbr3", &beyond) + 1.0,
                ),
                least(
                    "% of the link",
                    utilization(mine),
                    90_f64.min(reference("bbr", &utilization) - 3.0),
                ),
            ],
            Self::Crowd => vec![
                most("% lost", beyond(mine), reference("bbr3", &beyond) + 1.0),
                least(
                    "Jain",
                    jain(mine),
                    0.9_f64.min(reference("bbr3", &jain) - 0.03),
                ),
            ],
            Self::Neighbour => {
                let beside = reference("bbr3", &|run| goodput(run, 1));
                vec![least("Mbit/s of the other", goodput(mine, 1), 0.8 * beside)]
            }
            Self::Unresponsive => {
                let udp =
                    |run: &Run| 100.0 * run.flows.get(1).and_then(|row| row.loss).unwrap_or(1.0);
                let own =
                    |run: &Run| 100.0 * run.flows.first().and_then(|row| row.loss).unwrap_or(1.0);
                vec![
                    most("% lost of UDP", udp(mine), 1.0),
                    most("% lost", own(mine), reference("cubic", &own) + 5.0),
                ]
            }
        }
    }

    /// Judges `algorithm` in each of `scenarios` by `runs`, which contain the references.
    pub fn judge(self, scenarios: &[Drawn], runs: &[Run], algorithm: &str) -> Vec<Cell> {
        let by_cell: BTreeMap<&[String], &Run> =
            runs.iter().map(|run| (run.cell.as_slice(), run)).collect();
        let cell = |drawn: &Drawn| {
            let of = |name: &str| {
                let key = [drawn.number.to_string(), name.to_owned()];
                by_cell.get(&key[..]).map(|run| (*run).clone())
            };
            let mine = of(algorithm)?;
            Some(Cell {
                grid: self,
                algorithm: algorithm.to_owned(),
                checks: match &mine.error {
                    None => self.checks(drawn, &mine, &of),
                    Some(_) => Vec::new(),
                },
                error: mine.error,
                command: mine.command,
            })
        };
        scenarios.iter().filter_map(cell).collect()
    }
}

/// Ten whole seconds from the larger of 3 s and ten RTTs after the step at 20 s.
fn phase_after_step(rtt: f64) -> String {
    let from = 20 + 3.max((rtt / 100.0).ceil() as u64);
    format!("{from}s-{}s", from + 10)
}

/// The number at the start of a text such as `20mbit`.
fn number(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    text[..end.unwrap_or(text.len())].parse().unwrap_or(0.0)
}

/// Mean loss of the flows.
fn loss(run: &Run) -> f64 {
    let all = run.flows.iter().filter_map(|row| row.loss);
    all.sum::<f64>() / run.flows.len().max(1) as f64
}

/// Throughput of the first flow in the phase, Mbit/s.
fn phase(run: &Run) -> f64 {
    let phase = run
        .summary
        .as_ref()
        .and_then(|summary| summary.phases.first());
    phase
        .and_then(|phase| phase.throughput_mbps.first().copied())
        .unwrap_or(0.0)
}

fn product(a: &[f64], b: &[f64], c: &[f64]) -> Vec<(f64, f64, f64)> {
    let with = |a: f64| {
        b.iter()
            .flat_map(move |b| c.iter().map(move |c| (a, *b, *c)))
    };
    a.iter().flat_map(|a| with(*a)).collect()
}

/// A figure and its bound.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Check {
    /// The metric, with its unit.
    pub what: &'static str,
    /// The figure.
    pub value: f64,
    /// Its bound.
    pub bound: f64,
    /// True if the figure is within the bound.
    pub holds: bool,
}

/// A scenario of a grid, judged.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// The grid.
    pub grid: Grid,
    /// The algorithm.
    pub algorithm: String,
    /// The figures.
    pub checks: Vec<Check>,
    /// Reason why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The command that runs the same.
    pub command: String,
}

impl Cell {
    /// True if all bounds are kept.
    pub fn holds(&self) -> bool {
        self.error.is_none() && self.checks.iter().all(|check| check.holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_the_scenarios_that_were_asked_for() {
        let count = |grid: Grid| grid.scenarios(0).len();
        // 3 rates, 2 RTTs, 5 steps, both ways.
        assert_eq!(count(Grid::Route), 60);
        assert_eq!((count(Grid::Persistent), count(Grid::Survived)), (4, 8));
        assert_eq!((count(Grid::Neighbour), count(Grid::Unresponsive)), (24, 6));
        // 400 ms are ten RTTs of 4 s.
        assert_eq!(phase_after_step(400.0), "24s-34s");
        assert_eq!(phase_after_step(130.0), "23s-33s");
    }
}
