// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a stream: by the program, by an error, or because its descriptor is gone.
use super::{CloseState, Inner};
use crate::controlled::Mode;
use crate::kernel;
use alcc_units::Time;
use libc::c_int;
use std::os::fd::{IntoRawFd, RawFd};

impl Inner {
    pub(super) fn fail(&mut self, why: c_int) {
        self.error = self.error.or(Some(why));
        self.drop_queue(why);
    }

    pub(super) fn drop_queue(&mut self, why: c_int) {
        if self.queue.len() > 0 {
            self.queue_error = self.queue_error.or(Some(why));
            self.queue.clear();
        }
        self.control.flow.unblock();
    }

    /// No more data will follow: sends data that waited for it, as far as allowed.
    pub(super) fn flush(&mut self) {
        let now = kernel::now();
        if self.queue.len() > 0 && !self.is_blocked() {
            self.guarded(|inner| inner.pump(now, &[], false));
        }
        self.end(now);
    }

    /// Completes an end that was requested, once possible.
    pub(super) fn end(&mut self, now: Time) {
        let drained = self.queue.len() == 0;
        match self.closing {
            CloseState::Write if drained => {
                if let Some(fd) = self.raw() {
                    kernel::shutdown_write(fd);
                }
                self.closing = CloseState::Written;
            }
            CloseState::Close(_) if drained => {
                if let Some(fd) = self.raw() {
                    self.control.leave(fd, now);
                }
                self.fd = None;
            }
            CloseState::Close(until) if until <= now => {
                self.drop_queue(libc::ETIMEDOUT);
                self.abort();
            }
            _ => {}
        }
    }

    pub(in crate::own) fn abort(&mut self) {
        if let Some(fd) = self.raw() {
            kernel::reset_on_close(fd);
        }
        self.drop_queue(libc::ECONNABORTED);
        self.fd = None;
    }

    pub(in crate::own) fn restore(&mut self) -> Option<RawFd> {
        if self.queue.len() > 0 {
            return None;
        }
        self.control.release(self.raw(), Mode::Released);
        self.fd.take().map(IntoRawFd::into_raw_fd)
    }

    pub(in crate::own) fn forget(&mut self) {
        self.drop_queue(libc::EBADF);
        self.error = Some(libc::EBADF);
        if let Some(fd) = self.fd.take() {
            let _ = fd.into_raw_fd();
        }
    }

    /// True, and the descriptor is forgotten, if it is no longer the socket.
    pub(super) fn is_gone(&mut self) -> bool {
        let gone = (self.raw()).is_some_and(|fd| !kernel::is_same_socket(fd, self.cookie));
        if gone {
            self.forget();
        }
        gone
    }
}
