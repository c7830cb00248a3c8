// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A counter in shared memory on which processes can wait (a futex). The standard library has no
//! such primitive between processes.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The half of the word that the kernel compares: the lower one.
fn address(word: &AtomicU64) -> *const u32 {
    let halves = std::ptr::from_ref(word).cast::<u32>();
    halves.wrapping_add(usize::from(cfg!(target_endian = "big")))
}

/// Increments the counter, and wakes all waiters in all processes.
pub(crate) fn wake(word: &AtomicU64) {
    word.fetch_add(1, Ordering::Release);
    // SAFETY: the word is mapped, and the call does not wait.
    unsafe { libc::syscall(libc::SYS_futex, address(word), libc::FUTEX_WAKE, i32::MAX) };
}

/// Waits until the counter differs from `seen`, at most `most`, and returns it. It may return
/// early.
pub(crate) fn wait(word: &AtomicU64, seen: u64, most: Duration) -> u64 {
    let limit = libc::timespec {
        tv_sec: most.as_secs() as _,
        tv_nsec: most.subsec_nanos() as _,
    };
    let wait = libc::FUTEX_WAIT;
    // SAFETY: the word and the limit outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            address(word),
            wait,
            seen as u32,
            &raw const limit,
        )
    };
    word.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_thread_is_woken() {
        let word = AtomicU64::new(7);
        let soon = Duration::from_millis(1);
        assert_eq!(wait(&word, 7, soon), 7);
        // The counter has changed already.
        assert_eq!(wait(&word, 6, Duration::from_secs(600)), 7);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| wait(&word, 7, Duration::from_secs(600)));
            while !waits.is_finished() {
                std::thread::sleep(soon);
                wake(&word);
            }
            assert!(waits.join().unwrap() > 7);
        });
    }
}
