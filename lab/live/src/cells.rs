// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one loop over the cells of comparisons, experiments and validations. It does not repeat what
//! is stored. It does the rest on several threads, and stores each result at once.
use crate::result_cache::ResultCache;
use crate::simulated::GoOn;
use crate::{LabError, parallel};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Result of a cell.
pub trait Outcome: Serialize + DeserializeOwned + Send {
    /// True if a part of it failed. Then it is not stored, and the next command tries again.
    fn has_failed(&self) -> bool;
}

/// Place of stored results.
pub struct Store {
    /// The folder, made if missing.
    pub folder: PathBuf,
    /// Identifies the program that every result depends on. Results of another one are removed.
    pub program: String,
}

/// The cells of a plan, some of them with a stored result.
pub struct Cells<R> {
    cache: Option<ResultCache>,
    /// Key of each cell; empty without a cache.
    keys: Vec<String>,
    results: Vec<Option<R>>,
}

impl<R: Outcome> Cells<R> {
    /// Looks for the results of `count` cells. `key` describes what the result of a cell depends on
    /// besides the program.
    ///
    /// # Errors
    /// [`LabError::Os`] if the folder cannot be made.
    pub fn find(
        store: Option<Store>,
        count: usize,
        key: impl FnMut(usize) -> String,
    ) -> Result<Self, LabError> {
        let Some(store) = store else {
            return Ok(Self {
                cache: None,
                keys: Vec::new(),
                results: (0..count).map(|_| None).collect(),
            });
        };
        let cache = ResultCache::open(store.folder, store.program)?;
        let keys: Vec<String> = (0..count).map(key).collect();
        Ok(Self {
            results: keys.iter().map(|key| cache.find(key)).collect(),
            cache: Some(cache),
            keys,
        })
    }

    /// The cells without a result, in order.
    pub fn missing(&self) -> Vec<usize> {
        let all = 0..self.results.len();
        all.filter(|i| self.results[*i].is_none()).collect()
    }

    /// Does the missing cells, and takes out the results of all, in order. `progress` is called at
    /// first and now and then: with the number of finished cells, the finished part of all (0 to 1),
    /// and the cell that was begun last.
    ///
    /// # Errors
    /// The first error of `work`, and [`LabError::Os`] if a result cannot be stored. What was stored
    /// before stays.
    pub fn run(
        &mut self,
        workers: usize,
        stop: &AtomicBool,
        work: impl Fn(usize, GoOn<'_>) -> Result<R, LabError> + Sync,
        progress: &mut dyn FnMut(usize, f64, usize),
    ) -> Result<Vec<R>, LabError> {
        // With the finished part of each, in millionths.
        let missing: Vec<(usize, AtomicU32)> =
            (self.missing().into_iter().map(|i| (i, AtomicU32::new(0)))).collect();
        let begun = AtomicUsize::new(missing.first().map_or(0, |(i, _)| *i));
        let all = self.results.len();
        let mut done = all - missing.len();
        let before = done as f64;
        let mut show = |done: usize| {
            let parts = missing.iter().map(|(_, part)| part.load(Ordering::Relaxed));
            let sum: f64 = parts.map(f64::from).sum();
            let part = (before + sum / 1e6) / all.max(1) as f64;
            progress(done, part, begun.load(Ordering::Relaxed));
        };
        show(done);
        let work = |(i, part): &(usize, AtomicU32)| {
            begun.store(*i, Ordering::Relaxed);
            let set = |finished: f64| part.store((finished * 1e6) as u32, Ordering::Relaxed);
            let result = work(*i, &|finished| {
                set(finished);
                !stop.load(Ordering::Relaxed)
            });
            set(1.0);
            result
        };
        parallel::each_watched(&missing, workers, work, |ready| {
            if let Some(((i, _), result)) = ready {
                self.results[*i] = Some(self.stored(*i, result?)?);
                done += 1;
            }
            show(done);
            Ok::<(), LabError>(())
        })?;
        if let Some(cache) = &self.cache {
            cache.remove_stale();
        }
        Ok(self.results.drain(..).flatten().collect())
    }

    /// Removes the stored results, so that the next command measures again.
    pub fn forget(&self) {
        if let Some(cache) = &self.cache {
            self.keys.iter().for_each(|key| cache.forget(key));
        }
    }

    fn stored(&self, i: usize, result: R) -> Result<R, LabError> {
        if let Some(cache) = &self.cache
            && !result.has_failed()
        {
            cache.put(&self.keys[i], &result)?;
        }
        Ok(result)
    }
}
