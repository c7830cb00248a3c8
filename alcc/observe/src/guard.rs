// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared memory of other users must not end a command that looks at it.
//!
//! The owner of a mapped file can cut it off, and the next access is a SIGBUS. There is no other way
//! to look safely: what was checked may change before it is used, and reading a copy of 35 MB for
//! each look would take too long. So the handler puts empty memory in the place of the whole
//! mapping, and the access is repeated.
use std::io;
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Mappings at a time.
const COUNT: usize = 1024;

/// Where protected mappings begin; zero: a free place.
static BASES: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
/// Their length, which is the same for all.
static LEN: AtomicUsize = AtomicUsize::new(0);

/// What was done at a SIGBUS before.
static mut BEFORE: MaybeUninit<libc::sigaction> = MaybeUninit::uninit();

/// Protects a mapping until [`forget`].
///
/// # Errors
/// If there are too many.
pub(crate) fn protect(base: usize, len: usize) -> io::Result<()> {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(install);
    LEN.store(len, Ordering::Relaxed);
    let order = Ordering::SeqCst;
    let free = |place: &AtomicUsize| place.compare_exchange(0, base, order, order).is_ok();
    if BASES.iter().any(free) {
        return Ok(());
    }
    Err(io::Error::other("too many runs at a time"))
}

/// Before it is unmapped; of one that was never protected, nothing.
pub(crate) fn forget(base: usize) {
    let order = Ordering::SeqCst;
    (BASES.iter()).any(|place| place.compare_exchange(base, 0, order, order).is_ok());
}

fn install() {
    // SAFETY: plain data, for which zeros are valid; the handler does what one may do; `BEFORE` is
    // written once, before the handler can run.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(
            libc::SIGBUS,
            std::ptr::null(),
            (&raw mut BEFORE).cast::<libc::sigaction>(),
        );
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel's, for a handler with SA_SIGINFO.
    let at = unsafe { (*info).si_addr() }.addr();
    let len = LEN.load(Ordering::Relaxed);
    for place in &BASES {
        let base = place.load(Ordering::SeqCst);
        if base != 0 && (base..base + len).contains(&at) {
            // SAFETY: the whole of a mapping of ours, which stays one.
            unsafe {
                libc::mmap(
                    base as *mut libc::c_void,
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                    -1,
                    0,
                );
            }
            return;
        }
    }
    // Not ours: what was there before (the standard library's, for stacks) sees it next.
    // SAFETY: as `install` has found it.
    unsafe {
        libc::sigaction(
            libc::SIGBUS,
            (&raw const BEFORE).cast::<libc::sigaction>(),
            std::ptr::null_mut(),
        );
    }
}
