// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of a process and its descendants, or of threads of this one.
use alcc_units::Span;
use std::fs;
use std::path::PathBuf;

/// CPU time and context switches of a process so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// CPU time, user + system.
    pub ran: Span,
    /// Number of times that a thread went to sleep, which is the number of wake-ups.
    pub sleeps: u64,
}

impl Work {
    /// The difference to `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(before.ran),
            sleeps: self.sleeps.saturating_sub(before.sleeps),
        }
    }
}

/// CPU time so far, user + system, of a process and all that descend from it, threads included. To
/// the scheduler's nanosecond, but only of threads that still run. `None` if the kernel does not
/// keep it.
pub fn of_tree(root: u32) -> Option<Span> {
    work_of_tree(root).map(|work| work.ran)
}

/// The same with the sleeps.
pub fn work_of_tree(root: u32) -> Option<Work> {
    let mut total = None;
    for process in tree(root) {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
            continue;
        };
        total = sum(threads.flatten().map(|thread| thread.path()), total);
    }
    total
}

/// The same of threads of this process.
pub fn work_of_threads(threads: &[u32]) -> Option<Work> {
    let path = |thread| PathBuf::from(format!("/proc/self/task/{thread}"));
    sum(threads.iter().map(path), None)
}

fn sum(threads: impl Iterator<Item = PathBuf>, before: Option<Work>) -> Option<Work> {
    threads.fold(before, |total, thread| {
        let text = fs::read_to_string(thread.join("schedstat")).ok();
        let ran = text.and_then(|text| text.split_whitespace().next()?.parse().ok());
        let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
        let sleeps = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .and_then(|n| n.trim().parse::<u64>().ok());
        ran.map_or(total, |ns| {
            let so_far = total.unwrap_or_default();
            Some(Work {
                ran: so_far.ran + Span::from_nanos(ns),
                sleeps: so_far.sleeps + sleeps.unwrap_or_default(),
            })
        })
    })
}

/// A process and all that descend from it.
pub fn tree(root: u32) -> Vec<u32> {
    let Ok(all) = fs::read_dir("/proc") else {
        return vec![root];
    };
    let parents: Vec<(u32, u32)> = all
        .flatten()
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name may contain spaces and parentheses; what follows the last ')' does not.
            let parent = stat
                .rsplit_once(") ")?
                .1
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()?;
            Some((process, parent))
        })
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|p| p.1 == parent).map(|p| p.0));
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_work_and_our_children_are_seen() {
        let Some(before) = of_tree(std::process::id()) else {
            eprintln!("skipped: needs /proc/*/schedstat");
            return;
        };
        let mut child = std::process::Command::new("sleep")
            .arg("10")
            .spawn()
            .unwrap();
        assert!(tree(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut n = 0u64;
        while of_tree(std::process::id()).unwrap() <= before {
            n = std::hint::black_box(n + 1);
        }
    }
}
