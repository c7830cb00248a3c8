// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several flows over one link: the share of each, and the row of all of them.
use super::{Crowd, Experiment, Measured, Times};
use crate::meter::Observed;
use alcc_results::{Row, Series, crowd};
use alcc_sim::fairness::Share;
use alcc_units::Span;

/// The flows of one scheme as one row. If one of them failed, all have.
pub(super) fn together(
    measured: &mut Measured,
    experiment: &Experiment<'_>,
    crowd: &Crowd<'_>,
    total: Option<Observed>,
) {
    let rows = std::mem::take(&mut measured.rows);
    let series = std::mem::take(&mut measured.series);
    let name = &crowd.scheme.name;
    let failed = rows.iter().find_map(|row| row.error.clone());
    let (row, series) = match (failed, total) {
        (None, Some(total)) => {
            let seconds: Vec<Vec<u64>> = series.iter().map(seconds).collect();
            let times = experiment.shared.unwrap_or_default();
            let shares = shares(&rows, &seconds, times, experiment.duration);
            let mut row = crowd::together(&rows, &shares, experiment.duration, crowd.settle);
            total.fill(&mut row);
            row.flow = Some(crowd.scheme.flows.join(" "));
            let series = Series {
                scheme: name.clone(),
                link: row.link.clone(),
                run: row.run,
                ..total.series
            };
            (row, vec![series])
        }
        (failed, _) => {
            let mut row = experiment.link.row(experiment.duration, experiment.run);
            row.error = failed.or_else(|| Some("no data came to the link".to_owned()));
            (row, Vec::new())
        }
    };
    measured.rows = vec![Row {
        scheme: name.clone(),
        ..row
    }];
    measured.series = series;
    measured.wakeups_per_s.clear();
}

/// The share of each flow in the window. `seconds` are the bytes of its seconds.
pub(crate) fn shares<'a>(
    rows: &[Row],
    seconds: &'a [Vec<u64>],
    times: &[Times],
    window: Span,
) -> Vec<Share<'a>> {
    let began = rows.iter().filter_map(|row| row.started_s);
    let began = began.min_by(f64::total_cmp).unwrap_or_default();
    let flows = rows.iter().zip(times).zip(seconds);
    flows
        .map(|((row, times), seconds)| Share {
            from: Span::from_secs_f64(row.started_s.unwrap_or(began) - began),
            to: times.stop.map_or(window, |stop| {
                Span::from_secs_f64(stop.as_secs_f64() - began).min(window)
            }),
            seconds,
        })
        .collect()
}

/// The bytes of each whole second.
pub(crate) fn seconds(series: &Series) -> Vec<u64> {
    let bytes = |bins: &[f64]| bins.iter().sum::<f64>() * series.bin_s * 1e6 / 8.0;
    series.seconds().map(|bins| bytes(bins) as u64).collect()
}
