// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A random walk (`mdi`) learned from another algorithm in the simulator, and its validation on
//! links that were not used for learning.
mod watched;

use crate::parallel;
use alcc_cc::{Instance, Registry};
use alcc_results::scenario::{Files, Resolved, ScenarioOptions, Value};
use alcc_sim::run;
use alcc_zoo::model_driven::{Bounds, Counting, Counts, Epoch, Grid, change};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use watched::{Runs, Watched};

/// Simulations to learn from: each link with each seed.
#[derive(Clone, Debug)]
pub struct Lessons {
    /// Traces, synthetic channels or rates, as `alcc-lab sim --link` takes them.
    pub links: Vec<String>,
    /// First and last seed.
    pub seeds: (u64, u64),
    /// Shared options: duration, round-trip time, queue.
    pub options: ScenarioOptions,
}

/// One simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lesson {
    /// Its link.
    pub link: String,
    /// Its seed.
    pub seed: u64,
}

impl Lessons {
    /// All simulations, by link and seed.
    pub fn all(&self) -> Vec<Lesson> {
        let seeds = || self.seeds.0..=self.seeds.1;
        let of = |link: &String| {
            let link = link.clone();
            seeds().map(move |seed| Lesson {
                link: link.clone(),
                seed,
            })
        };
        self.links.iter().flat_map(of).collect()
    }

    fn resolve(
        &self,
        lesson: &Lesson,
        flow: &Value,
        registry: &Registry,
        files: &dyn Files,
    ) -> Result<Resolved, String> {
        let mut options = self.options.clone();
        options.add("link", Value::option("link", &lesson.link))?;
        options.add("flow", flow.clone())?;
        options.add("seed", Value::option("seed", lesson.seed.to_string()))?;
        options.resolve(registry, files)
    }
}

/// Behaviour of an algorithm on a link.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Delivered by the bottleneck, Mbit/s.
    pub throughput_mbps: f64,
    /// Mean one-way delay of a packet, ms.
    pub delay_mean_ms: f64,
    /// Epochs without a restart in between.
    pub runs: Vec<Vec<Epoch>>,
}

/// Simulates one flow and samples it.
///
/// # Errors
/// An invalid link, flow or simulation.
pub fn watch(
    lessons: &Lessons,
    lesson: &Lesson,
    flow: &Value,
    registry: &Registry,
    files: &(dyn Files + Sync),
) -> Result<Seen, String> {
    let mut scenario = lessons.resolve(lesson, flow, registry, files)?.scenario;
    let runs = Arc::new(Mutex::new(Runs::new()));
    let [flow] = &mut scenario.flows[..] else {
        return Err(flow.error(format_args!("'{}': one flow is looked at", flow.text)));
    };
    flow.controller = Instance::new(Watched::new(flow.controller.clone(), runs.clone()));
    let report = run(&scenario).map_err(|error| format!("{}: {error}", lesson.link))?;
    let runs = std::mem::take(&mut *alcc_sys::lock(&runs));
    let flow = report.flows.first();
    Ok(Seen {
        throughput_mbps: flow.map_or(0.0, |f| f.throughput.as_mbps_f64()),
        delay_mean_ms: flow.map_or(0.0, |f| f.delay.mean.as_millis_f64()),
        runs,
    })
}

/// Number of occurrences of each change, in tenths of the scale of a table's bins.
pub type Changes = BTreeMap<i64, u64>;

/// Learned parameters.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Pairs of epochs.
    pub counts: Counts,
    /// Changes of the delay and of the window.
    pub changes: [Changes; 2],
}

/// Learns from `teacher`, on `workers` threads. The result does not depend on their number.
///
/// # Errors
/// The first thing that is wrong.
pub fn train(
    lessons: &Lessons,
    teacher: &Value,
    (grid, bounds): (Grid, &Bounds),
    counting: Counting,
    (registry, files): (&Registry, &(dyn Files + Sync)),
    workers: usize,
    mut done: impl FnMut(usize),
) -> Result<Learned, String> {
    let all = lessons.all();
    let work = |lesson: &Lesson| {
        let seen = watch(lessons, lesson, teacher, registry, files)?;
        let mut counts = Counts::new(grid, bounds.clone());
        let mut changes = [Changes::new(), Changes::new()];
        for run in &seen.runs {
            counts.learn(run, counting);
            for pair in run.windows(2) {
                let [old, new] = [pair[0], pair[1]];
                let each = [(new.delay, old.delay), (new.window, old.window)];
                for (into, (new, old)) in changes.iter_mut().zip(each) {
                    let tenths = (change(new, old, 1.01) * 10.0).round();
                    *into.entry(tenths as i64).or_default() += 1;
                }
            }
        }
        Ok((counts, changes))
    };
    let mut learned = Learned {
        counts: Counts::new(grid, bounds.clone()),
        changes: [Changes::new(), Changes::new()],
    };
    let mut ready = 0;
    let add = |_: &Lesson, result: Result<(Counts, [Changes; 2]), String>| {
        let (counts, changes) = result?;
        learned.counts.add(&counts)?;
        for (all, one) in learned.changes.iter_mut().zip(changes) {
            for (change, n) in one {
                *all.entry(change).or_default() += n;
            }
        }
        ready += 1;
        done(ready);
        Ok::<(), String>(())
    };
    parallel::each(&all, workers, work, add)?;
    Ok(learned)
}

/// Teacher and walk on one link, means over the seeds.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Compared {
    /// Name of the link.
    pub link: String,
    /// The teacher's throughput, Mbit/s.
    pub teacher_mbps: f64,
    /// The walk's throughput, Mbit/s.
    pub walk_mbps: f64,
    /// The teacher's mean one-way delay, ms.
    pub teacher_delay_ms: f64,
    /// The walk's mean one-way delay, ms.
    pub walk_delay_ms: f64,
    /// Kolmogorov's distance of the distributions of the epochs' largest RTT, 0 to 1.
    pub rtt_distance: f64,
    /// Kolmogorov's distance of the distributions of the epochs' windows, 0 to 1.
    pub window_distance: f64,
}

impl Compared {
    /// Throughput and delay of the walk relative to the teacher's, less one.
    pub fn off(&self) -> [f64; 2] {
        let off = |walk: f64, teacher: f64| walk / teacher - 1.0;
        [
            off(self.walk_mbps, self.teacher_mbps),
            off(self.walk_delay_ms, self.teacher_delay_ms),
        ]
    }
}

/// Maximum deviation of the walk, per cent of the teacher's throughput and delay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Within(pub f64, pub f64);

impl Within {
    /// Is it near enough?
    pub fn holds(self, row: &Compared) -> bool {
        let [throughput, delay] = row.off().map(|off| off.abs() * 100.0);
        throughput <= self.0 && delay <= self.1
    }
}

/// Lets teacher and walk run on the same links and compares, on `workers` threads.
///
/// # Errors
/// The first error.
pub fn validate(
    lessons: &Lessons,
    [teacher, walk]: [&Value; 2],
    (registry, files): (&Registry, &(dyn Files + Sync)),
    workers: usize,
    mut done: impl FnMut(usize),
) -> Result<Vec<Compared>, String> {
    let all = lessons.all();
    let work = |lesson: &Lesson| -> Result<Compared, String> {
        let both = [teacher, walk].map(|flow| watch(lessons, lesson, flow, registry, files));
        let [teacher, walk] = both;
        let (teacher, walk) = (teacher?, walk?);
        let values = |seen: &Seen, of: fn(&Epoch) -> f64| {
            let mut all: Vec<f64> = seen.runs.iter().flatten().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let distance = |of| kolmogorov(&values(&teacher, of), &values(&walk, of));
        Ok(Compared {
            link: lesson.link.clone(),
            teacher_mbps: teacher.throughput_mbps,
            walk_mbps: walk.throughput_mbps,
            teacher_delay_ms: teacher.delay_mean_ms,
            walk_delay_ms: walk.delay_mean_ms,
            rtt_distance: distance(|epoch| epoch.delay),
            window_distance: distance(|epoch| epoch.window),
        })
    };
    let mut by_lesson = BTreeMap::new();
    let add = |lesson: &Lesson, result: Result<Compared, String>| {
        by_lesson.insert((lesson.link.clone(), lesson.seed), result?);
        done(by_lesson.len());
        Ok::<(), String>(())
    };
    parallel::each(&all, workers, work, add)?;
    let of_link = |link: &String| {
        let seeds = lessons.seeds.0..=lessons.seeds.1;
        let all: Vec<_> = seeds
            .filter_map(|seed| by_lesson.get(&(link.clone(), seed)))
            .collect();
        mean(link, &all)
    };
    Ok(lessons.links.iter().map(of_link).collect())
}

/// The means of some rows.
pub fn mean(name: &str, all: &[&Compared]) -> Compared {
    let of = |value: fn(&Compared) -> f64| {
        alcc_results::sum(all.iter().map(|row| value(row))) / all.len().max(1) as f64
    };
    Compared {
        link: name.to_owned(),
        teacher_mbps: of(|row| row.teacher_mbps),
        walk_mbps: of(|row| row.walk_mbps),
        teacher_delay_ms: of(|row| row.teacher_delay_ms),
        walk_delay_ms: of(|row| row.walk_delay_ms),
        rtt_distance: of(|row| row.rtt_distance),
        window_distance: of(|row| row.window_distance),
    }
}

/// The largest distance of two distributions; 1 if either is empty. Both are in order.
fn kolmogorov(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let below = |of: &[f64], x: f64| of.partition_point(|v| *v <= x) as f64 / of.len() as f64;
    let each = a.iter().chain(b);
    each.map(|&x| (below(a, x) - below(b, x)).abs())
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_results::scenario::Files;
    use std::io::{self, Read};
    use std::path::{Path, PathBuf};

    struct NoFiles;

    impl Files for NoFiles {
        fn find(&self, _: &str) -> Option<PathBuf> {
            None
        }

        fn open(&self, _: &Path) -> io::Result<Box<dyn Read>> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn lessons(links: &[&str], seeds: (u64, u64)) -> Lessons {
        let mut options = ScenarioOptions::default();
        for (key, text) in [("duration", "10s"), ("queue", "droptail:bytes=1000000000")] {
            options.add(key, Value::option(key, text)).unwrap();
        }
        Lessons {
            links: links.iter().map(|link| (*link).to_owned()).collect(),
            seeds,
            options,
        }
    }

    /// Each as its option names it.
    fn pair(teacher: &str, walk: &str) -> [Value; 2] {
        [("teacher", teacher), ("walk", walk)].map(|(name, text)| Value::option(name, text))
    }

    #[test]
    fn counts_add_up_whatever_the_number_of_workers_and_the_order() {
        let registry = alcc_zoo::registry();
        let teacher = &Value::option("teacher", "verus:profile=original");
        let learn = |links: &[&str], seeds, workers| {
            let lessons = lessons(links, seeds);
            let bounds = Bounds::parse("2,6").unwrap();
            let (shape, counting) = ((Grid::TRAINING, &bounds), Counting::MeanPreserving);
            let world = (&registry, &NoFiles as &(dyn Files + Sync));
            train(&lessons, teacher, shape, counting, world, workers, |_| {}).unwrap()
        };
        let all = learn(&["rapid", "lte"], (1, 2), 3);
        assert!(all.counts.total() > 2_000, "{}", all.counts.total());
        let mut sum = learn(&["lte"], (2, 2), 1).counts;
        sum.add(&learn(&["rapid"], (1, 2), 1).counts).unwrap();
        sum.add(&learn(&["lte"], (1, 1), 2).counts).unwrap();
        assert_eq!(sum, all.counts);
        assert_eq!(Counts::parse(&sum.text()).unwrap(), all.counts);
        let changes = all.changes.each_ref().map(|c| c.values().sum::<u64>());
        assert!(changes[0] == changes[1] && changes[0] >= all.counts.total());
    }

    #[test]
    fn an_algorithm_is_as_near_to_itself_as_can_be() {
        let registry = alcc_zoo::registry();
        let world = (&registry, &NoFiles as &(dyn Files + Sync));
        let lessons = lessons(&["12mbit", "lte"], (3, 4));
        let validate = |teacher, walk| {
            let pair = pair(teacher, walk);
            validate(&lessons, pair.each_ref(), world, 2, |_| {})
        };
        let same = validate("copa", "copa").unwrap();
        for row in &same {
            assert_eq!((row.off(), row.rtt_distance), ([0.0; 2], 0.0));
        }
        let other = validate("copa", "fixed:window=400").unwrap();
        assert_eq!(other[1].link, "lte");
        assert!(other[0].off()[1] > 0.5 && other[0].window_distance > 0.9);
        assert!(Within(0.0, 0.0).holds(&same[0]) && !Within(900.0, 50.0).holds(&other[0]));
        let why = validate("copa", "nothing").unwrap_err();
        assert!(why.starts_with("--walk: flow 'nothing'"), "{why}");
        let why = validate("2*copa", "copa").unwrap_err();
        assert!(why.starts_with("--teacher: '2*copa': one flow"), "{why}");
    }

    #[test]
    fn the_distance_of_two_distributions() {
        assert_eq!(kolmogorov(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(kolmogorov(&[1.0, 2.0], &[3.0]), 1.0);
        assert_eq!(kolmogorov(&[1.0, 2.0, 3.0, 4.0], &[2.5, 9.0]), 0.5);
        assert_eq!(kolmogorov(&[], &[1.0]), 1.0);
    }
}
