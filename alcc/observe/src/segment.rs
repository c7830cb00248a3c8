// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shared-memory segment of one run: a file that `alcc run` creates and every process below it
//! maps. The other modules define its parts, and add their methods to [`Segment`].
use crate::map::{self, MAGIC, Map, SLOTS, get_lines, put_text};
use crate::ring::Ring;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Number of attempts to take the lock while another process holds it.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// The same for all files of other users together, who may hold their locks forever.
const STRANGERS_TRIES: u32 = 30;

/// The memory that `alcc run` and the processes it started share: counters, the table of
/// connections, commands of `alcc ctl`, and the trace ring. Additions are atomic, and those of a
/// process that dies remain.
pub struct Segment {
    map: Map,
    file: Option<File>,
    /// True if it belongs to another user.
    strange: bool,
    /// Number of pages of the table that are known to be backed by memory.
    backed: AtomicUsize,
}

impl Segment {
    /// Creates the file, all zero, readable and writable by its owner only.
    ///
    /// # Errors
    /// The file cannot be opened, sized or mapped, or there is no space for it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        Self::in_file(file)
    }

    fn in_file(file: File) -> io::Result<Self> {
        let segment = Self::of(Map::make(&file)?, Some(file));
        segment.map.word(0).store(MAGIC, Ordering::Release);
        Ok(segment)
    }

    /// Creates it without a folder. Others find it by this name in the mappings of processes. Also
    /// returns a path for processes of the same user, valid while this one runs; `None` if only
    /// this process can open it.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn in_memory(name: &CStr) -> io::Result<(Self, Option<PathBuf>)> {
        // SAFETY: a text that ends with a zero byte, and flags.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if fd >= 0 {
            // SAFETY: a descriptor that was just made, with no other owner.
            let file = unsafe { File::from_raw_fd(fd) };
            let path = PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()));
            if let Ok(segment) = Self::in_file(file) {
                return Ok((segment, Some(path)));
            }
        }
        let segment = Self::of(Map::unnamed()?, None);
        segment.map.word(0).store(MAGIC, Ordering::Release);
        Ok((segment, None))
    }

    /// Opens the file of another process, and keeps only the mapping.
    ///
    /// # Errors
    /// It cannot be opened or mapped; `InvalidData` if it is another kind of file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, false)
    }

    /// The same as [`Segment::open`], for `alcc` itself, which may change the file.
    ///
    /// # Errors
    /// The errors of [`Segment::open`].
    pub fn attend(path: &Path) -> io::Result<Self> {
        Self::open_with(path, true)
    }

    fn open_with(path: &Path, keep: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let map = Map::of(&file)?;
        Self::checked(Self::of(map, keep.then_some(file)))
    }

    /// The same as [`Segment::attend`], for an open file that may belong to another user, who may
    /// truncate it or hold its lock.
    ///
    /// # Errors
    /// The errors of [`Segment::open`].
    pub fn attend_file(file: File) -> io::Result<Self> {
        // SAFETY: no arguments.
        let strange = file.metadata()?.uid() != unsafe { libc::geteuid() };
        let map = Map::of_stranger(&file)?;
        let segment = Self::checked(Self::of(map, Some(file)))?;
        Ok(Self { strange, ..segment })
    }

    fn checked(segment: Self) -> io::Result<Self> {
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
            strange: false,
            backed: AtomicUsize::new(SLOTS),
        }
    }

    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// True if this part of the table can be written. The kernel is queried once per page.
    pub(crate) fn backed(&self, at: usize, len: usize) -> bool {
        if at + len <= self.backed.load(Ordering::Relaxed) {
            return true;
        }
        // Lowest slots are used first, so that pages before are backed already. On a kernel without
        // this query all of it was allocated.
        if !self.map.back(at, len) && self.map.back(0, 1) {
            return false;
        }
        let page = 4096 / 8;
        self.backed
            .fetch_max((at + len) / page * page, Ordering::Relaxed);
        true
    }

    /// Allocates memory or disk space for a ring, which has none before its first reader.
    pub(crate) fn allocate(&self, ring: &Ring) -> io::Result<()> {
        let (from, len) = (ring.at * 8, ring.count * ring.len * 8);
        (self.file.as_ref()).map_or(Ok(()), |file| map::allocate(file, from, len))
    }

    /// Runs `f` while no other `alcc` changes the file.
    ///
    /// # Errors
    /// The lock cannot be taken; otherwise the result of `f`.
    pub(crate) fn locked<T>(&self, f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let lock = |how| match &self.file {
            // SAFETY: a descriptor and a number.
            Some(file) if unsafe { libc::flock(file.as_raw_fd(), how) } != 0 => {
                Err(io::Error::last_os_error())
            }
            _ => Ok(()),
        };
        // The lock is held for some microseconds, but a malicious process could hold it forever.
        static STRANGERS: AtomicU32 = AtomicU32::new(0);
        let mut tries = 0;
        while let Err(e) = lock(libc::LOCK_EX | libc::LOCK_NB) {
            let over = if self.strange {
                STRANGERS.fetch_add(1, Ordering::Relaxed) > STRANGERS_TRIES
            } else {
                tries += 1;
                tries > LOCK_TRIES
            };
            if e.kind() != io::ErrorKind::WouldBlock || over {
                return Err(e);
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        let result = f();
        lock(libc::LOCK_UN)?;
        result
    }

    /// Sets the description of the run.
    pub fn describe(&self, text: &str) {
        put_text(self.map.words(map::ABOUT, map::ABOUT_LEN), text);
    }

    /// The description by [`Segment::describe`].
    pub fn about(&self) -> String {
        let words = self.map.words(map::ABOUT, map::ABOUT_LEN);
        let copy: Vec<u64> = words.iter().map(|w| w.load(Ordering::Relaxed)).collect();
        get_lines(&copy)
    }

    /// Notes that the runtime of this process failed.
    pub(crate) fn note_failure(&self, pid: u32) {
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
    fn a_file_that_its_owner_cuts_off_reads_as_empty() {
        let scratch = Scratch::new();
        let ours = scratch.create();
        ours.describe("nginx");
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).open(&scratch.0).unwrap()
        };
        let looked = Segment::attend_file(open()).unwrap();
        let again = Segment::attend_file(open()).unwrap();
        assert_eq!(looked.about(), "nginx");
        open().set_len(0).unwrap();
        assert_eq!(looked.about(), "");
        assert!(looked.connections().is_empty());
        again.note_failure(7);
        assert_eq!((looked.failed(), again.failed()), (vec![], vec![7]));
    }

    #[test]
    fn memory_without_a_folder_is_shared_by_its_path() {
        let (ours, path) = Segment::in_memory(c"alcc/1/report").unwrap();
        let theirs = Segment::open(&path.expect("a memfd")).unwrap();
        ours.note_failure(3);
        assert_eq!(theirs.failed(), [3]);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains("/memfd:alcc/1/report"), "{maps}");
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
