// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that turns the loop: one more than the program has made. It is made when there is something to do, and given up
//! before calls that only a process of one thread may make.
use crate::kernel;
use alcc_units::Span;
use libc::pid_t;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering};

/// No thread; made at the next work.
const RESTS: u8 = 0;
/// There is one.
const SERVES: u8 = 1;
/// No thread, and none may be made now.
const PAUSED: u8 = 2;
/// None can be made: the program's own threads turn the loop.
const NEVER: u8 = 3;

/// Between two looks whether the thread has ended: about as long as that takes.
const LOOK: Span = Span::from_micros(20);

/// What is known of the thread.
pub(crate) struct Keeper {
    state: AtomicU8,
    /// Counts the threads, so that one that was told to end does not take its successor's place.
    generation: AtomicU32,
    /// The kernel's number of the newest; zero until it runs.
    id: AtomicI32,
}

impl Keeper {
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU8::new(RESTS),
            generation: AtomicU32::new(0),
            id: AtomicI32::new(0),
        }
    }

    /// There is work. The number of the thread that the caller has to make, if there is none yet.
    pub(crate) fn wanted(&self) -> Option<u32> {
        self.moves(RESTS, SERVES).then(|| {
            self.id.store(0, Ordering::SeqCst);
            self.generation.load(Ordering::SeqCst)
        })
    }

    /// To be called by the thread when it begins.
    pub(crate) fn begins(&self) {
        // SAFETY: no arguments.
        self.id.store(unsafe { libc::gettid() }, Ordering::SeqCst);
    }

    /// May the thread of this number go on?
    pub(crate) fn serves(&self, generation: u32) -> bool {
        self.generation.load(Ordering::SeqCst) == generation
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.state.load(Ordering::SeqCst) == SERVES
    }

    /// No thread can be made.
    pub(crate) fn never(&self) {
        self.state.store(NEVER, Ordering::SeqCst);
    }

    pub(crate) fn is_never(&self) -> bool {
        self.state.load(Ordering::Acquire) == NEVER
    }

    /// Ends the thread, and waits until the kernel has it no more, at most so long. `ring` wakes it. False if there was nothing
    /// to pause: then there is nothing to resume.
    pub(crate) fn pause(&self, ring: impl FnOnce(), within: Span) -> bool {
        if self.moves(RESTS, PAUSED) {
            return true;
        }
        if !self.moves(SERVES, PAUSED) {
            return false;
        }
        self.generation.fetch_add(1, Ordering::SeqCst);
        ring();
        let until = kernel::now() + within;
        while !self.is_gone() && kernel::now() < until {
            kernel::nap(LOOK);
        }
        true
    }

    /// A thread may be made again.
    pub(crate) fn resume(&self) {
        self.moves(PAUSED, RESTS);
    }

    fn is_gone(&self) -> bool {
        let id: pid_t = self.id.load(Ordering::SeqCst);
        id != 0 && !kernel::has_thread(id)
    }

    fn moves(&self, from: u8, to: u8) -> bool {
        let order = Ordering::SeqCst;
        self.state.compare_exchange(from, to, order, order).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const LONG: Span = Span::from_secs(5);

    fn serve(keeper: &Arc<Keeper>, number: u32) {
        let keeper = Arc::clone(keeper);
        crate::turns::thread(move || {
            keeper.begins();
            while keeper.serves(number) {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
        .unwrap();
    }

    #[test]
    fn after_a_pause_the_kernel_has_the_thread_no_more() {
        let keeper = Arc::new(Keeper::new());
        for _ in 0..50 {
            serve(&keeper, keeper.wanted().unwrap());
            assert_eq!(keeper.wanted(), None);
            assert!(keeper.pause(|| (), LONG));
            assert!(keeper.is_gone());
            assert_eq!(keeper.wanted(), None);
            keeper.resume();
        }
    }

    #[test]
    fn a_thread_that_does_not_end_holds_nobody_for_ever() {
        let keeper = Keeper::new();
        keeper.wanted().unwrap();
        let before = Instant::now();
        assert!(keeper.pause(|| (), Span::from_millis(20)));
        assert!(before.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn where_there_can_be_none_there_is_nothing_to_pause() {
        let keeper = Keeper::new();
        keeper.never();
        assert!(!keeper.pause(|| (), LONG));
        keeper.resume();
        assert!(keeper.is_never());
        assert_eq!(keeper.wanted(), None);
    }
}
