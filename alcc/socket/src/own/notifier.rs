// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notices to a program that a stream takes bytes again, is broken, or is closed.
use crate::kernel;
use alcc_units::Time;
use libc::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::task::Waker;

/// The value that makes an eventfd not writable, one below its maximum.
const BLOCKED: u64 = u64::MAX - 1;

#[derive(Default)]
pub(crate) struct WritableNotifier {
    /// Changes with every notice; sleepers wait for a change.
    generation: AtomicU32,
    waiters: AtomicU32,
    /// Writable (`POLLOUT`) while the stream takes bytes.
    fd: OnceLock<OwnedFd>,
    /// True if the descriptor is in the state "not writable".
    fd_blocked: AtomicBool,
    callback: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The task that waits for a notice.
    task: Mutex<Option<Waker>>,
    /// True if a notice was given, and the task is not woken yet.
    task_due: AtomicBool,
}

impl WritableNotifier {
    /// The current generation. Read it before checking for room; see [`WritableNotifier::wait`].
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Sleeps until a wake-up later than the reading of `generation`.
    ///
    /// # Errors
    /// `EINTR` when a signal handler ran, unless it was installed with SA_RESTART and there is no
    /// time limit, as in send(2); `EAGAIN` when the time is up.
    pub(crate) fn wait(&self, generation: u32, until: Option<Time>) -> Result<(), c_int> {
        let remaining = until.map(|until| until.since(kernel::now()).as_nanos());
        if remaining == Some(0) {
            return Err(libc::EAGAIN);
        }
        let remaining = remaining.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        let limit = remaining
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the word outlives the call, the time limit too. A futex is used because std's
        // waits hide signals.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.generation.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                generation,
                limit,
            )
        };
        let why = kernel::errno();
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        match why {
            libc::EINTR if rc < 0 => Err(libc::EINTR),
            libc::ETIMEDOUT if rc < 0 => Err(libc::EAGAIN),
            _ => Ok(()),
        }
    }

    /// Wakes sleepers only.
    pub(crate) fn wake(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            // SAFETY: wakes the threads that wait on the word.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.generation.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    c_int::MAX,
                );
            }
        }
    }

    /// Notifies that there is room, or an error that the next call returns. Call
    /// [`WritableNotifier::wake_task`] as soon as the stream is unlocked.
    pub(crate) fn set_writable(&self) {
        self.wake();
        self.task_due.store(true, Ordering::SeqCst);
        if let Some(fd) = self.fd.get()
            && self.fd_blocked.swap(false, Ordering::SeqCst)
        {
            let mut held = 0u64;
            // SAFETY: eight bytes, as an eventfd requires. Reading it makes it writable, which is
            // an edge for epoll.
            unsafe { libc::read(fd.as_raw_fd(), (&raw mut held).cast(), 8) };
        }
        if let Some(callback) = self.callback.get() {
            callback();
        }
    }

    /// Notes that a write was refused or cut short.
    pub(crate) fn set_blocked(&self) {
        if let Some(fd) = self.fd.get()
            && !self.fd_blocked.swap(true, Ordering::SeqCst)
        {
            let shut = BLOCKED;
            // SAFETY: eight bytes, as an eventfd requires.
            unsafe { libc::write(fd.as_raw_fd(), (&raw const shut).cast(), 8) };
        }
    }

    /// The descriptor that is writable while the stream takes bytes. `shut`: its initial state.
    pub(crate) fn descriptor(&self, shut: bool) -> io::Result<RawFd> {
        if let Some(fd) = self.fd.get() {
            return Ok(fd.as_raw_fd());
        }
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just made, with no other owner.
        let kept = self.fd.get_or_init(|| unsafe { OwnedFd::from_raw_fd(fd) });
        let kept = kept.as_raw_fd();
        if shut {
            self.set_blocked();
        }
        Ok(kept)
    }

    /// Sets the task to be woken by the next notice. Check for room after this, not only before.
    pub(crate) fn set_task(&self, task: &Waker) {
        let waiting = &mut *alcc_sys::lock(&self.task);
        match waiting {
            Some(before) => before.clone_from(task),
            None => *waiting = Some(task.clone()),
        }
    }

    /// Wakes the task that waits for a notice, if there was one. Never with the stream locked: an
    /// executor may drop the task meanwhile, and with it the stream.
    pub(crate) fn wake_task(&self) {
        if self.task_due.swap(false, Ordering::SeqCst) {
            let task = alcc_sys::lock(&self.task).take();
            if let Some(task) = task {
                task.wake();
            }
        }
    }

    /// Sets the function to be called at every notice; only the first one is kept.
    pub(crate) fn call(&self, callback: Box<dyn Fn() + Send + Sync>) -> bool {
        self.callback.set(callback).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_units::Span;

    fn writable(fd: RawFd) -> bool {
        let mut p = libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one pollfd.
        unsafe { libc::poll(&raw mut p, 1, 0) == 1 && p.revents == libc::POLLOUT }
    }

    #[test]
    fn the_descriptor_is_writable_while_the_stream_is() {
        let notifier = WritableNotifier::default();
        let fd = notifier.descriptor(false).unwrap();
        assert!(writable(fd));
        notifier.set_blocked();
        notifier.set_blocked();
        assert!(!writable(fd));
        notifier.set_writable();
        assert!(writable(fd));
        assert_eq!(notifier.descriptor(true).unwrap(), fd);
    }

    #[test]
    fn a_notice_between_looking_and_sleeping_is_not_lost_and_time_runs_out() {
        let notifier = WritableNotifier::default();
        let generation = notifier.generation();
        notifier.set_writable();
        assert_eq!(notifier.wait(generation, None), Ok(()));
        let soon = kernel::now() + Span::from_millis(5);
        assert_eq!(
            notifier.wait(notifier.generation(), Some(soon)),
            Err(libc::EAGAIN)
        );
    }
}
