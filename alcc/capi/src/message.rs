// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages for errors that errno cannot express.
use std::cell::UnsafeCell;
use std::io::Write;
use std::os::raw::c_char;
use std::sync::OnceLock;

/// Maximum length of a line, its end included.
const MAX_LENGTH: usize = 512;

thread_local! {
    /// At a fixed address for the life of the thread, so that a pointer always leads to the newest
    /// line.
    static MESSAGE: UnsafeCell<[u8; MAX_LENGTH]> = const { UnsafeCell::new([0; MAX_LENGTH]) };
}

/// The variable that makes the library print every line too.
const DEBUG: &str = "ALCC_DEBUG";

/// Keeps one line for this thread.
pub(crate) fn set(text: &str) {
    let mut line = [0; MAX_LENGTH];
    let mut end = text.len().min(MAX_LENGTH - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let bytes = text.bytes().take(end).filter(|byte| *byte != 0);
    for (into, byte) in line.iter_mut().zip(bytes) {
        *into = byte;
    }
    // A thread that is ending needs no message.
    let _ = MESSAGE.try_with(|message| {
        // SAFETY: this thread's own, and no reference to it outlives a call.
        unsafe { *message.get() = line };
    });
    print(text);
}

/// Prints a line on standard error, if requested.
pub(crate) fn print(text: &str) {
    static ASKED: OnceLock<bool> = OnceLock::new();
    let asked = || alcc_sys::variable(DEBUG).is_some_and(|value| !value.is_empty() && value != "0");
    if *ASKED.get_or_init(asked) {
        // A missing reader is not a failure of the program.
        let _ = writeln!(std::io::stderr(), "libalcc: {text}");
    }
}

/// The last line of this thread; empty if there is none. The pointer stays valid as long as the
/// thread lives.
pub(crate) fn get() -> *const c_char {
    MESSAGE
        .try_with(|message| message.get().cast::<c_char>().cast_const())
        .unwrap_or(c"".as_ptr())
}
