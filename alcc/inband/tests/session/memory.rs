// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of a session.
use super::*;

#[test]
fn an_idle_session_is_small() {
    let before = ALLOCATED.load(std::sync::atomic::Ordering::Relaxed);
    let idle: Vec<_> = (0..5000).map(|_| pair("verus")).collect();
    let each = (ALLOCATED.load(std::sync::atomic::Ordering::Relaxed) - before) / 10_000;
    println!("{each} bytes for each of 10,000 idle sessions");
    assert!(each < 10_000, "{each}");
    drop(idle);
}

struct Counting;

static ALLOCATED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

// SAFETY: the system's allocator with a count.
unsafe impl std::alloc::GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), std::sync::atomic::Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: std::alloc::Layout) {
        ALLOCATED.fetch_sub(layout.size(), std::sync::atomic::Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { std::alloc::System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;
