// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protection of a command that reads shared memory of other users against SIGBUS.
//!
//! The owner of a mapped file can truncate it, and the next access raises SIGBUS. A check before the access would not
//! help, because the file may change after it, and copying 35 MB for each reading would take too long. So the handler
//! replaces the whole mapping by empty memory, and the access is repeated.
use std::io;
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of mappings.
const COUNT: usize = 1024;

/// Addresses of protected mappings; zero: a free place.
static BASES: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
/// Length of the mappings, the same for all.
static LEN: AtomicUsize = AtomicUsize::new(0);

/// The earlier handler of SIGBUS.
static mut BEFORE: MaybeUninit<libc::sigaction> = MaybeUninit::uninit();

/// Protects a mapping until [`forget`].
///
/// # Errors
/// There are too many mappings.
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

/// Ends the protection of a mapping, before it is unmapped. It does nothing for an unprotected one.
pub(crate) fn forget(base: usize) {
    let order = Ordering::SeqCst;
    (BASES.iter()).any(|place| place.compare_exchange(base, 0, order, order).is_ok());
}

fn install() {
    // SAFETY: plain data, for which zeros are valid; the handler makes only calls that are allowed in one; `BEFORE` is
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
    // SAFETY: from the kernel, for a handler with SA_SIGINFO.
    let at = unsafe { (*info).si_addr() }.addr();
    let len = LEN.load(Ordering::Relaxed);
    for place in &BASES {
        let base = place.load(Ordering::SeqCst);
        if base != 0 && (base..base + len).contains(&at) {
            // SAFETY: replaces the whole of one of our mappings by another.
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
    // Not ours: the earlier handler (the standard library's, for stacks) gets it. SAFETY: called as `install` has found
    // it.
    unsafe {
        libc::sigaction(
            libc::SIGBUS,
            (&raw const BEFORE).cast::<libc::sigaction>(),
            std::ptr::null_mut(),
        );
    }
}
