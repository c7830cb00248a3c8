// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shared-memory segment of one run: a file that `alcc run` makes and every process below it
//! maps. What stands in it is the business of the other modules; each adds its own methods to
//! [`Segment`].
use crate::map::{self, MAGIC, Map, SLOTS, get_text, put_text};
use crate::ring::Ring;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long to wait for another one who holds the lock.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What `alcc run` and the processes it started share. These are counters, the table of
/// connections, commands of `alcc ctl`, and the trace ring. Additions are atomic; a process that
/// dies leaves what it added.
pub struct Segment {
    map: Map,
    file: Option<File>,
    /// The pages of the table that are known to have memory behind them.
    backed: AtomicUsize,
}

impl Segment {
    /// Makes the file, all zero, readable and writable by its owner only.
    ///
    /// # Errors
    /// If it cannot be opened, sized or mapped, or if there is no space for it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        let segment = Self::of(Map::make(&file)?, Some(file));
        segment.map.word(0).store(MAGIC, Ordering::Release);
        Ok(segment)
    }

    /// Opens the file of another process, and keeps nothing but the mapping.
    ///
    /// # Errors
    /// If it cannot be opened or mapped; `InvalidData` if it is no such file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, false)
    }

    /// As [`Segment::open`], for `alcc` itself, which may change the file.
    ///
    /// # Errors
    /// As there.
    pub fn attend(path: &Path) -> io::Result<Self> {
        Self::open_with(path, true)
    }

    fn open_with(path: &Path, keep: bool) -> io::Result<Self> {
        Self::of_file(OpenOptions::new().read(true).write(true).open(path)?, keep)
    }

    /// As [`Segment::attend`], for a file that is open already.
    ///
    /// # Errors
    /// As there.
    pub fn attend_file(file: File) -> io::Result<Self> {
        Self::of_file(file, true)
    }

    fn of_file(file: File, keep: bool) -> io::Result<Self> {
        let segment = Self::of(Map::of(&file)?, keep.then_some(file));
        if segment.map.word(0).load(Ordering::Acquire) != MAGIC {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not an alcc report",
            ));
        }
        Ok(segment)
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
        // Lowest slots first: what lies before was taken before. A kernel that cannot be asked had
        // all of it allocated.
        if !self.map.back(at, len) && self.map.back(0, 1) {
            return false;
        }
        let page = 4096 / 8;
        self.backed
            .fetch_max((at + len) / page * page, Ordering::Relaxed);
        true
    }

    /// Memory or disk for a ring, which has none until somebody reads it.
    pub(crate) fn allocate(&self, ring: &Ring) -> io::Result<()> {
        let (from, len) = (ring.at * 8, ring.count * ring.len * 8);
        (self.file.as_ref()).map_or(Ok(()), |file| map::allocate(file, from, len))
    }

    /// Runs `f` while no other `alcc` changes the file.
    ///
    /// # Errors
    /// If the lock cannot be had; else what `f` returns.
    pub(crate) fn locked<T>(&self, f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
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
        let result = f();
        lock(libc::LOCK_UN)?;
        result
    }

    /// What `alcc run` says of itself.
    pub fn describe(&self, text: &str) {
        put_text(self.map.words(map::ABOUT, map::ABOUT_LEN), text);
    }

    /// What [`Segment::describe`] said.
    pub fn about(&self) -> String {
        let words = self.map.words(map::ABOUT, map::ABOUT_LEN);
        let copy: Vec<u64> = words.iter().map(|w| w.load(Ordering::Relaxed)).collect();
        get_text(&copy)
    }

    /// The runtime of this process failed.
    pub fn note_failure(&self, pid: u32) {
        let count = self.map.word(map::FAILED);
        let place = count.fetch_add(1, Ordering::Relaxed) as usize;
        if place < map::FAILED_LEN - 1 {
            let word = self.map.word(map::FAILED + 1 + place);
            word.store(pid.into(), Ordering::Relaxed);
        }
    }

    /// The first processes whose runtime failed.
    pub fn failed(&self) -> Vec<u32> {
        let words = self.map.words(map::FAILED + 1, map::FAILED_LEN - 1);
        let pids = words.iter().map(|w| w.load(Ordering::Relaxed) as u32);
        pids.filter(|pid| *pid != 0).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicU32;

    /// A path of its own for each test.
    pub(crate) struct Scratch(pub(crate) PathBuf);

    impl Scratch {
        pub(crate) fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("alcc-segment-test-{}-{n}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        pub(crate) fn create(&self) -> Segment {
            Segment::create(&self.0).unwrap()
        }

        pub(crate) fn open(&self) -> Segment {
            Segment::attend(&self.0).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_file(&self.0));
        }
    }

    #[test]
    fn what_is_said_by_one_is_read_by_another() {
        let scratch = Scratch::new();
        let (ours, theirs) = (scratch.create(), scratch.open());
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
        assert!(Segment::open(&scratch.0).is_err());
        // As long as it should be, and all zero.
        file.set_len(0).unwrap();
        file.set_len((map::WORDS * 8) as u64).unwrap();
        assert!(Segment::open(&scratch.0).is_err());
    }
}
