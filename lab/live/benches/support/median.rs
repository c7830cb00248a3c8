// SPDX-License-Identifier: Apache-2.0 OR MIT

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.get(upper) {
        None => f64::NAN,
        Some(m) if sorted.len() % 2 == 1 => *m,
        Some(m) => (sorted[upper - 1] + m) / 2.0,
    }
}
