// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reentrancy guard. A signal handler may interrupt the runtime and write, and must not touch its
//! inconsistent state.
use std::cell::Cell;

thread_local! {
    /// Constant and without a destructor, so that reading it allocates nothing and works until the
    /// thread's end.
    static IN_RUNTIME: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as inside the runtime while it is held.
pub struct ReentrancyGuard(());

impl ReentrancyGuard {
    /// Enters the runtime. `None` if the thread is already inside: it is in a signal handler, or
    /// the runtime itself uses a function that it replaces.
    pub fn enter() -> Option<Self> {
        // Made only if it was entered, because dropping the guard leaves the runtime.
        (!IN_RUNTIME.replace(true)).then(|| Self(()))
    }

    /// Enters without a guard, for an allocator that must not be interrupted. Pass the result to
    /// [`ReentrancyGuard::restore`].
    pub fn set() -> bool {
        IN_RUNTIME.replace(true)
    }

    /// Ends the section that [`ReentrancyGuard::set`] began.
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
