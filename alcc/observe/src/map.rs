// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of the file that `alcc run`, the processes under it and `alcc ctl`, `top` and `log` map, and the reading
//! of a record that another process may be writing.
//!
//! Nothing read from the file is trusted: every number is clamped, every text checked. A reader never waits for a
//! writer, because a process may die in the middle of a record.
use crate::guard;
use alcc_units::is_printable;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"alccrep8");

/// Offsets and sizes in words of 8 bytes.
pub(crate) const COUNTERS: usize = 1;
pub(crate) const COUNTERS_LEN: usize = 63;
/// Among the counters: connections and bytes that are not controlled, by reason.
pub(crate) const MISSED: usize = COUNTERS + 31;
/// Process ids whose runtime failed: their number, then the first of them.
pub(crate) const FAILED: usize = 64;
pub(crate) const FAILED_LEN: usize = 64;
/// The description of the run by `alcc run`: length, then text.
pub(crate) const ABOUT: usize = 128;
pub(crate) const ABOUT_LEN: usize = 256;
/// Commands of `alcc ctl`: a record of sequence, generation, length and text.
pub(crate) const ORDERS: usize = 512;
pub(crate) const ORDERS_LEN: usize = 1024;
/// Counters by port and algorithm.
pub(crate) const GROUPS: usize = 2048;
pub(crate) const GROUP_LEN: usize = 64;
pub(crate) const GROUPS_COUNT: u16 = 64;
/// One bit per slot: set if the slot is taken.
pub(crate) const TAKEN: usize = 6144;
pub(crate) const TAKEN_LEN: usize = SLOTS_COUNT / 64;
/// Number of connections without a slot.
pub(crate) const NOT_SHOWN: usize = TAKEN + TAKEN_LEN;
/// Time (ns of the monotonic clock) until which readings go into the trace ring; then the number of records written.
pub(crate) const LEASE: usize = NOT_SHOWN + 1;
pub(crate) const TRACE_HEAD: usize = LEASE + 1;
/// The same for the ring of events.
pub(crate) const EVENTS_LEASE: usize = TRACE_HEAD + 1;
pub(crate) const EVENTS_HEAD: usize = EVENTS_LEASE + 1;
/// Number of connections that were closed with bytes in flight: a futex for processes that follow them.
pub(crate) const LEFT_COUNT: usize = EVENTS_HEAD + 1;
/// Accounts of connections: pairs of words.
pub(crate) const ACCOUNTS: usize = 8192;
pub(crate) const ACCOUNTS_COUNT: usize = 16_384;
/// Keys of shared allowances: a hash for each place, zero if it is free. All that share are in one row.
pub(crate) const KEYS: usize = ACCOUNTS + 2 * ACCOUNTS_COUNT;
pub(crate) const KEYS_COUNT: usize = 16_384;
pub(crate) const KEYS_ROW: usize = 32;
/// Records of connections.
pub(crate) const SLOTS: usize = KEYS + KEYS_COUNT;
pub(crate) const SLOT_LEN: usize = 40;
pub(crate) const SLOTS_COUNT: usize = 65_536;
/// Reports of processes that share an allowance.
pub(crate) const TALLIES: usize = SLOTS + SLOT_LEN * SLOTS_COUNT;
pub(crate) const TALLY_LEN: usize = 16;
/// The last readings, for `alcc log`.
pub(crate) const TRACE: usize = TALLIES + TALLY_LEN * KEYS_COUNT;
pub(crate) const TRACE_ENTRY: usize = 18;
pub(crate) const TRACE_COUNT: usize = 65_536;
/// The last events of algorithms, for `alcc log` and `alcc run --log`.
pub(crate) const EVENTS: usize = TRACE + TRACE_ENTRY * TRACE_COUNT;
pub(crate) const EVENTS_LEN: usize = 32;
pub(crate) const EVENTS_COUNT: usize = 8192;
pub(crate) const WORDS: usize = EVENTS + EVENTS_LEN * EVENTS_COUNT;

// The parts do not overlap.
const _: () = {
    assert!(ACCOUNTS_COUNT.is_power_of_two());
    assert!(COUNTERS + COUNTERS_LEN <= FAILED && FAILED + FAILED_LEN <= ABOUT);
    assert!(ABOUT + ABOUT_LEN <= ORDERS && ORDERS + ORDERS_LEN <= GROUPS);
    assert!(GROUPS + GROUP_LEN * GROUPS_COUNT as usize <= TAKEN && LEFT_COUNT < ACCOUNTS);
};

/// `MADV_POPULATE_WRITE` of linux/mman.h (Linux 5.14).
const POPULATE_WRITE: libc::c_int = 23;
const PAGE: usize = 4096;

/// The mapping.
pub(crate) struct Map {
    base: NonNull<AtomicU64>,
}

// SAFETY: the memory is a shared mapping of atomics that lives as long as the value.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Sets the size of the file, all zero, and allocates memory for the parts that every process writes. So a full
    /// disk is an error here and not a signal (SIGBUS) later.
    pub(crate) fn make(file: &File) -> io::Result<Self> {
        file.set_len((WORDS * 8) as u64)?;
        allocate(file, 0, SLOTS * 8)?;
        let map = Self::of(file)?;
        // If the kernel cannot back the rest on demand, all of it is allocated now.
        if !map.back(0, 1) {
            allocate(file, SLOTS * 8, (TRACE - SLOTS) * 8)?;
        }
        Ok(map)
    }

    /// A mapping of this process and its children alone, without a file.
    pub(crate) fn unnamed() -> io::Result<Self> {
        Self::new(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }

    /// Maps a file that [`Map::make`] made.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() < (WORDS * 8) as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not an alcc report: too short",
            ));
        }
        Self::new(libc::MAP_SHARED, file.as_raw_fd())
    }

    /// The same as [`Map::of`], for a file that another user may truncate at any time. All of it reads as zero then,
    /// and no signal ends this process.
    pub(crate) fn of_stranger(file: &File) -> io::Result<Self> {
        let map = Self::of(file)?;
        guard::protect(map.base.as_ptr().addr(), WORDS * 8)?;
        Ok(map)
    }

    fn new(flags: libc::c_int, fd: libc::c_int) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping, if of a file, then of one of at least that size;
        // page-aligned, so aligned for u64.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                WORDS * 8,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                fd,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping just made; a failure only makes core dumps larger.
        unsafe { libc::madvise(base, WORDS * 8, libc::MADV_DONTDUMP) };
        NonNull::new(base.cast())
            .map(|base| Self { base })
            .ok_or_else(io::Error::last_os_error)
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.words(at, 1)[0]
    }

    /// `len` words from `at`.
    pub(crate) fn words(&self, at: usize, len: usize) -> &[AtomicU64] {
        assert!(at <= WORDS && len <= WORDS - at, "outside the mapping");
        // SAFETY: inside the mapping, which is as long as `self`; atomics may be shared with other
        // processes.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at), len) }
    }

    /// Makes sure that these words can be written without a signal. False if the disk is full or the kernel too old for
    /// the check.
    pub(crate) fn back(&self, at: usize, len: usize) -> bool {
        let words = self.words(at, len);
        let from = words.as_ptr() as usize / PAGE * PAGE;
        let to = words.as_ptr_range().end as usize;
        // SAFETY: whole pages of the mapping; the call changes no content.
        unsafe { libc::madvise(from as *mut _, to - from, POPULATE_WRITE) == 0 }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        guard::forget(self.base.as_ptr().addr());
        // SAFETY: unmaps what `new` mapped; nobody can hold a reference any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), WORDS * 8) };
    }
}

/// Allocates memory or disk space for a part of the file.
pub(crate) fn allocate(file: &File, from: usize, len: usize) -> io::Result<()> {
    // SAFETY: a descriptor and two numbers.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), from as _, len as _) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Writes a record whose first word is its sequence: odd while it is being written. One writer at a
/// time.
pub(crate) fn publish(record: &[AtomicU64], write: impl FnOnce(&[AtomicU64])) {
    let Some((sequence, fields)) = record.split_first() else {
        return;
    };
    let odd = sequence.load(Ordering::Relaxed) | 1;
    sequence.store(odd, Ordering::Relaxed);
    fence(Ordering::Release);
    write(fields);
    sequence.store(odd.wrapping_add(1), Ordering::Release);
}

/// Copies a record, without its sequence; `None` if it is written all the time, or if its writer has died in the
/// middle.
pub(crate) fn snapshot<const N: usize>(record: &[AtomicU64]) -> Option<[u64; N]> {
    let mut copy = [0; N];
    snapshot_into(record, &mut copy).then_some(copy)
}

/// The same as [`snapshot`], for records that are too large for a stack; false instead of `None`.
pub(crate) fn snapshot_into(record: &[AtomicU64], copy: &mut [u64]) -> bool {
    let Some((sequence, fields)) = record.split_first() else {
        return false;
    };
    for _ in 0..100 {
        let before = sequence.load(Ordering::Acquire);
        if before % 2 == 0 {
            for (to, from) in copy.iter_mut().zip(fields) {
                *to = from.load(Ordering::Relaxed);
            }
            fence(Ordering::Acquire);
            if sequence.load(Ordering::Relaxed) == before {
                return true;
            }
        }
        std::hint::spin_loop();
    }
    false
}

pub(crate) fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Encodes text as words, padded with zero bytes without end.
pub(crate) fn text_words(text: &str) -> impl Iterator<Item = u64> {
    let mut bytes = text.bytes();
    std::iter::repeat_with(move || {
        let mut eight = [0; 8];
        eight.iter_mut().zip(&mut bytes).for_each(|(to, b)| *to = b);
        u64::from_le_bytes(eight)
    })
}

/// Writes text into words, truncated to their length.
pub(crate) fn put_text(words: &[AtomicU64], text: &str) {
    words
        .iter()
        .zip(text_words(text))
        .for_each(|(w, v)| set(w, v));
}

/// Reads a line of text from words, up to the first zero byte. Characters that cannot be printed are replaced by
/// question marks.
pub(crate) fn get_text(words: &[u64]) -> String {
    get_lines(words).replace('\n', "?")
}

/// The same for several lines.
pub(crate) fn get_lines(words: &[u64]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .take_while(|b| *b != 0)
        .collect();
    let text = String::from_utf8_lossy(&bytes);
    text.chars()
        .map(|c| {
            if c == '\n' || (is_printable(c) && c != '\u{fffd}') {
                c
            } else {
                '?'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_whole_or_not_read() {
        let record: Vec<AtomicU64> = (0..9).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 0..200_000u64 {
                    publish(&record, |fields| fields.iter().for_each(|f| set(f, n)));
                }
            });
            while !writer.is_finished() {
                if let Some(copy) = snapshot::<8>(&record) {
                    assert!(copy.iter().all(|n| *n == copy[0]), "{copy:?}");
                }
            }
        });
        assert_eq!(snapshot::<8>(&record), Some([199_999; 8]));
        // Its writer died in the middle; the next one goes on.
        record[0].store(7, Ordering::Relaxed);
        assert_eq!(snapshot::<8>(&record), None);
        publish(&record, |fields| set(&fields[0], 1));
        assert!(snapshot::<8>(&record).is_some());
    }

    #[test]
    fn text_is_cut_and_cleaned() {
        let words: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(0)).collect();
        let read = || {
            get_text(&[
                words[0].load(Ordering::Relaxed),
                words[1].load(Ordering::Relaxed),
            ])
        };
        put_text(&words, "copa:delta=0.5");
        assert_eq!(read(), "copa:delta=0.5");
        put_text(&words, "a text that is too long");
        assert_eq!(read(), "a text that is t");
        set(&words[0], u64::from_le_bytes(*b"\x1b[2J\xff\0\0\0"));
        assert_eq!(read(), "?[2J?");
        set(&words[0], u64::from_le_bytes(*b"a\nb\xe2\x80\xaec\0"));
        assert_eq!(read(), "a?b?c");
    }
}
