// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model of the link: how its rate changes, and the counts that a rate delivers. These are
//! constants, the same for every flow.
//!
//! The originals ship a file of 2.4 MB that took minutes to compute. It follows from the constants
//! below by one backward recursion. T is the transition of one tick. X is the matrix whose row `b`
//! holds the counts' probabilities at rate `b` and a one. Divide row `b` of T^j X by its last
//! element. The result is the distribution of the count in tick j + 1 of a link that began in bin
//! `b`.
use libm::{erfc, exp, log};
use std::sync::OnceLock;

/// Rates: 0, and `(i + 0.5) * WIDTH`.
pub(super) const BINS: usize = 257;
/// Width of a bin, packets per second.
pub(super) const WIDTH: f64 = 1000.0 / 256.0;
/// Length of a tick, seconds.
pub(super) const TICK: f64 = 0.02;
/// Ticks of a forecast.
pub const HORIZON: usize = 8;

/// Brownian noise of the rate, packets per second per square root of a second.
const SIGMA: f64 = 200.0;
/// Rate at which an outage ends, per second.
const ESCAPE: f64 = 1.0;
/// Counts per tick in the tables: 0 to 29.
const COUNTS: usize = 30;
/// The authors' program looks the normal distribution up in cells of this width, by their middle.
const CELL: f64 = 2000.0 / 32768.0;
/// Transitions beyond this many standard deviations are left out.
const REACH: f64 = 5.0;

/// The normal distribution function as the profiles compute it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phi {
    /// By the program's table.
    Table,
    /// By the error function.
    Exact,
}

pub(super) struct Model {
    /// Row of the transition: first bin it reaches, and the range of its weights in `weights`. Rows
    /// far from both ends are equal but shifted.
    rows: Vec<(usize, std::ops::Range<usize>)>,
    weights: Vec<f64>,
    /// Logarithms of the mean counts per tick; the first is unused.
    log_mean: Vec<f64>,
    mean: Vec<f64>,
    /// For each horizon and count the probabilities, by bin, of at most that count.
    at_most: Vec<f64>,
}

/// The rate of bin `i`, packets per second.
pub(super) fn rate(i: usize) -> f64 {
    if i == 0 {
        0.0
    } else {
        (i as f64 + 0.5) * WIDTH
    }
}

/// Largest count in the tables for horizon `h` (ticks minus one).
pub(super) fn most(h: usize) -> usize {
    (COUNTS - 1) * (h + 1)
}

/// Index of the first count of a horizon.
fn begin(h: usize) -> usize {
    (0..h).map(|h| most(h) + 1).sum()
}

/// A dot product, summed in a fixed order, in eight lanes so that the compiler may use vectors.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (mut a, mut b) = (a.chunks_exact(8), b.chunks_exact(8));
    for (a, b) in (&mut a).zip(&mut b) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a.remainder()).zip(b.remainder()) {
        *lane += a * b;
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}

fn phi(x: f64, sd: f64, how: Phi) -> f64 {
    if x.is_infinite() {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    // Edges are whole multiples of half a cell, so the middle of their cell is half a cell higher.
    let x = match how {
        Phi::Exact => x,
        Phi::Table => x + CELL / 2.0,
    };
    0.5 * erfc(-x / sd / std::f64::consts::SQRT_2)
}

impl Model {
    /// The model of a profile, computed on first use (milliseconds) and shared by all flows of the
    /// process.
    pub(super) fn shared(how: Phi) -> &'static Self {
        static MODELS: [OnceLock<Model>; 2] = [const { OnceLock::new() }; 2];
        MODELS[usize::from(how == Phi::Exact)].get_or_init(|| Self::new(how))
    }

    pub(super) fn new(how: Phi) -> Self {
        let (rows, weights) = transition(how);
        let mut mean = vec![0.0; BINS];
        let mut log_mean = vec![0.0; BINS];
        for i in 1..BINS {
            mean[i] = rate(i) * TICK;
            log_mean[i] = log(mean[i]);
        }
        let mut model = Self {
            rows,
            weights,
            log_mean,
            mean,
            at_most: vec![0.0; begin(HORIZON) * BINS],
        };
        model.tabulate();
        model
    }

    fn row(&self, bin: usize) -> (usize, &[f64]) {
        let (first, range) = &self.rows[bin];
        (*first, &self.weights[range.clone()])
    }

    fn tabulate(&mut self) {
        let mut x: Vec<[f64; COUNTS + 1]> = self.mean.iter().map(|m| counts(*m)).collect();
        let ticks: Vec<_> = (0..HORIZON)
            .map(|_| {
                let now = x.clone();
                for (bin, out) in x.iter_mut().enumerate() {
                    let (first, row) = self.row(bin);
                    *out = [0.0; COUNTS + 1];
                    for (w, from) in row.iter().zip(&now[first..]) {
                        for (o, f) in out.iter_mut().zip(from) {
                            *o += w * f;
                        }
                    }
                }
                now
            })
            .collect();
        for bin in 0..BINS {
            let mut sum = vec![1.0];
            for (h, x) in ticks.iter().enumerate() {
                let x = &x[bin];
                let tick: [f64; COUNTS] = std::array::from_fn(|k| x[k] / x[COUNTS]);
                let mut next = vec![0.0; sum.len() + COUNTS - 1];
                for (i, s) in sum.iter().enumerate() {
                    for (n, t) in next[i..i + COUNTS].iter_mut().zip(&tick) {
                        *n += s * t;
                    }
                }
                let mut total = 0.0;
                for (k, n) in next.iter().enumerate() {
                    total += n;
                    self.at_most[(begin(h) + k) * BINS + bin] = total;
                }
                sum = next;
            }
        }
    }

    /// Advances the distribution `from` by one tick into `to`, without normalising.
    pub(super) fn evolve(&self, from: &[f64], to: &mut [f64]) {
        to.fill(0.0);
        for (bin, p) in from.iter().enumerate() {
            if *p > 0.0 {
                let (first, row) = self.row(bin);
                for (t, w) in to[first..].iter_mut().zip(row) {
                    *t += p * w;
                }
            }
        }
    }

    /// Logarithm of the likelihood of `count` in bin `i`, up to what is the same in all bins.
    /// `count` need not be whole.
    pub(super) fn log_likelihood(&self, count: f64, i: usize) -> f64 {
        match i {
            0 if count > 0.0 => f64::NEG_INFINITY,
            0 => 0.0,
            _ => count * self.log_mean[i] - self.mean[i],
        }
    }

    /// By bin, the probabilities that at most `count` arrive within `h + 1` ticks.
    pub(super) fn at_most(&self, h: usize, count: usize) -> &[f64] {
        &self.at_most[(begin(h) + count) * BINS..][..BINS]
    }
}

/// The distribution of a count with this mean, followed by a 1 that the recursion turns into the
/// normaliser.
fn counts(mean: f64) -> [f64; COUNTS + 1] {
    let mut x = [1.0; COUNTS + 1];
    let mut p = exp(-mean);
    for (k, x) in x[..COUNTS].iter_mut().enumerate() {
        *x = p;
        p *= mean / (k + 1) as f64;
    }
    x
}

type Rows = Vec<(usize, std::ops::Range<usize>)>;

fn transition(how: Phi) -> (Rows, Vec<f64>) {
    let sd = SIGMA * libm::sqrt(TICK);
    let escape = 1.0 - exp(-ESCAPE * TICK);
    let last = (BINS - 1) as f64;
    let mut rows: Rows = Vec::with_capacity(BINS);
    let mut weights = Vec::new();
    for bin in 0..BINS {
        let mean = rate(bin);
        let first = libm::floor((mean - REACH * sd) / WIDTH).clamp(0.0, last) as usize;
        let end = libm::ceil((mean + REACH * sd) / WIDTH).clamp(0.0, last) as usize;
        let inner = |first: usize, end: usize| first > 0 && end < BINS - 1;
        if let Some((before, range)) = rows.last().filter(|(f, r)| inner(*f, f + r.len() - 1))
            && inner(first, end)
            && *before + 1 == first
        {
            let range = range.clone();
            rows.push((first, range));
            continue;
        }
        let at = weights.len();
        for n in first..=end {
            let lower = if n == 0 {
                f64::NEG_INFINITY
            } else {
                n as f64 * WIDTH
            };
            let upper = if n == BINS - 1 {
                f64::INFINITY
            } else {
                (n + 1) as f64 * WIDTH
            };
            let p = phi(upper - mean, sd, how) - phi(lower - mean, sd, how);
            // In the program the outage row is not a proper mixture. The shipped tables come from
            // it, and so do all published results.
            let factor = match (bin, n) {
                (0, 0) => 1.0 - escape,
                (0, _) => escape,
                _ => 1.0,
            };
            weights.push(p * factor);
        }
        rows.push((first, at..weights.len()));
    }
    (rows, weights)
}
