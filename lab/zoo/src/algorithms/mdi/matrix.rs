// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the random walk: its grid, its parser, and drawing from it.
use std::fmt;

alcc_cc::constants! { MDI:
    /// Largest number of states; no published table has more.
    pub(super) MAX_STATES: usize = 2048;
    /// Largest error of the sum of a distribution.
    TOLERANCE: f64 = 1e-6;
}

/// Evenly spaced bins.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Axis {
    /// Value of the first bin.
    pub min: i32,
    /// Distance of two bins.
    pub step: i32,
    /// Number of bins.
    pub bins: usize,
}

impl Axis {
    /// The value of a bin.
    pub fn value(&self, bin: usize) -> f64 {
        f64::from(self.min) + f64::from(self.step) * bin as f64
    }

    /// The value of the last bin.
    pub fn max(&self) -> f64 {
        self.value(self.bins - 1)
    }

    /// The nearest bin, half away from zero; the first or last beyond them.
    pub fn nearest(&self, value: f64) -> usize {
        self.clamped(libm::round(value / f64::from(self.step)) - self.first())
    }

    /// The nearest bin; `None` beyond the first and the last, which training ignores.
    pub fn within(&self, value: f64) -> Option<usize> {
        let at = libm::round(value / f64::from(self.step)) - self.first();
        (at >= 0.0 && at < self.bins as f64).then_some(at as usize)
    }

    /// The bin at or below, as in the authors' program (truncated).
    pub fn below(&self, value: f64) -> usize {
        self.clamped(libm::trunc(value / f64::from(self.step) - self.first()))
    }

    fn first(&self) -> f64 {
        f64::from(self.min) / f64::from(self.step)
    }

    fn clamped(&self, at: f64) -> usize {
        at.clamp(0.0, (self.bins - 1) as f64) as usize
    }
}

/// The states: a bin of the window's change and one of the delay's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grid {
    /// Changes of the window.
    pub window: Axis,
    /// Changes of the delay.
    pub delay: Axis,
}

impl Grid {
    /// The grid of the published tables.
    pub const PUBLISHED: Self = Self {
        window: Axis {
            min: -60,
            step: 5,
            bins: 25,
        },
        delay: Axis {
            min: -25,
            step: 5,
            bins: 9,
        },
    };

    /// The grid of the authors' training scripts. It is finer, so it represents a window that falls
    /// by one packet at a time.
    pub const TRAINING: Self = Self {
        window: Axis {
            min: -20,
            step: 2,
            bins: 21,
        },
        delay: Axis {
            min: -10,
            step: 2,
            bins: 11,
        },
    };

    /// A grid that is coarser for the window: with levels there are more states, and each must be
    /// seen often.
    pub const LEVELLED: Self = Self {
        window: Axis {
            min: -20,
            step: 4,
            bins: 11,
        },
        delay: Self::TRAINING.delay,
    };

    /// Maximum number of states of all levels together.
    pub const MOST: usize = MAX_STATES;

    /// Number of states.
    pub fn states(&self) -> usize {
        self.window.bins * self.delay.bins
    }

    /// Index of the state of delay bin `delay` and window bin `window`.
    pub fn state(&self, delay: usize, window: usize) -> usize {
        delay * self.window.bins + window
    }

    pub(super) fn header(&self) -> String {
        let axis = |a: &Axis| format!("{},{},{},{}", a.bins, a.min, a.max(), a.step);
        format!("{},{}", axis(&self.window), axis(&self.delay))
    }
}

/// Error in a table, with its line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatrixError {
    line: usize,
    found: String,
    want: String,
}

impl fmt::Display for MatrixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, found, want } = self;
        write!(f, "line {line}: {found}: expected {want}")
    }
}

impl std::error::Error for MatrixError {}

/// The lines that are not empty, with their numbers.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (text.lines().enumerate())
        .map(|(i, line)| (i + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty())
}

pub(super) fn wrong<T>(
    line: usize,
    found: impl Into<String>,
    want: impl Into<String>,
) -> Result<T, MatrixError> {
    Err(MatrixError {
        line,
        found: found.into(),
        want: want.into(),
    })
}

/// Bins with the sum of the probabilities up to and including each, ascending.
pub(super) type Steps = Vec<(u16, f64)>;

/// The table: the probability of each change of the window, given the last changes of delay and
/// window, and the new change of delay.
#[derive(Clone, PartialEq, Debug)]
pub struct Matrix {
    grid: Grid,
    /// Steps by state and bin of the new change of delay; empty: never seen.
    blocks: Vec<Steps>,
    /// For each block the index of the one to draw from.
    instead: Vec<u32>,
}

impl Matrix {
    /// Parses the published format: eight whole numbers (bins, first, last, step of window and
    /// delay), then a line per state, with a probability per next state.
    ///
    /// # Errors
    /// [`MatrixError`] with the line.
    pub fn parse(text: &str) -> Result<Self, MatrixError> {
        let mut lines = numbered(text);
        let grid = Self::header(lines.next())?;
        let matrix = Self::read(grid, &mut lines, &mut 1)?;
        match lines.next() {
            None => Ok(matrix),
            Some((number, _)) => {
                let want = format!("{} lines of states", grid.states());
                wrong(number, "one more line", want)
            }
        }
    }

    /// Parses a line per state. `last` is the number of the last line.
    pub(super) fn read<'a>(
        grid: Grid,
        mut lines: impl Iterator<Item = (usize, &'a str)>,
        last: &mut usize,
    ) -> Result<Self, MatrixError> {
        let (n, bins) = (grid.states(), grid.window.bins);
        let mut blocks = Vec::with_capacity(n * grid.delay.bins);
        for state in 0..n {
            let Some((number, line)) = lines.next() else {
                let found = format!("the end after {state} states");
                return wrong(*last + 1, found, format!("{n} lines of states"));
            };
            *last = number;
            let mut row = Vec::with_capacity(n);
            for cell in line.split(',') {
                match cell.trim().parse::<f64>() {
                    Ok(p) if (0.0..=1.0).contains(&p) => row.push(p),
                    _ => return wrong(number, format!("'{cell}'"), "a probability from 0 to 1"),
                }
            }
            if row.len() != n {
                let found = format!("{} numbers", row.len());
                return wrong(number, found, format!("{n}, one for each state"));
            }
            for block in row.chunks_exact(bins) {
                let sum: f64 = block.iter().sum();
                if sum != 0.0 && (sum - 1.0).abs() > TOLERANCE {
                    let found = format!("{bins} probabilities that sum up to {sum}");
                    return wrong(number, found, "1, or all 0");
                }
                blocks.push(steps(block.iter().copied().enumerate()));
            }
        }
        Ok(Self::of(grid, blocks))
    }

    pub(super) fn header(line: Option<(usize, &str)>) -> Result<Grid, MatrixError> {
        let want = "bins,first,last,step of the window and of the delay: eight whole numbers";
        let (number, line) = line.unwrap_or((1, ""));
        let numbers: Vec<i32> = line
            .split(',')
            .filter_map(|n| n.trim().parse().ok())
            .collect();
        let found = || format!("'{}'", line.chars().take(60).collect::<String>());
        let [w, w0, w1, ws, d, d0, d1, ds] = numbers[..] else {
            return wrong(number, found(), want);
        };
        let axis = |bins: i32, min: i32, max: i32, step: i32| {
            let last = i64::from(min) + i64::from(step) * (i64::from(bins) - 1);
            let good = step > 0 && bins > 0 && last == i64::from(max);
            let bins = usize::try_from(bins).ok().filter(|_| good)?;
            Some(Axis { min, step, bins })
        };
        match (axis(w, w0, w1, ws), axis(d, d0, d1, ds)) {
            (Some(window), Some(delay)) if window.bins.saturating_mul(delay.bins) <= MAX_STATES => {
                Ok(Grid { window, delay })
            }
            _ => wrong(
                number,
                found(),
                format!("last = first + step * (bins - 1), and at most {MAX_STATES} states"),
            ),
        }
    }

    /// A distribution from pairs of bin and thousandths.
    pub(super) fn mille(cells: &[usize]) -> Steps {
        let cells = cells.chunks_exact(2);
        let all: usize = cells.clone().map(|c| c[1]).sum();
        steps(cells.map(|c| (c[0], c[1] as f64 / all.max(1) as f64)))
    }

    pub(super) fn of(grid: Grid, blocks: Vec<Steps>) -> Self {
        let mut all = Self {
            grid,
            instead: Vec::with_capacity(blocks.len()),
            blocks,
        };
        let (windows, delays) = (grid.window.bins, grid.delay.bins);
        // The distribution of this change of delay after any state; without any, the window is
        // held.
        let anywhere = all.blocks.len();
        for next in 0..delays {
            let seen: Vec<&Steps> = all.blocks[..anywhere]
                .iter()
                .skip(next)
                .step_by(delays)
                .filter(|b| !b.is_empty())
                .collect();
            let mut mean = vec![0.0; windows];
            for block in &seen {
                let mut before = 0.0;
                for &(bin, sum) in *block {
                    mean[usize::from(bin)] += (sum - before) / seen.len() as f64;
                    before = sum;
                }
            }
            if seen.is_empty() {
                mean[grid.window.nearest(0.0)] = 1.0;
            }
            all.blocks.push(steps(mean.into_iter().enumerate()));
        }
        for delay in 0..delays {
            for window in 0..windows {
                for next in 0..delays {
                    let block = |w: usize| grid.state(delay, w) * delays + next;
                    let seen = |w: &usize| !all.blocks[block(*w)].is_empty();
                    let nearest = (0..windows).filter(seen).min_by_key(|w| w.abs_diff(window));
                    all.instead
                        .push(nearest.map_or(anywhere + next, block) as u32);
                }
            }
        }
        all
    }

    /// The grid of its states.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The bin of the window's next change, drawn by `r` from 0 to 1. It comes after `state`, with
    /// the new change of delay in `next`. For an unseen combination it uses the nearest change of
    /// the window that was seen, then any state.
    pub fn draw(&self, state: usize, next: usize, r: f64) -> usize {
        let block = self.instead[state * self.grid.delay.bins + next];
        find(&self.blocks[block as usize], r).unwrap_or_else(|| self.grid.window.nearest(0.0))
    }

    /// The search of the authors' program. An unseen state is looked up in the states before it,
    /// and may not be found.
    pub fn search(&self, state: usize, next: usize, r: f64) -> Option<usize> {
        let block = |state: usize| &self.blocks[state * self.grid.delay.bins + next];
        (1..=state).rev().find_map(|state| find(block(state), r))
    }
}

fn steps(cells: impl Iterator<Item = (usize, f64)>) -> Steps {
    let mut sum = 0.0;
    let mut steps: Steps = cells
        .filter(|(_, p)| *p > 0.0)
        .map(|(bin, p)| {
            sum += p;
            (bin as u16, sum)
        })
        .collect();
    if let Some(last) = steps.last_mut() {
        // Any number drawn below one is found.
        last.1 = last.1.max(1.0);
    }
    steps
}

fn find(steps: &Steps, r: f64) -> Option<usize> {
    let at = steps.partition_point(|(_, sum)| *sum <= r);
    let (bin, _) = steps.get(at).or_else(|| steps.last())?;
    Some(usize::from(*bin))
}

/// The change of a value: per cent, times the decimal logarithm of the old value, of which at least
/// `least` is used.
pub fn change(new: f64, old: f64, least: f64) -> f64 {
    (100.0 * new / old - 100.0) * libm::log10(old.max(least))
}
