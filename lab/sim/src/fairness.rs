// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fairness of flows at a bottleneck, from the bytes of each flow in every second.
use alcc_units::Span;

const SECOND: Span = Span::from_secs(1);

/// A flow as input of the fairness measures. Times are since the window's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share<'a> {
    /// Start of its application; zero if it started before the window.
    pub from: Span,
    /// End of its application, by a stop or because it had received everything; else the window's
    /// end.
    pub to: Span,
    /// IP bytes that the bottleneck delivered in each second of the window. May end early if the
    /// rest is zero.
    pub seconds: &'a [u64],
}

impl Share<'_> {
    fn is_there(&self, from: Span, to: Span) -> bool {
        self.from <= from && to <= self.to
    }

    /// Its bytes in these whole seconds.
    fn bytes(&self, from: u64, to: u64) -> f64 {
        let seconds = self.seconds.iter().skip(from as usize);
        // As integers: a sum of no floats is -0.
        seconds.take((to - from) as usize).sum::<u64>() as f64
    }
}

/// Jain's index of fairness, 1 when all are equal; `None` if there is nothing to share.
pub fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

/// The bytes of the flows that are there from second `from` to second `to`, if they are two or
/// more.
fn gots(flows: &[Share<'_>], from: u64, to: u64) -> Option<Vec<f64>> {
    let there = flows
        .iter()
        .filter(|flow| flow.is_there(SECOND * from, SECOND * to));
    let gots: Vec<f64> = there.map(|flow| flow.bytes(from, to)).collect();
    (gots.len() >= 2).then_some(gots)
}

/// The mean of Jain's index over the seconds from `from` to `to`. A second counts the flows that
/// are there all that second, if there are two or more. `None` if there is no such second.
pub fn jain_of_seconds(flows: &[Share<'_>], from: u64, to: u64) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for second in from..to {
        let found = gots(flows, second, second + 1);
        if let Some(index) = found.and_then(|gots| jain(gots.into_iter())) {
            sum += index;
            count += 1.0;
        }
    }
    (count > 0.0).then(|| sum / count)
}

/// The smallest share of any flow over `length` consecutive seconds between `from` and `to`; 1 is
/// an equal share. It counts the flows that are there all that time. `None` if there is no such
/// time.
pub fn worst_share(flows: &[Share<'_>], from: u64, to: u64, length: u64) -> Option<f64> {
    let shares = (from..(to + 1).saturating_sub(length)).filter_map(|begin| {
        let gots = gots(flows, begin, begin + length)?;
        let all: f64 = gots.iter().sum();
        let least = gots.iter().copied().fold(f64::INFINITY, f64::min);
        (all > 0.0).then(|| least * gots.len() as f64 / all)
    });
    shares.min_by(f64::total_cmp)
}

/// The part of an equal share from which a flow counts as settled.
const FAIR: f64 = 0.8;

/// The time of the slowest flow. It ends with the first whole second in which that flow had 80 % of
/// an equal share. It begins with the flow. A flow that never had it counts with its whole
/// lifetime. A flow that is never beside another does not count. `None` if there is nobody to share
/// with.
pub fn time_to_fair_share(flows: &[Share<'_>]) -> Option<Span> {
    let taken = flows.iter().filter_map(|flow| {
        let first = flow.from.as_nanos().div_ceil(SECOND.as_nanos());
        let last = flow.to.as_nanos() / SECOND.as_nanos();
        let mut beside = false;
        for second in first..last {
            let Some(gots) = gots(flows, second, second + 1) else {
                continue;
            };
            beside = true;
            let fair = gots.iter().sum::<f64>() / gots.len() as f64;
            if flow.bytes(second, second + 1) >= FAIR * fair {
                return Some(SECOND * (second + 1) - flow.from);
            }
        }
        beside.then(|| flow.to - flow.from)
    });
    taken.max()
}

/// The whole seconds between starts and stops: beginning and end of each period in which the same
/// flows are there.
pub fn phases(flows: &[Share<'_>], window: Span) -> Vec<(u64, u64)> {
    let mut changes: Vec<Span> = flows.iter().flat_map(|flow| [flow.from, flow.to]).collect();
    changes.extend([Span::ZERO, window]);
    changes.retain(|at| *at <= window);
    changes.sort();
    changes.dedup();
    let between = changes.windows(2).map(|pair| {
        let from = pair[0].as_nanos().div_ceil(SECOND.as_nanos());
        (from, pair[1].as_nanos() / SECOND.as_nanos())
    });
    between.filter(|(from, to)| from < to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(from: Span, to: u64, seconds: &[u64]) -> Share<'_> {
        Share {
            from,
            to: Span::from_secs(to),
            seconds,
        }
    }

    #[test]
    fn a_newcomer_takes_its_place() {
        let late = Span::from_millis(1_500);
        let flows = [
            share(Span::ZERO, 6, &[10, 10, 10, 8, 5, 5]),
            share(late, 6, &[0, 0, 0, 2, 5, 5]),
        ];
        // It is there from second 2 on: 0 of 10, 2 of 10, then equal. 5 s - 1.5 s.
        assert_eq!(
            time_to_fair_share(&flows),
            Some(Span::from_millis(3_500)),
            "the first flow had its share at once"
        );
        let jain = jain_of_seconds(&flows, 0, 6).unwrap();
        // 0.5; 100 / (2 * 68); 1; 1.
        assert!((jain - (0.5 + 100.0 / 136.0 + 2.0) / 4.0).abs() < 1e-12);
        assert_eq!(jain_of_seconds(&flows, 0, 2), None, "one flow alone");
        // Seconds 2 and 3: 2 of 20, an equal share being 10.
        assert_eq!(worst_share(&flows, 0, 6, 2), Some(0.2));
        assert_eq!(worst_share(&flows, 4, 6, 2), Some(1.0));
        // Who gets nothing any more has no sign, either.
        let ended = [flows[0], share(Span::ZERO, 6, &[10])];
        let worst = worst_share(&ended, 2, 6, 2).unwrap();
        assert!(worst == 0.0 && worst.is_sign_positive(), "{worst}");
        assert_eq!(worst_share(&flows, 0, 6, 5), None, "never two for 5 s");
        assert_eq!(worst_share(&flows, 0, 3, 5), None);
        assert_eq!(phases(&flows, Span::from_secs(6)), [(0, 1), (2, 6)]);
    }

    #[test]
    fn who_never_has_its_share_counts_with_its_stay() {
        let flows = [
            share(Span::ZERO, 4, &[10, 10, 10, 10]),
            share(Span::ZERO, 3, &[0, 0, 1]),
        ];
        assert_eq!(time_to_fair_share(&flows), Some(Span::from_secs(3)));
        assert_eq!(time_to_fair_share(&flows[..1]), None);
        assert_eq!(phases(&flows, Span::from_secs(4)), [(0, 3), (3, 4)]);
        // The series of the second flow ends early: nothing.
        assert_eq!(worst_share(&flows, 0, 3, 3), Some(2.0 / 31.0));
        assert_eq!(jain([0.0, 0.0].into_iter()), None);
    }
}
