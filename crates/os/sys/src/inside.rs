// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A signal handler of the program may interrupt the runtime and write. What it finds half done it must not touch.
use std::cell::Cell;

thread_local! {
    /// Constant and without a destructor: reading it allocates nothing and works until the thread's end.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread is inside the runtime.
pub struct Inside(());

impl Inside {
    /// `None` if the thread is inside already, which can only be a signal handler, or the runtime's own use of a function
    /// that it replaces.
    pub fn enter() -> Option<Self> {
        // Made only if it is to live: its end is the end of being inside.
        (!INSIDE.replace(true)).then(|| Self(()))
    }

    /// For an allocator that must not be interrupted: inside until the returned value is given to [`Inside::restore`].
    pub fn mark() -> bool {
        INSIDE.replace(true)
    }

    /// Ends what [`Inside::mark`] began.
    pub fn restore(before: bool) {
        INSIDE.set(before);
    }

    /// True inside.
    pub fn here() -> bool {
        INSIDE.get()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}
