// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the processes under `alcc run` tell back: counters in a shared file.
use crate::accounts::{self, Unseen};
use crate::bypass::ByReason;
use crate::control::{self, Order, Orders};
use crate::groups::{self, Group};
use crate::shared::{self, COUNTERS, MAGIC, Map, SLOTS, get_text, put_text};
use crate::status::{self, Record};
use crate::trail::Trail;
use crate::{Socket, kernel};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long to wait for another one who gives an order.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

const COUNTS: usize = 9;
const FIELDS: usize = COUNTS + 2 * ByReason::LEN;
const _: () = assert!(FIELDS <= crate::missed::PLACE);

/// What `alcc run` and the processes it started share: counters, the table of connections, orders of `alcc ctl`, the last
/// readings. Additions are atomic; a process that dies leaves what it added.
pub struct Report {
    map: Map,
    file: Option<File>,
    /// The pages of the table that are known to have memory behind them.
    backed: AtomicUsize,
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
    /// Bytes of controlled connections that passed without the algorithm's leave; not among `bytes`.
    pub bypassed_bytes: ByReason,
    /// Connections with such bytes.
    pub bypassed_connections: ByReason,
}

impl Report {
    /// Makes the file, all zero, readable and writable by its owner only.
    ///
    /// # Errors
    /// Those of opening, sizing and mapping; that there is no space for it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        let report = Self::of(Map::make(&file)?, Some(file));
        report.map.word(0).store(MAGIC, Ordering::Release);
        Ok(report)
    }

    /// Opens the file of another process, and keeps nothing but the mapping.
    ///
    /// # Errors
    /// Those of opening and mapping; `InvalidData` if it is no such file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, false)
    }

    /// As [`Report::open`], for a program of ours, which may change the file.
    ///
    /// # Errors
    /// As there.
    pub fn attend(path: &Path) -> io::Result<Self> {
        Self::open_with(path, true)
    }

    fn open_with(path: &Path, keep: bool) -> io::Result<Self> {
        Self::of_file(OpenOptions::new().read(true).write(true).open(path)?, keep)
    }

    /// As [`Report::attend`], for a file that is open already.
    ///
    /// # Errors
    /// As there.
    pub fn attend_file(file: File) -> io::Result<Self> {
        Self::of_file(file, true)
    }

    fn of_file(file: File, keep: bool) -> io::Result<Self> {
        let report = Self::of(Map::of(&file)?, keep.then_some(file));
        if report.map.word(0).load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not an alcc report",
            ));
        }
        Ok(report)
    }

    fn of(map: Map, file: Option<File>) -> Self {
        Self {
            map,
            file,
            backed: AtomicUsize::new(SLOTS),
        }
    }

    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Whether this part of the table can be written: asked of the kernel once per page.
    pub(crate) fn backed(&self, at: usize, len: usize) -> bool {
        if at + len <= self.backed.load(Ordering::Relaxed) {
            return true;
        }
        // Lowest slots first: what lies before was taken before. A kernel that cannot be asked had all of it allocated.
        if !self.map.back(at, len) && self.map.back(0, 1) {
            return false;
        }
        let page = 4096 / 8;
        self.backed
            .fetch_max((at + len) / page * page, Ordering::Relaxed);
        true
    }

    fn field(&self, index: usize) -> &AtomicU64 {
        self.map.word(COUNTERS + index)
    }

    /// All connections in the table.
    pub fn connections(&self) -> Vec<Record> {
        status::records(self)
    }

    /// Connections that found no place in the table.
    pub fn not_shown(&self) -> u64 {
        self.map.word(shared::NOT_SHOWN).load(Ordering::Relaxed)
    }

    /// Frees the places of processes that are gone.
    pub fn reclaim(&self, alive: impl Fn(u32) -> bool) {
        status::reclaim(self, alive);
    }

    /// Streams of the C library may be written to this descriptor from now on. Not of interest unless it is a TCP connection.
    pub fn streams(&self, fd: RawFd) {
        if let Socket::Connected(_) = kernel::look(fd, None)
            && let (Some(cookie), Some(reading)) = (kernel::cookie(fd), kernel::read(fd))
        {
            accounts::open(self, cookie, reading.progress.written, true);
        }
    }

    /// What went past the library of a connection of which the kernel has sent so many bytes; `None` if nobody knows.
    pub fn unseen(&self, cookie: u64, sent: u64) -> Option<Unseen> {
        accounts::unseen(self, cookie, sent)
    }

    /// Counters by port and algorithm.
    pub fn groups(&self) -> Vec<Group> {
        groups::all(self)
    }

    /// The orders given so far; `None` if they cannot be read.
    pub fn orders(&self) -> Option<Orders> {
        control::read(self)
    }

    /// Number of the last order.
    pub fn generation(&self) -> u64 {
        control::generation(self)
    }

    /// Gives an order to all processes, one caller at a time.
    ///
    /// # Errors
    /// That the lock cannot be had, or that there are too many orders for single ports.
    pub fn order(&self, order: Order) -> io::Result<Orders> {
        let lock = |how| match &self.file {
            // SAFETY: a descriptor and a number.
            Some(file) if unsafe { libc::flock(file.as_raw_fd(), how) } != 0 => {
                Err(io::Error::last_os_error())
            }
            _ => Ok(()),
        };
        // Held for some microseconds; by somebody who means ill, for ever.
        let mut tries = 0;
        while let Err(e) = lock(libc::LOCK_EX | libc::LOCK_NB) {
            tries += 1;
            if e.kind() != io::ErrorKind::WouldBlock || tries > LOCK_TRIES {
                return Err(e);
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        let given = control::give(self, order);
        lock(libc::LOCK_UN)?;
        given
    }

    /// Follows the readings from now on.
    ///
    /// # Errors
    /// That there is no space for them.
    pub fn trail(&self) -> io::Result<Trail<'_>> {
        if let Some(file) = &self.file {
            let from = shared::TRAIL * 8;
            shared::allocate(file, from, shared::WORDS * 8 - from)?;
        }
        Ok(Trail::new(self))
    }

    /// What `alcc run` says of itself.
    pub fn describe(&self, text: &str) {
        put_text(self.map.words(shared::ABOUT, shared::ABOUT_LEN), text);
    }

    /// What [`Report::describe`] said.
    pub fn about(&self) -> String {
        let words = self.map.words(shared::ABOUT, shared::ABOUT_LEN);
        let copy: Vec<u64> = words.iter().map(|w| w.load(Ordering::Relaxed)).collect();
        get_text(&copy)
    }

    /// The runtime of this process failed.
    pub(crate) fn note_failure(&self, pid: u32) {
        let count = self.map.word(shared::FAILED);
        let place = count.fetch_add(1, Ordering::Relaxed) as usize;
        if place < shared::FAILED_LEN - 1 {
            let word = self.map.word(shared::FAILED + 1 + place);
            word.store(pid.into(), Ordering::Relaxed);
        }
    }

    /// The first processes whose runtime failed.
    pub fn failed(&self) -> Vec<u32> {
        let words = self.map.words(shared::FAILED + 1, shared::FAILED_LEN - 1);
        let pids = words.iter().map(|w| w.load(Ordering::Relaxed) as u32);
        pids.filter(|pid| *pid != 0).collect()
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
            bypassed_bytes: ByReason::read(|i| get(COUNTS + i)),
            bypassed_connections: ByReason::read(|i| get(COUNTS + ByReason::LEN + i)),
        }
    }
}

impl Totals {
    fn fields(&self) -> [u64; FIELDS] {
        let counts = [
            self.processes,
            self.connections,
            self.left_alone,
            self.gate_closed,
            self.bytes,
            self.runtime_cpu_ns,
            self.readings,
            self.failures,
            self.under_refused,
        ];
        let mut fields = [0; FIELDS];
        let by_reason = [self.bypassed_bytes, self.bypassed_connections];
        let words = by_reason.iter().flat_map(ByReason::words);
        let all = counts.into_iter().chain(words);
        fields.iter_mut().zip(all).for_each(|(to, n)| *to = n);
        fields
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Bypass;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicU32;

    /// A path of its own for each test.
    pub(crate) struct Scratch(pub(crate) PathBuf);

    impl Scratch {
        pub(crate) fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("alcc-report-test-{}-{n}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        pub(crate) fn create(&self) -> Report {
            Report::create(&self.0).unwrap()
        }

        pub(crate) fn open(&self) -> Report {
            Report::attend(&self.0).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_file(&self.0));
        }
    }

    #[test]
    fn two_processes_views_add_up() {
        let scratch = Scratch::new();
        let (ours, theirs) = (scratch.create(), scratch.open());
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
            bypassed_bytes: ByReason::of(Bypass::NoWakeup, 10),
            bypassed_connections: ByReason::of(Bypass::NoWakeup, 11),
        };
        theirs.add(&one);
        ours.add(&Totals {
            connections: 1,
            ..Totals::default()
        });
        assert_eq!(
            ours.totals(),
            Totals {
                connections: 3,
                ..one
            }
        );
        theirs.note_failure(77);
        assert_eq!(ours.failed(), [77]);
        ours.describe("nginx");
        assert_eq!(theirs.about(), "nginx");
    }

    #[test]
    fn another_file_and_a_truncated_one_are_refused() {
        let scratch = Scratch::new();
        drop(scratch.create());
        let file = OpenOptions::new().write(true).open(&scratch.0).unwrap();
        file.set_len(4096).unwrap();
        assert!(Report::open(&scratch.0).is_err());
        // As long as it should be, and all zero.
        file.set_len(0).unwrap();
        file.set_len((shared::WORDS * 8) as u64).unwrap();
        assert!(Report::open(&scratch.0).is_err());
    }
}
