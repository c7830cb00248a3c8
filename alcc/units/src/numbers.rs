// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as they are stored and shown. Zero is written without a sign.

/// The percentile by nearest rank: the smallest measured value that at least `percent` per cent of
/// the values do not exceed. `None` without values. The values must be in ascending order.
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// The sum; 0 for no values. The sum of the standard library is -0 then, which JSON and tables
/// would show.
pub fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |sum, value| sum + value)
}

/// A difference with its sign and `digits` digits after the point: `+1.2`, `-0.5`. A value that
/// rounds to zero has no sign.
pub fn signed(value: f64, digits: usize) -> String {
    let text = format!("{value:+.digits$}");
    if text.trim_start_matches(['+', '-', '0', '.']).is_empty() {
        format!("{:.digits$}", 0.0)
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let found = [0, 5, 6, 50, 95, 100].map(|percent| percentile(&values, percent));
        assert_eq!(found, [1.0, 1.0, 2.0, 10.0, 19.0, 20.0].map(Some));
        assert_eq!(percentile::<f64>(&[], 50), None);
    }

    #[test]
    fn the_sum_of_nothing_has_no_sign() {
        assert!(sum([]).is_sign_positive());
        assert!((sum([0.5, 0.25]) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn differences_have_a_sign_unless_they_are_none() {
        let all = [-0.04, 0.04, -0.0, -0.06, 1.25, -30.0].map(|value| signed(value, 1));
        assert_eq!(all, ["0.0", "0.0", "0.0", "-0.1", "+1.2", "-30.0"]);
        assert_eq!(signed(-0.4, 0), "0");
    }
}
