// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reentrancy guard. A signal handler may interrupt the runtime and write. What it finds half
//! done it must not touch.
use std::cell::Cell;

thread_local! {
    /// Constant and without a destructor: reading it allocates nothing and works until the thread's
    /// end.
    static IN_RUNTIME: Cell<bool> = const { Cell::new(false) };
}

/// While it is held, this thread is inside the runtime.
pub struct ReentrancyGuard(());

impl ReentrancyGuard {
    /// `None` if the thread is inside already. Then it is in a signal handler, or the runtime
    /// itself uses a function that it replaces.
    pub fn enter() -> Option<Self> {
        // Made only if it is to live: its end is the end of being inside.
        (!IN_RUNTIME.replace(true)).then(|| Self(()))
    }

    /// For an allocator that must not be interrupted: inside until the returned value is given to
    /// [`ReentrancyGuard::restore`].
    pub fn set() -> bool {
        IN_RUNTIME.replace(true)
    }

    /// Ends what [`ReentrancyGuard::set`] began.
    pub fn restore(before: bool) {
        IN_RUNTIME.set(before);
    }

    /// True while this thread holds a guard.
    pub fn is_held() -> bool {
        IN_RUNTIME.get()
    }
}

impl Drop for ReentrancyGuard {
    fn drop(&mut self) {
        IN_RUNTIME.set(false);
    }
}
