// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One thread for all engines of a kind that no call is running.
use crate::driver::{Driver, Next, TimerSlack, Visit};
use alcc_units::{Span, Time};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Builder;

/// Timers this close to each other are served together.
const SLACK: TimerSlack = TimerSlack {
    min: Span::from_micros(200),
    per_item: Span::ZERO,
    max: Span::from_micros(200),
};

/// The stack of a thread: without one of its own it takes the size of `RUST_MIN_STACK`, and a
/// privileged program's environment belongs to its caller.
const STACK: usize = 256 * 1024;

/// Starts a thread for a loop. Signals belong to the program: it takes none, and its timers are
/// exact.
///
/// # Errors
/// When the system gives no thread.
pub fn thread(builder: Builder, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    alcc_sys::spawn(builder.stack_size(STACK), || {
        alcc_sys::exact_timers();
        run();
    })
    .map(drop)
}

/// A task of the background thread: runs its engine if no other thread does.
pub trait BackgroundTask: Send + Sync + 'static {
    /// By [`next_id`].
    fn id(&self) -> u64;
    /// Does what is due. When to come back.
    fn visit(&self, now: Time) -> Next;
    /// It does not need it any more.
    fn is_gone(&self) -> bool;
}

/// A number that no other has.
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
    /// Its thread is called so.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            driver: OnceLock::new(),
        }
    }

    /// Visits the item, first after `first`. False: there is no thread (no descriptors, no memory).
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
