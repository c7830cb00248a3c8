// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The curve through the delay profile: a penalised least-squares natural cubic spline.
//!
//! The paper speaks of cubic spline interpolation. The authors' program calls a penalised fit (smoothing 2.0) on few
//! equidistant nodes, which is so stiff that with windows below about 150 packets it is nearly a straight line. This
//! file computes that same curve. It minimises `|F c - y|² + λ ∫ S''² + τ |c|²` over the values `c` of S at the nodes.
//!
//! | constant | value | unit | where |
//! |---|---|---|---|
//! | ρ | 2 | λ = 10^ρ Φ / Ψ | program; Φ, Ψ: largest diagonal elements of the data and the penalty term |
//! | ridge | Φ (1 + λ) · 5e-15 | – | program's library |
//! | nodes | m/15, at least 5 | – | program: 15 lowered until m/N ≥ 5 |
//!
//! Differs: it is solved in B-spline coefficients, whose matrices have only seven diagonals. So it costs O(points +
//! nodes) and not O(nodes³). The minimum is the same, to rounding. Φ ignores basis functions more than eight nodes away
//! (1e-9 of it).
use super::curve::Curve;

constants! { VERUS:
    /// Windows between two nodes of the spline: initial value of the search for the divisor.
    pub DIVISOR: u32 = 15;
    /// Fewest nodes of a curve.
    FEWEST: u32 = 5;
}
/// Half the bandwidth, with the diagonal.
const BAND: usize = 4;
/// Number of nodes after which a basis function is below 1e-18.
const REACH: usize = 32;
/// Number of nodes after which the square of a basis function does not matter for Φ.
const PHI_REACH: f64 = 8.0;

/// The largest divisor from `from` down that gives at least the fewest useful nodes for `largest`, and the number of nodes.
/// `None` if no divisor does.
pub fn nodes(largest: u32, from: u32) -> Option<(u32, usize)> {
    (1..=from)
        .rev()
        .find(|n| largest / n >= FEWEST)
        .map(|n| (n, (largest / n) as usize))
}

/// One data point in the fit's own coordinates.
struct Row {
    /// Position in node distances, 0 to `nodes - 1`.
    at: f64,
    /// Index of the first of the (up to four) coefficients with an influence here.
    first: usize,
    weight: [f64; 4],
    y: f64,
}

/// Weights of the B-spline coefficients at `at`; the two beyond the ends are folded in (second
/// derivative zero there).
pub(super) fn weights(at: f64, nodes: usize) -> (usize, [f64; 4]) {
    let cell = (at.max(0.0) as usize).min(nodes - 2);
    let t = at - cell as f64;
    let (t2, t3) = (t * t, t * t * t);
    let raw = [
        (1.0 - t) * (1.0 - t) * (1.0 - t) / 6.0,
        (3.0 * t3 - 6.0 * t2 + 4.0) / 6.0,
        (-3.0 * t3 + 3.0 * t2 + 3.0 * t + 1.0) / 6.0,
        t3 / 6.0,
    ];
    let mut w = raw;
    let mut first = cell.saturating_sub(1);
    if cell == 0 {
        // a[-1] = 2 a[0] - a[1]
        w = [raw[1] + 2.0 * raw[0], raw[2] - raw[0], raw[3], 0.0];
    }
    if cell == nodes - 2 {
        // a[n] = 2 a[n-1] - a[n-2]
        w = [0.0, raw[0], raw[1] - raw[3], raw[2] + 2.0 * raw[3]];
        first = nodes - 4;
    }
    (first, w)
}

/// Data points in the fit's own coordinates: `low` is at node 0, `last` at the last one.
fn rows(points: impl Iterator<Item = (f64, f64)>, [low, last]: [f64; 2], nodes: usize) -> Vec<Row> {
    let cells = (nodes - 1) as f64;
    points
        .map(|(x, y)| {
            let at = ((x - low) / (last - low) * cells).clamp(0.0, cells);
            let (first, weight) = weights(at, nodes);
            Row {
                at,
                first,
                weight,
                y,
            }
        })
        .collect()
}

/// Fits the curve. `None` if there are fewer than two points or fewer than five nodes, or if the system has no finite
/// solution.
pub fn fit(points: impl Iterator<Item = (u32, f64)>, nodes: usize, rho: f64) -> Option<Curve> {
    let data: Vec<(f64, f64)> = points.map(|(w, d)| (f64::from(w), d)).collect();
    let (first, last) = (data.first()?.0, data.last()?.0);
    if nodes < 5 {
        return None;
    }
    let low = if last > first { first } else { first / 2.0 };
    let n = data.len() as f64;
    let mean = data.iter().map(|(_, y)| y).sum::<f64>() / n;
    let variance = data
        .iter()
        .map(|(_, y)| (y - mean) * (y - mean))
        .sum::<f64>()
        / n;
    let scale = [variance.sqrt(), mean.abs(), 1.0]
        .into_iter()
        .find(|s| *s > 0.0)?;
    let standardized = data.iter().map(|(x, y)| (*x, (y - mean) / scale));
    let rows = rows(standardized, [low, last], nodes);

    let (lambda, ridge) = penalties(&rows, nodes, rho);
    let mut equations = NormalEquations::new(nodes);
    equations.add_data(&rows);
    equations.add_curvature(lambda);
    equations.add_ridge(ridge);
    let coefficients = equations.solve()?;
    Some(Curve::new(
        low,
        last,
        first as u32,
        coefficients,
        mean,
        scale,
    ))
}

fn cube(x: f64) -> f64 {
    x * x * x
}

/// λ and the ridge.
fn penalties(rows: &[Row], nodes: usize, rho: f64) -> (f64, f64) {
    let (phi, psi) = sizes(rows, nodes);
    let lambda = libm::pow(10.0, rho) * phi / psi;
    (lambda, phi * (1.0 + lambda) * 10.0 * 5e-16)
}

/// λ as the fit uses it; for the test vectors.
#[cfg(test)]
pub(super) fn lambda(points: &[(u32, f64)], nodes: usize, rho: f64) -> f64 {
    let ends = [points[0].0, points[points.len() - 1].0].map(f64::from);
    let points = points.iter().map(|(x, y)| (f64::from(*x), *y));
    penalties(&rows(points, ends, nodes), nodes, rho).0
}

/// Φ and Ψ are about the spline that is 1 at one node and 0 at the others. Φ is the sum of its
/// squares at the data. Ψ is the integral of its squared second derivative. Each is the largest
/// over the nodes.
fn sizes(rows: &[Row], nodes: usize) -> (f64, f64) {
    // Node values are (a[k-1] + 4 a[k] + a[k+1]) / 6, at the ends a[k]: a tridiagonal system,
    // eliminated once.
    let side = |k: usize| {
        if k == 0 || k + 1 == nodes {
            0.0
        } else {
            1.0 / 6.0
        }
    };
    let diagonal = |k: usize| {
        if k == 0 || k + 1 == nodes {
            1.0
        } else {
            4.0 / 6.0
        }
    };
    let mut upper = vec![0.0; nodes];
    let mut pivot = vec![1.0; nodes];
    for k in 0..nodes {
        pivot[k] = diagonal(k) - if k > 0 { side(k) * upper[k - 1] } else { 0.0 };
        upper[k] = side(k) / pivot[k];
    }
    let mut a = vec![0.0; nodes];
    let (mut phi, mut psi) = (0.0_f64, 0.0_f64);
    let mut begin = 0;
    for node in 0..nodes {
        let (low, high) = (node.saturating_sub(REACH), (node + REACH).min(nodes - 1));
        a[low.saturating_sub(1)..=high].fill(0.0);
        a[node] = 1.0 / pivot[node];
        for k in node + 1..=high {
            a[k] = -side(k) * a[k - 1] / pivot[k];
        }
        for k in (low..high).rev() {
            a[k] -= upper[k] * a[k + 1];
        }
        let bend = |k: usize| {
            if k == 0 || k + 1 >= nodes {
                0.0
            } else {
                a[k - 1] - 2.0 * a[k] + a[k + 1]
            }
        };
        let energy: f64 = (low..high)
            .map(|k| (bend(k), bend(k + 1)))
            .map(|(g, h)| (g * g + g * h + h * h) / 3.0)
            .sum();
        psi = psi.max(energy);
        while begin < rows.len() && rows[begin].at < node as f64 - PHI_REACH {
            begin += 1;
        }
        let squares: f64 = rows[begin..]
            .iter()
            .take_while(|row| row.at <= node as f64 + PHI_REACH)
            .map(|row| {
                (0..4)
                    .map(|i| row.weight[i] * a[row.first + i])
                    .sum::<f64>()
            })
            .map(|f| f * f)
            .sum();
        phi = phi.max(squares);
    }
    (phi, psi / cube(2.0 / (nodes - 1) as f64))
}

/// The normal equations of the fit: a banded symmetric system for the B-spline coefficients.
struct NormalEquations {
    /// `matrix[i][k]` is the element `(i, i - k)`.
    matrix: Vec<[f64; BAND]>,
    right: Vec<f64>,
}

impl NormalEquations {
    fn new(nodes: usize) -> Self {
        Self {
            matrix: vec![[0.0; BAND]; nodes],
            right: vec![0.0; nodes],
        }
    }

    /// Only the lower triangle is kept.
    fn add(&mut self, i: usize, j: usize, value: f64) {
        if j <= i && value != 0.0 {
            self.matrix[i][i - j] += value;
        }
    }

    /// The squared distances from the data.
    fn add_data(&mut self, rows: &[Row]) {
        for row in rows {
            for (i, wi) in row.weight.iter().enumerate() {
                self.right[row.first + i] += wi * row.y;
                for (j, wj) in row.weight.iter().enumerate() {
                    self.add(row.first + i, row.first + j, wi * wj);
                }
            }
        }
    }

    /// λ times the integral of the squared second derivative.
    fn add_curvature(&mut self, lambda: f64) {
        let nodes = self.right.len();
        // Second derivative at an inner node, in node distances: a[k-1] - 2 a[k] + a[k+1]; it is
        // linear between nodes.
        let strength = lambda / cube(2.0 / (nodes - 1) as f64);
        for k in 1..nodes - 1 {
            for (i, ci) in [1.0, -2.0, 1.0].into_iter().enumerate() {
                for (j, cj) in [1.0, -2.0, 1.0].into_iter().enumerate() {
                    self.add(k - 1 + i, k - 1 + j, strength * 2.0 / 3.0 * ci * cj);
                    if k + 2 < nodes {
                        // Both orders of the product of neighbours.
                        self.add(k - 1 + i, k + j, strength / 6.0 * ci * cj);
                        self.add(k + j, k - 1 + i, strength / 6.0 * ci * cj);
                    }
                }
            }
        }
    }

    /// `ridge` times the squared values at the nodes.
    fn add_ridge(&mut self, ridge: f64) {
        let nodes = self.right.len();
        for k in 0..nodes {
            let inner = k > 0 && k + 1 < nodes;
            let value: &[(usize, f64)] = if inner {
                &[(k - 1, 1.0 / 6.0), (k, 4.0 / 6.0), (k + 1, 1.0 / 6.0)]
            } else {
                &[(k, 1.0)]
            };
            for (i, vi) in value {
                for (j, vj) in value {
                    self.add(*i, *j, ridge * vi * vj);
                }
            }
        }
    }

    /// Solves them by Cholesky; `None` if the matrix is not positive definite.
    fn solve(self) -> Option<Vec<f64>> {
        let Self {
            mut matrix,
            right: mut x,
        } = self;
        let n = x.len();
        for i in 0..n {
            for k in (0..BAND.min(i + 1)).rev() {
                let j = i - k;
                let mut sum = matrix[i][k];
                for l in i.saturating_sub(BAND - 1)..j {
                    if j - l < BAND {
                        sum -= matrix[i][i - l] * matrix[j][j - l];
                    }
                }
                if k > 0 {
                    matrix[i][k] = sum / matrix[j][0];
                } else if sum > 0.0 && sum.is_finite() {
                    matrix[i][0] = sum.sqrt();
                } else {
                    return None;
                }
            }
        }
        for i in 0..n {
            for k in 1..BAND.min(i + 1) {
                x[i] -= matrix[i][k] * x[i - k];
            }
            x[i] /= matrix[i][0];
        }
        for i in (0..n).rev() {
            for k in 1..BAND.min(n - i) {
                x[i] -= matrix[i + k][k] * x[i + k];
            }
            x[i] /= matrix[i][0];
        }
        x.iter().all(|v| v.is_finite()).then_some(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, want: f64, tolerance: f64) {
        assert!((found - want).abs() <= tolerance, "{found} is not {want}");
    }

    #[test]
    fn the_node_divisor_is_lowered_until_there_are_five_nodes() {
        let of = |m| nodes(m, DIVISOR);
        assert_eq!(of(4), None);
        assert_eq!(of(5), Some((1, 5)));
        assert_eq!(of(20), Some((4, 5)));
        assert_eq!(of(60), Some((12, 5)));
        assert_eq!(of(74), Some((14, 5)));
        assert_eq!(of(75), Some((15, 5)));
        assert_eq!(of(149), Some((15, 9)));
        assert_eq!(of(150), Some((15, 10)));
        assert_eq!(of(1500), Some((15, 100)));
        assert_eq!(
            nodes(1500, 4),
            Some((4, 375)),
            "a lowered divisor that was kept"
        );
    }

    #[test]
    fn a_straight_profile_is_reproduced_whatever_the_smoothing() {
        for rho in [-2.0, 0.0, 2.0, 4.0] {
            let curve = fit((1..=20).map(|x| (x, 20.0 + 3.0 * f64::from(x))), 5, rho).unwrap();
            for (w, d) in [(1.0, 23.0), (10.0, 50.0), (25.0, 95.0), (100.0, 320.0)] {
                close(curve.delay(w), d, 1e-6);
            }
        }
    }

    #[test]
    fn the_programs_curve_through_a_knee() {
        let points: Vec<(u32, f64)> = (1..=75)
            .map(|x| (x, 50.0 + 4.0 * f64::from(x.max(40) - 40)))
            .collect();
        close(lambda(&points, 5, 2.0), 15.70179, 1e-5);
        let curve = fit(points.into_iter(), 5, 2.0).unwrap();
        for (w, d) in [
            (1.0, 18.4965),
            (20.0, 50.0887),
            (40.0, 85.3939),
            (60.0, 124.2913),
            (75.0, 154.7215),
            (90.0, 185.3097),
        ] {
            close(curve.delay(w), d, 1e-3);
        }
    }

    #[test]
    fn the_programs_curve_through_sparse_points() {
        let x = [1, 2, 3, 4, 5, 30, 31, 32, 33, 34, 75];
        let y = [
            30.0, 30.0, 31.0, 31.0, 32.0, 60.0, 62.0, 61.0, 63.0, 64.0, 150.0,
        ];
        let curve = fit(x.into_iter().zip(y), 5, 2.0).unwrap();
        for (w, d) in [
            (1.0, 23.7411),
            (5.0, 29.5166),
            (20.0, 51.3018),
            (34.0, 72.0504),
            (60.0, 112.0331),
            (75.0, 135.5757),
            (90.0, 159.1623),
        ] {
            close(curve.delay(w), d, 1e-3);
        }
    }

    /// The memo's table of how stiff the curve is, for more nodes than five.
    #[test]
    fn stiffness_by_largest_window() {
        for (largest, knee, nodes_wanted, lambda_wanted, at_1, at_knee) in [
            (60, 30, 5, 12.5, 23.0, 78.4),
            (150, 80, 10, 1.18, 34.7, 89.4),
            (300, 160, 20, 0.119, 51.5, 85.5),
            (600, 320, 40, 0.0134, 50.0, 84.7),
        ] {
            let points: Vec<(u32, f64)> = (1..=largest)
                .map(|x| (x, 50.0 + 4.0 * f64::from(x.max(knee) - knee)))
                .collect();
            let (_, count) = nodes(largest, DIVISOR).unwrap();
            assert_eq!(count, nodes_wanted);
            close(lambda(&points, count, 2.0) / lambda_wanted, 1.0, 0.01);
            let curve = fit(points.into_iter(), count, 2.0).unwrap();
            close(curve.delay(1.0), at_1, 0.06);
            close(curve.delay(f64::from(knee)), at_knee, 0.06);
        }
    }

    #[test]
    fn odd_data_gives_a_finite_curve_or_none() {
        assert!(fit(std::iter::empty(), 5, 2.0).is_none());
        assert!(fit([(1, 5.0), (4, 6.0)].into_iter(), 4, 2.0).is_none());
        for points in [
            vec![(7, 5.0)],
            vec![(7, 0.0), (9, 0.0)],
            vec![(1, 1e-3), (39_999, 6e4)],
        ] {
            let curve = fit(points.into_iter(), 5, 2.0).unwrap();
            assert!([1.0, 8.0, 4e4].iter().all(|w| curve.delay(*w).is_finite()));
        }
    }
}
