// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of our own. A signal handler of the program may interrupt its malloc and write to a socket, where we need memory:
//! the C library's would deadlock. And a child made by a raw clone finds the C library's locks as some other thread held
//! them.
use alcc_socket::Inside;
use dlmalloc::Dlmalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Ours {
    heap: UnsafeCell<Dlmalloc>,
    busy: AtomicBool,
}

#[global_allocator]
pub(crate) static OURS: Ours = Ours {
    heap: UnsafeCell::new(Dlmalloc::new()),
    busy: AtomicBool::new(false),
};

// SAFETY: the heap is only touched by `with`, one thread at a time.
unsafe impl Sync for Ours {}

impl Ours {
    fn with<T>(&self, f: impl FnOnce(&mut Dlmalloc) -> T) -> T {
        // A handler that interrupts us here must not come back in: it sees that it is inside, and passes by.
        let before = Inside::mark();
        while self.busy.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: `busy` makes this the only reference.
        let result = f(unsafe { &mut *self.heap.get() });
        self.busy.store(false, Ordering::Release);
        Inside::restore(before);
        result
    }

    /// In a new process: a new heap. Another thread of the parent may have been in the middle of the old one, which is left
    /// as it is.
    ///
    /// # Safety
    /// The caller is the only thread, and nothing of the old heap is freed from now on.
    pub(crate) unsafe fn renew(&self) {
        // SAFETY: by contract nobody else is here. The old heap has no destructor.
        unsafe { self.heap.get().write(Dlmalloc::new()) };
        self.busy.store(false, Ordering::Release);
    }
}

// SAFETY: dlmalloc does what the trait asks for.
unsafe impl GlobalAlloc for Ours {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the trait's contract.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: by the trait's contract.
        self.with(|heap| unsafe { heap.free(ptr, layout.size(), layout.align()) });
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the trait's contract.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: by the trait's contract.
        self.with(|heap| unsafe { heap.realloc(ptr, layout.size(), layout.align(), new_size) })
    }
}
