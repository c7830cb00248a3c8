// SPDX-License-Identifier: Apache-2.0 OR MIT
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::error::Error;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The calling thread, and what it starts from now on, runs on this core only.
pub(crate) fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|e| format!("pin to CPU {core} (two are needed): {e}").into())
}

/// Ticks of a core so far: all, and those in which it did nothing.
pub(crate) fn ticks(core: usize) -> Result<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let name = format!("cpu{core}");
    let line = stat
        .lines()
        .find(|l| l.split(' ').next() == Some(&name))
        .ok_or("no such core in /proc/stat")?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|f| f.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is in user already
    let idle = fields.iter().skip(3).take(2).sum();
    Ok((fields.iter().take(8).sum(), idle))
}

/// Time that the calling thread has waited for a core so far, ns.
pub(crate) fn waited() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let field = stat.split(' ').nth(1).ok_or("no such field")?;
    Ok(field.parse()?)
}
