// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accounts: the number of bytes of each connection that have passed through the library, in any
//! process. The kernel's count beyond that bypassed it.
//!
//! Each connection has a place that follows from the kernel's number of its socket. Numbers are
//! assigned in sequence, so the newest connections have their own places. Places of consecutive
//! numbers are far apart, so that two cores do not share a cache line. A connection whose place was
//! taken by a newer one is no longer accounted for.
use crate::map::{ACCOUNTS, ACCOUNTS_COUNT};
use crate::segment::Segment;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a connection that bypassed the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unseen {
    /// Number of bytes.
    pub bytes: u64,
    /// True if the program has a stream of the C library on it.
    pub streams: bool,
}

/// It is odd, so consecutive numbers get different places, and far from every short fraction of the
/// total, so their places are far apart.
const STRIDE: u64 = 10_125;

impl Segment {
    /// The account's words: the connection's number with its flag for streams, and the bytes that
    /// have passed.
    fn account(&self, cookie: u64) -> [&AtomicU64; 2] {
        let index = (cookie.wrapping_mul(STRIDE) % ACCOUNTS_COUNT as u64) as usize;
        let [owner, passed] = self.map().words(ACCOUNTS + index * 2, 2) else {
            unreachable!("two words")
        };
        [owner, passed]
    }

    /// Opens the account of a connection. Bytes written before count as passed. `streams`: streams
    /// of the C library may write to it.
    pub fn open_account(&self, cookie: u64, written: u64, streams: bool) {
        let [owner, passed] = self.account(cookie);
        let now = owner.load(Ordering::Acquire);
        if now >> 1 != cookie {
            passed.store(written, Ordering::Relaxed);
            owner.store(cookie << 1 | u64::from(streams), Ordering::Release);
        } else if streams && now & 1 == 0 {
            owner.store(now | 1, Ordering::Release);
        }
    }

    /// Counts `bytes` that pass through the library. It is called before a write, which may take
    /// long; afterwards a negative number corrects for the bytes that the write did not take.
    pub fn passed(&self, cookie: u64, bytes: i64) {
        let [owner, passed] = self.account(cookie);
        if owner.load(Ordering::Acquire) >> 1 == cookie {
            passed.fetch_add(bytes.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// The bytes that bypassed the library, if the kernel has sent `sent` bytes in total. `None`:
    /// the connection has no account.
    pub fn unseen(&self, cookie: u64, sent: u64) -> Option<Unseen> {
        let [owner, passed] = self.account(cookie);
        let now = owner.load(Ordering::Acquire);
        (now >> 1 == cookie).then(|| Unseen {
            bytes: sent.saturating_sub(passed.load(Ordering::Relaxed)),
            streams: now & 1 == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;

    #[test]
    fn what_passes_in_several_processes_adds_up_and_the_rest_is_unseen() {
        let scratch = Scratch::new();
        let (ours, theirs) = (scratch.create(), scratch.open());
        assert_eq!(ours.unseen(7, 100), None);
        ours.open_account(7, 1000, false);
        theirs.open_account(7, 5000, false);
        ours.passed(7, 300);
        theirs.passed(7, 900);
        theirs.passed(7, -700);
        let went = |bytes, streams| Some(Unseen { bytes, streams });
        assert_eq!(ours.unseen(7, 1500), went(0, false));
        assert_eq!(ours.unseen(7, 1499), went(0, false));
        theirs.open_account(7, 0, true);
        assert_eq!(ours.unseen(7, 1700), went(200, true));
        // A newer one takes its place.
        ours.open_account(7 + ACCOUNTS_COUNT as u64, 0, false);
        theirs.passed(7, 200);
        assert_eq!(ours.unseen(7, 9000), None);
        let newer = ours.unseen(7 + ACCOUNTS_COUNT as u64, 10);
        assert_eq!(newer, went(10, false));
    }
}
