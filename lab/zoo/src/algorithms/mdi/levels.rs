// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables for each level of the delay, which let the walk depend on the current delay, and draw it
//! back as its teacher is.
use super::matrix::{Grid, MAX_STATES, Matrix, MatrixError, numbered, wrong};
use std::ops::Range;

/// The first word of a file with levels.
const WORD: &str = "levels";
alcc_cc::constants! { MDI:
    /// Largest number of bounds between levels.
    MOST: usize = 16;
}

/// The bounds between levels: multiples of the smallest delay. Empty: one level.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bounds(Vec<f64>);

impl Bounds {
    /// Parses `1.5,3,6`: above 1, ascending, at most 16.
    ///
    /// # Errors
    /// The invalid text, and the valid form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let want = || {
            format!(
                "'{text}': expected at most {MOST} ascending multiples of the smallest delay above 1, such as 1.5,3,6"
            )
        };
        let number = |word: &str| word.trim().parse().ok().filter(|n: &f64| n.is_finite());
        let read: Option<Vec<f64>> = text.split(',').map(number).collect();
        let bounds = read.filter(|b| b.len() <= MOST && b[0] > 1.0);
        let bounds = bounds.filter(|b| b.windows(2).all(|pair| pair[0] < pair[1]));
        bounds.map(Self).ok_or_else(want)
    }

    /// Number of levels.
    pub fn levels(&self) -> usize {
        self.0.len() + 1
    }

    /// The level of a delay; `ratio`: delay over the smallest delay.
    pub fn level(&self, ratio: f64) -> usize {
        self.0.partition_point(|bound| *bound < ratio)
    }

    /// The line before the grid; empty for one level.
    pub(super) fn line(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        format!("{WORD},{}\n", words.join(","))
    }

    /// Reads the lines before the counts or probabilities: the bounds, if there are any, and the
    /// grid.
    pub(super) fn head<'a>(
        mut lines: impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<(Self, Grid), MatrixError> {
        let mut line = lines.next();
        let mut bounds = Self::default();
        if let Some((number, text)) = line
            && let Some(rest) = text.strip_prefix(WORD).and_then(|t| t.strip_prefix(','))
        {
            bounds = Self::parse(rest).or_else(|why| {
                let (found, want) = why.split_once(": expected ").unwrap_or((&why, WORD));
                wrong(number, found, want)
            })?;
            line = lines.next();
        }
        let grid = Matrix::header(line)?;
        if grid.states() * bounds.levels() > MAX_STATES {
            let (number, levels) = (line.map_or(1, |l| l.0), bounds.levels());
            let found = format!("{levels} levels of {} states", grid.states());
            return wrong(number, found, format!("at most {MAX_STATES} together"));
        }
        Ok((bounds, grid))
    }
}

/// A table for each level.
#[derive(Clone, PartialEq, Debug)]
pub struct Levels {
    bounds: Bounds,
    tables: Vec<Matrix>,
}

impl Levels {
    /// Parses a table in its published format, or one with levels: a line `levels,1.5,3,6`, then
    /// the grid, then the lines of states of each level, the lowest first.
    ///
    /// # Errors
    /// [`MatrixError`] with the line.
    pub fn parse(text: &str) -> Result<Self, MatrixError> {
        let mut lines = numbered(text);
        let (bounds, grid) = Bounds::head(&mut lines)?;
        let mut last = 1 + usize::from(bounds.levels() > 1);
        let table = |_: usize| Matrix::read(grid, &mut lines, &mut last);
        let tables = (0..bounds.levels()).map(table).collect::<Result<_, _>>()?;
        match lines.next() {
            None => Ok(Self { bounds, tables }),
            Some((number, _)) => {
                let all = grid.states() * bounds.levels();
                wrong(number, "one more line", format!("{all} lines of states"))
            }
        }
    }

    /// Parses [`Counts::compact`](super::Counts::compact).
    pub(super) fn expand(text: &str) -> Result<Self, MatrixError> {
        let mut lines = numbered(text).filter(|(_, l)| !l.starts_with('#'));
        let (bounds, grid) = Bounds::head(&mut lines)?;
        let each = grid.states() * grid.delay.bins;
        let all: Range<usize> = 0..each * bounds.levels();
        let mut blocks = vec![Vec::new(); all.end];
        for (number, line) in lines {
            let numbers: Vec<usize> = line
                .split([' ', ':'])
                .filter_map(|n| n.parse().ok())
                .collect();
            let block = numbers.first().filter(|n| all.contains(n));
            let (Some(&block), Some(cells)) = (block, numbers.get(1..)) else {
                return wrong(number, format!("'{line}'"), "BLOCK BIN:MILLE ...");
            };
            blocks[block] = Matrix::mille(cells);
        }
        let tables = blocks.chunks_exact(each);
        let tables = tables.map(|blocks| Matrix::of(grid, blocks.to_vec()));
        Ok(Self {
            bounds,
            tables: tables.collect(),
        })
    }

    /// The table for the level of a delay; `ratio`: delay over the smallest delay.
    pub fn at(&self, ratio: f64) -> &Matrix {
        &self.tables[self.bounds.level(ratio)]
    }

    /// The only table, if there are no levels.
    pub fn only(self) -> Option<Matrix> {
        let [table] = <[Matrix; 1]>::try_from(self.tables).ok()?;
        Some(table)
    }
}
