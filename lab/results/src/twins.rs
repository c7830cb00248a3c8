// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the simulator with real programs: both sides of one scheme on one link.
use crate::Tolerance;
use crate::groups::{Group, Spread};
use crate::row::{EMULATED, Row, SIMULATED};
use serde::{Deserialize, Serialize};

/// Maximum distance of the simulator from real programs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Bound of the utilization, in points.
    pub utilization: Tolerance,
    /// Bound of the mean delay, in ms.
    pub delay: Tolerance,
    /// Bound of Jain's index of single seconds, for several flows.
    pub jain: Tolerance,
}

impl Bounds {
    /// Bounds for one flow.
    pub const ONE: Self = Self {
        utilization: Tolerance::absolute(2.0),
        delay: Tolerance::percent(10.0),
        jain: Tolerance::absolute(0.05),
    };
    /// Bounds for several flows.
    pub const CROWD: Self = Self {
        utilization: Tolerance::absolute(3.0),
        delay: Tolerance::percent(15.0),
        ..Self::ONE
    };
    /// Largest difference of the mean queueing delays, simulated and real, of an algorithm without a TCP below it, ms.
    pub const NATIVE_DELAY: Tolerance = Self::ONE.delay.or(2.0);
}

/// Comparison of both sides of one scheme on one link: medians over the repetitions.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Twin {
    /// The link.
    pub link: String,
    /// The scheme.
    pub scheme: String,
    /// Algorithm, feedback, enforcement and what is under it, on both sides: `verus / tcp-info /
    /// gate+pacing over cubic`.
    pub triple: String,
    /// Repetitions of the emulated side.
    pub runs: u32,
    /// Simulated runs beside each of them, with other draws of what is random: a simulated figure is
    /// a range.
    #[serde(default)]
    pub seeds: u32,
    /// Utilization, emulated and simulated.
    pub utilization: [f64; 2],
    /// Simulated minus emulated utilization, in points.
    pub utilization_difference: f64,
    /// Mean one-way delay, emulated and simulated.
    pub delay_mean_ms: [f64; 2],
    /// Simulated minus emulated mean delay, in % of the emulated one.
    pub delay_mean_difference: f64,
    /// 95th percentile of the one-way delay, emulated and simulated.
    pub delay_p95_ms: [f64; 2],
    /// Mean queueing delay, emulated and simulated.
    #[serde(default)]
    pub queue_delay_mean_ms: [f64; 2],
    /// True if the algorithm runs without a TCP below it.
    #[serde(default)]
    pub native: bool,
    /// Jain's index of single seconds of several flows, emulated and simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain_1s: Option<[f64; 2]>,
    /// Everything is within its [`Bounds`]. Each repetition is compared with the range of the simulated runs beside
    /// it, and the median of these distances counts.
    pub agrees: bool,
}

/// Distance of the range of `simulated` from `emulated`; 0 inside it.
fn distance(emulated: f64, simulated: &[f64]) -> Option<f64> {
    let range = Spread::of(simulated)?;
    Some(emulated.clamp(range.min, range.max) - emulated)
}

/// Pairs both sides of every scheme that has figures on both.
pub fn twins(rows: &[Row], groups: &[Group]) -> Vec<Twin> {
    let of = |side: &'static str| {
        groups
            .iter()
            .filter(move |g| g.side.as_deref() == Some(side))
    };
    of(EMULATED)
        .filter_map(|emulated| {
            let same = |g: &&Group| g.link == emulated.link && g.scheme == emulated.scheme;
            let simulated = of(SIMULATED).find(same)?;
            let both = |field: &str| Some([emulated.median(field)?, simulated.median(field)?]);
            let utilization = both("utilization")?;
            let delay_mean_ms = both("delay_mean_ms")?;
            let utilization_difference = 100.0 * (utilization[1] - utilization[0]);
            let delay_mean_difference = 100.0 * (delay_mean_ms[1] / delay_mean_ms[0] - 1.0);
            let row = rows.iter().find(|r| {
                r.error.is_none() && r.link == emulated.link && r.scheme == emulated.scheme
            })?;
            let queue_delay_mean_ms = both("queue_delay_mean_ms").unwrap_or(delay_mean_ms);
            let native = row.is_native();
            let jain_1s = both("jain_1s");
            let bounds = match row.number_of_flows {
                Some(_) => Bounds::CROWD,
                None => Bounds::ONE,
            };
            let side = |row: &&Row, side: &str| {
                let here = row.link == emulated.link && row.scheme == emulated.scheme;
                here && row.error.is_none() && row.side.as_deref() == Some(side)
            };
            let beside =
                |run: u32| (rows.iter()).filter(move |r| side(r, SIMULATED) && r.run == run);
            // The median over the repetitions of how far the simulated range is away.
            let apart = |of: &dyn Fn(&Row) -> Option<f64>| {
                let each = rows
                    .iter()
                    .filter(|r| side(r, EMULATED))
                    .filter_map(|real| {
                        let simulated: Vec<f64> = beside(real.run).filter_map(of).collect();
                        distance(of(real)?, &simulated)
                    });
                Spread::of(&each.collect::<Vec<f64>>()).map(|spread| spread.median.abs())
            };
            let fairness = apart(&|r| r.jain_1s);
            let fairness_agrees = fairness.is_none_or(|d| d <= bounds.jain.absolute);
            let (delay, bound) = if native {
                let queueing = apart(&|r| r.queue_delay_mean_ms.or(r.delay_mean_ms));
                let bound = Bounds::NATIVE_DELAY.around(queue_delay_mean_ms[0]);
                (queueing, bound)
            } else {
                let delay = apart(&|r| r.delay_mean_ms);
                (delay, bounds.delay.around(delay_mean_ms[0]))
            };
            let delay_agrees = delay.is_some_and(|d| d <= bound);
            let utilization_agrees =
                apart(&|r| r.utilization).is_some_and(|d| 100.0 * d <= bounds.utilization.absolute);
            Some(Twin {
                link: emulated.link.clone(),
                scheme: emulated.scheme.clone(),
                triple: row.triple(),
                runs: emulated.runs,
                seeds: beside(row.run).count() as u32,
                utilization,
                utilization_difference,
                delay_mean_ms,
                delay_mean_difference,
                delay_p95_ms: both("delay_p95_ms")?,
                queue_delay_mean_ms,
                native,
                jain_1s,
                agrees: utilization_agrees && delay_agrees && fairness_agrees,
            })
        })
        .collect()
}

/// One line for each scheme whose sides cannot be compared, because their triples differ.
pub fn mismatches(rows: &[Row]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let side = |row: &&Row, side: &str| row.error.is_none() && row.side.as_deref() == Some(side);
    for emulated in rows.iter().filter(|r| side(r, EMULATED)) {
        let same = |r: &&Row| r.link == emulated.link && r.scheme == emulated.scheme;
        let simulated = rows.iter().filter(|r| side(r, SIMULATED)).find(same);
        if let Some(simulated) = simulated.filter(|m| m.triple() != emulated.triple()) {
            let line = format!(
                "{}: no twins: emulated {}, simulated {}",
                emulated.label(),
                emulated.triple(),
                simulated.triple()
            );
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::summary;

    fn row(side: &str, run: u32, utilization: f64, ms: f64) -> Row {
        Row {
            scheme: "alcc-verus".into(),
            algorithm: "verus".into(),
            feedback: "tcp-info".into(),
            enforcement: "gate+pacing".into(),
            under: Some("cubic".into()),
            link: "l".into(),
            run,
            side: Some(side.into()),
            throughput_mbps: Some(10.0 * utilization),
            utilization: Some(utilization),
            delay_mean_ms: Some(ms),
            delay_p95_ms: Some(2.0 * ms),
            ..Row::default()
        }
    }

    /// With random loss one run is not enough: the emulated value is right if other seeds reach it.
    #[test]
    fn a_range_of_seeds_judges() {
        let agrees = |utilizations: &[f64]| {
            let mut rows = vec![row(EMULATED, 1, 0.28, 50.0)];
            rows.extend(utilizations.iter().map(|u| row(SIMULATED, 1, *u, 50.0)));
            let twin = &twins(&rows, &summary(&rows).groups)[0];
            assert_eq!(twin.seeds as usize, utilizations.len());
            twin.agrees
        };
        assert!(!agrees(&[0.244]) && agrees(&[0.244, 0.29]) && agrees(&[0.244, 0.261]));
        assert!(!agrees(&[0.244, 0.259]));
    }

    #[test]
    fn native_forms_are_judged_by_queueing() {
        let native = |side: &str, queue: f64| Row {
            under: None,
            feedback: "udp".into(),
            enforcement: "native".into(),
            queue_delay_mean_ms: Some(queue),
            ..row(side, 1, 0.9, 20.0 + queue)
        };
        let agrees = |emulated: f64, simulated: f64| {
            let rows = [native(EMULATED, emulated), native(SIMULATED, simulated)];
            twins(&rows, &summary(&rows).groups)[0].agrees
        };
        // Of 5 ms, 2 ms are 40 % and allowed. Of 100 ms, 10 are allowed and 11 are not, although
        // the whole delay differs by less than 10 %.
        assert!(agrees(5.0, 6.9) && !agrees(5.0, 7.1));
        assert!(agrees(100.0, 109.9) && !agrees(100.0, 111.0));
    }

    #[test]
    fn several_flows_are_judged_by_how_they_share_too() {
        let crowd = |side: &str, utilization, ms, jain| Row {
            number_of_flows: Some(6),
            jain_1s: Some(jain),
            ..row(side, 1, utilization, ms)
        };
        let agrees = |utilization, ms, jain| {
            let rows = [
                crowd(EMULATED, 0.95, 100.0, 0.95),
                crowd(SIMULATED, utilization, ms, jain),
            ];
            twins(&rows, &summary(&rows).groups)[0].agrees
        };
        assert!(agrees(0.979, 114.0, 0.99));
        assert!(!agrees(0.981, 100.0, 0.95));
        assert!(!agrees(0.95, 116.0, 0.95));
        assert!(!agrees(0.95, 100.0, 0.89));
    }

    #[test]
    fn medians_of_both_sides_are_compared() {
        let mut rows = vec![
            row(EMULATED, 1, 0.90, 100.0),
            row(SIMULATED, 1, 0.93, 105.0),
            row(EMULATED, 2, 0.92, 90.0),
            row(SIMULATED, 2, 0.93, 105.0),
            row(EMULATED, 3, 0.91, 110.0),
            row(SIMULATED, 3, 0.93, 105.0),
        ];
        let found = twins(&rows, &summary(&rows).groups);
        let [twin] = &found[..] else {
            panic!("{found:?}")
        };
        // Medians 0.91 and 100 ms beside 0.93 and 105 ms.
        assert!((twin.utilization_difference - 2.0).abs() < 1e-9);
        assert!((twin.delay_mean_difference - 5.0).abs() < 1e-9);
        assert_eq!(twin.triple, "verus / tcp-info / gate+pacing over cubic");
        assert_eq!(twin.runs, 3);
        assert!(mismatches(&rows).is_empty());

        for row in &mut rows {
            if row.side.as_deref() == Some(SIMULATED) {
                row.delay_mean_ms = Some(111.0);
                row.feedback = "sim".into();
            }
        }
        let found = twins(&rows, &summary(&rows).groups);
        assert!(!found[0].agrees);
        assert_eq!(mismatches(&rows).len(), 1);
        assert!(twins(&rows[..1], &summary(&rows[..1]).groups).is_empty());
    }
}
