// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Training: counts of transitions, and the table made from them.
use super::levels::Bounds;
use super::matrix::{Grid, MatrixError, change, numbered, wrong};

/// Weight of a pair, which can be divided between two bins.
const PAIR: u64 = 1000;

/// The assignment of a change between two bins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// To the nearest bin, as in the authors' program. Pairs with a change beyond the grid do not
    /// count.
    Nearest,
    /// Changes of the window to both bins, weighted by distance, which preserves their mean, so
    /// that rounding causes no drift. A change beyond the grid counts at its edge.
    MeanPreserving,
}

/// Parameters for turning counts into probabilities.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// Probability below which a step is omitted, 0 to 1. The authors: 0.02.
    pub cut: f64,
    /// Number of pairs added to each step of a distribution that was seen (Laplace).
    pub smoothing: f64,
    /// Number of pairs below which a distribution is omitted.
    pub least: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            cut: 0.0,
            smoothing: 0.0,
            least: 50,
        }
    }
}

/// A training sample: one epoch of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Epoch {
    /// The largest delay, ms.
    pub delay: f64,
    /// The smallest delay of the flow so far, ms.
    pub smallest: f64,
    /// The window, in packets.
    pub window: f64,
}

/// The number of transitions from each state to each other, at each level.
#[derive(Clone, PartialEq, Debug)]
pub struct Counts {
    bounds: Bounds,
    grid: Grid,
    pairs: Vec<u64>,
}

impl Counts {
    /// No transitions.
    pub fn new(grid: Grid, bounds: Bounds) -> Self {
        Self {
            pairs: vec![0; grid.states() * grid.states() * bounds.levels()],
            grid,
            bounds,
        }
    }

    /// The grid of its states.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Counts the epochs of a flow, one after the other. The delay at the end of the first pair
    /// determines its level.
    pub fn learn(&mut self, epochs: &[Epoch], counting: Counting) {
        let (windows, delays) = (self.grid.window, self.grid.delay);
        let place = |pair: &[Epoch]| {
            let [before, now] = [pair[0], pair[1]];
            let delay = change(now.delay, before.delay, 1.01);
            let window = change(now.window, before.window, 1.01);
            let level = self.bounds.level(now.delay / now.smallest);
            let (d, w) = match counting {
                Counting::Nearest => (delays.within(delay)?, windows.within(window)?),
                Counting::MeanPreserving => (delays.nearest(delay), windows.nearest(window)),
            };
            Some((
                level * self.grid.states() + self.grid.state(d, w),
                d,
                w,
                window,
            ))
        };
        let places: Vec<_> = epochs.windows(2).map(place).collect();
        for pair in places.windows(2) {
            let (Some((from, ..)), Some((_, d1, w1, change))) = (pair[0], pair[1]) else {
                continue;
            };
            let from = from * self.grid.states();
            let mut add = |window, share| {
                self.pairs[from + self.grid.state(d1, window)] += share;
            };
            if counting == Counting::Nearest {
                add(w1, PAIR);
                continue;
            }
            let last = (windows.bins - 1) as f64;
            let at = (change - windows.value(0)) / f64::from(windows.step);
            let at = at.clamp(0.0, last);
            let low = libm::floor(at);
            let above = libm::round((at - low) * PAIR as f64) as u64;
            add(low as usize, PAIR - above);
            add((low + 1.0).min(last) as usize, above);
        }
    }

    #[cfg(test)]
    pub(super) fn pairs_mut(&mut self) -> &mut [u64] {
        &mut self.pairs
    }

    /// Number of pairs counted.
    pub fn total(&self) -> u64 {
        self.pairs.iter().sum::<u64>() / PAIR
    }

    /// Adds the counts of another training.
    ///
    /// # Errors
    /// The other has another grid or other levels.
    pub fn add(&mut self, other: &Self) -> Result<(), String> {
        if (other.grid, &other.bounds) != (self.grid, &self.bounds) {
            let [theirs, ours] = [other, self].map(|c| c.head().trim().replace('\n', " and "));
            return Err(format!("the grid {theirs} cannot be added to {ours}"));
        }
        for (ours, theirs) in self.pairs.iter_mut().zip(&other.pairs) {
            *ours = ours.saturating_add(*theirs);
        }
        Ok(())
    }

    /// The first lines of every form.
    fn head(&self) -> String {
        self.bounds.line() + &self.grid.header() + "\n"
    }

    /// Writes text that [`Counts::parse`] reads: levels and grid as in a table, then a line for
    /// each pair of states with from (level * states + state), to, and thousandths of pairs.
    pub fn text(&self) -> String {
        let mut text = self.head();
        let states = self.grid.states();
        for (at, n) in self.pairs.iter().enumerate().filter(|(_, n)| **n > 0) {
            text += &format!("{} {} {n}\n", at / states, at % states);
        }
        text
    }

    /// Parses [`Counts::text`]. Lines that begin with # are ignored.
    ///
    /// # Errors
    /// [`MatrixError`] with the line.
    pub fn parse(text: &str) -> Result<Self, MatrixError> {
        let mut lines = numbered(text).filter(|(_, l)| !l.starts_with('#'));
        let (bounds, grid) = Bounds::head(&mut lines)?;
        let mut counts = Self::new(grid, bounds);
        let states = grid.states() as u64;
        let all = states * counts.bounds.levels() as u64;
        for (number, line) in lines {
            let fields: Vec<u64> = line.split(' ').filter_map(|n| n.parse().ok()).collect();
            match fields[..] {
                [from, to, n] if from < all && to < states && n < 1 << 50 => {
                    counts.pairs[(from * states + to) as usize] += n;
                }
                _ => {
                    let found = line.chars().take(60).collect::<String>();
                    let want =
                        format!("FROM TO COUNT, with FROM below {all} and TO below {states}");
                    return wrong(number, format!("'{found}'"), want);
                }
            }
        }
        Ok(counts)
    }

    /// The distributions over the window's bins, for each level, state and bin of the new change of
    /// delay. They are all zero if too few pairs were seen.
    fn distributions(&self, shape: Shape) -> impl Iterator<Item = Vec<f64>> {
        self.pairs
            .chunks_exact(self.grid.window.bins)
            .map(move |block| {
                let part = |of: &[f64]| {
                    let sum: f64 = of.iter().sum();
                    of.iter()
                        .map(|n| if sum > 0.0 { n / sum } else { 0.0 })
                        .collect::<Vec<f64>>()
                };
                let seen: u64 = block.iter().sum();
                if seen == 0 || seen < shape.least.saturating_mul(PAIR) {
                    return vec![0.0; block.len()];
                }
                let smoothed = |&n: &u64| n as f64 + shape.smoothing * PAIR as f64;
                let mut kept = part(&block.iter().map(smoothed).collect::<Vec<f64>>());
                for p in &mut kept {
                    if *p < shape.cut {
                        *p = 0.0;
                    }
                }
                part(&kept)
            })
    }

    /// The table in its published format; with levels: in that of
    /// [`Levels::parse`](super::Levels::parse).
    pub fn published(&self, shape: Shape) -> String {
        let all: Vec<Vec<f64>> = self.distributions(shape).collect();
        let mut text = self.head();
        for row in all.chunks_exact(self.grid.delay.bins) {
            let cells: Vec<String> = row.iter().flatten().map(|p| format!("{p:.10}")).collect();
            text += &(cells.join(",") + "\n");
        }
        text
    }

    /// The table in the format of the files beside this one: a line per distribution, its bins with
    /// their thousandths.
    pub fn compact(&self, shape: Shape) -> String {
        let mut text = self.head();
        for (number, block) in self.distributions(shape).enumerate() {
            let cells: Vec<String> = (block.iter().enumerate())
                .filter(|(_, p)| **p >= 0.0005)
                .map(|(bin, p)| format!("{bin}:{:.0}", p * 1000.0))
                .collect();
            if !cells.is_empty() {
                text += &format!("{number} {}\n", cells.join(" "));
            }
        }
        text
    }
}
