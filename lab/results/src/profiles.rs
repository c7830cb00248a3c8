// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Delay profiles over time, as rows and as figures. They are the delay of each window that a flow
//! has learned, second by second.
use alcc_sim::{FlowState, Report};
use alcc_units::{Span, Time};
use alcc_zoo::delay_profile::{self, ProfilePoint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Names of the figures of [`Profiles::figures`].
pub const FIGURES: &[&str] = &["curve_rise", "curve_error", "curve_steeper", "curve_slope"];

/// Interval of the snapshots: Verus fits a curve each second.
const INTERVAL: Span = Span::from_secs(1);
/// Most snapshots that are kept of one flow, and the most flows: a run has no bound.
const MOST: usize = 10_000;
const MOST_FLOWS: usize = 64;

/// A profile at one moment.
#[derive(Clone, PartialEq, Debug)]
struct Snapshot {
    at: Time,
    flow: usize,
    points: Vec<ProfilePoint>,
}

impl Snapshot {
    /// The first and the last point of the curve, if it has two.
    fn ends(&self) -> Option<(ProfilePoint, ProfilePoint)> {
        let mut curve = self.points.iter().filter(|point| point.fitted);
        let first = *curve.next()?;
        Some((first, *curve.next_back()?))
    }

    /// Slope of the curve from end to end, ms per packet.
    fn slope(&self) -> Option<f64> {
        let (first, last) = self.ends()?;
        let packets = f64::from(last.window - first.window);
        (packets > 0.0).then(|| (last.delay_ms - first.delay_ms) / packets)
    }

    /// Mean distance of the points from the curve, as a share of their mean delay.
    fn error(&self) -> Option<f64> {
        let curve: BTreeMap<u32, f64> = self
            .points
            .iter()
            .filter(|point| point.fitted)
            .map(|point| (point.window, point.delay_ms))
            .collect();
        let measured = self.points.iter().filter(|point| !point.fitted);
        let both: Vec<(f64, f64)> = measured
            .filter_map(|point| Some((point.delay_ms, *curve.get(&point.window)?)))
            .collect();
        let all: f64 = both.iter().map(|(delay, _)| delay).sum();
        let off: f64 = both
            .iter()
            .map(|(delay, curve)| (delay - curve).abs())
            .sum();
        (all > 0.0).then(|| off / all)
    }
}

/// A profile to be drawn: windows in packets, delays in ms.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DrawnProfile {
    /// Seconds from the start of the window.
    pub at_s: f64,
    /// The flow's throughput in that second, Mbit/s.
    pub throughput_mbps: f64,
    /// Measured points.
    pub points: Vec<(u32, f64)>,
    /// Fitted curve.
    pub curve: Vec<(u32, f64)>,
}

/// The profiles of a run, one snapshot of each flow a second.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    next: Vec<Time>,
    snapshots: Vec<Snapshot>,
}

impl Profiles {
    /// To be called from [`alcc_sim::Probe::flow`]: takes a snapshot when one is due. Flows beyond
    /// the 64th and snapshots beyond the 10,000th are left out.
    pub fn look(&mut self, state: &FlowState<'_>) {
        if state.flow >= MOST_FLOWS || self.snapshots.len() >= MOST {
            return;
        }
        if self.next.len() <= state.flow {
            self.next.resize(state.flow + 1, Time::ZERO);
        }
        if state.at < self.next[state.flow] {
            return;
        }
        let mut points = Vec::new();
        if let Some(cc) = state.controller {
            delay_profile::read(cc, &mut |point| points.push(point));
        }
        if points.is_empty() {
            return;
        }
        self.next[state.flow] = state.at + INTERVAL;
        self.snapshots.push(Snapshot {
            at: state.at,
            flow: state.flow,
            points,
        });
    }

    /// A row has seconds from the start of the window, number of the flow from 0, and `point` or
    /// `curve`. Then come window in packets and delay in ms.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_csv(&self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        writeln!(out, "seconds,flow_number,kind,window_packets,delay_ms")?;
        for one in &self.snapshots {
            let seconds = one
                .at
                .max(report.started)
                .since(report.started)
                .as_secs_f64();
            for point in &one.points {
                let kind = if point.fitted { "curve" } else { "point" };
                let (window, delay) = (point.window, point.delay_ms);
                writeln!(out, "{seconds:.3},{},{kind},{window},{delay:.3}", one.flow)?;
            }
        }
        Ok(())
    }

    /// One of every `each` profiles of the first flow that have a curve, and the last one.
    pub fn drawn(&self, report: &Report, each: usize) -> Vec<DrawnProfile> {
        let fitted = self.snapshots.iter().filter(|one| one.flow == 0);
        let fitted: Vec<&Snapshot> = fitted.filter(|one| one.ends().is_some()).collect();
        let last = fitted.len().saturating_sub(1);
        let chosen = fitted.iter().enumerate();
        let chosen = chosen.filter(|(i, _)| i % each.max(1) == 0 || *i == last);
        let seconds = report.flows.first().map_or(&[][..], |flow| &flow.seconds);
        let of = |one: &Snapshot, fitted: bool| {
            let points = one.points.iter().filter(|point| point.fitted == fitted);
            // Microseconds are enough to draw, and a third of the text.
            let rounded = |ms: f64| (ms * 1_000.0).round() / 1_000.0;
            points
                .map(|point| (point.window, rounded(point.delay_ms)))
                .collect()
        };
        chosen
            .map(|(_, one)| {
                let at = one.at.max(report.started).since(report.started);
                let second = usize::try_from(at.as_nanos() / INTERVAL.as_nanos()).ok();
                let bytes = second.and_then(|second| seconds.get(second)).copied();
                DrawnProfile {
                    at_s: at.as_secs_f64(),
                    throughput_mbps: bytes.unwrap_or(0) as f64 * 8e-6,
                    points: of(one, false),
                    curve: of(one, true),
                }
            })
            .collect()
    }

    /// Figures of the first flow's profile, those of [`FIGURES`] that it has:
    ///
    /// - `curve_rise`: delay at the curve's end over that at its start, median of the snapshots;
    /// - `curve_error`: mean distance of the points from the curve over their mean delay, median;
    /// - `curve_steeper`: mean slope of the curves in the half of the seconds with the lower
    ///   throughput, over that in the other half;
    /// - `curve_slope`: slope of the curves, ms per packet, median of the snapshots.
    pub fn figures(&self, report: &Report) -> BTreeMap<String, f64> {
        let of_first = || self.snapshots.iter().filter(|one| one.flow == 0);
        let rise = of_first().filter_map(|one| {
            let (first, last) = one.ends()?;
            (first.delay_ms > 0.0).then(|| last.delay_ms / first.delay_ms)
        });
        let errors = of_first().filter_map(Snapshot::error);
        let seconds = report.flows.first().map(|flow| flow.seconds.as_slice());
        let slopes = of_first().filter_map(|one| {
            let second = one.at.max(report.started).since(report.started);
            let second = usize::try_from(second.as_nanos() / INTERVAL.as_nanos()).ok()?;
            Some((*seconds?.get(second)?, one.slope()?))
        });
        let figures = [
            median(rise.collect()),
            median(errors.collect()),
            steeper(slopes.collect()),
            median(of_first().filter_map(Snapshot::slope).collect()),
        ];
        let named = FIGURES.iter().zip(figures);
        named
            .filter_map(|(name, figure)| Some(((*name).to_owned(), figure?)))
            .collect()
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// Ratio of the mean slope of the lower half to that of the upper half, from pairs of throughput
/// and slope.
fn steeper(mut pairs: Vec<(u64, f64)>) -> Option<f64> {
    pairs.sort_by_key(|(throughput, _)| *throughput);
    let (low, high) = pairs.split_at(pairs.len() / 2);
    let mean = |half: &[(u64, f64)]| {
        let sum: f64 = half.iter().map(|(_, slope)| slope).sum();
        (!half.is_empty()).then(|| sum / half.len() as f64)
    };
    let (low, high) = mean(low).zip(mean(high))?;
    (high > 0.0).then(|| low / high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_link::{QueueSpec, RateSpec};
    use alcc_sim::{Probe, Scenario};
    use alcc_units::Rate;

    #[derive(Default)]
    struct Watch(Profiles);

    impl Probe for Watch {
        fn flow(&mut self, state: &FlowState<'_>) {
            self.0.look(state);
        }
    }

    fn watched(flow: &str) -> (Profiles, Report) {
        let link = RateSpec::Fixed(Rate::mbps(12));
        let rtt = Span::from_millis(40);
        let mut scenario = Scenario::dumbbell(link, rtt, QueueSpec::default());
        scenario.duration = Span::from_secs(10);
        let flows = alcc_sim::FlowSpec::parse(flow, &alcc_zoo::registry(), Default::default());
        scenario.flows = flows.unwrap();
        let mut watch = Watch::default();
        let report = alcc_sim::run_with(&scenario, &mut watch).unwrap();
        (watch.0, report)
    }

    #[test]
    fn a_flow_of_verus_shows_points_and_a_rising_curve_each_second() {
        let (profiles, report) = watched("verus:profile=original");
        let figures = profiles.figures(&report);
        assert!(figures["curve_rise"] > 1.2, "{figures:?}");
        assert!((0.0..0.5).contains(&figures["curve_error"]), "{figures:?}");
        let drawn = profiles.drawn(&report, 5);
        assert!((2..=4).contains(&drawn.len()), "{}", drawn.len());
        let last = drawn.last().unwrap();
        assert!(last.at_s > 8.0 && last.points.len() > 2 && last.curve.len() > 2);
        assert!(
            (1.0..12.1).contains(&last.throughput_mbps),
            "{}",
            last.throughput_mbps
        );
        let mut csv = Vec::new();
        profiles.write_csv(&mut csv, &report).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert!((9..=11).contains(&profiles.snapshots.len()));
        for kind in [",0,point,", ",0,curve,"] {
            assert!(
                csv.lines().skip(1).any(|line| line.contains(kind)),
                "{kind}"
            );
        }
    }

    #[test]
    fn who_learns_no_profile_has_no_figures() {
        let (profiles, report) = watched("cubic");
        assert_eq!(profiles.figures(&report), BTreeMap::new());
        assert_eq!(
            steeper(vec![(1, 4.0), (9, 1.0), (8, 1.0), (2, 2.0)]),
            Some(3.0)
        );
        assert_eq!((steeper(Vec::new()), median(Vec::new())), (None, None));
    }
}
