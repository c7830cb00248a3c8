// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals, which belong to the program.
use crate::clock::now;
use crate::error::{errno, set_errno};
use alcc_units::Time;
use libc::c_int;
use std::mem::zeroed;

/// A wait in a thread of the program, with the semantics of a blocking write. A signal handler ends
/// it with EINTR, unless the wait may be restarted and the handler was installed with SA_RESTART.
/// Signals are blocked between two sleeps, because one that came then would not end the wait.
pub struct SignalWait {
    mask: libc::sigset_t,
    open: libc::sigset_t,
}

impl SignalWait {
    /// Blocks signals until the value is dropped.
    #[expect(clippy::new_without_default, reason = "making one blocks signals")]
    pub fn new() -> Self {
        // SAFETY: plain signal-set calls on local, initialised sets. `sigfillset` omits the signals
        // that the C library needs itself, such as the one for cancellation.
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
    /// `EINTR` after a handler that ends the wait.
    pub fn sleep(&self, until: Time, restarts: bool) -> Result<(), c_int> {
        let remaining = until.since(now()).as_nanos();
        let time = libc::timespec {
            tv_sec: (remaining / 1_000_000_000) as _,
            tv_nsec: (remaining % 1_000_000_000) as _,
        };
        // SAFETY: initialised sets and out parameters. A signal that was taken is sent again
        // unchanged to this thread, which no longer blocks it.
        unsafe {
            let mut info: libc::siginfo_t = zeroed();
            let before = errno();
            let signal = libc::sigtimedwait(&raw const self.open, &raw mut info, &raw const time);
            // A successful write leaves errno unchanged.
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
            // The handlers run here.
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
        // SAFETY: restores the earlier mask.
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

/// True if the program handles the signal in such a way that a wait ends.
fn ends_a_wait(signal: c_int, restarts: bool) -> bool {
    // SAFETY: zero is a valid sigaction, and only written to by the call.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
            && !(restarts && action.sa_flags & libc::SA_RESTART != 0)
    }
}

/// True in a signal handler on an alternate stack, which may be small and without a guard page.
pub fn on_alternate_stack() -> bool {
    // SAFETY: only reads the state; `now` is a valid out pointer.
    unsafe {
        let mut now: libc::stack_t = zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut now) == 0
            && now.ss_flags & libc::SS_ONSTACK != 0
    }
}
