// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that runs the event loop, in addition to the program's threads. It is started when
//! there is work, and ended before calls that only a single-threaded process may make.
use crate::kernel;
use alcc_units::Span;
use libc::pid_t;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering};

/// No thread; it is started with the next work.
const IDLE: u8 = 0;
/// The thread runs.
const RUNNING: u8 = 1;
/// No thread, and none may be started now.
const PAUSED: u8 = 2;
/// No thread can be started: the program's own threads run the loop.
const UNAVAILABLE: u8 = 3;

/// Interval of checking whether the thread has ended: about the time that takes.
const POLL_INTERVAL: Span = Span::from_micros(20);

/// State of the thread.
pub(crate) struct ServiceThread {
    state: AtomicU8,
    /// Number of the current thread, so that one that has to end does not take its successor's
    /// place.
    generation: AtomicU32,
    /// The kernel's thread number of the newest; zero until it runs.
    id: AtomicI32,
}

impl ServiceThread {
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU8::new(IDLE),
            generation: AtomicU32::new(0),
            id: AtomicI32::new(0),
        }
    }

    /// Called when there is work. Returns the generation of the thread to start, if there is none
    /// yet.
    pub(crate) fn claim_start(&self) -> Option<u32> {
        self.transition(IDLE, RUNNING).then(|| {
            self.id.store(0, Ordering::SeqCst);
            self.generation.load(Ordering::SeqCst)
        })
    }

    /// Called by the thread when it begins.
    pub(crate) fn on_start(&self) {
        // SAFETY: no arguments.
        self.id.store(unsafe { libc::gettid() }, Ordering::SeqCst);
    }

    /// True if the thread of this generation may continue.
    pub(crate) fn may_run(&self, generation: u32) -> bool {
        self.generation.load(Ordering::SeqCst) == generation
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Ordering::SeqCst) == RUNNING
    }

    /// Notes that no thread can be started.
    pub(crate) fn set_unavailable(&self) {
        self.state.store(UNAVAILABLE, Ordering::SeqCst);
    }

    pub(crate) fn is_unavailable(&self) -> bool {
        self.state.load(Ordering::Acquire) == UNAVAILABLE
    }

    /// Ends the thread, and waits, at most `within`, until it no longer exists in the kernel.
    /// `wake` wakes it. False if there was nothing to pause: then there is nothing to resume.
    pub(crate) fn pause(&self, wake: impl FnOnce(), within: Span) -> bool {
        if self.transition(IDLE, PAUSED) {
            return true;
        }
        if !self.transition(RUNNING, PAUSED) {
            return false;
        }
        self.generation.fetch_add(1, Ordering::SeqCst);
        wake();
        let until = kernel::now() + within;
        while !self.is_gone() && kernel::now() < until {
            kernel::sleep_for(POLL_INTERVAL);
        }
        true
    }

    /// Allows a thread to be started again.
    pub(crate) fn resume(&self) {
        self.transition(PAUSED, IDLE);
    }

    fn is_gone(&self) -> bool {
        let id: pid_t = self.id.load(Ordering::SeqCst);
        id != 0 && !kernel::has_thread(id)
    }

    fn transition(&self, from: u8, to: u8) -> bool {
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

    fn serve(service_thread: &Arc<ServiceThread>, number: u32) {
        let service_thread = Arc::clone(service_thread);
        crate::event_loop::thread(move || {
            service_thread.on_start();
            while service_thread.may_run(number) {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
        .unwrap();
    }

    #[test]
    fn after_a_pause_the_kernel_has_the_thread_no_more() {
        let service_thread = Arc::new(ServiceThread::new());
        for _ in 0..50 {
            serve(&service_thread, service_thread.claim_start().unwrap());
            assert_eq!(service_thread.claim_start(), None);
            assert!(service_thread.pause(|| (), LONG));
            assert!(service_thread.is_gone());
            assert_eq!(service_thread.claim_start(), None);
            service_thread.resume();
        }
    }

    #[test]
    fn a_pause_does_not_wait_forever_for_the_thread() {
        let service_thread = ServiceThread::new();
        service_thread.claim_start().unwrap();
        let before = Instant::now();
        assert!(service_thread.pause(|| (), Span::from_millis(20)));
        assert!(before.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn where_there_can_be_none_there_is_nothing_to_pause() {
        let service_thread = ServiceThread::new();
        service_thread.set_unavailable();
        assert!(!service_thread.pause(|| (), LONG));
        service_thread.resume();
        assert!(service_thread.is_unavailable());
        assert_eq!(service_thread.claim_start(), None);
    }
}
