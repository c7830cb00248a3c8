// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data for the kernel, and its division into batches.
use super::Inner;
use crate::kernel;
use alcc_units::{Bytes, Time};
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Largest batch, bytes: the size of the kernel's super-packets.
const MAX_BATCH: u64 = 64 * 1024;
/// With time stamps, the minimum number of batches per window, and about the number of
/// notifications.
const BATCHES_PER_WINDOW: u64 = 8;
/// Maximum number of bytes between two time stamps, however large the window is.
const MAX_STAMP_DISTANCE: u64 = 256 * 1024;

impl Inner {
    /// Writes the data that the algorithm allows: the queue, and then `direct`. Returns the number
    /// of bytes taken from `direct`. `more` will follow, so less than a segment may wait for it.
    pub(super) fn pump(&mut self, now: Time, direct: &[u8], more: bool) -> usize {
        let Some(fd) = self.raw() else { return 0 };
        // Without a reading now, this write would count as part of the transfer before it, or its
        // start would be unknown.
        if self.queue.len() == 0
            && self.control.is_watched_closely(now)
            && kernel::queued(fd) == Bytes::ZERO
        {
            self.control.read(fd, now, false, None);
        }
        let wanted = self.queue.len() + direct.len();
        let mut room = self.room(now, fd, wanted);
        let mut taken = 0;
        self.kernel_full = false;
        while room > 0 {
            let (len, whole) = self.batch(room);
            if more && !whole {
                break;
            }
            let stamped = whole && self.wants_stamp(len);
            let [a, b, c] = self.queue.front(len);
            let queued = a.len() + b.len() + c.len();
            let own = &direct[taken..][..(len - queued).min(direct.len() - taken)];
            let n = match kernel::send(fd, [a, b, c, own], stamped) {
                Ok(n) => n,
                Err(why @ (libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM)) => {
                    self.kernel_full = why == libc::EAGAIN;
                    break;
                }
                Err(why) => {
                    self.fail(why);
                    break;
                }
            };
            // First the step that must not be repeated, whatever the algorithm does with the event.
            self.queue.consume(n.min(queued));
            taken += n.saturating_sub(queued);
            self.tail = (self.tail + n as u64) % self.mss();
            self.unstamped = if stamped {
                0
            } else {
                self.unstamped + n as u64
            };
            if !self.is_plain() {
                let news = catch_unwind(AssertUnwindSafe(|| {
                    self.control.flow.wrote(now, Bytes::new(n as u64));
                }));
                if news.is_err() {
                    self.failed();
                    break;
                }
            }
            if n < len {
                self.kernel_full = true;
                break;
            }
            room -= n;
        }
        self.control.has_more = self.queue.len() > 0 || taken < direct.len();
        taken
    }

    /// True if an eighth of the window has been written since the last requested time stamp.
    pub(super) fn wants_stamp(&self, len: usize) -> bool {
        let window = self.control.flow.allowance().window.get() / BATCHES_PER_WINDOW;
        self.control.is_stamped() && self.unstamped + len as u64 >= window.min(MAX_STAMP_DISTANCE)
    }

    pub(super) fn room(&mut self, now: Time, fd: RawFd, wanted: usize) -> usize {
        if self.is_plain() {
            return wanted;
        }
        let all = Bytes::new(wanted as u64);
        // A call to learn about acknowledgements since the last reading is made only if it can
        // matter.
        let at_most = self.control.flow.in_flight();
        let paced = self.control.flow.is_paced();
        if !paced
            && at_most > Bytes::ZERO
            && self.control.flow.allows(all, at_most, Bytes::ZERO) >= all
        {
            return wanted;
        }
        // A partial segment is filled up, if it still waits; a paced connection does not write far
        // ahead.
        let unsent = if self.tail > 0 || paced {
            kernel::unsent(fd)
        } else {
            Bytes::ZERO
        };
        if unsent == Bytes::ZERO {
            self.tail = 0;
        }
        let in_flight = if at_most > Bytes::ZERO {
            kernel::queued(fd)
        } else {
            at_most
        };
        let room = self.control.flow.room(now, all, in_flight, unsent);
        usize::try_from(room.get()).unwrap_or(usize::MAX)
    }

    /// The part of `room` for the next call, and whether it ends with a whole segment.
    pub(super) fn batch(&self, room: usize) -> (usize, bool) {
        let mss = self.mss();
        let segments = if self.is_plain() || !self.control.is_stamped() {
            u64::MAX
        } else {
            self.control.flow.allowance().window.get() / mss / BATCHES_PER_WINDOW
        };
        let largest = (MAX_BATCH / mss).max(1);
        let len = (segments.clamp(1, largest) * mss - self.tail).min(room as u64);
        let over = (self.tail + len) % mss;
        // The end of the data is written alone, without the mark of a whole batch, so that more may
        // join it.
        let (len, whole) = if over == 0 {
            (len, true)
        } else if len > over {
            (len - over, true)
        } else {
            (len, false)
        };
        (len as usize, whole)
    }
}
