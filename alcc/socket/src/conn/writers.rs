// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads of the program that are writing to a connection.
use crate::kernel;
use alcc_units::{Span, Time};

/// Time after which an unseen writer counts as gone, because a signal handler jumped out of its
/// write.
const ABANDONED_AFTER: Span = Span::from_secs(2);

/// A number for the calling thread.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

/// A real call in progress, identified by thread and stack position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    thread: usize,
    /// An address on its stack.
    frame: usize,
}

impl Call {
    /// A call of this thread. `on_stack` is in the frame of the write, which no other write of this
    /// thread shares.
    pub(super) fn of<T>(on_stack: &T) -> Self {
        Self {
            thread: this_thread(),
            frame: std::ptr::from_ref(on_stack) as usize,
        }
    }
}

#[derive(Default)]
pub(super) struct Writers {
    /// Writes that the kernel may have taken and that are not recorded yet.
    calls: Vec<Call>,
    /// The thread in the middle of a blocking write, with the time at which it was last seen.
    /// Writes of other threads go before or after it, not within.
    holder: Option<(usize, Time)>,
}

impl Writers {
    /// Marks this thread as in the middle of a blocking write.
    pub(super) fn hold(&mut self, now: Time) {
        self.holder = Some((this_thread(), now));
    }

    /// Refreshes the mark of this thread, if it has one.
    pub(super) fn see(&mut self, now: Time) {
        if let Some((thread, seen)) = &mut self.holder
            && *thread == this_thread()
        {
            *seen = now;
        }
    }

    /// True if another thread is in the middle of its write.
    pub(super) fn is_within_another(&self, now: Time) -> bool {
        let other = self.holder.filter(|(thread, _)| *thread != this_thread());
        other.is_some_and(|(_, seen)| now.since(seen) < ABANDONED_AFTER)
    }

    /// A real call begins. A call of the same thread that began deeper in its stack, or at the same
    /// place, was left by a jump out of a signal handler. A handler on a stack of its own cannot be
    /// distinguished.
    pub(super) fn enter(&mut self, call: Call) {
        let abandoned = |c: &Call| c.thread == call.thread && c.frame <= call.frame;
        if self.calls.iter().any(abandoned) && !kernel::on_alternate_stack() {
            self.calls.retain(|c| !abandoned(c));
        }
        // A second call is rare.
        self.calls.reserve_exact(1);
        self.calls.push(call);
    }

    /// The call has ended.
    pub(super) fn leave(&mut self, call: Call) {
        self.calls.retain(|c| *c != call);
    }

    /// The whole write of this thread has ended.
    pub(super) fn end(&mut self, call: Call) {
        self.leave(call);
        self.holder = self.holder.filter(|(thread, _)| *thread != this_thread());
    }

    /// True while a real call is in progress.
    pub(super) fn are_in_calls(&self) -> bool {
        !self.calls.is_empty()
    }
}
