// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals belong to the program.
use crate::clock::now;
use crate::error::{errno, set_errno};
use alcc_units::Time;
use libc::c_int;
use std::mem::zeroed;

/// A thread of the program that waits as a blocking write does. A signal handler ends it with
/// EINTR. It does not if the wait may be restarted and the handler was installed with SA_RESTART.
/// Between two sleeps signals have to wait, as one that came then would end nothing.
pub struct SignalWait {
    mask: libc::sigset_t,
    open: libc::sigset_t,
}

impl SignalWait {
    /// Blocks signals until it is dropped.
    #[expect(clippy::new_without_default, reason = "making one blocks signals")]
    pub fn new() -> Self {
        // SAFETY: plain signal-set calls on local, initialised sets. `sigfillset` leaves out what
        // the C library needs for itself, such as cancellation.
        unsafe {
            let (mut all, mut mask, mut open) = (zeroed(), zeroed(), zeroed());
            libc::sigfillset(&raw mut all);
            libc::sigemptyset(&raw mut open);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut mask);
            for signal in 1..=libc::SIGRTMAX() {
                if libc::sigismember(&raw const all, signal) == 1
                    && libc::sigismember(&raw const mask, signal) == 0
                {
                    libc::sigaddset(&raw mut open, signal);
                }
            }
            Self { mask, open }
        }
    }

    /// Sleeps until `until`, or until a handler has run.
    ///
    /// # Errors
    /// `EINTR`.
    pub fn sleep(&self, until: Time, restarts: bool) -> Result<(), c_int> {
        let left = until.since(now()).as_nanos();
        let time = libc::timespec {
            tv_sec: (left / 1_000_000_000) as _,
            tv_nsec: (left % 1_000_000_000) as _,
        };
        // SAFETY: initialised sets and out parameters. A signal that was taken is sent again as it
        // was to this thread, which no longer blocks it.
        unsafe {
            let mut info: libc::siginfo_t = zeroed();
            let before = errno();
            let signal = libc::sigtimedwait(&raw const self.open, &raw mut info, &raw const time);
            // A write that succeeds in the end leaves errno as it was.
            set_errno(before);
            if signal <= 0 {
                return Ok(());
            }
            let mut pending: libc::sigset_t = zeroed();
            libc::sigpending(&raw mut pending);
            let ends = (1..=libc::SIGRTMAX())
                .filter(|s| {
                    *s == signal
                        || libc::sigismember(&raw const pending, *s) == 1
                            && libc::sigismember(&raw const self.open, *s) == 1
                })
                .any(|s| ends_a_wait(s, restarts));
            let (us, thread) = (libc::getpid(), libc::gettid());
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                us,
                thread,
                signal,
                &raw mut info,
            );
            // Here the handlers run.
            let mut all: libc::sigset_t = zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, &raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
            if ends { Err(libc::EINTR) } else { Ok(()) }
        }
    }
}

impl Drop for SignalWait {
    fn drop(&mut self) {
        let before = errno();
        // SAFETY: the mask that was.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask,
                std::ptr::null_mut(),
            );
        }
        set_errno(before);
    }
}

/// Does the program handle the signal, so that a wait ends?
fn ends_a_wait(signal: c_int, restarts: bool) -> bool {
    // SAFETY: zero is a valid sigaction, and only read into.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
            && !(restarts && action.sa_flags & libc::SA_RESTART != 0)
    }
}

/// True in a signal handler on a stack of its own, which may be small and without a guard.
pub fn on_alternate_stack() -> bool {
    // SAFETY: asks only; `now` is a valid out pointer.
    unsafe {
        let mut now: libc::stack_t = zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut now) == 0
            && now.ss_flags & libc::SS_ONSTACK != 0
    }
}
