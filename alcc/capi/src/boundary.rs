// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversions between C and this library: results and errno, pointers, buffers, structures.
use crate::message;
use alcc_socket::set_errno;
use libc::{c_char, c_int, c_void, size_t};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f` and sets errno on failure. A panic does not cross the boundary.
pub(crate) fn boundary<T: From<i8>>(f: impl FnOnce() -> Result<T, c_int>) -> T {
    let why = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => return value,
        Ok(Err(why)) => why,
        Err(_) => libc::EIO,
    };
    set_errno(why);
    T::from(-1)
}

/// Frees a pointer from [`pointer`]. NULL is allowed.
///
/// # Safety
/// The pointer is from there, and no longer used.
pub(crate) unsafe fn free<T>(given: *mut T) {
    boundary(|| {
        if !given.is_null() {
            // SAFETY: by contract.
            drop(unsafe { Box::from_raw(given) });
        }
        Ok(0i32)
    });
}

/// Returns a pointer, or NULL and errno.
pub(crate) fn pointer<T>(made: impl FnOnce() -> Result<*mut T, c_int>) -> *mut T {
    // `boundary` returns a number.
    let mut result = std::ptr::null_mut();
    boundary(|| {
        result = made()?;
        Ok(0i32)
    });
    result
}

/// Checks a buffer of the caller for input.
pub(crate) unsafe fn bytes<'a>(buf: *const c_void, len: size_t) -> Result<&'a [u8], c_int> {
    if len == 0 {
        return Ok(&[]);
    }
    if buf.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: by contract.
    Ok(unsafe { std::slice::from_raw_parts(buf.cast(), len.min(isize::MAX as usize)) })
}

/// Checks a buffer of the caller for output.
pub(crate) unsafe fn buffer<'a>(buf: *mut c_void, len: size_t) -> Result<&'a mut [u8], c_int> {
    if len == 0 {
        return Ok(&mut []);
    }
    if buf.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: by contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(buf.cast(), len.min(isize::MAX as usize)) })
}

/// Dereferences a pointer to a structure of ours.
pub(crate) unsafe fn known<'a, T>(pointer: *const T) -> Result<&'a T, c_int> {
    // SAFETY: by contract.
    unsafe { pointer.as_ref() }.ok_or(libc::EFAULT)
}

/// The same as [`known`], for a structure that no other thread uses.
pub(crate) unsafe fn known_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, c_int> {
    // SAFETY: by contract.
    unsafe { pointer.as_mut() }.ok_or(libc::EFAULT)
}

/// A C string as text.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, c_int> {
    if pointer.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| {
        message::set("not text");
        libc::EINVAL
    })
}

/// Copies a structure to the caller, whose version of it has `size` bytes. It may be shorter than
/// `T`; bytes beyond `T` are zeroed.
pub(crate) unsafe fn give<T: Copy>(
    made: impl FnOnce() -> Result<T, c_int>,
    to: *mut T,
    size: size_t,
) -> Result<c_int, c_int> {
    if to.is_null() {
        return Err(libc::EFAULT);
    }
    let made = made()?;
    let len = size.min(size_of::<T>());
    // SAFETY: `to` has room for `size` bytes, by contract, and `made` has at least `len`.
    unsafe {
        std::ptr::write_bytes(to.cast::<u8>(), 0, size);
        std::ptr::copy_nonoverlapping((&raw const made).cast::<u8>(), to.cast(), len);
    }
    Ok(0)
}
