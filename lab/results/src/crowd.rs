// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several flows over one link as one row, and how they shared it.
use crate::row::{PhaseSummary, Row};
use crate::scenario::Phase;
use alcc_sim::fairness::{self, Share};
use alcc_units::{Bytes, Rate, Span};

/// A flow that begins at most this much later than a phase is there all the time. Flows begin with
/// a random phase of up to 20 ms.
const LATE: Span = Span::from_millis(100);
/// The worst share is that of this many seconds in a row.
const LONG: u64 = 10;

/// Throughput and shares of these flows in one phase of the window.
pub fn of_phase(flows: &[Share<'_>], phase: Phase) -> PhaseSummary {
    let length = Span::from_secs(phase.to - phase.from);
    let mbps = |flow: &Share<'_>| {
        let seconds = flow.seconds.iter().skip(phase.from as usize);
        let bytes = seconds.take((phase.to - phase.from) as usize).sum();
        Rate::of(Bytes::new(bytes), length).as_mbps_f64()
    };
    let there = |flow: &&Share<'_>| {
        flow.from <= Span::from_secs(phase.from) + LATE
            && Span::from_secs(phase.to) <= flow.to + LATE
    };
    PhaseSummary {
        phase: phase.to_string(),
        throughput_mbps: flows.iter().map(mbps).collect(),
        jain: fairness::jain(flows.iter().filter(there).map(mbps)),
        jain_1s: fairness::jain_of_seconds(flows, phase.from, phase.to),
    }
}

/// The worst share over 10 s from `settle` on, and how long the slowest took to a fair share, s.
pub(crate) fn shared(
    shares: &[Share<'_>],
    window: Span,
    settle: Span,
) -> (Option<f64>, Option<f64>) {
    let (from, to) = counted(window, settle);
    let slowest = fairness::time_to_fair_share(shares);
    (
        fairness::worst_share(shares, from, to, LONG),
        slowest.map(Span::as_secs_f64),
    )
}

/// The mean of Jain's index of the whole seconds from `settle` on.
pub(crate) fn jain_of_seconds(shares: &[Share<'_>], window: Span, settle: Span) -> Option<f64> {
    let (from, to) = counted(window, settle);
    fairness::jain_of_seconds(shares, from, to)
}

/// The whole seconds of the window from `settle` on.
fn counted(window: Span, settle: Span) -> (u64, u64) {
    let second = Span::from_secs(1).as_nanos();
    (
        settle.as_nanos().div_ceil(second),
        window.as_nanos() / second,
    )
}

/// The rows of several flows as one: sums, and how the flows shared. `shares` are the flows in the
/// order of `rows`, and `window` is what was measured. What concerns all of it begins `settle`
/// later. Delays, utilization and loss of all packets are not in the rows of the flows. They stay
/// unknown until the observer of the packets fills them in.
pub fn together(rows: &[Row], shares: &[Share<'_>], window: Span, settle: Span) -> Row {
    let Some(first) = rows.first() else {
        return Row::default();
    };
    let sum = |field: fn(&Row) -> Option<f64>| rows.iter().map(field).sum::<Option<f64>>();
    let count = |field: fn(&Row) -> Option<u64>| rows.iter().map(field).sum::<Option<u64>>();
    let names = |field: fn(&Row) -> &String| {
        let mut names: Vec<&str> = Vec::new();
        for name in rows.iter().map(field) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names.join("+")
    };
    let same = |field: fn(&Row) -> &Option<String>| {
        let all = rows.iter().all(|row| field(row) == field(first));
        field(first).clone().filter(|_| all)
    };
    let mut profiles: Vec<&str> = Vec::new();
    for name in rows.iter().filter_map(|row| row.profile.as_deref()) {
        if !profiles.contains(&name) {
            profiles.push(name);
        }
    }
    let least =
        |field: fn(&Row) -> Option<f64>| rows.iter().filter_map(field).min_by(f64::total_cmp);
    let (worst_share_10s, fair_after_s) = shared(shares, window, settle);
    let phases = fairness::phases(shares, window).into_iter();
    let phases = phases.map(|(from, to)| of_phase(shares, Phase { from, to }));
    // Seconds of CPU per Gbit weigh as much as was delivered.
    let cpu = rows
        .iter()
        .map(|row| Some(row.cpu_s_per_gbit? * row.throughput_mbps?));
    let throughput = sum(|row| row.throughput_mbps);
    Row {
        algorithm: names(|row| &row.algorithm),
        options: names(|row| &row.options),
        feedback: names(|row| &row.feedback),
        enforcement: names(|row| &row.enforcement),
        under: same(|row| &row.under),
        profile: (!profiles.is_empty()).then(|| profiles.join("+")),
        host: same(|row| &row.host),
        dir: same(|row| &row.dir),
        link: first.link.clone(),
        queue: first.queue.clone(),
        min_rtt_ms: least(|row| row.min_rtt_ms),
        duration_s: first.duration_s,
        seed: first.seed,
        run: first.run,
        started_s: least(|row| row.started_s),
        start_s: least(|row| row.start_s),
        trace_start_s: first.trace_start_s,
        axis_loss: first.axis_loss,
        loss_up: first.loss_up,
        up: first.up.clone(),
        radio: first.radio.clone(),
        radio_up: first.radio_up.clone(),
        steps: first.steps.clone(),
        wake: first.wake.clone(),
        throughput_mbps: throughput,
        goodput_mbps: sum(|row| row.goodput_mbps),
        bytes: count(|row| row.bytes),
        utilization: sum(|row| row.utilization),
        retransmits: count(|row| row.retransmits),
        timeouts: count(|row| row.timeouts),
        cpu_s_per_gbit: cpu
            .sum::<Option<f64>>()
            .zip(throughput.filter(|mbps| *mbps > 0.0))
            .map(|(cpu, mbps)| cpu / mbps),
        lateness_p99_ms: least(|row| row.lateness_p99_ms.map(|ms| -ms)).map(|ms| -ms),
        jain_1s: jain_of_seconds(shares, window, settle),
        worst_share_10s,
        fair_after_s,
        number_of_flows: Some(rows.len() as u64),
        phases: Some(phases.collect()),
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(algorithm: &str, mbps: f64) -> Row {
        Row {
            algorithm: algorithm.to_owned(),
            profile: Some(crate::row::profile(algorithm, "")),
            feedback: "sim".to_owned(),
            throughput_mbps: Some(mbps),
            utilization: Some(mbps / 20.0),
            retransmits: Some(3),
            cpu_s_per_gbit: Some(mbps),
            lateness_p99_ms: Some(mbps),
            min_rtt_ms: Some(40.0),
            ..Row::default()
        }
    }

    #[test]
    fn flows_add_up_to_one_row_that_says_how_they_shared() {
        let window = Span::from_secs(20);
        let (one, other) = ([1_500_000; 20], [500_000; 20]);
        let share = |from, seconds| Share {
            from: Span::from_secs(from),
            to: window,
            seconds,
        };
        let shares = [share(0, &one[..]), share(5, &other[..])];
        let rows = [row("budget", 12.0), row("cubic", 4.0), row("budget", 0.0)];
        let found = together(&rows[..2], &shares, window, Span::from_secs(10));
        assert_eq!(found.algorithm, "budget+cubic");
        assert_eq!(found.profile.as_deref(), Some("default+linux"));
        assert_eq!(
            (found.feedback.as_str(), found.number_of_flows),
            ("sim", Some(2))
        );
        assert_eq!(found.throughput_mbps, Some(16.0));
        assert!((found.utilization.unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(found.retransmits, Some(6));
        // (12 * 12 + 4 * 4) / 16.
        assert_eq!(found.cpu_s_per_gbit, Some(10.0));
        assert_eq!(found.lateness_p99_ms, Some(12.0));
        // 3 : 1 is 16 / 20, and the smaller has half of its share.
        assert!((found.jain_1s.unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(found.worst_share_10s, Some(0.5));
        assert_eq!(found.fair_after_s, Some(15.0), "never: its whole stay");
        let phases = found.phases.unwrap();
        let names: Vec<&str> = phases.iter().map(|p| p.phase.as_str()).collect();
        assert_eq!(names, ["0s-5s", "5s-20s"]);
        assert_eq!(phases[0].jain_1s, None);
        for jain in [phases[1].jain, phases[1].jain_1s] {
            assert!((jain.unwrap() - 0.8).abs() < 1e-12);
        }
        assert_eq!(phases[1].throughput_mbps, [12.0, 4.0]);
        // A value that is unknown for one flow is unknown for all together.
        let unknown = together(&[rows[0].clone(), Row::default()], &shares, window, window);
        assert_eq!((unknown.throughput_mbps, unknown.jain_1s), (None, None));
        assert_eq!(
            together(&rows, &shares, window, window).algorithm,
            "budget+cubic"
        );
    }
}
