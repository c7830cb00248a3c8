// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One background thread for all engines of a kind. It runs an engine while no call does.
use crate::driver::{Driver, Next, TimerSlack, Visit};
use alcc_units::{Span, Time};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Builder;

/// Timers this close to each other are coalesced.
const SLACK: TimerSlack = TimerSlack {
    min: Span::from_micros(200),
    per_item: Span::ZERO,
    max: Span::from_micros(200),
};

/// Stack size of a thread. It is set because the default is read from `RUST_MIN_STACK`, and the
/// environment of a privileged program is controlled by its caller.
const STACK: usize = 256 * 1024;

/// Starts a thread for a loop. The thread blocks all signals, because they are for the program, and
/// has exact timers.
///
/// # Errors
/// The error of the system if it cannot start a thread.
pub fn thread(builder: Builder, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    alcc_sys::spawn(builder.stack_size(STACK), || {
        alcc_sys::exact_timers();
        run();
    })
    .map(drop)
}

/// A task of the background thread: runs its engine if no other thread does.
pub trait BackgroundTask: Send + Sync + 'static {
    /// The task's number, from [`next_id`].
    fn id(&self) -> u64;
    /// Does what is due. Returns when to visit the task again.
    fn visit(&self, now: Time) -> Next;
    /// True if the task needs no more visits.
    fn is_gone(&self) -> bool;
}

/// A number that is unique in this process.
pub fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Visit for dyn BackgroundTask {
    type Host = ();

    fn id(&self) -> u64 {
        BackgroundTask::id(self)
    }

    fn visit(&self, (): &(), _: usize) -> Next {
        BackgroundTask::visit(self, alcc_sys::now())
    }

    fn is_gone(&self) -> bool {
        BackgroundTask::is_gone(self)
    }
}

/// A loop with a thread, made at the first use.
pub struct Background {
    name: &'static str,
    driver: OnceLock<Option<Driver<dyn BackgroundTask>>>,
}

impl Background {
    /// A loop whose thread gets this name.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            driver: OnceLock::new(),
        }
    }

    /// Adds an item to be visited, first after `first`. False if the thread cannot be started (no
    /// descriptors, no memory).
    pub fn add(&'static self, item: Arc<dyn BackgroundTask>, first: Span) -> bool {
        let driver = self.driver.get_or_init(|| {
            let driver = Driver::with_descriptors(SLACK)?;
            let builder = Builder::new().name(self.name.to_owned());
            thread(builder, || self.run()).ok()?;
            Some(driver)
        });
        if let Some(driver) = driver {
            driver.adopt(item, first);
        }
        driver.is_some()
    }

    fn run(&self) {
        if let Some(driver) = self.driver.wait() {
            loop {
                let next = driver.run_once(&(), None);
                driver.sleep(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_environment_does_not_choose_the_stack_of_a_thread() {
        const SIZE: &str = "RUST_MIN_STACK";
        if std::env::var_os(SIZE).is_some() {
            let (tell, told) = std::sync::mpsc::channel();
            thread(Builder::new(), move || tell.send(()).unwrap()).unwrap();
            return told.recv().unwrap();
        }
        let this = "background::tests::the_environment_does_not_choose_the_stack_of_a_thread";
        // One that does not fit into the address space. With one thread the test has none of its
        // own.
        let inner = Command::new(std::env::current_exe().unwrap())
            .args([this, "--exact", "--test-threads=1"])
            .env(SIZE, (1_u64 << 47).to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&inner.stdout);
        assert!(
            inner.status.success() && said.contains("1 passed"),
            "{said}"
        );
    }
}
