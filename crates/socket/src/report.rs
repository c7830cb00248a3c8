// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the processes under `alcc run` tell back: counters in a shared file.
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"alccrep1");
const FIELDS: usize = 9;
const SIZE: usize = (FIELDS + 1) * 8;

/// Counters shared by `alcc run` and the processes it started. Additions are atomic; a process that dies leaves what it
/// added.
pub struct Report {
    base: NonNull<AtomicU64>,
}

/// A snapshot of a [`Report`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Processes that loaded the library.
    pub processes: u64,
    /// Connections controlled.
    pub connections: u64,
    /// TCP connections seen and left alone, by the selection.
    pub left_alone: u64,
    /// How often a write was refused or cut short.
    pub gate_closed: u64,
    /// Bytes that passed under control.
    pub bytes: u64,
    /// CPU time of the runtime's threads, ns.
    pub runtime_cpu_ns: u64,
    /// Readings of the kernel's counters.
    pub readings: u64,
    /// Runtimes that failed; their connections went on as plain TCP.
    pub failures: u64,
    /// Connections for which the kernel refused the congestion control asked for below.
    pub under_refused: u64,
}

// SAFETY: the memory is a shared mapping of atomics that lives as long as the value.
unsafe impl Send for Report {}
// SAFETY: as above.
unsafe impl Sync for Report {}

impl Report {
    /// Makes the file, all counters zero.
    ///
    /// # Errors
    /// Those of opening, sizing and mapping.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        file.set_len(SIZE as u64)?;
        let report = Self::map(&file)?;
        report.field(FIELDS).store(MAGIC, Ordering::Release);
        Ok(report)
    }

    /// Opens the file of another process.
    ///
    /// # Errors
    /// Those of opening and mapping; `InvalidData` if it is no such file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < SIZE as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not an alcc report: too short",
            ));
        }
        let report = Self::map(&file)?;
        if report.field(FIELDS).load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not an alcc report",
            ));
        }
        Ok(report)
    }

    fn map(file: &std::fs::File) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping of a file of at least SIZE bytes, page-aligned, so aligned for u64.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(base.cast())
            .map(|base| Self { base })
            .ok_or_else(io::Error::last_os_error)
    }

    fn field(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index <= FIELDS);
        // SAFETY: the mapping holds FIELDS + 1 atomics.
        unsafe { self.base.add(index).as_ref() }
    }

    /// Adds to every counter.
    pub fn add(&self, t: &Totals) {
        for (index, n) in t.fields().into_iter().enumerate() {
            if n > 0 {
                self.field(index).fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    /// The counters now.
    pub fn totals(&self) -> Totals {
        let get = |i| self.field(i).load(Ordering::Relaxed);
        Totals {
            processes: get(0),
            connections: get(1),
            left_alone: get(2),
            gate_closed: get(3),
            bytes: get(4),
            runtime_cpu_ns: get(5),
            readings: get(6),
            failures: get(7),
            under_refused: get(8),
        }
    }
}

impl Totals {
    fn fields(&self) -> [u64; FIELDS] {
        [
            self.processes,
            self.connections,
            self.left_alone,
            self.gate_closed,
            self.bytes,
            self.runtime_cpu_ns,
            self.readings,
            self.failures,
            self.under_refused,
        ]
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped; nobody can hold a reference any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_views_add_up() {
        let path = std::env::temp_dir().join(format!("alcc-report-test-{}", std::process::id()));
        let ours = Report::create(&path).unwrap();
        let theirs = Report::open(&path).unwrap();
        let one = Totals {
            processes: 1,
            connections: 2,
            left_alone: 3,
            gate_closed: 4,
            bytes: 5,
            runtime_cpu_ns: 6,
            readings: 7,
            failures: 8,
            under_refused: 9,
        };
        theirs.add(&one);
        ours.add(&Totals {
            connections: 1,
            ..Totals::default()
        });
        std::fs::write(path.with_extension("bad"), [0u8; SIZE]).unwrap();
        assert_eq!(
            ours.totals(),
            Totals {
                connections: 3,
                ..one
            }
        );
        assert!(Report::open(&path.with_extension("bad")).is_err());
        std::fs::remove_file(path.with_extension("bad")).unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
