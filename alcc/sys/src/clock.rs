// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's clocks.
//!
//! A program may run under a library that shifts or scales its time (libfaketime). It interposes
//! the C library's functions, whose times would then differ from those at which the kernel ends a
//! wait. So clocks are read, and sleeps are made, without the C library.
mod vdso;

use alcc_units::{Span, Time};

#[inline]
fn read(clock: libc::clockid_t) -> i64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is a valid out pointer, and the requested clocks always exist.
    unsafe {
        match vdso::clock_gettime() {
            Some(read) => read(clock, &raw mut ts),
            None => libc::syscall(libc::SYS_clock_gettime, clock, &raw mut ts) as libc::c_int,
        };
    }
    nanos(ts)
}

pub(crate) const fn nanos(ts: libc::timespec) -> i64 {
    ts.tv_sec * 1_000_000_000 + ts.tv_nsec
}

/// `CLOCK_MONOTONIC`, the clock of all times in this project: the same in all processes of a
/// machine.
#[inline]
pub fn now() -> Time {
    Time::from_nanos(read(libc::CLOCK_MONOTONIC) as u64)
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Span {
    Span::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID) as u64)
}

/// CPU time of this process, user and system.
pub fn process_cpu() -> Span {
    Span::from_nanos(read(libc::CLOCK_PROCESS_CPUTIME_ID) as u64)
}

/// The offset of the wall clock, which the kernel's time stamps use, to the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wall {
    /// Wall clock minus monotonic clock, ns.
    ahead: i64,
}

impl Wall {
    /// Reads both clocks.
    pub fn read() -> Self {
        // One clock is read between two readings of the other, which halves the error of an
        // interruption.
        let before = read(libc::CLOCK_MONOTONIC);
        let wall = read(libc::CLOCK_REALTIME);
        let after = read(libc::CLOCK_MONOTONIC);
        Self {
            ahead: wall - (before + (after - before) / 2),
        }
    }

    /// Converts a time of the wall clock, ns, to the monotonic clock.
    pub const fn monotonic(self, wall: i64) -> Time {
        let at = wall - self.ahead;
        Time::from_nanos(if at < 0 { 0 } else { at as u64 })
    }

    /// The distance by which the wall clock has moved against the monotonic clock since then.
    pub const fn moved(self, since: Self) -> Span {
        Span::from_nanos(self.ahead.abs_diff(since.ahead))
    }
}

/// Sleeps for `span`, less than a second; a signal handler ends it early.
pub fn sleep_for(span: Span) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: span.as_nanos() as _,
    };
    let none = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: a valid time; the remaining time is not requested.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, none) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_read_a_clock_gives_the_same_time() {
        let by_call = || {
            // SAFETY: zero is a valid timespec, and the pointer to it a valid out pointer.
            unsafe {
                let mut ts: libc::timespec = std::mem::zeroed();
                libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut ts);
                Time::from_nanos(nanos(ts) as u64)
            }
        };
        for _ in 0..100 {
            let (before, between, after) = (by_call(), now(), by_call());
            assert!(before <= between && between <= after);
        }
    }
}
