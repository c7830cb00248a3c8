// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words for what errno cannot say.
use std::cell::RefCell;
use std::ffi::CString;
use std::os::raw::c_char;

thread_local! {
    static MESSAGE: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Keeps one line for this thread.
pub(crate) fn set(text: &str) {
    let line: Vec<u8> = text.bytes().filter(|b| *b != 0).collect();
    // A thread that is ending needs no message.
    let _ = MESSAGE.try_with(|message| *message.borrow_mut() = CString::new(line).ok());
}

/// The last line of this thread; empty if there is none. Valid until the thread's next call that fails.
pub(crate) fn get() -> *const c_char {
    MESSAGE
        .try_with(|message| message.borrow().as_ref().map(|line| line.as_ptr()))
        .ok()
        .flatten()
        .unwrap_or(c"".as_ptr())
}
