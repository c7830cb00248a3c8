// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bounds of an expectation.
use crate::definition::Expectation;
use crate::judge::number;
use alcc_results::{Spread, Tolerance};

/// True if the counted values of the starts are within every bound.
pub(crate) fn is_within(e: &Expectation, ours: &Spread) -> bool {
    let [least, most] = bounds(e);
    let [lowest, highest] = counted(e, ours);
    let spanned = e
        .published
        .is_some_and(|p| (ours.min..=ours.max).contains(&p));
    least.is_none_or(|bound| lowest >= bound)
        && most.is_none_or(|bound| highest <= bound)
        && (spanned || !e.spans)
}

/// Distance outside the bounds, as a part of the bound; 0 inside.
pub(crate) fn distance(e: &Expectation, ours: &Spread) -> f64 {
    let [least, most] = bounds(e);
    let [lowest, highest] = counted(e, ours);
    let below = least.map(|bound| (bound - lowest, bound));
    let above = most.map(|bound| (highest - bound, bound));
    let far = [below, above].into_iter().flatten();
    let far = far.map(|(far, bound)| far / bound.abs().max(f64::MIN_POSITIVE));
    far.fold(0.0, f64::max)
}

/// Values that must be within the bounds: the median, or the smallest and the largest start.
fn counted(e: &Expectation, ours: &Spread) -> [f64; 2] {
    if e.every_start {
        [ours.min, ours.max]
    } else {
        [ours.median; 2]
    }
}

/// The smallest and the largest value of its bounds.
fn bounds(e: &Expectation) -> [Option<f64>; 2] {
    let near = e.published.zip(e.within);
    let near = near.map(|(published, part)| (published, Tolerance::part(part).around(published)));
    let least = [near.map(|(published, far)| published - far), e.at_least];
    let most = [near.map(|(published, far)| published + far), e.at_most];
    [
        least.into_iter().flatten().reduce(f64::max),
        most.into_iter().flatten().reduce(f64::min),
    ]
}

/// The bound in words.
pub(crate) fn describe_bound(e: &Expectation) -> String {
    let mut parts = Vec::new();
    if let Some(within) = e.within {
        parts.push(format!("within {} % of it", number(100.0 * within)));
    }
    if let Some(least) = e.at_least {
        parts.push(format!("at least {}", number(least)));
    }
    if let Some(most) = e.at_most {
        parts.push(format!("at most {}", number(most)));
    }
    if e.spans {
        parts.push("between the smallest and the largest start".to_owned());
    }
    let bounds = parts.join(", ");
    if e.every_start {
        bounds + ", in every start"
    } else {
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_within_or_every_start_is() {
        let mut e = Expectation {
            at_least: Some(0.25),
            at_most: Some(0.75),
            ..Expectation::default()
        };
        let spread = |min, median, max| Spread { min, median, max };
        let inside = spread(0.25, 0.5, 0.75);
        let lower = spread(0.125, 0.5, 0.75);
        let higher = spread(0.25, 0.75, 1.125);
        let of = |e: &Expectation| [inside, lower, higher].map(|ours| is_within(e, &ours));
        assert_eq!(of(&e), [true; 3]);
        assert_eq!(distance(&e, &lower), 0.0);
        assert_eq!(describe_bound(&e), "at least 0.25, at most 0.75");
        e.every_start = true;
        assert_eq!(of(&e), [true, false, false]);
        let far = [inside, lower, higher].map(|ours| distance(&e, &ours));
        assert_eq!(far, [0.0, 0.5, 0.5]);
        assert!(describe_bound(&e).ends_with("0.75, in every start"));
    }
}
