// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads of the runtime inside a program.
use crate::clock::{now, sleep_for};
use crate::error::errno;
use alcc_units::Span;
use std::io;
use std::mem::zeroed;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{Builder, JoinHandle};

/// Starts a thread that blocks all signals, because they belong to the program. They are blocked before the thread
/// exists, so that it never gets one.
///
/// # Errors
/// The error of the system if it cannot start a thread.
pub fn spawn<T: Send + 'static>(
    builder: Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // SAFETY: plain signal-set calls on local, initialised sets; the mask is restored.
    unsafe {
        let (mut all, mut before) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let made = builder.spawn(work);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        made
    }
}

/// Does work on files in a thread, because their file system may be frozen or not respond. `None` after `limit`, or if
/// no thread can be started. The thread then continues alone, and its result is dropped.
pub fn within<T: Send + 'static>(
    limit: Span,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let made = Arc::new((Mutex::new(None), Changed::default()));
    let theirs = Arc::clone(&made);
    let builder = Builder::new().name("alcc-files".to_owned());
    let thread = spawn(builder.stack_size(256 * 1024), move || {
        let result = work();
        *lock(&theirs.0) = Some(result);
        theirs.1.notify_one();
    });
    thread.ok()?;
    let began = now();
    let mut result = lock(&made.0);
    while result.is_none() && now().since(began) < limit {
        result = made.1.wait(&made.0, result, limit);
    }
    result.take()
}

/// Locks `mutex`, also after a panic of a thread that held it. A poisoned lock is not an error: code that may panic
/// with a lock held handles that where it catches the panic.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same as [`lock`], if a debugger may have stopped the thread that holds it: `None` after about `limit`. The
/// sleeps are counted, not the time, which also passes while the process is stopped as a whole.
pub fn lock_within<T: ?Sized>(mutex: &Mutex<T>, limit: Span) -> Option<MutexGuard<'_, T>> {
    const SPINS: u32 = 100;
    const SLEEP: Span = Span::from_micros(20);
    const LONG_SLEEP: Span = Span::from_millis(2);
    let (mut spins, mut slept) = (0, Span::ZERO);
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if slept >= limit => return None,
            Err(TryLockError::WouldBlock) if spins < SPINS => {
                spins += 1;
                std::hint::spin_loop();
            }
            Err(TryLockError::WouldBlock) => {
                // As long as the wait has taken so far: a short wait ends soon, a long one costs little.
                let sleep = slept.clamp(SLEEP, LONG_SLEEP);
                sleep_for(sleep);
                slept += sleep;
            }
        }
    }
}

/// Makes the timers of the calling thread exact: by default each sleep ends 50 us late.
pub fn exact_timers() {
    // SAFETY: sets this thread's timer slack to 1 ns; no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// The number of threads of this process, including the first even if it has ended. `None` if /proc is not accessible.
pub fn threads() -> Option<u64> {
    // The number of links of the folder counts them. That takes one call and no memory, which may be unavailable after
    // a fork. SAFETY: zero is a valid stat, and only written to by the call.
    let links = unsafe {
        let mut stat: libc::stat = zeroed();
        let rc = libc::stat(c"/proc/self/task".as_ptr(), &raw mut stat);
        if rc == 0 { stat.st_nlink } else { 0 }
    };
    (links as u64).checked_sub(2).filter(|n| *n > 0)
}

/// True if this process still has this thread.
pub fn has_thread(id: libc::pid_t) -> bool {
    // SAFETY: signal 0 sends nothing; numbers only.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, 0) == 0 || errno() != libc::ESRCH }
}

/// A flag for which one thread sleeps. It sleeps for a span of time, because a condition variable of the standard
/// library computes its deadline by a clock that may be interposed ([`crate::now`]).
#[derive(Debug, Default)]
pub struct Flag(AtomicU32);

impl Flag {
    /// Raises the flag, and wakes the thread.
    pub fn raise(&self) {
        self.0.store(1, Ordering::Release);
        futex_wake(&self.0, 1);
    }

    /// Lowers the flag.
    pub fn lower(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Sleeps until the flag is raised, at most for `limit`. It may return early.
    pub fn wait(&self, limit: Option<Span>) {
        if self.0.load(Ordering::Acquire) == 0 {
            futex_wait(&self.0, 0, limit);
        }
    }
}

/// A condition variable that sleeps for a span of time, as [`Flag`] does.
#[derive(Debug, Default)]
pub struct Changed(AtomicU32);

impl Changed {
    /// Wakes one thread, if any sleeps.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all sleeping threads.
    pub fn notify_all(&self) {
        self.notify(u32::MAX >> 1);
    }

    fn notify(&self, most: u32) {
        self.0.fetch_add(1, Ordering::Release);
        futex_wake(&self.0, most);
    }

    /// Releases the lock and sleeps until a thread that took it later notifies, at most for `limit`. It may return
    /// early.
    pub fn wait<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        locked: MutexGuard<'a, T>,
        limit: Span,
    ) -> MutexGuard<'a, T> {
        let seen = self.0.load(Ordering::Acquire);
        drop(locked);
        futex_wait(&self.0, seen, Some(limit));
        lock(mutex)
    }
}

fn futex_wake(word: &AtomicU32, most: u32) {
    futex(word, libc::FUTEX_WAKE, most, None);
}

/// Sleeps while the word has this value, at most for `limit`. It may return early.
fn futex_wait(word: &AtomicU32, value: u32, limit: Option<Span>) {
    let limit = limit.map(|span| libc::timespec {
        tv_sec: (span.as_nanos() / 1_000_000_000) as _,
        tv_nsec: (span.as_nanos() % 1_000_000_000) as _,
    });
    futex(word, libc::FUTEX_WAIT, value, limit.as_ref());
}

fn futex(word: &AtomicU32, operation: libc::c_int, value: u32, limit: Option<&libc::timespec>) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: an integer that outlives the call, and null or a valid time.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            value,
            limit.map_or(null(), std::ptr::from_ref),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    struct Made(std::sync::mpsc::Sender<()>);

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn what_does_not_come_in_time_is_left_behind_and_dropped() {
        assert_eq!(within(Span::from_secs(10), || 7), Some(7));
        let ((go, wait), (tell, dropped)) = (channel::<()>(), channel());
        let late = within(Span::from_millis(1), move || {
            wait.recv().unwrap();
            Made(tell)
        });
        assert!(late.is_none());
        go.send(()).unwrap();
        dropped.recv().unwrap();
    }
}
