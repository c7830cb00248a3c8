// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams on sockets; the work is done in `stdio.c`.
use crate::process;
use crate::real::real;
use alcc_socket::{Socket, look};
use core::arch::naked_asm;
use libc::{FILE, c_char, c_int, c_void};

unsafe extern "C-unwind" {
    fn alcc_stream(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn alcc_standard_stream(fd: c_int);
    fn alcc_vdprintf(fd: c_int, format: *const c_char, args: *mut c_void) -> c_int;
    fn alcc_dprintf(fd: c_int, format: *const c_char, ...) -> c_int;
    fn alcc_dprintf_chk(fd: c_int, flag: c_int, format: *const c_char, ...) -> c_int;
}

fn is_socket(fd: c_int) -> bool {
    process::current().is_some() && super::aside(|| !matches!(look(fd, None), Socket::Other))
}

/// If descriptor 1 or 2 is a TCP socket now, what is printed must pass by us.
pub(crate) fn standard(fd: c_int) {
    if matches!(fd, libc::STDOUT_FILENO | libc::STDERR_FILENO) && is_socket(fd) {
        // SAFETY: no pointers.
        unsafe { alcc_standard_stream(fd) }
    }
}

/// fdopen(3)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if is_socket(fd) {
        // SAFETY: the caller's arguments, unchanged.
        unsafe { alcc_stream(fd, mode) }
    } else {
        // SAFETY: the caller's arguments, unchanged.
        unsafe { (real().fdopen)(fd, mode) }
    }
}

/// vdprintf(3)
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    args: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    unsafe { alcc_vdprintf(fd, format, args) }
}

/// dprintf(3): Rust has no variable arguments, but it can pass them on by a jump.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dprintf() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("jmp {to}", to = sym alcc_dprintf);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("b {to}", to = sym alcc_dprintf);
}

/// dprintf as fortified programs call it.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __dprintf_chk() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("jmp {to}", to = sym alcc_dprintf_chk);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("b {to}", to = sym alcc_dprintf_chk);
}
