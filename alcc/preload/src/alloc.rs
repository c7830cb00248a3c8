// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library's own heap. A signal handler of the program may interrupt its malloc and write to a
//! socket; the hook needs memory then, and the C library's malloc would deadlock. Also, in a child
//! made by a raw clone the C library's locks may still be held by threads that do not exist there.
use alcc_socket::ReentrancyGuard;
use dlmalloc::Dlmalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

thread_local! {
    /// True if this thread is in the middle of the heap. Constant, so that reading it allocates
    /// nothing.
    static IN_HEAP: Cell<bool> = const { Cell::new(false) };
}

/// Memory freed by a handler in the middle of the heap. The record is in that memory itself, until
/// the heap is free.
struct Orphan {
    next: *mut Self,
    layout: Layout,
}

/// Extends every piece so that it has room for an [`Orphan`]; dlmalloc's smallest piece has it
/// anyway.
fn roomy(layout: Layout) -> Layout {
    let (size, align) = (size_of::<Orphan>(), align_of::<Orphan>());
    Layout::from_size_align(layout.size().max(size), layout.align().max(align)).unwrap_or(layout)
}

/// A reserve for handlers that have interrupted our allocator. Untouched pages cost nothing.
struct Spare {
    bytes: UnsafeCell<[u8; Self::SIZE]>,
    /// Number of pieces in use (upper half), and bytes handed out since there was none.
    given: AtomicU64,
}

static SPARE: Spare = Spare::new();

// SAFETY: no two pieces overlap.
unsafe impl Sync for Spare {}

impl Spare {
    const SIZE: usize = 1 << 20;

    const fn new() -> Self {
        Self {
            bytes: UnsafeCell::new([0; Self::SIZE]),
            given: AtomicU64::new(0),
        }
    }

    /// Allocates from the reserve; null when it is exhausted.
    fn give(&self, layout: Layout) -> *mut u8 {
        let base = self.bytes.get().cast::<u8>();
        let mut start = 0;
        let given = (self.given).fetch_update(Ordering::AcqRel, Ordering::Acquire, |given| {
            let (live, used) = (given >> 32, given & u64::from(u32::MAX));
            let free = if live == 0 { 0 } else { used as usize };
            start = free + base.wrapping_add(free).align_offset(layout.align());
            let end = start
                .checked_add(layout.size())
                .filter(|end| *end <= Self::SIZE)?;
            Some((live + 1) << 32 | end as u64)
        });
        given.map_or(ptr::null_mut(), |_| base.wrapping_add(start))
    }

    fn take_back(&self) {
        self.given.fetch_sub(1 << 32, Ordering::AcqRel);
    }

    fn owns(&self, ptr: *const u8) -> bool {
        let base = self.bytes.get().addr();
        (base..base + Self::SIZE).contains(&ptr.addr())
    }

    #[cfg(test)]
    fn live(&self) -> u64 {
        self.given.load(Ordering::Acquire) >> 32
    }
}

/// The pauses between attempts to take something that another thread holds for a moment.
#[derive(Default)]
pub(crate) struct Pause {
    tries: u32,
}

impl Pause {
    /// Yields the processor, after some attempts by sleeping: a thread of a real-time class that
    /// only yields never lets an ordinary thread run that it has interrupted.
    pub(crate) fn wait(&mut self) {
        const YIELDS: u32 = 100;
        self.tries = self.tries.saturating_add(1);
        if self.tries <= YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// True if it has taken half a second or more.
    fn is_long(&self) -> bool {
        const MANY: u32 = 5_000;
        self.tries > MANY
    }
}

pub(crate) struct PreloadHeap {
    heap: UnsafeCell<Dlmalloc>,
    busy: AtomicBool,
    orphans: AtomicPtr<Orphan>,
}

#[global_allocator]
pub(crate) static PRELOAD_HEAP: PreloadHeap = PreloadHeap {
    heap: UnsafeCell::new(Dlmalloc::new()),
    busy: AtomicBool::new(false),
    orphans: AtomicPtr::new(ptr::null_mut()),
};

// SAFETY: the heap is only touched by `with`, one thread at a time.
unsafe impl Sync for PreloadHeap {}

impl PreloadHeap {
    /// Runs `f` on the heap. `None` if another thread is stopped in the middle of it, or in a
    /// signal handler that has interrupted this function: the heap is inconsistent then, and its
    /// holder continues only after the handler.
    fn with<T>(&self, f: impl FnOnce(&mut Dlmalloc) -> T) -> Option<T> {
        if IN_HEAP.replace(true) {
            return None;
        }
        // A handler that interrupts this section takes no connection under control, because it
        // finds the guard held.
        let before = ReentrancyGuard::set();
        let mut pause = Pause::default();
        while self.busy.swap(true, Ordering::Acquire) {
            pause.wait();
            if pause.is_long() {
                // The holder of the heap is stopped.
                ReentrancyGuard::restore(before);
                IN_HEAP.set(false);
                return None;
            }
        }
        // SAFETY: `busy` makes this the only reference.
        let heap = unsafe { &mut *self.heap.get() };
        let result = f(heap);
        self.bury(heap);
        self.busy.store(false, Ordering::Release);
        ReentrancyGuard::restore(before);
        IN_HEAP.set(false);
        Some(result)
    }

    fn bury(&self, heap: &mut Dlmalloc) {
        if self.orphans.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut orphan = self.orphans.swap(ptr::null_mut(), Ordering::Acquire);
        while !orphan.is_null() {
            // SAFETY: `orphan` wrote it there, and no other code has it since the swap.
            unsafe {
                let Orphan { next, layout } = orphan.read();
                heap.free(orphan.cast(), layout.size(), layout.align());
                orphan = next;
            }
        }
    }

    /// # Safety
    /// The contract of `dealloc`; `layout` is that of `roomy`.
    unsafe fn orphan(&self, ptr: *mut u8, layout: Layout) {
        let orphan = ptr.cast::<Orphan>();
        let mut next = self.orphans.load(Ordering::Relaxed);
        loop {
            // SAFETY: the piece is large enough, aligned, and has no user any more.
            unsafe { orphan.write(Orphan { next, layout }) };
            let (ok, no) = (Ordering::Release, Ordering::Relaxed);
            match self.orphans.compare_exchange_weak(next, orphan, ok, no) {
                Ok(_) => return,
                Err(other) => next = other,
            }
        }
    }

    /// Makes a new heap in a new process. Another thread of the parent may have been in the middle
    /// of the old heap, which is left unchanged.
    ///
    /// # Safety
    /// The caller is the only thread, and no memory of the old heap is freed from now on.
    pub(crate) unsafe fn reinitialise(&self) {
        // SAFETY: by contract there is no other thread. The old heap has no destructor.
        unsafe { self.heap.get().write(Dlmalloc::new()) };
        self.orphans.store(ptr::null_mut(), Ordering::Relaxed);
        // This process may have been made in a handler that had interrupted the old heap, and
        // continue there.
        IN_HEAP.set(false);
        self.busy.store(false, Ordering::Release);
    }
}

// SAFETY: dlmalloc and `SPARE` fulfil the contract of the trait.
unsafe impl GlobalAlloc for PreloadHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let layout = roomy(layout);
        // SAFETY: by the trait's contract.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
            .unwrap_or_else(|| SPARE.give(layout))
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if SPARE.owns(ptr) {
            SPARE.take_back();
            return;
        }
        let layout = roomy(layout);
        // SAFETY: by the trait's contract.
        let freed = self.with(|heap| unsafe { heap.free(ptr, layout.size(), layout.align()) });
        if freed.is_none() {
            // SAFETY: by the trait's contract.
            unsafe { self.orphan(ptr, layout) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let layout = roomy(layout);
        // SAFETY: by the trait's contract.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
            .unwrap_or_else(|| {
                let ptr = SPARE.give(layout);
                if !ptr.is_null() {
                    // SAFETY: `SPARE` allocated this many bytes, which may have been used before.
                    unsafe { ptr.write_bytes(0, layout.size()) };
                }
                ptr
            })
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let (old, new) = (roomy(layout), new_size.max(size_of::<Orphan>()));
        let in_place = || {
            // SAFETY: by the trait's contract.
            self.with(|heap| unsafe { heap.realloc(ptr, old.size(), old.align(), new) })
        };
        if let Some(moved) = (!SPARE.owns(ptr)).then(in_place).flatten() {
            return moved;
        }
        // SAFETY: by the trait's contract the new size is possible with this alignment.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(ptr, moved, layout.size().min(new_size));
                self.dealloc(ptr, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls that a handler may make while it interrupts the heap; every hook of the library
    /// makes some of them.
    #[test]
    fn a_handler_in_the_middle_of_the_heap_neither_waits_nor_harms() {
        let before: Vec<Box<u64>> = (0..100).map(Box::new).collect();
        let mut growing = vec![7_u8; 1000];
        let kept = PRELOAD_HEAP.with(|_| {
            // As from a signal handler: on the same thread, in the middle.
            drop(before);
            growing.extend([8; 3000]);
            let zeroed = vec![0_u64; 500];
            assert!(zeroed.iter().all(|word| *word == 0));
            (zeroed, Box::new(5_u8))
        });
        let (zeroed, five) = kept.expect("nobody else is in this thread's heap");
        assert!(SPARE.owns(growing.as_ptr()) && growing.len() == 4000);
        assert!(growing[..1000].iter().all(|b| *b == 7) && growing[1000..].iter().all(|b| *b == 8));
        let after: Vec<Box<u64>> = (0..100).map(Box::new).collect();
        assert!(PRELOAD_HEAP.orphans.load(Ordering::Relaxed).is_null());
        assert!(after.iter().zip(0..).all(|(kept, i)| **kept == i));
        // Moved back where it belongs, with its bytes.
        growing.extend([9; 5000]);
        assert!(!SPARE.owns(growing.as_ptr()) && growing[3999..4001] == [8, 9]);
        assert_eq!((*five, zeroed.len()), (5, 500));
        drop((growing, zeroed, five));
        assert_eq!(SPARE.live(), 0);
    }

    #[test]
    fn a_process_made_by_such_a_handler_has_a_heap_of_its_own() {
        static OWN: PreloadHeap = PreloadHeap {
            heap: UnsafeCell::new(Dlmalloc::new()),
            busy: AtomicBool::new(true),
            orphans: AtomicPtr::new(ptr::null_mut()),
        };
        IN_HEAP.set(true);
        // SAFETY: nobody else knows it.
        unsafe { OWN.reinitialise() };
        assert!(OWN.with(|_| ()).is_some());
    }

    /// If it only yielded, a thread of a real-time class would keep the holder from running.
    #[test]
    fn a_thread_that_waits_for_the_heap_yields_the_processor() {
        static OWN: PreloadHeap = PreloadHeap {
            heap: UnsafeCell::new(Dlmalloc::new()),
            busy: AtomicBool::new(true),
            orphans: AtomicPtr::new(ptr::null_mut()),
        };
        let cpu = || {
            let mut used = std::mem::MaybeUninit::<libc::timespec>::uninit();
            // SAFETY: a clock of this thread, and room for its time.
            let used = unsafe {
                libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, used.as_mut_ptr());
                used.assume_init()
            };
            Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
        };
        let waiter = std::thread::spawn(move || {
            OWN.with(|_| ()).unwrap();
            cpu()
        });
        std::thread::sleep(Duration::from_millis(500));
        OWN.busy.store(false, Ordering::Release);
        let used = waiter.join().unwrap();
        assert!(used < Duration::from_millis(150), "{used:?} of 500 ms");
    }

    #[test]
    fn what_is_spare_can_be_used_again_and_ends() {
        static OWN: Spare = Spare::new();
        let page = Layout::from_size_align(100_000, 4096).unwrap();
        for _ in 0..3 {
            let given: Vec<_> = (0..10).map(|_| OWN.give(page)).collect();
            let fits = |ptr: &*mut u8| OWN.owns(*ptr) && ptr.addr().is_multiple_of(4096);
            assert!(given.iter().all(fits) && OWN.live() == 10);
            assert!(OWN.give(page).is_null());
            given.iter().for_each(|_| OWN.take_back());
        }
    }
}
