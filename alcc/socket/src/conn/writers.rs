// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which threads of the program are writing to a connection.
use crate::kernel;
use alcc_units::{Span, Time};

/// A writer not seen for this long will not go on: a signal handler jumped out of its write.
const ABANDONED_AFTER: Span = Span::from_secs(2);

/// A number for the calling thread.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

/// A real call under way: where in which thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    thread: usize,
    /// An address on its stack.
    frame: usize,
}

impl Call {
    /// A call of this thread. `on_stack` lives in the write, where no other write of this thread
    /// is.
    pub(super) fn of<T>(on_stack: &T) -> Self {
        Self {
            thread: this_thread(),
            frame: std::ptr::from_ref(on_stack) as usize,
        }
    }
}

#[derive(Default)]
pub(super) struct Writers {
    /// Writes that the kernel may have taken and we have not entered yet.
    calls: Vec<Call>,
    /// The thread in the middle of a blocking write, and when it was seen last. What others write
    /// comes before or after it, not within.
    holder: Option<(usize, Time)>,
}

impl Writers {
    /// This thread is in the middle of a blocking write from now on.
    pub(super) fn hold(&mut self, now: Time) {
        self.holder = Some((this_thread(), now));
    }

    /// If this thread is, it still is.
    pub(super) fn see(&mut self, now: Time) {
        if let Some((thread, seen)) = &mut self.holder
            && *thread == this_thread()
        {
            *seen = now;
        }
    }

    /// Another thread is in the middle of its write.
    pub(super) fn is_within_another(&self, now: Time) -> bool {
        let other = self.holder.filter(|(thread, _)| *thread != this_thread());
        other.is_some_and(|(_, seen)| now.since(seen) < ABANDONED_AFTER)
    }

    /// A real call begins. One of the same thread that began deeper in its stack, or here, has been
    /// left by a jump out of a signal handler; on a stack of its own a handler cannot tell.
    pub(super) fn enter(&mut self, call: Call) {
        let left = |c: &Call| c.thread == call.thread && c.frame <= call.frame;
        if self.calls.iter().any(left) && !kernel::on_alternate_stack() {
            self.calls.retain(|c| !left(c));
        }
        // There is hardly ever a second one.
        self.calls.reserve_exact(1);
        self.calls.push(call);
    }

    /// It is over.
    pub(super) fn leave(&mut self, call: Call) {
        self.calls.retain(|c| *c != call);
    }

    /// This thread's whole write is over.
    pub(super) fn end(&mut self, call: Call) {
        self.leave(call);
        self.holder = self.holder.filter(|(thread, _)| *thread != this_thread());
    }

    /// A real call is under way.
    pub(super) fn are_in_calls(&self) -> bool {
        !self.calls.is_empty()
    }
}
